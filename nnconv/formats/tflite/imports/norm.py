"""Ops that normalize along the last dimension."""

from __future__ import annotations

from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ops import norm as n


def _last_axis(s: Source, x: Value) -> int:
    rank = s.rank(x)
    if not rank:
        raise s.fail(f"`{x.name}` is a scalar, must have a dimension to work along")
    return rank - 1


def import_softmax(s: Source) -> None:
    """SOFTMAX."""
    x = s.real_operand(0)
    s.emit(n.Softmax(axis=_last_axis(s, x), beta=s.options.float("beta")), [x])


def import_log_softmax(s: Source) -> None:
    """LOG_SOFTMAX."""
    x = s.real_operand(0)
    s.emit(n.LogSoftmax(axis=_last_axis(s, x)), [x])


def import_l2_normalization(s: Source) -> None:
    """L2_NORMALIZATION."""
    x = s.real_operand(0)
    s.emit(n.L2Normalization(axis=_last_axis(s, x), activation=s.activation()), [x])


def import_local_response_normalization(s: Source) -> None:
    """LOCAL_RESPONSE_NORMALIZATION."""
    x, options = s.real_operand(0), s.options
    if options.int("radius") < 0:
        raise s.fail(f"radius {options.int('radius')}, allowed are 0 and more")
    op = n.LocalResponseNormalization(
        axis=_last_axis(s, x),
        radius=options.int("radius"),
        bias=options.float("bias"),
        alpha=options.float("alpha"),
        beta=options.float("beta"),
    )
    s.emit(op, [x])


IMPORTERS: dict[str, Importer] = {
    "SOFTMAX": import_softmax,
    "LOG_SOFTMAX": import_log_softmax,
    "L2_NORMALIZATION": import_l2_normalization,
    "LOCAL_RESPONSE_NORMALIZATION": import_local_response_normalization,
}
