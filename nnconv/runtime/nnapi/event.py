"""ANeuralNetworksEvent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnconv.formats.nnapi.types import ResultCode
from nnconv.runtime.core.checks import shown
from nnconv.runtime.core.tasks import Task
from nnconv.runtime.nnapi.errors import Error, bad_data, call, expect

FOLDED = {
    ResultCode.UNEXPECTED_NULL: ResultCode.BAD_DATA,
    ResultCode.BAD_STATE: ResultCode.OP_FAILED,
    ResultCode.INCOMPLETE: ResultCode.OP_FAILED,
    ResultCode.OUT_OF_MEMORY: ResultCode.OP_FAILED,
    ResultCode.UNMAPPABLE: ResultCode.OP_FAILED,
    ResultCode.DEAD_OBJECT: ResultCode.OP_FAILED,
}
"""The codes that an event gives in other words."""


class Event:
    """The end of a computation in the background."""

    def __init__(self, task: Task[Error | None]) -> None:
        """Stand for a task; programs get events from executions."""
        self._task = task

    @classmethod
    def of(cls, work: Callable[[], Error | None]) -> Event:
        """The event of work that begins now in the background, and gives what went wrong.

        Raises:
            Error: RESOURCE_EXHAUSTED_TRANSIENT, there can be no more threads.
        """
        try:
            return cls(Task(work))
        except RuntimeError as error:
            raise Error(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, str(error)) from error

    @classmethod
    def create_from_sync_fence_fd(cls, sync_fence_fd: int) -> Event:
        """Refuse: sync fences are Android's, so no descriptor is one.

        Raises:
            Error: BAD_DATA.
        """
        raise bad_data(f"descriptor {shown(sync_fence_fd)} is no sync fence")

    def free(self: Event | None) -> None:
        """Wait for the computation; the event goes when nothing refers to it any more."""
        if self is not None:
            self._task.wait()

    @call
    def wait(self) -> None:
        """Wait for the computation; this may be done repeatedly, and by several threads.

        Raises:
            Error: the computation failed; the code says how.
        """
        failure = self._task.wait()
        if failure is not None:
            code = FOLDED.get(failure.code, failure.code)
            raise Error(code, failure.message.partition(": ")[2]) from failure

    def demand_success(self) -> None:
        """Wait for the computation.

        Raises:
            Error: OP_FAILED, it failed.
        """
        failure = self._task.wait()
        if failure is not None:
            raise Error(
                ResultCode.OP_FAILED, f"an event that was waited for failed: {failure}"
            ) from failure

    @call
    def get_sync_fence_fd(self) -> int:
        """Refuse: no event has a sync fence but on Android.

        Raises:
            Error: BAD_DATA.
        """
        raise bad_data("the event has no sync fence")

    @classmethod
    def checked(cls, event: Any) -> Event:
        """An entry of a list of events.

        Raises:
            Error: UNEXPECTED_NULL or BAD_DATA, it is none.
        """
        expect(event, cls, "an event")
        found: Event = event
        return found
