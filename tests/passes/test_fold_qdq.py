"""Dequantize, op, Quantize become the op on codes: the same results, nothing between left."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.ir import DType, Graph, Model, Signature, Value
from nnconv.ir.builder import Builder
from nnconv.ir.op import Activation, Layout, Op
from nnconv.ir.quant import Quant
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.blocks import DepthToSpace
from nnconv.ops.conv import Conv2D, ConvTranspose2D
from nnconv.ops.gather import Gather, TopK
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.norm import Softmax
from nnconv.ops.pool import AveragePool2D, MaxPool2D
from nnconv.ops.quantize import Cast, Dequantize, Quantize
from nnconv.ops.reduce import ArgMax, ReduceMean
from nnconv.ops.resize import ResizeBilinear, ResizeNearest
from nnconv.ops.slices import Pad, Reverse, Slice
from nnconv.ops.spatial import Padding
from nnconv.ops.standardize import BatchNormalization
from nnconv.passes.base import run_passes
from nnconv.passes.fold_qdq import FoldQdqPass
from nnconv.passes.prune import PrunePass
from support.digits import DIGITS, heldout, quantize_images
from support.qdq import coded, dq, op_names, q, unfold

RNG = np.random.default_rng(5)
SHAPE = (2, 4, 6, 8)
IN = {
    DType.INT8: Quant.per_tensor(0.05, 3),
    DType.UINT8: Quant.per_tensor(0.05, 131),
    DType.INT16: Quant.per_tensor(0.0002, 0),
    DType.UINT16: Quant.per_tensor(0.0002, 32768),
}
OUT = {
    DType.INT8: Quant.per_tensor(0.07, -9),
    DType.UINT8: Quant.per_tensor(0.07, 119),
    DType.INT16: Quant.per_tensor(0.0003, 0),
    DType.UINT16: Quant.per_tensor(0.0003, 32768),
}
TYPES = list(IN)


class Made:
    """A graph of one quantized input, folded.

    Attributes:
        graph: the folded graph.
        ops: the names of its ops.
        reasons: why nodes stayed.
        before, after: the results before and after, of one input.
    """

    def __init__(
        self,
        build: Callable[[Builder, Value], Value | list[Value]],
        *,
        dtype: DType = DType.INT8,
        shape: tuple[int, ...] = SHAPE,
        quant: Quant | None = None,
        real: bool = False,
    ) -> None:
        self.graph = Graph("g")
        b = Builder(self.graph)
        kind = DType.FLOAT32 if real else dtype
        x = b.input("x", kind, shape, quant=None if real else quant or IN[dtype])
        built = build(b, x)
        self.graph.outputs = built if isinstance(built, list) else [built]
        types = [v.type for v in self.graph.outputs]
        rng = np.random.default_rng(1)
        if real:
            data = rng.normal(0, 2, shape).astype(np.float32)
        else:
            low, high = kind.int_range
            data = rng.integers(low, high + 1, shape).astype(kind.numpy)
        self.before = run_graph(self.graph, [data])
        step = FoldQdqPass()
        run_passes(
            Model([Signature("", self.graph)]), [PrunePass(), step, PrunePass()], verify=True
        )
        self.after = run_graph(self.graph, [data])
        self.ops = op_names(self.graph)
        self.reasons = [str(i) for i in step.islands]
        assert [v.type for v in self.graph.outputs] == types

    def agree(self, *, exact: bool = False) -> Made:
        """Check that results are the same, but for ties: float32 falls to either side of those."""
        for old, new in zip(self.before, self.after, strict=True):
            if old.dtype.kind == "f" or exact:
                np.testing.assert_array_equal(old, new)
                continue
            far = np.abs(old.astype(np.int64) - new.astype(np.int64))
            assert far.max(initial=0) <= 1
            assert np.count_nonzero(far) <= max(2, far.size // 10)
            assert len(np.unique(old)) > 1
        return self


CONV = Conv2D(layout=Layout.NHWC, stride=(1, 1), dilation=(1, 1), padding=Padding.none(2))
POOL = {
    "layout": Layout.NHWC,
    "window": (2, 2),
    "stride": (2, 2),
    "padding": Padding.none(2),
}

UNARY: list[Op] = [
    e.Abs(),
    e.Neg(),
    e.Sigmoid(),
    e.Tanh(),
    e.HardSwish(),
    e.Elu(),
    e.LeakyRelu(alpha=0.1),
    e.Gelu(),
    e.Exp(),
    e.Clip(low=0.0, high=6.0),
    Softmax(axis=3),
    ReduceMean(axes=(1, 2), keep_dims=True),
    AveragePool2D(**POOL),
    ResizeBilinear(size=(8, 12), half_pixel=True),
]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.name)
def test_ops_on_real_values_become_ops_on_codes(op: Op, dtype: DType) -> None:
    def build(b: Builder, x: Value) -> Value:
        return q(b, b.add(op, [dq(b, x)]), OUT[dtype], dtype)

    assert Made(build, dtype=dtype).agree().ops == [op.name]


BINARY = [e.Add(), e.Sub(), e.Mul(), e.Div(), e.Maximum(), e.Minimum(), e.SquaredDifference()]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("other", ["scalar", "codes", "itself"])
@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
def test_binary_ops_take_codes_and_scalars(op: Op, other: str, dtype: DType) -> None:
    def build(b: Builder, x: Value) -> Value:
        real = dq(b, x)
        second = {
            "scalar": b.const(np.float32(1.7)),
            "itself": q(b, b.add(Reverse(axes=(0,)), [real]), OUT[dtype], dtype),
            "codes": b.const(
                np.arange(100, 108).astype(dtype.numpy), quant=Quant.per_tensor(0.01, 2)
            ),
        }[other]
        second = second if other == "scalar" else dq(b, second)
        return q(b, b.add(op, [real, second]), OUT[dtype], dtype)

    made = Made(build, dtype=dtype)
    name = "Mul" if (op.name, other) == ("Div", "scalar") else op.name
    assert made.agree().ops == (["Reverse", "Quantize"] if other == "itself" else []) + [name]


CODES: list[Op] = [
    s.Reshape(shape=(8, 48)),
    s.Transpose(perm=(0, 3, 1, 2)),
    Slice(starts=(0, 1, 0, 0), ends=(2, 3, 6, 8), strides=(1, 1, 2, 1)),
    s.Tile(repeats=(1, 2, 1, 1)),
    s.Unsqueeze(axes=(1,)),
    Pad(before=(0, 1, 1, 0), after=(0, 2, 1, 0)),
    MaxPool2D(**POOL),
    MaxPool2D(**POOL, activation=Activation.RELU),
    ResizeNearest(size=(8, 12)),
    DepthToSpace(layout=Layout.NHWC, block=2),
]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("behind", ["same", "other", "floats"])
@pytest.mark.parametrize("op", CODES, ids=lambda op: op.name)
def test_moves_move_codes(op: Op, behind: str, dtype: DType) -> None:
    def build(b: Builder, x: Value) -> Value:
        y = b.add(op, [dq(b, x)])
        quant = {"same": IN, "other": OUT}.get(behind)
        return y if quant is None else q(b, y, quant[dtype], dtype)

    last = {"same": [], "other": ["Quantize"], "floats": ["Dequantize"]}[behind]
    assert Made(build, dtype=dtype).agree(exact=True).ops == [op.name, *last]


def test_joined_parts_keep_their_parameters() -> None:
    def build(b: Builder, x: Value) -> Value:
        a = dq(b, x)
        c = dq(b, q(b, b.add(e.Neg(), [a]), OUT[DType.INT8], DType.INT8))
        return q(b, b.add(s.Concat(axis=3), [a, c]), Quant.per_tensor(0.11, 1), DType.INT8)

    assert Made(build).agree().ops == ["Neg", "Concat"]


def test_stacked_parts_are_brought_together() -> None:
    def build(b: Builder, x: Value) -> Value:
        a = dq(b, x)
        c = dq(b, q(b, b.add(e.Neg(), [a]), OUT[DType.INT8], DType.INT8))
        return q(b, b.add(s.Stack(axis=0), [a, c]), Quant.per_tensor(0.11, 1), DType.INT8)

    assert Made(build).agree().ops == ["Neg", "Quantize", "Quantize", "Stack"]


def test_a_pad_of_what_has_no_code_is_rounded_where_its_result_is() -> None:
    def build(b: Builder, x: Value, *, wide: bool = False) -> list[Value]:
        pad = Pad(before=(0, 0, 0, 1), after=(0, 0, 0, 0))
        y = b.add(pad, [dq(b, x), None, b.const(np.float32(0.33))])
        return [y] if wide else [q(b, y, IN[DType.INT8], DType.INT8)]

    assert Made(build).agree().ops == ["Pad"]
    kept = Made(lambda b, x: build(b, x, wide=True)).agree()
    assert kept.ops == ["Dequantize", "Pad"]
    assert "differ" in kept.reasons[0]


def test_quantizers_between_moves_and_what_they_move_go_up() -> None:
    def build(b: Builder, x: Value) -> Value:
        y = b.add(e.Neg(), [dq(b, x)])
        y = b.add(s.Transpose(perm=(0, 3, 1, 2)), [y])
        y = b.add(s.Reshape(shape=(2, -1)), [y])
        return q(b, y, OUT[DType.INT8], DType.INT8)

    assert Made(build).agree().ops == ["Neg", "Transpose", "Reshape"]


def test_indices_of_the_greatest_and_shapes_look_at_codes() -> None:
    def build(b: Builder, x: Value) -> list[Value]:
        real = dq(b, x)
        top = b.add_many(TopK(axis=3, k=2), [real])
        return [b.add(ArgMax(axis=3), [real]), b.add(s.ShapeOf(), [real]), *top]

    assert sorted(Made(build).agree().ops) == ["ArgMax", "Dequantize", "ShapeOf", "TopK"]


def test_comparisons_look_at_codes_of_equal_parameters_alone() -> None:
    def build(b: Builder, x: Value, quant: Quant) -> Value:
        real = dq(b, x)
        other = dq(b, q(b, b.add(e.Neg(), [real]), quant, DType.INT8))
        return b.add(e.Less(), [real, other])

    assert Made(lambda b, x: build(b, x, IN[DType.INT8])).agree().ops == ["Neg", "Less"]
    apart = Made(lambda b, x: build(b, x, OUT[DType.INT8])).agree()
    assert "Dequantize" in apart.ops
    assert "differs in parameters" in apart.reasons[0]


# ---------------------------------------------------------------- weights and biases


def _weights(dtype: DType, kind: str, shape: tuple[int, ...]) -> tuple[np.ndarray, Quant]:
    rng = np.random.default_rng(2)
    low, high = dtype.int_range
    low += dtype in (DType.INT8, DType.INT4)
    data = rng.integers(low, high + 1, shape).astype(dtype.numpy)
    middle = 0 if low < 0 else (high + 1) // 2
    if kind == "tensor":
        return data, Quant.per_tensor(0.01, middle)
    if kind == "tensor point":
        return data, Quant.per_tensor(0.01, middle + 5)
    scale = rng.uniform(0.005, 0.02, shape[0])
    if kind == "channel":
        return data, Quant.per_channel(scale, middle, axis=0)
    points = [middle + i % 2 for i in range(shape[0])]
    return data // 2 + middle // 2, Quant.per_channel(scale, points, axis=0)


WEIGHT_TYPES = [DType.INT8, DType.UINT8, DType.INT4, DType.UINT4]


@pytest.mark.parametrize("bias", ["none", "floats", "codes", "other scale"])
@pytest.mark.parametrize("kind", ["tensor", "channel", "tensor point", "channel points"])
@pytest.mark.parametrize("dtype", WEIGHT_TYPES, ids=str)
@pytest.mark.parametrize("data", TYPES, ids=str)
@pytest.mark.parametrize("op", ["conv", "depthwise", "transposed", "dense"])
def test_products(op: str, data: DType, dtype: DType, kind: str, bias: str) -> None:
    shapes = {
        "conv": (CONV, (5, 2, 3, 8)),
        "depthwise": (CONV.replace(groups=8), (8, 3, 2, 1)),
        "transposed": (
            ConvTranspose2D(
                layout=Layout.NHWC,
                stride=(2, 2),
                dilation=(1, 1),
                padding=Padding.none(2),
                output_padding=(0, 0),
                groups=2,
            ),
            (3, 2, 2, 8),
        ),
        "dense": (FullyConnected(), (5, 8)),
    }
    node, shape = shapes[op]
    codes, quant = _weights(dtype, kind, shape)
    filters = shape[0] * (2 if op == "transposed" else 1)
    y = {8: Quant.per_tensor(1.0, 12 if data.is_signed else 140), 16: Quant.per_tensor(0.005, 0)}
    if data is DType.UINT16:
        y[16] = Quant.per_tensor(0.005, 32768)

    def build(b: Builder, x: Value) -> Value:
        weights = coded(b, codes, quant, dtype)
        scale = np.resize(np.asarray(quant.scale) * IN[data].scale[0], filters)
        numbers = np.arange(-200, -200 + 90 * filters, 90)[:filters]
        terms: list[Value] = []
        if bias == "floats":
            terms = [b.const((numbers * scale + 1e-5).astype(np.float32))]
        elif bias == "codes":
            own = Quant.per_channel(scale.tolist(), axis=0)
            terms = [coded(b, numbers.astype(np.int32), own)]
        elif bias == "other scale":
            terms = [coded(b, numbers.astype(np.int32), Quant.per_tensor(0.01))]
        result = b.add(node, [dq(b, x), weights, *terms])
        return q(b, result, y[data.bits], data)

    made = Made(build, dtype=data).agree()
    (only,) = list(made.graph.nodes)
    assert only.op == node
    weights = only.inputs[1]
    assert weights is not None
    assert weights.quant is not None
    if kind != "tensor point":
        assert weights.quant.is_symmetric
        assert weights.dtype.is_signed
    np.testing.assert_allclose(weights.quant.scale, quant.scale, rtol=1e-7)
    if bias != "none":
        term = only.inputs[2]
        assert term is not None
        assert term.dtype is (DType.INT32 if data.bits == 8 else DType.INT64)
        assert term.quant is not None
        product = np.resize(np.asarray(quant.scale) * IN[data].scale[0], len(term.quant.scale))
        np.testing.assert_allclose(term.quant.scale, product, rtol=1e-6)


def test_a_bias_with_a_scale_of_its_own_is_written_at_the_product() -> None:
    def build(b: Builder, x: Value) -> Value:
        weights = coded(b, np.asarray([[50, -20]], np.int8), Quant.per_tensor(0.02))
        bias = coded(b, np.asarray([100], np.int32), Quant.per_tensor(0.01))
        return q(
            b,
            b.add(FullyConnected(), [dq(b, x), weights, bias]),
            Quant.per_tensor(0.2),
            DType.INT8,
        )

    made = Made(build, shape=(3, 2), quant=Quant.per_tensor(0.1)).agree()
    bias = next(made.graph.nodes).inputs[2]
    assert bias is not None
    assert bias.data is not None
    assert bias.data.tolist() == [500]
    assert bias.quant == Quant.per_tensor(0.1 * 0.02)


@pytest.mark.parametrize("kind", ["tensor", "channel"])
def test_a_bias_too_large_for_32_bits_raises_its_filters_scale(kind: str) -> None:
    quant = Quant.per_tensor(1e-9) if kind == "tensor" else Quant.per_channel([1e-9, 0.01], axis=0)
    codes = np.asarray([[100, -7], [3, 90]], np.int8)

    def build(b: Builder, x: Value) -> Value:
        bias = b.const(np.asarray([5.0, -1.0], np.float32))
        y = b.add(FullyConnected(), [dq(b, x), coded(b, codes, quant), bias])
        return q(b, y, Quant.per_tensor(0.1), DType.INT8)

    made = Made(build, shape=(3, 2), quant=Quant.per_tensor(0.1)).agree()
    (node,) = list(made.graph.nodes)
    weights, bias = node.inputs[1], node.inputs[2]
    assert weights is not None
    assert weights.quant is not None
    assert weights.quant.axis == 0
    assert weights.quant.scale[0] > 1e-8
    if kind == "channel":
        assert weights.quant.scale[1] == quant.scale[1]
    assert bias is not None
    assert np.abs(bias.data).max() <= 1 << 30


REFUSED = {
    "its weights aren't codes": lambda b: b.const(np.ones((3, 8), np.float32)),
    "its weights have zero points": lambda b: coded(
        b,
        np.asarray(np.arange(24).reshape(3, 8) * 10, np.uint8),
        Quant.per_channel([0.1, 0.2, 0.3], [0, 1, 255], axis=0),
    ),
    "its weights have scales along axis 1": lambda b: coded(
        b, np.ones((3, 8), np.int8), Quant.per_channel([0.1] * 8, axis=1)
    ),
    "its weights are quantized in blocks": lambda b: coded(
        b, np.ones((3, 8), np.int8), Quant(scale=(0.1,) * 6, zero_point=(0,) * 6, axis=1, block=4)
    ),
    "its weights are int16": lambda b: coded(b, np.ones((3, 8), np.int16), Quant.per_tensor(0.1)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_weights_that_have_no_codes_keep_their_op_in_floats(reason: str) -> None:
    def build(b: Builder, x: Value) -> Value:
        y = b.add(FullyConnected(), [dq(b, x), REFUSED[reason](b)])
        return q(b, y, OUT[DType.INT8], DType.INT8)

    made = Made(build).agree()
    assert made.ops[-2:] == ["FullyConnected", "Quantize"]
    assert "FullyConnected" in made.reasons[0]
    wanted = "not small codes" if "aren't" in reason else reason
    assert wanted in made.reasons[0] or "not small codes" in made.reasons[0]


def test_weights_beside_floats_stay_as_they_are() -> None:
    def build(b: Builder, x: Value) -> Value:
        weights = coded(b, np.ones((3, 8), np.int8), Quant.per_tensor(0.1))
        return b.add(FullyConnected(), [x, weights])

    made = Made(build, real=True).agree()
    assert made.ops == ["Dequantize", "FullyConnected"]
    assert made.reasons == []


def test_quantized_weights_are_worked_out_whatever_their_size() -> None:
    weights = RNG.normal(0, 0.3, (700, 8)).astype(np.float32)

    def build(b: Builder, x: Value) -> Value:
        codes = q(b, b.const(weights), Quant.per_tensor(0.01), DType.INT8)
        y = b.add(FullyConnected(), [dq(b, x), dq(b, codes)])
        return q(b, y, OUT[DType.INT8], DType.INT8)

    assert Made(build).agree().ops == ["FullyConnected"]


def test_weights_behind_a_transpose_are_turned() -> None:
    def build(b: Builder, x: Value) -> Value:
        weights = coded(
            b,
            RNG.integers(-127, 128, (8, 5)).astype(np.int8),
            Quant.per_channel([0.1] * 5, axis=1),
        )
        turned = b.add(s.Transpose(perm=(1, 0)), [weights])
        y = b.add(FullyConnected(), [dq(b, x), turned])
        return q(b, y, Quant.per_tensor(2.0), DType.INT8)

    assert Made(build).agree().ops == ["FullyConnected"]


def test_products_of_two_values() -> None:
    def build(b: Builder, x: Value) -> Value:
        real = dq(b, x)
        y = b.add(MatMul(transpose_b=True), [real, real])
        return q(b, y, Quant.per_tensor(1.0), DType.INT8)

    assert Made(build).agree().ops == ["MatMul"]


def test_parameters_of_norms_stay_numbers() -> None:
    def build(b: Builder, x: Value) -> Value:
        scale = coded(b, np.arange(1, 9, dtype=np.int8), Quant.per_tensor(0.3))
        offset = coded(b, np.arange(8, dtype=np.int32) * 90, Quant.per_tensor(0.01))
        rest = [b.const(np.full(8, 0.5, np.float32)) for _ in range(2)]
        y = b.add(BatchNormalization(axis=3, epsilon=1e-3), [dq(b, x), scale, offset, *rest])
        return q(b, y, Quant.per_tensor(0.3), DType.INT8)

    made = Made(build).agree()
    assert made.ops == ["Dequantize", "Dequantize", "BatchNormalization"]


# ---------------------------------------------------------------- edges


def test_edges_keep_their_types() -> None:
    def build(b: Builder, x: Value) -> Value:
        codes = q(b, x, IN[DType.UINT8], DType.UINT8)
        y = b.add(e.Neg(), [dq(b, codes)])
        return dq(b, q(b, y, OUT[DType.UINT8], DType.UINT8))

    assert Made(build, real=True).agree().ops == ["Quantize", "Neg", "Dequantize"]


def test_a_float_result_that_goes_out_stays_exact() -> None:
    def build(b: Builder, x: Value) -> list[Value]:
        y = b.add(e.Neg(), [dq(b, x)])
        return [y, q(b, y, OUT[DType.INT8], DType.INT8)]

    made = Made(build).agree()
    assert made.ops == ["Dequantize", "Neg", "Quantize"]
    assert "goes out" in made.reasons[0]


def test_quantizers_back_and_forth_vanish() -> None:
    def build(b: Builder, x: Value) -> Value:
        y = dq(b, q(b, dq(b, x), IN[DType.INT8], DType.INT8))
        y = b.add(e.Neg(), [y])
        y = dq(b, q(b, y, OUT[DType.INT8], DType.INT8))
        y = dq(b, q(b, y, OUT[DType.INT8], DType.INT8))
        return q(b, y, IN[DType.INT8], DType.INT8)

    made = Made(build).agree()
    assert made.ops == ["Neg", "Quantize"]


def test_names_that_go_out_are_kept() -> None:
    def build(b: Builder, x: Value) -> list[Value]:
        y = b.add(e.Neg(), [dq(b, x)])
        first = q(b, y, OUT[DType.INT8], DType.INT8, "first")
        return [
            first,
            q(b, y, OUT[DType.INT8], DType.INT8, "second"),
            q(b, dq(b, first), OUT[DType.INT8], DType.INT8, "third"),
        ]

    made = Made(build).agree()
    assert [v.name for v in made.graph.outputs] == ["first", "second", "third"]
    assert made.ops.count("Neg") == 1


def test_several_readers_share_codes() -> None:
    def build(b: Builder, x: Value) -> Value:
        real = dq(b, x)
        one = dq(b, q(b, b.add(e.Neg(), [real]), OUT[DType.INT8], DType.INT8))
        two = dq(b, q(b, b.add(e.Abs(), [one]), OUT[DType.INT8], DType.INT8))
        return q(b, b.add(e.Add(), [one, two]), OUT[DType.INT8], DType.INT8)

    assert Made(build).agree().ops == ["Neg", "Abs", "Add"]


def test_one_result_quantized_twice() -> None:
    def build(b: Builder, x: Value, second: Quant) -> list[Value]:
        y = b.add(e.Neg(), [dq(b, x)])
        return [q(b, y, Quant.per_tensor(0.11, 3), DType.INT8), q(b, y, second, DType.INT8)]

    wider = Made(lambda b, x: build(b, x, Quant.per_tensor(0.11, 3))).agree()
    assert wider.ops.count("Neg") == 1
    apart = Made(lambda b, x: build(b, x, Quant.per_tensor(0.2, 60))).agree()
    assert apart.ops == ["Dequantize", "Neg", "Quantize", "Quantize"]
    assert "several ranges" in apart.reasons[0]


def test_an_island_is_told_of() -> None:
    def build(b: Builder, x: Value) -> Value:
        y = b.add(e.Exp(), [b.add(e.Sin(), [dq(b, x)])])
        return b.add(Cast(dtype=DType.INT32), [y])

    made = Made(build).agree()
    assert made.ops == ["Dequantize", "Sin", "Exp", "Cast"]
    assert made.reasons == ["Sin `` computes with floats: its result is read as floats"]


def test_widths_dont_mix() -> None:
    def build(b: Builder, x: Value) -> Value:
        return q(b, b.add(e.Neg(), [dq(b, x)]), OUT[DType.INT16], DType.INT16)

    made = Made(build).agree()
    assert made.ops == ["Dequantize", "Neg", "Quantize"]
    assert "it makes int16 of int8" in made.reasons[0]


@pytest.mark.parametrize(
    ("activation", "kept"),
    [(Activation.RELU, False), (Activation.RELU6, False), (Activation.RELU_N1_TO_1, True)],
)
def test_an_activation_that_the_range_implies_vanishes(activation: Activation, kept: bool) -> None:
    quant = Quant.per_tensor(6 / 255, -128)

    def build(b: Builder, x: Value) -> Value:
        real = dq(b, x)
        return q(b, b.add(e.Add(activation=activation), [real, real]), quant, DType.INT8)

    made = Made(build).agree()
    assert (next(made.graph.nodes).op == e.Add(activation=activation)) is kept


# ---------------------------------------------------------------- whole models


@pytest.mark.parametrize("name", ["digits_int8", "digits_uint8", "digits_int16x8"])
def test_a_model_in_onnx_form_comes_back(name: str) -> None:
    model = nnconv.load(DIGITS / f"{name}.tflite")
    wanted = op_names(model.graph)
    images, _ = heldout()
    x = model.inputs[0]
    assert x.quant is not None
    data = quantize_images(images, x.dtype.numpy, x.quant.scale[0], x.quant.zero_point[0])
    before = [run_graph(model.graph, [image[None]])[0] for image in data[:8]]
    unfold(model.graph)
    assert len(model.graph) > 2 * len(wanted)
    step = FoldQdqPass()
    run_passes(model, [step, PrunePass()], verify=True)
    assert step.islands == []
    assert op_names(model.graph) == wanted
    after = [run_graph(model.graph, [image[None]])[0] for image in data[:8]]
    np.testing.assert_array_equal(before, after)


def test_cost_is_in_proportion() -> None:
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.INT8, (2, 3), quant=IN[DType.INT8])
    for _ in range(3000):
        x = q(b, b.add(e.Neg(), [dq(b, x)]), IN[DType.INT8], DType.INT8)
    graph.outputs = [x]
    FoldQdqPass().run(graph)
    PrunePass().run(graph)
    assert len(graph) == 3000
    assert not any(isinstance(n.op, Quantize | Dequantize) for n in graph.nodes)


def test_tables_of_codes_are_gathered_from() -> None:
    def build(b: Builder, x: Value) -> Value:
        table = coded(b, RNG.integers(-9, 9, (7, 3)).astype(np.int8), Quant.per_tensor(0.1))
        return b.add(
            Gather(axis=0),
            [table, b.add(Cast(dtype=DType.INT32), [b.add(e.Clip(low=0.0, high=6.0), [x])])],
        )

    assert Made(build, real=True, shape=(4,)).agree().ops == [
        "Clip",
        "Cast",
        "Gather",
        "Dequantize",
    ]
