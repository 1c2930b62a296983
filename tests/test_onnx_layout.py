"""Image networks in PyTorch's style, from ONNX to TFLite: no transpose but at the edges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import nnconv
from support.litert import run_litert
from support.onnx_routes import OnnxCase, check_routes, node
from support.tflite_spine import tflite_ops


class Net:
    """The nodes of a network under construction, as PyTorch writes them."""

    def __init__(self, *shape: int, open_batch: bool = False) -> None:
        self.rng = np.random.default_rng(0)
        self.shape = shape
        self.open_batch = open_batch
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def const(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def floats(self, *shape: int) -> str:
        return self.const((self.rng.standard_normal(shape) * 0.5).astype(np.float32))

    def ints(self, *numbers: int) -> str:
        return self.const(np.array(numbers, np.int64))

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x: str, depth: int, filters: int, size: int = 3, **attributes: Any) -> str:
        groups = attributes.get("group", 1)
        spatial = len(self.shape) - 2
        weights = self.floats(filters, depth // groups, *[size] * spatial)
        pads = [size // 2] * (2 * spatial)
        attributes = {"kernel_shape": [size] * spatial, "pads": pads, **attributes}
        return str(self.add("Conv", x, weights, self.floats(filters), **attributes))

    def norm(self, x: str, depth: int) -> str:
        variance = self.const(np.linspace(0.5, 1.5, depth, dtype=np.float32))
        offsets = [self.floats(depth) for _ in range(3)]
        return str(self.add("BatchNormalization", x, *offsets, variance))

    def relu(self, x: str) -> str:
        return str(self.add("Relu", x))

    def resized(self, x: str, *shape: int) -> str:
        """A Reshape whose first extent is read off the input, as in traces with an open batch."""
        if not self.open_batch:
            return str(self.add("Reshape", x, self.ints(self.shape[0], *shape)))
        batch = self.add("Gather", self.add("Shape", "x"), self.const(np.array(0)), axis=0)
        batch = self.add("Unsqueeze", batch, self.ints(0))
        parts = [self.ints(d) for d in shape]
        return str(self.add("Reshape", x, self.add("Concat", batch, *parts, axis=0)))

    def case(self, name: str, outputs: list[str]) -> OnnxCase:
        x = self.rng.standard_normal(self.shape).astype(np.float32)
        more = self.rng.standard_normal((3, *self.shape[1:])).astype(np.float32)
        return OnnxCase(
            name,
            self.nodes,
            {"x": x},
            more=[{"x": more}] if self.open_batch else [],
            constants=self.constants,
            outputs=outputs,
            open={"x": [0]} if self.open_batch else {},
            routes=("reference", "tflite"),
            tolerance=1e-4,
        )


def _residual(net: Net) -> list[str]:
    y = net.relu(net.norm(net.conv("x", 4, 8), 8))
    z = net.relu(net.norm(net.conv(y, 8, 8, group=8), 8))
    y = net.relu(net.add("Add", net.norm(net.conv(z, 8, 8, 1), 8), y))
    y = net.add("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    y = net.add("Flatten", net.add("GlobalAveragePool", y), axis=1)
    return [net.add("Gemm", y, net.floats(5, 8), net.floats(5), transB=1)]


def _flattened(net: Net) -> list[str]:
    y = net.add("AveragePool", net.conv("x", 4, 6), kernel_shape=[2, 2], strides=[2, 2])
    y = net.relu(net.add("Flatten", y, axis=1))
    y = net.relu(net.add("Gemm", y, net.floats(7, 72), net.floats(7), transB=1))
    return [net.add("Add", net.add("MatMul", y, net.floats(7, 5)), net.floats(5))]


def _gated(net: Net) -> list[str]:
    y = net.conv("x", 4, 8)
    y = net.add("Mul", y, net.add("HardSigmoid", y, alpha=1 / 6, beta=0.5))
    gate = net.add("ReduceMean", y, net.ints(2, 3), keepdims=1)
    gate = net.conv(net.relu(net.conv(gate, 8, 2, 1)), 2, 8, 1)
    y = net.add("Mul", y, net.add("Sigmoid", gate))
    return [net.add("PRelu", net.conv(y, 8, 3), net.floats(3, 1, 1))]


def _shuffled(net: Net) -> list[str]:
    y = net.conv("x", 4, 8)
    for _ in range(2):
        left, right = net.add("Split", y, net.ints(4, 4), outputs=2, axis=1)
        right = net.relu(net.conv(right, 4, 4))
        y = net.add("Concat", left, right, axis=1)
        y = net.resized(y, 2, 4, 8, 6)
        y = net.add("Transpose", y, perm=[0, 2, 1, 3, 4])
        y = net.resized(y, 8, 8, 6)
    return [net.conv(y, 8, 5)]


def _segmented(net: Net) -> list[str]:
    low = net.relu(net.conv("x", 4, 8, strides=[2, 2]))
    up = net.add("ConvTranspose", low, net.floats(8, 6, 2, 2), net.floats(6), strides=[2, 2])
    y = net.add("Concat", up, "x", axis=1)
    scales = net.const(np.array([1, 1, 2, 2], np.float32))
    for mode, middle in (("linear", "half_pixel"), ("nearest", "asymmetric")):
        y = net.add(
            "Resize",
            net.conv(y, 10 if mode == "linear" else 5, 5),
            "",
            scales,
            mode=mode,
            coordinate_transformation_mode=middle,
            nearest_mode="floor",
        )
    return [net.add("Softmax", y, axis=1)]


def _detecting(net: Net) -> list[str]:
    y = net.conv("x", 4, 8)
    heads = []
    for size in (1, 3):
        head = net.add("Transpose", net.conv(y, 8, 12, size), perm=[0, 2, 3, 1])
        heads.append(net.resized(head, 8 * 6 * 3, 4))
    return [net.add("Concat", *heads, axis=1)]


def _enlarged(net: Net) -> list[str]:
    y = net.add("Tanh", net.conv("x", 4, 8))
    y = net.add("DepthToSpace", net.conv(y, 8, 12), blocksize=2, mode="CRD")
    y = net.resized(net.conv(y, 3, 12), 3, 2, 2, 16, 12)
    y = net.add("Transpose", y, perm=[0, 1, 4, 2, 5, 3])
    return [net.conv(net.resized(y, 3, 32, 24), 3, 3)]


def _grouped(net: Net) -> list[str]:
    y = net.conv("x", 4, 8)
    z = net.resized(y, 2, 4 * 48)
    z = net.add("InstanceNormalization", z, net.floats(2), net.floats(2))
    z = net.resized(z, 8, 8, 6)
    z = net.add("Add", net.add("Mul", z, net.floats(8, 1, 1)), net.floats(8, 1, 1))
    z = net.add("InstanceNormalization", net.add("Add", y, z), net.floats(8), net.floats(8))
    return [net.conv(z, 8, 3)]


def _last(net: Net) -> list[str]:
    """ConvNeXt."""
    y = net.conv("x", 4, 8)
    z = net.add("Transpose", net.conv(y, 8, 8, group=8), perm=[0, 2, 3, 1])
    z = net.add("LayerNormalization", z, net.floats(8), net.floats(8), axis=-1)
    z = net.relu(net.add("Add", net.add("MatMul", z, net.floats(8, 16)), net.floats(16)))
    z = net.add("Add", net.add("MatMul", z, net.floats(16, 8)), net.floats(8))
    z = net.add("Transpose", net.add("Mul", z, net.floats(8)), perm=[0, 3, 1, 2])
    return [net.conv(net.add("Add", y, z), 8, 3)]


def _attending(net: Net) -> list[str]:
    y = net.conv("x", 4, 6)
    q, k, v = (net.resized(net.conv(y, 6, 6, 1), 6, 48) for _ in range(3))
    scores = net.add("MatMul", net.add("Transpose", q, perm=[0, 2, 1]), k)
    scores = net.add("Softmax", scores, axis=-1)
    z = net.add("MatMul", v, net.add("Transpose", scores, perm=[0, 2, 1]))
    return [net.conv(net.add("Add", net.resized(z, 6, 8, 6), y), 6, 3)]


def _rows(net: Net) -> list[str]:
    y = net.relu(net.norm(net.conv("x", 4, 8, strides=[2]), 8))
    y = net.add("Add", y, net.relu(net.conv(y, 8, 8, dilations=[2], pads=[2, 2])))
    y = net.add("MaxPool", y, kernel_shape=[2], strides=[2])
    return [net.conv(y, 8, 3, 1)]


def _volumes(net: Net) -> list[str]:
    y = net.relu(net.norm(net.conv("x", 4, 6), 6))
    y = net.add("Add", y, net.conv(y, 6, 6, strides=[1, 1, 1]))
    return [net.conv(y, 6, 3, 1, strides=[2, 2, 2])]


IMAGE = (2, 4, 8, 6)
NETWORKS: list[tuple[Callable[[Net], list[str]], tuple[int, ...], int]] = [
    (_residual, IMAGE, 1),
    (_flattened, IMAGE, 1),
    (_gated, IMAGE, 2),
    (_shuffled, IMAGE, 4),
    (_segmented, IMAGE, 2),
    (_detecting, IMAGE, 1),
    (_enlarged, IMAGE, 2),
    (_grouped, IMAGE, 2),
    (_last, IMAGE, 2),
    (_attending, IMAGE, 2),
    (_rows, (2, 4, 16), 2),
    (_volumes, (2, 4, 4, 6, 4), 2),
]
IDS = [build.__name__[1:] for build, _, _ in NETWORKS]


@pytest.mark.parametrize("open_batch", [False, True])
@pytest.mark.parametrize(("build", "shape", "transposes"), NETWORKS, ids=IDS)
def test_no_transpose_but_at_the_edges(
    build: Callable[[Net], list[str]],
    shape: tuple[int, ...],
    transposes: int,
    open_batch: bool,
    tmp_path: Path,
) -> None:
    net = Net(*shape, open_batch=open_batch)
    case = net.case(build.__name__[1:], build(net))
    check_routes(case, tmp_path)
    assert tflite_ops((tmp_path / "case.tflite").read_bytes()).get("TRANSPOSE", 0) == transposes


@pytest.mark.parametrize("build", [_residual, _gated, _segmented, _enlarged])
def test_the_interface_moves_on_request(build: Callable[[Net], list[str]], tmp_path: Path) -> None:
    net = Net(*IMAGE)
    source, target = tmp_path / "m.onnx", tmp_path / "m.tflite"
    case = net.case("net", build(net))
    source.write_bytes(case.model().SerializeToString())
    report = nnconv.convert(source, target, io_layout="nhwc")
    assert "TRANSPOSE" not in tflite_ops(target.read_bytes())
    assert "x" in report.moved_io
    x = case.feeds["x"]
    session = onnxruntime.InferenceSession(str(source), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": x})
    (seen,) = run_litert(target.read_bytes(), [x.transpose(0, 2, 3, 1)])
    seen = seen.transpose(0, 3, 1, 2) if seen.ndim == 4 else seen
    np.testing.assert_allclose(seen, wanted, rtol=1e-3, atol=1e-4)
