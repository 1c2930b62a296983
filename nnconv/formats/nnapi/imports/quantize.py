"""Operations between types of numbers."""

from __future__ import annotations

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ops.elementwise import Clip
from nnconv.ops.quantize import Bitcast, Cast, Dequantize, Quantize


def import_quantize(s: Source) -> None:
    """QUANTIZE."""
    dtype = s.scope.stated(s.outputs[0]).dtype
    s.emit(Quantize(dtype=dtype), [s.operand("input")])


def import_dequantize(s: Source) -> None:
    """DEQUANTIZE."""
    dtype = s.scope.stated(s.outputs[0]).dtype
    s.emit(Dequantize(dtype=dtype), [s.operand("input")])


def import_cast(s: Source) -> None:
    """CAST: of the stored numbers, whatever they stand for; a byte takes what is nearest."""
    x, dtype = s.operand("input"), s.scope.stated(s.outputs[0]).dtype
    if x.quant is not None:
        x = s.add(Bitcast(dtype=x.dtype), [x])
    if dtype is DType.UINT8 and x.dtype is not DType.UINT8:
        x = s.add(Clip(low=0.0, high=255.0), [x])
    s.emit(Cast(dtype=dtype), [x])


IMPORTERS: dict[str, Importer] = {
    "CAST": import_cast,
    "DEQUANTIZE": import_dequantize,
    "QUANTIZE": import_quantize,
}
