"""Runs node tests in a process of its own that may crash or hang and harms nobody.

The two speak in lines of JSON: a name, a route and a resolver there, an error back.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from support.child import Child
from support.places import ROOT

SECONDS = 60.0
"""What a case may take; the slowest needs one."""


class Outcome(NamedTuple):
    """What became of a case.

    Attributes:
        error: what went wrong, with its kind; empty if nothing did.
        place: the file and line in nnconv where an error came up, if it was there.
        crashed: whether the process died or had to be ended.
        seconds: what it took.
    """

    error: str
    place: str = ""
    crashed: bool = False
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether nothing went wrong."""
        return not self.error


class Worker(Child):
    """A process that runs one case after the other; after a crash the next case gets a new one."""

    def __init__(self, seconds: float = SECONDS) -> None:
        """Start nothing yet: the first case does."""
        super().__init__("support.onnx_backend_worker", seconds)

    def run(self, name: str, route: str, resolver: str = "xnn") -> Outcome:
        """Run a case on a route."""
        process = self._running()
        assert process.stdin
        assert process.stdout
        self._forget_words()
        start = time.perf_counter()
        try:
            process.stdin.write(json.dumps([name, route, resolver]).encode() + b"\n")
            process.stdin.flush()
            line = self._answer(process)
        except BrokenPipeError:
            line = b""
        seconds = time.perf_counter() - start
        if line is None:
            self._end()
            return Outcome("it didn't finish in time", crashed=True, seconds=seconds)
        if not line.endswith(b"\n"):
            return Outcome(self._obituary(process.wait()), crashed=True, seconds=seconds)
        error, place = json.loads(line)
        return Outcome(error, place, seconds=seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(self, process: subprocess.Popen[bytes]) -> bytes | None:
        """A line of the process; less when it died, None when it takes too long."""
        assert process.stdout
        line = b""
        end = time.monotonic() + self._seconds
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(end - time.monotonic(), 0.0)):
                    return None
                part = os.read(process.stdout.fileno(), 1 << 16)
                if not part:
                    break
                line += part
        return line


def serve() -> None:
    """Run what the lines of standard input say, one after the other."""
    from support.onnx_backend import ROUTES, cases

    # What runtimes print must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    known = cases()
    with tempfile.TemporaryDirectory(prefix="nnconv-case-") as scratch:
        for line in sys.stdin:
            name, route, resolver = json.loads(line)
            options = {"resolver": resolver} if route == "tflite" else {}
            told = ("", "")
            try:
                ROUTES[route](known[name], Path(scratch), **options)
            except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it
                told = _describe(error, scratch)
            answers.write(json.dumps(told).encode() + b"\n")
            answers.flush()


def _describe(error: Exception, scratch: str) -> tuple[str, str]:
    """An error in words, and where in nnconv it came up."""
    import traceback

    places = [
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if str(ROOT) in frame.filename and "tests" not in Path(frame.filename).parts
    ]
    text = " ".join(str(error).replace(f"{scratch}{os.sep}", "").split())
    return f"{type(error).__name__}: {text}"[:1500], places[-1] if places else ""
