"""Ops that NNRt lacks, written as those that it has: results against the reference backend's."""

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.errors import UnsupportedError
from nnconv.formats.nnrt.check import findings
from nnconv.formats.nnrt.reader import import_model
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model, Signature
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType
from nnconv.lowering import one_entry, to_nnrt
from nnconv.ops import (
    blocks,
    elementwise,
    norm,
    numeric,
    pool,
    reduce,
    resize,
    segment,
    slices,
    window,
)
from nnconv.ops.gather import Gather, Reduction, ScatterNd, TopK
from nnconv.ops.quantize import Dequantize, FakeQuant, Quantize
from nnconv.ops.shape import BroadcastTo
from nnconv.ops.spatial import Padding
from nnconv.ops.svdf import QuantizedSvdf

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def integers(*shape):
    drawn = RNG.integers(1, 9, shape) * RNG.choice([-1, 1], shape)
    return drawn.astype(np.int32)


WIDE = np.asarray(
    [[-(2**31), 2**31 - 1, 65536, -1], [-(2**31) + 1, 2**31 - 2, 65537, 0], [0, 2**31 - 1, 3, 0]],
    np.int32,
)
"""Numbers that differ by what float32 can't tell apart."""

SIDES = np.concatenate([np.float32([[0, 1, 0, 0, -1, -7]]), floats(9, 6), 50 * floats(9, 6)])

STARTS = np.asarray([3, 2], np.int32)

CASES = {
    "sums before, from behind": (
        reduce.CumSum(axis=1, exclusive=True, reverse=True), [floats(2, 5)], [],
    ),
    "sums of integers": (reduce.CumSum(axis=0), [integers(3, 5)], []),
    "products": (reduce.CumProd(axis=0), [floats(3, 5)], []),
    "roots of means": (
        pool.L2Pool2D(window=(2, 2), stride=(1, 1), padding=Padding((1, 0), (0, 0))),
        [floats(1, 4, 4, 2)], [],
    ),
    "blocks of unequal pads": (
        blocks.SpaceToBatch(block=(2, 2), pads=((1, 1), (2, 0))), [floats(1, 4, 4, 2)], [],
    ),
    "floor of quotients": (elementwise.FloorDiv(), [integers(3, 5), integers(3, 5)], []),
    "floor of quotients of floats": (elementwise.FloorDiv(), [floats(3, 5), floats(3, 5)], []),
    "nearest": (resize.ResizeNearest(size=(7, 3)), [floats(1, 4, 4, 2)], []),
    "nearest of middles": (
        resize.ResizeNearest(size=(7, 3), half_pixel=True), [floats(1, 4, 4, 2)], [],
    ),
    "an update at a place": (slices.DynamicUpdateSlice(), [floats(5, 4), floats(2, 3), STARTS], []),
    "an update at a known place": (
        slices.DynamicUpdateSlice(), [floats(5, 4), floats(2, 3)], [STARTS - 1],
    ),
    "pads of integers": (
        slices.Pad(before=(1, 0), after=(0, 2), value=7.0), [integers(2, 3)], [],
    ),
    "place of the least": (reduce.ArgMin(axis=1), [floats(3, 5)], []),
    "place of the greatest integer": (reduce.ArgMax(axis=0), [WIDE], []),
    "place of the least integer": (reduce.ArgMin(axis=0), [WIDE], []),
    "place of the least byte": (reduce.ArgMin(axis=0), [WIDE.astype(np.int8)], []),
    "any": (reduce.ReduceAny(axes=(1,), keep_dims=False), [WIDE > 0], []),
    "any along what a run says": (
        reduce.ReduceAny(axes=None, keep_dims=False), [WIDE > 0, np.int32([-1])], [],
    ),
    "means that count padding": (
        pool.AveragePool2D(
            window=(2, 3), stride=(1, 2), padding=Padding((1, 0), (0, 2)), count_padding=True,
        ),
        [floats(1, 4, 5, 2)], [],
    ),
    "neighbours of rows": (
        norm.LocalResponseNormalization(axis=1, radius=1, bias=1.0, alpha=0.5, beta=0.5),
        [floats(3, 5)], [],
    ),
    "neighbours along another axis": (
        norm.LocalResponseNormalization(axis=1, radius=1, bias=1.0, alpha=0.5, beta=0.5),
        [floats(1, 5, 3, 2)], [],
    ),
    "angles": (elementwise.Atan2(), [SIDES, SIDES[:, ::-1].copy()], []),
    "angles of points on the axes": (
        elementwise.Atan2(), [SIDES[:1], np.asarray([[0, 0, 1, -1, 0, 7]], np.float32)], [],
    ),
    "a part between computed bounds": (
        slices.Slice(starts=None, ends=None, strides=(1, 2)),
        [floats(5, 4), np.asarray([1, 0], np.int32), np.asarray([4, 3], np.int32)], [],
    ),
    "reversed": (slices.Reverse(axes=(0, 2)), [floats(2, 3, 4)], []),
    "bits that differ": (elementwise.BitwiseXor(), [WIDE, WIDE[::-1].copy()], []),
    "bits in common": (numeric.BitwiseAnd(), [WIDE, WIDE[::-1].copy()], []),
    "bits moved down": (elementwise.RightShift(), [WIDE, np.abs(WIDE) % 32], []),
    "signs": (numeric.PlainSign(), [floats(3, 5)], []),
    "gaps": (window.Dilate(dilations=(2, 3)), [floats(3, 4)], [np.float32(7)]),
    "windows": (
        window.ReduceWindow(
            reduction=Reduction.MAX, window=(2, 3), stride=(1, 2), dilation=(1, 1)
        ),
        [floats(4, 7), floats()], [],
    ),
    "buckets": (segment.Bucketize(boundaries=(-0.5, 0.0, 1.0)), [floats(3, 5)], []),
    "sums of segments": (
        segment.Segment(reduction=Reduction.ADD, num_segments=4), [floats(3, 2)],
        [np.asarray([3, 0, 3], np.int32)],
    ),
    "rows put at places": (
        ScatterNd(), [floats(4, 3), floats(2, 3)], [np.asarray([[2], [0]], np.int32)],
    ),
    "each sequence reversed": (
        slices.ReverseSequence(axis=1, batch_axis=0), [floats(2, 4, 3)], [np.asarray([3, 1])],
    ),
    "a grid of numbers": (FakeQuant(low=-1.0, high=2.0, bits=4), [floats(3, 5)], []),
    "places of few bits": (Gather(axis=0), [floats(4, 3), np.asarray([2, 0], np.int16)], []),
}  # fmt: skip


def model_of(op, inputs, constants, **quant):
    graph = Graph("net")
    b = Builder(graph)
    values = [b.input(f"x{i}", DType.of(a), a.shape) for i, a in enumerate(inputs)]
    values += [b.const(array) for array in constants]
    if isinstance(op, ScatterNd):
        values = [values[0], values[2], values[1]]
    graph.outputs = [b.add(op, values, **quant)]
    graph.outputs[0].name = "y"
    return Model([Signature("", graph)])


def check(model, feeds, api):
    written = to_nnrt(one_entry(model, model.main), api=api).model
    assert not findings(written, api)
    wanted = nnconv.compile(model, "reference").run(feeds)["y"]
    result = nnconv.compile(import_model(written), "reference").run(feeds)["y"]
    assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_is_lacking_is_written_as_what_there_is(name):
    op, inputs, constants = CASES[name]
    check(model_of(op, inputs, constants), {f"x{i}": a for i, a in enumerate(inputs)}, 2)


FIRST = {
    "magnitude": (elementwise.Abs(), [floats(3, 5)], []),
    "powers of e": (elementwise.Exp(), [np.float32([[-80, -3.5, -1, 0], [1e-3, 2, 20, 80]])], []),
    "rising to a limit": (elementwise.Elu(alpha=0.5), [floats(3, 5)], []),
    "opposite": (elementwise.Neg(), [integers(3, 5)], []),
    "lesser": (elementwise.Minimum(), [floats(3, 5), floats(5)], []),
}
"""What version 1 lacks."""


@pytest.mark.parametrize("name", sorted(FIRST))
def test_what_the_first_version_lacks_is_written_as_what_it_has(name):
    op, inputs, constants = FIRST[name]
    check(model_of(op, inputs, constants), {f"x{i}": a for i, a in enumerate(inputs)}, 1)


def test_codes_of_16_bits_are_numbers_without_parameters():
    op, quant = Quantize(dtype=DType.INT16), Quant.per_tensor(0.25, 0)
    x = np.asarray([[-9000.0, -0.126, 0.124, 0.126, 3.7, 9000.0]], np.float32)
    check(model_of(op, [x], [], quant=quant), {"x0": x}, 2)


def test_memories_of_codes_are_those_of_numbers():
    """Each step gives what the op on integers gives, to a code; so do the states that it leaves."""
    rng = np.random.default_rng(3)
    graph = Graph("net")
    b = Builder(graph)
    filters, memory, depth = 4, 3, 5
    quants = {"x": (0.05, -3), "state": (0.002, 0), "y": (0.04, 5)}
    x, state = (
        b.input(name, kind, shape, quant=Quant.per_tensor(*quants[name]))
        for name, kind, shape in (
            ("x", DType.INT8, (1, depth)), ("state", DType.INT16, (1, filters * memory)),
        )
    )  # fmt: skip
    weights, times = (
        rng.integers(-127, 128, (filters, depth)),
        rng.integers(-99, 99, (filters, memory)),
    )
    constants = [
        b.const(weights.astype(np.int8), quant=Quant.per_tensor(0.01, 0)),
        b.const(times.astype(np.int16), quant=Quant.per_tensor(0.01, 0)),
        b.const(rng.integers(-999, 999, filters).astype(np.int32), quant=Quant.per_tensor(2e-5, 0)),
    ]
    op = QuantizedSvdf(
        x_zero_point=-3, zero_point=5, state_scale=0.05 * 0.01 / 0.002, output_scale=2e-5 / 0.04
    )
    kinds = [
        TensorType(DType.INT8, (1, filters), Quant.per_tensor(*quants["y"])), state.type,
    ]  # fmt: skip
    graph.outputs = list(b.add_typed(op, [x, *constants, state], kinds, names=["y", "next"]))
    model = Model([Signature("", graph)])
    again = import_model(to_nnrt(one_entry(model, model.main)).model).graph
    before = np.zeros((1, filters * memory), np.int16)
    for _ in range(5):
        now = rng.integers(-128, 128, (1, depth)).astype(np.int8)
        want, wanted = run_graph(graph, [now, before])
        got, seen = run_graph(again, [now, before])
        assert np.abs(got.astype(int) - want).max() <= 1
        assert np.abs(seen.astype(int) - wanted).max() <= 1
        before = wanted
    assert np.abs(want).max() > 20


@pytest.mark.parametrize("api", [1, 2])
def test_finer_codes_of_32_bits_keep_all_their_digits(api):
    """Results have 27 bits, where float32 has 24."""
    coarse, fine = Quant.per_tensor(0.000494312437, 3), Quant.per_tensor(1.49011612e-07, -5)
    graph = Graph("net")
    b = Builder(graph)
    x = b.input("x0", DType.INT16, (1, 999), quant=coarse)
    graph.outputs = [b.add(Quantize(dtype=DType.INT32), [x], quant=fine, name="y")]
    codes = np.linspace(-32768, 32767, 999).astype(np.int16).reshape(1, 999)
    written = to_nnrt(Model([Signature("", graph)]), api=api).model
    assert not findings(written, api)
    (result,) = nnconv.compile(import_model(written), "reference").run({"x0": codes}).values()
    wanted = np.round((codes.astype(np.float64) - 3) * coarse.scale[0] / fine.scale[0]) - 5
    assert np.abs(wanted).max() > 1 << 26
    assert np.abs(result - wanted).max() <= 1


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("largest", [True, False])
def test_places_of_the_greatest_are_as_wide_as_asked_for(largest, axis):
    graph = Graph("net")
    b = Builder(graph)
    op = TopK(axis=axis, k=3, index_dtype=DType.INT64, largest=largest)
    graph.outputs = b.add_many(op, [b.input("x", DType.FLOAT32, (2, 4, 5))])
    written = to_nnrt(Model([Signature("", graph)])).model
    assert not findings(written, 2)
    x = floats(2, 4, 5)
    found, places = nnconv.compile(import_model(written), "reference").run({"x": x}).values()
    wanted = np.take(np.argsort(-x if largest else x, axis=axis), range(3), axis=axis)
    assert places.dtype == np.int64
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(found, np.take_along_axis(x, wanted, axis))


IMAGE = np.arange(2 * 3 * 4 * 2, dtype=np.int8).reshape(2, 3, 4, 2)


@pytest.mark.parametrize("quant", [None, Quant.per_tensor(0.5, 7)])
@pytest.mark.parametrize(
    ("block", "pads"), [((2, 3), ((1, 0), (2, 0))), ((1, 2), ((0, 0), (0, 2)))]
)
@pytest.mark.parametrize("known", [False, True])
def test_blocks_that_are_computed(block, pads, quant, known):
    """There and back, between known extents: numpy pads, and moves blocks into the batch."""
    graph = Graph("net")
    b = Builder(graph)
    x = b.input("x", DType.INT8, IMAGE.shape, quant=quant)
    sizes = b.const(np.int32(block)) if known else b.input("block", DType.INT32, (2,))
    edges = b.input("pads", DType.INT32, (2, 2))
    (height, width), count = block, block[0] * block[1]
    rows, columns = (n + sum(p) for n, p in zip(IMAGE.shape[1:3], pads, strict=True))
    inner = TensorType(DType.INT8, (2 * count, rows // height, columns // width, 2), quant)
    op = blocks.SpaceToBatch(block=None, pads=None)
    (moved,) = b.add_typed(op, [x, sizes, edges], [inner], names=["moved"])
    back = blocks.BatchToSpace(block=None, crops=None)
    again = b.add_typed(back, [moved, sizes, edges], [x.type], names=["again"])
    graph.outputs = [moved, *again]
    model = import_model(to_nnrt(Model([Signature("", graph)])).model)
    feeds = {"x": IMAGE, "pads": np.int32(pads)}
    if not known:
        feeds["block"] = np.int32(block)
    for device in ("reference", "onnxruntime:cpu"):
        results = nnconv.compile(model, device).run(feeds)
        padded = np.pad(IMAGE, [(0, 0), *pads, (0, 0)], constant_values=7 if quant else 0)
        parts = padded.reshape(2, rows // height, height, columns // width, width, 2)
        wanted = parts.transpose(2, 4, 0, 1, 3, 5).reshape(inner.shape)
        np.testing.assert_array_equal(results["moved"], wanted)
        np.testing.assert_array_equal(results["again"], IMAGE)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_codes_of_channels_become_floats_at_run_time(axis):
    """QUANT_DTYPE_CAST names the channels' dimension, which the reader goes by."""
    scales = [0.5, 2.0, 0.25, 8.0][: IMAGE.shape[axis]]
    graph = Graph("net")
    b = Builder(graph)
    x = b.input("x", DType.INT8, IMAGE.shape, quant=Quant.per_channel(scales, axis=axis))
    graph.outputs = [b.add(Dequantize(dtype=DType.FLOAT32), [x], name="y")]
    written = to_nnrt(Model([Signature("", graph)])).model
    assert not findings(written, 2)
    model = import_model(written)
    assert model.inputs[0].quant == x.quant
    shape = [-1 if i == axis else 1 for i in range(4)]
    for device in ("reference", "onnxruntime:cpu"):
        result = nnconv.compile(model, device).run({"x": IMAGE})["y"]
        np.testing.assert_array_equal(result, IMAGE * np.float32(scales).reshape(shape))


def test_codes_of_channels_that_nothing_converts_have_the_first_dimension():
    graph = Graph("net")
    b = Builder(graph)
    quant = Quant.per_channel([0.5, 1.0, 2.0], axis=1)
    x = b.input("x", DType.INT8, IMAGE.shape, quant=quant)
    other = b.input("other", DType.FLOAT32, (2,))
    graph.outputs = [b.add(elementwise.Abs(), [other], name="y")]
    assert not x.uses
    with pytest.raises(UnsupportedError, match="first dimension"):
        to_nnrt(Model([Signature("", graph)]))


def test_codes_of_4_bits_are_refused():
    model = model_of(Quantize(dtype=DType.INT4), [floats(3)], [], quant=Quant.per_tensor(0.5, 0))
    with pytest.raises(UnsupportedError, match="NNRt has no int4"):
        to_nnrt(one_entry(model, model.main))


@pytest.mark.parametrize("api", [1, 2])
@pytest.mark.parametrize("shape", [(1, 3), (2, 1, 3)])
def test_shapes_to_broadcast_to_may_be_given_by_a_run(shape, api):
    graph = Graph("net")
    b = Builder(graph)
    given = [b.input("x", DType.FLOAT32, shape), b.input("shape", DType.INT32, (3,))]
    graph.outputs = [b.add(BroadcastTo(shape=None), given, name="y")]
    written = to_nnrt(Model([Signature("", graph)]), api=api).model
    assert not findings(written, api)
    x = floats(*shape)
    feeds = {"x": x, "shape": np.asarray([2, 4, 3], np.int32)}
    for device in ("reference", "onnxruntime:cpu"):
        (result,) = nnconv.compile(import_model(written), device).run(feeds).values()
        np.testing.assert_array_equal(result, np.broadcast_to(x, (2, 4, 3)))
