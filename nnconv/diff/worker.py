"""Runs a model in a process of its own, where a runtime may crash or hang and harm nobody.

``python -m nnconv.diff.worker FOLDER`` does what ``FOLDER/job.json`` says and leaves
``FOLDER/outcome.json`` and an array per output and step. Arrays go by position: files may use a
name twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nnconv.errors import (
    BackendError,
    InvalidModelError,
    NnconvError,
    UnsupportedError,
    UsageError,
    on_one_line,
    plural,
    printable,
)
from nnconv.ir.dtype import DType, as_stored, of_type
from nnconv.ir.types import Shape
from nnconv.outlive import death

Steps = Sequence[Sequence[np.ndarray]]
"""The inputs of consecutive runs between which states live on."""


class Outcome(NamedTuple):
    """What became of a job.

    Attributes:
        results: for each round and step the outputs; None for a round that failed.
        error: what failed first, without the file's name; empty if nothing did.
        crashed: whether the process died or had to be ended.
        hint: what would help; empty where that isn't known.
        misused: whether the fault is that of the inputs.
    """

    results: list[list[list[np.ndarray]] | None]
    error: str = ""
    crashed: bool = False
    hint: str = ""
    misused: bool = False

    @property
    def ran(self) -> bool:
        """Whether any round gave results."""
        return any(found is not None for found in self.results)


class Job:
    """A model being run on a device in a process of its own.

    The process starts at once; ``wait`` collects what it gave.
    """

    def __init__(
        self,
        folder: Path,
        model: str | os.PathLike[str],
        device: str,
        rounds: Sequence[Steps],
        *,
        states: Sequence[np.ndarray] = (),
        **options: Any,
    ) -> None:
        """Start it.

        Args:
            folder: an existing, empty folder for the two processes to exchange files in.
            model: the file.
            device: the device to run it on.
            rounds: each from fresh states: the inputs of its steps.
            states: what the model's last inputs get in the first step of a round; in the others
                they get what its last outputs gave.
            options: of ``nnconv.compile``.
        """
        self._folder = folder
        self._device = device
        self._rounds = rounds
        for r, steps in enumerate(rounds):
            for s, arrays in enumerate(steps):
                for i, array in enumerate(arrays):
                    _save(folder / f"in-{r}-{s}-{i}.npy", array)
        for i, array in enumerate(states):
            _save(folder / f"state-{i}.npy", array)
        job = {
            "model": os.path.abspath(model),  # noqa: PTH100 - resolve() would follow links
            "device": device,
            "options": options,
            "states": len(states),
            "rounds": [[len(arrays) for arrays in steps] for steps in rounds],
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        self._log = (folder / "stderr.txt").open("wb")
        self._process = subprocess.Popen(  # noqa: S603 - it is this very program
            [sys.executable, "-P", "-m", "nnconv.diff.worker", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )

    def wait(self, seconds: float) -> Outcome:
        """Wait for the end, at most so long; a process that takes longer is ended."""
        nothing: list[list[list[np.ndarray]] | None] = [None] * len(self._rounds)
        try:
            code = self._process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            self.end()
            return Outcome(
                nothing, f"{self._device} didn't finish in time and was ended", crashed=True
            )
        self._log.close()
        report = self._folder / "outcome.json"
        if code or not report.exists():
            return Outcome(
                nothing, f"{self._device} {death(code)}{self._last_words()}", crashed=True
            )
        told = json.loads(report.read_text(encoding="utf-8"))
        results = [self._collect(r, kinds) for r, kinds in enumerate(told["rounds"])]
        return Outcome(results, told["error"], hint=told["hint"], misused=told["misused"])

    def end(self) -> None:
        """End the process, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _collect(self, r: int, kinds: list[list[str]] | None) -> list[list[np.ndarray]] | None:
        if kinds is None:
            return None
        return [
            [
                of_type(np.load(self._folder / f"out-{r}-{s}-{i}.npy"), DType(kind))
                for i, kind in enumerate(step)
            ]
            for s, step in enumerate(kinds)
        ]

    def _last_words(self) -> str:
        text = (self._folder / "stderr.txt").read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines() if line.strip()]
        return f": {lines[-1].strip()}" if lines else ""


def _save(path: Path, array: np.ndarray) -> None:
    np.save(path, as_stored(array), allow_pickle=False)


def _load(folder: Path, r: int, s: int, count: int) -> list[np.ndarray]:
    return [np.load(folder / f"in-{r}-{s}-{i}.npy") for i in range(count)]


def _as_read(state: np.ndarray, shape: Shape) -> np.ndarray:
    """A state as an input has it: results without dimensions may have been given one."""
    return state.reshape(()) if shape == () and state.size == 1 else state


def _said(error: NnconvError, path: str) -> str:
    return on_one_line(error.message).removeprefix(f"{printable(path)}: ")


def work(folder: Path) -> None:
    """Do the job in ``folder``."""
    from nnconv.backends import compile as compile_for

    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    refusals = (BackendError, InvalidModelError, UnsupportedError, UsageError)
    told: dict[str, Any] = {"rounds": [None] * len(job["rounds"])}
    told |= {"error": "", "hint": "", "misused": False}
    try:
        options = job["options"]
        if "input_shapes" in options:
            options["input_shapes"] = {n: tuple(s) for n, s in options["input_shapes"].items()}
        executable = compile_for(job["model"], job["device"], **options)
        names = [info.name for info in executable.inputs]
        first = [np.load(folder / f"state-{i}.npy") for i in range(job["states"])]
        for r, steps in enumerate(job["rounds"]):
            executable.reset()
            states = first
            try:
                kinds = []
                for s, count in enumerate(steps):
                    given = [*_load(folder, r, s, count), *states]
                    if len(given) != len(names):
                        wants = plural(len(names), "input")
                        raise BackendError(f"it takes {wants}, {len(given)} were given")
                    feeds = dict(zip(names, given, strict=True))
                    results = list(executable.run(feeds).values())
                    plain = len(results) - len(states)
                    results, states = results[:plain], results[plain:]
                    ends = executable.inputs[len(names) - len(states) :]
                    states = [_as_read(a, end.shape) for a, end in zip(states, ends, strict=True)]
                    for i, array in enumerate(results):
                        _save(folder / f"out-{r}-{s}-{i}.npy", array)
                    kinds.append([DType.of(array).value for array in results])
                told["rounds"][r] = kinds
            except refusals as error:
                told["error"] = told["error"] or _said(error, job["model"])
                told["misused"] = isinstance(error, UsageError)
    except refusals as error:
        told["error"], told["hint"] = _said(error, job["model"]), error.hint
    (folder / "outcome.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    work(Path(sys.argv[1]))
