"""Android's Neural Networks API on a desktop: the calls, their rules and their result codes.

Names are those of the C functions: ``ANeuralNetworksModel_addOperand`` is ``Model.add_operand``.
Where a C function gives an error code, the method raises ``Error`` with that ``code``.
"""

from __future__ import annotations

from nnconv.formats.nnapi.types import (
    DeviceTypeCode,
    DurationCode,
    FeatureLevelCode,
    FuseCode,
    OperandCode,
    OperationCode,
    PaddingCode,
    PreferenceCode,
    PriorityCode,
    ResultCode,
)
from nnconv.runtime.nnapi.compilation import Burst, Compilation
from nnconv.runtime.nnapi.device import (
    Device,
    get_default_loop_timeout,
    get_device,
    get_device_count,
    get_maximum_loop_timeout,
    get_runtime_feature_level,
)
from nnconv.runtime.nnapi.errors import Error
from nnconv.runtime.nnapi.event import Event
from nnconv.runtime.nnapi.execution import Execution
from nnconv.runtime.nnapi.memory import Memory, MemoryDesc
from nnconv.runtime.nnapi.model import Model
from nnconv.runtime.nnapi.types import OperandType, SymmPerChannelQuantParams

__all__ = [
    "Burst", "Compilation", "Device", "DeviceTypeCode", "DurationCode", "Error", "Event",
    "Execution", "FeatureLevelCode", "FuseCode", "Memory", "MemoryDesc", "Model", "OperandCode",
    "OperandType", "OperationCode", "PaddingCode", "PreferenceCode", "PriorityCode", "ResultCode",
    "SymmPerChannelQuantParams", "get_default_loop_timeout", "get_device", "get_device_count",
    "get_maximum_loop_timeout", "get_runtime_feature_level",
]  # fmt: skip
