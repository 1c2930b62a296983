"""For each function of NNRt a call that succeeds; scenarios break it in one respect."""

import os
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from nnconv.schemas import read_schema

from nnconv.runtime import nnrt
from nnconv.runtime.nnrt import DataType, OperationType, TensorType
from support.api_calls import ApiCall
from support.nnrt_runtime import (
    SIZE,
    add_tensors,
    array,
    built,
    compiled,
    desc,
    described,
    device_id,
    device_tensor,
    executor,
    finished,
    prepared,
)

FUNCTIONS: dict[str, dict[str, Any]] = {
    function["method"]: function for function in read_schema("nnrt/api.json")["functions"]
}
"""The functions of schemas/nnrt by what Python calls them."""

NAMES = {
    "paramIndices": "params",
    "inputIndices": "inputs",
    "outputIndices": "outputs",
}
"""What Python calls parameters otherwise."""


class Call(ApiCall):
    """A call of NNRt.

    Attributes:
        api: the version of the API.
    """

    module = nnrt
    functions = FUNCTIONS
    renamed = NAMES
    api = 2

    def renew(self) -> None:
        """Make the object and the arguments anew, as what they are made from has changed."""
        fresh = valid_call(self.method, self.api)
        self.target, self.args = fresh.target, fresh.args


VALID: dict[str, Callable[[str, int], Call]] = {}
"""Makes the call of each method in a version of the API."""


def valid(*methods: str) -> Callable[..., Any]:
    """Register what makes the calls of some methods."""

    def register(make: Callable[[str, int], Call]) -> Callable[[str, int], Call]:
        VALID.update(dict.fromkeys(methods, make))
        return make

    return register


def valid_call(method: str, api: int = 2) -> Call:
    """The call of a method that succeeds."""
    made = VALID[method](method, api)
    made.api = api
    return made


@cache
def file_descriptor(size: int = 4096) -> int:
    """A file without a name that stays open."""
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        return os.dup(file.fileno())


# ------------------------------------------------------------------------ models


@valid("Model.construct")
def _(method: str, api: int) -> Call:
    return Call(method, api=api)


@valid("Model.destroy", "Model.finish")
def _(method: str, api: int) -> Call:
    return Call(method, built(api=api))


@valid("Model.add_tensor")
def _(method: str, api: int) -> Call:
    return Call(method, nnrt.Model(api=api), tensor=described())


@valid("Model.add_tensor_to_model")
def _(method: str, api: int) -> Call:
    return Call(method, nnrt.Model(api=api), tensor_desc=desc())


ON_TENSORS: dict[str, dict[str, Any]] = {
    "Model.set_tensor_data": {"data_buffer": array()},
    "Model.set_tensor_quant_params": {"quant_param": nnrt.QuantParam(0.5, 0, 8)},
    "Model.set_tensor_type": {"tensor_type": TensorType.PAD_CONSTANT_VALUE},
}


@valid(*ON_TENSORS)
def _(method: str, api: int) -> Call:
    model = nnrt.Model(api=api)
    index = model.add_tensor(described())
    return Call(method, model, index=index, **ON_TENSORS[method])


@valid("Model.add_operation")
def _(method: str, api: int) -> Call:
    model = nnrt.Model(api=api)
    a, b, activation, out = add_tensors(model)
    ends = {"params": [activation], "inputs": [a, b], "outputs": [out]}
    return Call(method, model, op=OperationType.ADD, **ends)


@valid("Model.specify_inputs_and_outputs")
def _(method: str, api: int) -> Call:
    model = nnrt.Model(api=api)
    a, b, _, out = add_tensors(model)
    return Call(method, model, inputs=[a, b], outputs=[out])


@valid("Model.get_available_operations")
def _(method: str, api: int) -> Call:
    return Call(method, finished(api=api), device_id=device_id())


# ------------------------------------------------------------------------ quantization parameters


@valid("QuantParam.create", "TensorDesc.create")
def _(method: str, _api: int) -> Call:
    return Call(method)


QUANTS: dict[str, dict[str, Any]] = {
    "QuantParam.destroy": {},
    "QuantParam.set_scales": {"scales": [0.5]},
    "QuantParam.set_zero_points": {"zero_points": [3]},
    "QuantParam.set_num_bits": {"num_bits": [8]},
}


@valid(*QUANTS)
def _(method: str, _api: int) -> Call:
    return Call(method, nnrt.QuantParam(), **QUANTS[method])


# ------------------------------------------------------------------------ descriptions


DESCS: dict[str, dict[str, Any]] = {
    "TensorDesc.destroy": {},
    "TensorDesc.set_name": {"name": "x"},
    "TensorDesc.get_name": {},
    "TensorDesc.set_data_type": {"data_type": DataType.INT8},
    "TensorDesc.get_data_type": {},
    "TensorDesc.set_shape": {"shape": [1, 2]},
    "TensorDesc.get_shape": {},
    "TensorDesc.set_format": {"format": nnrt.Format.NHWC},
    "TensorDesc.get_format": {},
    "TensorDesc.get_element_count": {},
    "TensorDesc.get_byte_size": {},
}


@valid(*DESCS)
def _(method: str, _api: int) -> Call:
    return Call(method, desc(), **DESCS[method])


# ------------------------------------------------------------------------ tensors in memory


@valid("Tensor.create")
def _(method: str, _api: int) -> Call:
    return Call(method, device_id=device_id(), tensor_desc=desc())


@valid("Tensor.create_with_size")
def _(method: str, _api: int) -> Call:
    return Call(method, device_id=device_id(), tensor_desc=desc(), size=SIZE + 1)


@valid("Tensor.create_with_fd")
def _(method: str, _api: int) -> Call:
    ends = {"fd": file_descriptor(), "size": 64, "offset": 16}
    return Call(method, device_id=device_id(), tensor_desc=desc(), **ends)


@valid(
    "DeviceTensor.destroy",
    "DeviceTensor.get_data_buffer",
    "DeviceTensor.get_fd",
    "DeviceTensor.get_offset",
    "DeviceTensor.get_size",
    "DeviceTensor.get_tensor_desc",
)
def _(method: str, _api: int) -> Call:
    return Call(method, device_tensor())


# ------------------------------------------------------------------------ devices


@valid("get_all_devices_id")
def _(method: str, _api: int) -> Call:
    return Call(method)


@valid("get_name", "get_type")
def _(method: str, api: int) -> Call:
    return Call(method, device_id=device_id(), api=api)


# ------------------------------------------------------------------------ compilations


@valid("Compilation.construct")
def _(method: str, api: int) -> Call:
    return Call(method, model=finished(api=api))


WITHOUT_MODEL: dict[str, dict[str, Any]] = {
    "Compilation.construct_for_cache": {},
    "Compilation.construct_with_offline_model_buffer": {"model_buffer": b"model"},
    "Compilation.construct_with_offline_model_file": {"model_path": "model.om"},
}


@valid(*WITHOUT_MODEL)
def _(method: str, _api: int) -> Call:
    return Call(method, **WITHOUT_MODEL[method])


SETTINGS: dict[str, dict[str, Any]] = {
    "Compilation.add_extension_config": {"config_name": "x", "config_value": b"y"},
    "Compilation.build": {},
    "Compilation.destroy": {},
    "Compilation.enable_float16": {"enable_float16": True},
    "Compilation.import_cache_from_buffer": {"buffer": b"x"},
    "Compilation.set_device": {"device_id": device_id()},
    "Compilation.set_performance_mode": {"performance_mode": nnrt.PerformanceMode.HIGH},
    "Compilation.set_priority": {"priority": nnrt.Priority.HIGH},
}


@valid(*SETTINGS)
def _(method: str, api: int) -> Call:
    return Call(method, prepared(api=api), **SETTINGS[method])


@valid("Compilation.set_cache")
def _(method: str, api: int) -> Call:
    made = prepared(api=api, name="onnxruntime:cpu")
    return Call(method, made, cache_path=tempfile.gettempdir(), version=1)


@valid("Compilation.export_cache_to_buffer")
def _(method: str, api: int) -> Call:
    return Call(method, compiled(api=api), buffer=bytearray(8))


# ------------------------------------------------------------------------ executors


@valid("Executor.construct")
def _(method: str, api: int) -> Call:
    return Call(method, compilation=compiled(api=api))


ON_EXECUTORS: dict[str, dict[str, Any]] = {
    "Executor.allocate_input_memory": {"input_index": 0, "length": SIZE},
    "Executor.allocate_output_memory": {"output_index": 0, "length": SIZE},
    "Executor.create_input_tensor_desc": {"index": 0},
    "Executor.create_output_tensor_desc": {"index": 0},
    "Executor.destroy": {},
    "Executor.get_input_count": {},
    "Executor.get_input_dim_range": {"index": 0},
    "Executor.get_output_count": {},
    "Executor.run": {},
    "Executor.set_input": {"input_index": 0, "tensor": described(), "data_buffer": array()},
    "Executor.set_on_run_done": {"on_run_done": print},
    "Executor.set_on_service_died": {"on_service_died": print},
    "Executor.set_output": {"output_index": 0, "data_buffer": array()},
}


@valid(*ON_EXECUTORS)
def _(method: str, api: int) -> Call:
    return Call(method, executor(api=api), **ON_EXECUTORS[method])


@valid("Executor.get_output_shape")
def _(method: str, api: int) -> Call:
    made = executor(api=api)
    made.run()
    return Call(method, made, output_index=0)


@valid("Executor.destroy_input_memory")
def _(method: str, api: int) -> Call:
    made = executor(api=api)
    return Call(method, made, input_index=0, memory=made.allocate_input_memory(0, SIZE))


@valid("Executor.destroy_output_memory")
def _(method: str, api: int) -> Call:
    made = executor(api=api)
    return Call(method, made, output_index=0, memory=made.allocate_output_memory(0, SIZE))


@valid("Executor.set_input_with_memory")
def _(method: str, api: int) -> Call:
    made = executor(api=api)
    memory = made.allocate_input_memory(0, SIZE)
    return Call(method, made, input_index=0, tensor=described(), memory=memory)


@valid("Executor.set_output_with_memory")
def _(method: str, api: int) -> Call:
    made = executor(api=api)
    return Call(method, made, output_index=0, memory=made.allocate_output_memory(0, SIZE))


@valid("Executor.run_sync", "Executor.run_async")
def _(method: str, api: int) -> Call:
    ends = {
        "input_tensor": [device_tensor(), device_tensor()],
        "output_tensor": [device_tensor()],
    }
    if method == "Executor.run_async":
        ends |= {"timeout": 100, "user_data": object()}
    return Call(method, nnrt.Executor(compiled(api=api)), **ends)


__all__ = ["FUNCTIONS", "Call", "array", "file_descriptor", "np", "valid_call"]
