"""The nodes that random ONNX graphs are drawn from: for each, operands that onnxruntime takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from support.random_core import UnfitError
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


WEIGHTS: dict[Maker, int] = {
    conv: 3,
    conv_transpose: 1,
    gemm: 2,
    matmul: 2,
    batch_norm: 1,
    instance_norm: 1,
    layer_norm: 1,
    prelu: 1,
    pool: 2,
    global_pool: 1,
    local_response: 1,
    resize: 1,
    unary: 3,
    of_positives: 1,
    binary: 3,
    division: 1,
    power: 1,
    of_integers: 1,
    comparison: 1,
    logic: 1,
    where: 1,
    clip: 1,
    cast: 1,
    reduce: 2,
    softmax: 2,
    best: 1,
    top: 1,
    cumulative: 1,
}
"""What is drawn, and how often beside the others."""
