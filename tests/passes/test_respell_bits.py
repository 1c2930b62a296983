"""Moves of bits, and of widened integers, that are moves of what these are."""

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Builder, DType, Graph, Model, Quant, Signature
from nnconv.ops.blocks import DepthToSpace
from nnconv.ops.quantize import Bitcast, Cast
from nnconv.ops.shape import Concat, Reshape, Split, Tile, Transpose
from nnconv.passes.base import run_passes
from nnconv.passes.prune import PrunePass
from nnconv.passes.respell_moves import RespellMovesPass


def respelled(build, feeds):
    """The names of the ops that are left; the results must be the same."""
    b = Builder(Graph("main"))
    b.graph.outputs.extend(build(b))
    model = Model([Signature("", b.graph)])
    wanted = run_graph(model.graph, feeds)
    run_passes(model, [RespellMovesPass(), PrunePass()], verify=True)
    for want, got in zip(wanted, run_graph(model.graph, feeds), strict=True):
        assert want.dtype == got.dtype
        assert np.array_equal(want, got)
    return [node.op.name for node in model.graph.nodes if node.op.name != "Identity"]


HALVES = np.linspace(-3, 3, 16).astype(np.float16).reshape(1, 2, 2, 4)


def test_a_move_of_bits():
    def build(b):
        x = b.add(Bitcast(dtype=DType.INT16), [b.input("x", DType.FLOAT16, HALVES.shape)])
        y = b.add(Transpose(perm=(0, 3, 1, 2)), [x])
        return [b.add(Bitcast(dtype=DType.FLOAT16), [y])]

    assert respelled(build, [HALVES]) == ["Transpose"]


def test_a_move_of_widened_bits():
    def build(b):
        x = b.add(Bitcast(dtype=DType.INT16), [b.input("x", DType.FLOAT16, HALVES.shape)])
        wide = b.add(DepthToSpace(block=2), [b.add(Cast(dtype=DType.INT32), [x])])
        return [b.add(Bitcast(dtype=DType.FLOAT16), [b.add(Cast(dtype=DType.INT16), [wide])])]

    assert respelled(build, [HALVES]) == ["DepthToSpace"]


def test_several_moves_of_widened_bits():
    def build(b):
        x = b.add(Bitcast(dtype=DType.INT16), [b.input("x", DType.FLOAT16, HALVES.shape)])
        y = b.add(Reshape(shape=(1, 2, 2, 1, 2, 2)), [b.add(Cast(dtype=DType.INT32), [x])])
        y = b.add(Transpose(perm=(0, 1, 4, 2, 5, 3)), [y])
        y = b.add(Cast(dtype=DType.INT16), [b.add(Reshape(shape=(1, 4, 4, 1)), [y])])
        return [b.add(Bitcast(dtype=DType.FLOAT16), [y])]

    assert respelled(build, [HALVES]) == ["Reshape", "Transpose", "Reshape"]


def test_of_several_moves_only_those_that_nothing_else_reads():
    def build(b):
        x = b.add(Bitcast(dtype=DType.INT16), [b.input("x", DType.FLOAT16, HALVES.shape)])
        y = b.add(Transpose(perm=(0, 3, 1, 2)), [x])
        return [y, b.add(Bitcast(dtype=DType.FLOAT16), [b.add(Reshape(shape=(16,)), [y])])]

    assert respelled(build, [HALVES]) == ["Bitcast", "Transpose", "Reshape", "Bitcast"]


def test_all_parts_and_all_that_is_joined():
    def build(b):
        x = b.input("x", DType.FLOAT16, HALVES.shape)
        bits = b.add(Bitcast(dtype=DType.INT16), [x])
        parts = b.add_many(Split(axis=3, sizes=(1, 3)), [bits])
        halves = [b.add(Bitcast(dtype=DType.FLOAT16), [part]) for part in parts]
        again = [b.add(Bitcast(dtype=DType.INT16), [half]) for half in reversed(halves)]
        return [b.add(Bitcast(dtype=DType.FLOAT16), [b.add(Concat(axis=3), again)])]

    assert respelled(build, [HALVES]) == ["Split", "Concat"]


def test_scales_of_channels_follow_a_transpose():
    codes = np.arange(6, dtype=np.int8).reshape(2, 3)
    scales = [0.5, 0.25, 1.0]

    def build(b):
        x = b.input("x", DType.INT8, (2, 3), quant=Quant.per_channel(scales, axis=1))
        y = b.add(Transpose(perm=(1, 0)), [x])
        quant = Quant.per_channel(scales, axis=0)
        return [b.add(Bitcast(dtype=DType.INT8), [y], quant=quant)]

    assert respelled(build, [codes]) == ["Transpose"]


@pytest.mark.parametrize("why", ["read otherwise", "narrowed", "other parameters", "no move"])
def test_what_stays(why):
    numbers = np.arange(6, dtype=np.int32).reshape(2, 3) * 70000

    def build(b):
        if why == "narrowed":  # which loses what the move would keep
            x = b.add(Cast(dtype=DType.INT16), [b.input("x", DType.INT32, (2, 3))])
            return [b.add(Cast(dtype=DType.INT32), [b.add(Transpose(perm=(1, 0)), [x])])]
        x = b.add(Bitcast(dtype=DType.FLOAT32), [b.input("x", DType.INT32, (2, 3))])
        if why == "no move":
            return [b.add(Bitcast(dtype=DType.INT32), [x])]
        y = b.add(Tile(repeats=(1, 2)), [x])
        found = [b.add(Bitcast(dtype=DType.INT32), [y])]
        if why == "other parameters":
            found[0].type = found[0].type.with_shape((2, 6))
            return [b.add(Bitcast(dtype=DType.FLOAT32), found)]
        return [*found, y]

    left = respelled(build, [numbers])
    assert set(left) & {"Cast", "Bitcast"}
