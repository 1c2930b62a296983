"""Clamps become activations, products of matrices layers, factors and terms weights and bias."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import DType, Graph, Model, Signature, Value
from nnconv.ir.builder import Builder
from nnconv.ir.op import Activation, Layout, Op
from nnconv.ir.quant import Quant
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.conv import Conv1D, Conv2D, ConvTranspose2D
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.pool import AveragePool2D, MaxPool2D
from nnconv.ops.quantize import Cast
from nnconv.ops.spatial import Padding
from nnconv.ops.standardize import BatchNormalization
from nnconv.passes.base import Pass, run_passes
from nnconv.passes.fold_qdq import FoldQdqPass
from nnconv.passes.fold_scales import FoldScalesPass
from nnconv.passes.fuse_activations import FuseActivationsPass
from nnconv.passes.join_products import JoinProductsPass
from nnconv.passes.prune import PrunePass
from support.qdq import coded, dq, op_names, q

SHAPE = (2, 4, 6, 8)
RNG = np.random.default_rng(7)
INF = float("inf")
POOL = {"layout": Layout.NHWC, "window": (2, 2), "stride": (2, 2), "padding": Padding.none(2)}
SPATIAL = {"stride": (1, 1), "dilation": (1, 1), "padding": Padding.none(2)}
CONV = Conv2D(layout=Layout.NHWC, **SPATIAL)
ROW = Conv1D(layout=Layout.NHWC, stride=(1,), dilation=(1,), padding=Padding.none(1))
TRANSPOSED = ConvTranspose2D(layout=Layout.NHWC, output_padding=(0, 0), groups=2, **SPATIAL)

Build = Callable[[Builder, Value], Value | list[Value]]


def rewritten(
    build: Build,
    *passes: Pass,
    quant: Quant | None = None,
    shape: tuple[int, ...] = SHAPE,
    exact: bool = True,
) -> Graph:
    """Rewrite a graph of one input; its results, names and types stay."""
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.INT8 if quant else DType.FLOAT32, shape, quant=quant)
    built = build(b, x)
    graph.outputs = built if isinstance(built, list) else [built]
    edges = [(v.name, v.type) for v in graph.outputs]
    rng = np.random.default_rng(1)
    data = rng.integers(-128, 128, shape).astype(np.int8)
    data = data if quant else (data / 16).astype(np.float32)
    before = run_graph(graph, [data])
    run_passes(Model([Signature("", graph)]), [*passes, PrunePass()], verify=True)
    after = run_graph(graph, [data])
    for old, new in zip(before, after, strict=True):
        if not exact and quant:
            assert np.abs(old.astype(int) - new).max() <= 1
        elif exact:
            np.testing.assert_array_equal(old, new)
        else:
            np.testing.assert_allclose(old, new, rtol=2e-5, atol=2e-5 * np.abs(old).max())
    assert [(v.name, v.type) for v in graph.outputs] == edges
    return graph


def weights(b: Builder, *shape: int) -> Value:
    return b.const(RNG.normal(0, 0.5, shape).astype(np.float32), "weights")


TAKERS: dict[str, tuple[Op, Callable[[Builder, Value], list[Value]]]] = {
    "conv": (CONV, lambda b, x: [x, weights(b, 5, 2, 3, 8)]),
    "transposed": (TRANSPOSED, lambda b, x: [x, weights(b, 3, 2, 2, 8)]),
    "dense": (FullyConnected(), lambda b, x: [x, weights(b, 5, 8)]),
    "add": (e.Add(), lambda _, x: [x, x]),
    "sub": (e.Sub(), lambda b, x: [x, b.const(np.float32(0.3))]),
    "mul": (e.Mul(), lambda _, x: [x, x]),
    "div": (e.Div(), lambda b, x: [x, b.const(np.float32(0.3))]),
    "average": (AveragePool2D(**POOL), lambda _, x: [x]),
    "max": (MaxPool2D(**POOL), lambda _, x: [x]),
}
CLIPS = {
    (0.0, INF): Activation.RELU,
    (0.0, 3.4028234663852886e38): Activation.RELU,
    (0.0, 6.0): Activation.RELU6,
    (-1.0, 1.0): Activation.RELU_N1_TO_1,
    (0.0, 1.0): Activation.RELU_0_TO_1,
    (-INF, INF): Activation.NONE,
    (0.0, 5.0): None,
    (-INF, 6.0): None,
}


@pytest.mark.parametrize("bounds", CLIPS, ids=str)
@pytest.mark.parametrize("name", TAKERS)
def test_a_clamp_becomes_an_activation(name: str, bounds: tuple[float, float]) -> None:
    op, operands = TAKERS[name]
    activation = CLIPS[bounds]

    def build(b: Builder, x: Value) -> Value:
        y = b.add(op, operands(b, x), name="inner")
        return b.add(e.Clip(low=bounds[0], high=bounds[1]), [y], name="y")

    graph = rewritten(build, FuseActivationsPass())
    if activation is None:
        assert op_names(graph) == [op.name, "Clip"]
    else:
        (node,) = list(graph.nodes)
        assert node.op == op.replace(activation=activation)


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ((0.0, INF), (-INF, 6.0), Activation.RELU6),
        ((0.0, INF), (0.0, 1.0), Activation.RELU_0_TO_1),
        ((0.0, 6.0), (0.0, INF), Activation.RELU6),
        ((-1.0, 1.0), (0.0, INF), Activation.RELU_0_TO_1),
    ],
)
def test_clamps_add_up(
    first: tuple[float, float], second: tuple[float, float], both: Activation
) -> None:
    def build(b: Builder, x: Value) -> Value:
        y = b.add(e.Add(), [x, x])
        for low, high in (first, second):
            y = b.add(e.Clip(low=low, high=high), [y])
        return y

    (node,) = list(rewritten(build, FuseActivationsPass()).nodes)
    assert node.op == e.Add(activation=both)


def test_what_others_read_keeps_its_values() -> None:
    def build(b: Builder, x: Value) -> list[Value]:
        y = b.add(e.Add(), [x, x], name="y")
        z = b.add(e.Mul(), [x, x], name="z")
        relu = e.Clip(low=0.0, high=INF)
        return [b.add(relu, [y]), b.add(e.Neg(), [y]), b.add(relu, [z]), z]

    assert op_names(rewritten(build, FuseActivationsPass())).count("Clip") == 2


def test_integers_and_other_ops_keep_their_clamps() -> None:
    def build(b: Builder, x: Value) -> list[Value]:
        n = b.add(Cast(dtype=DType.INT32), [x])
        relu = e.Clip(low=0.0, high=6.0)
        return [b.add(relu, [b.add(e.Add(), [n, n])]), b.add(relu, [b.add(e.Neg(), [x])])]

    assert op_names(rewritten(build, FuseActivationsPass())).count("Clip") == 2


@pytest.mark.parametrize("case", ["same", "other", "implied"])
def test_quantized_clamps(case: str) -> None:
    x_quant, y_quant = Quant.per_tensor(0.1, 3), Quant.per_tensor(0.2, -9)
    second = {"same": y_quant, "other": Quant.per_tensor(0.15, 4)}
    implied = Quant.per_tensor(6 / 255, -128)

    def build(b: Builder, x: Value) -> Value:
        y = b.add(e.Add(), [x, x], quant=y_quant)
        return b.add(e.Clip(low=0.0, high=6.0), [y], quant=second.get(case, implied))

    graph = rewritten(build, FuseActivationsPass(), quant=x_quant)
    wanted = {"same": ["Add"], "other": ["Add", "Clip"], "implied": ["Add", "Quantize"]}
    assert op_names(graph) == wanted[case]


# ---------------------------------------------------------------- products


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("kind", ["floats", "codes", "halves"])
@pytest.mark.parametrize("transpose", [False, True])
def test_products_with_constants_become_layers(transpose: bool, kind: str, rank: int) -> None:
    shape = (5, 8) if transpose else (8, 5)
    shape = (1,) * (rank - 2) + shape

    def build(b: Builder, x: Value) -> Value:
        if kind == "floats":
            w = weights(b, *shape)
        elif kind == "codes":
            data = RNG.integers(-9, 9, shape).astype(np.int8)
            w = coded(b, data, Quant.per_tensor(0.1, 1))
        else:
            w = b.add(
                Cast(dtype=DType.FLOAT32), [b.const(RNG.normal(0, 1, shape).astype(np.float16))]
            )
        y = b.add(MatMul(transpose_b=transpose), [x, w])
        return b.add(e.Add(), [b.const(np.arange(5, dtype=np.float32)), y], name="y")

    graph = rewritten(build, JoinProductsPass(), FoldScalesPass(), exact=False)
    assert [n for n in op_names(graph) if n not in ("Cast", "Dequantize")] == ["FullyConnected"]
    node = list(graph.nodes)[-1]
    assert node.inputs[1] is not None
    assert node.inputs[1].shape == (5, 8)
    assert node.inputs[2] is not None


def test_scales_of_columns_become_those_of_filters() -> None:
    quant = Quant.per_channel([0.1, 0.2, 0.3, 0.4, 0.5], axis=1)

    def build(b: Builder, x: Value) -> Value:
        w = coded(b, RNG.integers(-99, 99, (8, 5)).astype(np.int8), quant)
        y = b.add(MatMul(), [dq(b, x), w])
        y = b.add(e.Add(), [y, b.const(np.arange(5, dtype=np.float32))])
        y = b.add(e.Clip(low=0.0, high=INF), [y])
        return q(b, y, Quant.per_tensor(2.0, -128), DType.INT8)

    passes = [JoinProductsPass(), FoldScalesPass(), FuseActivationsPass(), FoldQdqPass()]
    graph = rewritten(build, *passes, quant=Quant.per_tensor(0.1, 3), exact=False)
    (node,) = list(graph.nodes)
    assert node.op == FullyConnected()
    assert node.inputs[1].quant.axis == 0
    assert node.inputs[2].dtype is DType.INT32


@pytest.mark.parametrize("case", ["integers", "run time", "transposed", "batches"])
def test_other_products_stay(case: str) -> None:
    def build(b: Builder, x: Value) -> Value:
        if case == "integers":
            n = b.add(Cast(dtype=DType.INT32), [x])
            return b.add(MatMul(), [n, b.const(np.ones((8, 3), np.int32))])
        if case == "run time":
            return b.add(MatMul(transpose_b=True), [x, x])
        if case == "transposed":
            return b.add(MatMul(transpose_a=True), [x, weights(b, 4 + 0, 3)])
        return b.add(MatMul(), [x, weights(b, 4, 8, 3)])

    shape = (2, 4, 4, 8)
    graph = rewritten(build, JoinProductsPass(), shape=shape)
    assert op_names(graph)[-1] == "MatMul"


# ---------------------------------------------------------------- factors and terms

PRODUCTS: dict[str, tuple[Op, tuple[int, ...], int]] = {
    "conv": (CONV, (5, 2, 3, 8), 5),
    "depthwise": (CONV.replace(groups=8), (8, 2, 3, 1), 8),
    "transposed": (TRANSPOSED, (3, 2, 2, 8), 6),
    "dense": (FullyConnected(), (5, 8), 5),
}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("nchw", [False, True])
@pytest.mark.parametrize("name", PRODUCTS)
def test_affine_ops_are_folded(name: str, nchw: bool, bias: bool) -> None:
    op, shape, filters = PRODUCTS[name]
    if nchw and name == "dense":
        pytest.skip("a layer has its channels last")
    op = op.replace(layout=Layout.NCHW) if nchw else op
    channels = (filters, 1, 1) if nchw else (filters,)

    def build(b: Builder, x: Value) -> Value:
        def per_channel() -> Value:
            return b.const(RNG.normal(0, 2, channels).astype(np.float32))

        terms = [b.const(np.arange(filters, dtype=np.float32), "bias")] if bias else []
        y = b.add(op, [x, weights(b, *shape), *terms])
        y = b.add(e.Mul(), [y, per_channel()])
        y = b.add(e.Sub(), [y, per_channel()])
        y = b.add(e.Div(), [y, b.const(np.float32(3.0))])
        y = b.add(e.Sub(), [b.const(np.full((1, *channels), 2.0, np.float32)), y])
        return b.add(e.Add(activation=Activation.RELU), [per_channel(), y], name="y")

    data = (2, 8, 4, 6) if nchw else SHAPE
    graph = rewritten(build, FoldScalesPass(), shape=data, exact=False)
    (node,) = list(graph.nodes)
    assert node.op == op.replace(activation=Activation.RELU)
    assert node.inputs[1].name == "weights"


STAYING = {
    "wrong axis": lambda b, y: b.add(e.Mul(), [y, b.const(np.ones((4, 1), np.float32) * 3)]),
    "too many": lambda b, y: b.add(e.Add(), [y, b.const(np.ones((3, 1, 1, 1, 5), np.float32))]),
    "inverse": lambda b, y: b.add(e.Div(), [b.const(np.float32(3)), y]),
    "too large": lambda b, y: b.add(e.Mul(), [y, b.const(np.float32(3e38))]),
    "too small": lambda b, y: b.add(e.Mul(), [y, b.const(np.float32(5e-39))]),
    "infinite": lambda b, y: b.add(e.Add(), [y, b.const(np.float32(INF))]),
}


@pytest.mark.parametrize("case", STAYING)
def test_what_doesnt_fit_stays(case: str) -> None:
    def build(b: Builder, x: Value) -> Value:
        w = b.const(np.full((5, 2, 3, 8), 2.0, np.float32))
        return STAYING[case](b, b.add(CONV, [x, w]))

    assert len(op_names(rewritten(build, FoldScalesPass()))) == 2


def test_a_term_that_takes_the_bias_away_again_stays() -> None:
    """What the sums between them lost counts: 65504 + x - 65504 isn't x."""

    def build(b: Builder, x: Value) -> Value:
        y = b.add(CONV, [x, b.const(np.full((5, 2, 3, 8), 2.0, np.float32))])
        large = np.full((1, 1, 1, 1), 65504, np.float32)
        return b.add(e.Sub(), [b.add(e.Add(), [y, b.const(large)]), b.const(large)])

    assert op_names(rewritten(build, FoldScalesPass()))[-1] == "Sub"


def test_quantized_weights_take_terms_alone() -> None:
    def build(b: Builder, x: Value) -> list[Value]:
        w = coded(b, RNG.integers(-99, 99, (5, 8)).astype(np.int8), Quant.per_tensor(0.1))
        bias = coded(b, np.arange(5, dtype=np.int32), Quant.per_tensor(0.1))
        y = b.add(FullyConnected(), [x, w, bias])
        y = b.add(e.Add(), [y, b.const(np.arange(5, dtype=np.float32))])
        return [b.add(e.Mul(), [y, b.const(np.float32(2))])]

    graph = rewritten(build, FoldScalesPass(), exact=False)
    assert op_names(graph) == ["Dequantize", "FullyConnected", "Mul"]


def test_results_that_are_read_elsewhere_stay() -> None:
    def build(b: Builder, x: Value) -> list[Value]:
        y = b.add(CONV, [x, weights(b, 5, 2, 3, 8)], name="conv")
        z = b.add(e.Mul(), [y, b.const(np.float32(2))])
        return [z, y]

    assert op_names(rewritten(build, FoldScalesPass())) == ["Conv2D", "Mul"]


def test_reshaped_results_are_left_alone() -> None:
    def build(b: Builder, x: Value) -> Value:
        y = b.add(s.Reshape(shape=(2, -1)), [b.add(CONV, [x, weights(b, 5, 2, 3, 8)])])
        return b.add(e.Mul(), [y, b.const(np.float32(2))])

    assert len(op_names(rewritten(build, FoldScalesPass()))) == 3


@pytest.mark.parametrize("nchw", [False, True])
@pytest.mark.parametrize("name", PRODUCTS)
def test_normalizations_are_folded(name: str, nchw: bool) -> None:
    op, shape, filters = PRODUCTS[name]
    nchw = nchw and name != "dense"
    op = op.replace(layout=Layout.NCHW) if nchw else op

    def build(b: Builder, x: Value) -> Value:
        numbers = [b.const(RNG.normal(0, 2, filters).astype(np.float32)) for _ in range(3)]
        variance = b.const(RNG.uniform(0.1, 2, filters).astype(np.float32))
        y = b.add(op, [x, weights(b, *shape)])
        axis = 1 if nchw else 3
        return b.add(BatchNormalization(axis=axis, epsilon=1e-3), [y, *numbers, variance])

    data = (2, 8, 4, 6) if nchw else SHAPE
    graph = rewritten(build, FoldScalesPass(), FuseActivationsPass(), shape=data, exact=False)
    assert op_names(graph) == [op.name]


def test_normalizations_of_other_axes_stay() -> None:
    def build(b: Builder, x: Value) -> Value:
        numbers = [b.const(np.ones(4, np.float32)) for _ in range(4)]
        y = b.add(FullyConnected(), [x, weights(b, 5, 8)])
        return b.add(BatchNormalization(axis=1, epsilon=1e-3), [y, *numbers])

    assert len(op_names(rewritten(build, FoldScalesPass()))) == 2


def test_rows_are_products_too() -> None:
    def build(b: Builder, x: Value) -> Value:
        y = b.add(ROW, [x, weights(b, 5, 2, 8)])
        y = b.add(e.Mul(), [y, b.const(np.arange(1, 6, dtype=np.float32))])
        return b.add(e.Clip(low=0.0, high=6.0), [y])

    graph = rewritten(build, FoldScalesPass(), FuseActivationsPass(), shape=(2, 7, 8), exact=False)
    assert [n.op for n in graph.nodes] == [ROW.replace(activation=Activation.RELU6)]
