"""OH_NNCompilation."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from nnconv.backends import NoDeviceError
from nnconv.errors import NnconvError, plural
from nnconv.formats.nnrt.check import structure_findings
from nnconv.formats.nnrt.device import device_faults
from nnconv.formats.nnrt.types import V1, V2, PerformanceMode, Priority, ReturnCode
from nnconv.formats.nnrt.wire import Graph
from nnconv.runtime.core.checks import shown
from nnconv.runtime.core.program import Program
from nnconv.runtime.nnrt import device
from nnconv.runtime.nnrt.cache import ModelCache
from nnconv.runtime.nnrt.desc import MOST_SIZE
from nnconv.runtime.nnrt.device import (
    CACHE,
    DYNAMIC,
    FLOAT16,
    MODES,
    PRIORITIES,
    Device,
)
from nnconv.runtime.nnrt.errors import (
    Error,
    Handle,
    bytes_of,
    call,
    existing,
    failed,
    flag,
    forbidden,
    integer,
    invalid,
    null,
    pointer,
    unavailable,
)
from nnconv.runtime.nnrt.model import Model
from nnconv.runtime.nnrt.source import ModelSource

MOST_VERSION = (1 << 32) - 1


class Compilation(Handle):
    """A model being made ready for a device.

    Attributes:
        api: the version of the API, which is the model's.
        device_id: of the device; 0 is the first one, and lets others help it.
        graph: what was built; None before.
        program: the same, compiled.
    """

    @pointer
    def __init__(self, model: Model) -> None:
        """Prepare the compilation of a model.

        Raises:
            Error: NULL_PTR: there is no model, or in API v1 it isn't finished.
        """
        existing(model, Model, "model")
        if model.api == V1 and not model.finished:
            raise invalid("the model isn't finished")
        self._start(model)

    def _start(self, model: Model | None, offline: str = "") -> None:
        self.api = V2 if model is None else model.api
        self.device_id = 0
        self.graph: Graph | None = None
        self.program: Program | None = None
        self._model = model
        self._offline = offline
        self._device_set = False
        self._build_called = False
        self._cache: tuple[str, int] | None = None
        self._mode = int(PerformanceMode.NONE)
        self._priority = int(Priority.NONE)
        self._float16 = False
        self._extensions: dict[str, bytes] = {}

    @classmethod
    @pointer
    def construct(cls, model: Model) -> Compilation:
        """The same as the constructor.

        Raises:
            Error: NULL_PTR.
        """
        return cls(model)

    @classmethod
    def _without_model(cls, offline: str = "") -> Compilation:
        made = cls.__new__(cls)
        cls._start(made, None, offline)
        return made

    @classmethod
    @pointer
    def construct_with_offline_model_file(cls, model_path: str | os.PathLike[str]) -> Compilation:
        """Take a model made for a device beforehand. No device here knows any: building fails.

        Raises:
            Error: NULL_PTR.
        """
        return cls._without_model(_path(model_path, "model_path"))

    @classmethod
    @pointer
    def construct_with_offline_model_buffer(
        cls, model_buffer: Any, model_size: int | None = None
    ) -> Compilation:
        """Take a model made for a device beforehand. No device here knows any: building fails.

        Raises:
            Error: NULL_PTR.
        """
        _demand_buffer(model_buffer, model_size, "model_buffer")
        return cls._without_model("a buffer")

    @classmethod
    @pointer
    def construct_for_cache(cls) -> Compilation:
        """Take the model from a cache, which ``set_cache`` names.

        Raises:
            Error: NULL_PTR.
        """
        return cls._without_model()

    def destroy(self: Compilation | None) -> None:
        """End it; executors live on. Nothing happens where its device is gone."""
        if self is None or self.destroyed:
            return
        if self.program is None or device.find(self.device_id, V2) is not None:
            self.destroyed = True

    # ---------------------------------------------------------------- settings

    @property
    def is_built(self) -> bool:
        """Whether it was built without an error."""
        return self.program is not None

    def _look_at(self, setting: int, ability: str, check: Callable[[int], None]) -> None:
        """Check a setting: at once in API v1, in v2 only once it is built."""
        if self.api == V1:
            self._demand_v1_state(ability)
        if self.api == V1 or self.is_built:
            check(setting)

    def _demand_v1_state(self, ability: str) -> None:
        """See to what API v1 wants before a setting: not built, and a device that has it."""
        if self.is_built:
            raise forbidden("the compilation is built")
        if not self._device_set:
            raise forbidden("no device is set")
        if ability in self._device().lacks:
            raise forbidden(f"{self._device().name} has no {ability}")

    def _device(self) -> Device:
        found = device.find(self.device_id, self.api)
        if found is None:
            raise failed(f"there is no device {self.device_id}")
        return found

    @call
    def set_device(self, device_id: int) -> None:
        """Choose the device. In API v2 whether it exists and takes the model shows in ``build``.

        Raises:
            Error: INVALID_PARAMETER. In v1 also OPERATION_FORBIDDEN or FAILED.
        """
        number = integer(device_id, "device_id", low=0, high=MOST_SIZE)
        if self.api == V1:
            self._check_v1_device(number)
        self.device_id = number
        self._device_set = True

    def _check_v1_device(self, number: int) -> None:
        if self.is_built:
            raise forbidden("the compilation is built")
        found = device.find(number, V1)
        if found is None:
            raise invalid(f"there is no device {number}")
        assert self._model is not None
        if not all(self._model.get_available_operations(number)):
            raise failed(f"{found.name} lacks an operation of the model")
        if DYNAMIC in found.lacks and ModelSource(self._model.graph).known_shapes() is None:
            raise failed(f"{found.name} takes no open dimensions")

    @call
    def set_cache(self, cache_path: str | os.PathLike[str], version: int) -> None:
        """Say where compiled models are kept, and which version of the model this is.

        Raises:
            Error: INVALID_PARAMETER. In v1 also OPERATION_FORBIDDEN.
        """
        path = _path(cache_path, "cache_path")
        number = integer(version, "version", low=0, high=MOST_VERSION)
        if self.api == V1:
            self._demand_v1_state(CACHE)
            if not os.path.isdir(path):  # noqa: PTH112 - an empty path is no folder
                raise invalid(f"{path!r} is no folder")
        self._cache = (path, number)

    @call
    def set_performance_mode(self, performance_mode: int) -> None:
        """Say how quick it should be. No device here is quicker for it.

        Raises:
            Error: OPERATION_FORBIDDEN or INVALID_PARAMETER: in v2 only once it is built.
        """
        mode = integer(performance_mode, "performance_mode")
        self._look_at(mode, MODES, self._check_mode)
        self._mode = mode

    @call
    def set_priority(self, priority: int) -> None:
        """Say how important it is. No device here serves it sooner for it.

        Raises:
            Error: OPERATION_FORBIDDEN or INVALID_PARAMETER: in v2 only once it is built.
        """
        level = integer(priority, "priority")
        self._look_at(level, PRIORITIES, self._check_priority)
        self._priority = level

    @call
    def enable_float16(self, enable_float16: bool) -> None:  # noqa: FBT001 - as in C
        """Say whether float32 may be computed as coarsely as float16. No device here does.

        Raises:
            Error: INVALID_PARAMETER. In v1 also OPERATION_FORBIDDEN.
        """
        wanted = flag(enable_float16, "enable_float16")
        if self.api == V1:
            self._demand_v1_state(FLOAT16)
        self._float16 = wanted

    @call
    def add_extension_config(
        self, config_name: Any, config_value: Any, config_value_size: int | None = None
    ) -> None:
        """Give a setting that a device may know; what comes for the same name is appended.

        Raises:
            Error: INVALID_PARAMETER, or OPERATION_FORBIDDEN in API v1.
        """
        self._demand_v2("add_extension_config")
        if config_name is None:
            raise null("config_name")
        value = _demand_buffer(config_value, config_value_size, "config_value")
        if not isinstance(config_name, str) or not config_name:
            raise invalid(f"config_name is {shown(config_name)}, must be a text")
        before = self._extensions.get(config_name)
        self._extensions[config_name] = value if before is None else before + b"|" + value

    # ---------------------------------------------------------------- caches in memory

    @call
    def export_cache_to_buffer(self, buffer: Any, length: int | None = None) -> int:
        """Refuse: no device here gives a compiled model as bytes.

        Raises:
            Error: INVALID_PARAMETER; UNSUPPORTED for a compilation that is built.
        """
        self._demand_v2("export_cache_to_buffer")
        _demand_buffer(buffer, length, "buffer")
        if not self.is_built:
            raise invalid("the compilation isn't built")
        raise Error(ReturnCode.UNSUPPORTED, "no device gives a compiled model as bytes")

    @call
    def import_cache_from_buffer(self, buffer: Any, model_size: int | None = None) -> None:
        """Take a compiled model. No device here knows any: building fails.

        Raises:
            Error: INVALID_PARAMETER, or OPERATION_FORBIDDEN in API v1.
        """
        self._demand_v2("import_cache_from_buffer")
        _demand_buffer(buffer, model_size, "buffer")
        self._offline = "a buffer"

    def _demand_v2(self, what: str) -> None:
        if self.api == V1:
            raise forbidden(f"API v1 has no {what}")

    # ---------------------------------------------------------------- building

    @call
    def build(self) -> None:
        """Compile the model; from then on threads may make executors of the compilation.

        Raises:
            Error: INVALID_PARAMETER, OPERATION_FORBIDDEN, FAILED (the device doesn't take the
                model), UNAVAILABLE_DEVICE (no device can give it a meaning),
                SAVE_CACHE_EXCEPTION. In v1 UNAVALIDABLE_DEVICE and INVALID_FILE.
        """
        if self.api == V1:
            if self.is_built:
                raise forbidden("the compilation is built")
            if not self._device_set:
                raise forbidden("no device is set")
        else:
            if self._model is not None and self._offline:
                raise invalid("there is more than one model: one built, and one made beforehand")
            if self._build_called:
                raise invalid("build was called before")
        self._build_called = True
        found = self._device()
        if self._offline:
            raise failed(f"{found.name} knows no models made beforehand")
        self._check_settings(found)
        model = self._model
        if model is not None and (model.destroyed or not model.usable):
            raise invalid("the model isn't finished")
        self._build(found, None if model is None else model.graph)

    def _check_settings(self, found: Device) -> None:
        if self._cache is not None and self._cache[0] and CACHE in found.lacks:
            raise forbidden(f"{found.name} has no {CACHE}")
        if self._float16 and FLOAT16 in found.lacks:
            raise forbidden(f"{found.name} has no {FLOAT16}")
        self._check_mode(self._mode)
        self._check_priority(self._priority)

    def _check_mode(self, mode: int) -> None:
        if mode != PerformanceMode.NONE and MODES in self._device().lacks:
            raise forbidden(f"{self._device().name} has no {MODES}")
        if mode not in PerformanceMode.__members__.values():
            raise invalid(f"there is no performance mode {mode}")

    def _check_priority(self, level: int) -> None:
        if level != Priority.NONE and PRIORITIES in self._device().lacks:
            raise forbidden(f"{self._device().name} has no {PRIORITIES}")
        if level not in Priority.__members__.values():
            raise invalid(f"there is no priority {level}")

    def _build(self, found: Device, graph: Graph | None) -> None:
        cache = None
        if self._cache is not None and self._cache[0]:
            cache = ModelCache(*self._cache, found.name)
            strict = self.api == V1
            kept = cache.read(strict=strict, wanted=strict or graph is None)
            graph = kept if graph is None else graph
        if graph is None:
            raise invalid("there is neither a model nor a cache that has one")
        for operation in graph.operations:
            for fault in device_faults(operation, graph, self.api):
                raise failed(f"no device takes {operation.type.name}: {fault}")
        for finding in structure_findings(graph):
            raise unavailable(str(finding), self.api)
        source = ModelSource(graph)
        fingerprint = b"" if cache is None else source.fingerprint()
        slot = None if cache is None else cache.slot(fingerprint)
        helpers = () if self._device_set and self.device_id else device.all_devices()
        names = dict.fromkeys((found.name, *(helper.name for helper in helpers)))
        program = Program(source, tuple(names), cache=slot)
        try:
            program.prepare()
        except NoDeviceError as error:
            raise failed(f"{found.name} doesn't take the model: {error}") from error
        except NnconvError as error:
            raise unavailable(str(error), self.api) from error
        if (broken := program.fault()) is not None:
            raise unavailable(str(broken), self.api) from broken
        if cache is not None:
            cache.save(graph, fingerprint)
        self.graph = graph
        self.program = program


def _path(value: Any, what: str) -> str:
    if value is None:
        raise null(what)
    try:
        return os.fsdecode(value)
    except TypeError as error:
        raise invalid(f"{what} is {shown(value)}, must be a path") from error


def _demand_buffer(buffer: Any, length: int | None, what: str) -> bytes:
    """The bytes of a buffer, or the first ``length`` of them.

    Raises:
        Error: INVALID_PARAMETER, there are none.
    """
    if buffer is None:
        raise null(what)
    data = bytes_of(buffer, what)
    size = len(data) if length is None else integer(length, "the length", low=0)
    if not 0 < size <= len(data):
        raise invalid(f"the length is {size}, {what} has {plural(len(data), 'byte')}")
    return data[:size].tobytes()
