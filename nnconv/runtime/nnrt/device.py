"""The devices: OH_NNDevice_*."""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any, NamedTuple

from nnconv import backends
from nnconv.formats.nnrt.types import V1, V2, VERSIONS, DeviceType
from nnconv.runtime.core.devices import REFERENCE, available
from nnconv.runtime.nnrt.errors import failed, integer, invalid, unavailable

TYPES = {"cpu": DeviceType.CPU, "gpu": DeviceType.GPU}

CACHE, FLOAT16, MODES, PRIORITIES = "cache", "float16", "performance modes", "priorities"
DYNAMIC, RANGES = "open dimensions", "ranges of dimensions"
"""What a device may lack."""

LACKS = {REFERENCE: frozenset({CACHE})}
"""What devices do lack."""

MOST_SIZE = (1 << 64) - 1
MOST_EXTENT = (1 << 31) - 1


class Device(NamedTuple):
    """Something that runs models.

    Attributes:
        id: its number, the same in every process.
        info: what the backend says of it.
        lacks: what it can't do.
    """

    id: int
    info: backends.Device
    lacks: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """What nnconv calls it."""
        return self.info.name

    def dim_range(self, dimensions: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The least and the greatest extents of an input that a model declares with these."""
        low = tuple(1 if extent < 0 else extent for extent in dimensions)
        high = tuple(MOST_EXTENT if extent < 0 else extent for extent in dimensions)
        return low, high


@cache
def all_devices() -> tuple[Device, ...]:
    """Every device, the quickest first and the reference last."""
    return tuple(
        Device(zlib.crc32(info.name.encode()), info, LACKS.get(info.name, frozenset()))
        for info in available()
    )


def find(device_id: Any, api: int = V2) -> Device | None:
    """A device by its number; 0 is the first one, but not in API v1."""
    number = integer(device_id, "the device's id", low=0, high=MOST_SIZE)
    devices = all_devices()
    if not number and api == V2:
        return devices[0] if devices else None
    return next((device for device in devices if device.id == number), None)


def check_api(api: int) -> int:
    """A version of the API.

    Raises:
        Error: INVALID_PARAMETER, there is no such version.
    """
    if integer(api, "api") not in VERSIONS:
        raise invalid(f"api is {api!r}, must be {V1} or {V2}")
    return int(api)


def get_all_devices_id() -> tuple[int, ...]:
    """The number of each device; the first is the default, the last the reference."""
    return tuple(device.id for device in all_devices())


def get_name(device_id: int, *, api: int = V2) -> str:
    """What nnconv calls a device, such as ``onnxruntime:cpu``.

    Raises:
        Error: FAILED, there is no such device.
    """
    device = find(device_id, check_api(api))
    if device is None:
        raise failed(f"there is no device {device_id}")
    return device.name


def get_type(device_id: int, *, api: int = V2) -> DeviceType:
    """The kind of a device's hardware.

    Raises:
        Error: INVALID_PARAMETER, there is no such device; UNAVAILABLE_DEVICE (in API v1
            UNAVALIDABLE_DEVICE).
    """
    device = find(device_id, check_api(api))
    if device is None:
        raise invalid(f"there is no device {device_id}")
    if not device.info.available:
        raise unavailable(device.info.why_not, api)
    kind: DeviceType = TYPES.get(device.info.type, DeviceType.OTHERS)
    return kind
