"""For each function of NNAPI a call that succeeds; scenarios break it in one respect."""

import os
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from nnconv.schemas import read_schema

from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode
from support.api_calls import ApiCall
from support.nnapi_runtime import FLOAT, add_operands, built, compiled, device, finished

FUNCTIONS: dict[str, dict[str, Any]] = {
    function["method"]: function for function in read_schema("nnapi/api.json")["functions"]
}
"""The functions of schemas/nnapi by what Python calls them."""

TOKEN = bytes(32)

SIZE = 24
"""Bytes of the inputs and outputs of the default model: two rows of three floats."""


class Call(ApiCall):
    """A call of NNAPI."""

    module = nnapi
    functions = FUNCTIONS


VALID: dict[str, Callable[[], Call]] = {}
"""Makes the call of each method."""


def valid(*methods: str) -> Callable[[Callable[[str], Call]], Callable[[str], Call]]:
    """Register what makes the calls of some methods."""

    def register(make: Callable[[str], Call]) -> Callable[[str], Call]:
        for method in methods:
            VALID[method] = lambda method=method: make(method)  # type: ignore[misc]
        return make

    return register


# ------------------------------------------------------------------------ objects


def array() -> np.ndarray:
    """What an input or output of the default model holds."""
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def memory(size: int = 4096) -> nnapi.Memory:
    """A part of a file."""
    with tempfile.TemporaryFile() as file:
        file.truncate(4096)
        return nnapi.Memory.create_from_fd(size, 3, file.fileno(), 0)


@cache
def open_file() -> int:
    """The descriptor of a file that stays open."""
    return os.open(__file__, os.O_RDONLY)


def descriptor(compilation: nnapi.Compilation | None = None) -> nnapi.MemoryDesc:
    """A finished descriptor with two roles."""
    made = nnapi.MemoryDesc()
    chosen = compiled() if compilation is None else compilation
    made.add_input_role(chosen, 0, 1.0)
    made.add_output_role(chosen, 0, 1.0)
    made.finish()
    return made


def execution(compilation: nnapi.Compilation | None = None) -> nnapi.Execution:
    """An execution of the default model with everything set."""
    made = nnapi.Execution(compiled() if compilation is None else compilation)
    made.set_input(0, array())
    made.set_input(1, array())
    made.set_output(0, array())
    return made


def computed(compilation: nnapi.Compilation | None = None) -> nnapi.Execution:
    """An execution that is completed."""
    made = execution(compilation)
    made.compute()
    return made


def event() -> nnapi.Event:
    """What an execution in the background gives."""
    return execution().start_compute()


# ------------------------------------------------------------------------ models


@valid("Model.create")
def _(method: str) -> Call:
    return Call(method)


@valid("Model.free", "Model.finish")
def _(method: str) -> Call:
    return Call(method, built())


@valid("Model.add_operand")
def _(method: str) -> Call:
    return Call(method, nnapi.Model(), type=OperandType(FLOAT, (2, 3)))


@valid("Model.add_operation")
def _(method: str) -> Call:
    model = nnapi.Model()
    a, b, activation, out = add_operands(model)
    return Call(method, model, type=OperationCode.ADD, inputs=[a, b, activation], outputs=[out])


@valid("Model.identify_inputs_and_outputs")
def _(method: str) -> Call:
    model = nnapi.Model()
    a, b, _, out = add_operands(model)
    return Call(method, model, inputs=[a, b], outputs=[out])


@valid("Model.relax_computation_float32_to_float16")
def _(method: str) -> Call:
    return Call(method, built(), allow=True)


@valid("Model.set_operand_value")
def _(method: str) -> Call:
    model = nnapi.Model()
    index = model.add_operand(OperandType(FLOAT, (2, 3)))
    return Call(method, model, index=index, buffer=array())


@valid("Model.set_operand_value_from_memory")
def _(method: str) -> Call:
    model = nnapi.Model()
    index = model.add_operand(OperandType(FLOAT, (2, 3)))
    return Call(method, model, index=index, memory=memory(), offset=4, length=SIZE)


@valid("Model.set_operand_value_from_model")
def _(method: str) -> Call:
    model = nnapi.Model()
    index = model.add_operand(OperandType(OperandCode.MODEL))
    return Call(method, model, index=index, value=finished())


@valid("Model.set_operand_symm_per_channel_quant_params")
def _(method: str) -> Call:
    model = nnapi.Model()
    index = model.add_operand(OperandType(OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, (2, 3)))
    params = nnapi.SymmPerChannelQuantParams(0, (0.5, 0.25))
    return Call(method, model, index=index, channel_quant=params)


@valid("Model.get_supported_operations_for_devices")
def _(method: str) -> Call:
    return Call(method, finished(), devices=[device()])


# ------------------------------------------------------------------------ compilations


@valid("Compilation.create")
def _(method: str) -> Call:
    return Call(method, model=finished())


@valid("Compilation.create_for_devices")
def _(method: str) -> Call:
    return Call(method, model=finished(), devices=[device()])


SETTINGS: dict[str, dict[str, Any]] = {
    "Compilation.free": {},
    "Compilation.finish": {},
    "Compilation.set_caching": {"cache_dir": "nowhere", "token": TOKEN},
    "Compilation.set_preference": {"preference": 0},
    "Compilation.set_priority": {"priority": 110},
    "Compilation.set_timeout": {"duration": 10**12},
}


@valid(*SETTINGS)
def _(method: str) -> Call:
    made = nnapi.Compilation.create_for_devices(finished(), [device()])
    return Call(method, made, **SETTINGS[method])


@valid(
    "Compilation.get_preferred_memory_alignment_for_input",
    "Compilation.get_preferred_memory_alignment_for_output",
    "Compilation.get_preferred_memory_padding_for_input",
    "Compilation.get_preferred_memory_padding_for_output",
)
def _(method: str) -> Call:
    return Call(method, compiled(), index=0)


@valid("Burst.create", "Execution.create")
def _(method: str) -> Call:
    return Call(method, compilation=compiled())


@valid("Burst.free")
def _(method: str) -> Call:
    return Call(method, nnapi.Burst(compiled()))


# ------------------------------------------------------------------------ devices


@valid(
    "Device.get_feature_level",
    "Device.get_name",
    "Device.get_type",
    "Device.get_version",
    "Device.wait",
)
def _(method: str) -> Call:
    return Call(method, device())


@valid("get_device")
def _(method: str) -> Call:
    return Call(method, index=0)


@valid(
    "get_default_loop_timeout",
    "get_maximum_loop_timeout",
    "get_device_count",
    "get_runtime_feature_level",
)
def _(method: str) -> Call:
    return Call(method)


# ------------------------------------------------------------------------ memories


@valid("MemoryDesc.create")
def _(method: str) -> Call:
    return Call(method)


@valid("MemoryDesc.free", "MemoryDesc.finish")
def _(method: str) -> Call:
    made = nnapi.MemoryDesc()
    made.add_input_role(compiled(), 0, 1.0)
    return Call(method, made)


@valid("MemoryDesc.add_input_role", "MemoryDesc.add_output_role")
def _(method: str) -> Call:
    made = nnapi.MemoryDesc()
    return Call(method, made, compilation=compiled(), index=0, frequency=0.5)


@valid("MemoryDesc.set_dimensions")
def _(method: str) -> Call:
    return Call(method, nnapi.MemoryDesc(), dimensions=(2, 3))


@valid("Memory.create_from_desc")
def _(method: str) -> Call:
    return Call(method, desc=descriptor())


@valid("Memory.create_from_fd")
def _(method: str) -> Call:
    return Call(method, size=16, protect=1, fd=open_file(), offset=0)


@valid("Memory.create_from_a_hardware_buffer")
def _(method: str) -> Call:
    return Call(method, ahwb=object())


@valid("Memory.copy")
def _(method: str) -> Call:
    return Call(method, memory(), dst=memory())


@valid("Memory.free")
def _(method: str) -> Call:
    return Call(method, memory())


# ------------------------------------------------------------------------ executions


PREPARED: dict[str, dict[str, Any]] = {
    "Execution.enable_input_and_output_padding": {"enable": True},
    "Execution.set_loop_timeout": {"duration": 10},
    "Execution.set_measure_timing": {"measure": True},
    "Execution.set_reusable": {"reusable": True},
    "Execution.set_timeout": {"duration": 10},
}


@valid(*PREPARED)
def _(method: str) -> Call:
    return Call(method, nnapi.Execution(compiled()), **PREPARED[method])


@valid("Execution.set_input", "Execution.set_output")
def _(method: str) -> Call:
    return Call(method, nnapi.Execution(compiled()), index=0, buffer=array())


@valid("Execution.set_input_from_memory", "Execution.set_output_from_memory")
def _(method: str) -> Call:
    made = nnapi.Execution(compiled())
    return Call(method, made, index=0, memory=memory(), offset=8, length=SIZE)


@valid("Execution.compute", "Execution.start_compute", "Execution.free")
def _(method: str) -> Call:
    return Call(method, execution())


@valid("Execution.burst_compute")
def _(method: str) -> Call:
    compilation = compiled()
    return Call(method, execution(compilation), burst=nnapi.Burst(compilation))


@valid("Execution.start_compute_with_dependencies")
def _(method: str) -> Call:
    return Call(method, execution(), dependencies=[event()], duration=0)


@valid("Execution.get_duration")
def _(method: str) -> Call:
    made = execution()
    made.set_measure_timing(True)
    made.compute()
    return Call(method, made, duration_code=0)


@valid("Execution.get_output_operand_rank", "Execution.get_output_operand_dimensions")
def _(method: str) -> Call:
    return Call(method, computed(), index=0)


# ------------------------------------------------------------------------ events


@valid("Event.wait", "Event.free", "Event.get_sync_fence_fd")
def _(method: str) -> Call:
    return Call(method, event())


@valid("Event.create_from_sync_fence_fd")
def _(method: str) -> Call:
    return Call(method, sync_fence_fd=0)
