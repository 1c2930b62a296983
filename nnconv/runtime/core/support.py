"""Which operations of a model a device can run."""

from __future__ import annotations

from collections.abc import Sequence

from nnconv import backends
from nnconv.errors import InvalidModelError, NnconvError
from nnconv.runtime.core.devices import REFERENCE
from nnconv.runtime.core.program import Source, readable


def supported(source: Source, devices: Sequence[str]) -> list[bool]:
    """Whether any of the devices runs an operation, for each of a model."""
    steps = sorted(source.steps(), key=lambda step: step.number)
    found = [False] * len(steps)
    for device in devices:
        if all(found):
            break
        if _takes(source, device):
            found = [True] * len(steps)
        else:
            found = [
                done
                or (readable(step.source) if device == REFERENCE else _takes(step.source, device))
                for done, step in zip(found, steps, strict=True)
            ]
    return found


def _takes(source: Source, device: str) -> bool:
    """Whether a device runs a model, be it of one operation."""
    try:
        model = source.read()
        if device != REFERENCE:  # which runs all that can be read
            backends.compile_pieces(model, [device]).close()
    except InvalidModelError:
        return True  # no device gives it a meaning; that is for the run to tell
    except NnconvError:
        return False
    return True
