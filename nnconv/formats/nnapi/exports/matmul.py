"""Products of matrices."""

from __future__ import annotations

from math import prod

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.formats.nnapi.weighted import bias_operand, oriented, weighted
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops.matmul import FullyConnected, MatMul


def export_fully_connected(node: Node, t: Target) -> None:
    """FULLY_CONNECTED: the result is a matrix, which a RESHAPE gives its other dimensions."""
    op, x, weights, y = node.op, node.operand(0), node.operand(1), node.outputs[0]
    assert isinstance(op, FullyConnected)
    w = weighted(node, t, "FULLY_CONNECTED", channels=False)
    filters, depth = t.static(weights)
    rank = t.rank(x)
    inputs = {
        "input": x,
        "weights": oriented(t, w.weights, (0, 1)),
        "bias": bias_operand(t, w, filters),
        "activation": t.activation(op.activation),
    }
    if depth == 0:
        raise t.refused("FULLY_CONNECTED over no elements")
    if rank == 1:
        row = TensorType(x.dtype, (1, depth), x.quant)
        inputs["input"] = t.result("RESHAPE", {"input": x, "shape": t.ints([1, depth])}, row)
    if rank == 2:
        t.emit("FULLY_CONNECTED", inputs, y)
        return
    lead = (y.shape or ())[:-1]
    known = [d for d in lead if isinstance(d, int)]
    if len(lead) - len(known) > 1:
        raise t.refused("several extents of its operand aren't known")
    rows = prod(known) if len(known) == len(lead) else None
    made = t.result("FULLY_CONNECTED", inputs, TensorType(y.dtype, (rows, filters), y.quant))
    extents = [*(d if isinstance(d, int) else -1 for d in lead), filters]
    t.emit("RESHAPE", {"input": made, "shape": t.ints(extents)}, y)


def export_matmul(node: Node, t: Target) -> None:
    """BATCH_MATMUL, at level 6: of matrices with the same leading dimensions."""
    op, a, b, y = node.op, node.operand(0), node.operand(1), node.outputs[0]
    assert isinstance(op, MatMul)
    for value in (a, b):
        if t.rank(value) < 2:
            raise t.refused("BATCH_MATMUL takes matrices")
    inputs = {"lhs": a, "rhs": b, "adj_x": op.transpose_a, "adj_y": op.transpose_b}
    t.emit("BATCH_MATMUL", inputs, y)


EXPORTERS: dict[type[Op], Exporter] = {
    FullyConnected: export_fully_connected,
    MatMul: export_matmul,
}
