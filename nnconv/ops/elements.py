"""What is known beforehand of the elements of small integer tensors: shapes, axes, bounds.

Each element is a number, a symbol (as in a ``Dim``: equal symbols are equal numbers), or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.types import Dim, Shape, broadcast_dims, static_shape
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.gather import Gather
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ReduceProd
from nnconv.ops.slices import Reverse, Slice

MOST = 64
"""Tensors of more elements are no shapes."""

DEPTH = 50
"""How many nodes are looked through, one behind the other."""


def elements(
    value: Value, memo: dict[Value, np.ndarray | None], depth: int = DEPTH
) -> np.ndarray | None:
    """The elements of ``value`` (an array of objects, of its shape); None if nothing is known.

    ``memo`` keeps what was found from one call to the next, so that all calls on one graph together
    look at each node once.
    """
    if value.data is not None:
        if value.data.size > MOST or not _is_told(value):
            return None
        return value.data.astype(object)
    if value in memo:
        return memo[value]
    node = value.producer
    rule = None if node is None else _RULES.get(type(node.op))
    if node is None or rule is None or depth <= 0:
        return None
    found = rule(node, [_operand(v, memo, depth) for v in node.inputs])
    results = found if isinstance(found, list) else [found]
    for result, array in zip(node.outputs, results, strict=False):
        memo[result] = array if array is not None and array.size <= MOST else None
    return memo.setdefault(value, None)


def _operand(
    value: Value | None, memo: dict[Value, np.ndarray | None], depth: int
) -> np.ndarray | None:
    if value is None or not _is_told(value) or value.quant is not None:
        return None
    return elements(value, memo, depth - 1)


def _is_told(value: Value) -> bool:
    """Whether a value's elements are looked at: integers, and truths about them."""
    return value.dtype.is_integer or value.dtype is DType.BOOL


Known: TypeAlias = "list[np.ndarray | None]"
Found: TypeAlias = "np.ndarray | list[np.ndarray] | None"
"""The elements of the one result, or of each result."""

Rule: TypeAlias = "Callable[[Node, Known], Found]"


def _objects(items: tuple[object, ...]) -> np.ndarray:
    array = np.empty(len(items), object)
    array[:] = items
    return array


def _shape_of(node: Node, _: Known) -> Found:
    x, op = node.inputs[0], node.op
    assert isinstance(op, s.ShapeOf)
    if x is None or x.shape is None:
        return None
    return _objects(x.shape if op.dims is None else tuple(x.shape[d] for d in op.dims))


def _rank(node: Node, _: Known) -> Found:
    x = node.inputs[0]
    if x is None or x.shape is None:
        return None
    result = np.empty((), object)
    result[()] = len(x.shape)
    return result


def _size(node: Node, _: Known) -> Found:
    x = node.inputs[0]
    if x is None or x.shape is None:
        return None
    return np.asarray(_MUL.reduce(_objects(x.shape)), object)


def _as_typed(node: Node, known: Known) -> Found:
    """Ops that keep the elements: they come in the result's shape, where that is known."""
    x = known[0]
    shape = static_shape(node.outputs[0].shape)
    if x is None or shape is None or not _is_told(node.outputs[0]):
        return None
    return x.reshape(shape)


def _cast(node: Node, known: Known) -> Found:
    x = _as_typed(node, known)
    if not isinstance(x, np.ndarray):
        return None
    to_truth = node.outputs[0].dtype is DType.BOOL
    return np.asarray(np.frompyfunc(_truth if to_truth else _number, 1, 1)(x), object)


def _truth(number: object) -> object:
    return bool(number) if isinstance(number, int) else None


def _number(told: object) -> object:
    return int(told) if isinstance(told, bool) else told


def _transpose(node: Node, known: Known) -> Found:
    x, op = known[0], node.op
    assert isinstance(op, s.Transpose)
    return None if x is None or op.perm is None else x.transpose(op.perm)


def _reverse(node: Node, known: Known) -> Found:
    x, op = known[0], node.op
    assert isinstance(op, Reverse)
    return None if x is None else np.flip(x, op.axes)


def _slice(node: Node, known: Known) -> Found:
    x, op = known[0], node.op
    assert isinstance(op, Slice)
    if x is None or op.starts is None or op.ends is None or op.strides is None:
        return None
    return x[tuple(slice(*b) for b in zip(op.starts, op.ends, op.strides, strict=True))]


def _stack(node: Node, known: Known) -> Found:
    op = node.op
    assert isinstance(op, s.Stack)
    shape = static_shape(node.outputs[0].shape)
    if shape is None or all(part is None for part in known):
        return None
    part_shape = (*shape[: op.axis], *shape[op.axis + 1 :])
    parts = [np.full(part_shape, None, object) if part is None else part for part in known]
    return np.stack(parts, axis=op.axis)


def _concat(node: Node, known: Known) -> Found:
    op = node.op
    assert isinstance(op, s.Concat)
    parts = []
    for value, part in zip(node.inputs, known, strict=True):
        shape = None if value is None else static_shape(value.shape)
        if shape is None or int(np.prod(shape)) > MOST:
            return None
        parts.append(np.full(shape, None, object) if part is None else part)
    return np.concatenate(parts, axis=op.axis)


def _unstack(node: Node, known: Known) -> Found:
    op, x = node.op, known[0]
    assert isinstance(op, s.Unstack)
    if x is None:
        return None
    return [np.asarray(part, object) for part in np.moveaxis(x, op.axis, 0)]


def _split(node: Node, known: Known) -> Found:
    op, x = node.op, known[0]
    assert isinstance(op, s.Split)
    if x is None or -1 in op.sizes:
        return None
    return list(np.split(x, np.cumsum(op.sizes)[:-1], axis=op.axis))


def _gather(node: Node, known: Known) -> Found:
    op, (x, indices) = node.op, known
    assert isinstance(op, Gather)
    if x is None or indices is None or op.batch_dims:
        return None
    extent = x.shape[op.axis]
    if any(not isinstance(i, int) or not -extent <= i < extent for i in indices.reshape(-1)):
        return None
    return np.asarray(np.take(x, indices.astype(np.int64), axis=op.axis), object)


def _product(node: Node, known: Known) -> Found:
    op, x = node.op, known[0]
    assert isinstance(op, ReduceProd)
    if x is None or op.axes is None:
        return None
    return np.asarray(_MUL.reduce(x, axis=op.axes, keepdims=op.keep_dims), object)


def _add(a: object, b: object) -> object:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return b if a == 0 else a if b == 0 else None


def _sub(a: object, b: object) -> object:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else None


def _mul(a: object, b: object) -> object:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 0 or b == 0:
        return 0
    return b if a == 1 else a if b == 1 else None


_MUL = np.frompyfunc(_mul, 2, 1, identity=1)


def _floor_div(a: object, b: object) -> object:
    if isinstance(a, int) and isinstance(b, int) and b:
        return a // b
    return a if b == 1 else None


def _div(a: object, b: object) -> object:
    if isinstance(a, int) and isinstance(b, int) and b:
        return a // b if (a < 0) == (b < 0) else -(-a // b)
    return a if b == 1 else None


def _floor_mod(a: object, b: object) -> object:
    return a % b if isinstance(a, int) and isinstance(b, int) and b else None


def _equal(a: object, b: object) -> object:
    if a is None or b is None:
        return None
    return True if a == b else False if isinstance(a, int) and isinstance(b, int) else None


def _not_equal(a: object, b: object) -> object:
    same = _equal(a, b)
    return None if same is None else not same


def _less(a: object, b: object) -> object:
    return a < b if isinstance(a, int) and isinstance(b, int) else None


def _greater(a: object, b: object) -> object:
    return a > b if isinstance(a, int) and isinstance(b, int) else None


def _not(_: Node, known: Known) -> Found:
    x = known[0]
    if x is None:
        return None
    turned = np.frompyfunc(lambda a: not a if isinstance(a, bool) else None, 1, 1)
    return np.asarray(turned(x), object)


def _and(a: object, b: object) -> object:
    if a is False or b is False:
        return False
    return True if a is True and b is True else None


def _or(a: object, b: object) -> object:
    if a is True or b is True:
        return True
    return False if a is False and b is False else None


def _choice(condition: object, a: object, b: object) -> object:
    if isinstance(condition, bool | np.bool_):
        return a if condition else b
    return a if a == b else None


def _select(_: Node, known: Known) -> Found:
    condition, a, b = known
    if condition is None or a is None or b is None:
        return None
    return np.asarray(np.frompyfunc(_choice, 3, 1)(condition, a, b), object)


def _maximum(a: object, b: object) -> object:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return a if a == b else None


def _minimum(a: object, b: object) -> object:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return a if a == b else None


def _elementwise(function: Callable[[object, object], object]) -> Rule:
    apply = np.frompyfunc(function, 2, 1)

    def rule(node: Node, known: Known) -> Found:
        a, b = known
        if a is None or b is None:
            return None
        activation = getattr(node.op, "activation", Activation.NONE)
        if activation is not Activation.NONE:
            return None
        return np.asarray(apply(a, b), object)

    return rule


def _broadcast_args(_: Node, known: Known) -> Found:
    a, b = known
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    sides = [(1,) * (rank - len(side)) + tuple(side.tolist()) for side in (a, b)]
    try:
        return _objects(tuple(broadcast_dims(x, y) for x, y in zip(*sides, strict=True)))
    except ValueError:
        return None


def _fill(node: Node, known: Known) -> Found:
    shape = static_shape(node.outputs[0].shape)
    if known[0] is None or shape is None or int(np.prod(shape)) > MOST:
        return None
    return np.full(shape, known[0].reshape(-1)[0], object)


_RULES: dict[type[Op], Rule] = {
    s.ShapeOf: _shape_of,
    s.Rank: _rank,
    s.Size: _size,
    s.Identity: _as_typed,
    s.Transpose: _transpose,
    Reverse: _reverse,
    s.Reshape: _as_typed,
    s.Squeeze: _as_typed,
    s.Unsqueeze: _as_typed,
    Cast: _cast,
    Slice: _slice,
    s.Stack: _stack,
    s.Unstack: _unstack,
    s.Split: _split,
    s.Concat: _concat,
    s.BroadcastArgs: _broadcast_args,
    s.Fill: _fill,
    Gather: _gather,
    ReduceProd: _product,
    e.Add: _elementwise(_add),
    e.Sub: _elementwise(_sub),
    e.Mul: _elementwise(_mul),
    e.Div: _elementwise(_div),
    e.FloorDiv: _elementwise(_floor_div),
    e.FloorMod: _elementwise(_floor_mod),
    e.Equal: _elementwise(_equal),
    e.NotEqual: _elementwise(_not_equal),
    e.Less: _elementwise(_less),
    e.Greater: _elementwise(_greater),
    e.LogicalNot: _not,
    e.LogicalAnd: _elementwise(_and),
    e.LogicalOr: _elementwise(_or),
    e.Select: _select,
    e.Maximum: _elementwise(_maximum),
    e.Minimum: _elementwise(_minimum),
}


def reshape_target(source: Shape, dims: Shape) -> tuple[int, ...] | None:
    """A Reshape's shape in numbers, from what is known of it; None if two extents stay open.

    One extent that isn't known is what is left (-1); a -1 beside symbols is told by the source,
    where it has the same symbols.
    """
    if dims is None:
        return None
    if source is not None and -1 in dims:
        dims = solved(source, dims)
    numbers = tuple(d for d in dims if isinstance(d, int))
    unknown = len(dims) - len(numbers)
    if not unknown:
        return numbers
    if unknown > 1 or any(d < 1 for d in numbers):
        return None
    return tuple(d if isinstance(d, int) else -1 for d in dims)


def solved(source: tuple[Dim, ...], dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """A Reshape's extents with the number for -1, where symbols beside it are the source's own."""
    symbols = sorted(d for d in dims if isinstance(d, str))
    if not symbols or None in dims or None in source:
        return dims
    if sorted(d for d in source if isinstance(d, str)) != symbols:
        return dims
    count = math.prod(d for d in source if isinstance(d, int))
    rest = math.prod(d for d in dims if isinstance(d, int) and d != -1)
    if rest < 1 or count % rest:
        return dims
    return tuple(count // rest if d == -1 else d for d in dims)
