"""What nnconv notes in an ONNX file's metadata, for which ONNX has no place, read back.

The writer notes a signature's names, which inputs and outputs are states, the quantization of the
interface, the format that the model came from, and which weights were codes beside floats there.
Notes that don't suit the graph (another tool may have changed it) count for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Signature, State, Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType, static_shape

SIGNATURE, STATES, QUANTIZATION = "nnconv.signature", "nnconv.states", "nnconv.quantization"
SOURCE, HYBRID = "nnconv.source", "nnconv.hybrid"
"""Keys of the entries."""


def restore(plain: Signature, metadata: Mapping[str, str]) -> Signature:
    """The entry point with the names, states and parameters that its file notes."""
    inputs = {v.name: v for v in plain.graph.inputs}
    outputs = dict(zip(plain.output_names, plain.graph.outputs, strict=True))
    for name, quant in noted_quants(metadata).items():
        value = inputs.get(name)
        if value is None or value.quant is not None or value.use_count or quant.axis is not None:
            continue
        if value.dtype.is_integer:
            value.type = TensorType(value.dtype, value.shape, quant)
    states = _states(metadata, inputs, outputs)
    if states:
        first = len(plain.graph.inputs) - len(states)
        if [s.input for s in states] != plain.graph.inputs[first:]:
            states = []
    counts = len(plain.graph.inputs) - len(states), len(plain.graph.outputs) - len(states)
    taken, given = (
        {tensor: name for name, tensor in noted_names(metadata, side).items()}
        for side in ("inputs", "outputs")
    )
    return Signature(
        str(_mapping(_entry(metadata, SIGNATURE, dict)).get("key", "")),
        plain.graph,
        tuple(taken.get(n, n) for n in plain.input_names[: counts[0]]),
        tuple(given.get(n, n) for n in plain.output_names[: counts[1]]),
        tuple(states),
    )


def noted_names(metadata: Mapping[str, str], side: str) -> dict[str, str]:
    """The tensors of the file by the names that a signature has for its ``inputs`` or ``outputs``.

    Those are the two that ``side`` may be.
    """
    noted = _mapping(_mapping(_entry(metadata, SIGNATURE, dict)).get(side))
    return {name: str(tensor) for name, tensor in noted.items()}


def noted_source(metadata: Mapping[str, str]) -> str:
    """The format that the model was written from: its nodes mean no more than those of that format.

    Such a file's indices don't count from the end, for one, if TFLite's don't.
    """
    found = _entry(metadata, SOURCE, str)
    return found if isinstance(found, str) and found in _SOURCES else "onnx"


_SOURCES = frozenset({"tflite"})


def noted_hybrids(metadata: Mapping[str, str]) -> frozenset[str]:
    """Constants that the source's kernels read as codes beside floats."""
    return frozenset(name for name in _entry(metadata, HYBRID, list) or () if type(name) is str)


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, dict) else {}


def _entry(metadata: Mapping[str, str], key: str, kind: type) -> Any:
    try:
        found = json.loads(metadata.get(key, "null"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, kind) else None


def noted_quants(metadata: Mapping[str, str]) -> dict[str, Quant]:
    """The parameters that are noted of inputs and outputs, as far as they are sound."""
    found = {}
    for name, entry in _mapping(_entry(metadata, QUANTIZATION, dict)).items():
        try:
            scale, zero_point = entry["scale"], entry["zero_point"]
            if len(scale) == 1:
                found[name] = Quant.per_tensor(float(scale[0]), int(zero_point[0]))
            elif "axis" in entry and len(scale) == len(zero_point):
                points = [int(point) for point in zero_point]
                scales = [float(number) for number in scale]
                found[name] = Quant.per_channel(scales, points, axis=int(entry["axis"]))
        except (LookupError, TypeError, ValueError, OverflowError):
            continue
    return found


class NotedState(NamedTuple):
    """A state as a file notes it.

    Attributes:
        input, output: their names.
        initial: what it begins with; a number stands for all elements.
        name: its own.
    """

    input: str
    output: str
    initial: Any
    name: str

    def begin(self, dtype: DType, shape: tuple[int, ...]) -> np.ndarray | None:
        """What the state begins with; None where that is no array of the type and shape."""
        try:
            return np.broadcast_to(np.asarray(self.initial, dtype.numpy), shape)
        except (TypeError, ValueError, OverflowError):
            return None


def noted_states(metadata: Mapping[str, str]) -> list[NotedState]:
    """The states that are noted, as far as they name an input and an output."""
    found = []
    for entry in _entry(metadata, STATES, list) or ():
        fields = _mapping(entry)
        before, after = fields.get("input"), fields.get("output")
        if isinstance(before, str) and isinstance(after, str) and "initial" in fields:
            name = str(fields.get("name", before))
            found.append(NotedState(before, after, fields["initial"], name))
    return found


def _states(
    metadata: Mapping[str, str], inputs: Mapping[str, Value], outputs: Mapping[str, Value]
) -> list[State]:
    states = []
    for noted in noted_states(metadata):
        before, after = inputs.get(noted.input), outputs.get(noted.output)
        shape = None if before is None else static_shape(before.shape)
        if before is None or after is None or shape is None:
            return []
        initial = noted.begin(before.dtype, shape)
        if initial is None:
            return []
        states.append(State(before, after, initial, noted.name))
    return states
