"""NNRt's enumerations, from schemas/nnrt, and what its element types are in numpy and the IR.

Members have the C names less ``OH_NN_`` and what an enumeration's own members share:
``OperationType.ADD``. The names with that part, ``OperationType.OPS_ADD``, are aliases.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.schemas import read_schema

_ENUMS: dict[str, dict[str, int]] = read_schema("nnrt/enums.json")

if TYPE_CHECKING:
    # What mypy can't see: the members come from the schema.
    from enum import EnumMeta

    class _Members(EnumMeta):
        def __getattr__(cls, name: str) -> Any: ...

    class _Code(IntEnum, metaclass=_Members):
        pass

    class OperationType(_Code):
        """Operations."""

    class TensorType(_Code):
        """What a tensor is for: data, or a parameter of some operation."""

    class DataType(_Code):
        """Types of elements."""

    class FuseType(_Code):
        """Activations fused into an operation."""

    class Format(_Code):
        """Orders of a tensor's dimensions."""

    class DeviceType(_Code):
        """Kinds of devices."""

    class PerformanceMode(_Code):
        """How fast a model should run."""

    class Priority(_Code):
        """Priorities of models."""

    class ReturnCode(_Code):
        """What a call gives."""

else:

    def _enum(name: str, doc: str) -> type[IntEnum]:
        made = IntEnum(name, _ENUMS[name], module=__name__)
        made.__doc__ = doc
        return made

    OperationType = _enum("OperationType", "Operations.")
    TensorType = _enum("TensorType", "What a tensor is for: data, or an operation's parameter.")
    DataType = _enum("DataType", "Types of elements.")
    FuseType = _enum("FuseType", "Activations fused into an operation.")
    Format = _enum("Format", "Orders of a tensor's dimensions.")
    DeviceType = _enum("DeviceType", "Kinds of devices.")
    PerformanceMode = _enum("PerformanceMode", "How fast a model should run.")
    Priority = _enum("Priority", "Priorities of models.")
    ReturnCode = _enum("ReturnCode", "What a call gives.")

VERSIONS = (1, 2)
"""The versions of the API: that of OpenHarmony 3.2, and today's."""

NEWEST = VERSIONS[-1]

LAST_V1_TENSOR_TYPE = TensorType.UNSQUEEZE_AXIS
"""The greatest code of a tensor type that version 1 knows."""

LAST_V1_OPERATION = OperationType.GELU
"""The greatest code of an operation that version 1 knows."""

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
