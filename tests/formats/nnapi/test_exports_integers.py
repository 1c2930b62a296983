"""IR to NNAPI: integers and truth values, which most of its operations don't take."""

import numpy as np
import pytest

from nnconv.ir import Builder, DType
from nnconv.ops import elementwise as e
from nnconv.ops import numeric as n
from nnconv.ops import reduce as r
from nnconv.ops import shape as s
from nnconv.ops.blocks import DepthToSpace, SpaceToBatch, SpaceToDepth
from nnconv.ops.gather import Gather, GatherElements, GatherNd
from nnconv.ops.quantize import Cast
from nnconv.ops.slices import Pad, PadMode, Reverse, Slice
from support.nnapi_spine import NnapiCase, check_nnapi

EDGES = [-(2**31), 2**31 - 1, -1, 0, 1, 65535, 65536, -65536, 1 << 24, (1 << 24) + 1]
"""Numbers that floats, or halves, would get wrong."""


def numbers(shape, dtype=np.int32, seed=7):
    """Numbers of all sizes."""
    rng = np.random.default_rng(seed)
    if dtype is np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    found = rng.integers(-(2**31), 2**31, shape, dtype=np.int64).reshape(-1)
    found[: len(EDGES)] = EDGES[: found.size]
    return found.astype(dtype).reshape(shape)


INTS = np.arange(2, dtype=np.int32)
MOVES = {
    "transpose": (s.Transpose(perm=(2, 0, 1)), (2, 3, 4)),
    "transpose-large": (s.Transpose(perm=(1, 0)), (300, 300)),
    "reshape": (s.Reshape(shape=(4, 6)), (2, 3, 4)),
    "squeeze": (s.Squeeze(axes=(1,)), (2, 1, 4)),
    "unsqueeze": (s.Unsqueeze(axes=(0, 2)), (3, 4)),
    "tile": (s.Tile(repeats=(2, 1, 3)), (2, 3, 4)),
    "broadcast": (s.BroadcastTo(shape=(2, 3, 4)), (3, 1)),
    "split": (s.Split(axis=1, sizes=(1, 3, 2)), (2, 6, 2)),
    "unstack": (s.Unstack(axis=1, count=3), (2, 3, 4)),
    "slice": (Slice(starts=(0, 1), ends=(None, 4), strides=(1, 1)), (3, 5)),
    "slice-strided": (Slice(starts=(0, 4), ends=(None, None), strides=(2, -1)), (5, 6)),
    "pad": (Pad(before=(1, 0, 2), after=(0, 1, 0)), (2, 3, 4)),
    "pad-edge": (Pad(before=(1, 0), after=(0, 2), mode=PadMode.EDGE), (3, 4)),
    "pad-reflect": (Pad(before=(1, 0), after=(0, 2), mode=PadMode.REFLECT), (3, 4)),
    "reverse": (Reverse(axes=(1,)), (3, 4)),
    "depth-to-space": (DepthToSpace(block=2), (1, 2, 3, 8)),
    "space-to-depth": (SpaceToDepth(block=2), (1, 4, 6, 2)),
    "space-to-batch": (SpaceToBatch(block=(2, 2), pads=((0, 0), (0, 2))), (1, 4, 6, 2)),
}
"""Ops of one operand, and its shape."""


def move(op, dtype, shape):
    def build(b: Builder):
        x = b.input("x", dtype, shape)
        return b.add_many(op, [x]) if isinstance(op, s.Split | s.Unstack) else b.add(op, [x])

    return build


KINDS = {"int32": (DType.INT32, np.int32), "bool": (DType.BOOL, np.bool_)}


@pytest.mark.parametrize("level", [8, 6])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MOVES)
def test_moves(name, kind, level):
    op, shape = MOVES[name]
    dtype, plain = KINDS[kind]
    build = move(op, dtype, shape)
    check_nnapi(NnapiCase(name, build, [numbers(shape, plain)], level=level))


def joined(op, dtype, shapes):
    def build(b: Builder):
        return b.add(op, [b.input(f"x{i}", dtype, shape) for i, shape in enumerate(shapes)])

    return build


JOINS = {
    "concat-alike": (s.Concat(axis=1), [(2, 3), (2, 3), (2, 3)]),
    "concat-unlike": (s.Concat(axis=1), [(2, 3, 2), (2, 6, 2), (2, 9, 2)]),
    "concat-long": (s.Concat(axis=0), [(50, 2), (33, 2)]),
    "concat-vectors": (s.Concat(axis=0), [(1,), (1,), (2,)]),
    "stack": (s.Stack(axis=1), [(2, 3), (2, 3)]),
}


@pytest.mark.parametrize("level", [8, 4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", JOINS)
def test_joins(name, kind, level):
    op, shapes = JOINS[name]
    dtype, plain = KINDS[kind]
    feeds = [numbers(shape, plain, seed) for seed, shape in enumerate(shapes)]
    check_nnapi(NnapiCase(name, joined(op, dtype, shapes), feeds, level=level))


def test_a_concat_of_alike_vectors_is_a_pack():
    build = joined(s.Concat(axis=0), DType.INT32, [(2,), (2,)])
    check_nnapi(NnapiCase("pack", build, operations={"PACK": 1, "RESHAPE": 1}))


def test_a_transpose_is_a_gather():
    build = move(s.Transpose(perm=(1, 0)), DType.INT32, (3, 4))
    check_nnapi(NnapiCase("gather", build, operations={"RESHAPE": 2, "GATHER": 1}))


def test_numbers_that_are_small_are_moved_as_one_float():
    def build(b: Builder):
        x = b.input("x", DType.FLOAT32, (2, 3, 70))
        places = [b.add(kind(axis=2), [x]) for kind in (r.ArgMax, r.ArgMin)]
        return b.add(s.Concat(axis=1), [*places, places[0]])

    wanted = {"ARGMAX": 1, "ARGMIN": 1, "CAST": 3, "CONCATENATION": 1}
    check_nnapi(NnapiCase("small", build, operations=wanted, level=4))


PICKS = {
    "gather": (Gather(axis=1), (3, 4), [[3, 0], [1, 1]]),
    "gather-nd": (GatherNd(), (3, 4, 2), [[0, 3], [2, 1]]),
    "gather-elements": (GatherElements(axis=1), (2, 4), [[0, -1], [2, 1]]),
}


@pytest.mark.parametrize("constant", [True, False], ids=["known", "given"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PICKS)
def test_picks(name, kind, constant):
    op, shape, places = PICKS[name]
    dtype, plain = KINDS[kind]
    indices = np.asarray(places, np.int32)

    def build(b: Builder):
        x = b.input("x", dtype, shape)
        given = b.const(indices) if constant else b.input("i", DType.INT32, indices.shape)
        return b.add(op, [x, given])

    feeds = [numbers(shape, plain), *([] if constant else [indices])]
    check_nnapi(NnapiCase(name, build, feeds))


REDUCTIONS = {
    "sum": r.ReduceSum,
    "prod": r.ReduceProd,
    "max": r.ReduceMax,
    "min": r.ReduceMin,
}


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "dropped"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, axes, keep):
    op, shape = REDUCTIONS[name](axes=axes, keep_dims=keep), (3, 7, 2)
    check_nnapi(NnapiCase(name, move(op, DType.INT32, shape), [numbers(shape)]))


@pytest.mark.parametrize("op", [r.ArgMax, r.ArgMin])
def test_places_of_extremes(op):
    build = move(op(axis=1), DType.INT32, (3, 5))
    check_nnapi(NnapiCase("extreme", build, [numbers((3, 5))]))


BITS = [e.BitwiseXor, n.BitwiseAnd, n.BitwiseOr]
NARROW = {"int32": np.int32, "int8": np.int8, "uint8": np.uint8}


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("op", BITS, ids=lambda op: op.__name__)
def test_bits(op, kind):
    plain = NARROW[kind]
    dtype = DType.of(np.zeros(1, plain))

    def build(b: Builder):
        return b.add(op(), [b.input("x", dtype, (3, 4)), b.input("y", dtype, (4,))])

    feeds = [numbers((3, 4), plain), numbers((4,), plain, 9)[::-1].copy()]
    check_nnapi(NnapiCase("bits", build, feeds))


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize(
    "op", [e.RightShift, n.ShiftLeft, n.ShiftRight], ids=lambda op: op.__name__
)
def test_shifts(op, kind):
    plain = NARROW[kind]
    dtype = DType.of(np.zeros(1, plain))

    def build(b: Builder):
        return b.add(op(), [b.input("x", dtype, (2, 10)), b.input("y", dtype, (2, 10))])

    amounts = np.array([[0, 1, 2, 5, 7, 8, 15, 30, 31, 3]] * 2).astype(plain)
    check_nnapi(NnapiCase("shift", build, [numbers((2, 10), plain), amounts]))


PLAIN = {
    "float32": np.float32,
    "int32": np.int32,
    "int8": np.int8,
    "uint8": np.uint8,
    "bool": np.bool_,
}


@pytest.mark.parametrize("new", PLAIN)
@pytest.mark.parametrize("old", PLAIN)
def test_casts(old, new):
    dtype, target = (DType.of(np.zeros(1, PLAIN[kind])) for kind in (old, new))

    def build(b: Builder):
        return b.add(Cast(dtype=target), [b.input("x", dtype, (3, 6))])

    feeds = numbers((3, 6), PLAIN[old])
    if old == "float32":
        feeds = np.array(
            [[-300.7, 0, 0.5, 127.9, 128.5, 255.5], [-0.9, -1.1, -128.9, -129, 1e6, 3]]
        )
        feeds = feeds.astype(np.float32)
    check_nnapi(NnapiCase("cast", build, [feeds]))


ARITHMETIC = [
    *(e.Add(), e.Sub(), e.Mul(), e.Div()),
    *(e.FloorDiv(), e.FloorMod(), n.TruncatedMod()),
]


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32"])
@pytest.mark.parametrize("op", ARITHMETIC, ids=lambda op: op.name)
def test_arithmetic_wraps(op, kind):
    dtype = DType.of(np.zeros(1, PLAIN[kind]))

    def build(b: Builder):
        return b.add(op, [b.input("x", dtype, (3, 5)), b.input("y", dtype, (5,))])

    feeds = [numbers((3, 5), PLAIN[kind]), np.array([3, 100, -7, 1, 127]).astype(PLAIN[kind])]
    check_nnapi(NnapiCase("wraps", build, feeds))


@pytest.mark.parametrize("op", [e.Neg(), e.Abs(), n.PlainSign()], ids=lambda op: op.name)
@pytest.mark.parametrize("kind", ["int8", "int32", "float32"])
def test_signs(op, kind):
    build = move(op, DType.of(np.zeros(1, PLAIN[kind])), (3, 4))
    feeds = numbers((3, 4)).astype(PLAIN[kind]) // 2
    check_nnapi(NnapiCase("sign", build, [feeds]))


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("op", [e.Add(), e.Sub(), e.Mul()], ids=lambda op: op.name)
def test_bytes_that_a_level_computes_with_as_floats_wrap(op, kind):
    def build(b: Builder):
        dtype = DType.of(np.zeros(1, PLAIN[kind]))
        return b.add(op, [b.input("x", dtype, (4, 6)), b.input("y", dtype, (6,))])

    feeds = [numbers((4, 6), PLAIN[kind]), np.array([3, 100, -7, 1, 127, -128]).astype(PLAIN[kind])]
    with np.errstate(over="ignore"):
        expected = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[op.name](*feeds)
    assert expected.dtype == PLAIN[kind]
    check_nnapi(NnapiCase("wraps", build, feeds, [expected], level=3))


@pytest.mark.parametrize("new", [np.int8, np.uint8])
@pytest.mark.parametrize("old", [np.int8, np.uint8, np.int16, np.uint16])
def test_casts_of_short_integers_keep_the_low_bits_on_all_levels(old, new):
    def build(b: Builder):
        x = b.input("x", DType.of(np.zeros(1, old)), (3, 6))
        return b.add(Cast(dtype=DType.of(np.zeros(1, new))), [x])

    feeds = numbers((3, 6), old)
    check_nnapi(NnapiCase("casts", build, [feeds], [feeds.astype(new)], level=3))
