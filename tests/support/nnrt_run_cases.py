"""What breaks the rules on executors."""

from typing import Any

import numpy as np

from nnconv.errors import BackendError
from nnconv.runtime import nnrt
from nnconv.runtime.core.program import Program
from nnconv.runtime.nnrt import Tensor, TensorType, device
from support.nnrt_build_cases import misfit
from support.nnrt_calls import Call
from support.nnrt_cases import (
    HUGE,
    LIMIT,
    RUNTIME,
    case,
    fails_invalid,
    fails_null,
    limit_devices,
    no_memory,
    remove_devices,
    setting,
)
from support.nnrt_runtime import (
    SIZE,
    array,
    compiled,
    described,
    device_tensor,
    executor,
    finished,
    prepared,
)

# ------------------------------------------------------------------------ helpers


def failing(*_: Any, **__: Any) -> Any:
    raise BackendError("it fails on purpose")


def nothing(*_: Any, **__: Any) -> None:
    return None


def giving(call: Call, *results: np.ndarray) -> None:
    """Let runs give something else."""
    call.patch.setattr(Program, "bind", nothing)
    call.patch.setattr(Program, "run", lambda *_: list(results))


def scalar_model(api: int = 2) -> nnrt.Model:
    """ADD of scalars."""
    return finished((), api)


# ------------------------------------------------------------------------ executors


@case("device unknown")
def _(call: Call) -> None:
    remove_devices(call)


@case("not built")
def _(call: Call) -> None:
    call.args["compilation"] = prepared(api=call.api)


@case("no prepared model or no input/output descs")
def _(call: Call) -> None:
    made = prepared(misfit())
    call.args["compilation"] = made
    try:
        made.build()
    except nnrt.Error:
        return
    raise AssertionError("a model that makes no sense is built")


setting("outputIndex not below the output count", output_index=1)
setting("inputIndex not below the input count", input_index=2)
setting("index not below the count", "Executor.create_input_tensor_desc", index=2)
setting("index not below the count", "Executor.create_output_tensor_desc", index=1)
setting("index not below the count", "Executor.get_input_dim_range", index=2)
setting("index not below the count", "Executor.allocate_input_memory", input_index=2)
setting("index not below the count", "Executor.allocate_output_memory", output_index=1)


@case("no successful Run since the last set call")
def _(call: Call) -> None:
    call()
    call.target.set_output(0, array())


@case("driver cannot tell (HDI 1.0)")
def _(call: Call) -> None:
    limit_devices(call, device.RANGES)
    call.renew()


@case("min and max ranks differ")
def _(call: Call) -> None:
    call.patch.setattr(device.Device, "dim_range", lambda *_: ((1,), (1, 1)))


# ------------------------------------------------------------------------ inputs


setting("length is 0", "Executor.set_input", length=0)
setting("length is 0", "Executor.set_output", length=0)
setting("length below the tensor byte size", length=SIZE - 1)


@case("driver reports dim ranges and index is out of range, rank differs, a dim is negative or"
      " outside the range")  # fmt: skip
def _(call: Call) -> None:
    call.args["input_index"] = 2
    fails_invalid(call)
    call.args["input_index"] = 0
    for dimensions in ((6,), (-1, 3), (3, 2)):
        call.args["tensor"] = described(dimensions)
        fails_invalid(call)


@case("tensor description is invalid (same checks as AddTensor)")
def _(call: Call) -> None:
    call.args["tensor"] = Tensor(13, (2, 3))
    fails_invalid(call)
    call.args["tensor"] = described((0, 3))


@case("tensor still has a -1 dim")
def _(call: Call) -> None:
    limit_devices(call, device.RANGES)
    call.renew()
    call.target = executor_of((-1, 3))
    call.args["tensor"] = described((-1, 3))


def executor_of(dimensions: tuple[int, ...], api: int = 2) -> nnrt.Executor:
    return nnrt.Executor(compiled(finished(dimensions, api), api=api))


@case("dtype, rank, a fixed dim or tensor type differs from the model")
def _(call: Call) -> None:
    limit_devices(call, device.RANGES)
    call.renew()
    for tensor in (
        described(kind=nnrt.DataType.INT32),
        described((1, 2, 3)),
        described((2, 4)),
        Tensor(nnrt.DataType.FLOAT32, (2, 3), None, TensorType.CLIP_MAX),
    ):
        call.args["tensor"] = tensor
        fails_invalid(call)


@case("device buffer cannot be allocated (limit 1 GiB) or copy fails")
@case("device buffer cannot be allocated")
def _(call: Call) -> None:
    call.args["data_buffer"] = np.empty(HUGE, np.uint8)


@case("memory length 0 or below the tensor byte size")
def _(call: Call) -> None:
    call.args["memory"] = call.target.allocate_input_memory(0, SIZE - 1)


# ------------------------------------------------------------------------ outputs


@case("declared output has no shape (scalar)")
@case("declared output is a scalar")
def _(call: Call) -> None:
    call.target = nnrt.Executor(compiled(scalar_model(call.api), api=call.api))


setting("length below the declared byte size (0 when dynamic)", length=SIZE - 1)


@case("memory length 0 or below the declared byte size")
def _(call: Call) -> None:
    call.args["memory"] = call.target.allocate_output_memory(0, SIZE - 1)


# ------------------------------------------------------------------------ memories


@case("length is 0 or above 1 GiB")
def _(call: Call) -> None:
    call.args["length"] = 0
    fails_null(call)
    call.args["length"] = HUGE


@case("driver allocation fails")
def _(call: Call) -> None:
    call.patch.setattr(f"{RUNTIME}.tensor.Region", no_memory)


@case("index out of range, nothing allocated for it, or memory not from that index")
def _(call: Call) -> None:
    kept = call.args["memory"]
    name = next(iter(call.args))
    call.args[name] = 9
    call()
    call.args[name] = 0
    call.target = executor()
    call()
    assert not kept.destroyed


# ------------------------------------------------------------------------ runs


@case("not every input or output is set")
def _(call: Call) -> None:
    call.target = nnrt.Executor(compiled())
    fails_invalid(call)
    call.target.set_input(0, described(), array())
    call.target.set_input(1, described(), array())


@case("driver fails", "Executor.run", "Executor.run_sync")
def _(call: Call) -> None:
    call.patch.setattr(Program, "bind", nothing)
    call.patch.setattr(Program, "run", failing)


@case("driver returns a different number of output shapes")
def _(call: Call) -> None:
    giving(call)


@case("an output rank differs from the declared one, or a dim is invalid")
def _(call: Call) -> None:
    giving(call, np.zeros(6, np.float32))
    fails_invalid(call)
    giving(call, np.zeros((0, 3), np.float32))


@case("an output shape has rank 0 or above 10")
def _(call: Call) -> None:
    model = scalar_model()
    call.target = nnrt.Executor(compiled(model))
    giving(call, np.zeros((), np.float32))
    if call.method == "Executor.run_sync":
        limit_devices(call, device.RANGES)
        call.target = nnrt.Executor(compiled(model))
        return
    for place in range(2):
        call.target.set_input(place, described(()), np.float32(1))
    # What ``set_output`` refuses: the rule stands behind that of its own.
    call.target._outputs.set(0, call.target._inputs.all_set()[0])


@case("driver reports an output buffer as too small")
@case("user buffer smaller than the real output")
def _(call: Call) -> None:
    call.target = executor_of((-1, 3), call.api)
    for place in range(2):
        call.target.set_input(place, described(), array())
    call.target.set_output(0, np.zeros(5, np.float32))


@case("inputCount is 0 or above 200")
def _(call: Call) -> None:
    call.args["input_tensor"] = []
    fails_invalid(call)
    call.args["input_tensor"] = [device_tensor()] * (LIMIT + 1)


@case("outputCount is 0 or above 200")
def _(call: Call) -> None:
    call.args["output_tensor"] = []
    fails_invalid(call)
    call.args["output_tensor"] = [device_tensor()] * (LIMIT + 1)


@case("counts differ from the model")
def _(call: Call) -> None:
    call.args["input_tensor"] = [device_tensor()]


@case("an input is null while the driver reports dim ranges")
def _(call: Call) -> None:
    call.args["input_tensor"] = [device_tensor(), None]


@case("an input dim is negative or outside the driver range")
def _(call: Call) -> None:
    other = device_tensor((3, 3))
    call.args["input_tensor"] = [other, other]
    fails_invalid(call)
    other.desc.shape = (-1, 3)


@case("a tensor pointer is null")
def _(call: Call) -> None:
    call.args["output_tensor"] = [None]
    fails_invalid(call)
    limit_devices(call, device.RANGES)
    call.renew()
    call.args["input_tensor"] = [device_tensor(), None]


@case("a tensor has no memory, or size-offset is below the byte size of its desc, or its desc has"
      " no shape")  # fmt: skip
def _(call: Call) -> None:
    small = device_tensor((2, 2))
    small.desc.shape = (2, 3)
    shapeless = device_tensor()
    shapeless.desc.shape = ()
    call.args["output_tensor"] = [shapeless]
    try:
        call()
    except nnrt.Error as error:
        assert error.code is nnrt.ReturnCode.FAILED  # noqa: PT017 - a step of a case
    else:
        raise AssertionError("a tensor without a shape is taken")
    call.args["output_tensor"] = [small]
