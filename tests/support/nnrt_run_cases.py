"""What breaks the rules on devices, compilations and executors."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from nnconv.errors import BackendError, UnsupportedError
from nnconv.runtime import nnrt
from nnconv.runtime.core.program import Program
from nnconv.runtime.nnrt import OperationType, Tensor, TensorType, device
from nnconv.runtime.nnrt.cache import MOST_BYTES, NAME
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
    ONNXRUNTIME,
    SIZE,
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

UNKNOWN = 12345
"""A number that no device has."""

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


def misfit() -> nnrt.Model:
    """A model whose operation writes an output that another one writes too: no call looks at it."""
    model = nnrt.Model()
    a, b, out = (model.add_tensor(described()) for _ in range(3))
    for _ in range(2):
        model.add_operation(OperationType.ADD, [], [a, b], [out])
    model.specify_inputs_and_outputs([a, b], [out])
    model.finish()
    return model


def cached(
    folder: str, version: int = 5, api: int = 2, name: str = ONNXRUNTIME
) -> nnrt.Compilation:
    """A compilation with a cache, not built."""
    made = prepared(name=name, api=api)
    made.set_cache(folder, version)
    return made


def filled(version: int = 5, api: int = 2) -> str:
    """A folder with a model that was compiled."""
    folder = tempfile.mkdtemp()
    cached(folder, version, api).build()
    return folder


# ------------------------------------------------------------------------ devices

setting("deviceID unknown", device_id=UNKNOWN)
setting("deviceID 0 is not special", device_id=0)


@case("no device; outputs null and 0")
def _(call: Call) -> None:
    remove_devices(call)
    assert call() == ()


@case("driver fails", "get_type")
def _(call: Call) -> None:
    found = tuple(
        each._replace(info=each.info._replace(available=False)) for each in device.all_devices()
    )
    call.patch.setattr(device, "all_devices", lambda: found)


# ------------------------------------------------------------------------ settings


setting("modelSize is 0", "Compilation.construct_with_offline_model_buffer", model_size=0)
setting("modelSize is 0", "Compilation.import_cache_from_buffer", model_size=0)
setting("length is 0", "Compilation.export_cache_to_buffer", length=0)
setting("configValueSize is 0", config_value_size=0)
setting("configName is an empty string", config_name="")


@case("not built yet")
def _(call: Call) -> None:
    call.target = prepared()


@case("built-in backend")
def _(call: Call) -> None:
    """No device here does this."""


@case("already built")
def _(call: Call) -> None:
    call.target.build()


@case("no device set")
def _(call: Call) -> None:
    call.target = nnrt.Compilation(finished(api=1))


@case("device lacks model caching")
@case("device lacks performance modes")
@case("device lacks priorities")
@case("device lacks float16")
def _(call: Call) -> None:
    limit_devices(call, *ALL)
    call.target = prepared(api=1)


ALL = (device.CACHE, device.MODES, device.PRIORITIES, device.FLOAT16)


@case("path cannot be resolved or is not a directory")
def _(call: Call) -> None:
    call.args["cache_path"] = "/nowhere"
    fails_invalid(call)
    call.args["cache_path"] = __file__


setting("value outside 0..4", performance_mode=5)
setting("value outside 0..3", priority=4)


@case("already built: value rejected by the device rules listed for Build")
def _(call: Call) -> None:
    call.target.build()
    name = next(iter(call.args))
    call.args[name] = 7
    fails_invalid(call)
    limit_devices(call, *ALL)


@case("device lacks an op of the model")
def _(call: Call) -> None:
    model = nnrt.Model(api=1)
    x, y = (model.add_tensor(described(kind=nnrt.DataType.BOOL)) for _ in range(2))
    model.add_operation(OperationType.SIGMOID, [], [x], [y])
    model.specify_inputs_and_outputs([x], [y])
    model.finish()
    call.target = nnrt.Compilation(model)


@case("dynamic inputs not supported by the device")
def _(call: Call) -> None:
    limit_devices(call, device.DYNAMIC)
    call.target = nnrt.Compilation(finished((-1, 3), api=1))


# ------------------------------------------------------------------------ building


@case("more than one model source (model, offline file, offline buffer)")
def _(call: Call) -> None:
    call.target.import_cache_from_buffer(b"model")


@case("Build was called before, successful or not")
def _(call: Call) -> None:
    call()
    fails_invalid(call)
    call.target = prepared()
    call.target.set_priority(9)
    fails_invalid(call)
    call.target.set_priority(0)


@case("device unknown or none registered")
def _(call: Call) -> None:
    call.target.set_device(UNKNOWN)


@case("offline model on the built-in backend")
def _(call: Call) -> None:
    call.target = nnrt.Compilation.construct_with_offline_model_buffer(b"model")


@case("cache path set (not empty) but device has no cache support")
def _(call: Call) -> None:
    call.target.set_cache(tempfile.gettempdir(), 1)


@case("float16 on but device lacks it")
def _(call: Call) -> None:
    limit_devices(call, device.FLOAT16)
    call.target.enable_float16(True)


@case("performance mode other than NONE but device lacks modes")
def _(call: Call) -> None:
    limit_devices(call, device.MODES)
    call.target.set_performance_mode(9)


@case("performance mode outside 0..4")
def _(call: Call) -> None:
    call.target.set_performance_mode(5)


@case("priority other than NONE but device lacks priorities")
def _(call: Call) -> None:
    limit_devices(call, device.PRIORITIES)
    call.target.set_priority(9)


@case("priority outside 0..3")
def _(call: Call) -> None:
    call.target.set_priority(4)


@case("model not finished", "Compilation.build")
def _(call: Call) -> None:
    call.target = nnrt.Compilation(built())


@case("cache of a newer version")
@case("cache of a newer version than requested")
def _(call: Call) -> None:
    call.target = cached(filled(), 4, call.api)


@case("no model and no usable cache")
def _(call: Call) -> None:
    call.target = nnrt.Compilation.construct_for_cache()
    fails_invalid(call)
    call.target = nnrt.Compilation.construct_for_cache()
    call.target.set_device(device_id(ONNXRUNTIME))
    call.target.set_cache(tempfile.mkdtemp(), 1)


@case("device does not support some op")
def _(call: Call) -> None:
    def refuse(*_: Any) -> None:
        raise UnsupportedError([])

    call.patch.setattr("nnconv.runtime.core.program.backends.compile", refuse)


@case("cache directory missing or version 4294967295 when saving")
def _(call: Call) -> None:
    call.target = cached("/nowhere")
    fails_invalid(call)
    call.target = cached(tempfile.mkdtemp(), (1 << 32) - 1)


@case("writing a cache file fails")
def _(call: Call) -> None:
    call.target = cached(tempfile.mkdtemp())

    def fail(*_: Any) -> None:
        raise OSError("it fails on purpose")

    call.patch.setattr(f"{RUNTIME}.cache.file.write", fail)


@case("driver fails to prepare the model")
def _(call: Call) -> None:
    call.target = prepared(misfit())


@case("cache made for another device")
def _(call: Call) -> None:
    call.target = cached(filled(), 5, 1, "litert:cpu")


@case("cache file missing, too large (200 MiB) or checksum wrong")
def _(call: Call) -> None:
    path = Path(filled(api=1)) / NAME
    path.write_bytes(path.read_bytes() + b" ")
    fails_with_file(call, path)
    with path.open("r+b") as file:
        file.truncate(MOST_BYTES + 1)
    fails_with_file(call, path)
    path.unlink()
    call.target = cached(str(path.parent), 5, 1)


def fails_with_file(call: Call, path: Path) -> None:
    call.target = cached(str(path.parent), 5, 1)
    try:
        call()
    except nnrt.Error as error:
        assert error.code is nnrt.ReturnCode.INVALID_FILE  # noqa: PT017 - a step of a case
        return
    raise AssertionError("a broken cache is taken")


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


__all__ = ["desc"]
