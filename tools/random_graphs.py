"""Check thousands of random TFLite graphs: LiteRT, reference and onnxruntime must agree.

    python tools/random_graphs.py [--count 3000] [--seed 0]

The tests check the first hundred and a half. A graph depends on its seed alone, so
``--seed N --count 1`` repeats one. Exits 1 if one failed.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.random_graphs import check


def main() -> int:
    """Check the seeds and report. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    limits = parser.parse_args()
    faulthandler.enable()  # a runtime may crash on what it doesn't check
    ops: Counter[str] = Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(limits.seed, limits.seed + limits.count):
            try:
                net = check(seed, Path(folder))
            except AssertionError as error:
                wrong += 1
                print(error, flush=True)
            else:
                ops.update(line.split(" = ")[1].split("(")[0] for line in net.log)
    print(", ".join(f"{op} {count}" for op, count in ops.most_common()))
    print(f"{limits.count} graphs, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
