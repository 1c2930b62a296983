"""Ops that NNRt lacks, written as those that it has: results against the reference backend's."""

import numpy as np
import pytest

import nnconv
from nnconv.formats.nnrt.check import findings
from nnconv.formats.nnrt.reader import import_model
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model, Signature
from nnconv.lowering import one_entry, to_nnrt
from nnconv.ops import blocks, elementwise, pool, reduce, resize, slices
from nnconv.ops.quantize import Quantize
from nnconv.ops.spatial import Padding

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def integers(*shape):
    drawn = RNG.integers(1, 9, shape) * RNG.choice([-1, 1], shape)
    return drawn.astype(np.int32)


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
    "reversed": (slices.Reverse(axes=(0, 2)), [floats(2, 3, 4)], []),
}  # fmt: skip


def model_of(op, inputs, constants, **quant):
    graph = Graph("net")
    b = Builder(graph)
    values = [b.input(f"x{i}", DType.of(a), a.shape) for i, a in enumerate(inputs)]
    values += [b.const(array) for array in constants]
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


def test_codes_of_16_bits_are_numbers_without_parameters():
    from nnconv.ir.quant import Quant

    op, quant = Quantize(dtype=DType.INT16), Quant.per_tensor(0.25, 0)
    x = np.asarray([[-9000.0, -0.126, 0.124, 0.126, 3.7, 9000.0]], np.float32)
    check(model_of(op, [x], [], quant=quant), {"x0": x}, 2)
