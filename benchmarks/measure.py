"""What the benchmarks share: processes with their cost, models by name, tables."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

OTHER = {".tflite": ".onnx", ".onnx": ".tflite"}
"""What a file is converted to, by its suffix."""


class Cost(NamedTuple):
    """What a process took: seconds by the clock, seconds of the CPU, MB of memory at its peak."""

    wall: float
    cpu: float
    peak: float


def cost_of(command: Sequence[str]) -> Cost | None:
    """Run a command and give its cost; None if it fails."""
    # A user's shell lets Python keep compiled files; some test machines don't.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1e6 if sys.platform == "darwin" else 1e3  # ru_maxrss is in bytes there, else in KiB
    cost = Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit)
    return cost if process.returncode == 0 else None


def cheapest(command: Sequence[str], rounds: int) -> Cost | None:
    """The least of each cost over some runs: other work on the machine only ever adds."""
    costs = [cost_of(command) for _ in range(rounds)]
    good = [cost for cost in costs if cost is not None]
    if len(good) < rounds:
        return None
    return Cost(*(min(values) for values in zip(*good, strict=True)))


def place(text: str) -> Path:
    """A file or folder that an argument names."""
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"there is no {text}")
    if path.is_file() and path.suffix not in OTHER:
        raise argparse.ArgumentTypeError(f"{text} is neither {' nor '.join(OTHER)}")
    return path


def models(places: Iterable[Path]) -> list[Path]:
    """The .tflite and .onnx files named, and those in folders named, in order of name."""
    found: set[Path] = set()
    for path in places:
        inside = (p for suffix in OTHER for p in path.rglob(f"*{suffix}"))
        found.update(inside if path.is_dir() else [path])
    return sorted(found, key=lambda path: (path.name, path))


def nnconv_command(*arguments: str) -> list[str]:
    """The command line that runs nnconv."""
    return [sys.executable, "-P", "-m", "nnconv", *arguments]


def other_command(source: Path, target: Path) -> list[str] | None:
    """The command line of another converter; None where it isn't installed.

    That is tf2onnx for TFLite files, and onnx2tf for ONNX files.
    """
    if source.suffix == ".tflite":
        files = ["--tflite", str(source), "--output", str(target)]
        command = ["-m", "tf2onnx.convert", *files, "--opset", "18"]
        return [sys.executable, *command] if find_spec("tf2onnx") else None
    code = (
        "import shutil, sys, tempfile, pathlib, onnx2tf\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    copy = shutil.copy(sys.argv[1], folder)\n"  # it writes to its input
        "    onnx2tf.convert(input_onnx_file_path=copy, output_folder_path=folder + '/made')\n"
        "    (made,) = pathlib.Path(folder, 'made').glob('*_float32.tflite')\n"
        "    shutil.copy(made, sys.argv[2])\n"
    )
    if find_spec("onnx2tf") is None:
        return None
    return [sys.executable, "-c", code, str(source), str(target)]


def print_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; all columns but the first are numbers."""
    lines = [tuple(header), *map(tuple, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        first, *rest = line
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        print(f"{first:{widths[0]}}  {'  '.join(cells)}".rstrip())
