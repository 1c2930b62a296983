"""NNAPI models as JSON data: what a .nnapi file has in its metadata, and its .json twin as a whole.

``schemas/nnapi/model.schema.json`` defines the form. It says no more than NNAPI's calls would need;
whether a model keeps NNAPI's rules is for :mod:`nnconv.formats.nnapi.check` to tell.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from nnconv.errors import InvalidModelError
from nnconv.formats.json_check import JsonError, compile_schema
from nnconv.formats.nnapi.types import (
    DTYPES,
    NUMPY,
    SCALARS,
    OperandCode,
    OperationCode,
)
from nnconv.formats.nnapi.wire import ChannelQuant, Graph, Lifetime, Model, Operand, Operation
from nnconv.ir.dtype import DType
from nnconv.schemas import read_schema

FORMAT = "nnconv.nnapi"
VERSION = 1

MOST_INLINE = 16
"""Constants of so many elements stand in the JSON, so that a person can read the graph."""

Array: TypeAlias = "np.ndarray[Any, Any]"

Place: TypeAlias = Callable[[Operand, Array], dict[str, Any]]
"""Puts a larger constant somewhere and gives the entries that tell where."""


@cache
def _schema() -> Callable[[Any], None]:
    return compile_schema(read_schema("nnapi/model.schema.json"))


# ------------------------------------------------------------------------ writing


def to_plain(model: Model, place: Place) -> dict[str, Any]:
    """The model as JSON data; ``place`` takes the constants that are too large for it."""
    plain: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    if model.relaxed:
        plain["relaxed"] = True
    plain["main"] = _graph(model.main, place)
    if model.referenced:
        plain["referenced"] = [_graph(graph, place) for graph in model.referenced]
    return plain


def _graph(graph: Graph, place: Place) -> dict[str, Any]:
    plain: dict[str, Any] = {"name": graph.name} if graph.name else {}
    plain["operands"] = [_operand(operand, place) for operand in graph.operands]
    plain["operations"] = [
        {"type": op.code.name, "inputs": list(op.inputs), "outputs": list(op.outputs)}
        for op in graph.operations
    ]
    plain["inputs"] = list(graph.inputs)
    plain["outputs"] = list(graph.outputs)
    return plain


def _operand(operand: Operand, place: Place) -> dict[str, Any]:
    plain: dict[str, Any] = {"type": operand.type.name}
    if operand.name:
        plain["name"] = operand.name
    if operand.dimensions:
        plain["dimensions"] = list(operand.dimensions)
    if operand.scale:
        plain["scale"] = _shortest(np.float32(operand.scale))
    if operand.zero_point:
        plain["zero_point"] = operand.zero_point
    if operand.channel_quant is not None:
        scales = [_shortest(np.float32(scale)) for scale in operand.channel_quant.scales]
        plain["channel_quant"] = {"dim": operand.channel_quant.dim, "scales": scales}
    plain["lifetime"] = operand.lifetime.value
    if operand.lifetime is Lifetime.MODEL:
        plain["model"] = operand.value
    elif operand.lifetime is Lifetime.CONSTANT:
        data = operand.data
        if data is None:
            raise InvalidModelError(f"{operand!r} is a constant without a value")
        values = plain_values(operand, data) if data.size <= MOST_INLINE else None
        plain |= place(operand, data) if values is None else {"value": values}
    return plain


def plain_values(operand: Operand, data: Array) -> Any:
    """A constant's elements as JSON data; None where these can't say them exactly."""
    flat = data.reshape(-1)
    values: list[Any]
    if DTYPES[operand.type] is DType.BOOL:
        values = [bool(v) if v in (0, 1) else int(v) for v in flat.tolist()]
    elif data.dtype.kind == "f":
        if not np.isfinite(data).all():
            return None
        values = [_shortest(v) for v in flat]
    else:
        values = flat.tolist()
    return values[0] if operand.type in SCALARS and len(values) == 1 else values


def _shortest(number: np.floating[Any]) -> float:
    """The decimal number of the fewest digits that is ``number`` once it is rounded."""
    short = float(str(number))
    return short if type(number)(short) == number else float(number)


# ------------------------------------------------------------------------ reading


def from_plain(plain: Any, tensors: Mapping[str, tuple[str, Array]], *, path: str = "") -> Model:
    """The model of JSON data.

    Args:
        plain: the data.
        tensors: the tensors that constants may lie in: name to (element type, elements).
        path: the file, for messages.

    Raises:
        InvalidModelError: the data aren't a model, or its parts don't fit together.
    """
    try:
        _schema()(plain)
        main = _read_graph(plain["main"], "main", tensors)
        referenced = [
            _read_graph(graph, f"referenced[{index}]", tensors)
            for index, graph in enumerate(plain.get("referenced", []))
        ]
    except JsonError as error:
        raise InvalidModelError(str(error), path=path) from error
    return Model(main, referenced, relaxed=plain.get("relaxed", False))


def _read_graph(
    plain: dict[str, Any], place: str, tensors: Mapping[str, tuple[str, Array]]
) -> Graph:
    operands = []
    for index, entry in enumerate(plain["operands"]):
        try:
            operands.append(_read_operand(entry, tensors))
        except JsonError as error:
            raise JsonError(f"{place}.operands[{index}]: {error}") from error
    count = len(operands)
    operations = []
    for index, entry in enumerate(plain["operations"]):
        if any(i >= count for i in (*entry["inputs"], *entry["outputs"])):
            raise JsonError(f"{place}.operations[{index}]: an operand beyond the {count} there are")
        operations.append(
            Operation(OperationCode[entry["type"]], entry["inputs"], entry["outputs"])
        )
    if any(i >= count for i in (*plain["inputs"], *plain["outputs"])):
        raise JsonError(f"{place}: an input or output beyond the {count} operands there are")
    return Graph(
        operands, operations, plain["inputs"], plain["outputs"], name=plain.get("name", "")
    )


def _read_operand(plain: dict[str, Any], tensors: Mapping[str, tuple[str, Array]]) -> Operand:
    lifetime = Lifetime(plain["lifetime"])
    channels = plain.get("channel_quant")
    operand = Operand(
        OperandCode[plain["type"]],
        plain.get("dimensions", ()),
        scale=_scale(plain.get("scale", 0)),
        zero_point=plain.get("zero_point", 0),
        lifetime=lifetime,
        channel_quant=channels
        and ChannelQuant(channels["dim"], [_scale(scale) for scale in channels["scales"]]),
        name=plain.get("name", ""),
    )
    given = [key for key in ("value", "base64", "tensor", "model") if key in plain]
    wanted = {Lifetime.CONSTANT: ("value", "base64", "tensor"), Lifetime.MODEL: ("model",)}
    if lifetime not in wanted:
        if given:
            raise JsonError(f"{given[0]} beside the lifetime {lifetime.value}")
        return operand
    if len(given) != 1 or given[0] not in wanted[lifetime]:
        raise JsonError(
            f"{', '.join(given) or 'no value'} beside the lifetime {lifetime.value}, "
            f"must be one of {', '.join(wanted[lifetime])}"
        )
    operand.value = plain["model"] if lifetime is Lifetime.MODEL else _read(plain, operand, tensors)
    return operand


def _scale(number: float) -> float:
    if not number:
        return 0.0
    with np.errstate(over="ignore"):
        scale = float(np.float32(number)) if abs(number) < 1e39 else float("inf")
    if not np.isfinite(scale):
        raise JsonError("a scale is no float32 number")
    return scale


def _read(
    plain: dict[str, Any], operand: Operand, tensors: Mapping[str, tuple[str, Array]]
) -> Array:
    """The elements of a constant."""
    if operand.type is OperandCode.MODEL:
        raise JsonError("a model can't be a constant")
    dtype = NUMPY[operand.type]
    if "tensor" in plain:
        name = plain["tensor"]
        if name not in tensors:
            raise JsonError(f"there is no tensor {name!r}")
        code, data = tensors[name]
        if data.dtype != dtype:
            raise JsonError(f"tensor {name!r} has elements of {code}, must be {operand.type.name}")
        if data.shape != operand.dimensions:
            raise JsonError(
                f"tensor {name!r} has the shape {list(data.shape)}, "
                f"must have {list(operand.dimensions)}"
            )
        return data
    data = _inline(plain["value"], dtype) if "value" in plain else _decoded(plain["base64"], dtype)
    wanted = operand.nbytes // dtype.itemsize
    if not operand.is_known or data.size != wanted:
        shape = list(operand.dimensions)
        raise JsonError(f"{data.size} elements for {operand.type.name} {shape}")
    return data.reshape(operand.dimensions)


def _decoded(text: str, dtype: np.dtype[Any]) -> Array:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise JsonError(f"its base64 is broken: {error}") from error
    if len(raw) % dtype.itemsize:
        raise JsonError(f"{len(raw)} bytes are no whole number of elements")
    return np.frombuffer(raw, dtype)


def _inline(value: Any, dtype: np.dtype[Any]) -> Array:
    values = value if isinstance(value, list) else [value]
    if dtype.kind != "f":
        info = np.iinfo(dtype)
        for entry in values:
            if isinstance(entry, float) or not info.min <= entry <= info.max:
                raise JsonError(f"an element is no {dtype.name}")
        return np.array(values, dtype)
    if any(isinstance(entry, bool) or abs(entry) > 1e39 for entry in values):
        raise JsonError(f"an element is no {dtype.name}")
    with np.errstate(over="ignore"):
        data = np.array(values, np.float64).astype(dtype)
    if not np.isfinite(data).all():
        raise JsonError(f"an element is no {dtype.name}")
    return data
