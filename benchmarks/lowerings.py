"""Forms of one computation in onnxruntime, of which the ONNX writer chooses the fastest.

    python benchmarks/lowerings.py [--seconds 1]

One thread; forms take turns, a row gives the quicker fifth's bound in microseconds and the ratio to
the plain form, which stands first. The choices rest on these rows: look at them again when
onnxruntime changes. They were made on x86-64 with AVX-512 and VNNI.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from measure import print_rows

from nnconv.formats.onnx import wire
from nnconv.formats.onnx.protobuf import write

KINDS = {np.dtype(np.float32): 1, np.dtype(np.uint8): 2, np.dtype(np.int8): 3}
RANDOM = np.random.default_rng(0)


class Net:
    """A graph of one input, by its nodes."""

    def __init__(self, x: np.ndarray) -> None:
        """Start with an example of the input."""
        self.x = x
        self.nodes: list[wire.Node] = []
        self.constants: list[wire.Tensor] = []

    def const(self, data: Any, dtype: Any = None) -> str:
        """A constant; ints become int64."""
        array = np.asarray(data, dtype)
        name = f"c{len(self.constants)}"
        kind = wire.DataType[{"float32": "FLOAT"}.get(array.dtype.name, array.dtype.name.upper())]
        self.constants.append(wire.Tensor(name, kind, array.shape, array))
        return name

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node of one result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(wire.Node(op, list(inputs), [name], attributes, name=name))
        return name

    def random(self, *shape: int) -> str:
        """A constant of random floats."""
        return self.const(RANDOM.standard_normal(shape), np.float32)

    def dequantized(self, codes: str, zero: int = 0, kind: Any = np.uint8) -> str:
        """The real values of codes at scale 0.05."""
        scale = self.const(0.05, np.float32)
        return self.node("DequantizeLinear", codes, scale, self.const(zero, kind))

    def quantized(self, real: str, zero: int = 128, kind: Any = np.uint8) -> str:
        """Codes at scale 0.05."""
        scale = self.const(0.05, np.float32)
        return self.node("QuantizeLinear", real, scale, self.const(zero, kind))

    def session(self, result: str, rank: int, kind: Any, folder: Path) -> ort.InferenceSession:
        """The graph with ``result`` as its output, loaded."""
        graph = wire.Graph(
            "g",
            self.nodes,
            [wire.ValueInfo("x", wire.DataType(KINDS[self.x.dtype]), self.x.shape)],
            [wire.ValueInfo(result, wire.DataType(KINDS[np.dtype(kind)]), (None,) * rank)],
            self.constants,
        )
        path = folder / "form.onnx"
        write(wire.Model(graph, 21), path)
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def floats(*shape: int) -> Net:
    """A net on floats."""
    return Net(RANDOM.standard_normal(shape).astype(np.float32))


def codes(*shape: int) -> Net:
    """A net on codes."""
    return Net(RANDOM.integers(0, 256, shape).astype(np.uint8))


# -------------------------------------------------------------------- forms: net and its result


def prelu(form: str) -> tuple[Net, str, int, Any]:
    """Between 1x1 convolutions."""
    net = floats(1, 32, 48, 48)
    x = net.node("Conv", "x", net.random(32, 32, 1, 1))
    slope = RANDOM.uniform(0.1, 0.9, (32, 1, 1)).astype(np.float32)
    rest, own = net.const(1 - slope), net.const(slope)
    if form == "op":
        y = net.node("PRelu", x, own)
    elif form == "a*x + (1-a)*Relu(x)":
        part = net.node("Mul", net.node("Relu", x), rest)
        y = net.node("Add", net.node("Mul", x, own), part)
    elif form == "Max(x, a*x)":
        y = net.node("Max", x, net.node("Mul", x, own))
    else:
        minus = net.const(np.full((32, 1, 1), -1, np.float32))
        part = net.node("Mul", net.node("Relu", net.node("Mul", x, minus)), rest)
        y = net.node("Add", part, x)
    return net, net.node("Conv", y, net.random(32, 32, 1, 1)), 4, np.float32


def channels(form: str) -> tuple[Net, str, int, Any]:
    """Zero channels in a residual block."""
    net = floats(1, 32, 24, 24)
    x = net.node("Conv", "x", net.random(32, 32, 1, 1))
    other = net.node("Conv", x, net.random(64, 32, 1, 1))
    if form == "Pad":
        wide = net.node("Pad", x, net.const([0, 0, 0, 0, 0, 32, 0, 0]), net.const(0, np.float32))
    else:
        wide = net.node("Conv", x, net.const(np.eye(64, 32)[:, :, None, None], np.float32))
    y = net.node("Relu", net.node("Add", other, wide))
    return net, net.node("Conv", y, net.random(64, 64, 1, 1)), 4, np.float32


def entry(form: str) -> tuple[Net, str, int, Any]:
    """The first convolution, of floats, 3x3 by 2."""
    net = floats(1, 96, 96, 3)
    if form == "Transpose":
        x = net.node("Transpose", "x", perm=(0, 3, 1, 2))
        y = net.node("Conv", x, net.random(16, 3, 3, 3), strides=(2, 2), pads=(0, 0, 1, 1))
    else:
        x = net.node("Reshape", "x", net.const([1, 1, 96, 288]))
        y = net.node("Conv", x, net.random(16, 1, 3, 9), strides=(2, 6), pads=(0, 0, 1, 3))
    return net, net.node("Conv", y, net.random(16, 16, 1, 1)), 4, np.float32


def entry_of_codes(form: str) -> tuple[Net, str, int, Any]:
    """The first convolution, of codes, 3x3 by 2, with as many columns together as ``form`` says."""
    net, columns = codes(1, 96, 96, 3), int(form.split(maxsplit=1)[0])
    step = max(columns // 2, 1)
    shape = [1, 96, 96 // columns, 3 * columns]
    window = 3 if columns == 1 else 2
    weights = RANDOM.integers(-127, 128, (16 * step, 3 * columns, 3, window))
    real = net.dequantized(net.node("Reshape", "x", net.const(shape)), 128)
    moved = net.node("Transpose", real, perm=(0, 3, 1, 2))
    filters = net.dequantized(net.const(weights, np.int8), 0, np.int8)
    strides, pads = ((2, 2), (0, 0, 1, 1)) if columns == 1 else ((2, 1), (0, 0, 1, 1))
    y = net.quantized(net.node("Conv", moved, filters, strides=strides, pads=pads))
    back = net.node("Transpose", y, perm=(0, 2, 3, 1))
    return net, net.node("Reshape", back, net.const([1, 48, 48, 16])), 4, np.uint8


def transpose(form: str) -> tuple[Net, str, int, Any]:
    """Of what lies in [4, 100, 100, 8] to [100, 4, 8, 100]."""
    net = floats(4, 100, 100, 8)
    if form == "one":
        return net, net.node("Transpose", "x", perm=(2, 0, 3, 1)), 4, np.float32
    flat = net.node("Reshape", "x", net.const([4, 100, 800]))
    inner = net.node("Flatten", net.node("Transpose", flat, perm=(0, 2, 1)), axis=1)
    outer = net.node("Reshape", inner, net.const([4, 100, 800]))
    turned = net.node("Transpose", outer, perm=(1, 0, 2))
    return net, net.node("Reshape", turned, net.const([100, 4, 8, 100])), 4, np.float32


def runs(form: str) -> tuple[Net, str, int, Any]:
    """[1, 100, 32, 2] by [1, 100, 1, 2]."""
    net = floats(1, 100, 1, 2)
    narrow = net.node("Abs", "x")
    if form == "Expand first":
        narrow = net.node("Expand", narrow, net.const([1, 100, 32, 2]))
    return net, net.node("Mul", net.random(1, 100, 32, 2), narrow), 4, np.float32


def softmax(form: str) -> tuple[Net, str, int, Any]:
    """Of 10 codes that go out as int8."""
    net = codes(1, 10)
    if form == "Cast, Mul, ..., Add, Cast":
        scaled = net.node("Mul", net.node("Cast", "x", to=1), net.const(0.05, np.float32))
        y = net.quantized(net.node("Softmax", scaled), 0)
        turned = net.node("Add", y, net.const(128, np.uint8))
        return net, net.node("Cast", turned, to=3), 2, np.int8
    real = net.node("Softmax", net.dequantized("x", 128))
    return net, net.quantized(real, -128, np.int8), 2, np.int8


ROWS: list[tuple[str, Callable[[str], tuple[Net, str, int, Any]], tuple[str, ...]]] = [
    (
        "PRelu",
        prelu,
        ("op", "Max(x, a*x)", "a*x + (1-a)*Relu(x)", "x + (1-a)*Relu(-x)"),
    ),
    ("zero channels", channels, ("Pad", "Conv")),
    ("first Conv, floats", entry, ("Transpose", "columns as channels")),
    ("first Conv, codes", entry_of_codes, ("1 column", "2 columns", "4 columns", "8 columns")),
    ("Transpose", transpose, ("one", "two")),
    ("short runs", runs, ("Mul alone", "Expand first")),
    ("Softmax at the end", softmax, ("Cast, Mul, ..., Add, Cast", "Dequantize, Quantize")),
]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="spent on each computation")
    options = parser.parse_args()
    lines = []
    for what, build, forms in ROWS:
        timed: list[tuple[ort.InferenceSession, np.ndarray, list[float]]] = []
        with tempfile.TemporaryDirectory() as folder:
            for form in forms:
                net, result, rank, kind = build(form)
                timed.append((net.session(result, rank, kind, Path(folder)), net.x, []))
        end = time.perf_counter() + options.seconds
        while time.perf_counter() < end:
            for session, x, found in timed:
                session.run(None, {"x": x})
                start = time.perf_counter()
                session.run(None, {"x": x})
                found.append(1e6 * (time.perf_counter() - start))
        best = [float(np.percentile(found, 20)) for _, _, found in timed]
        for form, value in zip(forms, best, strict=True):
            lines.append((f"{what}: {form}", f"{value:.1f}", f"{value / best[0]:.2f}"))
    print_rows(("form", "microseconds", "ratio"), lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
