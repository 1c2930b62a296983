"""Has a runtime's crash end in an error of the program, not in the end of the program."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from nnconv.errors import BackendError

_DIE_WITH_PARENT = 1
"""``PR_SET_PDEATHSIG`` of Linux's prctl."""


def outlive(what: str) -> None:
    """Let a child go on from here, and end as it ends.

    Only the child comes back. Nothing happens on other systems than Linux, where a process can't
    be relied on to go on in a copy.

    Args:
        what: what may crash, for the message.

    Raises:
        BackendError: the child was ended by a signal.
        SystemExit: the child ended, with its code.
    """
    if sys.platform != "linux":
        return
    sys.stdout.flush()
    sys.stderr.flush()
    parent, child = os.getpid(), os.fork()
    if not child:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return
    code = _end_of(child)
    if code < 0:
        raise BackendError(
            f"{what} {death(code)}",
            hint="another device may do (--device reference), or the file that `nnconv convert` "
            "makes of this one",
        )
    raise SystemExit(code)


def _end_of(child: int) -> int:
    """The exit code of a process, or the negative number of its signal."""
    while True:
        try:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        except KeyboardInterrupt:
            continue  # the child is interrupted too, and says so


def death(code: int) -> str:
    """How a process ended that was to end with 0: its exit code, or its signal if negative."""
    if code >= 0:
        return f"ended its process with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"crashed ({name})"
