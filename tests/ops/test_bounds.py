"""What numbers values can have: never fewer than they have."""

import math

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.decompositions.bounds import bounds_of
from nnconv.ir import Builder, DType, Graph
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.gather import Gather, NonZero
from nnconv.ops.quantize import Cast, LooseCast
from nnconv.ops.reduce import ArgMax
from nnconv.ops.slices import Slice

I32, F32 = DType.INT32, DType.FLOAT32


def of_bytes(b):
    """Integers from -128 to 127, made of an input."""
    return b.add(Cast(dtype=I32), [b.input("x", DType.INT8, (2, 3))])


def number(n):
    return lambda b: b.const(np.asarray(n, np.int32))


CASES = {
    "bytes": (of_bytes, -128, 127),
    "sum": (lambda b: b.add(e.Add(), [of_bytes(b), number(5)(b)]), -123, 132),
    "difference": (lambda b: b.add(e.Sub(), [number(5)(b), of_bytes(b)]), -122, 133),
    "product": (lambda b: b.add(e.Mul(), [of_bytes(b), number(-3)(b)]), -381, 384),
    "greatest": (lambda b: b.add(e.Maximum(), [of_bytes(b), number(0)(b)]), 0, 127),
    "least": (lambda b: b.add(e.Minimum(), [of_bytes(b), number(9)(b)]), -128, 9),
    "rest": (lambda b: b.add(e.FloorMod(), [of_bytes(b), number(7)(b)]), 0, 7),
    "quotient": (lambda b: b.add(e.FloorDiv(), [of_bytes(b), number(50)(b)]), -3, 2),
    "opposite": (lambda b: b.add(e.Neg(), [of_bytes(b)]), -127, 128),
    "size": (lambda b: b.add(e.Abs(), [of_bytes(b)]), 0, 128),
    "clip": (lambda b: b.add(e.Clip(low=-3.0, high=math.inf), [of_bytes(b)]), -3, 127),
    "moves": (
        lambda b: b.add(
            s.Concat(axis=0),
            [
                b.add(s.Reshape(shape=(6,)), [of_bytes(b)]),
                b.add(Slice(starts=(1,), ends=(2,), strides=(1,)), [number([900, 200])(b)]),
            ],
        ),
        -128, 900,
    ),
    "choice": (
        lambda b: b.add(
            e.Select(), [b.const(np.array([True, False, True])), of_bytes(b), number(500)(b)]
        ),
        -128, 500,
    ),
    "picked": (lambda b: b.add(Gather(axis=0), [of_bytes(b), number([0])(b)]), -128, 127),
    "place": (lambda b: b.add(ArgMax(axis=1), [b.input("x", F32, (2, 9))]), 0, 8),
    "place in an open extent": (
        lambda b: b.add(ArgMax(axis=1), [b.input("x", F32, (2, None))]), 0, (1 << 24) - 1
    ),
    "place counted": (
        lambda b: b.add(
            e.Add(), [b.add(NonZero(), [b.input("x", F32, (2, 3))]), b.const(np.array(2))]
        ),
        2, (1 << 24) + 1,
    ),
    "elements": (lambda b: b.add(s.Size(), [b.input("x", F32, (None,))]), 0, 2**31 - 1),
    "empty": (number(np.zeros((0, 2))), 0, 0),
    "long": (lambda b: b.const(np.array([-5, 1 << 40])), -5, 1 << 40),
    "floats cut": (
        lambda b: b.add(
            LooseCast(dtype=I32),
            [b.add(e.Floor(), [b.add(e.Clip(low=-2.5, high=7.5), [b.input("x", F32, (9,))])])],
        ),
        -3, 7,
    ),
    "any": (lambda b: b.input("x", I32, (3,)), -(2**31), 2**31 - 1),
    "wrapped": (
        lambda b: b.add(e.Mul(), [of_bytes(b), number(1 << 30)(b)]), -(2**31), 2**31 - 1
    ),
    "floats": (lambda b: b.input("x", F32, (3,)), -math.inf, math.inf),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bounds(name):
    build, low, high = CASES[name]
    graph = Graph("bounds")
    made = build(Builder(graph))
    assert bounds_of(made) == (low, high)
    graph.outputs = [made]
    rng = np.random.default_rng(3)
    feeds = []
    for value in graph.inputs:
        kind = value.dtype.numpy
        shape = [4 if extent is None else extent for extent in value.shape]
        wide = rng.normal(scale=99, size=shape)
        if value.dtype.is_integer:
            wide = rng.integers(*value.dtype.int_range, shape, endpoint=True)
        feeds.append(wide.astype(kind))
    (seen,) = run_graph(graph, feeds)
    assert (low <= seen).all()
    assert (seen <= high).all()
