"""Products of matrices and tensors, determinants and triangles."""

from __future__ import annotations

import numpy as np

from nnconv.errors import plural
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ops.diagonal import EyeLike, Trilu
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.product import Det, Einsum, Gemm, MatMulInteger, explicit
from nnconv.ops.rewrite import constant_behind, reshaped, transposed


def import_matmul(s: Source) -> None:
    """MatMul."""
    s.emit(MatMul(), [s.operand(0), s.operand(1)])


def import_gemm(s: Source) -> None:
    """Gemm: a layer where the second matrix and the offset are constants; else any product."""
    x, weights, offset = s.operand(0), s.operand(1), s.optional(2)
    if s.version < 7 and offset is not None and offset.shape != (1,) and not s.int("broadcast", 0):
        raise s.unsupported("it broadcasts by the rules of an old opset")
    op = Gemm(
        alpha=s.float("alpha", 1.0),
        beta=s.float("beta", 1.0),
        transpose_a=bool(s.int("transA", 0)),
        transpose_b=bool(s.int("transB", 0)),
    )
    if op.alpha == 1 and (offset is None or op.beta == 1) and not op.transpose_a:
        layer = _layer(s, op, weights, offset)
        if layer is not None and x.type.rank == 2:
            s.emit(FullyConnected(), [x, *layer])
            return
    s.emit(op, [x, weights] if offset is None else [x, weights, offset])


def _layer(s: Source, op: Gemm, weights: Value, offset: Value | None) -> list[Value] | None:
    """Weights [O, I] and bias [O] of a layer; None where they aren't constants of such a form."""
    if constant_behind(weights) is None or weights.shape is None or len(weights.shape) != 2:
        return None
    if not weights.dtype.is_float:
        return None
    turned = weights if op.transpose_b else transposed(s.builder, weights, (1, 0))
    if offset is None:
        return [turned]
    if constant_behind(offset) is None or offset.shape is None:
        return None
    count = turned.shape[0] if turned.shape is not None else None
    if offset.shape == (count,):
        return [turned, offset]
    if offset.shape == (1, count) and isinstance(count, int):
        return [turned, reshaped(s.builder, offset, (count,))]
    if offset.data is not None and offset.data.size == 1 and isinstance(count, int):
        spread = np.full(count, offset.data.reshape(-1)[0], offset.data.dtype)
        return [turned, s.const(spread, offset.name)]
    return None


def import_matmul_integer(s: Source) -> None:
    """MatMulInteger."""
    operands: list[Value | None] = [s.operand(0), s.operand(1), s.optional(2), s.optional(3)]
    while operands[-1] is None:
        operands.pop()
    s.emit(MatMulInteger(), operands)


def import_einsum(s: Source) -> None:
    """Einsum."""
    s.emit(Einsum(equation=explicit(s.text("equation"))), s.all_operands())


def import_det(s: Source) -> None:
    """Det."""
    s.emit(Det(), [s.operand(0)])


def import_trilu(s: Source) -> None:
    """Trilu: the diagonal is an operand."""
    x, upper = s.operand(0), bool(s.int("upper", 1))
    if s.optional(1) is None:
        s.emit(Trilu(k=0, upper=upper), [x])
        return
    known = s.ints(1)
    if known is None:
        s.emit(Trilu(k=None, upper=upper), [x, s.operand(1)])
        return
    if len(known) != 1:
        raise s.fail(f"{plural(len(known), 'diagonal')} are given, must be one")
    s.emit(Trilu(k=known[0], upper=upper), [x])


def import_eye_like(s: Source) -> None:
    """EyeLike: of its operand's type where none is given."""
    x = s.operand(0)
    s.emit(EyeLike(dtype=s.dtype("dtype", x.dtype), k=s.int("k", 0)), [x])


IMPORTERS: dict[str, Importer] = {
    "MatMul": import_matmul,
    "Gemm": import_gemm,
    "MatMulInteger": import_matmul_integer,
    "Einsum": import_einsum,
    "Det": import_det,
    "Trilu": import_trilu,
    "EyeLike": import_eye_like,
}
