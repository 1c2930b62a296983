"""NNAPI's enumerations, from schemas/nnapi, and what its operand types are in numpy and the IR.

Members have the C names less ``ANEURALNETWORKS_`` and what an enumeration's own members share:
``FuseCode.RELU``. The names with that part, ``FuseCode.FUSED_RELU``, are aliases.
"""

from __future__ import annotations

import numpy as np

from nnconv.formats.enums import Code
from nnconv.ir.dtype import DType
from nnconv.schemas import read_schema

_ENUMS: dict[str, dict[str, int]] = read_schema("nnapi/enums.json")


class OperandCode(Code, members=_ENUMS["OperandCode"]):
    """Types of operands."""


class OperationCode(Code, members=_ENUMS["OperationCode"]):
    """Operations."""


class FuseCode(Code, members=_ENUMS["FuseCode"]):
    """Activations fused into an operation."""


class PaddingCode(Code, members=_ENUMS["PaddingCode"]):
    """Implicit paddings."""


class PreferenceCode(Code, members=_ENUMS["PreferenceCode"]):
    """What a compilation should favour."""


class DeviceTypeCode(Code, members=_ENUMS["DeviceTypeCode"]):
    """Kinds of devices."""


class FeatureLevelCode(Code, members=_ENUMS["FeatureLevelCode"]):
    """Feature levels as the API gives them: an Android API level for the first five."""


class ResultCode(Code, members=_ENUMS["ResultCode"]):
    """What a call gives."""


class DurationCode(Code, members=_ENUMS["DurationCode"]):
    """Which duration to measure."""


class PriorityCode(Code, members=_ENUMS["PriorityCode"]):
    """Priorities of compilations."""


class LSHProjectionType(Code, members=_ENUMS["LSHProjectionType"]):
    """Kinds of LSH_PROJECTION."""


MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES = _ENUMS["Constants"]["MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES"]
"""Operand values up to so many bytes are copied when they are given."""

BYTE_SIZE_OF_CACHE_TOKEN = _ENUMS["Constants"]["BYTE_SIZE_OF_CACHE_TOKEN"]

LEVELS = range(1, 9)
"""The feature levels, as numbers from 1."""

NEWEST_LEVEL = LEVELS[-1]


def level_code(level: int) -> FeatureLevelCode:
    """The code of a feature level: 27 for 1, 1000008 for 8."""
    return FeatureLevelCode(_ENUMS["FeatureLevelCode"][f"FEATURE_LEVEL_{level}"])


STORAGE: dict[OperandCode, str] = {
    OperandCode.FLOAT32: "<f4",
    OperandCode.INT32: "<i4",
    OperandCode.UINT32: "<u4",
    OperandCode.TENSOR_FLOAT32: "<f4",
    OperandCode.TENSOR_INT32: "<i4",
    OperandCode.TENSOR_QUANT8_ASYMM: "u1",
    OperandCode.BOOL: "u1",
    OperandCode.TENSOR_QUANT16_SYMM: "<i2",
    OperandCode.TENSOR_FLOAT16: "<f2",
    OperandCode.TENSOR_BOOL8: "u1",
    OperandCode.FLOAT16: "<f2",
    OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL: "i1",
    OperandCode.TENSOR_QUANT16_ASYMM: "<u2",
    OperandCode.TENSOR_QUANT8_SYMM: "i1",
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: "i1",
}
"""The numpy type of each operand type's elements; a bool is a byte, any but 0 means true."""

NUMPY = {code: np.dtype(text) for code, text in STORAGE.items()}

DTYPES = {
    code: DType.BOOL
    if code in (OperandCode.BOOL, OperandCode.TENSOR_BOOL8)
    else DType.of(NUMPY[code])
    for code in STORAGE
}
"""The IR's element type of each operand type; MODEL has none."""

SCALARS = frozenset(
    {OperandCode.FLOAT32, OperandCode.INT32, OperandCode.UINT32, OperandCode.BOOL}
    | {OperandCode.FLOAT16, OperandCode.MODEL}
)
"""The types that have no dimensions."""

ZERO_POINTS: dict[OperandCode, tuple[int, int]] = {
    OperandCode.TENSOR_QUANT8_ASYMM: (0, 255),
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: (-128, 127),
    OperandCode.TENSOR_QUANT16_ASYMM: (0, 65535),
    OperandCode.TENSOR_QUANT8_SYMM: (0, 0),
    OperandCode.TENSOR_QUANT16_SYMM: (0, 0),
}
"""The types with one scale for all elements, and the zero points that they may have."""

PER_CHANNEL = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
