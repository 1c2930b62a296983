"""NNAPI models as JSON data: what a .nnapi file has in its metadata, and its .json twin as a whole.

``schemas/nnapi/model.schema.json`` defines the form. It says no more than NNAPI's calls would need;
whether a model keeps NNAPI's rules is for :mod:`nnconv.formats.nnapi.check` to tell.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from nnconv.errors import InvalidModelError
from nnconv.formats.constants import (
    ENTRIES,
    Array,
    Place,
    Tensors,
    plain_constant,
    read_constant,
    shortest,
)
from nnconv.formats.container import check_places
from nnconv.formats.json_schema import JsonError, each
from nnconv.formats.marks import KEYS
from nnconv.formats.nnapi.types import (
    NUMPY,
    SCALARS,
    OperandCode,
    OperationCode,
)
from nnconv.formats.nnapi.wire import ChannelQuant, Graph, Lifetime, Model, Operand, Operation

FORMAT = KEYS["nnapi"]
VERSION = 1

TENSOR_CODES = {
    OperandCode.TENSOR_FLOAT32: "F32",
    OperandCode.TENSOR_INT32: "I32",
    OperandCode.TENSOR_QUANT8_ASYMM: "U8",
    OperandCode.TENSOR_QUANT16_SYMM: "I16",
    OperandCode.TENSOR_FLOAT16: "F16",
    OperandCode.TENSOR_BOOL8: "BOOL",
    OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL: "I8",
    OperandCode.TENSOR_QUANT16_ASYMM: "U16",
    OperandCode.TENSOR_QUANT8_SYMM: "I8",
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: "I8",
    OperandCode.FLOAT32: "F32",
    OperandCode.INT32: "I32",
    OperandCode.UINT32: "U32",
    OperandCode.BOOL: "BOOL",
    OperandCode.FLOAT16: "F16",
}
"""What a .nnapi file calls the elements of each type."""


# ------------------------------------------------------------------------ writing


def to_plain(model: Model, place: Place) -> dict[str, Any]:
    """The model as JSON data; ``place`` takes the constants that are too large for it."""
    plain: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    if model.relaxed:
        plain["relaxed"] = True
    plain["main"] = _graph(model.main, place)
    if model.referenced:
        plain["referenced"] = [_graph(graph, place) for graph in model.referenced.values()]
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
        plain["scale"] = shortest(np.float32(operand.scale))
    if operand.zero_point:
        plain["zero_point"] = operand.zero_point
    if operand.channel_quant is not None:
        scales = [shortest(np.float32(scale)) for scale in operand.channel_quant.scales]
        plain["channel_quant"] = {"dim": operand.channel_quant.dim, "scales": scales}
    plain["lifetime"] = operand.lifetime.value
    if operand.lifetime is Lifetime.MODEL:
        plain["model"] = operand.value
    elif operand.lifetime is Lifetime.CONSTANT:
        data = operand.data
        if data is None:
            raise InvalidModelError(f"{operand!r} is a constant without a value")
        code, scalar = TENSOR_CODES[operand.type], operand.type in SCALARS
        plain |= plain_constant(data, code, place, scalar=scalar)
    return plain


# ------------------------------------------------------------------------ reading


def from_plain(plain: Any, tensors: Tensors) -> Model:
    """The model of JSON data.

    Args:
        plain: the data, which keep the schema.
        tensors: the tensors that constants may lie in: name to (element type, elements).

    Raises:
        JsonError: the model's parts don't fit together.
    """
    main = _read_graph(plain["main"], "main", tensors)
    referenced = [
        _read_graph(graph, f"referenced[{index}]", tensors)
        for index, graph in enumerate(plain.get("referenced", []))
    ]
    return Model(main, referenced, relaxed=plain.get("relaxed", False))


def _read_graph(plain: dict[str, Any], place: str, tensors: Tensors) -> Graph:
    read = partial(_read_operand, tensors=tensors)
    operands = each(plain["operands"], read, f"{place}.operands")
    check_places(plain, "an operand", len(operands), place)
    operations = [
        Operation(OperationCode[entry["type"]], entry["inputs"], entry["outputs"])
        for entry in plain["operations"]
    ]
    return Graph(
        operands, operations, plain["inputs"], plain["outputs"], name=plain.get("name", "")
    )


def _read_operand(plain: dict[str, Any], tensors: Tensors) -> Operand:
    lifetime = Lifetime(plain["lifetime"])
    channels = plain.get("channel_quant")
    operand = Operand(
        OperandCode[plain["type"]],
        plain.get("dimensions", ()),
        scale=_scales([scale])[0] if (scale := plain.get("scale")) else 0.0,
        zero_point=plain.get("zero_point", 0),
        lifetime=lifetime,
        channel_quant=channels and ChannelQuant(channels["dim"], _scales(channels["scales"])),
        name=plain.get("name", ""),
    )
    given = [key for key in (*ENTRIES, "model") if key in plain]
    wanted = {Lifetime.CONSTANT: ENTRIES, Lifetime.MODEL: ("model",)}
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


def _scales(numbers: list[float]) -> list[float]:
    try:
        wide = np.array(numbers, np.float64) + 0.0  # no zero has a sign
    except OverflowError as error:
        raise JsonError(_NO_SCALE) from error
    with np.errstate(over="ignore"):
        scales = wide.astype(np.float32)
    if not np.isfinite(scales).all():
        raise JsonError(_NO_SCALE)
    found: list[float] = scales.tolist()
    return found


_NO_SCALE = "a scale is no float32 number"


def _read(plain: dict[str, Any], operand: Operand, tensors: Tensors) -> Array:
    """The elements of a constant."""
    if operand.type is OperandCode.MODEL:
        raise JsonError("a model can't be a constant")
    if not operand.is_known:
        shape = list(operand.dimensions)
        raise JsonError(f"a constant of {operand.type.name} {shape}, all extents must be known")
    return read_constant(
        plain, NUMPY[operand.type], operand.dimensions, tensors, kind=operand.type.name
    )
