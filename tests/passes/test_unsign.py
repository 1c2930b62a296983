"""Signed codes become unsigned ones inside: the same results, the same edges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.ir import DType, Graph, Model, Signature, Value
from nnconv.ir.builder import Builder
from nnconv.ir.op import Activation, Layout
from nnconv.ir.quant import Quant
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.control import If
from nnconv.ops.conv import Conv2D
from nnconv.ops.gather import Gather
from nnconv.ops.norm import Softmax
from nnconv.ops.pool import AveragePool2D, MaxPool2D
from nnconv.ops.quantize import Bitcast, Cast, Dequantize, Quantize
from nnconv.ops.reduce import ArgMax
from nnconv.ops.slices import Pad
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.unsign import UnsignPass

SHAPE = (1, 4, 6, 8)
X = Quant.per_tensor(0.05, -3)
Y = Quant.per_tensor(0.125, 7)
POOL = {"layout": Layout.NHWC, "window": (2, 2), "stride": (2, 2), "padding": Padding.none(2)}

Built = Value | list[Value]


def floats(b: Builder) -> Value:
    return b.input("x", DType.FLOAT32, SHAPE)


def codes(b: Builder) -> Value:
    """Signed codes that are made inside."""
    return b.add(Quantize(dtype=DType.INT8), [floats(b)], quant=X)


def leaves(b: Builder, x: Value) -> Value:
    return b.add(Dequantize(dtype=DType.FLOAT32), [x])


def absolute(b: Builder) -> Built:
    return leaves(b, b.add(e.Abs(), [codes(b)], quant=X))


def sum_with_a_constant(b: Builder) -> Built:
    data = np.arange(-4, 4, dtype=np.int8)
    added = b.const(data, "c", quant=Y)
    op = e.Add(activation=Activation.RELU6)
    return leaves(b, b.add(op, [codes(b), added], quant=Y))


def constant_read_twice(b: Builder) -> Built:
    x, c = codes(b), b.const(np.full(8, -10, np.int8), "c", quant=X)
    both = [b.add(op, [x, c], quant=X) for op in (e.Maximum(), e.Minimum())]
    return leaves(b, b.add(s.Concat(axis=0), both, quant=X))


def convolution(b: Builder) -> Built:
    rng = np.random.default_rng(1)
    weights = rng.integers(-127, 128, (3, 2, 2, 8)).astype(np.int8)
    w = b.const(weights, "w", quant=Quant.per_channel([0.01, 0.02, 0.03], axis=0))
    op = Conv2D(layout=Layout.NHWC, stride=(1, 1), dilation=(1, 1), padding=Padding.none(2))
    return leaves(b, b.add(op, [codes(b), w], quant=Y))


def moves(b: Builder) -> Built:
    x = b.add(s.Reshape(shape=(4, 48)), [codes(b)], quant=X)
    x = b.add(s.Concat(axis=0), [x, b.add(s.Transpose(perm=(0, 1)), [x], quant=X)], quant=X)
    picked = b.add(Gather(axis=0), [x, b.const(np.array([7, 0], np.int32), "i")], quant=X)
    return leaves(b, b.add(Pad(before=(0, 1), after=(1, 0), value=0.5), [picked], quant=X))


def pools(b: Builder) -> Built:
    x = b.add(MaxPool2D(**POOL), [codes(b)], quant=X)
    return leaves(b, b.add(AveragePool2D(**POOL), [x], quant=X))


def softmax(b: Builder) -> Built:
    fixed = Quant.per_tensor(1 / 256, -128)
    return leaves(b, b.add(Softmax(axis=3), [codes(b)], quant=fixed))


def place_of_the_largest(b: Builder) -> Built:
    return b.add(ArgMax(axis=3), [codes(b)])


def compared(b: Builder) -> Built:
    return b.add(e.Greater(), [codes(b), b.const(np.zeros(8, np.int8), "c", quant=Y)])


def requantized(b: Builder) -> Built:
    return leaves(b, b.add(Quantize(dtype=DType.INT8), [codes(b)], quant=Y))


CASES = [
    *(absolute, sum_with_a_constant, constant_read_twice, convolution, moves, pools, softmax),
    *(place_of_the_largest, compared, requantized),
]


def unsigned(build: Callable[[Builder], Built]) -> tuple[Graph, bool]:
    """Turn a graph's codes: results and edges stay; gives it, and whether the pass did anything."""
    graph = Graph("g")
    built = build(Builder(graph))
    graph.outputs = built if isinstance(built, list) else [built]
    edges = [(v.name, v.type) for v in (*graph.inputs, *graph.outputs)]
    rng = np.random.default_rng(2)
    feeds = [
        rng.integers(-128, 128, v.shape).astype(np.int8)
        if v.type.has_codes
        else rng.normal(0, 6, v.shape).astype(v.dtype.numpy)
        for v in graph.inputs
    ]
    before = run_graph(graph, feeds)
    step = UnsignPass()
    did = step.run(graph)
    assert not step.run(graph)
    run_passes(Model([Signature("", graph)]), [step], verify=True)
    for old, new in zip(before, run_graph(graph, feeds), strict=True):
        np.testing.assert_array_equal(old, new)
        assert len(np.unique(old)) > 1
    assert [(v.name, v.type) for v in (*graph.inputs, *graph.outputs)] == edges
    return graph, did


def signed_ones(graph: Graph) -> list[Value]:
    """What still has signed codes of one scale: inner values, and constants of data."""
    values = [*graph.constants(), *(v for node in graph.nodes for v in node.outputs)]
    return [
        v for v in values if v.dtype is DType.INT8 and v.quant is not None and v.quant.is_per_tensor
    ]


@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
def test_no_signed_codes_are_left_inside(build):
    graph, did = unsigned(build)
    assert did
    assert signed_ones(graph) == []


def test_weights_are_left_to_the_writer():
    graph, _ = unsigned(convolution)
    assert [v.dtype for v in graph.constants() if v.name == "w"] == [DType.INT8]


def test_a_constant_is_turned_once():
    graph, _ = unsigned(constant_read_twice)
    assert len([v for v in graph.constants() if v.name == "c"]) == 1


def test_edges_keep_their_codes():
    def both_ends(b: Builder) -> Built:
        x = b.input("x", DType.INT8, SHAPE, quant=X)
        middle = b.add(e.Add(), [x, x], quant=Y)
        return [b.add(e.Mul(), [middle, middle], quant=Y), b.add(e.Abs(), [middle], quant=Y)]

    graph, did = unsigned(both_ends)
    assert did
    assert [v.dtype for v in (*graph.inputs, *graph.outputs)] == [DType.INT8] * 3
    (first, *_) = graph.nodes
    assert first.outputs[0].dtype is DType.UINT8


def on_the_codes_themselves(b: Builder) -> Built:
    return b.add(Bitcast(dtype=DType.UINT8), [b.add(e.Abs(), [codes(b)], quant=X)])


def widened(b: Builder) -> Built:
    return b.add(Cast(dtype=DType.INT32), [b.add(e.Abs(), [codes(b)], quant=X)])


def branches(b: Builder) -> Built:
    bodies = []
    for _ in range(2):
        inner = Builder(Graph("body"))
        inner.graph.outputs = [
            inner.add(e.Neg(), [inner.input("a", DType.INT8, SHAPE, quant=X)], quant=X)
        ]
        bodies.append(inner.graph)
    which = b.input("c", DType.BOOL, ())
    (result,) = b.add_typed(If(), [which, codes(b)], [bodies[0].outputs[0].type], bodies=bodies)
    return leaves(b, result)


@pytest.mark.parametrize(
    "build", [on_the_codes_themselves, widened, branches], ids=lambda b: b.__name__
)
def test_graphs_that_use_the_codes_themselves_stay(build):
    _, did = unsigned(build)
    assert not did


UNSIGNED = Quant.per_tensor(0.05, 125)


def turned_at_the_edges(b: Builder) -> Built:
    x = b.input("x", DType.UINT8, SHAPE, quant=UNSIGNED)
    signed = b.add(Quantize(dtype=DType.INT8), [x], quant=X)
    return b.add(Quantize(dtype=DType.UINT8), [b.add(e.Abs(), [signed], quant=X)], quant=UNSIGNED)


def signed_at_an_edge(b: Builder) -> Built:
    x = b.input("x", DType.UINT8, SHAPE, quant=UNSIGNED)
    return b.add(e.Abs(), [b.add(Quantize(dtype=DType.INT8), [x], quant=X)], quant=X)


def rescaled_at_an_edge(b: Builder) -> Built:
    x = b.input("x", DType.UINT8, SHAPE, quant=UNSIGNED)
    return leaves(b, b.add(Quantize(dtype=DType.INT8), [x], quant=Y))


@pytest.mark.parametrize(
    ("build", "does"),
    [(turned_at_the_edges, True), (signed_at_an_edge, False), (rescaled_at_an_edge, False)],
    ids=lambda case: getattr(case, "__name__", None),
)
def test_only_what_was_turned_at_its_edges_is_turned_back(build, does):
    graph = Graph("g")
    graph.outputs = [build(Builder(graph))]
    assert UnsignPass(back=True).run(graph) is does
    assert (signed_ones(graph) == []) is does


def test_uint8_by_way_of_nnrt_is_as_it_was_in_nnapi(tmp_path):
    graph = Graph("g")
    builder = Builder(graph)
    x = builder.input("x", DType.UINT8, SHAPE, quant=UNSIGNED)
    graph.outputs = [builder.add(MaxPool2D(**POOL), [x], quant=UNSIGNED)]
    nnconv.save(Model([Signature("", graph)]), tmp_path / "a.nnrt")
    nnconv.convert(tmp_path / "a.nnrt", tmp_path / "a.nnapi")
    (pool,) = nnconv.load(tmp_path / "a.nnapi").graph.nodes
    assert (pool.op.name, pool.outputs[0].dtype) == ("MaxPool2D", DType.UINT8)
