"""ANeuralNetworksDevice, and the functions that belong to no object."""

from __future__ import annotations

from functools import cache

from nnconv import backends
from nnconv.formats.nnapi.types import (
    LEVELS,
    NEWEST_LEVEL,
    DeviceTypeCode,
    FeatureLevelCode,
    ResultCode,
    level_code,
)
from nnconv.runtime.core.devices import available
from nnconv.runtime.nnapi.errors import Error, bad_state, call, index_of

TYPES = {"cpu": DeviceTypeCode.CPU, "gpu": DeviceTypeCode.GPU}

DEFAULT_LOOP_TIMEOUT = 2_000_000_000
MAXIMUM_LOOP_TIMEOUT = 15_000_000_000
"""In nanoseconds."""


class Device:
    """Something that runs models; ``get_device`` gives those that there are."""

    def __init__(self, info: backends.Device) -> None:
        self._info = info

    @call
    def get_name(self) -> str:
        """What nnconv calls it, such as ``onnxruntime:cpu``."""
        return self._info.name

    @call
    def get_type(self) -> DeviceTypeCode:
        """The kind of hardware.

        Raises:
            Error: OP_FAILED, it isn't known.
        """
        kind: DeviceTypeCode | None = TYPES.get(self._info.type)
        if kind is None:
            raise Error(ResultCode.OP_FAILED, f"the device has the type {self._info.type!r}")
        return kind

    @call
    def get_version(self) -> str:
        """The version of the runtime behind it."""
        return self._info.version

    @call
    def get_feature_level(self) -> FeatureLevelCode:
        """The newest feature level that it serves.

        Raises:
            Error: BAD_STATE, it has no code.
        """
        level = NEWEST_LEVEL if self._info.feature_level is None else self._info.feature_level
        if level not in LEVELS:
            raise bad_state(f"feature level {level} has no code")
        return level_code(level)

    @call
    def wait(self) -> None:
        """Wait until it can be used.

        Raises:
            Error: UNAVAILABLE_DEVICE, it can't be any more.
        """
        if not self._info.available:
            raise Error(ResultCode.UNAVAILABLE_DEVICE, self._info.why_not)

    def __repr__(self) -> str:
        return f"<Device {self._info.name}>"


@cache
def all_devices() -> tuple[Device, ...]:
    """Every device, the reference last."""
    return tuple(Device(info) for info in available())


def get_device_count() -> int:
    """How many devices there are."""
    return len(all_devices())


def get_device(index: int) -> Device:
    """A device; the last one is the reference.

    Raises:
        Error: BAD_DATA, there are fewer.
    """
    devices = all_devices()
    return devices[index_of(index, len(devices), "device")]


def get_default_loop_timeout() -> int:
    """How long a WHILE may turn where nothing else is said, in nanoseconds."""
    return DEFAULT_LOOP_TIMEOUT


def get_maximum_loop_timeout() -> int:
    """How long a WHILE may turn at most, in nanoseconds."""
    return MAXIMUM_LOOP_TIMEOUT


def get_runtime_feature_level() -> FeatureLevelCode:
    """The feature level of the runtime."""
    return level_code(NEWEST_LEVEL)
