"""Products of matrices."""

from __future__ import annotations

from nnconv.formats.nnrt.exporter import Exporter, Input, Target
from nnconv.formats.nnrt.weighted import bias_tensor, check_weighted
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops.matmul import FullyConnected, MatMul


def export_fully_connected(node: Node, t: Target) -> None:
    """FULL_CONNECTION: of a matrix; a RESHAPE gives the result its other dimensions."""
    op, x, weights, y = node.op, node.operand(0), node.operand(1), node.outputs[0]
    assert isinstance(op, FullyConnected)
    filters, depth = t.static(weights)
    integer = check_weighted(node, t)
    lead = t.shape(x)[:-1]
    inputs: dict[str, Input] = {"input": x, "weight": weights}
    params = {"activationType": t.activation(op.activation)}
    if node.inputs[2:] and node.inputs[2] is not None:
        inputs["bias"] = bias_tensor(node, t, filters, integer=integer)
        if t.api > 1:
            params["hasBias"] = True
    elif t.api == 1:  # where it is not optional
        inputs["bias"] = bias_tensor(node, t, filters, integer=integer)
    if len(lead) == 1:
        t.emit("FULL_CONNECTION", inputs, y, params)
        return
    if sum(extent is None for extent in lead) > 1:
        raise t.refused("several extents of its operand aren't known")
    rows = 1
    for extent in lead:
        rows *= extent or 1
    whole = None not in lead
    flat = TensorType(x.dtype, (rows if whole else None, depth), x.quant)
    shape: dict[str, Input] = {"input": x, "InputShape": t.ints([rows if whole else -1, depth])}
    inputs["input"] = t.result("RESHAPE", shape, flat)
    kind = TensorType(y.dtype, (rows if whole else None, filters), y.quant)
    made = t.result("FULL_CONNECTION", inputs, kind, params)
    extents = t.ints([*(-1 if extent is None else extent for extent in lead), filters])
    t.emit("RESHAPE", {"input": made, "InputShape": extents}, y)


def export_matmul(node: Node, t: Target) -> None:
    """MATMUL."""
    op, a, b = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, MatMul)
    for value in (a, b):
        if len(t.shape(value)) < 2:
            raise t.refused("MATMUL takes matrices")
    params = {"TransposeX": op.transpose_a, "TransposeY": op.transpose_b}
    t.emit("MATMUL", {"input1": a, "input2": b}, node.outputs, params)


EXPORTERS: dict[type[Op], Exporter] = {
    FullyConnected: export_fully_connected,
    MatMul: export_matmul,
}
