"""Unsigned codes become signed ones inside: the same results, the same edges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.ir import DType, Graph, Model, Signature, Value
from nnconv.ir.builder import Builder
from nnconv.ir.op import Layout
from nnconv.ir.quant import Quant
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.conv import Conv2D
from nnconv.ops.gather import Gather
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.norm import Softmax
from nnconv.ops.pool import AveragePool2D, MaxPool2D
from nnconv.ops.quantize import Bitcast, Cast, Dequantize, Quantize
from nnconv.ops.reduce import ArgMax
from nnconv.ops.slices import Pad
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.prune import PrunePass
from nnconv.passes.resign import ResignPass
from support.digits import DIGITS, heldout, quantize_images
from support.qdq import op_names

SHAPE = (2, 4, 6, 8)
X = Quant.per_tensor(0.05, 131)
Y = Quant.per_tensor(0.4, 119)


def spread(dtype: DType, *shape: int, low: int | None = None) -> np.ndarray:
    """Random codes, the least and the greatest among them."""
    least, greatest = dtype.int_range
    least = least if low is None else low
    data = np.random.default_rng(4).integers(least, greatest + 1, shape)
    data.reshape(-1)[:2] = least, greatest
    return data.astype(dtype.numpy)


CONV = Conv2D(layout=Layout.NHWC, stride=(1, 1), dilation=(1, 1), padding=Padding.none(2))
POOL = {"layout": Layout.NHWC, "window": (2, 2), "stride": (2, 2), "padding": Padding.none(2)}


def signed(
    build: Callable[[Builder, Value], Value | list[Value]],
    *,
    dtype: DType = DType.UINT8,
    quant: Quant = X,
    keep: bool = False,
    whole: bool = False,
) -> tuple[Graph, list[str]]:
    """Re-sign a graph of one input: its results and edges stay; gives it and its ops."""
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", dtype, SHAPE, quant=quant)
    built = build(b, x)
    graph.outputs = built if isinstance(built, list) else [built]
    edges = [(v.name, v.type) for v in (*graph.inputs, *graph.outputs)]
    low, high = dtype.int_range
    data = np.random.default_rng(1).integers(low, high + 1, SHAPE).astype(dtype.numpy)
    data.reshape(-1)[:2] = low, high
    before = run_graph(graph, [data])
    step = ResignPass(keep=keep, whole=whole)
    run_passes(Model([Signature("", graph)]), [PrunePass(), step, PrunePass()], verify=True)
    after = run_graph(graph, [data])
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
        assert len(np.unique(old)) > 1
    assert [(v.name, v.type) for v in (*graph.inputs, *graph.outputs)] == edges
    return graph, op_names(graph)


def product(
    b: Builder, x: Value, *, weights: DType = DType.INT8, point: int | None = None
) -> Value:
    low = weights.int_range[0]
    if point is None:
        point = 0 if low < 0 else 128
    w = b.const(spread(weights, 5, 2, 3, 8), quant=Quant.per_tensor(0.01, point))
    bias = b.const(np.arange(5, dtype=np.int32) * 90, quant=Quant.per_tensor(0.0005))
    return b.add(CONV, [x, w, bias], quant=Y, name="y")


def inner_types(graph: Graph) -> set[str]:
    """The types of the values between the first node and the last one."""
    ends = {*graph.inputs, *graph.outputs}
    return {str(v.dtype) for n in graph.nodes for v in n.outputs if v not in ends}


@pytest.mark.parametrize("weights", [DType.INT8, DType.UINT8], ids=str)
def test_a_product_becomes_one_of_signed_codes(weights: DType) -> None:
    graph, ops = signed(lambda b, x: product(b, x, weights=weights))
    assert ops == ["Quantize", "Conv2D", "Quantize"]
    conv = list(graph.nodes)[1]
    kinds = [v.type for v in (*conv.inputs, *conv.outputs) if v is not None]
    assert [str(k.dtype) for k in kinds] == ["int8", "int8", "int32", "int8"]
    assert [k.quant.zero_point for k in kinds] == [(3,), (0,), (0,), (-9,)]
    assert [k.quant.scale for k in kinds if k.dtype is DType.INT8] == [
        X.scale,
        Quant.per_tensor(0.01).scale,
        Y.scale,
    ]


FOLLOWERS = {
    "Add": lambda b, y: b.add(e.Add(), [y, y], quant=Quant.per_tensor(0.9, 100)),
    "Add constant": lambda b, y: b.add(
        e.Add(),
        [y, b.const(np.arange(250, 255, dtype=np.uint8), quant=Quant.per_tensor(0.1, 7))],
        quant=Quant.per_tensor(0.9, 100),
    ),
    "Softmax": lambda b, y: b.add(Softmax(axis=3), [y], quant=Quant.per_tensor(1 / 256, 0)),
    "MaxPool2D": lambda b, y: b.add(MaxPool2D(**POOL), [y]),
    "AveragePool2D": lambda b, y: b.add(AveragePool2D(**POOL), [y], quant=Y),
    "Pad": lambda b, y: b.add(Pad(before=(0, 1, 0, 0), after=(0, 0, 0, 0)), [y]),
    "Pad value": lambda b, y: b.add(
        Pad(before=(0, 1, 0, 0), after=(0, 0, 0, 0)), [y, None, b.const(np.uint8(9), quant=Y)]
    ),
    "Reshape": lambda b, y: b.add(s.Reshape(shape=(2, -1)), [y]),
    "Concat": lambda b, y: b.add(
        s.Concat(axis=3),
        [y, b.const(np.full((2, 3, 4, 1), 200, np.uint8), quant=Y)],
        quant=Y,
    ),
    "Requantize": lambda b, y: b.add(
        Quantize(dtype=DType.UINT8), [y], quant=Quant.per_tensor(0.9, 10)
    ),
    "Select": lambda b, y: b.add(
        e.Select(),
        [b.add(e.Less(), [y, b.const(np.uint8(120), quant=Y)]), y, b.const(np.uint8(9), quant=Y)],
        quant=Y,
    ),
}


@pytest.mark.parametrize("name", FOLLOWERS)
def test_what_follows_follows(name: str) -> None:
    graph, ops = signed(lambda b, x: FOLLOWERS[name](b, product(b, x)))
    assert ops[:2] == ["Quantize", "Conv2D"]
    assert ops[-1] == "Quantize"
    assert inner_types(graph) <= {"int8", "bool"}
    assert ops.count("Quantize") == 2


@pytest.mark.parametrize("name", FOLLOWERS)
def test_all_is_signed_for_who_knows_no_others(name: str) -> None:
    """Weights of any zero point, and what no product is connected with."""
    graph, ops = signed(
        lambda b, x: FOLLOWERS[name](b, product(b, x, weights=DType.UINT8, point=100)), whole=True
    )
    assert inner_types(graph) <= {"int8", "bool"}
    conv = list(graph.nodes)[1]
    assert conv.operand(1).type.quant == Quant.per_tensor(0.01, -28)
    graph, ops = signed(lambda b, x: b.add(e.Add(), [x, x], quant=Y), whole=True)
    assert ops == ["Quantize", "Add", "Quantize"]


LOOKERS = {
    "ArgMax": lambda b, y: b.add(ArgMax(axis=3), [y]),
    "Dequantize": lambda b, y: b.add(Dequantize(dtype=DType.FLOAT32), [y]),
    "ShapeOf": lambda b, y: b.add(s.ShapeOf(), [y]),
}


@pytest.mark.parametrize("name", LOOKERS)
def test_ops_that_look_alone_look_at_signed_codes(name: str) -> None:
    _, ops = signed(lambda b, x: LOOKERS[name](b, product(b, x)))
    assert ops == ["Quantize", "Conv2D", name]


@pytest.mark.parametrize("name", LOOKERS)
def test_ops_that_look_at_an_input_alone_read_it_as_it_is(name: str) -> None:
    _, ops = signed(lambda b, x: [LOOKERS[name](b, x), product(b, x)])
    assert ops.count("Quantize") == 2


@pytest.mark.parametrize("op", [Cast(dtype=DType.INT32), Bitcast(dtype=DType.INT8)], ids=repr)
def test_the_numbers_themselves_stay_as_they_are(op: Cast | Bitcast) -> None:
    graph, ops = signed(lambda b, x: b.add(op, [product(b, x)]))
    assert ops == ["Quantize", "Conv2D", "Quantize", op.name]
    assert list(graph.nodes)[-1].inputs[0].dtype is DType.UINT8


def test_codes_that_come_from_elsewhere_are_signed() -> None:
    def build(b: Builder, x: Value) -> Value:
        numbers = b.add(Cast(dtype=DType.UINT8), [x], quant=X)
        return product(b, numbers)

    assert signed(build)[1] == ["Cast", "Quantize", "Conv2D", "Quantize"]


def test_an_input_that_also_goes_out() -> None:
    graph, ops = signed(lambda b, x: [product(b, x), x])
    assert ops == ["Quantize", "Conv2D", "Quantize"]
    assert graph.outputs[1] is graph.inputs[0]


def test_a_value_that_goes_out_twice_and_is_read() -> None:
    def build(b: Builder, x: Value) -> list[Value]:
        y = product(b, x)
        return [y, y, b.add(e.Neg(), [y], quant=Quant.per_tensor(0.4, 130), name="z")]

    assert signed(build)[1].count("Quantize") == 3


def test_nothing_changes_without_products() -> None:
    def build(b: Builder, x: Value) -> Value:
        return b.add(e.Add(), [x, b.add(s.Reshape(shape=SHAPE), [x])], quant=Y)

    assert signed(build)[1] == ["Reshape", "Add"]


def test_quantizers_make_signed_codes_at_once() -> None:
    def build(b: Builder, x: Value) -> Value:
        real = b.add(e.Sin(), [b.add(Dequantize(dtype=DType.FLOAT32), [x])])
        y = product(b, b.add(Quantize(dtype=DType.UINT8), [real], quant=X))
        return b.add(Dequantize(dtype=DType.FLOAT32), [y])

    graph, ops = signed(build)
    assert ops == ["Dequantize", "Sin", "Quantize", "Conv2D", "Dequantize"]
    assert inner_types(graph) == {"float32", "int8"}


@pytest.mark.parametrize("point", [121, 140])
def test_weights_without_a_signed_form_keep_their_product_unsigned(point: int) -> None:
    graph, ops = signed(lambda b, x: product(b, x, weights=DType.UINT8, point=point))
    assert ops == ["Conv2D"]
    assert next(graph.nodes).inputs[1].quant.zero_point == (point,)


def test_such_a_product_between_signed_ones_gets_unsigned_codes() -> None:
    def build(b: Builder, x: Value) -> Value:
        dense = [b.const(spread(DType.UINT8, 6, 5), quant=Quant.per_tensor(0.01, 99))]
        y = product(b, x)
        y = b.add(FullyConnected(), [y, *dense], quant=Quant.per_tensor(2.0, 128))
        w = b.const(spread(DType.INT8, 3, 6), quant=Quant.per_tensor(0.01))
        return b.add(FullyConnected(), [y, w], quant=Quant.per_tensor(2.0, 128))

    _, ops = signed(build)
    assert ops == [
        "Quantize",
        "Conv2D",
        "Quantize",
        "FullyConnected",
        "Quantize",
        "FullyConnected",
        "Quantize",
    ]


def test_weights_with_a_zero_point_beside_signed_codes_get_unsigned_ones() -> None:
    quant = Quant.per_tensor(0.05, 3)

    def build(b: Builder, x: Value) -> Value:
        w = b.const(spread(DType.INT8, 6, 8), quant=Quant.per_tensor(0.01, 5))
        return b.add(FullyConnected(), [x, w], quant=Quant.per_tensor(0.5, 1))

    graph, ops = signed(build, dtype=DType.INT8, quant=quant)
    assert ops == ["Quantize", "FullyConnected", "Quantize"]
    node = list(graph.nodes)[1]
    assert {str(v.dtype) for v in (*node.inputs, *node.outputs)} == {"uint8"}


def test_small_weights_with_a_zero_point_lose_it() -> None:
    def build(b: Builder, x: Value) -> Value:
        w = b.const(spread(DType.INT8, 6, 8, low=-90), quant=Quant.per_tensor(0.01, 5))
        return b.add(FullyConnected(), [x, w], quant=Quant.per_tensor(0.5, 1))

    graph, ops = signed(build, dtype=DType.INT8, quant=Quant.per_tensor(0.05, 3))
    assert ops == ["FullyConnected"]
    assert next(graph.nodes).inputs[1].quant.is_symmetric


def test_products_of_two_values_and_tables() -> None:
    def build(b: Builder, x: Value) -> Value:
        table = b.const(spread(DType.UINT8, 8, 8), quant=Y)
        places = b.const(np.asarray([3, 1, 2], np.int32))
        rows = b.add(Gather(axis=0), [table, places])
        return b.add(MatMul(transpose_b=True), [x, rows], quant=Quant.per_tensor(9.0, 128))

    assert signed(build)[1] == ["Quantize", "Gather", "MatMul", "Quantize"]


@pytest.mark.parametrize("point", [32768, 30000])
def test_wide_codes_are_signed_too(point: int) -> None:
    quant = Quant.per_tensor(0.0002, point)

    def build(b: Builder, x: Value) -> Value:
        return b.add(e.Neg(), [x], quant=quant)

    graph, ops = signed(build, dtype=DType.UINT16, quant=quant)
    assert ops == ["Quantize", "Neg", "Quantize"]
    assert inner_types(graph) == {"int16"}


def test_a_uint8_model() -> None:
    model = nnconv.load(DIGITS / "digits_uint8.tflite")
    ops = op_names(model.graph)
    x = model.inputs[0]
    images, _ = heldout()
    data = quantize_images(images, x.dtype.numpy, x.quant.scale[0], x.quant.zero_point[0])
    before = [run_graph(model.graph, [image[None]])[0] for image in data[:8]]
    run_passes(model, [ResignPass(), PrunePass()], verify=True)
    after = [run_graph(model.graph, [image[None]])[0] for image in data[:8]]
    np.testing.assert_array_equal(before, after)
    assert model.inputs[0].dtype is DType.UINT8
    assert model.outputs[0].dtype is DType.UINT8
    assert len(model.graph) <= len(ops) + 2


@pytest.mark.parametrize("name", ["digits_int8", "digits_int16x8", "digits_float"])
def test_signed_models_stay_as_they_are(name: str) -> None:
    model = nnconv.load(DIGITS / f"{name}.tflite")
    assert not any(ResignPass().run(graph) for graph in model.graphs())


def test_products_of_either_sign_stay_among_unsigned_ones() -> None:
    def build(b: Builder, x: Value) -> Value:
        def dense(y: Value, point: int) -> Value:
            codes = spread(DType.UINT8, 8, 8)
            w = b.const(codes, quant=Quant.per_tensor(0.01, point))
            return b.add(FullyConnected(), [y, w], quant=Quant.per_tensor(0.5, 128))

        return dense(dense(dense(x, 99), 128), 99)

    assert signed(build)[1] == ["FullyConnected"] * 3


def test_kept_signs_turn_weights_to_the_sign_of_data() -> None:
    graph, ops = signed(product, keep=True)
    assert ops == ["Conv2D"]
    weights = next(graph.nodes).inputs[1]
    assert weights.dtype is DType.UINT8
    assert weights.quant.zero_point == (128,)


@pytest.mark.parametrize("kind", ["channels", "values"])
def test_kept_signs_are_changed_for_what_needs_it(kind: str) -> None:
    def build(b: Builder, x: Value) -> Value:
        if kind == "values":
            return b.add(MatMul(transpose_b=True), [x, x], quant=Quant.per_tensor(9.0, 128))
        codes = spread(DType.INT8, 5, 8)
        w = b.const(codes, quant=Quant.per_channel([0.01] * 5, axis=0))
        y = b.add(FullyConnected(), [x, w], quant=Y)
        return b.add(e.Neg(), [y], quant=Y)

    graph, ops = signed(build, keep=True)
    product_op = "MatMul" if kind == "values" else "FullyConnected"
    assert ops == ["Quantize", product_op, "Quantize", *([] if kind == "values" else ["Neg"])]
    node = list(graph.nodes)[1]
    assert {v.dtype for v in (*node.inputs, *node.outputs)} == {DType.INT8}


def test_kept_signs_of_a_signed_product_whose_weights_arent() -> None:
    def build(b: Builder, x: Value) -> Value:
        w = b.const(spread(DType.UINT8, 6, 8), quant=Quant.per_tensor(0.01, 128))
        return b.add(FullyConnected(), [x, w], quant=Quant.per_tensor(0.5, 1))

    graph, ops = signed(build, dtype=DType.INT8, quant=Quant.per_tensor(0.05, 3), keep=True)
    assert ops == ["FullyConnected"]
    assert next(graph.nodes).inputs[1].dtype is DType.INT8
