"""Products of matrices."""

from __future__ import annotations

from math import prod

from nnconv.errors import plural
from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.formats.nnrt.imports.conv import scaled_bias
from nnconv.ir.graph import Value
from nnconv.ir.types import Dim
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.rewrite import reshaped


def import_full_connection(s: Source) -> None:
    """FULL_CONNECTION: the input becomes a matrix, cut at the axis or into rows of the depth."""
    x, weights = s.operand("input"), s.of_rank(s.operand("weight"), 2)
    depth = (weights.shape or (None, None))[1]
    if not isinstance(depth, int):
        raise s.unsupported("the depth of the weights isn't known")
    uses_axis = s.param("axis") is not None or s.bool("useAxis")
    x = _at_axis(s, x, depth) if uses_axis else _in_rows(s, x, depth)
    bias = None
    if s.bool("hasBias") and s.has("bias"):
        bias = scaled_bias(s, x, weights, s.operand("bias"))
    s.emit(FullyConnected(activation=s.activation()), [x, weights, bias])


def _in_rows(s: Source, x: Value, depth: int) -> Value:
    if x.shape is not None and len(x.shape) == 2 and x.shape[1] in (depth, None):
        return x
    return reshaped(s.builder, x, (-1, depth))


def _at_axis(s: Source, x: Value, depth: int) -> Value:
    axis = s.axis(s.int("axis"), s.rank(x))
    behind: tuple[Dim, ...] = (x.shape or ())[axis:]
    known = [extent for extent in behind if isinstance(extent, int)]
    if len(known) == len(behind) and prod(known) != depth:
        raise s.fail(
            f"{plural(prod(known), 'element')} from axis {axis} on, the weights have {depth}"
        )
    return _in_rows(s, x, depth)


def import_matmul(s: Source) -> None:
    """MATMUL."""
    op = MatMul(transpose_a=s.bool("TransposeX"), transpose_b=s.bool("TransposeY"))
    s.emit_activated(op, s.operands())


IMPORTERS: dict[str, Importer] = {
    "FULL_CONNECTION": import_full_connection,
    "MATMUL": import_matmul,
}
