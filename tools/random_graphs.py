"""Check thousands of random graphs: LiteRT, reference and onnxruntime must agree.

    python tools/random_graphs.py [--count 3000] [--seed 0] [--of tflite|onnx|ir]

The graphs are TFLite files, ONNX files or made of the IR. The tests check the first of each. A
graph depends on its seed alone, so ``--seed N --count 1`` repeats one. Exits 1 if one failed.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support import random_graphs, random_ir, random_onnx

CHECKS = {"tflite": random_graphs.check, "onnx": random_onnx.check, "ir": random_ir.check}


def main() -> int:
    """Check the seeds and report. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--of", choices=CHECKS, default="tflite", help="what the graphs are")
    limits = parser.parse_args()
    faulthandler.enable()  # a runtime may crash on what it doesn't check
    ops: Counter[str] = Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(limits.seed, limits.seed + limits.count):
            try:
                net = CHECKS[limits.of](seed, Path(folder))
            except AssertionError as error:
                wrong += 1
                print(error, flush=True)
            else:
                lines = [line for line in net.log if " = " in line]
                ops.update(line.split(" = ")[1].split("(")[0] for line in lines)
    print(", ".join(f"{op} {count}" for op, count in ops.most_common()))
    print(f"{limits.count} graphs, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
