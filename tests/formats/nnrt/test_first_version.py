"""What version 1 of NNRt's API lacks, written in the operations that it has: against numpy."""

import numpy as np
import pytest

import nnconv
from nnconv.formats.nnrt.check import findings
from nnconv.formats.nnrt.reader import import_model
from nnconv.formats.nnrt.table import spec_of
from nnconv.formats.nnrt.types import OperationType
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model, Signature
from nnconv.lowering import one_entry, to_nnrt
from nnconv.ops import blocks, gather, reduce, slices
from nnconv.ops import elementwise as e

RNG = np.random.default_rng(7)
INF, NAN = np.inf, np.nan

ODD = np.float32([-INF, -3, -2.5, -0.5, 0, 0.5, 2.5, 3, INF, NAN])
"""Floats that comparisons and choices may trip over."""

ROWS = np.repeat(ODD, len(ODD)).reshape(-1, len(ODD))
COLUMNS = ROWS.T.copy()

WIDE = np.asarray([-(2**31), -(2**31) + 1, -7, -1, 0, 1, 9, 2**31 - 2, 2**31 - 1], np.int32)
WIDE_ROWS = np.repeat(WIDE, len(WIDE)).reshape(-1, len(WIDE))
WIDE_COLUMNS = WIDE_ROWS.T.copy()

TRUTHS = [np.asarray(v) for v in ([True, True, False, False], [True, False, True, False])]

MAGNITUDES = np.float32(2.0) ** np.linspace(-149, 127.9, 999).astype(np.float32)
POSITIVES = np.concatenate([MAGNITUDES, np.float32([1, 1.0000001, 0.9999999, 3.4028235e38])])
ANGLES = np.concatenate([np.linspace(-2000, 2000, 4001), [0, np.pi, -np.pi / 2]]).astype(np.float32)
FRACTIONS = np.float32([-8388609, -8388607.5, -2.5, -1, -0.25, 0, 0.25, 1.5, 8388607.5, 3e9, -INF])

PLACES = np.asarray([[0, 2], [1, 0], [-1, -3]], np.int32)


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def table(*shape):
    return RNG.integers(-99, 99, shape).astype(np.int32)


IMAGE = floats(2, 4, 6, 8)

COMPARISONS = {
    e.Less: np.less, e.Greater: np.greater, e.GreaterEqual: np.greater_equal,
    e.Equal: np.equal, e.NotEqual: np.not_equal,
}  # fmt: skip

CASES = {
    **{
        f"{op.__name__} of {name}": (op(), [x, y], compared(x, y))
        for op, compared in COMPARISONS.items()
        for name, x, y in (("floats", ROWS, COLUMNS), ("integers", WIDE_ROWS, WIDE_COLUMNS))
    },
    "Equal of truths": (e.Equal(), TRUTHS, np.equal(*TRUTHS)),
    "And": (e.LogicalAnd(), TRUTHS, np.logical_and(*TRUTHS)),
    "Or": (e.LogicalOr(), TRUTHS, np.logical_or(*TRUTHS)),
    "Not": (e.LogicalNot(), TRUTHS[:1], ~TRUTHS[0]),
    "choice of floats": (
        e.Select(), [ODD > 0, ROWS, COLUMNS], np.where(ODD > 0, ROWS, COLUMNS),
    ),
    "choice of integers": (
        e.Select(), [WIDE > 0, WIDE_ROWS, WIDE_COLUMNS], np.where(WIDE > 0, WIDE_ROWS, WIDE_COLUMNS)
    ),
    "choice of truths": (e.Select(), [TRUTHS[0], *TRUTHS], np.where(TRUTHS[0], *TRUTHS)),
    "choice of the first": (e.Select(), [np.asarray([True]), ODD, -ODD], ODD),
    "choice of the second": (e.Select(), [np.asarray(False), ODD, -ODD], -ODD),
    "lesser integer": (
        e.Minimum(), [WIDE_ROWS, WIDE_COLUMNS], np.minimum(WIDE_ROWS, WIDE_COLUMNS),
    ),
    "bounds": (e.Clip(low=-1.0, high=2.0), [ODD], np.clip(ODD, -1, 2)),
    "an upper bound": (e.Clip(low=-INF, high=0.5), [ODD], np.minimum(ODD, np.float32(0.5))),
    "square": (e.Square(), [ODD], ODD * ODD),
    "floor": (e.Floor(), [FRACTIONS], np.floor(FRACTIONS)),
    "round": (e.Round(), [FRACTIONS], np.round(FRACTIONS)),
    "logarithm": (e.Log(), [POSITIVES], np.log(POSITIVES)),
    "logarithm of no number": (
        e.Log(), [np.float32([0, -1, -INF, INF, NAN])], np.float32([-INF, NAN, NAN, INF, NAN]),
    ),
    "logarithm of halves": (
        e.Log(), [np.float16([0.001, 0.5, 7, 60000])],
        np.log(np.float16([0.001, 0.5, 7, 60000]).astype(np.float64)).astype(np.float16),
    ),
    "sine": (e.Sin(), [ANGLES], np.sin(ANGLES.astype(np.float64)).astype(np.float32)),
    "cosine": (e.Cos(), [ANGLES / 999], np.cos(np.float64(ANGLES / 999)).astype(np.float32)),
    "sum": (
        reduce.ReduceSum(axes=(1, 2), keep_dims=True), [IMAGE], IMAGE.sum((1, 2), keepdims=True),
    ),
    "sum of integers": (
        reduce.ReduceSum(axes=(0, 2), keep_dims=False), [table(3, 5, 7)], None,
    ),
    "greatest": (reduce.ReduceMax(axes=(1, 3), keep_dims=False), [IMAGE], IMAGE.max((1, 3))),
    "least": (reduce.ReduceMin(axes=(2,), keep_dims=True), [IMAGE], IMAGE.min(2, keepdims=True)),
    "least integer": (
        reduce.ReduceMin(axes=(0,), keep_dims=False), [WIDE_ROWS], WIDE_ROWS.min(0),
    ),
    "bounded integers": (
        e.Clip(low=-3.0, high=2.5), [WIDE_ROWS], np.clip(WIDE_ROWS, -3, 2),
    ),
    "any": (
        reduce.ReduceAny(axes=(1,), keep_dims=False), [WIDE_ROWS[:5] > -1],
        (WIDE_ROWS[:5] > -1).any(1),
    ),
    "rows at places": (gather.GatherNd(), [floats(3, 4, 2), np.abs(PLACES)], None),
    "places from the end": (gather.GatherNd(from_end=True), [floats(3, 4, 2), PLACES], None),
    "depth to space": (
        blocks.DepthToSpace(block=2), [IMAGE],
        IMAGE.reshape(2, 4, 6, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(2, 8, 12, 2),
    ),
    "space to depth": (
        blocks.SpaceToDepth(block=2), [IMAGE],
        IMAGE.reshape(2, 2, 2, 3, 2, 8).transpose(0, 1, 3, 2, 4, 5).reshape(2, 2, 3, 32),
    ),
    "mirrored": (
        slices.Pad(before=(0, 2), after=(1, 3), mode=slices.PadMode.REFLECT), [table(3, 5)], None,
    ),
}  # fmt: skip


def expected(op, inputs, wanted):
    if wanted is not None:
        return wanted
    x, *rest = inputs
    if isinstance(op, gather.GatherNd):
        return x[tuple(rest[0].T)]
    if isinstance(op, slices.Pad):
        return np.pad(x, [*zip(op.before, op.after, strict=True)], mode="reflect")
    return x.sum(op.axes).astype(np.int32)


def written_for_version_1(op, inputs, shapes):
    graph = Graph("net")
    b = Builder(graph)
    values = [
        b.input(f"x{i}", DType.of(a), shape)
        for i, (a, shape) in enumerate(zip(inputs, shapes, strict=True))
    ]
    graph.outputs = [b.add(op, values)]
    graph.outputs[0].name = "y"
    model = Model([Signature("", graph)])
    written = to_nnrt(one_entry(model, model.main), api=1).model
    assert not findings(written, 1)
    assert written.operations
    return import_model(written)


@pytest.mark.parametrize("device", ["reference", "onnxruntime:cpu"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_version_1_computes_what_numpy_does(name, device):
    if device != "reference":
        pytest.importorskip("onnxruntime")
    op, inputs, wanted = CASES[name]
    wanted = expected(op, inputs, wanted)
    model = written_for_version_1(op, inputs, [a.shape for a in inputs])
    feeds = {f"x{i}": a for i, a in enumerate(inputs)}
    result = nnconv.compile(model, device).run(feeds)["y"]
    assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=4e-7)
    else:
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("extent", [5, 9])
def test_mirrors_along_open_extents(mode, extent):
    op = slices.Pad(before=(0, 2), after=(0, 3), mode=slices.PadMode[mode.upper()])
    x = floats(2, extent)
    model = written_for_version_1(op, [x], [(2, None)])
    result = nnconv.compile(model, "reference").run({"x0": x})["y"]
    np.testing.assert_array_equal(result, np.pad(x, [(0, 0), (2, 3)], mode=mode))


SIDES = {
    "rows": ((3, 2, 3), ("n", 2, 3)), "a row": ((1, 2, 3), (1, 2, 3)), "a number": ((), ()),
    "columns": ((3,), (3,)),
}  # fmt: skip


@pytest.mark.parametrize("device", ["reference", "onnxruntime:cpu"])
@pytest.mark.parametrize("of", ["rows", "elements"])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("first", [False, True])
def test_choices_between_open_numbers_of_rows(side, first, of, device):
    """What isn't chosen may be no number."""
    if of == "elements" and side in ("a row", "columns"):
        pytest.skip("a side is of one element, or has all")
    pytest.importorskip("onnxruntime")
    shape, written = SIDES[side]
    x, other = floats(3, 2, 3), floats(*shape)
    x[1] = NAN
    truth = RNG.integers(0, 2, (3, 2, 3) if of == "elements" else (3, 1, 1)).astype(bool)
    shapes = [("n", *truth.shape[1:]), ("n", 2, 3), written]
    inputs = [truth, x, other]
    if first:
        truth[1] = False
    else:
        inputs, shapes = [truth, other, x], [shapes[0], *shapes[:0:-1]]
        truth[1] = True
    model = written_for_version_1(e.Select(), inputs, shapes)
    feeds = {f"x{i}": a for i, a in enumerate(inputs)}
    result = nnconv.compile(model, device).run(feeds)["y"]
    np.testing.assert_array_equal(result, np.where(*inputs))
    assert not np.isnan(result).any()


def test_version_1_has_no_operation_for_these():
    """What the table above is about: else it would prove nothing."""
    lacking = {"LESS", "GREATER", "EQUAL", "WHERE", "FLOOR", "ROUND", "LOG", "SIN", "REDUCE_SUM"}
    assert all(spec_of(OperationType[name]).since == 2 for name in lacking)


@pytest.mark.parametrize("places", [DType.INT32, DType.INT64])
@pytest.mark.parametrize(("api", "axis"), [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)])
def test_the_greatest_along_any_dimension_with_places_of_any_type(api, axis, places):
    """Version 1 knows the first dimension alone, either has places of int32."""
    graph = Graph("net")
    b = Builder(graph)
    x = RNG.permutation(60).reshape(3, 4, 5).astype(np.float32)
    given = b.input("x", DType.FLOAT32, x.shape)
    graph.outputs = list(b.add_many(gather.TopK(axis=axis, k=2, index_dtype=places), [given]))
    for value, name in zip(graph.outputs, ("y", "at"), strict=True):
        value.name = name
    model = Model([Signature("", graph)])
    written = to_nnrt(one_entry(model, model.main), api=api).model
    assert not findings(written, api)
    result = nnconv.compile(import_model(written), "reference").run({"x": x})
    best = np.flip(np.argsort(x, axis=axis), axis).take([0, 1], axis)
    np.testing.assert_array_equal(result["at"], best)
    np.testing.assert_array_equal(result["y"], np.take_along_axis(x, best, axis))
    assert result["at"].dtype == places.numpy
