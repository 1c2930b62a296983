"""Android's conformance vectors for NNAPI: models with inputs, and how their results are judged.

The vectors are part of the reference models, so tests that use them are skipped without these.
"""

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nnconv.errors import NnconvError, UnsupportedError
from nnconv.formats.nnapi.types import NEWEST_LEVEL, NUMPY, OperandCode, OperationCode
from nnconv.formats.nnapi.wire import ChannelQuant, Graph, Lifetime, Model, Operand, Operation
from nnconv.ir import Model as IrModel
from support.places import find_shared_dir

LEVELS = {"V1_0": 1, "V1_1": 2, "V1_2": 3, "V1_3": 4, "AIDL_V1": 5, "AIDL_V2": 6, "AIDL_V3": 7}
"""The feature level of each version that a vector may name."""

LIFETIMES = {
    "TEMPORARY_VARIABLE": Lifetime.TEMPORARY,
    "SUBGRAPH_INPUT": Lifetime.INPUT,
    "SUBGRAPH_OUTPUT": Lifetime.OUTPUT,
    "CONSTANT_COPY": Lifetime.CONSTANT,
    "CONSTANT_REFERENCE": Lifetime.CONSTANT,
    "NO_VALUE": Lifetime.NO_VALUE,
    "SUBGRAPH": Lifetime.MODEL,
}

LOOSE = 5 * 2.0**-10
"""The tolerance of float16."""


@dataclass
class Expected:
    """What an output must be: dimensions and elements; ignored ones may be anything."""

    data: np.ndarray
    dimensions: tuple[int, ...]
    ignored: bool


@dataclass
class Vector:
    """A conformance test.

    ``inputs`` has None for an optional input that is left out. ``min_level`` is None where the
    vector states none.
    """

    name: str
    spec: str
    model: Model
    inputs: list[np.ndarray | None]
    expected: list[Expected]
    min_level: int | None
    expect_failure: bool
    multinomial_tolerance: float

    @property
    def level(self) -> int:
        """The level to build it at."""
        return self.min_level or NEWEST_LEVEL

    @property
    def operations(self) -> set[str]:
        """The operations in it."""
        return {op.code.name for _, graph in self.model.graphs() for op in graph.operations}

    @property
    def omitted(self) -> set[int]:
        """The operands that are inputs which a run gives nothing for."""
        pairs = zip(self.model.main.inputs, self.inputs, strict=True)
        return {index for index, data in pairs if data is None}

    @property
    def is_loose(self) -> bool:
        """Whether float32 results may be as coarse as float16."""
        half = OperandCode.TENSOR_FLOAT16
        return self.model.relaxed or any(
            operand.type is half for _, graph in self.model.graphs() for operand in graph.operands
        )


def find_vectors() -> Path | None:
    """The file of the vectors, if it is here."""
    folder = find_shared_dir()
    path = None if folder is None else folder / "nnapi" / "cts_handed.jsonl.gz"
    return path if path is not None and path.is_file() else None


def read_vectors(path: Path, *, part: int = 0, parts: int = 1) -> Iterator[Vector]:
    """The vectors of a file; only every ``parts``-th, from number ``part`` on."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % parts == part:
                yield _vector(json.loads(line))


@cache
def vectors_of(path: Path) -> tuple[Vector, ...]:
    """All vectors of a file, read once a process."""
    return tuple(read_vectors(path))


def _vector(source: dict[str, Any]) -> Vector:
    main, contents = _graph(source["main"])
    referenced = [_graph(entry)[0] for entry in source["referenced"]]
    ignored = [operand["ignored"] for operand in source["main"]["operands"]]
    return Vector(
        name=source["name"],
        spec=source["spec"],
        model=Model(main, referenced, relaxed=source["relaxed"]),
        inputs=[_request(contents[i]) for i in main.inputs],
        expected=[
            Expected(contents[i], main.operands[i].dimensions, ignored[i]) for i in main.outputs
        ],
        min_level=LEVELS.get(source["min_version"]),
        expect_failure=source["expect_failure"],
        multinomial_tolerance=source["multinomial_tolerance"],
    )


def _graph(source: dict[str, Any]) -> tuple[Graph, list[np.ndarray]]:
    """A graph, and the data of each of its operands (flat where they don't fill the dimensions)."""
    operands, contents = [], []
    for entry in source["operands"]:
        operand, data = _operand(entry)
        operands.append(operand)
        contents.append(data)
    operations = [
        Operation(OperationCode[op["type"]], op["inputs"], op["outputs"])
        for op in source["operations"]
    ]
    return Graph(operands, operations, source["inputs"], source["outputs"]), contents


def _operand(source: dict[str, Any]) -> tuple[Operand, np.ndarray]:
    name = source["type"]
    kind = OperandCode.MODEL if name == "SUBGRAPH" else OperandCode[name]
    lifetime = LIFETIMES[source["lifetime"]]
    raw = base64.b64decode(source["data"])
    data = np.frombuffer(raw, NUMPY.get(kind, np.dtype("<u4")))
    dims = tuple(source["dims"])
    if data.size == np.prod(dims, dtype=np.int64):
        data = data.reshape(dims)
    channels = source["channel_quant"]
    quant = None
    if channels is not None:
        scales = [float(np.float32(scale)) for scale in channels["scales"]]
        quant = ChannelQuant(channels["dim"], scales)
    value: np.ndarray | int | None = None
    if lifetime is Lifetime.CONSTANT:
        value = data
    elif lifetime is Lifetime.MODEL:
        value = int(data.reshape(-1)[0])
    operand = Operand(
        kind,
        dims,
        scale=float(np.float32(source["scale"])),
        zero_point=source["zero_point"],
        lifetime=lifetime,
        channel_quant=quant,
        value=value,
    )
    return operand, data


def _request(data: np.ndarray) -> np.ndarray | None:
    """What to give for an input: None where it is left out."""
    return data if data.size else None


def judge(vector: Vector, outputs: list[np.ndarray]) -> str:
    """What is wrong with the outputs of a run; empty if nothing is."""
    if len(outputs) != len(vector.expected):
        return f"{len(outputs)} outputs, expected {len(vector.expected)}"
    kinds = [vector.model.main.operands[i].type for i in vector.model.main.outputs]
    for number, (kind, want, got) in enumerate(zip(kinds, vector.expected, outputs, strict=True)):
        if want.ignored:
            continue
        if got.shape != want.dimensions:
            return f"output {number} has the shape {got.shape}, expected {want.dimensions}"
        if vector.multinomial_tolerance:
            fault = _judge_samples(vector, got)
        else:
            fault = _judge_values(vector, kind, want.data.reshape(-1), got.reshape(-1))
        if fault:
            return f"output {number}: {fault}"
    return ""


def tolerances(vector: Vector, kind: OperandCode) -> tuple[float, float]:
    """The absolute and the relative tolerance of an output."""
    name = kind.name
    if kind is OperandCode.TENSOR_FLOAT16 or (
        kind is OperandCode.TENSOR_FLOAT32 and vector.is_loose
    ):
        return LOOSE, LOOSE
    if kind is OperandCode.TENSOR_FLOAT32:
        return 1e-5, 5 * 2.0**-23
    if name.startswith("TENSOR_QUANT8"):
        return (3.0 if "mobilenet" in vector.name else 1.0), 0.0
    if kind in (OperandCode.TENSOR_BOOL8, OperandCode.BOOL):
        return 0.0, 0.0
    return 1.0, 0.0


def _judge_values(vector: Vector, kind: OperandCode, want: np.ndarray, got: np.ndarray) -> str:
    absolute, relative = tolerances(vector, kind)
    exact, seen = want.astype(np.float64), got.astype(np.float64)
    fine = np.abs(seen - exact) <= absolute + relative * np.abs(exact)
    if fine.all():
        return ""
    worst = int(np.argmax(np.where(fine, -1.0, np.nan_to_num(np.abs(seen - exact), nan=np.inf))))
    return (
        f"{np.count_nonzero(~fine)} of {fine.size} elements are off, "
        f"element {worst} is {seen[worst]:g}, expected {exact[worst]:g}"
    )


def _judge_samples(vector: Vector, got: np.ndarray) -> str:
    logits = vector.inputs[0]
    assert logits is not None
    row = logits.reshape(-1)[: logits.shape[-1]].astype(np.float64)
    chances = np.exp(row - row.max())
    chances /= chances.sum()
    shares = np.bincount(got.reshape(-1), minlength=len(row)) / got.shape[-1]
    off = np.abs(shares - chances).max()
    return "" if off <= vector.multinomial_tolerance else f"a class's share is off by {off:g}"


def subject_of(vector: Vector) -> str:
    """The operation that a vector is about: its rarest, the ADDs that feed it left aside."""
    names = [op.code.name for op in vector.model.main.operations]
    others = [name for name in names if name != "ADD"]
    return max(others, key=lambda name: (name in ("IF", "WHILE"), names.index(name)), default="ADD")


def requests_of(vector: Vector, model: IrModel) -> dict[str, np.ndarray]:
    """What to feed the inputs of a vector's model in the IR."""
    main = vector.model.main
    given = [
        (index, data)
        for index, data in zip(main.inputs, vector.inputs, strict=True)
        if data is not None
    ]
    return {
        value.name: data.astype(value.dtype.numpy).reshape(main.operands[index].dimensions)
        for (index, data), value in zip(given, model.graph.inputs, strict=True)
    }


def run_on_reference(vector: Vector) -> list[np.ndarray]:
    """The outputs of a vector's model on the reference backend.

    Raises:
        NnconvError: it can't be imported or run.
    """
    from nnconv.backends.reference.executor import run_graph

    from nnconv.formats.nnapi.reader import import_model
    from nnconv.ir.verifier import verify_model

    model = import_model(vector.model, omitted=vector.omitted)
    verify_model(model)
    return run_graph(model.graph, list(requests_of(vector, model).values()))


def run_on(vector: Vector, devices: Sequence[str]) -> tuple[list[np.ndarray], str]:
    """The outputs of a vector's model on devices, and on which of them it ran.

    ``onnxruntime:cpu`` is one device, ``onnxruntime:cpu+reference`` are pieces on two. The place is
    empty where the model could be read with the values of its inputs alone, on the reference.

    Raises:
        NnconvError: it can't be imported or run.
    """
    from nnconv.runtime.core.program import Program
    from nnconv.runtime.nnapi.source import ModelSource

    operands = vector.model.main.operands
    program = Program(ModelSource(vector.model), devices)
    pairs = zip(vector.model.main.inputs, vector.inputs, strict=True)
    arrays = [None if a is None else a.reshape(operands[i].dimensions) for i, a in pairs]
    outputs = program.run(arrays)
    return outputs, program.device_for(tuple(None if a is None else a.shape for a in arrays))


def verdict_on(vector: Vector, devices: Sequence[str]) -> tuple[str, str]:
    """``whole``, ``partly``, ``reference`` or ``failed`` on devices, and why or where.

    ``whole`` is what ran without a piece on the reference. What must fail and does is ``passed``.
    """
    try:
        outputs, place = run_on(vector, devices)
    except NnconvError as error:
        return ("passed", "") if vector.expect_failure else ("failed", str(error))
    if vector.expect_failure:
        return "failed", "it must fail, but gives results"
    if reason := judge(vector, outputs):
        return "failed", reason
    used = [name for name in place.split("+") if name]
    if used and "reference" not in used:
        return "whole", place
    return "partly" if len(used) > 1 else "reference", place


def verdict_of(vector: Vector) -> tuple[str, str]:
    """``passed``, ``failed`` or ``unsupported`` on the reference backend, and why."""
    try:
        outputs = run_on_reference(vector)
    except UnsupportedError as error:
        return "unsupported", str(error)
    except NnconvError as error:
        return ("passed", "") if vector.expect_failure else ("failed", str(error))
    if vector.expect_failure:
        return "failed", "it must fail, but gives results"
    reason = judge(vector, outputs)
    return ("failed", reason) if reason else ("passed", "")
