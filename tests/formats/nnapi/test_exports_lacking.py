"""IR to NNAPI: ops that it has no operation for, or none of that form."""

from dataclasses import replace

import numpy as np
import pytest

from nnconv.ir import Activation, Builder, DType, Layout, Quant
from nnconv.ir.types import TensorType
from nnconv.ops import elementwise as e
from nnconv.ops import reduce as r
from nnconv.ops import shape as s
from nnconv.ops.blocks import BatchToSpace, SpaceToBatch
from nnconv.ops.diagonal import MatrixDiag, MatrixSetDiag
from nnconv.ops.gather import Gather, GatherNd, Reduction
from nnconv.ops.pool import MaxPoolIndices
from nnconv.ops.quantize import Bitcast, Cast, FakeQuant
from nnconv.ops.resize import ResizeBilinear, ResizeNearest
from nnconv.ops.segment import Bucketize
from nnconv.ops.spatial import Padding
from nnconv.ops.window import ReduceWindow
from support.nnapi_spine import NnapiCase, check_nnapi

F32, F16, I32, I8 = DType.FLOAT32, DType.FLOAT16, DType.INT32, DType.INT8
CODES = Quant.per_tensor(0.05, 3)
KINDS = {"float32": (F32, None), "int32": (I32, None), "codes": (I8, CODES), "int8": (I8, None)}
EACH = pytest.mark.parametrize("kind", KINDS)


def of_inputs(op, kind, *shapes):
    """An op whose operands are inputs of one kind."""
    dtype, quant = KINDS[kind]

    def build(b: Builder):
        given = [b.input(f"x{i}", dtype, shape, quant=quant) for i, shape in enumerate(shapes)]
        return b.add(op, given, quant=quant)

    return build


BLOCKS = {
    "crops": (BatchToSpace(block=(2, 2), crops=((0, 1), (1, 0))), (8, 2, 3, 2)),
    "crops-one": (BatchToSpace(block=(2,), crops=((1, 1),)), (4, 3, 5)),
    "batch-one": (BatchToSpace(block=(3,), crops=((0, 0),)), (6, 2, 5)),
    "batch-three": (BatchToSpace(block=(2, 1, 2), crops=((0, 0),) * 3), (8, 2, 3, 2)),
    "space-one": (SpaceToBatch(block=(3,), pads=((1, 0),)), (2, 5, 4)),
    "space-three": (SpaceToBatch(block=(2, 1, 2), pads=((0, 0),) * 3), (2, 4, 3, 2)),
    "space-first": (
        SpaceToBatch(block=(2, 2), pads=((1, 1),) * 2, channels_first=True),
        (1, 3, 4, 2),
    ),
}


@EACH
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name, kind):
    op, shape = BLOCKS[name]
    check_nnapi(NnapiCase(name, of_inputs(op, kind, shape), steps=0))


@pytest.mark.parametrize("low_high", [(-1.0, 3.0), (0.0, 6.0), (-6.0, -1.0)], ids=str)
@pytest.mark.parametrize("bits", [4, 8, 16])
def test_fake_quant(low_high, bits):
    op = FakeQuant(low=low_high[0], high=low_high[1], bits=bits)
    x = np.linspace(-8, 8, 96, dtype=np.float32).reshape(2, 48)
    check_nnapi(NnapiCase("fake", of_inputs(op, "float32", (2, 48)), [x]))


@pytest.mark.parametrize("axes", [(0,), (1, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("op", [r.ReduceMean, r.ReduceSum, r.ReduceProd])
@pytest.mark.parametrize("kind", ["int32", "int8"])
def test_sums_and_means_of_integers(op, axes, kind):
    low, high = KINDS[kind][0].int_range
    x = np.random.default_rng(4).integers(low, high, (3, 5, 7), endpoint=True)
    x[0] = high
    feeds = [x.astype(KINDS[kind][0].numpy)]
    check_nnapi(NnapiCase("mean", of_inputs(op(axes=axes), kind, (3, 5, 7)), feeds))


@EACH
@pytest.mark.parametrize("known", [True, False], ids=["known", "given"])
def test_fill_with_what_is_given(known, kind):
    def build(b: Builder):
        dtype, quant = KINDS[kind]
        value = b.input("x", dtype, (), quant=quant)
        if known:
            return b.add(s.Fill(shape=(2, 3)), [value], quant=quant)
        shape = b.input("shape", I32, (2,))
        return b.add(s.Fill(shape=None), [value, shape], quant=quant)

    feeds = [None] if known else [None, np.array([2, 3], np.int32)]
    check_nnapi(NnapiCase("fill", build, feeds))


@pytest.mark.parametrize("kind", ["float32", "int32", "int8"])
def test_bucketize(kind):
    x = np.arange(-7, 8).reshape(3, 5).astype(KINDS[kind][0].numpy)
    build = of_inputs(Bucketize(boundaries=(-3.5, 0.0, 2.0)), kind, (3, 5))
    check_nnapi(NnapiCase("buckets", build, [x]))


@pytest.mark.parametrize("how", [Reduction.ADD, Reduction.MUL, Reduction.MIN, Reduction.MAX])
@EACH
def test_windows(how, kind):
    op = ReduceWindow(reduction=how, window=(2, 1, 3), stride=(1, 2, 2), dilation=(2, 1, 1))
    check_nnapi(NnapiCase("window", of_inputs(op, kind, (4, 3, 8), ()), steps=0))


@EACH
def test_diagonals(kind):
    check_nnapi(NnapiCase("diagonal", of_inputs(MatrixDiag(), kind, (2, 3)), steps=0))
    check_nnapi(NnapiCase("set", of_inputs(MatrixSetDiag(), kind, (2, 3, 4), (2, 3)), steps=0))


@EACH
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_gathers_of_batches(axis, kind):
    def build(b: Builder):
        dtype, quant = KINDS[kind]
        x = b.input("x", dtype, (2, 3, 4, 5), quant=quant)
        places = b.const(np.array([[0, 2, 1], [1, 1, 2]], np.int32))
        return b.add(Gather(axis=axis, batch_dims=1), [x, places], quant=quant)

    check_nnapi(NnapiCase("batches", build, steps=0))


@pytest.mark.parametrize("op", [e.Round(), e.Atan2(), e.Ceil()], ids=lambda op: op.name)
def test_halves_of_what_is_computed_in_single_precision(op):
    count = 2 if isinstance(op, e.Atan2) else 1

    def build(b: Builder):
        return b.add(op, [b.input(f"x{i}", F16, (3, 4)) for i in range(count)])

    check_nnapi(NnapiCase("halves", build, tolerance=2e-3))


@pytest.mark.parametrize("op", [ResizeNearest, ResizeBilinear])
def test_places_of_corners_and_middles_at_once(op):
    resize = op(size=(5, 4), layout=Layout.NHWC, align_corners=True, half_pixel=True)
    check_nnapi(NnapiCase("resize", of_inputs(resize, "float32", (1, 3, 7, 2))))


def test_constant_places_that_count_from_the_end():
    def build(b: Builder):
        x = b.input("x", F32, (7,))
        return b.add(Gather(axis=0), [x, b.const(np.array([-7, -1, 2], np.int32))])

    check_nnapi(NnapiCase("end", build, operations={"GATHER": 1}))


def test_bits_of_wide_integers_are_refused():
    def build(b: Builder):
        return b.add(Bitcast(dtype=I32), [b.input("x", DType.INT64, (3,))])

    check_nnapi(NnapiCase("bits", build, refused="int64[3], NNAPI has no such type"))


@pytest.mark.parametrize("kind", ["int32", "int8"])
def test_powers_of_integers(kind):
    dtype = KINDS[kind][0]
    base = np.arange(-9, 9).reshape(3, 6).astype(dtype.numpy)
    exponents = np.array([0, 1, 2, 2, 1, 7 if kind == "int32" else 0]).astype(dtype.numpy)
    check_nnapi(NnapiCase("power", of_inputs(e.Pow(), kind, (3, 6), (6,)), [base, exponents]))


def test_places_of_the_greatest_in_windows():
    def build(b: Builder):
        x = b.input("x", F32, (2, 5, 4, 3))
        pool = MaxPoolIndices(window=(2, 2), stride=(2, 1), padding=Padding((1, 0), (0, 1)))
        found, places = b.add_many(pool, [x])
        return [found, b.add(Cast(dtype=I32), [places])]

    check_nnapi(NnapiCase("places", build))


@EACH
@pytest.mark.parametrize("known", [True, False], ids=["known", "given"])
def test_points_of_batches(known, kind):
    def build(b: Builder):
        dtype, quant = KINDS[kind]
        x = b.input("x", dtype, (2, 3, 4), quant=quant)
        places = np.array([[[0, 3], [2, 1]], [[1, 1], [0, 0]]], np.int32)
        given = b.const(places) if known else b.input("i", I32, places.shape)
        return b.add(GatherNd(batch_dims=1), [x, given], quant=quant)

    indices = [] if known else [np.array([[[0, 3], [2, 1]], [[1, 1], [0, 0]]], np.int32)]
    check_nnapi(NnapiCase("points", build, [None, *indices], steps=0))


def test_rests_of_infinite_divisors():
    x = np.array([3.5, -3.5, 0, np.inf, 7.25, -7.25], np.float32)
    y = np.array([np.inf, np.inf, -np.inf, np.inf, 2, 2], np.float32)
    expected = [np.array([3.5, np.inf, 0, np.nan, 1.25, 0.75], np.float32)]
    check_nnapi(
        NnapiCase("rests", of_inputs(e.FloorMod(), "float32", (6,), (6,)), [x, y], expected)
    )


@EACH
@pytest.mark.parametrize("level", [3, 8])
@pytest.mark.parametrize("shape", [(1, 3), (2, 1, 3)], ids=str)
def test_shapes_to_broadcast_to_may_be_given_by_a_run(shape, level, kind):
    dtype, quant = KINDS[kind]

    def build(b: Builder):
        given = [b.input("x", dtype, shape, quant=quant), b.input("shape", I32, (3,))]
        return b.add(s.BroadcastTo(shape=None), given, quant=quant)

    feeds = [None, np.asarray([2, 4, 3], np.int32)]
    case = NnapiCase("broadcast", build, feeds=feeds, level=level, steps=0)
    check_nnapi(case)


NOTHING = np.zeros((1, 3), np.float32)


def with_zeros(op, dtype, *, first):
    def build(b: Builder):
        x, zeros = b.input("x", dtype, (2, 3)), b.const(NOTHING.astype(dtype.numpy), dtype=dtype)
        return b.add(op, [zeros, x] if first else [x, zeros])

    return build


EARLY = {
    "abs": (e.Abs(), 1),
    "prelu": (e.PRelu(), 2),
    "leaky": (e.LeakyRelu(alpha=0.3), 1),
    "sub": (e.Sub(), 2),
    "sub, relu6": (e.Sub(activation=Activation.RELU6), 2),
}


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("name", EARLY)
def test_what_early_levels_spell(name, level):
    op, count = EARLY[name]
    shapes = [(2, 4, 3), (4, 1)][:count]
    check_nnapi(NnapiCase(name, of_inputs(op, "float32", *shapes), level=level))
    sooner = NnapiCase(name, of_inputs(op, "codes", *shapes), level=level)
    check_nnapi(replace(sooner, refused="level"))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("op", [e.Maximum(), e.Minimum()], ids=["maximum", "minimum"])
def test_extremes_with_zeros_on_early_levels(op, first):
    counts = {"RELU": 1} if isinstance(op, e.Maximum) else {"RELU": 1, "MUL": 2}
    build = with_zeros(op, F32, first=first)
    check_nnapi(NnapiCase("zeros", build, operations=counts, level=1))
    check_nnapi(NnapiCase("zeros", build, level=3))


@pytest.mark.parametrize("op", [e.Maximum(), e.Minimum()], ids=["maximum", "minimum"])
def test_other_extremes_are_not_on_early_levels(op):
    case = NnapiCase("any", of_inputs(op, "float32", (2, 3), (2, 3)), level=2)
    check_nnapi(replace(case, refused="MAXIMUM needs feature level 3"))


def test_numbers_without_end_on_early_levels():
    x = np.asarray([[-np.inf, np.inf, -3e38], [3e38, 0.0, -0.0]], np.float32)
    check_nnapi(NnapiCase("abs", of_inputs(e.Abs(), "float32", (2, 3)), [x], level=1))
    leaky = of_inputs(e.LeakyRelu(alpha=0.25), "float32", (2, 3))
    check_nnapi(NnapiCase("leaky", leaky, [x], level=1))


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("slopes", [[np.inf, -np.inf, 0.5], [np.inf] * 3], ids=str)
def test_slopes_without_end(slopes, level):
    def build(b: Builder):
        return b.add(e.PRelu(), [b.input("x", F32, (2, 3)), b.const(np.float32(slopes))])

    x = np.asarray([[1, -2, 3], [-1e-30, 2, -4]], np.float32)
    with np.errstate(invalid="ignore"):
        expected = np.where(x > 0, x, x * np.float32(slopes))
    check_nnapi(NnapiCase("slopes", build, [x], [expected], level=level))


@pytest.mark.parametrize("sizes", [(2, 2, 2), (1, 3, 2)], ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kind", ["float32", "codes"])
def test_parts_are_strided_slices_on_level_2(kind, axis, sizes):
    dtype, quant = (F32, None) if kind == "float32" else (DType.UINT8, CODES)
    shape = tuple(sum(sizes) if i == axis else 3 for i in range(3))

    def build(b: Builder):
        x = b.input("x", dtype, shape, quant=quant)
        kinds = [TensorType(dtype, (*shape[:axis], n, *shape[axis + 1 :]), quant) for n in sizes]
        return b.add_typed(s.Split(axis=axis, sizes=sizes), [x], kinds)

    check_nnapi(NnapiCase("split", build, operations={"STRIDED_SLICE": 3}, level=2))
    check_nnapi(NnapiCase("split", build, refused="STRIDED_SLICE needs feature level 2", level=1))


@pytest.mark.parametrize("shape", [(5,), (None,), (5, 2)], ids=str)
@pytest.mark.parametrize("level", [1, 2])
def test_elements_are_looked_up_on_early_levels(level, shape):
    def build(b: Builder):
        x, places = b.input("x", F32, shape), b.input("places", I32, (3,))
        return b.add(Gather(axis=0), [x, places])

    data = np.arange(np.prod((5, *shape[1:])), dtype=np.float32).reshape(5, *shape[1:])
    feeds = [data, np.array([3, 0, 4], np.int32)]
    counts = {"EMBEDDING_LOOKUP": 1, **({"RESHAPE": 2} if len(shape) == 1 else {})}
    check_nnapi(NnapiCase("looked-up", build, feeds, operations=counts, level=level))
