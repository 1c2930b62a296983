"""Runs .tflite files in a process of its own, which LiteRT may crash and harm nobody.

The two speak in pickles: a model, a resolver and the inputs of each run there; the outputs of each
run, or what LiteRT said, back. The process lives on from one model to the next.
"""

from __future__ import annotations

import atexit
import os
import pickle
import selectors
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import IO, Any, NamedTuple

import numpy as np

from support.child import Child

SECONDS = 60.0
"""What all runs of a model may take."""

Runs = Sequence[Sequence[np.ndarray]]
"""The inputs of each run."""


class LiteRtError(Exception):
    """LiteRT refused a model, failed or crashed."""


class Interface(NamedTuple):
    """What a loaded model says of its inputs and outputs: name, numpy dtype, shape signature."""

    inputs: list[tuple[str, str, tuple[int, ...]]]
    outputs: list[tuple[str, str, tuple[int, ...]]]


class LiteRtWorker(Child):
    """A process that runs one model after the other; after a crash the next gets a new one."""

    def __init__(self, seconds: float = SECONDS) -> None:
        """Start nothing yet: the first model does."""
        super().__init__("support.litert_worker", seconds)

    def run(
        self, model: bytes, runs: Runs, resolver: str
    ) -> tuple[Interface, list[list[np.ndarray]]]:
        """Run a model; gives its interface and the outputs of each run.

        Raises:
            LiteRtError: it doesn't load or run; the text is LiteRT's, or says how it died.
        """
        process = self._running()
        assert process.stdin
        try:
            _send(process.stdin, (model, [list(arrays) for arrays in runs], resolver))
            told = self._answer(process)
        except BrokenPipeError:
            told = None
        if told is None:
            raise self._death(process)
        error, interface, results = told
        if error:
            raise LiteRtError(error)
        return Interface(*interface), results

    def _death(self, process: subprocess.Popen[bytes]) -> LiteRtError:
        """What to say of a process that gave no answer; it is ended."""
        try:
            code = process.wait(1)
        except subprocess.TimeoutExpired:
            self._end()
            return LiteRtError(f"it didn't finish in {self._seconds:.0f} s")
        return LiteRtError(self._obituary(code))

    def _answer(self, process: subprocess.Popen[bytes]) -> Any:
        """What the process answers; None when it died or takes too long."""
        assert process.stdout
        content = b""
        wanted = 8
        end = time.monotonic() + self._seconds
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while len(content) < wanted:
                if not selector.select(max(end - time.monotonic(), 0.0)):
                    return None
                part = os.read(process.stdout.fileno(), 1 << 20)
                if not part:
                    return None
                content += part
                if wanted == 8 and len(content) >= 8:
                    wanted += struct.unpack("<Q", content[:8])[0]
        return pickle.loads(content[8:])


@cache
def worker() -> LiteRtWorker:
    """The one process that all tests of this process share."""
    shared = LiteRtWorker()
    atexit.register(shared.close)
    return shared


def _send(pipe: IO[bytes], what: Any) -> None:
    content = pickle.dumps(what, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(struct.pack("<Q", len(content)) + content)
    pipe.flush()


def serve() -> None:
    """Run what comes on standard input, one model after the other."""
    from support.litert import LiteRtRunner

    # What LiteRT prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    source = sys.stdin.buffer
    while head := source.read(8):
        model, runs, resolver = pickle.loads(source.read(struct.unpack("<Q", head)[0]))
        told: tuple[Any, ...]
        try:
            runner = LiteRtRunner(model, resolver)
            interpreter = runner.interpreter
            interface = [
                [
                    (d["name"], np.dtype(d["dtype"]).name, tuple(d["shape_signature"].tolist()))
                    for d in details
                ]
                for details in (interpreter.get_input_details(), interpreter.get_output_details())
            ]
            told = ("", interface, [runner.run(arrays) for arrays in runs])
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it
            told = (f"{type(error).__name__}: {error}", None, None)
        _send(answers, told)
