"""Quantization: codes get their parameters, which ONNX has as operands, into their types."""

from __future__ import annotations

import numpy as np

from nnconv.errors import Reason
from nnconv.formats.onnx.importer import Importer, NotConvertible, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ops.quantize import Dequantize, Quantize

CODE_TYPES = frozenset(
    {
        DType.INT2,
        DType.INT4,
        DType.UINT4,
        DType.INT8,
        DType.UINT8,
        DType.INT16,
        DType.UINT16,
        DType.INT32,
    }
)
"""The types of codes that the IR has parameters for."""


def quant_of(
    src: Source,
    x: Value,
    scale: np.ndarray,
    zero_point: np.ndarray | None,
    *,
    axis: int = 1,
    block: int = 0,
) -> Quant:
    """Parameters of ``x`` from constants: one each, one an index of ``axis``, or one a block.

    Raises:
        InvalidModelError: they don't fit the value.
    """
    scales = scale.astype(np.float32)
    points = np.zeros(scales.shape, np.int64) if zero_point is None else zero_point
    if points.size != scales.size:
        raise src.fail(f"{points.size} zero points for {scales.size} scales")
    if not np.all(np.isfinite(scales)) or np.any(scales <= 0):
        raise src.fail("a scale isn't a positive number")
    along: int | None = None
    if scales.ndim >= 1 and (scales.size > 1 or block):
        along = src.axis(axis, src.rank(x))
        assert x.shape is not None
        extent = x.shape[along]
        wanted = extent
        if block and isinstance(extent, int):
            wanted = -(-extent // block)
        given = scales.shape[along] if block and scales.ndim > along else scales.size
        if isinstance(wanted, int) and wanted != given:
            raise src.fail(f"{given} scales along dimension {along}, which has {extent} elements")
    return Quant(
        scale=tuple(scales.reshape(-1).tolist()),
        zero_point=tuple(int(p) for p in points.reshape(-1)),
        axis=along,
        block=block if along is not None else 0,
    )


def parameters(src: Source, place: int, x: Value, *, axis: int = 1, block: int = 0) -> Quant:
    """The parameters that operands ``place`` (scale) and the next (zero point) give for ``x``.

    Raises:
        NotConvertible: they are computed at run time.
    """
    scale = src.required_constant(place, "the scale")
    zero_point = None
    if src.optional(place + 1) is not None:
        zero_point = src.required_constant(place + 1, "the zero point")
    return quant_of(src, x, scale, zero_point, axis=axis, block=block)


def as_codes(src: Source, x: Value, quant: Quant) -> Value:
    """``x`` as codes under ``quant``."""
    if x.dtype not in CODE_TYPES:
        raise no_codes(src, x.dtype)
    return src.scope.reread(x, quant)


def no_codes(src: Source, dtype: DType) -> NotConvertible:
    """The refusal of codes of a type that has no parameters here."""
    return src.unsupported(f"codes of {dtype} aren't supported", reason=Reason.NOT_IMPLEMENTED)


def import_dequantize_linear(src: Source) -> None:
    """DequantizeLinear: scale and zero point are constants."""
    x = src.operand(0)
    block = src.int("block_size", 0)
    quant = parameters(src, 1, x, axis=src.int("axis", 1), block=block)
    scale_type = src.operand(1).dtype
    dtype = src.dtype("output_dtype", scale_type) if src.int("output_dtype", 0) else scale_type
    src.emit(Dequantize(dtype=dtype), [as_codes(src, x, quant)])


def import_quantize_linear(src: Source) -> None:
    """QuantizeLinear: the zero point's type, or ``output_dtype``, is the result's; else uint8."""
    x = src.operand(0)
    point = src.optional(2)
    dtype = DType.UINT8 if point is None else point.dtype
    if point is None and src.int("output_dtype", 0):
        dtype = src.dtype("output_dtype")
    if dtype not in CODE_TYPES:
        raise no_codes(src, dtype)
    block = src.int("block_size", 0)
    quant = parameters(src, 1, x, axis=src.int("axis", 1), block=block)
    src.emit(Quantize(dtype=dtype), [x], quants=[quant])


IMPORTERS: dict[str, Importer] = {
    "DequantizeLinear": import_dequantize_linear,
    "QuantizeLinear": import_quantize_linear,
}
