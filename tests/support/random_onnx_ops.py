"""The nodes that random ONNX graphs are drawn from: for each, operands that onnxruntime takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from support.random_net import UnfitError
from support.random_onnx import OnnxNet, Slot

Maker = Callable[[OnnxNet], object]


# ------------------------------------------------------------------------- quantization


def coded(n: OnnxNet, x: Slot) -> Slot:
    """In a quantized net: x through QuantizeLinear and DequantizeLinear."""
    if n.kind == "float" or x.data.dtype != np.float32:
        return x
    slack = n.one([0.7, 1.0, 1.0, 1.3])
    low, high = min(0.0, float(x.data.min()) * slack), max(0.0, float(x.data.max()) * slack)
    if high - low < 1e-3:
        high = low + 1.0
    scale = np.float32((high - low) / 255)
    least = -128 if n.kind == "int8" else 0
    zero = np.clip(round(least - low / float(scale)), least, least + 255)
    parameters = [n.const(scale), n.const(zero, n.kind)]
    codes = n.add("QuantizeLinear", [x, *parameters])[0]
    if n.chance(0.15):
        codes = moved(n, codes)
    n.slots.remove(codes)
    return n.add("DequantizeLinear", [codes, *parameters])[0]


def moved(n: OnnxNet, codes: Slot) -> Slot:
    """Codes moved between the two conversions."""
    perm = list(range(codes.rank))
    if codes.rank > 1 + int(n.dynamic):
        perm[-1], perm[-2] = (perm[-2], perm[-1]) if codes.rank > 2 else (perm[-1], perm[-2])
    n.slots.remove(codes)
    return n.add("Transpose", [codes], perm=perm)[0]


def weight(n: OnnxNet, shape: Sequence[int], axis: int, fan: int) -> Slot:
    """A weight; in a quantized net behind DequantizeLinear, by channel or not."""
    real = n.rng.standard_normal(tuple(shape)) / np.sqrt(max(fan, 1))
    if n.kind == "float":
        return n.const(real, np.float32)
    by_channel = n.chance(0.5)
    others = tuple(i for i in range(len(shape)) if i != axis) if by_channel else None
    scale = np.maximum(np.abs(real).max(axis=others) / 127, 1e-4).astype(np.float32)
    spread = scale.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    codes = n.const(np.clip(np.round(real / spread), -127, 127), np.int8)
    zero = n.const(np.zeros(scale.shape), np.int8)
    attributes: dict[str, Any] = {"axis": axis} if by_channel else {}
    made = n.add("DequantizeLinear", [codes, n.const(scale), zero], **attributes)[0]
    n.slots.remove(made)
    made.fixed = True
    return made


def rounded(n: OnnxNet, x: Slot) -> Slot:
    """What a quantized net has behind an op, often behind an activation."""
    if n.kind != "float" and n.chance(0.3):
        x = n.add("Relu", [x])[0]
    return coded(n, x)


# ------------------------------------------------------------------------- with weights


def window(n: OnnxNet, extents: Sequence[int]) -> dict[str, Any]:
    """Window, strides, dilations and padding over spatial extents."""
    size = [n.number(1, min(3, extent)) for extent in extents]
    settings: dict[str, Any] = {"kernel_shape": size}
    if n.chance(0.4):
        settings["strides"] = [n.number(1, 2) for _ in extents]
    if n.chance(0.2):
        settings["auto_pad"] = n.one(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif n.chance(0.6):
        settings["pads"] = [n.number(0, max(s - 1, 0)) for s in (*size, *size)]
    return settings


def conv(n: OnnxNet) -> None:
    x = coded(n, n.pick(ranks=[3, 4, 4, 5]))
    settings = window(n, x.shape[2:])
    depth = x.shape[1]
    groups = n.one([1, 1, 1, depth, *(g for g in (2, 3) if depth % g == 0)])
    filters = groups * n.number(1, max(1, 6 // groups))
    if n.chance(0.2) and "auto_pad" not in settings:
        settings["dilations"] = [n.number(1, 2) for _ in x.shape[2:]]
    shape = (filters, depth // groups, *settings["kernel_shape"])
    operands = [x, weight(n, shape, 0, int(np.prod(shape[1:])))]
    if n.chance(0.7):
        operands.append(n.const(n.random((filters,))))
    rounded(n, n.add("Conv", operands, group=groups, **settings)[0])


def conv_transpose(n: OnnxNet) -> None:
    x = coded(n, n.pick(ranks=[3, 4, 4], small=400))
    groups = n.one([1, 1, x.shape[1]])
    filters = n.number(1, 3)
    size = [n.number(1, 3) for _ in x.shape[2:]]
    strides = [n.number(1, 2) for _ in x.shape[2:]]
    settings: dict[str, Any] = {"kernel_shape": size, "strides": strides, "group": groups}
    if n.chance(0.4):
        settings["pads"] = [n.number(0, max(s - 1, 0)) for s in (*size, *size)]
    if n.chance(0.2):
        settings["output_padding"] = [s - 1 for s in strides]
    shape = (x.shape[1], filters, *size)
    operands = [x, weight(n, shape, 1, x.shape[1])]
    if n.chance(0.6):
        operands.append(n.const(n.random((filters * groups,))))
    rounded(n, n.add("ConvTranspose", operands, **settings)[0])


def gemm(n: OnnxNet) -> None:
    x = coded(n, n.pick(ranks=[2]))
    turned = n.chance(0.5)
    count = n.number(1, 6)
    shape = (count, x.shape[1]) if turned else (x.shape[1], count)
    operands = [x, weight(n, shape, 0 if turned else 1, x.shape[1])]
    if n.chance(0.7):
        operands.append(n.const(n.random(n.one([(count,), (1, count)]))))
    factors = {} if n.chance(0.7) else {"alpha": 0.5, "beta": 1.5}
    rounded(n, n.add("Gemm", operands, transB=int(turned), **factors)[0])


def matmul(n: OnnxNet) -> None:
    x = coded(n, n.pick(ranks=[2, 3, 4]))
    if n.chance(0.4):
        perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
        if n.dynamic and x.rank == 2:
            raise UnfitError
        other = n.add("Transpose", [x], perm=perm)[0]
    else:
        other = weight(n, (x.shape[-1], n.number(1, 6)), 1, x.shape[-1])
    rounded(n, n.add("MatMul", [x, other])[0])


def batch_norm(n: OnnxNet) -> None:
    x = n.pick(ranks=[2, 3, 4])
    count = x.shape[1]
    parts = [n.const(n.random((count,))) for _ in range(3)]
    variance = n.const(n.rng.uniform(0.5, 2, count), np.float32)
    n.add("BatchNormalization", [x, *parts, variance])


def instance_norm(n: OnnxNet) -> None:
    x = n.pick(ranks=[3, 4], where=lambda s: np.prod(s.shape[2:]) > 3)
    parts = [n.const(n.random((x.shape[1],))) for _ in range(2)]
    n.add("InstanceNormalization", [x, *parts], epsilon=0.01)


def layer_norm(n: OnnxNet) -> None:
    x = n.pick(ranks=[2, 3, 4], where=lambda s: s.shape[-1] > 2)
    if n.opset < 17:
        raise UnfitError
    parts = [n.const(n.random(x.shape[-1:])) for _ in range(n.number(1, 2))]
    n.add("LayerNormalization", [x, *parts], epsilon=0.01)


def prelu(n: OnnxNet) -> None:
    x = n.pick(ranks=[2, 3, 4])
    shape = n.one([(1,), (x.shape[1], *(1 for _ in x.shape[2:]))])
    n.add("PRelu", [x, n.const(n.random(shape))])


# ------------------------------------------------------------------------- windows


def pool(n: OnnxNet) -> None:
    x = coded(n, n.pick(ranks=[3, 4, 4, 5]))
    settings = window(n, x.shape[2:])
    op = n.one(["MaxPool", "AveragePool"])
    covers = min(settings["kernel_shape"]) > 1
    if n.chance(0.3) and covers and not {"auto_pad", "pads"} & set(settings):
        settings["ceil_mode"] = 1  # others end elsewhere for onnx than for onnxruntime
    if op == "AveragePool" and n.chance(0.4):
        settings["count_include_pad"] = 1
    if op == "MaxPool" and n.chance(0.15) and "auto_pad" not in settings:
        settings["dilations"] = [n.number(1, 2) for _ in x.shape[2:]]
    rounded(n, n.add(op, [x], **settings)[0])


def global_pool(n: OnnxNet) -> None:
    x = coded(n, n.pick(ranks=[3, 4, 5]))
    rounded(n, n.add(n.one(["GlobalAveragePool", "GlobalMaxPool"]), [x])[0])


def local_response(n: OnnxNet) -> None:
    n.add("LRN", [n.pick(ranks=[4])], size=n.one([1, 3, 5]), alpha=0.3, beta=0.75, bias=1.0)


def resize(n: OnnxNet) -> None:
    x = n.pick(ranks=[4], small=600)
    scales = np.array([1, 1, n.one([1, 2, 3]), n.one([1, 2, 2])], np.float32)
    mode, place, *nearest = n.one(
        [
            ("nearest", "asymmetric", "floor"),
            ("nearest", "half_pixel", "round_prefer_floor"),
            ("nearest", "align_corners", "round_prefer_ceil"),
            ("linear", "half_pixel"),
            ("linear", "align_corners"),
            ("linear", "asymmetric"),
            ("linear", "pytorch_half_pixel"),
            ("cubic", "half_pixel"),
        ]
    )
    more = {"nearest_mode": nearest[0]} if nearest else {}
    n.add(
        "Resize",
        [x, None, n.const(scales)],
        mode=mode,
        coordinate_transformation_mode=place,
        **more,
    )


# ------------------------------------------------------------------------- by element

UNARY = (
    *("Relu", "Sigmoid", "Tanh", "Elu", "LeakyRelu", "Selu", "Softplus", "Softsign", "HardSigmoid"),
    *("HardSwish", "Neg", "Abs", "Exp", "Erf", "Sin", "Cos", "Atan", "ThresholdedRelu", "Celu"),
    *("Floor", "Ceil", "Round", "Sign", "Identity", "Mish", "Gelu"),
)
POSITIVE = ("Sqrt", "Log", "Reciprocal")


def unary(n: OnnxNet) -> None:
    op = n.one(UNARY)
    x = n.pick()
    n.add(op, [coded(n, x)] if n.chance(0.5) else [x])


def of_positives(n: OnnxNet) -> None:
    x = n.add("Abs", [n.pick()])[0]
    x = n.add("Add", [x, n.const(np.float32(0.3))])[0]
    n.add(n.one(POSITIVE), [x])


def partner(n: OnnxNet, x: Slot) -> Slot:
    """Something that broadcasts with x."""
    others = [s for s in n.slots if s.shape == x.shape and s.data.dtype == x.data.dtype]
    if others and n.chance(0.6):
        return n.one(others)
    shape = [1 if n.chance(0.4) else e for e in x.shape[n.number(0, x.rank) :]]
    if n.dynamic and len(shape) == x.rank:
        shape[0] = 1
    if x.is_float:
        return n.const(n.random(shape))
    return n.const(n.rng.integers(1, 5, shape), x.data.dtype)


def ordered(n: OnnxNet, x: Slot, y: Slot) -> list[Slot]:
    return [x, y] if n.chance(0.7) else [y, x]


def binary(n: OnnxNet) -> None:
    x = coded(n, n.pick())
    op = n.one(["Add", "Add", "Mul", "Mul", "Sub", "Max", "Min"])
    rounded(n, n.add(op, ordered(n, x, partner(n, x)))[0])


def division(n: OnnxNet) -> None:
    x = n.pick()
    n.add("Div", [x, n.const(n.rng.uniform(0.5, 2, x.shape[-1:]), np.float32)])


def power(n: OnnxNet) -> None:
    n.add("Pow", [n.pick(), n.const(np.float32(n.one([2, 3, 1])))])


def of_integers(n: OnnxNet) -> None:
    x = n.pick("i")
    n.add(n.one(["Add", "Mul", "Sub", "Max", "Min"]), ordered(n, x, partner(n, x)))


def comparison(n: OnnxNet) -> None:
    x = n.pick("fi")
    op = n.one(["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"])
    n.add(op, [x, partner(n, x)])


def logic(n: OnnxNet) -> None:
    x = n.pick("b")
    if n.chance(0.3):
        n.add("Not", [x])
    else:
        n.add(
            n.one(["And", "Or", "Xor"]),
            [x, n.one([s for s in n.slots if s.shape == x.shape and s.data.dtype == bool])],
        )


def where(n: OnnxNet) -> None:
    c = n.pick("b")
    x = n.one([s for s in n.slots if s.shape == c.shape and s.is_float] or [None])
    if x is None:
        raise UnfitError
    n.add("Where", [c, x, partner(n, x)])


def clip(n: OnnxNet) -> None:
    low, high = n.one([(0, 6), (-1, 1), (-0.5, 0.7), (0, None), (None, 1)])
    bounds = [None if b is None else n.const(np.float32(b)) for b in (low, high)]
    x = n.pick()
    rounded(n, n.add("Clip", [coded(n, x) if n.chance(0.5) else x, *bounds])[0])


def cast(n: OnnxNet) -> None:
    x = n.pick("fib")
    n.add("Cast", [x], to=n.one([1, 6, 7, 9]))


# ------------------------------------------------------------------------- along dimensions


def reduce(n: OnnxNet) -> None:
    x = coded(n, n.pick(ranks=[2, 3, 4, 5]))
    op = n.one(["Mean", "Mean", "Sum", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "Prod"])
    count = n.number(1, x.rank - 1)
    first = int(n.dynamic)
    places = n.rng.choice(np.arange(first, x.rank), min(count, x.rank - first), replace=False)
    axes = sorted(int(a) - (x.rank if n.chance(0.2) else 0) for a in places)
    if len({a % x.rank for a in axes}) != len(axes) or not axes:
        raise UnfitError
    as_operand = n.opset >= (13 if op == "Sum" else 18)
    operands = [x, n.const(axes, np.int64)] if as_operand else [x]
    more = {} if as_operand else {"axes": axes}
    rounded(n, n.add(f"Reduce{op}", operands, keepdims=n.number(0, 1), **more)[0])


def softmax(n: OnnxNet) -> None:
    x = coded(n, n.pick())
    op = n.one(["Softmax", "Softmax", "LogSoftmax", "Hardmax"])
    n.add(op, [x], axis=n.axis(x))


def best(n: OnnxNet) -> None:
    x = n.pick()
    op = n.one(["ArgMax", "ArgMin"])
    n.add(op, [x], axis=n.axis(x), keepdims=n.number(0, 1))


def top(n: OnnxNet) -> None:
    x = n.pick()
    axis = n.axis(x)
    k = n.const([n.number(1, x.shape[axis])], np.int64)
    n.add("TopK", [x, k], 2, axis=axis, largest=n.number(0, 1))


def cumulative(n: OnnxNet) -> None:
    x = n.pick()
    axis = n.const(n.axis(x), np.int64)
    n.add("CumSum", [x, axis], exclusive=n.number(0, 1), reverse=n.number(0, 1))


# ------------------------------------------------------------------------- moves


def transpose(n: OnnxNet) -> None:
    x = n.pick("fib", ranks=[2, 3, 4, 5])
    perm = [int(p) for p in n.rng.permutation(x.rank)]
    if n.dynamic:
        perm = [0, *(p for p in perm if p)]
    n.add("Transpose", [x], perm=perm)


def reshape(n: OnnxNet) -> None:
    x = n.pick("fib", ranks=[2, 3, 4, 5])
    kind = n.number(0, 3)
    if kind == 0:
        n.add("Flatten", [x], axis=1)
    elif kind == 1:
        n.add("Reshape", [x, n.const([0, -1], np.int64)])
    elif kind == 2 and x.rank > 2:
        tail = list(x.shape[1:])
        place = n.number(0, len(tail) - 2)
        tail[place : place + 2] = [tail[place] * tail[place + 1]]
        n.add("Reshape", [x, n.const([0, *tail], np.int64)])
    else:
        extent = x.shape[-1]
        factors = [f for f in (2, 3) if extent % f == 0]
        if not factors or x.rank > 4:
            raise UnfitError
        f = n.one(factors)
        shape = [0 if i == 0 else e for i, e in enumerate(x.shape[:-1])]
        n.add("Reshape", [x, n.const([*shape, f, extent // f], np.int64)])


def squeeze(n: OnnxNet) -> None:
    x = n.pick("fib")
    ones = [i for i, e in enumerate(x.shape) if e == 1 and i >= int(n.dynamic)]
    if ones and n.chance(0.5):
        n.add("Squeeze", [x, n.const([n.one(ones)], np.int64)])
    elif x.rank < 5:
        n.add("Unsqueeze", [x, n.const([n.number(int(n.dynamic), x.rank)], np.int64)])


def concat(n: OnnxNet) -> None:
    x = n.pick("fi")
    axis = n.axis(x)
    rest = [e for i, e in enumerate(x.shape) if i != axis % x.rank]
    fit = [
        s
        for s in n.slots
        if s.data.dtype == x.data.dtype
        and s.rank == x.rank
        and [e for i, e in enumerate(s.shape) if i != axis % x.rank] == rest
    ]
    parts = [coded(n, x), *(n.one(fit) for _ in range(n.number(1, 3)))]
    rounded(n, n.add("Concat", parts, axis=axis)[0])


def split(n: OnnxNet) -> None:
    x = n.pick("fi")
    axis = n.axis(x)
    extent = x.shape[axis]
    if extent < 2:
        raise UnfitError
    cut = n.number(1, extent - 1)
    n.add("Split", [x, n.const([cut, extent - cut], np.int64)], 2, axis=axis)


def slice_(n: OnnxNet) -> None:
    x = n.pick("fib")
    axis = n.axis(x)
    extent = x.shape[axis]
    low = n.number(0, extent - 1)
    high = n.number(low + 1, extent)
    step = n.one([1, 1, 2, -1])
    if step < 0:
        low, high = high - 1, (low - 1 if low else -extent - 1)
    if n.chance(0.2):
        high = 1 << 40 if step > 0 else high
    numbers = [n.const([v], np.int64) for v in (low, high, axis, step)]
    n.add("Slice", [x, *numbers])


def gather(n: OnnxNet) -> None:
    x = n.pick("fib", small=600)
    axis = n.axis(x)
    extent = x.shape[axis]
    shape = n.one([(), (1,), (3,), (2, 2)])
    indices = n.rng.integers(-extent if n.chance(0.3) else 0, extent, shape)
    n.add("Gather", [x, n.const(indices, np.int64)], axis=axis)


def gather_elements(n: OnnxNet) -> None:
    n.still()
    x = n.pick("fi", small=300)
    axis = n.axis(x)
    shape = list(x.shape)
    shape[axis] = n.number(1, 3)
    indices = n.rng.integers(0, x.shape[axis], shape)
    n.add("GatherElements", [x, n.const(indices, np.int64)], axis=axis)


def scatter(n: OnnxNet) -> None:
    n.still()
    x = n.pick(ranks=[2, 3], small=300)
    count = n.number(1, x.shape[0])
    indices = n.rng.permutation(x.shape[0])[:count].reshape(-1, 1)
    updates = n.const(n.random((count, *x.shape[1:])))
    n.add("ScatterND", [x, n.const(indices, np.int64), updates])


def pad(n: OnnxNet) -> None:
    x = n.pick("f", ranks=[2, 3, 4])
    first = int(n.dynamic)
    mode = n.one(["constant", "constant", "reflect", "edge"])
    most = [
        0 if i < first else min(2, e - 1) if mode == "reflect" else 2 for i, e in enumerate(x.shape)
    ]
    pads = [n.number(0, m) if n.chance(0.6) else 0 for m in (*most, *most)]
    operands = [coded(n, x), n.const(pads, np.int64)]
    if mode == "constant" and n.chance(0.4):
        operands.append(n.const(np.float32(n.one([0, 1.5, -2]))))
    n.add("Pad", operands, mode=mode)


def expand(n: OnnxNet) -> None:
    n.still()
    x = n.pick("fib", small=300)
    shape = [n.number(1, 3) if e == 1 else e for e in x.shape]
    n.add("Expand", [x, n.const(shape, np.int64)])


def tile(n: OnnxNet) -> None:
    x = n.pick("fi", small=300)
    repeats = [1 if n.dynamic and i == 0 else n.number(1, 2) for i in range(x.rank)]
    n.add("Tile", [x, n.const(repeats, np.int64)])


def depth_space(n: OnnxNet) -> None:
    x = n.pick(ranks=[4])
    if x.shape[1] % 4 == 0:
        n.add("DepthToSpace", [x], blocksize=2, mode=n.one(["DCR", "CRD"]))
    elif x.shape[2] % 2 == x.shape[3] % 2 == 0:
        n.add("SpaceToDepth", [x], blocksize=2)
    else:
        raise UnfitError


def triangle(n: OnnxNet) -> None:
    if n.opset < 14:
        raise UnfitError
    n.add("Trilu", [n.pick(ranks=[2, 3])], upper=n.number(0, 1))


def by_shape(n: OnnxNet) -> None:
    """A reshape to extents that are computed from another's."""
    x = n.pick(ranks=[3, 4])
    dims = n.add("Shape", [x])[0]
    first = n.add("Gather", [dims, n.const([0], np.int64)])[0]
    target = n.add("Concat", [first, n.const([-1], np.int64)], axis=0)[0]
    n.add("Reshape", [x, target])


# ------------------------------------------------------------------------- groups of nodes


def residual(n: OnnxNet) -> None:
    x = coded(n, n.pick(ranks=[4]))
    depth = x.shape[1]
    y = n.add("Conv", [x, weight(n, (depth, depth, 3, 3), 0, depth * 9)], pads=[1] * 4)[0]
    y = coded(n, n.add("Relu", [y])[0])
    rounded(n, n.add("Add", [y, x])[0])


def gate(n: OnnxNet) -> None:
    """Squeeze and excitation."""
    x = coded(n, n.pick(ranks=[4]))
    depth = x.shape[1]
    y = coded(n, n.add("GlobalAveragePool", [x])[0])
    y = n.add("Conv", [y, weight(n, (depth, depth, 1, 1), 0, depth)])[0]
    y = coded(n, n.add(n.one(["Sigmoid", "HardSigmoid"]), [coded(n, y)])[0])
    rounded(n, n.add("Mul", [x, y])[0])


def swish(n: OnnxNet) -> None:
    x = n.pick()
    n.add("Mul", [x, n.add(n.one(["Sigmoid", "HardSigmoid"]), [x])[0]])


def gelu(n: OnnxNet) -> None:
    x = n.pick()
    y = n.add("Div", [x, n.const(np.float32(np.sqrt(2)))])[0]
    y = n.add("Add", [n.add("Erf", [y])[0], n.const(np.float32(1))])[0]
    n.add("Mul", [n.add("Mul", [x, y])[0], n.const(np.float32(0.5))])


def attention(n: OnnxNet) -> None:
    x = n.pick(ranks=[3])
    k = n.add("Transpose", [x], perm=[0, 2, 1])[0]
    scores = n.add("MatMul", [x, k])[0]
    scores = n.add("Mul", [scores, n.const(np.float32(x.shape[2] ** -0.5))])[0]
    n.add("MatMul", [n.add("Softmax", [scores], axis=-1)[0], x])


def channel_shuffle(n: OnnxNet) -> None:
    x = n.pick(ranks=[4])
    _, c, h, w = x.shape
    groups = [g for g in (2, 3) if c % g == 0]
    if not groups:
        raise UnfitError
    g = n.one(groups)
    y = n.add("Reshape", [x, n.const([0, g, c // g, h, w], np.int64)])[0]
    y = n.add("Transpose", [y], perm=[0, 2, 1, 3, 4])[0]
    n.add("Reshape", [y, n.const([0, c, h, w], np.int64)])


def other_layout(n: OnnxNet) -> None:
    """To channels last, something there, and now and then the way back."""
    x = n.add("Transpose", [n.pick(ranks=[4])], perm=[0, 2, 3, 1])[0]
    if n.chance(0.5):
        x = n.add(n.one(["Relu", "Sigmoid", "Neg"]), [x])[0]
    if n.chance(0.5):
        x = n.add("Add", [x, n.const(n.random(x.shape[-1:]))])[0]
    if n.chance(0.6):
        n.add("Transpose", [x], perm=[0, 3, 1, 2])


def recurrent(n: OnnxNet) -> None:
    x = n.pick(ranks=[3], small=200)
    n.still()
    op, gates = n.one([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    both = n.chance(0.3)
    ways, hidden = 1 + both, n.number(1, 4)
    w = n.const(n.random((ways, gates * hidden, x.shape[2])) * np.float32(0.5))
    r = n.const(n.random((ways, gates * hidden, hidden)) * np.float32(0.5))
    operands: list[Slot | None] = [x, w, r]
    if n.chance(0.6):
        operands.append(n.const(n.random((ways, 2 * gates * hidden))))
    more: dict[str, Any] = {"linear_before_reset": n.number(0, 1)} if op == "GRU" else {}
    n.add(
        op,
        operands,
        n.number(1, 3 if op == "LSTM" else 2),
        hidden_size=hidden,
        direction="bidirectional" if both else n.one(["forward", "reverse"]),
        **more,
    )


MAKERS: tuple[Maker, ...] = (
    *(conv, conv, conv, conv_transpose, gemm, gemm, matmul, matmul, batch_norm, instance_norm),
    *(layer_norm, prelu, pool, pool, global_pool, local_response, resize, unary, unary, unary),
    *(of_positives, binary, binary, binary, division, power, of_integers, comparison, logic, where),
    *(clip, cast, reduce, reduce, softmax, softmax, best, top, cumulative, transpose, transpose),
    *(reshape, reshape, squeeze, concat, concat, split, slice_, slice_, gather, gather_elements),
    *(scatter, pad, expand, tile, depth_space, triangle, by_shape, residual, gate, swish, gelu),
    *(attention, channel_shuffle, other_layout, recurrent),
)


def add_random(n: OnnxNet) -> None:
    """Add one node, or a group of them.

    Raises:
        UnfitError: what was drawn doesn't fit; nodes that were added before that was found stay.
    """
    n.one(MAKERS)(n)
