"""Conversions between element types."""

from __future__ import annotations

from nnconv.errors import Reason
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ops.quantize import Bitcast, Cast, LooseCast


def _cast(s: Source, dtype: DType) -> None:
    """A Cast to ``dtype``; what integers can't hold of floats isn't told in ONNX."""
    x = s.operand(0)
    if DType.STRING in (x.dtype, dtype):
        raise s.unsupported(
            "it converts strings",
            reason=Reason.OUT_OF_SCOPE,
            hint="Prepare the text outside the model.",
        )
    if x.dtype is dtype:
        s.bind(0, x)
        return
    loose = x.dtype.is_float and dtype.is_integer
    s.emit(LooseCast(dtype=dtype) if loose else Cast(dtype=dtype), [x])


def import_cast(s: Source) -> None:
    """Cast."""
    _cast(s, s.dtype("to"))


def import_cast_like(s: Source) -> None:
    """CastLike: to the type of operand 1."""
    _cast(s, s.operand(1).dtype)


def import_bit_cast(s: Source) -> None:
    """BitCast: between types of one size."""
    x, dtype = s.operand(0), s.dtype("to")
    if DType.STRING in (x.dtype, dtype):
        raise s.fail("strings have no bits")
    if x.dtype.bits != dtype.bits:
        raise s.fail(f"{x.dtype} and {dtype} differ in size")
    s.emit(Bitcast(dtype=dtype), [x])


IMPORTERS: dict[str, Importer] = {
    "Cast": import_cast,
    "CastLike": import_cast_like,
    "BitCast": import_bit_cast,
}
