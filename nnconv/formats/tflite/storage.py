"""How .tflite files hold the elements of each tensor type, for reading and writing."""

from nnconv.formats.stored import Storage
from nnconv.formats.tflite._gen.schema import TensorType

STORAGE = {
    TensorType.BOOL: Storage("?", 8),
    TensorType.INT8: Storage("<i1", 8),
    TensorType.INT16: Storage("<i2", 16),
    TensorType.INT32: Storage("<i4", 32),
    TensorType.INT64: Storage("<i8", 64),
    TensorType.UINT8: Storage("<u1", 8),
    TensorType.UINT16: Storage("<u2", 16),
    TensorType.UINT32: Storage("<u4", 32),
    TensorType.UINT64: Storage("<u8", 64),
    TensorType.FLOAT16: Storage("<f2", 16),
    TensorType.FLOAT32: Storage("<f4", 32),
    TensorType.FLOAT64: Storage("<f8", 64),
    TensorType.COMPLEX64: Storage("<c8", 64),
    TensorType.COMPLEX128: Storage("<c16", 128),
    TensorType.BFLOAT16: Storage("<u2", 16),
    TensorType.FLOAT8_E4M3FN: Storage("<u1", 8),
    TensorType.FLOAT8_E5M2: Storage("<u1", 8),
    TensorType.INT4: Storage("<i1", 4),
    TensorType.UINT4: Storage("<u1", 4),
    TensorType.INT2: Storage("<i1", 2),
}
"""Types that numpy lacks come as their bits; those under 8 bits are packed, the first element in
the lowest bits. The types that aren't here (STRING, RESOURCE, VARIANT) are no numbers.
"""
