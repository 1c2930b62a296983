"""How the cost of a conversion grows with the ops: a chain against one four times as long.

    python benchmarks/scaling.py [--rounds 5] [--of tflite onnx]

The exit code is 1 if a long chain takes more than 4.5 times as long.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

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


def onnx_chain(length: int) -> bytes:
    """The same of ONNX, channels first."""
    rng = np.random.default_rng(0)
    shape, nodes, tensors = (1, 3, 4, 5), [], []
    value = "x"

    def add(op: str, *others: str, **attributes: object) -> None:
        nonlocal value
        nodes.append(helper.make_node(op, [value, *others], [f"v{len(nodes)}"], **attributes))
        value = nodes[-1].output[0]

    def const(array: np.ndarray) -> str:
        tensors.append(numpy_helper.from_array(array, f"c{len(tensors)}"))
        return str(tensors[-1].name)

    bias = const(np.zeros((3, 1, 1), np.float32))
    for index in range(length // 5):
        add("Conv", const(rng.standard_normal((3, 3, 1, 1)).astype(np.float32)))
        add("Sigmoid")
        add("Add", bias)
        shape = (1, 3, 5, 4) if index % 2 == 0 else (1, 3, 4, 5)
        add("Reshape", const(np.array(shape)))
        add("Mul", value)
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        for name, dims in (("x", (1, 3, 4, 5)), (value, shape))
    ]
    graph = helper.make_graph(nodes, "chain", infos[:1], infos[1:], tensors)
    opset = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=10)
    return bytes(model.SerializeToString())


CHAINS = {"tflite": (chain, "onnx"), "onnx": (onnx_chain, "tflite")}
"""What makes a chain of a format, and the format that it is converted to."""


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--of", nargs="+", choices=CHAINS, default=list(CHAINS))
    options = parser.parse_args()
    return max(_measure(name, options.rounds) for name in options.of)


def _measure(name: str, rounds: int) -> int:
    make, target = CHAINS[name]
    least = {SHORT: float("inf"), LONG: float("inf")}
    with tempfile.TemporaryDirectory() as folder:
        sources = {length: Path(folder) / f"{length}.{name}" for length in least}
        for length, path in sources.items():
            path.write_bytes(make(length))
        for _ in range(rounds + 1):  # the first round also loads the code
            for length, path in sources.items():
                start = time.process_time()
                nnconv.convert(path, Path(folder) / f"out.{target}")
                least[length] = min(least[length], time.process_time() - start)
    ratio = least[LONG] / least[SHORT]
    for length, seconds in least.items():
        microseconds = 1e6 * seconds / length
        print(f"{name}: {length:6} ops: {seconds:.3f} s, {microseconds:.0f} us an op")
    print(f"{name}: ratio {ratio:.2f}, allowed {MOST}")
    return 1 if ratio > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
