"""NNRt's resizing, detections and recurrent layers, against formulas worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnconv.errors import UnsupportedError
from nnconv.formats.nnrt.reader import import_model
from support.nnrt_ops import Given, check_op, codes, graph_of, quantized

F32, I32 = np.float32, np.int32


def _places(mode: int, extent: int, size: int) -> np.ndarray:
    """Where each of ``size`` results lies, by the documents' three formulas."""
    steps = np.arange(size)
    if mode == 0:
        return steps * extent / size
    if mode == 1:
        return steps * (extent - 1) / max(size - 1, 1)
    return (steps + 0.5) * extent / size - 0.5


def _between(x: np.ndarray, axis: int, mode: int, size: int) -> np.ndarray:
    extent = x.shape[axis]
    places = np.clip(_places(mode, extent, size), 0, extent - 1)
    low = np.floor(places).astype(int)
    high = np.minimum(low + 1, extent - 1)
    shape = [1] * x.ndim
    shape[axis] = size
    part = (places - low).reshape(shape)
    return np.take(x, low, axis) * (1 - part) + np.take(x, high, axis) * part


def _resized(x: np.ndarray, mode: int, size: tuple[int, int]) -> np.ndarray:
    return _between(_between(x.astype(np.float64), 1, mode, size[0]), 2, mode, size[1])


@pytest.mark.parametrize("dtype", [F32, np.float16])
@pytest.mark.parametrize("excludes", [None, 0, 1])
@pytest.mark.parametrize("size", [(4, 6), (3, 7), (1, 1)])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_resize_bilinear(
    mode: int, size: tuple[int, int], excludes: int | None, dtype: Any
) -> None:
    x = np.random.default_rng(mode).uniform(0, 1, (1, 2, 3, 2)).astype(dtype)
    params = {"newHeight": size[0], "newWidth": size[1], "coordinateTransformMode": mode}
    if excludes is not None:
        params["excludeOutside"] = excludes
    check_op("RESIZE_BILINEAR", {"input": x}, params, _resized(x, mode, size).astype(dtype))


@pytest.mark.parametrize("scale", [0.25, 0.5])
def test_resize_bilinear_of_codes(scale: float) -> None:
    x = np.asarray([[[[0], [4]], [[8], [100]]]])
    expected = quantized(_resized(x, 2, (4, 4)) * 0.25, scale, 0)
    params = {"newHeight": 4, "newWidth": 4, "coordinateTransformMode": 2}
    check_op("RESIZE_BILINEAR", {"input": codes(x, 0.25)}, params, expected, steps=1)


def test_resize_bilinear_that_keeps_the_ratio() -> None:
    x = np.random.default_rng(1).uniform(0, 1, (1, 2, 3, 1)).astype(F32)
    params = {"newHeight": 4, "newWidth": 6, "preserveAspectRatio": True}
    check_op("RESIZE_BILINEAR", {"input": x}, params, _resized(x, 0, (4, 6)).astype(F32))


def test_detection_post_process() -> None:
    # Two anchors: the second box, one step of scale to the right, is half of the first.
    anchors = np.asarray([[0.5, 0.5, 1, 1], [0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 1, 1]], F32)
    boxes = np.asarray([[[0, 0, 0, 0], [0, 10, 0, 0], [1, 0, 0, 0]]], F32)
    scores = np.asarray([[[0.1, 0.9, 0.2], [0.1, 0.3, 0.8], [0.1, 0.7, 0.1]]], F32)
    params = {
        "inputSize": 300, "scale": [10, 10, 5, 5], "nmsIoUThreshold": 0.5,
        "nmsScoreThreshold": 0.25, "maxDetections": 3, "detectionsPerClass": 3,
        "maxClassesPerDetection": 1, "numClasses": 2, "useRegularNms": False,
    }  # fmt: skip
    expected = [
        np.asarray([[[0, 0, 1, 1], [0.25, 0.75, 0.75, 1.25], [0, 0, 0, 0]]], F32),
        np.asarray([[0, 1, 0]], F32),
        np.asarray([[0.9, 0.8, 0]], F32),
        np.asarray([2], F32),
    ]
    inputs = {"bbox": boxes, "scores": scores, "anchors": anchors}
    check_op(
        "DETECTION_POST_PROCESS", inputs, params, expected, devices=["reference", "onnxruntime:cpu"]
    )


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _lstm(
    x: np.ndarray,
    weights: list[np.ndarray],
    state: list[np.ndarray],
    *,
    back: bool,
    zoneout: tuple[float, float] = (0, 0),
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A layer of one direction; gates i, o, f, c; a share of the old states stays."""
    w, r, b = weights
    h, c = state
    steps = range(len(x))
    results = [np.empty(0)] * len(x)
    for step in reversed(steps) if back else steps:
        gates = x[step] @ w.T + h @ r.T + b[: len(w)] + b[len(w) :]
        i, o, f, g = np.split(gates, 4, axis=-1)
        new = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        c = zoneout[0] * c + (1 - zoneout[0]) * new
        h = zoneout[1] * h + (1 - zoneout[1]) * _sigmoid(o) * np.tanh(c)
        results[step] = h
    return np.stack(results), h, c


@pytest.mark.parametrize("zoneout", [(0, 0), (0.25, 0), (0.125, 0.5)], ids=str)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("directions", "layers"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_lstm(directions: int, layers: int, zoneout: tuple[float, float], *, bias: bool) -> None:
    steps, batch, hidden = 3, 2, 4
    size = hidden * directions  # so that each layer's input is as wide as the first one's
    rng = np.random.default_rng(7)
    count = directions * layers

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.5, shape).astype(F32)

    inputs = {
        "input": draw(steps, batch, size), "wIh": draw(count, 4 * hidden, size),
        "wHh": draw(count, 4 * hidden, hidden), "bias": draw(count, 8 * hidden),
        "hx": draw(count, batch, hidden), "cx": draw(count, batch, hidden),
    }  # fmt: skip
    x = inputs["input"].astype(np.float64)
    last, cells = [], []
    for layer in range(layers):
        found = []
        for direction in range(directions):
            k = layer * directions + direction
            weights = [inputs["wIh"][k], inputs["wHh"][k], inputs["bias"][k] * bias]
            state = [inputs["hx"][k], inputs["cx"][k]]
            outputs, h, c = _lstm(x, weights, state, back=direction == 1, zoneout=zoneout)
            found.append(outputs)
            last.append(h)
            cells.append(c)
        x = np.concatenate(found, axis=-1)
    params = {
        "bidirectional": directions == 2, "hasBias": bias, "inputSize": size,
        "hiddenSize": hidden, "numLayers": layers, "numDirections": directions,
        "zoneoutCell": zoneout[0], "zoneoutHidden": zoneout[1],
        "projSize": 3,  # which the runtime reads as the bits of a float32 number: as 0
    }  # fmt: skip
    expected = [x.astype(F32), np.stack(last).astype(F32), np.stack(cells).astype(F32)]
    check_op("LSTM", inputs, params, expected)


def test_a_projection_that_the_runtime_sees_has_no_weights() -> None:
    size = int(np.float32(3).view(np.int32))
    shapes = {
        "input": (2, 1, 4), "wIh": (1, 16, 4), "wHh": (1, 16, 4), "bias": (1, 32),
        "hx": (1, 1, 4), "cx": (1, 1, 4),
    }  # fmt: skip
    inputs = {name: np.zeros(shape, F32) for name, shape in shapes.items()}
    params = {
        "inputSize": 4, "hiddenSize": 4, "numLayers": 1, "numDirections": 1, "projSize": size,
    }  # fmt: skip
    outputs = [Given(np.zeros(shape, F32)) for shape in ((2, 1, 3), (1, 1, 3), (1, 1, 4))]
    with pytest.raises(UnsupportedError, match="reads as 3"):
        import_model(graph_of("LSTM", inputs, params, outputs))
