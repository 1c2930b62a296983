"""The IR's dtypes in ONNX's terms."""

from __future__ import annotations

from nnconv.formats.onnx.wire import DataType
from nnconv.ir.dtype import DType

DATA_TYPES = {
    DType.BOOL: DataType.BOOL,
    DType.INT2: DataType.INT2,
    DType.INT4: DataType.INT4,
    DType.UINT4: DataType.UINT4,
    DType.INT8: DataType.INT8,
    DType.UINT8: DataType.UINT8,
    DType.INT16: DataType.INT16,
    DType.UINT16: DataType.UINT16,
    DType.INT32: DataType.INT32,
    DType.UINT32: DataType.UINT32,
    DType.INT64: DataType.INT64,
    DType.UINT64: DataType.UINT64,
    DType.FLOAT16: DataType.FLOAT16,
    DType.BFLOAT16: DataType.BFLOAT16,
    DType.FLOAT32: DataType.FLOAT,
    DType.FLOAT64: DataType.DOUBLE,
    DType.COMPLEX64: DataType.COMPLEX64,
    DType.COMPLEX128: DataType.COMPLEX128,
    DType.STRING: DataType.STRING,
}

DTYPES = {code: dtype for dtype, code in DATA_TYPES.items()}
"""The other way round."""

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
    },
)
"""Types whose codes ONNX can dequantize."""

LEAST_OPSET = {
    DType.INT4: 21,
    DType.UINT4: 21,
    DType.INT2: 25,
}
"""The opset from which a type exists."""

UNPACKED = {DType.INT2: DType.INT8, DType.INT4: DType.INT8, DType.UINT4: DType.UINT8}
"""Packed types, whose elements onnxruntime doesn't pick or scatter, and a type of one byte each."""
