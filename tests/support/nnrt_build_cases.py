"""What breaks the rules on devices and compilations."""

import atexit
import tempfile
from pathlib import Path
from typing import Any

from nnconv.errors import UnsupportedError
from nnconv.runtime import nnrt
from nnconv.runtime.nnrt import OperationType, device
from nnconv.runtime.nnrt.cache import MOST_BYTES, NAME
from support.nnrt_calls import Call
from support.nnrt_cases import (
    RUNTIME,
    case,
    fails_invalid,
    limit_devices,
    remove_devices,
    setting,
)
from support.nnrt_runtime import (
    ONNXRUNTIME,
    built,
    described,
    device_id,
    finished,
    prepared,
)

UNKNOWN = 12345
"""A number that no device has."""

# ------------------------------------------------------------------------ helpers

FOLDERS = tempfile.TemporaryDirectory()
atexit.register(FOLDERS.cleanup)


def new_folder() -> str:
    """An empty folder, for as long as the process lives."""
    return tempfile.mkdtemp(dir=FOLDERS.name)


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
    folder = new_folder()
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
    call.target.set_cache(new_folder(), 1)


@case("device does not support some op")
def _(call: Call) -> None:
    def refuse(*_: Any) -> None:
        raise UnsupportedError([])

    call.patch.setattr("nnconv.runtime.core.program.backends.compile", refuse)


@case("cache directory missing or version 4294967295 when saving")
def _(call: Call) -> None:
    call.target = cached("/nowhere")
    fails_invalid(call)
    call.target = cached(new_folder(), (1 << 32) - 1)


@case("writing a cache file fails")
def _(call: Call) -> None:
    call.target = cached(new_folder())

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
