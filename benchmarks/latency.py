"""Latency of converted models, one thread: the result's runtime against the source's.

    python benchmarks/latency.py FOLDER_OR_MODEL... [--seconds 2] [--least-ops 8]
        [--input-shape NAME=1,3,320,320 ...] [--other FOLDER]

LiteRT runs .tflite files, onnxruntime .onnx files. All runtimes of a model take turns in one
process, so that what else the machine does hits all of them; a row gives medians. Below stand
geometric means by class. Beside them stand the files of tf2onnx or onnx2tf where these are
installed, or where they lie under the source's name in a folder (these converters want other
versions of packages than nnconv); only files that give the source's results count. Each model has
a process of its own: some crash LiteRT. A shape is for all models that have an open input of its
name.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measure import OTHER, cost_of, models, other_command, place, print_rows
from nnconv.backends import Executable

import nnconv
from nnconv.diff.inputs import random_inputs
from nnconv.diff.meanings import meanings
from nnconv.errors import NnconvError

MOST = {
    "tflite, float": 1.1,
    "tflite, int8/uint8": 1.3,
    "onnx, float": 0.9,
    "onnx, quantized": 1.1,
}
"""The largest geometric mean of each class."""

DEVICES = {".tflite": "litert:cpu", ".onnx": "onnxruntime:cpu"}
"""What runs a file, by its suffix."""


class Row(NamedTuple):
    """A model's medians in ms; None where a runtime doesn't run it."""

    name: str
    kind: str
    source: float
    ours: float
    other: float | None

    @property
    def ratio(self) -> float:
        """The result against the source."""
        return self.ours / self.source


def kind_of(model: nnconv.Model) -> str:
    """A model's class: its format, and by the types of its quantized activations."""
    types = {
        value.dtype.value
        for node in model.graph.nodes
        for value in (*node.inputs, *node.outputs)
        if value is not None and not value.is_const and value.quant is not None
    }
    if not types & {"int8", "uint8", "int16", "uint16"}:
        return f"{model.format}, float"
    if model.format == "onnx":
        return "onnx, quantized"
    return "tflite, int16" if "int16" in types else "tflite, int8/uint8"


Fed = tuple[Executable, dict[str, np.ndarray]]
"""What runs a file, and what it is fed."""


def medians(runs: dict[str, Fed], seconds: float) -> list[float]:
    """Median ms of each, taking turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 15:
        for name, (executable, feeds) in runs.items():
            executable.run(feeds)
            times[name].append(1000 * executable.last_seconds)
    return [statistics.median(found[3:]) for found in times.values()]


def measure(
    path: Path,
    folder: Path,
    *,
    seconds: float,
    least_ops: int,
    shapes: dict[str, tuple[int, ...]],
    other: Path | None,
) -> Row | None:
    """Measure a model; None where it is too small, or can't be run."""
    suffix = OTHER[path.suffix]
    ours = folder / f"ours{suffix}"
    try:
        model = nnconv.load(path)
        fixed = {
            v.name: shapes[v.name]
            for v in model.inputs
            if v.name in shapes and not all(isinstance(d, int) for d in v.shape or ())
        }
        model = nnconv.load(path, input_shapes=fixed or None)
        if len(model.graph) < least_ops:
            return None
        kind = kind_of(model)
        known = meanings(model.graph)
        nnconv.convert(path, ours, input_shapes=fixed or None)
        runs = {
            "source": nnconv.compile(path, DEVICES[path.suffix], threads=1),
            "ours": nnconv.compile(ours, DEVICES[suffix], threads=1),
        }
        arrays = list(random_inputs(model.inputs, seed=0, known=known).values())
        fed = {name: (run, _fed(run, arrays)) for name, run in runs.items()}
        others = _other_file(path, folder, other)
        if others:
            fed |= _right_other(
                fed["source"], others, arrays, 0.05 if "quantized" in kind else 1e-3
            )
        found = medians(fed, seconds)
    except NnconvError as error:
        print(f"{path.name}: left out: {str(error).splitlines()[0]}", file=sys.stderr)
        return None
    return Row(path.name, kind, found[0], found[1], found[2] if len(found) > 2 else None)


def _other_file(path: Path, folder: Path, other: Path | None) -> Path | None:
    """Another converter's file for a model: one that is there, or one made now."""
    suffix = OTHER[path.suffix]
    if other is not None:
        made = other / f"{path.stem}{suffix}"
        return made if made.exists() else None
    made = folder / f"other{suffix}"
    command = other_command(path, made)
    return made if command and cost_of(command) else None


def _right_other(source: Fed, path: Path, arrays: list[np.ndarray], part: float) -> dict[str, Fed]:
    """Another converter's file ready to run; nothing where it doesn't give what the source does."""
    try:
        run = nnconv.compile(path, DEVICES[path.suffix], threads=1)
        fed = (run, _fed(run, arrays))
        if _agree(source, fed, part):
            return {"other": fed}
        why = "is wrong"
    except NnconvError as error:
        why = f"doesn't run: {str(error).splitlines()[0]}"
    print(f"{path.name}: the other converter's file {why}", file=sys.stderr)
    return {}


def _agree(one: Fed, two: Fed, part: float) -> bool:
    """Whether each output of one is one of two's, but for a part of its range and its layout."""
    wanted, found = (list(run.run(feeds).values()) for run, feeds in (one, two))
    return all(any(_same(array, other, part) for other in found) for array in wanted)


def _same(array: np.ndarray, other: np.ndarray, part: float) -> bool:
    forms = [other] if other.ndim < 3 else [other, np.moveaxis(other, -1, 1)]
    room = part * max(float(np.abs(array).max(initial=0)), 1e-6)
    return any(
        form.shape == array.shape and np.allclose(form, array, rtol=0, atol=room, equal_nan=True)
        for form in forms
    )


def _fed(run: Executable, arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays by a file's own names; other converters may have moved their channels."""
    feeds = {}
    for told, array in zip(run.inputs, arrays, strict=True):
        shape = told.shape or ()
        last = (*array.shape[:1], *array.shape[2:], *array.shape[1:2])
        moved = len(shape) > 2 and tuple(shape) == last != array.shape
        feeds[told.name] = np.ascontiguousarray(np.moveaxis(array, 1, -1)) if moved else array
    return feeds


def measure_apart(path: Path, *options: str) -> Row | None:
    """``measure`` in a process of its own."""
    command = [sys.executable, __file__, str(path), "--row", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"{path.name}: left out: code {done.returncode}", file=sys.stderr)
    found = json.loads(done.stdout) if done.stdout else None
    return Row(*found) if found else None


def main() -> int:
    """Measure and print; returns the exit code: 1 where a class's mean is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("places", nargs="+", type=place, metavar="FOLDER_OR_MODEL")
    parser.add_argument("--seconds", type=float, default=2.0, help="spent on each model")
    parser.add_argument("--least-ops", type=int, default=8, help="smaller models are left out")
    parser.add_argument("--input-shape", action="append", default=[], metavar="NAME=1,3,320,320")
    parser.add_argument("--other", type=Path, help="a folder with another converter's files")
    parser.add_argument("--row", action="store_true", help="print one model's row as JSON")
    options = parser.parse_args()
    if options.row:
        with tempfile.TemporaryDirectory() as folder:
            row = measure(
                options.places[0],
                Path(folder),
                seconds=options.seconds,
                least_ops=options.least_ops,
                shapes=dict(_shape(text) for text in options.input_shape),
                other=options.other,
            )
        print(json.dumps(row))
        return 0
    chosen = ["--seconds", str(options.seconds), "--least-ops", str(options.least_ops)]
    chosen += [f"--input-shape={text}" for text in options.input_shape]
    chosen += [f"--other={options.other}"] if options.other else []
    found = [measure_apart(path, *chosen) for path in models(options.places)]
    rows = sorted((row for row in found if row), key=lambda row: (row.kind, -row.ratio))
    cells = [
        (
            row.name[:50],
            row.kind,
            f"{row.source:.3f}",
            f"{row.ours:.3f}",
            f"{row.ratio:.2f}",
            "" if row.other is None else f"{row.other / row.source:.2f}",
        )
        for row in rows
    ]
    print_rows(("model", "class", "source ms", "ours ms", "ratio", "other ratio"), cells)
    return max((_class_mean(kind, rows) for kind in sorted({row.kind for row in rows})), default=0)


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, extents = text.rpartition("=")
    return name, tuple(int(extent) for extent in extents.split(","))


def _class_mean(kind: str, rows: list[Row]) -> int:
    ratios = [row.ratio for row in rows if row.kind == kind]
    others = [row.other / row.source for row in rows if row.kind == kind and row.other]
    mean = _geometric(ratios)
    limit = MOST.get(kind)
    print(
        f"{kind}: {len(ratios)} models, geometric mean {mean:.2f}, worst {max(ratios):.2f}"
        + (f", allowed {limit}" if limit else "")
        + (f"; other converter {_geometric(others):.2f} over {len(others)}" if others else "")
    )
    return int(limit is not None and mean > limit)


def _geometric(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


if __name__ == "__main__":
    sys.exit(main())
