"""Dequantize, op, Quantize become the op on codes: the same results, nothing between left."""

from __future__ import annotations

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.ir import DType, Graph, Value
from nnconv.ir.builder import Builder
from nnconv.ir.op import Activation, Layout, Op
from nnconv.ir.quant import Quant
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.blocks import DepthToSpace
from nnconv.ops.gather import Gather, TopK
from nnconv.ops.norm import Softmax
from nnconv.ops.pool import AveragePool2D, MaxPool2D
from nnconv.ops.quantize import Cast, Dequantize, Quantize
from nnconv.ops.reduce import ArgMax, ReduceMean
from nnconv.ops.resize import ResizeBilinear, ResizeNearest
from nnconv.ops.slices import Pad, Reverse, Slice
from nnconv.passes.base import run_passes
from nnconv.passes.fold_qdq import FoldQdqPass
from nnconv.passes.prune import PrunePass
from support.digits import DIGITS, heldout, quantize_images
from support.folded import IN, OUT, POOL, TYPES, Made
from support.qdq import coded, dq, op_names, q, unfold

RNG = np.random.default_rng(5)

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
