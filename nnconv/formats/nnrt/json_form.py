"""NNRt models as JSON data: what a .nnrt file has in its metadata, and its .json twin as a whole.

``schemas/nnrt/model.schema.json`` defines the form. It says no more than NNRt's calls would need;
whether a model keeps NNRt's rules is for :mod:`nnconv.formats.nnrt.check` to tell.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from nnconv.errors import InvalidModelError
from nnconv.formats.constants import (
    ENTRIES,
    Place,
    Tensors,
    plain_constant,
    read_constant,
)
from nnconv.formats.container import check_places
from nnconv.formats.json_schema import JsonError, each
from nnconv.formats.marks import KEYS
from nnconv.formats.nnrt.types import NEWEST, NUMPY, STORAGE, DataType, OperationType, TensorType
from nnconv.formats.nnrt.wire import BITS, Graph, Operation, QuantParams, Tensor

FORMAT = KEYS["nnrt"]
VERSION = 1


# ------------------------------------------------------------------------ writing


def to_plain(graph: Graph, place: Place) -> dict[str, Any]:
    """The model as JSON data; ``place`` takes the constants that are too large for it."""
    plain: dict[str, Any] = {"format": FORMAT, "version": VERSION, "api": graph.api}
    if graph.name:
        plain["name"] = graph.name
    plain["tensors"] = [_tensor(tensor, place) for tensor in graph.tensors]
    plain["operations"] = [_operation(operation) for operation in graph.operations]
    plain["inputs"] = list(graph.inputs)
    plain["outputs"] = list(graph.outputs)
    return plain


def _operation(operation: Operation) -> dict[str, Any]:
    plain: dict[str, Any] = {"op": operation.type.name}
    if operation.params:
        plain["params"] = list(operation.params)
    return plain | {"inputs": list(operation.inputs), "outputs": list(operation.outputs)}


def _tensor(tensor: Tensor, place: Place) -> dict[str, Any]:
    plain: dict[str, Any] = {"data_type": tensor.data_type.name}
    if tensor.is_param:
        plain["type"] = tensor.type.name
    if tensor.name:
        plain["name"] = tensor.name
    if tensor.dimensions:
        plain["dimensions"] = list(tensor.dimensions)
    if tensor.quant is not None:
        plain["scales"] = list(tensor.quant.scales)
        plain["zero_points"] = list(tensor.quant.zero_points)
        if set(tensor.quant.bits) - {BITS}:
            plain["bits"] = list(tensor.quant.bits)
    if tensor.data is not None:
        if tensor.data_type not in STORAGE:
            raise InvalidModelError(f"{tensor!r} has data, but no type of elements")
        code = STORAGE[tensor.data_type][1]
        plain |= plain_constant(tensor.data, code, place, scalar=not tensor.dimensions)
    return plain


# ------------------------------------------------------------------------ reading


def from_plain(plain: Any, constants: Tensors) -> Graph:
    """The model of JSON data.

    Args:
        plain: the data, which keep the schema.
        constants: the tensors that constants may lie in.

    Raises:
        JsonError: the model's parts don't fit together.
    """
    tensors = each(plain["tensors"], partial(_read_tensor, constants=constants), "tensors")
    check_places(plain, "a tensor", len(tensors))
    operations = [
        Operation(
            OperationType[entry["op"]], entry.get("params", ()), entry["inputs"], entry["outputs"]
        )
        for entry in plain["operations"]
    ]
    return Graph(
        tensors,
        operations,
        plain["inputs"],
        plain["outputs"],
        api=plain.get("api", NEWEST),
        name=plain.get("name", ""),
    )


def _read_tensor(plain: dict[str, Any], constants: Tensors) -> Tensor:
    tensor = Tensor(
        DataType[plain["data_type"]],
        plain.get("dimensions", ()),
        type=TensorType[plain.get("type", "TENSOR")],
        quant=_read_quant(plain),
        name=plain.get("name", ""),
    )
    given = [key for key in ENTRIES if key in plain]
    if len(given) > 1:
        raise JsonError(f"{', '.join(given)}: must be one of them")
    if given:
        if not tensor.is_known or tensor.data_type not in NUMPY:
            kind = f"{tensor.data_type.name} {list(tensor.dimensions)}"
            raise JsonError(f"{given[0]} of {kind}, type and extents must be known")
        dtype = NUMPY[tensor.data_type]
        tensor.data = read_constant(
            plain, dtype, tensor.dimensions, constants, kind=tensor.data_type.name
        )
    return tensor


def _read_quant(plain: dict[str, Any]) -> QuantParams | None:
    scales, points, bits = (plain.get(key) for key in ("scales", "zero_points", "bits"))
    if scales is None:
        if points is not None or bits is not None:
            raise JsonError("zero points or bits without scales")
        return None
    points = [0] * len(scales) if points is None else points
    if len(points) != len(scales) or len(bits or scales) != len(scales):
        raise JsonError("scales, zero points and bits must be as many")
    try:
        return QuantParams([float(scale) for scale in scales], points, bits)
    except OverflowError as error:
        raise JsonError("a scale is no float64 number") from error
