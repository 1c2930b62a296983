"""Time and memory of whole `nnconv convert` processes, Python's start included.

    python benchmarks/convert_time.py FOLDER_OR_MODEL... [--rounds 3]

TFLite files become ONNX files and the other way round. Prints a row a model, with tf2onnx or
onnx2tf beside it where that is installed. The exit code is 1 if one is over its limit: 0.5 s for
.tflite files below 8 MB and 0.8 s for .onnx files below 15 MB; in memory 110 MB and 2.2 times the
size for .tflite files, 130 MB and 2.5 times the size for .onnx files.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from measure import OTHER, Cost, cheapest, models, nnconv_command, other_command, place, print_rows


class Limits(NamedTuple):
    """What a conversion may take.

    Attributes:
        small: bytes below which a file must be done within ``seconds``.
        base, share: MB of memory, and MB more for each MB of the file.
    """

    small: int
    seconds: float
    base: float
    share: float


LIMITS = {
    ".tflite": Limits(8_000_000, 0.5, 110, 2.2),
    ".onnx": Limits(15_000_000, 0.8, 130, 2.5),
}


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("places", nargs="+", type=place, metavar="FOLDER_OR_MODEL")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows, seen, others, over = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for path in models(options.places):
            size, limits = path.stat().st_size, LIMITS[path.suffix]
            target = Path(folder) / f"model{OTHER[path.suffix]}"
            cost = cheapest(nnconv_command("convert", str(path), str(target)), options.rounds)
            if cost is None:
                rows.append((path.name[:50], f"{size / 1e6:.2f}", "not converted", *[""] * 5))
                continue
            command = other_command(path, target)
            other = cheapest(command, 1) if command else None
            allowed = limits.base + limits.share * size / 1e6
            if cost.peak > allowed or (size < limits.small and cost.wall > limits.seconds):
                over.append(path.name)
            seen.append(cost)
            others += [other] if other else []
            rows.append(_row(path, size, cost, other, allowed))
    header = ("model", "MB", "s", "CPU s", "peak MB", "allowed", "other s", "other MB")
    print_rows(header, rows)
    _summary("nnconv", seen)
    _summary("other converter", others)
    print(f"over the limit: {', '.join(over) or 'none'}")
    return 1 if over else 0


def _row(path: Path, size: int, cost: Cost, other: Cost | None, allowed: float) -> tuple[str, ...]:
    beside = (f"{other.wall:.2f}", f"{other.peak:.0f}") if other else ("", "")
    own = (f"{cost.wall:.2f}", f"{cost.cpu:.2f}", f"{cost.peak:.0f}", f"{allowed:.0f}")
    return (path.name[:50], f"{size / 1e6:.2f}", *own, *beside)


def _summary(name: str, costs: list[Cost]) -> None:
    if costs:
        walls, peaks = [c.wall for c in costs], [c.peak for c in costs]
        print(
            f"{name}: {len(costs)} models, "
            f"median {statistics.median(walls):.2f} s, worst {max(walls):.2f} s; "
            f"median {statistics.median(peaks):.0f} MB, worst {max(peaks):.0f} MB"
        )


if __name__ == "__main__":
    sys.exit(main())
