"""OpenHarmony's Neural Network Runtime on a desktop: the calls, their rules and their return codes.

Names are those of the C functions: ``OH_NNModel_AddTensor`` is ``Model.add_tensor``. Where a C
function gives an error code, the method raises ``Error`` with that ``code``; where it gives a null
pointer, with NULL_PTR.
"""

from __future__ import annotations

from nnconv.formats.nnrt.types import (
    DataType,
    DeviceType,
    Format,
    FuseType,
    OperationType,
    PerformanceMode,
    Priority,
    ReturnCode,
    TensorType,
)
from nnconv.runtime.nnrt.compilation import Compilation
from nnconv.runtime.nnrt.desc import TensorDesc
from nnconv.runtime.nnrt.device import get_all_devices_id, get_name, get_type
from nnconv.runtime.nnrt.errors import Error
from nnconv.runtime.nnrt.executor import Executor
from nnconv.runtime.nnrt.model import Model
from nnconv.runtime.nnrt.quant import QuantParam
from nnconv.runtime.nnrt.tensor import DeviceTensor, Memory, Tensor

__all__ = [
    "Compilation", "DataType", "DeviceTensor", "DeviceType", "Error", "Executor", "Format",
    "FuseType", "Memory", "Model", "OperationType", "PerformanceMode", "Priority", "QuantParam",
    "ReturnCode", "Tensor", "TensorDesc", "TensorType", "get_all_devices_id", "get_name",
    "get_type",
]  # fmt: skip
