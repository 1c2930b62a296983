"""Graphs of 64 bits become graphs of 32: the same numbers, where these have them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.errors import UnsupportedError
from nnconv.ir import DType, Graph, Model, Signature, Value
from nnconv.ir.builder import Builder
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.control import If, While
from nnconv.ops.gather import Gather, NonZero, TopK
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ArgMax, ReduceSum
from nnconv.passes.base import run_passes
from nnconv.passes.narrow_numbers import NarrowNumbersPass

SHAPE = (3, 4)
LARGE = 2**40

Built = Value | list[Value]


def numbers(b: Builder, name: str = "x") -> Value:
    return b.input(name, DType.INT64, SHAPE)


def arithmetic(b: Builder) -> Built:
    x = numbers(b)
    y = b.add(e.Mul(), [x, b.const(np.array([3, -4, 5, 6]), "c")])
    return [b.add(e.Sub(), [y, x]), b.add(ReduceSum(axes=(1,)), [y])]


def places(b: Builder) -> Built:
    x = b.input("x", DType.FLOAT32, SHAPE)
    best = b.add(ArgMax(axis=1, dtype=DType.INT64), [x])
    values, where = b.add_many(TopK(axis=1, k=2), [x])
    return [best, values, where]


def extents(b: Builder) -> Built:
    x = b.input("x", DType.FLOAT32, SHAPE)
    shape = b.add(s.ShapeOf(dtype=DType.INT64), [x])
    return b.add(s.Reshape(shape=None), [x, b.add(Gather(axis=0), [shape, back(b)])])


def back(b: Builder) -> Value:
    return b.const(np.array([1, 0]), "back")


def ones_that_are_int64_alone(b: Builder) -> Built:
    x = b.input("x", DType.FLOAT32, SHAPE)
    found = b.add(NonZero(), [x])
    return b.add(e.Add(), [found, b.const(np.array(1), "one")])


def cast(b: Builder) -> Built:
    x = b.input("x", DType.FLOAT32, SHAPE)
    y = b.add(Cast(dtype=DType.INT64), [x])
    return b.add(Cast(dtype=DType.FLOAT32), [b.add(e.Neg(), [y])])


def large_constants_saturate(b: Builder) -> Built:
    high = b.const(np.array([LARGE, 2, 5, LARGE]), "high")
    low = b.const(np.array([-LARGE, -LARGE, 1, -1]), "low")
    return b.add(e.Maximum(), [b.add(e.Minimum(), [numbers(b), high]), low])


def constant_that_is_an_output(b: Builder) -> Built:
    return [b.add(e.Neg(), [numbers(b)]), b.const(np.array([1, 2]), "c")]


def fractions(b: Builder) -> Built:
    x = b.add(Cast(dtype=DType.FLOAT64), [b.input("x", DType.FLOAT32, SHAPE)])
    half = b.const(np.array(0.5), "half")
    above = b.const(np.array([-1e300, 1.0, -np.inf, 3.0]), "above")
    return [b.add(e.Add(), [x, half]), b.add(e.Maximum(), [b.add(e.Mul(), [x, half]), above])]


def branch(b: Builder) -> Built:
    bodies = []
    for op in (e.Neg(), e.Abs()):
        inner = Builder(Graph(op.name))
        x = inner.input("a", DType.INT64, SHAPE)
        inner.graph.outputs = [inner.add(e.Add(), [inner.add(op, [x]), inner.const(np.array(7))])]
        bodies.append(inner.graph)
    x = numbers(b)
    which = b.add(e.Greater(), [b.input("n", DType.INT64, ()), b.const(np.array(0))])
    return list(b.add_typed(If(), [which, x], [x.type], bodies=bodies))


def loop(b: Builder) -> Built:
    condition, turn = Builder(Graph("condition")), Builder(Graph("turn"))
    count = condition.input("n", DType.INT64, ())
    condition.input("x", DType.INT64, SHAPE)
    condition.graph.outputs = [condition.add(e.Less(), [count, condition.const(np.array(3))])]
    count, x = turn.input("n", DType.INT64, ()), turn.input("x", DType.INT64, SHAPE)
    turn.graph.outputs = [
        turn.add(e.Add(), [count, turn.const(np.array(1))]),
        turn.add(e.Add(), [x, x]),
    ]
    start, x = b.const(np.array(0), "start"), numbers(b)
    kinds = [start.type, x.type]
    return list(b.add_typed(While(), [start, x], kinds, bodies=[condition.graph, turn.graph]))[1:]


CASES = [
    *(arithmetic, places, extents, ones_that_are_int64_alone, cast),
    *(large_constants_saturate, constant_that_is_an_output, fractions, branch, loop),
]


def all_values(graph: Graph) -> list[Value]:
    values = [*graph.inputs, *graph.outputs, *graph.constants()]
    for node in graph.nodes:
        values += node.outputs
        for body in node.bodies:
            values += all_values(body)
    return values


@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
def test_the_same_numbers_in_32_bits(build: Callable[[Builder], Built]):
    graph = Graph("g")
    built = build(Builder(graph))
    graph.outputs = built if isinstance(built, list) else [built]
    rng = np.random.default_rng(3)
    feeds = [
        rng.permutation(np.prod(v.shape, dtype=int)).reshape(v.shape).astype(v.dtype.numpy) - 4
        for v in graph.inputs
    ]
    before = run_graph(graph, feeds)
    names = [v.name for v in (*graph.inputs, *graph.outputs)]
    model = Model([Signature("", graph)])
    step = NarrowNumbersPass()
    run_passes(model, [step], verify=True)
    narrow = [a.astype(v.dtype.numpy) for a, v in zip(feeds, graph.inputs, strict=True)]
    for old, new in zip(before, run_graph(graph, narrow), strict=True):
        np.testing.assert_array_equal(old, new)
        assert new.dtype.itemsize < 8
        assert old.size
    assert [v.name for v in (*graph.inputs, *graph.outputs)] == names
    wide = [v for v in all_values(graph) if v.dtype.bits == 64]
    cast_away = {v for v in wide if [use.node.op.name for use in v.uses] == ["Cast"]}
    assert set(wide) == cast_away
    assert not any(step.run(each) for each in model.graphs() if not wide)


def test_what_has_no_int64_stays():
    graph = Graph("g")
    b = Builder(graph)
    graph.outputs = [b.add(e.Neg(), [b.input("x", DType.INT32, SHAPE)])]
    assert not NarrowNumbersPass().run(graph)


def test_indices_are_given_as_int32():
    graph = Graph("main")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, (2, 5))
    values, places = b.add_many(TopK(axis=1, k=2, index_dtype=DType.INT64), [x])
    graph.outputs = [values, b.add(Cast(dtype=DType.INT32), [places])]
    model = Model(signatures=[Signature("", graph)])
    assert run_passes(model, [NarrowNumbersPass()], verify=True)
    (top,) = [node for node in graph.nodes if isinstance(node.op, TopK)]
    assert top.op.index_dtype is DType.INT32
    assert top.outputs[1].dtype is DType.INT32


def test_nothing_is_computed_with_what_int32_lacks(tmp_path):
    """Bounds beyond int32 saturate and say the same; what is added would be another number."""
    for op, fits in ((e.Add(), False), (e.Mul(), False), (e.Minimum(), True), (e.Less(), True)):
        graph = Graph("g")
        b = Builder(graph)
        far = b.const(np.array([LARGE, 1, 2, 3]), "far")
        graph.outputs = [b.add(op, [numbers(b), far])]
        model = Model([Signature("", graph)])
        report = nnconv.check(model, "nnapi")
        assert report.passed is fits
        if not fits:
            (obstacle,) = report.obstacles
            assert obstacle.why == "`far` has numbers beyond int32, the widest integers of NNAPI"
            with pytest.raises(UnsupportedError, match="beyond int32"):
                nnconv.save(model, tmp_path / "x.nnapi")


def test_edges_in_float64_are_told_of_and_compared(tmp_path):
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT64, SHAPE)
    graph.outputs = [b.add(e.Mul(), [x, b.const(np.array(0.1), "tenth")], name="y")]
    nnconv.save(Model([Signature("", graph)]), tmp_path / "x.onnx")
    report = nnconv.convert(tmp_path / "x.onnx", tmp_path / "x.nnapi", verify=True)
    assert report.verified
    assert report.notes == [
        f"`{name}` is float64, which NNAPI lacks: it becomes float32" for name in "xy"
    ]


HUGE = np.array([1e300, 2.0, -np.inf, 1e-300])


@pytest.mark.parametrize(
    ("target", "limits"),
    [
        ("nnapi", ["`huge` has numbers beyond float32, in which NNAPI computes: they become in"]),
        ("tflite", ["`huge` has numbers beyond float32, in which TFLite computes: they become in"]),
        ("nnrt", []),
        ("onnx", []),
    ],
)
@pytest.mark.parametrize("factor", [HUGE, HUGE[1:]], ids=["beyond", "within"])
def test_constants_beyond_float32_are_told_of(factor, target, limits, tmp_path):
    graph = Graph()
    b = Builder(graph)
    x = b.input("x", DType.FLOAT64, factor.shape)
    graph.outputs = [b.add(e.Mul(), [x, b.const(factor, "huge")], name="y")]
    source = tmp_path / "source.onnx"
    nnconv.save(Model([Signature("", graph)]), source)
    notes = nnconv.convert(source, tmp_path / f"result.{target}").notes
    found = [note for note in notes if "beyond" in note]
    wanted = limits if factor is HUGE else []
    assert len(found) == len(wanted)
    assert all(note.startswith(start) for note, start in zip(found, wanted, strict=True))
    executable = nnconv.compile(nnconv.load(tmp_path / f"result.{target}"), "reference")
    (end,) = executable.inputs
    ones = np.ones(factor.shape, end.dtype.numpy)
    (product,) = executable.run({end.name: ones}).values()
    with np.errstate(over="ignore"):
        rounded = factor if target in ("nnrt", "onnx") else factor.astype(np.float32)
    np.testing.assert_array_equal(product, rounded.astype(product.dtype))
