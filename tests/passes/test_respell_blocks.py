"""Blocks of sizes that a run gives, found in ONNX's reshapes around a transpose."""

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.formats.onnx.reader import read
from nnconv.ir import Builder, DType, Graph, Model, Signature
from nnconv.lowering import one_entry
from nnconv.ops.blocks import BatchToSpace, SpaceToBatch
from nnconv.passes.base import run_passes
from nnconv.passes.fold_constants import FoldConstantsPass
from nnconv.passes.prune import PrunePass
from nnconv.passes.respell_moves import RespellMovesPass


def given(kind, *, first, known):
    """A model of blocks whose sizes, and paddings, come in, and what to give for them."""
    shape = (2, 3, 4, 6) if first else (2, 4, 6, 3)
    if kind is BatchToSpace:
        shape = (12, *shape[1:])
    b = Builder(Graph("main"))
    x = b.input("x", DType.FLOAT32, shape)
    feeds = [np.arange(np.prod(shape), dtype=np.float32).reshape(shape)]
    if kind is SpaceToBatch:
        pads = np.int32([[1, 1], [0, 3]])
        sizes = b.const(np.int32([2, 3])) if known else b.input("sizes", DType.INT32, (2,))
        op = SpaceToBatch(block=None, channels_first=first, pads=None)
        y = b.add(op, [x, sizes, b.input("pads", DType.INT32, (2, 2))])
        feeds += [pads] if known else [np.int32([2, 3]), pads]
    else:
        op = BatchToSpace(block=None, channels_first=first, crops=None)
        zeros = b.const(np.zeros((2, 2), np.int32))
        y = b.add(op, [x, b.input("sizes", DType.INT32, (2,)), zeros])
        feeds.append(np.int32([2, 3]))
    b.graph.outputs.append(y)
    return Model([Signature("", b.graph)]), feeds


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("kind", "known"), [(SpaceToBatch, False), (SpaceToBatch, True), (BatchToSpace, False)]
)
def test_blocks_come_back(kind, known, first, tmp_path):
    model, feeds = given(kind, first=first, known=known)
    wanted = run_graph(model.graph, feeds)
    path = tmp_path / "x.onnx"
    nnconv.save(one_entry(model, model.main), path)
    again = read(path)
    run_passes(
        again,
        [FoldConstantsPass(_evaluate), RespellMovesPass(), PrunePass()],
        verify=True,
    )
    names = [node.op.name for node in again.graph.nodes]
    assert names.count(kind.__name__) == 1
    assert "Transpose" not in names or kind is SpaceToBatch  # of the paddings
    assert not any(len(v.shape or ()) > 4 for node in again.graph.nodes for v in node.outputs)
    (result,) = run_graph(again.graph, feeds)
    assert np.array_equal(result, wanted[0])


def _evaluate(node, arrays):
    from nnconv.backends.reference.executor import run_node

    return run_node(node, arrays)


def test_other_reshapes_stay(tmp_path):
    """A transpose that takes the sizes elsewhere is no move of blocks."""
    model, _ = given(SpaceToBatch, first=False, known=False)
    path = tmp_path / "x.onnx"
    nnconv.save(one_entry(model, model.main), path)
    again = read(path)
    for node in again.graph.nodes:
        if node.op.name == "Transpose" and len(node.op.perm) == 6:
            node.op = node.op.replace(perm=(4, 2, 0, 1, 3, 5))
            (y,) = node.outputs
            y.type = y.type.with_shape((None,) * 6)
    run_passes(again, [FoldConstantsPass(_evaluate), RespellMovesPass()])
    assert not any(node.op.name == "SpaceToBatch" for node in again.graph.nodes)
