"""Moves of small numbers that a file makes in a wider type, for want of kernels."""

from __future__ import annotations

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation, Op, QuantRule, Role
from nnconv.ir.types import TensorType
from nnconv.ops.elementwise import Maximum, Minimum, Select
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Concat
from nnconv.ops.slices import Pad

_HOLDS: dict[DType, int] = {
    DType.FLOAT16: 11,
    DType.FLOAT32: 24,
    DType.FLOAT64: 53,
}
"""How many bits of a whole number a float type holds, its sign left out."""


def narrow_moves(graph: Graph) -> None:
    """Let what is cast to a wider type, moved and cast back be moved as it is."""
    for node in list(graph.nodes):
        if node.graph is None or not isinstance(node.op, Cast):
            continue
        x, y = node.inputs[0], node.outputs[0]
        move = None if x is None else x.producer
        if move is None or x is None or x.use_count != 1 or x in graph.outputs:
            continue
        if y.quant is not None or not _is_whole(y.dtype) or not _is_move(move, y.dtype):
            continue
        operands = [_narrowed(v, y.dtype, place, move) for place, v in enumerate(move.inputs)]
        if any(o is None and v is not None for o, v in zip(operands, move.inputs, strict=True)):
            continue
        if all(v is None or v.data is not None for v in operands):
            continue
        try:
            kinds = move.op.infer([None if v is None else v.type for v in operands])
        except ValueError:
            continue
        if kinds != (y.type,):
            continue
        makers = [v.producer for v in move.inputs if v is not None and v.producer is not None]
        node.op = move.op
        node.set_inputs(operands)
        graph.remove(move)
        for maker in makers:
            if maker.graph is graph and not any(v.is_wanted for v in maker.outputs):
                graph.remove(maker)


def _is_whole(dtype: DType) -> bool:
    return dtype.is_integer or dtype is DType.BOOL


def _is_move(node: Node, narrow: DType) -> bool:
    op: Op = node.op
    if node.bodies or len(node.outputs) != 1:
        return False
    if isinstance(op, Concat):
        return op.activation is Activation.NONE
    if isinstance(op, Pad):
        least, greatest = (0, 1) if narrow is DType.BOOL else narrow.int_range
        return float(op.value).is_integer() and least <= op.value <= greatest
    return op.quant_rule is QuantRule.CODES or isinstance(op, Select | Maximum | Minimum)


def _narrowed(value: Value | None, dtype: DType, place: int, move: Node) -> Value | None:
    """An operand in the narrow type; the operand itself where it isn't what is moved."""
    role = move.op.role(place)
    if value is None or role is Role.INDEX or (isinstance(move.op, Select) and place == 0):
        return value
    node = value.producer
    if node is not None and isinstance(node.op, Cast):
        source = node.inputs[0]
        if source is None or source.dtype is not dtype or source.quant is not None:
            return None
        return source if _holds(value.dtype, dtype) else None
    if value.data is None or value.quant is not None or not _holds(value.dtype, dtype):
        return None
    with np.errstate(invalid="ignore"):  # what doesn't fit is seen to below
        narrow = value.data.astype(dtype.numpy)
    if not np.array_equal(narrow.astype(value.data.dtype), value.data):
        return None
    kind = TensorType(dtype, value.shape)
    return Value(value.name, kind, data=narrow, origin=value.origin)


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether a type has all the numbers of a narrower one."""
    if narrow is DType.BOOL:
        return wide.is_integer or wide in _HOLDS
    if wide in _HOLDS:
        return narrow.bits - narrow.is_signed <= _HOLDS[wide]
    if not wide.is_integer:
        return False
    low, high = narrow.int_range
    least, greatest = wide.int_range
    return least <= low and high <= greatest
