"""What models can run on here."""

from __future__ import annotations

from functools import cache

from nnconv.backends import Device, devices

REFERENCE = "reference"
"""The device that does everything; it is the last one of the list."""

UNINTERRUPTIBLE = frozenset({"litert:cpu"})
"""The devices that can't be stopped while they run: they get no model with loops."""

SERIAL = frozenset({"litert:cpu"})
"""The devices whose compiled models do one run at a time."""


@cache
def available() -> tuple[Device, ...]:
    """Every device that can be used here, the quickest first and the reference last."""
    found = [device for device in devices() if device.available]
    return tuple(sorted(found, key=lambda device: device.name == REFERENCE))
