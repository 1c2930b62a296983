"""How long the ONNX forms of an LSTM take in onnxruntime, on one thread, relative to its own op.

    python benchmarks/lstm_forms.py

Forms: the op itself; the op with the check that a clip of the cell did nothing; the check failing,
so that the steps run in a Scan as well; the Scan alone; steps written out one after another.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

import nnconv
from nnconv.formats.onnx import sequences
from nnconv.ir import Builder, DType, Graph, Model, Signature
from nnconv.ops.rnn import Lstm

SIZES = ((28, 28, 20), (32, 64, 64), (50, 64, 128), (8, 64, 64))
"""Steps, inputs and cells."""

ROUNDS = 60

FORMS = (
    ("LSTM", {}, 4, 1.0),
    ("LSTM, checked", {"cell_clip": 10.0}, 4, 1.0),
    ("LSTM, check fails", {"cell_clip": 10.0}, 4, 60.0),
    ("Scan", {"cell_clip": 1.0}, 4, 1.0),
    ("written out", {"cell_clip": 1.0}, 1 << 30, 1.0),
)
"""Name, attributes of the op, the most steps to write out, how loud the input is."""


def lstm_model(steps: int, inputs: int, cells: int, attributes: dict[str, float]) -> Model:
    """A model of one Lstm whose states are zeros."""
    rng = np.random.default_rng(0)
    builder = Builder(Graph("lstm"))
    x = builder.input("x", DType.FLOAT32, (steps, 1, inputs))

    def weights(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    operands = [x]
    operands += [builder.const(weights(cells, inputs), f"w{i}") for i in range(4)]
    operands += [builder.const(weights(cells, cells), f"r{i}") for i in range(4)]
    absent = [None] * 9
    states = [builder.const(np.zeros((1, cells), np.float32), name) for name in "hc"]
    result = builder.add_many(Lstm(**attributes), [*operands, *absent, *states])
    result[0].name = "y"
    builder.graph.outputs = [result[0]]
    return Model([Signature("", builder.graph)])


def microseconds(path: Path, data: np.ndarray) -> float:
    """The median time of a run."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        session.run(None, {"x": data})
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def main() -> None:
    """Print a row for each size."""
    print("steps x inputs x cells".ljust(24) + "".join(f"{name:>20}" for name, *_ in FORMS))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lstm.onnx"
        for size in SIZES:
            found = []
            for _, attributes, unrolled, loudness in FORMS:
                sequences.UNROLLED = unrolled
                nnconv.save(lstm_model(*size, attributes), path)
                rng = np.random.default_rng(1)
                # a constant input fills the cells step by step
                data = np.repeat(rng.standard_normal((1, 1, size[1])), size[0], axis=0) * loudness
                found.append(microseconds(path, data.astype(np.float32)))
            cells = (f"{t:10.0f} us (x{t / found[0]:.1f})" for t in found)
            print(" x ".join(map(str, size)).ljust(24) + "".join(f"{c:>20}" for c in cells))


if __name__ == "__main__":
    main()
