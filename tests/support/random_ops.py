"""The ops that random graphs are drawn from: for each, operands that LiteRT takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from support.random_core import UnfitError
from support.random_net import Net, Slot
from support.tflite_builder import Quant

FLOAT = ("float32",)
BYTES = ("int8", "uint8")
CODED = (*BYTES, "int16")
ACTIVATIONS = ("NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1")

Maker = Callable[[Net], object]


def axis_of(n: Net, x: Slot, *, first: int = 0) -> int:
    """An axis, now and then counted from the end; not the batch of a dynamic net."""
    axis = n.number(max(first, int(n.dynamic)), x.rank - 1) if x.rank > int(n.dynamic) else -1
    if axis < 0:
        raise UnfitError
    return axis - x.rank if n.chance(0.3) else axis


def still(n: Net) -> None:
    """For ops that can't follow an unknown batch."""
    if n.dynamic:
        raise UnfitError


# --------------------------------------------------------------------- with weights


def weights(n: Net, x: Slot, shape: Sequence[int], axis: int) -> tuple[Slot, np.ndarray]:
    """Weights for data and their scales; those of float data are float16 now and then."""
    values = n.rng.standard_normal(shape) / np.sqrt(np.prod(shape) / shape[axis])
    if x.dtype == "float32":
        if n.chance(0.2):
            half = n.const(values.astype(np.float16))
            wide = n.add("DEQUANTIZE", [half], ["float32"])[0]
            wide.fixed = True
            n.slots.remove(wide)
            n.log.pop()
            return wide, np.ones(1)
        return n.const(values.astype(np.float32)), np.ones(1)
    if x.dtype == "uint8":
        scale = float(np.float32(np.abs(values).max() / 120 + 1e-4))
        point = n.number(110, 140)
        codes = np.clip(np.round(values / scale) + point, 1, 255).astype(np.uint8)
        return n.const(codes, quant=(scale, point)), np.asarray([scale])
    others = tuple(i for i in range(len(shape)) if i != axis)
    if n.chance(0.6):
        scales = (np.abs(values).max(axis=others) / 127 + 1e-4).astype(np.float32)
        spread = scales.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        quant = Quant(scales, 0, axis=axis)
    else:
        scales = np.asarray([np.abs(values).max() / 127 + 1e-4], np.float32)
        spread, quant = scales[0], Quant(scales, 0)
    codes = np.clip(np.round(values / spread), -127, 127).astype(np.int8)
    return n.const(codes, quant=quant), scales


def bias(n: Net, x: Slot, count: int, scales: np.ndarray) -> Slot:
    if x.dtype == "float32":
        return n.const(n.rng.standard_normal(count).astype(np.float32))
    assert isinstance(x.quant, tuple)
    scale = (scales * x.quant[0]).astype(np.float32)
    values = n.rng.standard_normal(count)
    codes = np.round(values / scale).astype(np.int64 if x.dtype == "int16" else np.int32)
    return n.const(codes, quant=Quant(scale, 0))


def window(n: Net, x: Slot) -> tuple[int, int, int, int, str]:
    """Window, stride and padding over the image."""
    size = [n.number(1, min(3, extent)) for extent in x.shape[1:3]]
    stride = [n.number(1, 2), n.number(1, 2)]
    return (size[0], size[1], stride[0], stride[1], n.one(["SAME", "VALID"]))


def conv(n: Net) -> None:
    x = n.pick(*FLOAT, *CODED, ranks=[4])
    h, w, sh, sw, padding = window(n, x)
    depth, filters = x.shape[3], n.number(1, 6)
    if depth > 1 and x.dtype != "int16" and n.chance(0.15):
        filters, depth = x.shape[3] * n.number(1, 2), 1
    kernel, scales = weights(n, x, (filters, h, w, depth), 0)
    dilation = n.number(1, 2) if sh == sw == 1 and padding == "SAME" else 1
    n.add(
        "CONV_2D",
        [x, kernel, bias(n, x, filters, scales)],
        real=True,
        stride_h=sh,
        stride_w=sw,
        padding=padding,
        dilation_h_factor=dilation,
        dilation_w_factor=dilation,
        fused_activation_function=n.one(ACTIVATIONS),
    )


def depthwise(n: Net) -> None:
    x = n.pick(*FLOAT, *CODED, ranks=[4])
    h, w, sh, sw, padding = window(n, x)
    multiplier = n.one([1, 1, 1, 2, 3])
    count = x.shape[3] * multiplier
    kernel, scales = weights(n, x, (1, h, w, count), 3)
    n.add(
        "DEPTHWISE_CONV_2D",
        [x, kernel, bias(n, x, count, scales)],
        real=True,
        stride_h=sh,
        stride_w=sw,
        padding=padding,
        depth_multiplier=multiplier,
        fused_activation_function=n.one(ACTIVATIONS),
    )


def transpose_conv(n: Net) -> None:
    still(n)
    x = n.pick(*FLOAT, *CODED, ranks=[4], small=400)
    window_, stride = (n.number(1, 3), n.number(1, 3)), (n.number(1, 2), n.number(1, 2))
    filters, padding = n.number(1, 4), n.one(["SAME", "VALID"])
    extents = [
        e * s if padding == "SAME" else (e - 1) * s + k
        for e, s, k in zip(x.shape[1:3], stride, window_, strict=True)
    ]
    kernel, scales = weights(n, x, (filters, *window_, x.shape[3]), 0)
    operands = [n.ints(x.shape[0], *extents, filters), kernel, x]
    if n.chance(0.6):
        operands.append(bias(n, x, filters, scales))
    n.add(
        "TRANSPOSE_CONV",
        operands,
        [x.dtype],
        real=True,
        version=3,
        stride_h=stride[0],
        stride_w=stride[1],
        padding=padding,
        fused_activation_function=n.one(ACTIVATIONS),
    )


def fully_connected(n: Net) -> None:
    x = n.pick(*FLOAT, *CODED, ranks=[2, 3, 4])
    filters = n.number(1, 6)
    kernel, scales = weights(n, x, (filters, x.shape[-1]), 0)
    operands: list[Slot | None] = [x, kernel]
    operands.append(bias(n, x, filters, scales) if n.chance(0.7) else None)
    n.add(
        "FULLY_CONNECTED",
        operands,
        real=True,
        keep_num_dims=n.dynamic or n.chance(0.5),
        fused_activation_function=n.one(ACTIVATIONS),
    )


def batch_matmul(n: Net) -> None:
    x = n.pick(*FLOAT, "int8", "int16", ranks=[2, 3, 4], small=400)
    adj_x, adj_y = n.chance(0.3), n.chance(0.3)
    inner, columns = x.shape[-2 if adj_x else -1], n.number(1, 5)
    if n.dynamic and x.rank == 2 and adj_x:
        raise UnfitError
    lead = x.shape[:-2] if not n.dynamic and n.chance(0.7) else (1,) * (x.rank - 2)
    last = (columns, inner) if adj_y else (inner, columns)
    y = n.like(x, (*lead, *last))
    if x.dtype != "float32":
        y = n.const(y.data, quant=(float(np.float32(0.02 / (1 + 99 * (x.dtype == "int16")))), 0))
    n.add("BATCH_MATMUL", [x, y], real=True, adj_x=adj_x, adj_y=adj_y)


# --------------------------------------------------------------------- windows


def pool(n: Net) -> None:
    op = n.one(["AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"])
    x = n.pick(*FLOAT, *(() if op == "L2_POOL_2D" else CODED), ranks=[4])
    h, w, sh, sw, padding = window(n, x)
    n.add(
        op,
        [x],
        filter_height=h,
        filter_width=w,
        stride_h=sh,
        stride_w=sw,
        padding=padding,
        fused_activation_function=n.one(ACTIVATIONS),
    )


def resize(n: Net) -> None:
    op = n.one(["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
    x = n.pick(*FLOAT, *BYTES, ranks=[4], small=600)
    size = n.ints(n.number(1, 9), n.number(1, 9))
    align, half = n.one([(False, False), (True, False), (False, True)])
    n.add(op, [x, size], align_corners=align, half_pixel_centers=half)


# --------------------------------------------------------------------- elementwise


def partner(n: Net, x: Slot, *, same: bool = False) -> Slot:
    """A second operand: another tensor or a constant, broadcast or not."""
    others = [
        s
        for s in n.slots
        if s.dtype == x.dtype
        and s.quantized == x.quantized
        and (not same or s.quant == x.quant)
        and s.rank
        and _fits(s.shape, x.shape)
        and not (n.dynamic and (s.rank != x.rank or s.shape[0] != x.shape[0]))
    ]
    if others and n.chance(0.6):
        return n.one(others)  # type: ignore[no-any-return]
    shape = list(x.shape[n.number(0, x.rank - 1) :])
    if len(shape) == x.rank and n.dynamic:
        shape[0] = 1
    shape = [1 if n.chance(0.2) else extent for extent in shape]
    made = n.like(x, shape)
    if x.quant is not None and not same and n.chance(0.7):
        assert isinstance(x.quant, tuple)
        made = n.const(made.data, quant=(float(np.float32(x.quant[0] * 0.6137)), x.quant[1]))
    return made


def _fits(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(p == q or 1 in (p, q) for p, q in zip(a[::-1], b[::-1], strict=False))


def arithmetic(n: Net) -> None:
    op = n.one(["ADD", "ADD", "MUL", "MUL", "SUB", "DIV", "SQUARED_DIFFERENCE"])
    types: dict[str, tuple[str, ...]] = {
        "DIV": FLOAT,
        "SQUARED_DIFFERENCE": (*FLOAT, "int8", "int32"),
    }
    x = n.pick(*types.get(op, (*FLOAT, *CODED, "int32", "int64")))
    y = partner(n, x)
    if op == "DIV":
        y = n.const(np.abs(n.like(x, y.shape).data) + np.float32(0.3))
    options: dict[str, Any] = {}
    if op != "SQUARED_DIFFERENCE" and (x.quantized or x.dtype == "float32"):
        options["fused_activation_function"] = n.one(ACTIVATIONS)
    if op in ("ADD", "SUB") and x.dtype == "int16":
        options["pot_scale_int16"] = False
    pair = [x, y] if op == "DIV" or n.chance(0.7) else [y, x]
    n.add(op, pair, real=True, **options)


def extremum(n: Net) -> None:
    x = n.pick(*FLOAT, *CODED, "int32", "int64")
    n.add(n.one(["MAXIMUM", "MINIMUM"]), [x, partner(n, x, same=True)])


def whole_division(n: Net) -> None:
    op = n.one(["FLOOR_DIV", "FLOOR_MOD"])
    x = n.pick("float32", "int32")
    divisor = n.rng.integers(1, 5, x.shape[-1:]) * n.one([1, -1])
    n.add(op, [x, n.const(divisor.astype(x.dtype) + (0.3 if x.dtype == "float32" else 0), x.dtype)])


def compared(n: Net) -> None:
    op = n.one(["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"])
    # LiteRT compares 256 times the real numbers, rounded: of different scales some are equal there
    # that aren't, of small ones all.
    x = n.pick(
        *(*FLOAT, *BYTES, "int32", "int64"),
        where=lambda s: s.quant is None or s.quant[0] > 0.005,
    )
    n.add(op, [x, partner(n, x, same=True)], ["bool"])


def logical(n: Net) -> None:
    x = n.pick("bool")
    if n.chance(0.3):
        n.add("LOGICAL_NOT", [x])
    else:
        n.add(n.one(["LOGICAL_AND", "LOGICAL_OR"]), [x, partner(n, x)])


def select(n: Net) -> None:
    condition = n.pick("bool")
    kind = n.pick(*FLOAT, *CODED, "int32", where=lambda s: _fits(s.shape, condition.shape))
    if n.dynamic and (kind.rank != condition.rank or kind.shape[0] != condition.shape[0]):
        raise UnfitError
    other = partner(n, kind, same=True)
    if not _fits(other.shape, np.broadcast_shapes(kind.shape, condition.shape)):
        raise UnfitError
    n.add(
        "SELECT_V2",
        [condition, kind, other],
        [kind.dtype],
        quant=(
            kind.quant  # type: ignore[arg-type]
        ),
    )


UNARY: dict[str, tuple[str, ...]] = {
    "ABS": ("float32", "int32", "int8", "int16"),
    "NEG": ("float32", "int32", "int64"),
    "SIGN": ("float32", "int32"),
    "CEIL": FLOAT,
    "FLOOR": FLOAT,
    "ROUND": FLOAT,
    "SIN": FLOAT,
    "COS": FLOAT,
    "SQUARE": FLOAT,
    "ELU": ("float32", "int8"),
    "GELU": (*FLOAT, *BYTES),
    "HARD_SWISH": (*FLOAT, *BYTES),
    "RELU": (*FLOAT, *CODED),
    "RELU6": (*FLOAT, *CODED),
    "RELU_N1_TO_1": (*FLOAT, *BYTES),
    "RELU_0_TO_1": (*FLOAT, *BYTES),
    "LEAKY_RELU": (*FLOAT, *CODED),
    "LOGISTIC": (*FLOAT, *CODED),
    "TANH": (*FLOAT, *CODED),
    "EXP": FLOAT,
    "SQRT": FLOAT,
    "RSQRT": FLOAT,
    "LOG": FLOAT,
}
FIXED: dict[tuple[str, str], tuple[float, int]] = {
    ("LOGISTIC", "int8"): (1 / 256, -128),
    ("LOGISTIC", "uint8"): (1 / 256, 0),
    ("LOGISTIC", "int16"): (1 / 32768, 0),
    ("TANH", "int8"): (1 / 128, 0),
    ("TANH", "uint8"): (1 / 128, 128),
    ("TANH", "int16"): (1 / 32768, 0),
    ("SOFTMAX", "int8"): (1 / 256, -128),
    ("SOFTMAX", "uint8"): (1 / 256, 0),
    ("SOFTMAX", "int16"): (1 / 32768, 0),
    ("LOG_SOFTMAX", "int8"): (16 / 256, 127),
    ("LOG_SOFTMAX", "uint8"): (16 / 256, 255),
    ("L2_NORMALIZATION", "int8"): (1 / 128, 0),
    ("L2_NORMALIZATION", "uint8"): (1 / 128, 128),
}


def unary(n: Net) -> None:
    op = n.one(list(UNARY))
    x = n.pick(*UNARY[op])
    if op in ("SQRT", "RSQRT", "LOG") and x.data.min() < 0.05:
        x = n.add("ABS", [x])[0]
        x = n.add("ADD", [x, n.const(np.float32([0.5]))])[0]
    if op == "EXP" and x.data.max() > 10:
        raise UnfitError
    if op == "HARD_SWISH" and x.quantized:
        assert isinstance(x.quant, tuple)
        result = x.real * np.clip(x.real + 3, 0, 6) / 6
        if np.abs(result).max() < 4 * x.quant[0]:
            raise UnfitError  # LiteRT takes no result of so much finer a scale
    options: dict[str, Any] = {}
    if op == "LEAKY_RELU":
        options["alpha"] = float(n.one([0.1, 0.3, 1.5]))
    if op == "GELU":
        options["approximate"] = n.chance(0.5)
    n.add(op, [x], real=x.quantized, quant=FIXED.get((op, x.dtype)), **options)


def prelu(n: Net) -> None:
    x = n.pick(*FLOAT, *BYTES, ranks=[2, 3, 4])
    alpha = n.like(x, (1,) * (x.rank - 2) + x.shape[-1:])
    if x.quantized:
        alpha = n.const(alpha.data, quant=(0.005, 0 if x.dtype == "int8" else 128))
    n.add("PRELU", [x, alpha], real=x.quantized)


def cast(n: Net) -> None:
    x = n.pick("float32", "int32", "int64", "bool")
    n.add("CAST", [x], [n.one(["float32", "int32", "int64", "bool"])])


def quantize(n: Net) -> None:
    x = n.pick(*FLOAT, *CODED)
    target = {"float32": CODED, "int8": CODED, "uint8": BYTES, "int16": ("int8", "int16")}
    dtype = n.one(target[x.dtype])
    n.add("QUANTIZE", [x], [dtype], quant=n.quant_for(x.real, dtype))


def dequantize(n: Net) -> None:
    n.add("DEQUANTIZE", [n.pick(*CODED)], ["float32"])


# --------------------------------------------------------------------- normalizing, reducing


def normalize(n: Net) -> None:
    op = n.one(["SOFTMAX", "SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"])
    x = n.pick(*FLOAT, *(CODED if op == "SOFTMAX" else BYTES), ranks=[2, 3, 4])
    options = {"beta": 1.0} if op == "SOFTMAX" else {}
    n.add(op, [x], real=x.quantized, quant=FIXED.get((op, x.dtype)), **options)


def reduce(n: Net) -> None:
    op = n.one(["MEAN", "MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY"])
    real = op in ("MEAN", "SUM")
    types: tuple[str, ...] = (*FLOAT, "int32")
    if real:
        types = (*types, *BYTES)
    if op == "REDUCE_PROD":
        types = FLOAT
    if op == "REDUCE_ANY":
        types = ("bool",)
        op = n.one(["REDUCE_ANY", "REDUCE_ALL"])
    x = n.pick(*types)
    axes = sorted({axis_of(n, x) for _ in range(n.number(1, 2))})
    if len({a % x.rank for a in axes}) < len(axes):
        raise UnfitError
    n.add(op, [x, n.ints(*axes)], real=real and x.quantized, keep_dims=n.chance(0.5))


def arg(n: Net) -> None:
    x = n.pick(*FLOAT, *BYTES, "int32")
    dtype = n.one(["int32", "int64"])
    n.add(n.one(["ARG_MAX", "ARG_MIN"]), [x, n.ints(axis_of(n, x))], [dtype], output_type=dtype)


def cumsum(n: Net) -> None:
    x = n.pick("float32", "int32", "int64")
    axis = n.const(np.int32(axis_of(n, x)))
    n.add("CUMSUM", [x, axis], exclusive=n.chance(0.3), reverse=n.chance(0.3))


def topk(n: Net) -> None:
    x = n.pick(*FLOAT, *BYTES, "int32")
    if n.dynamic and x.rank == 1:
        raise UnfitError
    k = n.const(np.int32(n.number(1, x.shape[-1])))
    n.add("TOPK_V2", [x, k], [None, "int32"])


def response(n: Net) -> None:
    x = n.pick("float32", ranks=[4])
    n.add("LOCAL_RESPONSE_NORMALIZATION", [x], radius=n.number(1, 3), bias=1.0, alpha=0.3, beta=0.5)


def chained(n: Net) -> None:
    """PAD and then a VALID convolution, as converters write explicit padding."""
    x = n.pick(*FLOAT, *CODED, ranks=[4], small=600)
    side = n.number(0, 2)
    amounts = np.int32([[0, 0], [1, side], [side, 1], [0, 0]])
    x = n.add("PAD", [x, n.const(amounts)])[0]
    kernel, scales = weights(n, x, (3, 2, 2, x.shape[3]), 0)
    n.add(
        "CONV_2D",
        [x, kernel, bias(n, x, 3, scales)],
        real=True,
        stride_h=n.number(1, 2),
        stride_w=1,
        padding="VALID",
        fused_activation_function=n.one(ACTIVATIONS),
    )


MAKERS: tuple[tuple[Maker, float], ...] = (
    (conv, 4),
    (depthwise, 2),
    (transpose_conv, 1.5),
    (fully_connected, 2),
    (batch_matmul, 1.5),
    (pool, 3),
    (resize, 2),
    (arithmetic, 5),
    (extremum, 1.5),
    (whole_division, 0.5),
    (compared, 1.5),
    (logical, 1.5),
    (select, 2),
    (unary, 5),
    (prelu, 1.5),
    (cast, 1),
    (quantize, 1.5),
    (dequantize, 0.7),
    (normalize, 1.5),
    (reduce, 3),
    (arg, 0.7),
    (cumsum, 0.7),
    (topk, 0.7),
    (response, 0.4),
    (chained, 1),
)
