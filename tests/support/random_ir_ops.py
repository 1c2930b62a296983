"""The ops that random graphs of the IR are drawn from: for each, operands that fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nnconv.ir import Builder, DType, Graph, Layout, Quant, Value
from nnconv.ir.op import Op
from nnconv.ops import control, conv, matmul, numeric
from nnconv.ops import elementwise as e
from nnconv.ops import gather as g
from nnconv.ops import shape as s
from nnconv.ops import standardize as st
from nnconv.ops.quantize import Dequantize, Quantize
from nnconv.ops.spatial import Padding
from support.random_core import UnfitError
from support.random_ir import CODES, IrNet
from support.random_ir_unary import (
    CLAMPS,
    UNARY,
    Attributes,
    axis_of,
    clamp,
    extents,
    none,
    takes_codes,
    unary,
    window_of,
)

Maker = Callable[[IrNet], object]

COMPUTED = (DType.FLOAT32, DType.FLOAT16, DType.FLOAT64, DType.INT32, DType.INT64, *CODES)
"""Types that most arithmetic is drawn for; codes only with parameters."""


def _computes(value: Value) -> bool:
    return value.dtype in COMPUTED and (value.quant is not None or value.dtype not in CODES)


def _of_reals(value: Value) -> bool:
    return _computes(value) and (value.quant is not None or value.dtype.is_float)


def _floats(value: Value) -> bool:
    return value.dtype.is_float


# --------------------------------------------------------------------- of two and more

BINARY: dict[type[Op], Attributes] = {
    **dict.fromkeys((e.Add, e.Sub, e.Mul, e.Div), clamp),
    **dict.fromkeys((e.Maximum, e.Minimum, e.Pow, e.SquaredDifference, e.Atan2), none),
    **dict.fromkeys((e.Equal, e.NotEqual, e.Less, e.LessEqual, e.Greater, e.GreaterEqual), none),
    **dict.fromkeys((e.LogicalAnd, e.LogicalOr, e.FloorDiv, e.FloorMod), none),
    **dict.fromkeys((numeric.BitwiseAnd, numeric.BitwiseOr, e.BitwiseXor), none),
    numeric.TruncatedMod: none,
}

_DIVIDES = (e.Div, e.FloorDiv, e.FloorMod, numeric.TruncatedMod)


def _partner(n: IrNet, x: Value) -> Value:
    """Another operand: something made of the same type, or a constant that broadcasts."""
    shape = extents(x)
    if n.chance(0.4):
        fit = [
            v
            for v in n.examples
            if v.data is None
            and v.dtype is x.dtype
            and (v.quant is None) == (x.quant is None)
            and v.shape == x.shape
        ]
        if fit:
            return n.one(fit)
    cut = shape[n.number(0, len(shape)) :]
    return n.like(x, [size if n.chance(0.7) else 1 for size in cut])


def binary(n: IrNet, op: type[Op], attributes: Attributes) -> None:
    accepted = op.operands[0].types
    if op not in (e.Equal, e.NotEqual, e.LogicalAnd, e.LogicalOr):
        accepted = accepted - {DType.BOOL}
    x = n.pick(lambda v: v.dtype in accepted and (takes_codes(op, v) if v.dtype in CODES else True))
    y = _partner(n, x)
    if op in _DIVIDES and (n.real(y) == 0).any():
        raise UnfitError
    if op in _DIVIDES and x.dtype.is_float and np.abs(n.real(y)).min() < 0.05:
        raise UnfitError
    pair = [x, y] if op in _DIVIDES or n.chance(0.7) else [y, x]
    if op in _DIVIDES and pair[0] is x and y.quant is not None:
        raise UnfitError  # a step in a small divisor is worth many in the result
    if y.data is not None and x.data is not None:
        raise UnfitError
    n.add(op(**attributes(n, x)), pair)


def convolution(n: IrNet) -> None:
    ops = {3: conv.Conv1D, 4: conv.Conv2D, 5: conv.Conv3D}
    x = n.pick(_of_reals, ranks=[3, 4, 4, 4, 5])
    shape = extents(x)
    given = window_of(n, x, dilated=True)
    window, channels = given.pop("window"), shape[-1 if n.layout is Layout.NHWC else 1]
    groups = n.one([1, 1, channels])
    filters = groups * n.number(1, 3)
    weights, scales = _weights(n, x, (filters, *window, channels // groups))
    op = ops[len(shape)](layout=n.layout, **given, groups=groups, activation=n.one(CLAMPS))
    n.add(op, [x, weights, _bias(n, x, filters, scales)])


def transposed(n: IrNet) -> None:
    x = n.pick(_of_reals, ranks=[4])
    shape = extents(x)
    channels = shape[-1 if n.layout is Layout.NHWC else 1]
    window, stride = ((n.number(1, 3), n.number(1, 3)), (n.number(1, 2), n.number(1, 2)))
    filters = n.number(1, 4)
    weights, scales = _weights(n, x, (filters, *window, channels))
    op = conv.ConvTranspose2D(
        layout=n.layout,
        stride=stride,
        dilation=(1, 1),
        padding=Padding.none(),
        output_padding=(0, 0),
        activation=n.one(CLAMPS),
    )
    n.add(op, [x, weights, _bias(n, x, filters, scales)])


def _weights(n: IrNet, x: Value, shape: Sequence[int]) -> tuple[Value, np.ndarray]:
    """Constant weights; of codes with a scale each, or one; of floats now and then hybrid."""
    values = n.rng.standard_normal(shape) / math.sqrt(max(math.prod(shape[1:]), 1))
    # In a file of ONNX onnxruntime would round the data as well.
    hybrid = x.dtype is DType.FLOAT32 and n.layout is Layout.NHWC and n.chance(0.5)
    if x.quant is None and not hybrid:
        return n.const(values, x.dtype), np.ones(1)
    small = n.one([DType.INT8, DType.INT8, DType.INT4]) if x.quant is None else DType.INT8
    most = small.int_range[1]
    flat = np.abs(values).reshape(len(values), -1).max(axis=1)
    apart = n.chance(0.6)
    scales = np.float32((flat if apart else np.full(len(flat), flat.max())) / most + 1e-4)
    codes = np.round(values / scales.reshape(-1, *(1,) * (len(shape) - 1)))
    quant = (
        Quant.per_channel(scales.tolist(), axis=0) if apart else Quant.per_tensor(float(scales[0]))
    )
    codes = np.clip(codes, -most, most).astype(small.numpy)
    made = n.const(codes, small, quant)
    if x.quant is None:
        return n.add(Dequantize(dtype=DType.FLOAT32), [made])[0], scales
    return made, scales


def _bias(n: IrNet, x: Value, count: int, scales: np.ndarray) -> Value | None:
    if n.chance(0.2):
        return None
    values = n.rng.standard_normal(count)
    if x.quant is None:
        return n.const(values, x.dtype)
    products = np.float32(np.broadcast_to(scales, count) * x.quant.scale[0])
    kind = DType.INT64 if x.dtype is DType.INT16 else DType.INT32
    quant = Quant.per_channel(products.tolist(), axis=0)
    if np.unique(products).size == 1:
        quant = Quant.per_tensor(float(products[0]))
    return n.const(np.round(values / products), kind, quant)


def fully_connected(n: IrNet) -> None:
    x = n.pick(_of_reals, ranks=[2, 3, 4])
    count = n.number(1, 5)
    weights, scales = _weights(n, x, (count, extents(x)[-1]))
    op = matmul.FullyConnected(activation=n.one(CLAMPS))
    n.add(op, [x, weights, _bias(n, x, count, scales)])


def product_of_matrices(n: IrNet) -> None:
    x = n.pick(_of_reals, ranks=[2, 3, 4])
    shape = extents(x)
    turned = n.chance(0.3)
    inner = shape[-2] if turned else shape[-1]
    batch = shape[:-2] if n.chance(0.5) else ()
    back = n.chance(0.3)
    size = (*batch, *((n.number(1, 5), inner) if back else (inner, n.number(1, 5))))
    n.add(matmul.MatMul(transpose_a=turned, transpose_b=back), [x, n.like(x, size)])


def gather(n: IrNet) -> None:
    x = n.pick(lambda _: True, ranks=[1, 2, 3, 4])
    axis = axis_of(n, x)
    shape = [n.number(1, 3) for _ in range(n.number(0, 2))]
    places = n.rng.integers(0, extents(x)[axis], shape)
    n.add(g.Gather(axis=axis), [x, n.const(places, n.one([DType.INT32, DType.INT64]))])


def gather_nd(n: IrNet) -> None:
    x = n.pick(lambda _: True, ranks=[1, 2, 3, 4])
    depth = n.number(1, len(extents(x)))
    places = [n.rng.integers(0, size, n.number(2, 2)) for size in extents(x)[:depth]]
    n.add(g.GatherNd(), [x, n.const(np.stack(places, -1), DType.INT32)])


def elements(n: IrNet) -> None:
    x = n.pick(lambda v: v.quant is None, ranks=[1, 2, 3])
    axis = axis_of(n, x)
    indices = n.const(n.rng.permutation(extents(x)[axis])[: n.number(1, 3)], DType.INT64)
    shape = [1] * len(extents(x))
    shape[axis] = -1
    wide = np.broadcast_to(
        n.examples[indices].reshape(shape),
        [n.examples[indices].size if i == axis else d for i, d in enumerate(extents(x))],
    )
    places = n.const(np.ascontiguousarray(wide), DType.INT64)
    if n.chance(0.5):
        n.add(g.GatherElements(axis=axis), [x, places])
    else:
        n.add(g.ScatterElements(axis=axis), [x, places, n.like(x, wide.shape)])


def joined(n: IrNet, op: type[Op]) -> None:
    x = n.pick(lambda _: True, ranks=[1, 2, 3, 4])
    same = [v for v in n.examples if v.data is None and v.type == x.type]
    parts = [n.one(same) for _ in range(n.number(1, 3))]
    n.add(op(axis=axis_of(n, x)), parts, quant=x.quant)


def chosen(n: IrNet) -> None:
    x = n.pick(lambda v: v.dtype is not DType.BOOL)
    flags = n.const(n.rng.integers(0, 2, extents(x)).astype(bool))
    n.add(e.Select(), [flags, x, n.like(x, extents(x))], quant=x.quant)


def sloped(n: IrNet) -> None:
    x = n.pick(_of_reals, ranks=[2, 3, 4])
    n.add(e.PRelu(), [x, n.like(x, extents(x)[-1:])])


def one_hot(n: IrNet) -> None:
    x = n.pick(lambda v: v.dtype in (DType.INT32, DType.INT64), ranks=[0, 1, 2])
    ends = [n.const(np.float32(v)) for v in (1.0, 0.0)]
    n.add(g.OneHot(axis=n.number(0, len(extents(x))), depth=n.number(1, 5)), [x, *ends])


def normalized(n: IrNet) -> None:
    x = n.pick(_floats, ranks=[2, 3, 4])
    axis = len(extents(x)) - 1 if n.layout is Layout.NHWC else 1
    count = extents(x)[axis]
    parts = [n.const(n.rng.uniform(0.5, 1.5, count), x.dtype) for _ in range(4)]
    if n.chance(0.4):
        n.add(st.BatchNormalization(axis=axis, epsilon=1e-3), [x, *parts])
    elif len(extents(x)) > 2 and n.chance(0.5):
        n.add(st.InstanceNormalization(axis=axis, epsilon=1e-2), [x, *parts[:2]])
    else:
        last = len(extents(x)) - 1
        size = extents(x)[last]
        parts = [n.const(n.rng.uniform(0.5, 1.5, size), x.dtype) for _ in range(2)]
        n.add(st.LayerNormalization(axis=last, epsilon=1e-2), [x, *parts])


def quantized(n: IrNet) -> None:
    x = n.pick(lambda v: v.dtype is DType.FLOAT32)
    kind, array = n.one(CODES), n.examples[x]
    quant = n.parameters(kind, float(array.min()), float(array.max()))
    n.add(Quantize(dtype=kind), [x], quant=quant)


# --------------------------------------------------------------------- bodies


def _body(n: IrNet, kinds: Sequence[Value]) -> IrNet:
    """A net whose inputs are as ``kinds``, that draws from the same numbers."""
    inner = IrNet(n.seed)
    inner.rng, inner.layout, inner.dtype, inner.depth = n.rng, n.layout, n.dtype, n.depth + 1
    inner.b = Builder(Graph(f"body{len(n.examples)}"))
    for i, value in enumerate(kinds):
        made = Value(f"{inner.b.graph.name}_{i}", value.type)
        inner.b.graph.inputs.append(made)
        inner.examples[made] = n.examples[value]
    return inner


def _like(inner: IrNet, x: Value) -> Value:
    """Something of the type of ``x``, an input, computed in the body where that works out."""
    for _ in range(6):
        try:
            add_random(inner)
        except UnfitError:
            continue
    fit = [v for v in inner.examples if v.producer is not None and v.type == x.type]
    return fit[-1] if fit else inner.add(s.Identity(), [x])[0]


def branch(n: IrNet) -> None:
    """If: two bodies that read some values."""
    if n.depth:
        raise UnfitError
    x = n.pick(lambda v: v.quant is None or v.quant.is_per_tensor)
    given = [x, *(n.pick(lambda v: v.dtype is not DType.BOOL) for _ in range(n.number(0, 2)))]
    given = list(dict.fromkeys(given))
    flag = n.b.input(f"x{len(n.b.graph.inputs)}", DType.BOOL, ())
    n.examples[flag] = np.asarray(n.chance(0.5))
    bodies = []
    for _ in range(2):
        inner = _body(n, given)
        inner.b.graph.outputs = [_like(inner, inner.b.graph.inputs[0])]
        n.log += [f"  {line}" for line in inner.log]
        bodies.append(inner.b.graph)
    n.add(control.If(), [flag, *given], bodies=bodies, quant=x.quant)


def loop(n: IrNet) -> None:
    """While: a value that changes for some turns, and a counter."""
    if n.depth:
        raise UnfitError
    x = n.pick(lambda v: v.quant is None or v.quant.is_per_tensor)
    start = n.const(np.int32(0))
    turns = n.number(1, 3)
    asked = _body(n, [start, x])
    counter = asked.b.graph.inputs[0]
    asked.b.graph.outputs = [asked.b.add(e.Less(), [counter, asked.const(np.int32(turns))])]
    inner = _body(n, [start, x])
    counter, value = inner.b.graph.inputs
    after = inner.b.add(e.Add(), [counter, inner.const(np.int32(1))])
    inner.examples.pop(counter)
    inner.examples = {value: inner.examples[value]}
    result = _like(inner, value)
    inner.b.graph.outputs = [after, result]
    n.log += [f"  {line}" for line in inner.log]
    n.add(control.While(), [start, x], bodies=[asked.b.graph, inner.b.graph])


# --------------------------------------------------------------------- the table

MAKERS: dict[str, Maker] = {
    **{op.__name__: lambda n, op=op, a=a: unary(n, op, a) for op, a in UNARY.items()},
    **{op.__name__: lambda n, op=op, a=a: binary(n, op, a) for op, a in BINARY.items()},
    "Conv": convolution,
    "ConvTranspose": transposed,
    "FullyConnected": fully_connected,
    "MatMul": product_of_matrices,
    "Gather": gather,
    "GatherNd": gather_nd,
    "Elements": elements,
    "Concat": lambda n: joined(n, s.Concat),
    "Stack": lambda n: joined(n, s.Stack),
    "Select": chosen,
    "PRelu": sloped,
    "OneHot": one_hot,
    "Normalization": normalized,
    "Quantize": quantized,
    "If": branch,
    "While": loop,
}
OFTEN = ("Conv", "FullyConnected", "Add", "Mul", "Transpose", "Reshape", "Concat", "Quantize", "If")


def add_random(n: IrNet) -> None:
    """Add an op, if it fits what there is.

    Raises:
        UnfitError: it doesn't.
    """
    name = n.one(OFTEN) if n.chance(0.25) else n.one(list(MAKERS))
    MAKERS[name](n)
