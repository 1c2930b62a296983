"""Products of matrices."""

from __future__ import annotations

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.formats.nnapi.imports.conv import scaled_bias
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.rewrite import reshaped


def import_fully_connected(s: Source) -> None:
    """FULLY_CONNECTED: the input is cut into rows of the weights' depth."""
    x, weights, bias = s.operand("input"), s.operand("weights"), s.operand("bias")
    depth = weights.shape[1] if weights.shape is not None and len(weights.shape) == 2 else None
    if not isinstance(depth, int):
        raise s.unsupported("the depth of the weights isn't known")
    if x.shape is None or len(x.shape) != 2 or x.shape[1] != depth:
        x = reshaped(s.builder, x, (-1, depth))
    op = FullyConnected(activation=s.activation())
    s.emit(op, [x, weights, scaled_bias(s, x, weights, bias)])


def import_batch_matmul(s: Source) -> None:
    """BATCH_MATMUL."""
    op = MatMul(transpose_a=s.bool("adj_x"), transpose_b=s.bool("adj_y"))
    s.emit(op, [s.operand("lhs"), s.operand("rhs")])


IMPORTERS: dict[str, Importer] = {
    "BATCH_MATMUL": import_batch_matmul,
    "FULLY_CONNECTED": import_fully_connected,
}
