"""IR to NNAPI: elementwise ops, convolutions, pools, products, moves, conversions."""

import math

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Layout, Quant
from nnconv.ir.op import Activation
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.conv import Conv2D, ConvTranspose2D
from nnconv.ops.gather import Gather
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.norm import L2Normalization, LogSoftmax, Softmax
from nnconv.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D
from nnconv.ops.quantize import Cast, Dequantize, Quantize
from nnconv.ops.reduce import ArgMax, ReduceMax, ReduceMean, ReduceSum
from nnconv.ops.resize import ResizeBilinear, ResizeNearest
from nnconv.ops.slices import Pad, PadMode, Reverse, Slice
from nnconv.ops.spatial import Padding
from support.nnapi_spine import NnapiCase, check_nnapi

F32, F16, I32 = DType.FLOAT32, DType.FLOAT16, DType.INT32
U8, I8 = Quant.per_tensor(0.05, 120), Quant.per_tensor(0.05, -8)
KINDS = {
    "f32": (F32, None),
    "f16": (F16, None),
    "u8": (DType.UINT8, U8),
    "i8": (DType.INT8, I8),
    "i32": (I32, None),
}


def unary(op, kind, shape=(2, 3, 4), quant="same"):
    def build(b: Builder):
        dtype, given = KINDS[kind]
        x = b.input("x", dtype, shape, quant=given)
        result = given if quant == "same" else quant
        return b.add(op, [x], quant=result, dtype=dtype if given else None)

    return build


def binary(op, kind, a=(2, 3, 4), b_shape=(3, 1)):
    def build(b: Builder):
        dtype, given = KINDS[kind]
        x, y = b.input("a", dtype, a, quant=given), b.input("b", dtype, b_shape, quant=given)
        plain = isinstance(op, e.Comparison)
        return b.add(op, [x, y], quant=None if plain or not given else given)

    return build


def near(kind):
    return {"tolerance": 2e-3} if kind == "f16" else {}


POSITIVE = [np.linspace(0.1, 3, 24, dtype=np.float32).reshape(2, 3, 4)]

ELEMENTWISE = [
    *(
        NnapiCase(f"{name}-{kind}", unary(op, kind), operations={name: 1}, **near(kind))
        for name, op, kinds in (
            ("ABS", e.Abs(), ("f32", "f16", "i32")),
            ("NEG", e.Neg(), ("f32", "i32")),
            ("EXP", e.Exp(), ("f32", "f16")),
            ("SIN", e.Sin(), ("f32",)),
            ("FLOOR", e.Floor(), ("f32", "f16")),
            ("TANH", e.Tanh(), ("f32", "f16")),
            ("LOGISTIC", e.Sigmoid(), ("f32", "f16")),
            ("HARD_SWISH", e.HardSwish(), ("f32", "u8", "i8")),
            ("RELU", e.Clip(low=0.0, high=math.inf), ("f32", "f16", "u8", "i8")),
            ("RELU1", e.Clip(low=-1.0, high=1.0), ("f32", "u8")),
            ("RELU6", e.Clip(low=0.0, high=6.0), ("f32", "i8")),
            ("ELU", e.Elu(alpha=0.7), ("f32",)),
        )
        for kind in kinds
    ),
    *(
        NnapiCase(f"{name}-{kind}", binary(op, kind), operations={name: 1}, **near(kind))
        for name, op, kinds in (
            ("ADD", e.Add(), ("f32", "f16", "u8", "i8", "i32")),
            ("SUB", e.Sub(), ("f32", "u8", "i8", "i32")),
            ("MUL", e.Mul(), ("f32", "u8", "i8", "i32")),
            ("MAXIMUM", e.Maximum(), ("f32", "u8", "i8", "i32")),
            ("MINIMUM", e.Minimum(), ("f32", "u8", "i8", "i32")),
            ("EQUAL", e.Equal(), ("f32", "i32", "u8")),
            ("LESS", e.Less(), ("f32", "i32", "i8")),
            ("GREATER_EQUAL", e.GreaterEqual(), ("f32", "u8")),
        )
        for kind in kinds
    ),
    NnapiCase("sqrt", unary(e.Sqrt(), "f32"), POSITIVE, np.sqrt, {"SQRT": 1}),
    NnapiCase("log", unary(e.Log(), "f32"), POSITIVE, np.log, {"LOG": 1}),
    NnapiCase("rsqrt", unary(e.Rsqrt(), "f32"), POSITIVE, lambda x: x**-0.5, {"RSQRT": 1}),
    NnapiCase("square", unary(e.Square(), "f32"), None, np.square, {"MUL": 1}),
    NnapiCase("cos", unary(e.Cos(), "f32"), None, np.cos, {"ADD": 1, "SIN": 1}),
    NnapiCase("ceil", unary(e.Ceil(), "f32"), None, np.ceil, {"NEG": 2, "FLOOR": 1}),
    NnapiCase("round", unary(e.Round(), "f32"), None, np.round),
    NnapiCase("sign", unary(e.Sign(), "f32"), None, np.sign, {"MUL": 1, "RELU1": 1}),
    NnapiCase(
        "leaky",
        unary(e.LeakyRelu(alpha=0.25), "f32"),
        None,
        lambda x: np.where(x < 0, x / 4, x),
        {"PRELU": 1},
    ),
    NnapiCase("gelu-tanh", unary(e.Gelu(approximate=True), "f32")),
    NnapiCase("gelu-erf", unary(e.Gelu(), "f32")),
    NnapiCase(
        "clip",
        unary(e.Clip(low=-0.5, high=0.75), "f32"),
        None,
        lambda x: np.clip(x, -0.5, 0.75),
        {"MAXIMUM": 1, "MINIMUM": 1},
    ),
    NnapiCase(
        "logistic-u8",
        unary(e.Sigmoid(), "u8", quant=Quant.per_tensor(1 / 256)),
        operations={"LOGISTIC": 1},
    ),
    NnapiCase(
        "logistic-u8-others",
        unary(e.Sigmoid(), "u8", quant=Quant.per_tensor(0.02, 7)),
        operations={"LOGISTIC": 1, "ADD": 1},
        note="NNAPI fixes the parameters",
    ),
    NnapiCase(
        "logistic-u8-finer",
        unary(e.Sigmoid(), "u8", quant=Quant.per_tensor(0.001, 0)),
        operations={"DEQUANTIZE": 1, "LOGISTIC": 1, "QUANTIZE": 1},
    ),
    NnapiCase("rank-6", unary(e.Clip(low=0.0, high=6.0), "f32", (1, 2, 3, 1, 2, 3)),
              refused="has rank 6", note="no operation takes its input"),
    NnapiCase("add-level-1", binary(e.Add(activation=Activation.RELU6), "f32"), level=1,
              operations={"ADD": 1}),
    NnapiCase("add-i8-level-3", binary(e.Add(), "i8"), level=3,
              operations={"CAST": 6, "ADD": 4}, note="the sums are of unsigned codes"),
    NnapiCase("abs", unary(e.Abs(), "f32"), level=1, operations={"MUL": 1, "RELU": 2, "ADD": 1}),
    NnapiCase(
        "division-of-integers", binary(e.FloorDiv(), "i32"),
        [np.arange(-12, 12, dtype=np.int32).reshape(2, 3, 4), np.array([[3], [-2], [5]], np.int32)],
        lambda a, b: a // b, {"DIV": 1},
    ),
    NnapiCase(
        "division-toward-zero", binary(e.Div(), "i32"),
        [np.arange(-12, 12, dtype=np.int32).reshape(2, 3, 4), np.array([[3], [-2], [5]], np.int32)],
        lambda a, b: np.trunc(a / b).astype(np.int32),
    ),
]  # fmt: skip


def select(b: Builder):
    x, y = b.input("x", F32, (2, 3)), b.input("y", F32, (2, 1))
    return b.add(e.Select(), [b.add(e.Less(), [x, y]), x, y])


def weights_of(b: Builder, shape, kind, seed=1):
    rng = np.random.default_rng(seed)
    dtype, quant = KINDS[kind.removesuffix("-channels")]
    if quant is None:
        return b.const(rng.normal(size=shape).astype(dtype.numpy), "w")
    low, high = (-127, 128) if dtype is DType.INT8 or "channels" in kind else (0, 256)
    if "channels" in kind:
        data = rng.integers(low, high, shape).astype(np.int8)
        scales = rng.uniform(0.01, 0.03, shape[0])
        return b.const(data, "w", quant=Quant.per_channel(scales, axis=0))
    point = 0 if dtype is DType.INT8 else 130
    data = rng.integers(low, high, shape).astype(dtype.numpy)
    return b.const(data, "w", quant=Quant.per_tensor(0.02, point))


def convolution(kind="f32", *, layout=Layout.NHWC, groups=1, bias=True, shape=(2, 7, 6, 4), **more):
    def build(b: Builder):
        dtype, quant = KINDS[kind.removesuffix("-channels")]
        extents = shape if layout is Layout.NHWC else (shape[0], shape[3], *shape[1:3])
        x = b.input("x", dtype, extents, quant=quant)
        filters = 8
        w = weights_of(b, (filters, 3, 2, shape[3] // groups), kind)
        operands = [x, w]
        if bias:
            values = np.linspace(-1, 1, filters)
            if quant is None:
                operands.append(b.const(values.astype(dtype.numpy), "bias"))
            else:
                scale = np.asarray(w.quant.scale) * quant.scale[0]
                axis = None if w.quant.is_per_tensor else 0
                codes = np.rint(values / scale).astype(np.int32)
                kind_of = Quant(scale=tuple(np.float32(scale).tolist()),
                                zero_point=(0,) * len(scale), axis=axis)  # fmt: skip
                operands.append(b.const(codes, "bias", quant=kind_of))
        fields = {"stride": (1, 1), "dilation": (1, 1), "padding": Padding.none(2), **more}
        op = Conv2D(layout=layout, groups=groups, **fields)
        result = None if quant is None else Quant.per_tensor(0.2, quant.zero_point[0])
        return b.add(op, operands, quant=result)

    return build


CONVOLUTIONS = [
    *(
        NnapiCase(f"conv-{kind}", convolution(kind), operations={"CONV_2D": 1}, **near(kind))
        for kind in ("f32", "f16", "u8", "i8", "u8-channels", "i8-channels")
    ),
    NnapiCase("no-bias", convolution(bias=False), operations={"CONV_2D": 1}),
    NnapiCase("depthwise", convolution(groups=4), operations={"DEPTHWISE_CONV_2D": 1}),
    NnapiCase("depthwise-i8", convolution("i8-channels", groups=4),
              operations={"DEPTHWISE_CONV_2D": 1}),
    NnapiCase("grouped", convolution(groups=2), operations={"GROUPED_CONV_2D": 1}),
    NnapiCase("grouped-u8", convolution("u8", groups=2), operations={"GROUPED_CONV_2D": 1}),
    NnapiCase("dilated", convolution(dilation=(2, 3)), operations={"CONV_2D": 1}),
    NnapiCase("same", convolution(stride=(2, 2), padding=Padding((1, 0), (1, 0))),
              operations={"CONV_2D": 1}),
    NnapiCase("explicit", convolution(padding=Padding((2, 0), (1, 1))), operations={"CONV_2D": 1}),
    NnapiCase("wide-padding", convolution(padding=Padding((4, 0), (1, 3))),
              operations={"PAD": 1, "CONV_2D": 1}),
    NnapiCase("relu6", convolution(activation=Activation.RELU6), operations={"CONV_2D": 1}),
    NnapiCase("tanh", convolution(activation=Activation.TANH),
              operations={"CONV_2D": 1, "TANH": 1}),
    NnapiCase("level-1", convolution(padding=Padding((2, 0), (1, 1))), level=1,
              operations={"CONV_2D": 1}),
    NnapiCase("channels-first", convolution(layout=Layout.NCHW),
              operations={"CONV_2D": 1, "TRANSPOSE": 2}),
]  # fmt: skip


def transposed(padding, added=(0, 0), stride=(2, 3)):
    def build(b: Builder):
        x = b.input("x", F32, (1, 4, 5, 3))
        w = weights_of(b, (2, 3, 4, 3), "f32")
        op = ConvTranspose2D(stride=stride, dilation=(1, 1), padding=padding, output_padding=added)
        return b.add(op, [x, w, b.const(np.float32([0.5, -0.5]), "bias")])

    return build


def pool(op_class, kind="f32", **more):
    def build(b: Builder):
        dtype, quant = KINDS[kind]
        x = b.input("x", dtype, (2, 6, 7, 3), quant=quant)
        fields = {"window": (3, 2), "stride": (2, 1), "padding": Padding((1, 0), (1, 1)), **more}
        return b.add(op_class(**fields), [x], quant=quant)

    return build


POOLS = [
    NnapiCase("transposed", transposed(Padding.none(2)), operations={"TRANSPOSE_CONV_2D": 1}),
    NnapiCase("transposed-cut", transposed(Padding((1, 0), (0, 1))),
              operations={"TRANSPOSE_CONV_2D": 1}),
    NnapiCase("transposed-longer", transposed(Padding.none(2), (1, 2)),
              operations={"TRANSPOSE_CONV_2D": 1}),
    NnapiCase("transposed-longer-cut", transposed(Padding((1, 1), (1, 0)), (1, 0)),
              operations={"TRANSPOSE_CONV_2D": 1}),
    *(
        NnapiCase(f"{name}-{kind}", pool(op, kind), operations={name: 1}, **near(kind))
        for name, op in (("MAX_POOL_2D", MaxPool2D), ("AVERAGE_POOL_2D", AveragePool2D))
        for kind in ("f32", "f16", "u8", "i8")
    ),
    NnapiCase("l2", pool(L2Pool2D), operations={"L2_POOL_2D": 1}),
    NnapiCase("counted", pool(AveragePool2D, count_padding=True)),
    NnapiCase("ceil", pool(MaxPool2D, ceil=True, stride=(2, 2)), operations={"MAX_POOL_2D": 1}),
    NnapiCase("dilated", pool(MaxPool2D, dilation=(2, 2), padding=Padding.none(2))),
]  # fmt: skip


def dense(kind="f32", shape=(3, 5), **more):
    def build(b: Builder):
        dtype, quant = KINDS[kind]
        x = b.input("x", dtype, shape, quant=quant)
        w = weights_of(b, (4, shape[-1]), kind)
        result = None if quant is None else Quant.per_tensor(0.2, quant.zero_point[0])
        return b.add(FullyConnected(**more), [x, w], quant=result)

    return build


def product(a, c, kind="f32", **more):
    def build(b: Builder):
        dtype, quant = KINDS[kind]
        operands = [b.input(n, dtype, shape, quant=quant) for n, shape in (("a", a), ("b", c))]
        return b.add(MatMul(**more), operands, quant=quant)

    return build


PRODUCTS = [
    *(
        NnapiCase(f"dense-{kind}", dense(kind), operations={"FULLY_CONNECTED": 1}, **near(kind))
        for kind in ("f32", "f16", "u8", "i8")
    ),
    NnapiCase("dense-rank-3", dense(shape=(2, 3, 5)),
              operations={"FULLY_CONNECTED": 1, "RESHAPE": 1}),
    NnapiCase("dense-rank-1", dense(shape=(5,)), operations={"FULLY_CONNECTED": 1, "RESHAPE": 2}),
    NnapiCase("dense-level-1", dense(activation=Activation.RELU), level=1,
              operations={"FULLY_CONNECTED": 1}),
    NnapiCase("matmul", product((2, 3, 4), (2, 4, 5)), operations={"BATCH_MATMUL": 1}),
    NnapiCase("matmul-turned", product((2, 4, 3), (2, 5, 4), transpose_a=True, transpose_b=True),
              operations={"BATCH_MATMUL": 1}),
]  # fmt: skip


def moved(op, kind="f32", shape=(2, 3, 4)):
    def build(b: Builder):
        dtype, quant = KINDS[kind]
        x = b.input("x", dtype, shape, quant=quant)
        keeps = quant is not None and not isinstance(op, Dequantize)
        return b.add(op, [x], quant=quant if keeps else None)

    return build


def joined(axis, kinds=("f32", "f32")):
    def build(b: Builder):
        parts = [
            b.input(f"x{i}", KINDS[k][0], (2, i + 1, 4), quant=KINDS[k][1])
            for i, k in enumerate(kinds)
        ]
        return b.add(s.Concat(axis=axis), parts, quant=KINDS[kinds[0]][1])

    return build


def stacked(b: Builder):
    return b.add(s.Stack(axis=1), [b.input(n, F32, (2, 3)) for n in "ab"])


def parts(op, kind="f32", shape=(2, 6, 3)):
    def build(b: Builder):
        dtype, quant = KINDS[kind]
        return b.add_many(op, [b.input("x", dtype, shape, quant=quant)])

    return build


def same_twice(b: Builder):
    x = b.input("x", F32, (2, 3))
    y = b.add(e.Abs(), [x])
    return [x, y, y, b.const(np.float32([[1, 2]]), "k")]


def lower_rank(b: Builder):
    x = b.input("x", F32, (1, 4, 4, 6))
    y = b.add(s.Reshape(shape=(1, 4, 4, 2, 3)), [x])
    z = b.add(s.Transpose(perm=(0, 1, 2, 4, 3)), [y])
    return b.add(s.Reshape(shape=(1, 4, 4, 6)), [z])


MOVES = [
    NnapiCase("reshape", moved(s.Reshape(shape=(4, 6))), operations={"RESHAPE": 1}),
    NnapiCase("reshape-i32", moved(s.Reshape(shape=(4, 6)), "i32"), operations={"RESHAPE": 1}),
    NnapiCase("expand-i32-level-3", moved(s.Unsqueeze(axes=(0,)), "i32"), level=3,
              operations={"EXPAND_DIMS": 1}),
    NnapiCase("squeeze", moved(s.Squeeze(axes=(1,)), shape=(2, 1, 4)), operations={"RESHAPE": 1}),
    NnapiCase("transpose", moved(s.Transpose(perm=(2, 0, 1)), "u8"), operations={"TRANSPOSE": 1}),
    NnapiCase("concat", joined(1), operations={"CONCATENATION": 1}),
    NnapiCase("concat-u8", joined(1, ("u8", "u8", "u8")), operations={"CONCATENATION": 1}),
    NnapiCase("stack", stacked, operations={"PACK": 1}),
    NnapiCase("stack-level-5", stacked, level=5,
              operations={"EXPAND_DIMS": 2, "CONCATENATION": 1}),
    NnapiCase("split", parts(s.Split(axis=1, sizes=(3, 3))), operations={"SPLIT": 1}),
    NnapiCase("split-unequal", parts(s.Split(axis=1, sizes=(1, 5)), "i8"),
              operations={"SLICE": 2}),
    NnapiCase("unstack", parts(s.Unstack(axis=2, count=3)), operations={"STRIDED_SLICE": 3}),
    NnapiCase("unstack-i32", parts(s.Unstack(axis=0, count=2), "i32"),
              operations={"GATHER": 2, "RESHAPE": 2}),
    NnapiCase("tile", moved(s.Tile(repeats=(2, 1, 3)), "i8"), operations={"TILE": 1}),
    NnapiCase("broadcast", moved(s.BroadcastTo(shape=(5, 2, 3, 4))),
              operations={"RESHAPE": 1, "TILE": 1}),
    NnapiCase("select", select, operations={"LESS": 1, "TILE": 1, "SELECT": 1}),
    NnapiCase("outputs", same_twice),
    NnapiCase("rank-5-inside", lower_rank, operations={"RESHAPE": 2, "TRANSPOSE": 1}),
    NnapiCase("slice", moved(Slice(starts=(0, 1, -2), ends=(None, 3, None), strides=(1, 1, 1))),
              operations={"SLICE": 1}),
    NnapiCase("slice-level-2",
              moved(Slice(starts=(0, 1, -2), ends=(None, 3, None), strides=(1, 1, 1))), level=2,
              operations={"STRIDED_SLICE": 1}),
    NnapiCase("strided", moved(Slice(starts=(0, 2, None), ends=(2, 0, None), strides=(1, -1, 3))),
              operations={"STRIDED_SLICE": 1}),
    NnapiCase("pad", moved(Pad(before=(0, 1, 2), after=(1, 0, 0)), "u8"), operations={"PAD": 1}),
    NnapiCase("pad-value", moved(Pad(before=(0, 1, 2), after=(1, 0, 0), value=-2.5)),
              operations={"PAD_V2": 1}),
    NnapiCase("mirror", moved(Pad(before=(0, 1, 2), after=(1, 0, 0), mode=PadMode.REFLECT)),
              operations={"MIRROR_PAD": 1}),
    NnapiCase("reverse", moved(Reverse(axes=(0, 2))), operations={"REVERSE": 2}),
    NnapiCase("reverse-level-3", moved(Reverse(axes=(0, 2))), level=3,
              operations={"STRIDED_SLICE": 1}),
    NnapiCase("mean", moved(ReduceMean(axes=(1,))), operations={"MEAN": 1}),
    NnapiCase("mean-of-all", moved(ReduceMean(axes=(0, 1, 2))), operations={"MEAN": 1}),
    NnapiCase("sum", moved(ReduceSum(axes=(0, 2), keep_dims=True)), operations={"REDUCE_SUM": 1}),
    NnapiCase("greatest", moved(ReduceMax(axes=(2,)), "u8"), operations={"REDUCE_MAX": 1}),
    NnapiCase("arg", moved(ArgMax(axis=1)), operations={"ARGMAX": 1}),
    NnapiCase("arg-kept", moved(ArgMax(axis=1, keep_dims=True)),
              operations={"ARGMAX": 1, "EXPAND_DIMS": 1}),
    NnapiCase("softmax", moved(Softmax(axis=2, beta=0.5)), operations={"SOFTMAX": 1}),
    NnapiCase("softmax-axis-level-2", moved(Softmax(axis=0), shape=(2, 3)), level=2),
    NnapiCase("log-softmax", moved(LogSoftmax(axis=1)), operations={"LOG_SOFTMAX": 1}),
    NnapiCase("l2", moved(L2Normalization(axis=2)), operations={"L2_NORMALIZATION": 1}),
]  # fmt: skip


def quantized(b: Builder):
    return b.add(Quantize(dtype=DType.UINT8), [b.input("x", F32, (2, 3))], quant=U8)


def requantized(b: Builder):
    x = b.input("x", DType.UINT8, (2, 3), quant=U8)
    return b.add(Quantize(dtype=DType.UINT8), [x], quant=Quant.per_tensor(0.11, 60))


def resigned(b: Builder):
    x = b.input("x", DType.UINT8, (2, 3), quant=U8)
    return b.add(Quantize(dtype=DType.INT8), [x], quant=Quant.per_tensor(0.05, -8))


def wide_integers(b: Builder):
    x = b.input("x", I32, (2, 3))
    wide = b.add(Cast(dtype=DType.INT64), [x])
    sums = b.add(e.Add(), [wide, b.const(np.int64([[5]]))])
    return b.add(Cast(dtype=F32), [sums])


def truth_as_numbers(b: Builder):
    x = b.input("x", F32, (2, 3))
    return b.add(Cast(dtype=F32), [b.add(e.Less(), [x, b.const(np.float32([0.0]))])])


def signed_inside(b: Builder):
    x = b.input("x", F32, (2, 7, 6, 4))
    codes = b.add(Quantize(dtype=DType.INT8), [x], quant=I8)
    w = weights_of(b, (8, 3, 2, 4), "i8")
    plain = {"stride": (1, 1), "dilation": (1, 1), "padding": Padding.none(2)}
    y = b.add(Conv2D(**plain), [codes, w], quant=Quant.per_tensor(0.2, -8))
    y = b.add(MaxPool2D(window=(2, 2), stride=(2, 2), padding=Padding.none(2)), [y], quant=y.quant)
    return b.add(Dequantize(dtype=F32), [y])


def resized(op_class, **more):
    def build(b: Builder):
        op = op_class(size=(7, 9), **more)
        return b.add(op, [b.input("x", F32, (2, 4, 5, 3))])

    return build


OLD_LEVELS = [
    NnapiCase("signed-inside", signed_inside, level=3, tolerance=0.02,
              operations={"QUANTIZE": 1, "CONV_2D": 1, "MAX_POOL_2D": 1, "DEQUANTIZE": 1}),
    NnapiCase("hard-swish-level-3", unary(e.HardSwish(), "f32"), level=3,
              operations={"ADD": 1, "RELU6": 1, "MUL": 2}),
    *(
        NnapiCase(f"{op.__name__}-{'-'.join(more)}-level-3", resized(op, **more), level=3)
        for op in (ResizeBilinear, ResizeNearest)
        for more in ({"align_corners": True}, {"half_pixel": True}, {})
    ),
    *(
        NnapiCase(f"pad-{mode.value}-level-3", level=3, operations={"GATHER": 2},
                  build=moved(Pad(before=(0, 1, 2), after=(0, 0, 1), mode=mode)))
        for mode in (PadMode.REFLECT, PadMode.SYMMETRIC, PadMode.EDGE, PadMode.WRAP)
    ),
    NnapiCase("matmul-level-3", product((3, 4), (4, 5)), level=3,
              operations={"TRANSPOSE": 1, "FULLY_CONNECTED": 1, "RESHAPE": 1}),
    NnapiCase("matmul-batches-level-3", product((2, 1, 3, 4), (3, 4, 5)), level=3),
    NnapiCase("matmul-turned-level-3", level=3,
              build=product((2, 4, 3), (2, 5, 4), transpose_a=True, transpose_b=True)),
]  # fmt: skip


def gathered(b: Builder):
    x = b.input("x", F32, (2, 3, 5, 2))
    places = np.random.default_rng(3).integers(0, 5, (2, 3, 4)).astype(np.int32)
    return b.add(Gather(axis=2, batch_dims=2), [x, b.const(places)])


def empty(b: Builder):
    x = b.input("x", F32, (2, 3))
    return b.add(s.Concat(axis=0), [x, b.const(np.zeros((0, 3), np.float32))])


CONVERSIONS = [
    NnapiCase("gather-of-batches", gathered, operations={"RESHAPE": 2, "GATHER": 1}),
    NnapiCase("no-elements", empty, operations={"SLICE": 1, "CONCATENATION": 1}),
    NnapiCase("quantize", quantized, operations={"QUANTIZE": 1}),
    NnapiCase("dequantize", moved(Dequantize(dtype=F32), "i8"), operations={"DEQUANTIZE": 1}),
    NnapiCase("requantize", requantized, operations={"ADD": 1}),
    NnapiCase("resign", resigned, operations={"DEQUANTIZE": 1, "QUANTIZE": 1}),
    NnapiCase("cast", moved(Cast(dtype=I32)), operations={"CAST": 1}),
    NnapiCase("int64-inside", wide_integers, operations={"ADD": 1, "CAST": 1}),
    NnapiCase("truth", truth_as_numbers, operations={"LESS": 1, "SELECT": 1}),
]


@pytest.mark.parametrize(
    "case",
    [*ELEMENTWISE, *CONVOLUTIONS, *POOLS, *PRODUCTS, *MOVES, *OLD_LEVELS, *CONVERSIONS],
    ids=str,
)
def test_ir_to_nnapi_and_back(case: NnapiCase) -> None:
    check_nnapi(case)
