"""How long a run may take: set by the caller around it, heeded by the backends that can stop.

with limited(Limits(deadline=time.monotonic() + 0.1)):
    executable.run(feeds)  # raises DeadlineError when it takes longer
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import NamedTuple

from nnconv.errors import BackendError


class DeadlineError(BackendError):
    """A run, or a loop in it, took longer than it may."""


class Limits(NamedTuple):
    """The time that a run may take.

    Attributes:
        deadline: when it must have ended, in seconds of ``time.monotonic``; None for never.
        loop_seconds: how long each loop may turn; None for ever.
    """

    deadline: float | None = None
    loop_seconds: float | None = None

    def check(self) -> None:
        """See that the deadline hasn't passed.

        Raises:
            DeadlineError: it has.
        """
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise DeadlineError("the run took longer than it may")

    def in_loop(self) -> Limits:
        """The limits inside a loop that begins now."""
        if self.loop_seconds is None:
            return self
        end = time.monotonic() + self.loop_seconds
        deadline = end if self.deadline is None else min(end, self.deadline)
        return self._replace(deadline=deadline)

    def seconds_left(self) -> float | None:
        """How long a run, and any loop in it, may still take; None for as long as it likes."""
        left = None if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)
        known = [seconds for seconds in (left, self.loop_seconds) if seconds is not None]
        return min(known, default=None)


NO_LIMITS = Limits()

_current: ContextVar[Limits] = ContextVar("limits", default=NO_LIMITS)


def current_limits() -> Limits:
    """The limits of the run in progress in this thread."""
    return _current.get()


@contextlib.contextmanager
def limited(limits: Limits) -> Iterator[None]:
    """Hold the runs inside to limits, in this thread."""
    token = _current.set(limits)
    try:
        yield
    finally:
        _current.reset(token)
