"""What models can run on here."""

from __future__ import annotations

from functools import cache

from nnconv.backends import REFERENCE, SERIAL, UNINTERRUPTIBLE, Device, devices

__all__ = ["REFERENCE", "SERIAL", "UNINTERRUPTIBLE", "available"]


@cache
def available() -> tuple[Device, ...]:
    """Every device that can be used here, the quickest first and the reference last."""
    found = [device for device in devices() if device.available]
    return tuple(sorted(found, key=lambda device: device.name == REFERENCE))
