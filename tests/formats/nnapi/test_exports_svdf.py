"""SVDF as NNAPI, whose state holds another part of what was seen than the IR's does."""

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.formats.nnapi.check import check, least_level
from nnconv.formats.nnapi.reader import import_model
from nnconv.formats.nnapi.types import OperationCode
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model, Signature
from nnconv.lowering import one_entry, to_nnapi
from nnconv.ops.svdf import Svdf


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(("rank", "memory"), [(1, 5), (2, 3), (2, 2)])
def test_steps_in_a_row_give_the_same(rank, memory, with_bias):
    rng = np.random.default_rng(rank * 10 + memory)
    filters, depth, batch = 4, 3, 2

    def drawn(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    b = Builder(Graph("main"))
    x = b.input("x", DType.FLOAT32, (batch, depth))
    state = b.input("state", DType.FLOAT32, (batch, filters * memory))
    weights = [b.const(drawn(filters, depth)), b.const(drawn(filters, memory))]
    bias = b.const(drawn(filters // rank)) if with_bias else None
    b.graph.outputs.extend(b.add_many(Svdf(rank=rank), [x, *weights, bias, state]))
    model = Model(signatures=[Signature("", b.graph)])
    wire = to_nnapi(one_entry(model, model.main)).model
    check(wire)
    assert OperationCode.SVDF in {o.code for o in wire.main.operations}
    assert least_level(wire) == 3
    again = import_model(wire).graph
    seen = wanted = drawn(batch, filters * memory)
    for _ in range(3):
        now = drawn(batch, depth)
        want, wanted = run_graph(b.graph, [now, wanted])
        got, seen = run_graph(again, [now, seen])
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(seen, wanted, rtol=1e-5, atol=1e-6)
