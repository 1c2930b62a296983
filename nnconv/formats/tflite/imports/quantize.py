"""Ops between number types."""

from __future__ import annotations

import math

from nnconv.errors import plural
from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ops.quantize import Bitcast, Cast, Dequantize, FakeQuant, Quantize


def import_quantize(s: Source) -> None:
    """QUANTIZE: real values, or codes of other parameters, to codes."""
    result = s.output_type()
    if result.quant is None:
        if result.dtype is DType.FLOAT16:  # XNNPACK's spelling of a float cast
            s.emit(Cast(dtype=result.dtype), [s.operand(0)])
            return
        raise s.fail("the result has no quantization parameters")
    s.emit(Quantize(dtype=result.dtype), [s.operand(0)])


def import_dequantize(s: Source) -> None:
    """DEQUANTIZE: codes, or float16 values, to float32."""
    x, result = s.operand(0), s.output_type()
    if x.dtype.is_float:
        s.emit(Cast(dtype=result.dtype), [x])
        return
    if x.quant is None:
        raise s.fail(f"`{x.name}` has no quantization parameters")
    s.emit(Dequantize(dtype=result.dtype), [x])


def import_cast(s: Source) -> None:
    """CAST: the tensors' types count, the options' may be left out."""
    s.emit(Cast(dtype=s.output_type().dtype), [s.operand(0)])


def import_bitcast(s: Source) -> None:
    """BITCAST."""
    s.emit(Bitcast(dtype=s.output_type().dtype), [s.operand(0)])


def import_fake_quant(s: Source) -> None:
    """FAKE_QUANT."""
    options = s.options
    bits = options.int("num_bits")
    if not 2 <= bits <= 16:
        raise s.fail(f"{plural(bits, 'bit')}, allowed are 2 to 16")
    low, high = options.float("min"), options.float("max")
    if not -math.inf < low < high < math.inf:
        raise s.fail(f"a range from {low:g} to {high:g}")
    op = FakeQuant(
        low=low,
        high=high,
        bits=bits,
        narrow=options.bool("narrow_range"),
    )
    s.emit(op, [s.operand(0)])


IMPORTERS: dict[str, Importer] = {
    "QUANTIZE": import_quantize,
    "DEQUANTIZE": import_dequantize,
    "CAST": import_cast,
    "BITCAST": import_bitcast,
    "FAKE_QUANT": import_fake_quant,
}
