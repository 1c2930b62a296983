"""What the fuzzers share: cases, changes of bytes, processes that run them, the report.

A case changes one of the sound files in a few places and hands the result to the target, a function
of a path. A case fails if the target raises anything but one of nnconv's own errors, takes longer
than ``--seconds``, uses more memory than ``--memory`` or takes the process down. Cases are numbered
and depend on ``--seed`` and their number alone: ``--first N --cases 1`` repeats case N.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import multiprocessing
import multiprocessing.connection
import random
import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from nnconv.errors import NnconvError

Target: TypeAlias = Callable[[Path], object]

Changes: TypeAlias = tuple[Callable[[bytes], Any], Callable[[bytes, Any, random.Random], bytes]]
"""How to find the places in a sound file, and how to change some."""

Groups: TypeAlias = Sequence[Sequence[int]]
"""Where the structure of a file lies, by kind, so that changes hit it and not the weights."""


@dataclass(frozen=True)
class Fuzzer:
    """What is fuzzed.

    Attributes:
        module: the name of the module that has it, as ``FUZZER``.
        suffix: of the files.
        targets: by name, the default first.
        changes: by name, the default first.
    """

    module: str
    suffix: str
    targets: dict[str, Target]
    changes: dict[str, Changes]

    def target(self, name: str) -> Target:
        """Find a target by its short name or as MODULE:NAME."""
        if name in self.targets:
            return self.targets[name]
        module, _, attribute = name.partition(":")
        target: Target = getattr(importlib.import_module(module), attribute)
        return target

    def corpus(self, paths: Sequence[Path], seed: int, changes: str = "bytes") -> Corpus:
        """The cases made of some files."""
        return Corpus(paths, seed, self.changes[changes])


# ------------------------------------------------------------------------------ changes of bytes


def anywhere(broken: bytearray, groups: Groups, rng: random.Random) -> int:
    """A byte of the structure, or any one."""
    group = rng.choice((*groups, None))
    at = rng.choice(group) + rng.randrange(-4, 8) if group else rng.randrange(len(broken) + 1)
    return max(0, min(at, len(broken)))


def flip_bits(broken: bytearray, groups: Groups, rng: random.Random) -> None:
    """Flip a few bits."""
    for _ in range(rng.randint(1, 8)):
        at = anywhere(broken, groups, rng)
        if at < len(broken):
            broken[at] ^= 1 << rng.randrange(8)


def set_bytes(broken: bytearray, groups: Groups, rng: random.Random) -> None:
    """Overwrite a few bytes."""
    at = anywhere(broken, groups, rng)
    count = min(rng.randint(1, 8), len(broken) - at)
    broken[at : at + count] = bytes(
        rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256))) for _ in range(count)
    )


def truncate(broken: bytearray, groups: Groups, rng: random.Random) -> None:
    """Cut off the end."""
    del broken[anywhere(broken, groups, rng) :]


def cut_or_grow(broken: bytearray, groups: Groups, rng: random.Random) -> None:
    """Take a few bytes out, or put a few in."""
    at, count = anywhere(broken, groups, rng), rng.choice((1, 2, 4, 8, 100))
    if rng.random() < 0.5:
        del broken[at : at + count]
    else:
        broken[at:at] = rng.randbytes(count)


def copy_span(broken: bytearray, groups: Groups, rng: random.Random) -> None:
    """Overwrite a span with another one, or zeros."""
    count = rng.choice((4, 8, 16, 64, 1000))
    start, at = anywhere(broken, groups, rng), anywhere(broken, groups, rng)
    span = broken[start : start + count] if rng.random() < 0.7 else bytes(count)
    broken[at : at + len(span)] = span[: len(broken) - at]


PLAIN_CHANGES = (flip_bits, set_bytes, truncate, cut_or_grow, copy_span)
"""Changes that suit any format."""

# ----------------------------------------------------------------------------------------- cases


def run_case(target: Callable[[Path], object], path: Path) -> tuple[str, str]:
    """Run one case: how it ended (``read``, ``refused`` or ``failed``), and the error's text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            target(path)
    except NnconvError as error:
        return "refused", str(error)
    except Exception as error:  # noqa: BLE001 # whatever it is, it is what we look for
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where else "?"
        return "failed", f"{type(error).__name__}: {error} ({place})"
    return "read", ""


class Corpus:
    """The sound files, each read when it is first needed."""

    def __init__(self, paths: Sequence[Path], seed: int, changes: Changes) -> None:
        self.paths = paths
        self.seed = seed
        self._find, self._change = changes
        self._found: dict[Path, tuple[bytes, Any]] = {}

    def case(self, number: int) -> tuple[Path, bytes]:
        """The broken file of a case, and the sound one that it comes from."""
        rng = random.Random(f"{self.seed}:{number}")  # noqa: S311 # no secret is made here
        path = rng.choice(self.paths)
        if path not in self._found:
            data = path.read_bytes()
            self._found[path] = data, self._find(data)
        return path, self._change(*self._found[path], rng)


# --------------------------------------------------------------------------------------- workers


def _work(
    pipe: Any, module: str, paths: Sequence[Path], *, seed: int, target: str, changes: str
) -> None:
    """Run cases whose numbers come through ``pipe`` until None comes."""
    fuzzer: Fuzzer = importlib.import_module(module).FUZZER
    corpus, run = fuzzer.corpus(paths, seed, changes), fuzzer.target(target)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"case{fuzzer.suffix}"
        for number in iter(pipe.recv, None):
            path.write_bytes(corpus.case(number)[1])
            pipe.send(None)  # from here on the time counts
            start = time.monotonic()
            status, text = run_case(run, path)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            pipe.send((status, text, time.monotonic() - start, peak))


class Worker:
    """A process that runs cases one by one, and is replaced when it dies."""

    def __init__(self, *context: Any, **options: Any) -> None:
        self._context = context
        self._options = options
        self.number: int | None = None
        self.start = 0.0
        self._spawn()

    def _spawn(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(
            target=_work, args=(theirs, *self._context), kwargs=self._options, daemon=True
        )
        self.process.start()
        theirs.close()

    def give(self, number: int) -> None:
        """Start a case. Its time starts when the worker has made the file."""
        self.number, self.start = number, float("inf")
        self.pipe.send(number)

    def rss(self) -> float:
        """The memory that the process holds, in MB; 0 where the system doesn't say."""
        try:
            pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        except (OSError, IndexError):
            return 0.0
        return int(pages) * resource.getpagesize() / 2**20

    def replace(self) -> None:
        """End the process and start another one."""
        self.process.kill()
        self.process.join()
        self.pipe.close()
        self._spawn()

    def close(self) -> None:
        """Let the process end."""
        self.pipe.send(None)
        self.process.join()


@dataclass
class Outcome:
    """How a case ended."""

    number: int
    status: str
    text: str
    seconds: float = 0.0
    peak: float = 0.0


def _poll(worker: Worker, limits: argparse.Namespace) -> Outcome | None:
    """What became of the worker's case; None while it runs."""
    assert worker.number is not None
    outcome = None
    try:
        while outcome is None and worker.pipe.poll():
            message = worker.pipe.recv()
            if message is None:
                worker.start = time.monotonic()
            else:
                outcome = Outcome(worker.number, *message)
    except (EOFError, ConnectionResetError):
        worker.process.join()
        outcome = Outcome(worker.number, "failed", f"died, code {worker.process.exitcode}")
        worker.replace()
        return outcome
    taken = time.monotonic() - worker.start
    if outcome is None and taken > limits.seconds:
        outcome = Outcome(worker.number, "failed", f"still ran after {limits.seconds} s", taken)
        worker.replace()
    elif (outcome.peak if outcome else worker.rss()) > limits.memory:
        text = f"used more than {limits.memory} MB ({outcome.text if outcome else 'not done'})"
        outcome = Outcome(worker.number, "failed", text)
        worker.replace()
    return outcome


def outcomes(
    fuzzer: Fuzzer, paths: Sequence[Path], limits: argparse.Namespace
) -> Iterator[Outcome]:
    """Run all cases on several workers."""
    options = {"seed": limits.seed, "target": limits.target, "changes": limits.changes}
    workers = [Worker(fuzzer.module, paths, **options) for _ in range(limits.jobs)]
    numbers = iter(range(limits.first, limits.first + limits.cases))
    busy: list[Worker] = []
    for worker in workers:
        number = next(numbers, None)
        if number is not None:
            worker.give(number)
            busy.append(worker)
    while busy:
        multiprocessing.connection.wait([worker.pipe for worker in busy], timeout=0.1)
        for worker in list(busy):
            outcome = _poll(worker, limits)
            if outcome is None:
                continue
            yield outcome
            number = next(numbers, None)
            if number is None:
                busy.remove(worker)
            else:
                worker.give(number)
    for worker in workers:
        worker.close()


def main(fuzzer: Fuzzer, description: str) -> int:
    """Run the cases and report. Returns the exit code."""
    suffix, targets, changes = fuzzer.suffix, list(fuzzer.targets), list(fuzzer.changes)
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("models", nargs="+", type=Path, help=f"{suffix} files, or folders of them")
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default=targets[0], help=f"{', '.join(targets)} or MODULE:NAME")
    parser.add_argument("--changes", choices=changes, default=changes[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0, help="allowed for one case")
    parser.add_argument("--memory", type=float, default=1024.0, help="MB that a process may use")
    parser.add_argument("--largest", type=int, default=2**23, help="leave out larger files (bytes)")
    parser.add_argument("--keep", type=Path, help="folder for the files of failed cases")
    limits = parser.parse_args()
    if missing := [str(path) for path in limits.models if not path.exists()]:
        parser.error(f"there is no {', '.join(missing)}")
    try:
        fuzzer.target(limits.target)
    except (ImportError, AttributeError, ValueError) as error:
        parser.error(f"--target {limits.target}: {error}; known are {', '.join(targets)}")
    found = [f for m in limits.models for f in (m.rglob(f"*{suffix}") if m.is_dir() else [m])]
    paths = sorted(path for path in found if path.stat().st_size <= limits.largest)
    if not paths:
        parser.error(f"no {suffix} file of at most {limits.largest} bytes there")

    corpus = fuzzer.corpus(paths, limits.seed, limits.changes)
    counts: collections.Counter[str] = collections.Counter()
    slowest, fattest = 0.0, 0.0
    for outcome in outcomes(fuzzer, paths, limits):
        counts[outcome.status] += 1
        slowest, fattest = max(slowest, outcome.seconds), max(fattest, outcome.peak)
        if outcome.status == "failed":
            path, data = corpus.case(outcome.number)
            print(f"case {outcome.number} (seed {limits.seed}, {path.name}): {outcome.text}")
            if limits.keep:
                limits.keep.mkdir(parents=True, exist_ok=True)
                (limits.keep / f"{limits.seed}-{outcome.number}{suffix}").write_bytes(data)
    shares = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    print(f"{sum(counts.values())} cases: {shares}; at most {slowest:.2f} s and {fattest:.0f} MB")
    return int(counts["failed"] > 0)
