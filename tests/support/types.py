"""Element types by what they have in common."""

from nnconv.ir import DType

WHOLE = [
    DType.INT8,
    DType.UINT8,
    DType.INT16,
    DType.UINT16,
    DType.INT32,
    DType.UINT32,
    DType.INT64,
    DType.UINT64,
]
"""Integers of whole bytes."""
