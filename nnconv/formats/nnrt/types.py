"""NNRt's enumerations, from schemas/nnrt, and what its element types are in numpy and the IR.

Members have the C names less ``OH_NN_`` and what an enumeration's own members share:
``OperationType.ADD``. The names with that part, ``OperationType.OPS_ADD``, are aliases.
"""

from __future__ import annotations

import numpy as np

from nnconv.formats.enums import Code
from nnconv.ir.dtype import DType
from nnconv.schemas import read_schema

_ENUMS: dict[str, dict[str, int]] = read_schema("nnrt/enums.json")


class OperationType(Code, members=_ENUMS["OperationType"]):
    """Operations."""


class TensorType(Code, members=_ENUMS["TensorType"]):
    """What a tensor is for: data, or a parameter of some operation."""


class DataType(Code, members=_ENUMS["DataType"]):
    """Types of elements."""


class FuseType(Code, members=_ENUMS["FuseType"]):
    """Activations fused into an operation."""


class Format(Code, members=_ENUMS["Format"]):
    """Orders of a tensor's dimensions."""


class DeviceType(Code, members=_ENUMS["DeviceType"]):
    """Kinds of devices."""


class PerformanceMode(Code, members=_ENUMS["PerformanceMode"]):
    """How fast a model should run."""


class Priority(Code, members=_ENUMS["Priority"]):
    """Priorities of models."""


class ReturnCode(Code, members=_ENUMS["ReturnCode"]):
    """What a call gives."""


VERSIONS = V1, V2 = (1, 2)
"""The API's versions: OpenHarmony 3.2 (API level 9), and 5.0 with what came in between."""

NEWEST = V2

LAST_V1_TENSOR_TYPE = TensorType.UNSQUEEZE_AXIS
"""The greatest code of a tensor type that version 1 knows."""

STORAGE: dict[DataType, tuple[str, str]] = {
    DataType.BOOL: ("u1", "BOOL"),
    DataType.INT8: ("i1", "I8"),
    DataType.INT16: ("<i2", "I16"),
    DataType.INT32: ("<i4", "I32"),
    DataType.INT64: ("<i8", "I64"),
    DataType.UINT8: ("u1", "U8"),
    DataType.UINT16: ("<u2", "U16"),
    DataType.UINT32: ("<u4", "U32"),
    DataType.UINT64: ("<u8", "U64"),
    DataType.FLOAT16: ("<f2", "F16"),
    DataType.FLOAT32: ("<f4", "F32"),
    DataType.FLOAT64: ("<f8", "F64"),
}
"""Each type's elements in numpy, where a bool is a byte, and what a safetensors file calls them."""

NUMPY = {kind: np.dtype(text) for kind, (text, _) in STORAGE.items()}

DTYPES = {kind: DType.BOOL if kind is DataType.BOOL else DType.of(NUMPY[kind]) for kind in STORAGE}
"""The IR's element type of each type; UNKNOWN has none."""

FROM_DTYPE = {dtype: kind for kind, dtype in DTYPES.items()}
"""The type of each of the IR's element types that NNRt has."""
