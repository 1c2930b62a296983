"""Which operations of a model a device can run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nnconv import backends
from nnconv.errors import InvalidModelError, NnconvError
from nnconv.ir.graph import Model
from nnconv.runtime.core.devices import REFERENCE


class Operations(Protocol):
    """A model of a programming model, operation by operation."""

    def known(self) -> Sequence[bool]:
        """Whether nnconv reads an operation, for each."""

    def whole(self) -> Model:
        """The model.

        Raises:
            NnconvError: it can't be read.
        """

    def alone(self, index: int) -> Model:
        """The model of one operation.

        Raises:
            NnconvError: it can't be read.
        """


def supported(operations: Operations, devices: Sequence[str]) -> list[bool]:
    """Whether any of the devices runs an operation, for each of a model."""
    known = operations.known()
    found = [False] * len(known)
    for device in devices:
        if all(found):
            break
        if device == REFERENCE:
            found = [done or reads for done, reads in zip(found, known, strict=True)]
        elif _takes(operations, device, None):
            found = [True] * len(found)
        else:
            found = [done or _takes(operations, device, index) for index, done in enumerate(found)]
    return found


def _takes(operations: Operations, device: str, index: int | None) -> bool:
    """Whether a device runs an operation, or the model as a whole."""
    try:
        model = operations.whole() if index is None else operations.alone(index)
        backends.compile_pieces(model, [device]).close()
    except InvalidModelError:
        return True  # no device gives it a meaning; that is for the run to tell
    except NnconvError:
        return False
    return True
