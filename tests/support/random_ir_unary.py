"""The ops of one operand that random graphs of the IR are drawn from, with their attributes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nnconv.ir import DType, Layout, Value
from nnconv.ir.op import Activation, Op, QuantRule
from nnconv.ops import activation as act
from nnconv.ops import blocks, diagonal, norm, numeric, pool, product, reduce
from nnconv.ops import elementwise as e
from nnconv.ops import gather as g
from nnconv.ops import resize as r
from nnconv.ops import shape as s
from nnconv.ops import slices as sl
from nnconv.ops import standardize as st
from nnconv.ops.quantize import Cast, Dequantize
from nnconv.ops.spatial import Padding
from support.random_core import UnfitError
from support.random_ir import CODES, IrNet

Attributes = Callable[[IrNet, Value], dict[str, Any]]

RANKS = (0, 1, 2, 3, 4, 5)
CLAMPS = (Activation.NONE, Activation.NONE, Activation.RELU, Activation.RELU6)


def extents(x: Value) -> tuple[int, ...]:
    return tuple(d for d in x.shape or () if isinstance(d, int))


def axis_of(n: IrNet, x: Value) -> int:
    if not x.shape:
        raise UnfitError
    return n.number(0, len(x.shape) - 1)


def axes_of(n: IrNet, x: Value) -> tuple[int, ...]:
    rank = len(x.shape or ())
    if not rank:
        raise UnfitError
    return tuple(sorted(n.rng.permutation(rank)[: n.number(1, rank)].tolist()))


def none(_n: IrNet, _x: Value) -> dict[str, Any]:
    return {}


def clamp(n: IrNet, _x: Value) -> dict[str, Any]:
    return {"activation": n.one(CLAMPS)}


# --------------------------------------------------------------------- attributes


def _other_shape(n: IrNet, x: Value) -> tuple[int, ...]:
    sizes = [1] * n.number(0 if math.prod(extents(x)) == 1 else 1, 5)
    for size in extents(x):
        if sizes:
            sizes[n.number(0, len(sizes) - 1)] *= size
    return tuple(sizes)


def _slice(n: IrNet, x: Value) -> dict[str, Any]:
    starts, ends, strides = [], [], []
    for size in extents(x):
        start = n.number(0, size - 1)
        starts.append(start)
        ends.append(n.number(start + 1, size))
        strides.append(n.one([1, 1, 2]))
    return {"starts": tuple(starts), "ends": tuple(ends), "strides": tuple(strides)}


def _pad(n: IrNet, x: Value) -> dict[str, Any]:
    if not x.shape:
        raise UnfitError
    mode = n.one([sl.PadMode.CONSTANT, sl.PadMode.REFLECT, sl.PadMode.SYMMETRIC, sl.PadMode.EDGE])
    most = [min(2, size - (mode is sl.PadMode.REFLECT)) for size in extents(x)]
    before, after = (tuple(n.number(0, m) for m in most) for _ in range(2))
    value = n.one([0.0, 1.0]) if mode is sl.PadMode.CONSTANT else 0.0
    return {"before": before, "after": after, "mode": mode, "value": value}


def _top(n: IrNet, x: Value) -> dict[str, Any]:
    axis = axis_of(n, x)
    kind = n.one([DType.INT32, DType.INT64])
    last_first = bool(n.number(0, 1))
    k = n.number(1, extents(x)[axis])
    return {"axis": axis, "k": k, "index_dtype": kind, "last_first": last_first}


def _split(n: IrNet, x: Value) -> dict[str, Any]:
    axis = axis_of(n, x)
    size = extents(x)[axis]
    first = n.number(1, max(size - 1, 1))
    return {"axis": axis, "sizes": (first, size - first) if size > 1 else (size,)}


def _spatial(n: IrNet, x: Value) -> tuple[int, ...]:
    shape = extents(x)
    if len(shape) < 3:
        raise UnfitError
    return shape[1:-1] if n.layout is Layout.NHWC else shape[2:]


def window_of(n: IrNet, x: Value, *, dilated: bool = False) -> dict[str, Any]:
    """Window, stride and padding that fit, by how they are called."""
    sizes = _spatial(n, x)
    window = tuple(n.number(1, min(3, size)) for size in sizes)
    stride = tuple(n.number(1, 2) for _ in sizes)
    dilation = (1,) * len(sizes)
    if dilated and set(stride) == {1} and n.chance(0.3):
        dilation = (2,) * len(sizes)
    pads = [tuple(n.number(0, w // 2) for w in window) for _ in range(2)]
    if n.chance(0.4):
        padding = Padding.same_for(sizes, window, stride, dilation)
    else:
        padding = Padding(pads[0], pads[1])
    return {"window": window, "stride": stride, "dilation": dilation, "padding": padding}


def _pooling(n: IrNet, x: Value) -> dict[str, Any]:
    clamps = CLAMPS if x.dtype.is_float or x.quant is not None else CLAMPS[:1]
    return {"layout": n.layout, **window_of(n, x), "activation": n.one(clamps)}


def _resizing(n: IrNet, x: Value) -> dict[str, Any]:
    size = tuple(n.number(1, 8) for _ in _spatial(n, x))
    aligned = n.chance(0.3)
    half = not aligned and n.chance(0.5)
    return {"layout": n.layout, "size": size, "align_corners": aligned, "half_pixel": half}


# --------------------------------------------------------------------- of one operand

UNARY: dict[type[Op], Attributes] = {
    **dict.fromkeys((e.Abs, e.Neg, e.Sign, e.Square, e.Sqrt, e.Rsqrt, e.Exp, e.Log, e.Sin), none),
    **dict.fromkeys((e.Cos, e.Floor, e.Ceil, e.Round, e.Tanh, e.Sigmoid, e.HardSwish), none),
    **dict.fromkeys((act.Softplus, act.Softsign, act.Mish, numeric.Tan, numeric.Asin), none),
    **dict.fromkeys((numeric.Acos, numeric.Atan, numeric.Sinh, numeric.Cosh, numeric.Asinh), none),
    **dict.fromkeys((numeric.Atanh, numeric.Erf, numeric.Reciprocal, numeric.IsNan), none),
    e.ZerosLike: none,
    s.ShapeOf: lambda n, _: {"dtype": n.one([DType.INT32, DType.INT64])},
    e.Clip: lambda n, _: {"low": n.one([-1.0, 0.0, -math.inf]), "high": n.one([0.5, 6.0])},
    e.Elu: lambda n, _: {"alpha": n.one([1.0, 0.7])},
    e.LeakyRelu: lambda n, _: {"alpha": n.one([0.1, 0.3])},
    e.Gelu: lambda n, _: {"approximate": n.chance(0.5)},
    act.Swish: lambda n, _: {"alpha": n.one([1.0, 1.5])},
    act.Celu: lambda n, _: {"alpha": n.one([1.0, 0.6])},
    act.Selu: lambda _n, _: {"alpha": 1.67, "gamma": 1.05},
    act.ThresholdedRelu: lambda n, _: {"alpha": n.one([1.0, 0.2])},
    act.HardSigmoid: lambda _n, _: {"alpha": 0.2, "beta": 0.5},
    act.Shrink: lambda _n, _: {"bias": 0.1, "lambd": 0.4},
    s.Identity: none,
    s.Unsqueeze: lambda n, x: {"axes": (n.number(0, len(x.shape or ())),)},
    s.Transpose: lambda n, x: {"perm": tuple(n.rng.permutation(len(x.shape or ())).tolist())},
    s.Squeeze: lambda _n, x: {"axes": tuple(i for i, d in enumerate(x.shape or ()) if d == 1)},
    s.Tile: lambda n, x: {"repeats": tuple(n.number(1, 2) for _ in x.shape or ())},
    s.Reshape: lambda n, x: {"shape": _other_shape(n, x)},
    s.BroadcastTo: lambda n, x: {"shape": (n.number(1, 3), *extents(x))},
    sl.Reverse: lambda n, x: {"axes": axes_of(n, x)},
    sl.Slice: _slice,
    sl.Pad: _pad,
    **{
        op: lambda n, x: {"axes": axes_of(n, x), "keep_dims": n.chance(0.5)}
        for op in (
            *(reduce.ReduceMean, reduce.ReduceSum, reduce.ReduceProd, reduce.ReduceMax),
            *(reduce.ReduceMin, reduce.ReduceL1, reduce.ReduceL2, reduce.ReduceSumSquare),
            *(reduce.ReduceLogSumExp, reduce.ReduceAny, reduce.ReduceAll),
        )
    },
    **{
        op: lambda n, x: {
            "axis": axis_of(n, x),
            "dtype": n.one([DType.INT32, DType.INT64]),
            "keep_dims": n.chance(0.5),
            "last": n.chance(0.3),
        }
        for op in (reduce.ArgMax, reduce.ArgMin)
    },
    **{
        op: lambda n, x: {
            "axis": axis_of(n, x),
            "exclusive": n.chance(0.3),
            "reverse": n.chance(0.3),
        }
        for op in (reduce.CumSum, reduce.CumProd)
    },
    norm.Softmax: lambda n, x: {"axis": axis_of(n, x), "beta": n.one([1.0, 1.0, 0.5])},
    norm.LogSoftmax: lambda n, x: {"axis": axis_of(n, x)},
    norm.Hardmax: lambda n, x: {"axis": axis_of(n, x)},
    norm.LpNormalization: lambda n, x: {"axis": axis_of(n, x), "p": n.number(1, 2)},
    norm.L2Normalization: lambda n, x: {"axis": axis_of(n, x), "epsilon": 1e-6},
    st.MeanVarianceNormalization: lambda n, x: {"axes": axes_of(n, x)},
    g.TopK: _top,
    g.NonZero: none,
    diagonal.Trilu: lambda n, _: {"k": n.number(-2, 2), "upper": n.chance(0.5)},
    product.Det: none,
    Cast: lambda n, _: {"dtype": n.one([DType.FLOAT32, DType.INT32, DType.INT64, DType.BOOL])},
    Dequantize: lambda _n, _: {"dtype": DType.FLOAT32},
    **{
        op: lambda n, _x, first=first: {
            "layout": n.layout,
            "block": 2,
            "column_row_depth": first and n.chance(0.3),
        }
        for op, first in ((blocks.DepthToSpace, True), (blocks.SpaceToDepth, False))
    },
    **dict.fromkeys((pool.MaxPool2D, pool.MaxPool1D, pool.MaxPool3D), _pooling),
    **{
        op: lambda n, x: {**_pooling(n, x), "count_padding": n.chance(0.3)}
        for op in (pool.AveragePool1D, pool.AveragePool2D, pool.AveragePool3D)
    },
    pool.L2Pool2D: _pooling,
    r.ResizeNearest: _resizing,
    r.ResizeBilinear: _resizing,
    s.Split: _split,
    s.Unstack: lambda n, x: {"axis": (axis := axis_of(n, x)), "count": extents(x)[axis]},
}


_OF_INTEGERS = (e.Abs, e.Neg, e.Sign, e.Square, e.Clip, e.ZerosLike)
"""Those of the elementwise ops and norms that formats have for integers."""

_BOUNDED = (numeric.Asin, numeric.Acos, numeric.Atanh, e.Sqrt, e.Rsqrt, e.Log)
"""Ops without a result beyond their bounds, where a step of codes may lead."""

_RANKS = {"1D": [3], "2D": [4], "3D": [5]}


def unary(n: IrNet, op: type[Op], attributes: Attributes) -> None:
    accepted = op.operands[0].types
    module = op.__module__.rsplit(".", 1)[-1]
    arithmetic = ("elementwise", "activation", "numeric", "norm", "standardize", "product")
    if module in arithmetic and op not in _OF_INTEGERS:
        accepted = accepted - {DType.INT32, DType.INT64}
    if op is Dequantize:
        accepted = frozenset(CODES)
    if op is norm.L2Normalization:
        accepted = accepted - {DType.FLOAT16}  # it can't hold the square of epsilon
    if op is reduce.ReduceLogSumExp:
        accepted = accepted - {DType.INT32, DType.INT64}  # near a whole number either is right
    if op in _BOUNDED:
        accepted = accepted - frozenset(CODES)
    if op is g.NonZero:
        accepted = frozenset({DType.BOOL})
    ranks = [4] if module in ("resize", "blocks") else _RANKS.get(op.__name__[-2:], RANKS)
    x = n.pick(
        lambda v: v.dtype in accepted and (takes_codes(op, v) if v.dtype in CODES else True),
        ranks=ranks,
    )
    if op is numeric.Tan and np.abs(n.real(x)).max() > 1.2:
        raise UnfitError  # a pole
    if op is g.NonZero and x.producer is not None:
        raise UnfitError  # a step before it may be one element more
    made = op(**attributes(n, x))
    if isinstance(made, st.MeanVarianceNormalization):
        spread = np.std(n.real(x).astype(np.float64), axis=made.axes)
        if spread.min() < 0.05:
            raise UnfitError  # 0 / 0
    n.add(made, [x])


def takes_codes(op: type[Op], value: Value) -> bool:
    tensors = value.quant is not None and value.quant.is_per_tensor
    return tensors and (op.quant_rule is not QuantRule.EXACT or op in (s.ShapeOf, Dequantize))
