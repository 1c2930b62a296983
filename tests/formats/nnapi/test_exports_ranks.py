"""IR to NNAPI: more than four dimensions inside, which none of its operations gives back."""

import numpy as np
import pytest

from nnconv.errors import UnsupportedError
from nnconv.ir import Builder, DType
from nnconv.lowering import to_nnapi
from nnconv.ops import elementwise as e
from nnconv.ops import reduce as r
from nnconv.ops import shape as s
from nnconv.ops.diagonal import EyeLike
from nnconv.ops.gather import Gather
from nnconv.ops.norm import LogSoftmax, Softmax
from nnconv.ops.quantize import Cast
from nnconv.ops.slices import Pad, Reverse, Slice
from support.nnapi_spine import NnapiCase, check_nnapi
from support.tflite_spine import model_of

SHAPE = (2, 3, 2, 5, 4)
ROWS = (6, 40)

OPS = {
    "broadcast": s.BroadcastTo(shape=(2, 2, 3, 2, 5, 4)),
    "tile": s.Tile(repeats=(1, 2, 1, 1, 3)),
    "tile-all": s.Tile(repeats=(2, 2, 1, 3, 1)),
    "slice": Slice(starts=(0, 1, 0, 0, 0), ends=(None,) * 5, strides=(1,) * 5),
    "slice-apart": Slice(
        starts=(0, 1, 0, 2, 3), ends=(1, None, None, 4, 0), strides=(1, 1, 1, 1, -1)
    ),
    "pad": Pad(before=(0, 1, 0, 0, 2), after=(1, 0, 0, 3, 0)),
    "reverse": Reverse(axes=(1, 2, 4)),
    "softmax": Softmax(axis=4),
    "softmax-middle": Softmax(axis=2),
    "log-softmax": LogSoftmax(axis=4),
    "mean": r.ReduceMean(axes=(1, 3), keep_dims=True),
    "max": r.ReduceMax(axes=(3, 4)),
    "argmax": r.ArgMax(axis=2),
    "cumsum": r.CumSum(axis=3),
    "transpose": s.Transpose(perm=(4, 0, 2, 1, 3)),
    "exp": e.Exp(),
    "split": s.Split(axis=3, sizes=(2, 3)),
    "unstack": s.Unstack(axis=1, count=3),
    "stack": s.Stack(axis=2),
    "concat": s.Concat(axis=3),
}  # fmt: skip


def split_up(b: Builder, dtype, name="x"):
    return b.add(s.Reshape(shape=SHAPE), [b.input(name, dtype, ROWS)])


def around(op, dtype):
    """An op between a Reshape to many dimensions and one to few."""

    def build(b: Builder):
        x = split_up(b, dtype)
        given = [x, split_up(b, dtype, "y")] if isinstance(op, s.Concat | s.Stack) else [x]
        made = b.add_many(op, given)
        flat = [b.add(s.Reshape(shape=(-1,)), [v]) for v in made]
        return [*flat, *made]

    return build


@pytest.mark.parametrize("name", OPS)
def test_many_dimensions_inside(name):
    check_nnapi(NnapiCase(name, around(OPS[name], DType.FLOAT32)))


OF_FLOATS = ("softmax", "softmax-middle", "log-softmax", "mean", "exp")


@pytest.mark.parametrize("name", [name for name in OPS if name not in OF_FLOATS])
def test_many_dimensions_of_integers(name):
    rng = np.random.default_rng(5)
    feeds = [rng.integers(-(2**31), 2**31, ROWS).astype(np.int32)]
    if name in ("stack", "concat"):
        feeds.append(feeds[0] // 3)
    check_nnapi(NnapiCase(name, around(OPS[name], DType.INT32), feeds))


@pytest.mark.parametrize("level", [3, 5, 8])
def test_many_dimensions_of_rounded_floats(level):
    """Below level 6 no operation reshapes the integers in between."""

    def build(b: Builder):
        x = b.add(Cast(dtype=DType.INT32), [split_up(b, DType.FLOAT32)])
        y = b.add(e.Mul(), [b.add(Cast(dtype=DType.FLOAT32), [x]), b.const(np.float32(0.5))])
        return b.add(s.Reshape(shape=ROWS), [y])

    feeds = [np.linspace(-9, 9, 240, dtype=np.float32).reshape(ROWS)]
    case = NnapiCase("rounded", build, feeds, lambda x: np.trunc(x) / 2, level=level)
    check_nnapi(case)


@pytest.mark.parametrize("op", [e.Add(), e.Mul(), e.Maximum(), e.Less()], ids=lambda op: op.name)
@pytest.mark.parametrize("other", [(5, 1), (3, 1, 1, 4), (2, 1, 2, 1, 4)], ids=str)
def test_two_operands(op, other):
    def build(b: Builder):
        x, y = split_up(b, DType.FLOAT32), b.input("y", DType.FLOAT32, (int(np.prod(other)),))
        made = b.add(op, [x, b.add(s.Reshape(shape=other), [y])])
        return b.add(s.Reshape(shape=(-1, 4)), [made])

    check_nnapi(NnapiCase(op.name, build))


def test_gather():
    def build(b: Builder):
        x = split_up(b, DType.FLOAT32)
        made = b.add(Gather(axis=3), [x, b.const(np.array([[4, 0], [1, 1]], np.int32))])
        return b.add(s.Reshape(shape=(-1, 4)), [made])

    check_nnapi(NnapiCase("gather", build))


def test_numbers_of_rank_0_are_chosen_from():
    def build(b: Builder):
        x, least = b.input("x", DType.FLOAT32, (2, 3, 4)), b.input("least", DType.FLOAT32, ())
        return b.add(e.Select(), [b.add(e.Less(), [x, least]), least, x])

    check_nnapi(NnapiCase("select", build))


def test_an_output_that_becomes_a_constant_is_written():
    def build(b: Builder):
        return b.add(EyeLike(dtype=DType.INT32, k=0), [b.input("x", DType.INT32, (4, 4))])

    check_nnapi(NnapiCase("eye", build, operations={"TILE": 1}))


def test_an_input_of_many_dimensions_is_refused_with_what_helps():
    def build(b: Builder):
        return b.add(s.Reshape(shape=(6, 40)), [b.input("x", DType.FLOAT32, SHAPE)])

    with pytest.raises(UnsupportedError) as caught:
        to_nnapi(model_of(build, format="tflite", source="input"))
    (item,) = caught.value.items
    assert "`x` has rank 5" in item.why
    assert item.hint == "Give `x` 4 dimensions: no operation takes more to fewer."


def test_an_output_of_many_dimensions_is_one_reshape():
    def build(b: Builder):
        return b.add(s.Reshape(shape=SHAPE), [b.input("x", DType.FLOAT32, ROWS)])

    check_nnapi(NnapiCase("output", build, operations={"RESHAPE": 1}))


GIVEN = {
    "expand": s.Unsqueeze(axes=(1, 3)),
    "expand-by-reshape": s.Reshape(shape=(2, 1, 3, 2, 5, 4, 1)),
    "split": s.Split(axis=3, sizes=(1,) * 5),
    "split-apart": s.Split(axis=3, sizes=(2, 3)),
    "stack": s.Stack(axis=2),
    "copy": s.Identity(),
    "reverse": Reverse(axes=(4,)),
}
"""What NNAPI has for any number of dimensions."""


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT32])
@pytest.mark.parametrize("name", GIVEN)
def test_what_is_given_may_have_many_dimensions_where_operations_take_them(name, dtype):
    def build(b: Builder):
        return b.add_many(GIVEN[name], [b.input("x", dtype, SHAPE)])

    numbers = np.random.default_rng(2).integers(-9, 9, SHAPE).astype(dtype.numpy)
    check_nnapi(NnapiCase(name, build, [numbers]))
