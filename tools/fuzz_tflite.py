"""Feed broken .tflite files to nnconv: nothing but clean errors may come of them.

    python tools/fuzz_tflite.py MODEL_OR_FOLDER... [--cases 20000] [--target wire|convert|...]
        [--changes bytes|values]

Each case changes one of the files in a few places and hands the result to the target, a function of
a path. Changed are bytes (bits flipped, offsets, lengths and vtable slots rewritten, spans cut,
moved or zeroed) or values within a sound structure (see `fuzz_values`). A case fails if the target
raises anything but one of nnconv's own errors, takes longer than ``--seconds``, uses more memory
than ``--memory`` or takes the process down. Cases are numbered and depend on ``--seed`` and their
number alone: ``--first N --cases 1`` repeats case N.

Exits 1 if a case failed. ``--keep FOLDER`` saves the files of those.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import multiprocessing
import multiprocessing.connection
import random
import resource
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnconv.errors import NnconvError
from nnconv.formats.tflite import wire
from nnconv.formats.tflite._gen.schema import TABLES
from nnconv.formats.tflite.flatbuffer import Reader, Table

sys.path.insert(0, str(Path(__file__).resolve().parent))

import fuzz_values

MOST_TABLES = 20_000
"""How many tables of a file `find_places` looks at."""

# ------------------------------------------------------------------------------------- mutations


@dataclass
class Places:
    """Where the structure of a file lies, so that changes hit it and not the weights.

    Attributes:
        offsets: bytes where an offset stands, to a table, a vector or a string.
        lengths: bytes where the length of a vector or string stands.
        slots: bytes where a vtable has a slot.
        scalars: bytes where a scalar field stands.
        tables: bytes where a table starts.
    """

    offsets: list[int]
    lengths: list[int]
    slots: list[int]
    scalars: list[int]
    tables: list[int]


def find_places(data: bytes) -> Places:
    """Find the structure of a sound file."""
    places = Places([0], [], [], [], [])
    vtables: set[int] = set()
    reader = Reader(memoryview(data))
    todo = [reader.root("Model")]
    while todo and len(places.tables) < MOST_TABLES:
        table = todo.pop()
        places.tables.append(table.pos)
        places.offsets.append(table.pos)  # to the vtable
        vtable = table.pos - struct.unpack_from("<i", data, table.pos)[0]
        size = struct.unpack_from("<H", data, vtable)[0]
        if vtable not in vtables:
            vtables.add(vtable)
            places.slots += range(vtable, vtable + size, 2)
        for name, (slot, kind, _, _) in TABLES[table.name].items():
            if not table.has(name):
                continue
            at = table.pos + struct.unpack_from("<H", data, vtable + 4 + 2 * slot)[0]
            if kind == "scalar":
                places.scalars.append(at)
                continue
            places.offsets.append(at)
            if kind in ("table", "union"):
                child = table.table(name) if kind == "table" else table.union(name)
                todo += [child] if child is not None else []
                continue
            start = at + struct.unpack_from("<I", data, at)[0]
            places.lengths.append(start)
            if kind == "tables":
                children: list[Table] = table.tables(name)
                places.offsets += range(start + 4, start + 4 + 4 * len(children), 4)
                todo += children
    return places


def mutate(data: bytes, places: Places, rng: random.Random) -> bytes:
    """Break a file in one to four places."""
    broken = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        rng.choice(_MUTATIONS)(broken, places, rng)
    return bytes(broken)


def _put(broken: bytearray, at: int, form: str, value: int) -> None:
    if at + struct.calcsize(form) <= len(broken):
        struct.pack_into(form, broken, at, value & (256 ** struct.calcsize(form) - 1))


def _anywhere(broken: bytearray, places: Places, rng: random.Random) -> int:
    group = rng.choice(
        (places.offsets, places.lengths, places.slots, places.scalars, places.tables, None)
    )
    at = rng.choice(group) + rng.randrange(-4, 8) if group else rng.randrange(len(broken) + 1)
    return max(0, min(at, len(broken)))


def _flip_bits(broken: bytearray, places: Places, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 8)):
        at = _anywhere(broken, places, rng)
        if at < len(broken):
            broken[at] ^= 1 << rng.randrange(8)


def _set_bytes(broken: bytearray, places: Places, rng: random.Random) -> None:
    at = _anywhere(broken, places, rng)
    count = min(rng.randint(1, 8), len(broken) - at)
    broken[at : at + count] = bytes(
        rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256))) for _ in range(count)
    )


def _set_offset(broken: bytearray, places: Places, rng: random.Random) -> None:
    at = rng.choice(places.offsets)
    size = len(broken)
    _put(
        broken,
        at,
        "<I",
        rng.choice(
            (
                rng.choice((0, 1, 2, 4, 8, size, size - at, size - at - 4)),
                rng.choice((2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 4)),
                rng.choice(places.tables) - at,
                rng.choice(places.lengths or [0]) - at,
                rng.randrange(size + 1),
            )
        ),
    )


def _set_length(broken: bytearray, places: Places, rng: random.Random) -> None:
    if not places.lengths:
        return
    at = rng.choice(places.lengths)
    room = max(len(broken) - at - 4, 0)
    length = struct.unpack_from("<I", broken.ljust(at + 4, b"\0"), at)[0]
    _put(
        broken,
        at,
        "<I",
        rng.choice(
            (
                rng.choice((0, 1, 255, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1)),
                rng.choice((room, room // 2, room // 4, room // 8, room // 4 + 1)),
                rng.choice((length - 1, length + 1, 2 * length, length // 2)),
            )
        ),
    )


def _set_slot(broken: bytearray, places: Places, rng: random.Random) -> None:
    value = rng.choice((0, 2, 3, 4, 6, 8, 12, 40, 2**15, 2**16 - 1, rng.randrange(2**16)))
    _put(broken, rng.choice(places.slots), "<H", value)


def _set_scalar(broken: bytearray, places: Places, rng: random.Random) -> None:
    value = rng.choice((0, 1, -1, 2, 127, 128, 255, 2**31 - 1, -(2**31), rng.randrange(2**32)))
    _put(broken, rng.choice(places.scalars or [0]), rng.choice(("<B", "<I", "<Q")), value)


def _set_item(broken: bytearray, places: Places, rng: random.Random) -> None:
    """Change what stands in a vector: an index, an extent, a scale, a character."""
    at = rng.choice(places.lengths or [0]) + 4 + 4 * rng.randrange(6)
    value = rng.choice((0, 1, -1, -2, 3, 10**6, 2**31 - 1, -(2**31), rng.randrange(2**32)))
    _put(broken, at, rng.choice(("<B", "<I", "<Q")), value)


def _truncate(broken: bytearray, places: Places, rng: random.Random) -> None:
    del broken[_anywhere(broken, places, rng) :]


def _cut_or_grow(broken: bytearray, places: Places, rng: random.Random) -> None:
    at, count = _anywhere(broken, places, rng), rng.choice((1, 2, 4, 8, 100))
    if rng.random() < 0.5:
        del broken[at : at + count]
    else:
        broken[at:at] = rng.randbytes(count)


def _copy_span(broken: bytearray, places: Places, rng: random.Random) -> None:
    count = rng.choice((4, 8, 16, 64, 1000))
    start, at = _anywhere(broken, places, rng), _anywhere(broken, places, rng)
    span = broken[start : start + count] if rng.random() < 0.7 else bytes(count)
    broken[at : at + len(span)] = span[: len(broken) - at]


_MUTATIONS: Sequence[Callable[[bytearray, Places, random.Random], None]] = (
    _flip_bits,
    _set_bytes,
    _set_offset,
    _set_offset,
    _set_length,
    _set_length,
    _set_slot,
    _set_scalar,
    _set_scalar,
    _set_item,
    _set_item,
    _truncate,
    _cut_or_grow,
    _copy_span,
)

# --------------------------------------------------------------------------------------- targets


def read_all(path: Path) -> None:
    """Read a file and everything in it."""
    file = wire.read(path)
    for subgraph in file.subgraphs:
        for tensor in subgraph.tensors:
            wire.tensor_data(file, tensor)
            _ = tensor.quantization, tensor.variant
        for op in subgraph.operators:
            _ = op.calls, op.intermediates, op.mutating_variable_inputs, op.custom_options
            options = op.options
            for field, (_slot, kind, type_name, _default) in TABLES.get(options.name, {}).items():
                if kind == "scalar":
                    _ = options.float(field) if type_name == "float32" else options.int(field)
                else:
                    _ = options.ints(field) if kind == "vector" else options.text(field)
    _ = [content.sum() for content in file.metadata.values()]


def convert(path: Path) -> None:
    """Convert a file to ONNX."""
    import nnconv

    nnconv.convert(path, path.with_suffix(".onnx"))


TARGETS: dict[str, Callable[[Path], object]] = {"wire": read_all, "convert": convert}


def find_target(name: str) -> Callable[[Path], object]:
    """Find a target by its short name or as MODULE:NAME."""
    if name in TARGETS:
        return TARGETS[name]
    module, _, attribute = name.partition(":")
    target: Callable[[Path], object] = getattr(importlib.import_module(module), attribute)
    return target


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


# --------------------------------------------------------------------------------------- workers


CHANGES: dict[str, tuple[Callable[[bytes], Any], Callable[[bytes, Any, random.Random], bytes]]] = {
    "bytes": (find_places, mutate),
    "values": (fuzz_values.find_values, fuzz_values.change),
}
"""What is changed: how to find the places in a sound file, and how to change some."""


class Corpus:
    """The sound files, each read when it is first needed."""

    def __init__(self, paths: Sequence[Path], seed: int, changes: str = "bytes") -> None:
        self.paths = paths
        self.seed = seed
        self._find, self._change = CHANGES[changes]
        self._found: dict[Path, tuple[bytes, Any]] = {}

    def case(self, number: int) -> tuple[Path, bytes]:
        """The broken file of a case, and the sound one that it comes from."""
        rng = random.Random(f"{self.seed}:{number}")  # noqa: S311 # no secret is made here
        path = rng.choice(self.paths)
        if path not in self._found:
            data = path.read_bytes()
            self._found[path] = data, self._find(data)
        return path, self._change(*self._found[path], rng)


def _work(pipe: Any, paths: Sequence[Path], seed: int, target_name: str, changes: str) -> None:
    """Run cases whose numbers come through ``pipe`` until None comes."""
    corpus, target = Corpus(paths, seed, changes), find_target(target_name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.tflite"
        for number in iter(pipe.recv, None):
            path.write_bytes(corpus.case(number)[1])
            pipe.send(None)  # from here on the time counts
            start = time.monotonic()
            status, text = run_case(target, path)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            pipe.send((status, text, time.monotonic() - start, peak))


class Worker:
    """A process that runs cases one by one, and is replaced when it dies."""

    def __init__(self, *context: Any) -> None:
        self._context = context
        self.number: int | None = None
        self.start = 0.0
        self._spawn()

    def _spawn(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_work, args=(theirs, *self._context), daemon=True)
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


def outcomes(paths: Sequence[Path], limits: argparse.Namespace) -> Iterator[Outcome]:
    """Run all cases on several workers."""
    workers = [
        Worker(paths, limits.seed, limits.target, limits.changes) for _ in range(limits.jobs)
    ]
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


def main() -> int:
    """Run the cases and report. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="+", type=Path, help=".tflite files, or folders of them")
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="wire", help="wire, convert or MODULE:NAME")
    parser.add_argument("--changes", choices=CHANGES, default="bytes")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0, help="allowed for one case")
    parser.add_argument("--memory", type=float, default=1024.0, help="MB that a process may use")
    parser.add_argument("--largest", type=int, default=2**23, help="leave out larger files (bytes)")
    parser.add_argument("--keep", type=Path, help="folder for the files of failed cases")
    limits = parser.parse_args()
    found = [f for m in limits.models for f in (m.rglob("*.tflite") if m.is_dir() else [m])]
    paths = sorted(path for path in found if path.stat().st_size <= limits.largest)
    if not paths:
        parser.error("no .tflite file there")

    corpus, counts = Corpus(paths, limits.seed, limits.changes), collections.Counter()
    slowest, fattest = 0.0, 0.0
    for outcome in outcomes(paths, limits):
        counts[outcome.status] += 1
        slowest, fattest = max(slowest, outcome.seconds), max(fattest, outcome.peak)
        if outcome.status == "failed":
            path, data = corpus.case(outcome.number)
            print(f"case {outcome.number} (seed {limits.seed}, {path.name}): {outcome.text}")
            if limits.keep:
                limits.keep.mkdir(parents=True, exist_ok=True)
                (limits.keep / f"{limits.seed}-{outcome.number}.tflite").write_bytes(data)
    shares = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    print(f"{sum(counts.values())} cases: {shares}; at most {slowest:.2f} s and {fattest:.0f} MB")
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
