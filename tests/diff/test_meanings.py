"""What inputs mean is found by the ops that read them, and what is drawn for them fits."""

from __future__ import annotations

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.diff import meanings as m
from nnconv.diff.inputs import random_array
from nnconv.formats.tflite.reader import read
from nnconv.ir import Builder, DType, Graph, Layout
from nnconv.ir.op import Op
from nnconv.ops import dynamic as d
from nnconv.ops.blocks import BatchToSpace, SpaceToBatch
from nnconv.ops.diagonal import Trilu
from nnconv.ops.elementwise import Add, Equal
from nnconv.ops.gather import Gather, TopK
from nnconv.ops.reduce import CumSum, ReduceSum
from nnconv.ops.resize import ResizeBilinear
from nnconv.ops.shape import BroadcastTo, Fill, Reshape, Tile, Transpose
from nnconv.ops.signal import RFFT2D, Dft
from nnconv.ops.slices import Pad, ReverseSequence, Slice
from support.gather_model import gather
from support.tflite_builder import TfliteBuilder


@pytest.mark.parametrize(("axis", "below"), [(0, 5), (1, 3)])
@pytest.mark.parametrize("through", [None, "RESHAPE"])
def test_indices_stay_within_the_table_that_they_pick_from(axis, below, through):
    assert m.meanings(read(gather(axis, through)).graph) == {"i": m.Meaning(m.index, (below,))}


def test_indices_that_are_shifted_stay_within_their_table():
    b = Builder(Graph("g"))
    x, i = b.input("x", DType.FLOAT32, (20, 6)), b.input("i", DType.INT32, (4, 3))
    starts = b.const(np.asarray([[0], [5], [10], [15]], np.int32))
    places = b.add(Reshape(shape=(12,)), [b.add(Add(), [starts, i])])
    b.graph.outputs = [b.add(Gather(axis=0), [x, places])]
    assert m.meanings(b.graph) == {"i": m.Meaning(m.index, (5,))}


def test_what_a_logarithm_is_taken_of_is_positive():
    b = TfliteBuilder()
    x, y = b.input("x", "float32", (2, 3)), b.input("y", "float32", (6,))
    shaped = b.op("RESHAPE", [x], [("float32", (6,))], options={"new_shape": [6]})
    b.output(b.op("LOG", [shaped], [("float32", (6,))]), b.op("EXP", [y], [("float32", (6,))]))
    assert m.meanings(read(b.build()).graph) == {"x": m.Meaning(m.positive, ())}


def test_shapes_to_broadcast_to_are_known():
    b = TfliteBuilder()
    x, shape = b.input("x", "float32", (1, 3)), b.input("shape", "int32", (2,))
    b.output(b.op("BROADCAST_TO", [x, shape], [("float32", (1, 3))], version=2))
    assert m.meanings(read(b.build()).graph) == {"shape": m.Meaning(m.broadcast, (1, 3))}


CASES: dict[str, tuple[Op, tuple[int, ...], list[tuple[int, ...]]]] = {
    "Reshape": (Reshape(shape=None), (2, 3, 4), [(2,)]),
    "Transpose": (Transpose(perm=None), (2, 3, 4), [(3,)]),
    "Tile": (Tile(repeats=None), (2, 3), [(2,)]),
    "BroadcastTo": (BroadcastTo(shape=None), (1, 3), [(4,)]),
    "Fill": (Fill(shape=None), (), [(3,)]),
    "SpaceToBatch": (SpaceToBatch(block=None, pads=None), (2, 3, 5, 1), [(2,), (2, 2)]),
    "BatchToSpace": (BatchToSpace(block=None, crops=None), (2, 3, 5, 1), [(2,), (2, 2)]),
    "Slice": (Slice(starts=None, ends=None, strides=None), (3, 4), [(2,), (2,), (2,)]),
    "Pad": (Pad(before=None, after=None), (3, 4), [(2, 2)]),
    "ReverseSequence": (ReverseSequence(axis=1, batch_axis=0), (5, 2), [(5,)]),
    "DynamicReshape": (d.DynamicReshape(), (2, 3, 4), [(4,)]),
    "DynamicSqueeze": (d.DynamicSqueeze(), (2, 1, 4), [(1,)]),
    "DynamicUnsqueeze": (d.DynamicUnsqueeze(), (2, 3), [(2,)]),
    "Expand": (d.Expand(), (3, 1), [(3,)]),
    "DynamicSplit": (d.DynamicSplit(axis=1, count=3), (2, 7), [(3,)]),
    "DynamicSlice": (d.DynamicSlice(), (3, 4, 5), [(2,), (2,), (2,), (2,)]),
    "Trilu": (Trilu(k=None), (3, 4), [()]),
    "CumSum": (CumSum(axis=None), (3, 4), [()]),
    "ReduceSum": (ReduceSum(axes=None), (3, 4), [(1,)]),
    "TopK": (TopK(axis=1, k=None), (9, 2), [(1,)]),
    "ResizeBilinear": (
        ResizeBilinear(layout=Layout.NHWC, size=None, align_corners=False, half_pixel=True),
        (1, 3, 4, 2),
        [(2,)],
    ),
    "RFFT2D": (RFFT2D(length=None), (3, 4, 4), [(2,)]),
    "Dft": (Dft(axis=None), (2, 4, 1), [(), ()]),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_drawn_fits_the_op(case):
    op, shape, others = CASES[case]
    b = Builder(Graph(case))
    x = b.input("x", DType.FLOAT32, shape)
    indices = [b.input(f"i{i}", DType.INT64, other) for i, other in enumerate(others)]
    results = b.add_many(op, [x, *indices])
    b.graph.outputs = list(results)
    known = m.meanings(b.graph)
    assert set(known) == {value.name for value in indices}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        feeds = [random_array(v, rng, meaning=known.get(v.name)) for v in b.graph.inputs]
        assert [a.dtype for a in feeds[1:]] == [np.int64] * len(indices)
        found = run_graph(b.graph, feeds)
        assert any(array.size for array in found)


def test_what_is_held_against_a_number_is_that_number():
    graph = Graph("net")
    b = Builder(graph)
    rate = b.input("rate", DType.INT64, ())
    same = [b.add(Equal(), [rate, b.const(np.asarray(n))]) for n in (16000, 8000)]
    graph.outputs = [*same, b.add(Equal(), [rate, rate])]
    meaning = m.meanings(graph)["rate"]
    rng = np.random.default_rng(0)
    assert {int(meaning.draw((), rng)) for _ in range(32)} == {8000, 16000}
