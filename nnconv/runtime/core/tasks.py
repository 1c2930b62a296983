"""Work in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Task(Generic[Result]):
    """Work that a thread of its own does; any thread may wait for it, as often as it likes.

    A process doesn't end before it: devices crash where their threads are cut off.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        """Start the work; whatever goes wrong in it must be part of its result.

        Raises:
            RuntimeError: the system has no thread for it.
        """
        self._work = work
        self._result: list[Result] = []
        self._thread = threading.Thread(target=self._run, daemon=False)
        self._thread.start()

    def _run(self) -> None:
        self._result.append(self._work())

    def wait(self) -> Result:
        """The result, once it is there."""
        self._thread.join()
        return self._result[0]
