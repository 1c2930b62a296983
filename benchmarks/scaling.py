"""How the cost of a conversion grows with the ops: a chain against one four times as long.

    python benchmarks/scaling.py [--rounds 5]

The exit code is 1 if the long chain takes more than 4.5 times as long.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import nnconv

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from support.tflite_builder import TfliteBuilder

SHORT, LONG = 2_500, 10_000
MOST = 4.5


def chain(length: int) -> bytes:
    """A .tflite file of ``length`` ops in a row: convolutions, activations, sums, reshapes."""
    b = TfliteBuilder()
    shape = (1, 4, 5, 3)
    rng = np.random.default_rng(0)
    value = b.input("x", "float32", shape)
    bias = b.const(np.zeros(3, np.float32))
    convolution = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
    for index in range(length // 5):
        weights = b.const(rng.standard_normal((3, 1, 1, 3)).astype(np.float32))
        value = b.op("CONV_2D", [value, weights, bias], [("float32", shape)], options=convolution)
        value = b.op("LOGISTIC", [value], [("float32", shape)])
        value = b.op("ADD", [value, bias], [("float32", shape)])
        turned = (1, 5, 4, 3) if index % 2 == 0 else (1, 4, 5, 3)
        target = b.const(np.array(turned, np.int32))
        options = {"new_shape": list(turned)}
        value = b.op("RESHAPE", [value, target], [("float32", turned)], options=options)
        value = b.op("MUL", [value, value], [("float32", turned)])
        shape = turned
    b.output(value)
    return bytes(b.build())


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    least = {SHORT: float("inf"), LONG: float("inf")}
    with tempfile.TemporaryDirectory() as folder:
        sources = {length: Path(folder) / f"{length}.tflite" for length in least}
        for length, path in sources.items():
            path.write_bytes(chain(length))
        for _ in range(rounds + 1):  # the first round also loads the code
            for length, path in sources.items():
                start = time.process_time()
                nnconv.convert(path, Path(folder) / "out.onnx")
                least[length] = min(least[length], time.process_time() - start)
    ratio = least[LONG] / least[SHORT]
    for length, seconds in least.items():
        print(f"{length:6} ops: {seconds:.3f} s, {1e6 * seconds / length:.0f} us an op")
    print(f"ratio {ratio:.2f}, allowed {MOST}")
    return 1 if ratio > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
