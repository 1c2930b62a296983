"""Common elementwise ops by the few that every format has."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnconv.decompositions.constants import MOST_ELEMENTS, scalar, times
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.types import element_count, static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.numeric import Erf
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Identity


def _operands(node: Node) -> list[Value]:
    return [v for v in node.inputs if v is not None]


def sign_by_clip(node: Node, b: Builder) -> Sequence[Value] | None:
    """Clipped to -1 ... 1; of floats the greatest multiple, which is beyond unless it is 0."""
    (x,) = _operands(node)
    if x.dtype.is_float:
        x = times(x, float(np.finfo(x.dtype.numpy).max), b)
    return [b.add(e.Clip(low=-1.0, high=1.0), [x])]


def square_of_difference(node: Node, b: Builder) -> Sequence[Value] | None:
    """The difference times itself."""
    difference = b.add(e.Sub(), _operands(node))
    return [b.add(e.Mul(), [difference, difference])]


def leaky_relu_by_slope(node: Node, b: Builder) -> Sequence[Value] | None:
    """PRelu of one slope."""
    op, (x,) = node.op, _operands(node)
    assert isinstance(op, e.LeakyRelu)
    slope = b.const(np.full(() if x.shape == () else 1, op.alpha, x.dtype.numpy))
    return [b.add(e.PRelu(), [x, slope])]


_TANH_FACTOR, _TANH_CUBE = math.sqrt(2 / math.pi), 0.044715


def gelu_by_parts(node: Node, b: Builder) -> Sequence[Value] | None:
    """X / 2 * (1 + erf(x / root of 2)), or with tanh(root of 2 / pi * (x + 0.044715 x**3))."""
    op, (x,) = node.op, _operands(node)
    assert isinstance(op, e.Gelu)
    if op.approximate:
        cube = b.add(e.Mul(), [b.add(e.Mul(), [x, x]), x])
        inner = times(b.add(e.Add(), [x, times(cube, _TANH_CUBE, b)]), _TANH_FACTOR, b)
        bend = b.add(e.Tanh(), [inner])
    else:
        bend = b.add(Erf(), [times(x, math.sqrt(0.5), b)])
    share = b.add(e.Add(), [bend, scalar(b, 1, x)])
    return [b.add(e.Mul(), [times(x, 0.5, b), share])]


def zeros_of_shape(node: Node, b: Builder) -> Sequence[Value] | None:
    """A constant where the extents are known, else x times 0, of integers."""
    (x,) = _operands(node)
    shape = static_shape(x.shape)
    if shape is not None and (element_count(shape) or 0) <= MOST_ELEMENTS:
        zeros = b.const(np.zeros(shape, x.dtype.numpy), quant=None)
        return [b.add_typed(Identity(), [zeros], [zeros.type])[0]]
    return [times(x, 0.0, b)] if x.dtype is DType.INT32 else None


def cos_by_sin(node: Node, b: Builder) -> Sequence[Value] | None:
    """The sine a quarter of a turn on."""
    (x,) = _operands(node)
    return [b.add(e.Sin(), [b.add(e.Add(), [x, scalar(b, math.pi / 2, x)])])]


def rest_of_quotient(node: Node, b: Builder) -> Sequence[Value] | None:
    """A - floor(a / b) * b; of an infinite b it is a, or b where their signs differ."""
    x, y = _operands(node)
    if x.type.has_codes or y.type.has_codes:
        return None
    whole = b.add(e.FloorDiv(), [x, y])
    rest = b.add(e.Sub(), [x, b.add(e.Mul(), [whole, y])])
    if not y.dtype.is_float or (y.data is not None and np.isfinite(y.data).all()):
        return [rest]
    zero, far = scalar(b, 0, y), scalar(b, math.inf, y)
    signs = [b.add(Cast(dtype=DType.INT32), [b.add(e.Less(), [v, zero])]) for v in (x, y)]
    alike = b.add(e.LogicalOr(), [b.add(e.Equal(), signs), b.add(e.Equal(), [x, zero])])
    nothing = b.add(e.Sub(), [x, x])  # nan of what is infinite
    left = b.add(e.Add(), [b.add(e.Select(), [alike, x, y]), nothing])
    return [b.add(e.Select(), [b.add(e.Equal(), [b.add(e.Abs(), [y]), far]), left, rest])]


def hard_swish_by_clip(node: Node, b: Builder) -> Sequence[Value] | None:
    """X times clip(x + 3, 0, 6), by 6."""
    (x,) = _operands(node)
    share = b.add(e.Clip(low=0.0, high=6.0), [b.add(e.Add(), [x, scalar(b, 3, x)])])
    return [b.add(e.Mul(), [x, times(share, 1 / 6, b)])]
