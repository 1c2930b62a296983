"""IR to NNAPI: ops that look for places, which it has no operations for."""

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Quant
from nnconv.ops import elementwise as e
from nnconv.ops import gather as g
from nnconv.ops.reduce import ArgMax
from nnconv.ops.segment import Segment
from nnconv.ops.slices import DynamicUpdateSlice, Pad, ReverseSequence
from nnconv.ops.window import Dilate
from support.nnapi_spine import NnapiCase, check_nnapi

F32, I32 = DType.FLOAT32, DType.INT32
KINDS = {"float32": (F32, np.float32), "int32": (I32, np.int32)}
BOTH = pytest.mark.parametrize("kind", KINDS)
KNOWN = pytest.mark.parametrize("known", [True, False], ids=["known", "given"])


def numbers(kind, shape, seed=3):
    """Numbers of a kind, those of int32 larger than floats could tell apart."""
    rng = np.random.default_rng(seed)
    if kind == "int32":
        return rng.integers(-(2**31), 2**31, shape).astype(np.int32)
    return rng.normal(size=shape).astype(np.float32)


def check(build, feeds, known=(), **options):
    """A case whose operands at the places ``known`` are constants."""
    dtypes = [DType.of(array) for array in feeds]

    def whole(b: Builder):
        return build(
            b,
            [
                b.const(array) if i in known else b.input(f"x{i}", dtype, array.shape)
                for i, (array, dtype) in enumerate(zip(feeds, dtypes, strict=True))
            ],
        )

    given = [array for i, array in enumerate(feeds) if i not in known]
    check_nnapi(NnapiCase("places", whole, given, **options))


@BOTH
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("from_end", [True, False])
def test_one_hot(axis, from_end, kind):
    _, plain = KINDS[kind]
    op = g.OneHot(axis=axis, depth=5, from_end=from_end)
    indices = np.array([[0, 4, -1], [5, 2, -6]], np.int32)
    check(
        lambda b, x: b.add(op, [x[0], b.const(plain(3)), b.const(plain(-2))]),
        [indices],
    )


@BOTH
@KNOWN
@pytest.mark.parametrize("depth", [1, 2])
def test_scatter_nd(depth, known, kind):
    places = np.array([[3], [0], [3]] if depth == 1 else [[3, 1], [0, 2], [3, 1]], np.int32)
    news = numbers(kind, (3, 3, 2)[: 3 - depth + 1] if depth == 1 else (3, 2), 9)
    feeds = [numbers(kind, (4, 3, 2)), places, news]
    check(lambda b, x: b.add(g.ScatterNd(), x), feeds, [1] if known else [])


@BOTH
@pytest.mark.parametrize(
    "how", [g.Reduction.ADD, g.Reduction.MUL, g.Reduction.MAX, g.Reduction.MIN]
)
def test_scatter_nd_combined(how, kind):
    feeds = [numbers(kind, (4, 3)), np.array([[3], [0], [3]], np.int32), numbers(kind, (3, 3), 9)]
    check(lambda b, x: b.add(g.ScatterNd(reduction=how), x), feeds)


@BOTH
@KNOWN
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_elements(axis, known, kind):
    feeds = [numbers(kind, (3, 4)), np.array([[2, -1], [0, 1]], np.int32), numbers(kind, (2, 2), 9)]
    check(lambda b, x: b.add(g.ScatterElements(axis=axis), x), feeds, [1] if known else [])


@BOTH
@pytest.mark.parametrize(
    "how", [g.Reduction.ADD, g.Reduction.MUL, g.Reduction.MAX, g.Reduction.MIN]
)
def test_segments(how, kind):
    ids = np.array([2, 0, -1, 2], np.int32)
    op = Segment(reduction=how, num_segments=4)
    check(lambda b, x: b.add(op, x), [numbers(kind, (4, 3)), ids])


def test_a_large_sum_of_segments_is_a_product():
    ids = np.random.default_rng(1).integers(0, 300, 300).astype(np.int32)
    op = Segment(reduction=g.Reduction.ADD, num_segments=300)
    wanted = {"BATCH_MATMUL": 1, "EQUAL": 1, "SELECT": 1, "RESHAPE": 1}
    check(lambda b, x: b.add(op, x), [numbers("float32", (300, 16)), ids], operations=wanted)


@BOTH
@pytest.mark.parametrize("factors", [(1, 2, 3, 1), (2, 1, 1, 2)], ids=str)
def test_dilate(factors, kind):
    _, plain = KINDS[kind]
    op = Dilate(dilations=factors)
    check(lambda b, x: b.add(op, [x[0], b.const(plain(7))]), [numbers(kind, (2, 3, 4, 2))])


@BOTH
@pytest.mark.parametrize("axes", [(1, 0), (0, 1), (2, 1)], ids=str)
def test_reverse_sequence(axes, kind):
    shape = (3, 4, 2)
    lengths = np.array([1, 4, 2, 0][: shape[axes[1]]], np.int32) % (shape[axes[0]] + 1)
    op = ReverseSequence(axis=axes[0], batch_axis=axes[1])
    check(lambda b, x: b.add(op, x), [numbers(kind, shape), lengths])


@BOTH
def test_dynamic_update_slice(kind):
    feeds = [numbers(kind, (4, 5)), numbers(kind, (2, 3), 8), np.array([3, -1], np.int32)]
    check(lambda b, x: b.add(DynamicUpdateSlice(), x), feeds)


@BOTH
def test_a_pad_of_a_number_that_is_given(kind):
    _, plain = KINDS[kind]
    op = Pad(before=(1, 0), after=(0, 2))
    feeds = [numbers(kind, (3, 4)), np.asarray([-7], plain)]
    check(lambda b, x: b.add(op, [x[0], None, x[1]]), feeds)


@BOTH
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("largest", [True, False])
def test_top_k(largest, axis, kind):
    op = g.TopK(axis=axis, k=2, largest=largest)
    check(lambda b, x: b.add_many(op, x), [numbers(kind, (4, 5))])


def test_codes_are_added_where_they_go():
    quant = Quant.per_tensor(0.5, 3)

    def build(b: Builder):
        x = b.const(np.zeros((3, 4), np.int8), quant=quant)
        news = b.input("x", DType.INT8, (2, 4), quant=quant)
        places = b.const(np.array([[0], [2]], np.int32))
        return b.add(g.ScatterNd(reduction=g.Reduction.ADD), [x, places, news], quant=quant)

    feeds = [np.arange(-4, 4, dtype=np.int8).reshape(2, 4) * 15]
    check_nnapi(NnapiCase("codes", build, feeds, steps=0))


@pytest.mark.parametrize("kind", ["float32"])
def test_places_are_worked_out_below_the_level_of_sums(kind):
    places = np.array([[0, 3], [2, 1]], np.int32)
    check(lambda b, x: b.add(g.GatherNd(), x), [numbers(kind, (3, 4, 2)), places], level=3)
    feeds = [numbers(kind, (4, 5)), numbers(kind, (2, 3), 8), np.array([3, -1], np.int32)]
    check(lambda b, x: b.add(DynamicUpdateSlice(), x), feeds, level=3)


def test_small_integers_are_added_up_as_floats():
    def build(b: Builder):
        x = b.input("x", F32, (3, 70))
        place = b.add(ArgMax(axis=1), [x])
        return b.add(e.Sub(), [b.add(e.Mul(), [place, place]), b.const(np.int32(5))])

    wanted = {"ARGMAX": 1, "CAST": 4, "MUL": 1, "SUB": 1}
    check_nnapi(NnapiCase("small", build, operations=wanted, level=3))


def test_large_integers_are_not():
    def build(b: Builder):
        return b.add(e.Add(), [b.input("x", I32, (3,)), b.const(np.int32(5))])

    check_nnapi(NnapiCase("large", build, level=3, refused="needs feature level 4"))


@pytest.mark.parametrize("last_first", [False, True])
@pytest.mark.parametrize("level", [3, 8])
@BOTH
def test_the_right_one_of_equals_comes_first(kind, level, last_first):
    """NNAPI takes the last of equals first."""
    x = np.random.default_rng(1).integers(0, 3, (2, 3, 7)).astype(KINDS[kind][1])
    if last_first:
        order = 6 - np.argsort(-x[..., ::-1], axis=-1, kind="stable")
    else:
        order = np.argsort(-x, axis=-1, kind="stable")
    order = order[..., :5]
    expected = [np.take_along_axis(x, order, -1), order]
    op = g.TopK(axis=2, k=5, last_first=last_first)
    counts = {"TOPK_V2": 1} if last_first else {"GATHER": 2, "TOPK_V2": 1}
    build = lambda b: b.add_many(op, [b.input("x", KINDS[kind][0], x.shape)])  # noqa: E731
    check_nnapi(NnapiCase("ties", build, [x], expected, operations=counts, level=level))


def test_the_order_of_equals_counts_where_places_are_asked_for():
    def values(b: Builder):
        return b.add_many(g.TopK(axis=0, k=2), [b.input("x", F32, (3,))])[0]

    def places(b: Builder):
        return b.add_many(g.TopK(axis=0, k=2), [b.input("x", F32, (None,))])[1]

    feeds = [np.float32([1, 3, 3])]
    check_nnapi(NnapiCase("values", values, feeds, operations={"TOPK_V2": 1}))
    check_nnapi(NnapiCase("places", places, feeds, expected=[np.int32([1, 2])]))
