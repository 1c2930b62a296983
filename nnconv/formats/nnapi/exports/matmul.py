"""Products of matrices."""

from __future__ import annotations

from math import prod

import numpy as np

from nnconv.formats.indexed import Ref
from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.formats.nnapi.weighted import bias_operand, oriented, weighted
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import TensorType
from nnconv.ops.matmul import FullyConnected, MatMul


def export_fully_connected(node: Node, t: Target) -> None:
    """FULLY_CONNECTED: the result is a matrix, which a RESHAPE gives its other dimensions.

    Codes of filters that have scales of their own are left to CONV_2D.
    """
    op, x, weights, y = node.op, node.operand(0), node.operand(1), node.outputs[0]
    assert isinstance(op, FullyConnected)
    own_scales = weights.quant is not None and not weights.quant.is_per_tensor
    if own_scales and t.level >= _SCALES_FILTERS:
        weighted(node, t, "CONV_2D")  # refuses what that doesn't take either
        raise t.refused("FULLY_CONNECTED has no scale for each filter, as CONV_2D has")
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
    if t.level < _MULTIPLIES:
        _matmul_by_rows(node, t, op)
        return
    inputs = {"lhs": a, "rhs": b, "adj_x": op.transpose_a, "adj_y": op.transpose_b}
    t.emit("BATCH_MATMUL", inputs, y)


_SCALES_FILTERS = 3
"""The feature level of TENSOR_QUANT8_SYMM_PER_CHANNEL."""

_MULTIPLIES = 6
"""The feature level of BATCH_MATMUL."""

_MOST_MATRICES = 64
"""So many products are written one by one."""


def _matmul_by_rows(node: Node, t: Target, op: MatMul) -> None:
    """A FULLY_CONNECTED for each pair of matrices, the second with its columns as rows."""
    y = node.outputs[0]
    w = weighted(node, t, "FULLY_CONNECTED", channels=False)
    shape = t.static(y)
    lead, count = shape[:-2], prod(shape[:-2])
    if count > _MOST_MATRICES:
        raise t.refused(f"{count} products of matrices, BATCH_MATMUL needs level {_MULTIPLIES}")
    rows = [
        _matrices(t, value, lead, turned=turned)
        for value, turned in ((w.x, op.transpose_a), (w.weights, not op.transpose_b))
    ]
    bias = bias_operand(t, w, shape[-1])
    made = []
    for data, weights in zip(*rows, strict=True):
        inputs = {"input": data, "weights": weights, "bias": bias, "activation": 0}
        made.append(t.result("FULLY_CONNECTED", inputs, TensorType(y.dtype, shape[-2:], y.quant)))
    whole = made[0]
    if count > 1:
        kind = TensorType(y.dtype, (count * shape[-2], shape[-1]), y.quant)
        whole = t.result("CONCATENATION", {"inputs": made, "axis": 0}, kind)
    t.emit("RESHAPE", {"input": whole, "shape": t.ints(shape)}, y)


def _matrices(t: Target, value: Value, lead: tuple[int, ...], *, turned: bool) -> list[Ref]:
    """The matrices of an operand, one for each place in ``lead``, transposed at will."""
    own = t.static(value)
    count = prod(own[:-2])
    flat = value.data.reshape(count, *own[-2:]) if value.data is not None else None
    size = own[-2:]
    found: list[Ref] = []
    whole = None
    if flat is None:
        rows = (count * size[0], size[1])
        whole = t.operand(value)
        if own != rows:
            inputs = {"input": whole, "shape": t.ints(rows)}
            whole = t.result("RESHAPE", inputs, TensorType(value.dtype, rows, value.quant))
    for place in range(count):
        if flat is not None:
            matrix = flat[place].T if turned else flat[place]
            found.append(t.const(np.ascontiguousarray(matrix), quant=value.quant))
            continue
        assert whole is not None
        part = whole
        if count > 1:
            begin = {"input": whole, "begin": t.ints([place * size[0], 0]), "size": t.ints(size)}
            part = t.result("SLICE", begin, TensorType(value.dtype, size, value.quant))
        if turned:
            moves = {"input": part, "perm": t.ints([1, 0])}
            part = t.result("TRANSPOSE", moves, TensorType(value.dtype, size[::-1], value.quant))
        found.append(part)
    places = np.broadcast_to(np.arange(count).reshape(own[:-2]), lead).reshape(-1)
    return [found[place] for place in places]


EXPORTERS: dict[type[Op], Exporter] = {
    FullyConnected: export_fully_connected,
    MatMul: export_matmul,
}
