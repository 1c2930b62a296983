"""Time and memory of whole `nnconv convert` processes, Python's start included.

    python benchmarks/convert_time.py FOLDER_OR_MODEL... [--rounds 3]

Prints a row a model, with tf2onnx beside it where that is installed. The exit code is 1 if a model
below 8 MB takes more than 0.5 s, or any more than 110 MB and 2.2 times its size.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from measure import Cost, cheapest, models, nnconv_command, print_rows, tf2onnx_command

SMALL_BYTES = 8_000_000
SECONDS = 0.5
BASE_MB, MB_PER_MB = 110, 2.2


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("places", nargs="+", metavar="FOLDER_OR_MODEL")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows, seen, others, over = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.onnx"
        for path in models(options.places):
            size = path.stat().st_size
            cost = cheapest(nnconv_command("convert", str(path), str(target)), options.rounds)
            if cost is None:
                rows.append((path.name[:50], f"{size / 1e6:.2f}", "not converted", *[""] * 5))
                continue
            other_command = tf2onnx_command(path, target)
            other = cheapest(other_command, 1) if other_command else None
            allowed = BASE_MB + MB_PER_MB * size / 1e6
            if cost.peak > allowed or (size < SMALL_BYTES and cost.wall > SECONDS):
                over.append(path.name)
            seen.append(cost)
            others += [other] if other else []
            rows.append(_row(path, size, cost, other, allowed))
    header = ("model", "MB", "s", "CPU s", "peak MB", "allowed", "tf2onnx s", "tf2onnx MB")
    print_rows(header, rows)
    _summary("nnconv", seen)
    _summary("tf2onnx", others)
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
