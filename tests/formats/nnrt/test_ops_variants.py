"""Parameters of NNRt that are left out or say what leaving them out says, and codes, by formulas.

What the other tests of operations have beside these: parameters that say something else, and the
element types.
"""

from __future__ import annotations

from math import erf, sqrt
from typing import Any

import numpy as np
import pytest

from nnconv.formats.nnrt.wire import QuantParams
from support.nnrt_ops import Given, check_op, codes, const, quantized, real

F32, I32 = np.float32, np.int32
TRUTH = QuantParams([1.0], [0])
"""Of truth values in a quantized model, where it says nothing."""

X = np.arange(24, dtype=F32).reshape(2, 3, 4) - 7
PLANE = np.arange(12, dtype=F32).reshape(3, 4)
IMAGE = np.arange(32, dtype=F32).reshape(1, 4, 4, 2) - 9
CHANNELS = np.arange(16, dtype=F32).reshape(1, 2, 2, 4)

REDUCED = {
    "REDUCE_MAX": np.max, "REDUCE_MEAN": np.mean, "REDUCE_MIN": np.min, "REDUCE_PROD": np.prod,
    "REDUCE_SUM": np.sum, "REDUCE_L2": lambda x, axis: np.sqrt((x * x).sum(axis)),
}  # fmt: skip


@pytest.mark.parametrize("params", [{}, {"keepDims": False, "reduceToEnd": False, "coeff": 0.0}])
@pytest.mark.parametrize("op", REDUCED)
def test_reductions_by_themselves(op: str, params: dict[str, Any]) -> None:
    wanted = REDUCED[op](X.astype(float), axis=1).astype(F32)
    check_op(op, {"input": X, "axis": const([1], I32)}, params, wanted)


def _windows(x: np.ndarray, function: Any) -> np.ndarray:
    parts = x.reshape(1, 2, 2, 2, 2, 2)
    return np.asarray(function(parts, axis=(2, 4)))


def _erf_gelu(x: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda v: v * 0.5 * (1 + erf(v / sqrt(2))), otypes=[F32])(x)


KERNEL = np.random.default_rng(5).normal(size=(2, 1, 1, 2)).astype(F32)
DEEP = {"input": IMAGE, "weight": const(KERNEL), "bias": const(F32([1, -2]))}
PLAIN = {"stride": (1, 1), "dilation": (1, 1)}
POOL = {"kernelSize": (2, 2), "strides": (2, 2)}

SETTINGS: dict[str, tuple[str, dict[str, Any], dict[str, Any], Any]] = {
    "a pool of windows, not of all": (
        "AVG_POOL", {"input": IMAGE}, POOL | {"global": False}, _windows(IMAGE, np.mean),
    ),
    "greatest of windows, not of all": (
        "MAX_POOL", {"input": IMAGE}, POOL | {"global": False}, _windows(IMAGE, np.max),
    ),
    "convolution": ("CONV2D", DEEP, PLAIN, IMAGE @ KERNEL[:, 0, 0].T + F32([1, -2])),
    "convolution of channels": (
        "DEPTHWISE_CONV2D_NATIVE", DEEP | {"weight": const(KERNEL[..., :1])}, PLAIN,
        IMAGE * KERNEL[:, 0, 0, 0] + F32([1, -2]),
    ),
    "product": ("MATMUL", {"input1": PLANE, "input2": const(PLANE.T.copy())}, {}, PLANE @ PLANE.T),
    "product turned by false": (
        "MATMUL", {"input1": PLANE, "input2": const(PLANE.T.copy())},
        {"TransposeX": False, "TransposeY": False}, PLANE @ PLANE.T,
    ),
    "layer without its bias": (
        "FULL_CONNECTION", {"input": PLANE, "weight": const(PLANE), "bias": const(F32([1, 2, 3]))},
        {"hasBias": False}, PLANE @ PLANE.T,
    ),
    "layer without an axis": (
        "FULL_CONNECTION", {"input": PLANE, "weight": const(PLANE)}, {"useAxis": False},
        PLANE @ PLANE.T,
    ),
    "resized to any ratio": (
        "RESIZE_BILINEAR", {"input": IMAGE},
        {"newHeight": 2, "newWidth": 4, "preserveAspectRatio": False}, IMAGE[:, ::2],
    ),
    "exact gelu": ("GELU", {"input": X}, {"approximate": False}, _erf_gelu(X)),
    "greatest in order": (
        "TOP_K", {"input": PLANE, "k": const([2], I32)}, {"axis": 1},
        [PLANE[:, :1:-1].copy(), np.tile(I32([3, 2]), (3, 1))],
    ),
    "places, no values": (
        "ARG_MAX", {"input": PLANE}, {"outMaxValue": False, "topK": 1}, I32([3, 3, 3]),
    ),
    "unstacked": ("UNSTACK", {"input": PLANE}, {}, list(PLANE)),
    "depth to space": (
        "DEPTH_TO_SPACE", {"input": CHANNELS}, {"blockSize": 2},
        CHANNELS.reshape(1, 2, 2, 2, 2, 1).transpose(0, 1, 3, 2, 4, 5).reshape(1, 4, 4, 1),
    ),
    "range from 0": ("RANGE", {"input": F32([0])}, {"limit": 4}, I32([0, 1, 2, 3])),
    "range from below": ("RANGE", {"input": F32([0])}, {"limit": 2, "start": -1}, I32([-1, 0, 1])),
    "range by steps": ("RANGE", {"input": F32([0])}, {"limit": 5, "delta": 2}, I32([0, 2, 4])),
    "all": ("ALL", {"input": X > -7, "axis": const([2], I32)}, {}, (X > -7).all(2)),
    "cropped from the first": (
        "CROP", {"input": PLANE, "shape": np.zeros((2, 3), I32)}, {}, PLANE[:2, :3].copy(),
    ),
    "cropped behind the first": (
        "CROP", {"input": PLANE, "shape": np.zeros((9, 2), I32)}, {"axis": 1}, PLANE[:, :2].copy(),
    ),
    "nothing is left of a norm": ("LRN", {"input": IMAGE}, {"depthRadius": 1}, IMAGE),
    "as many times as large": ("LRN", {"input": IMAGE}, {"depthRadius": 1, "beta": 0.5, "bias": 4},
                               IMAGE / 2),
    "times what it is divided by": (
        "LRN", {"input": IMAGE}, {"depthRadius": 1, "bias": 1, "alpha": 0.5, "beta": -1},
        IMAGE * (1 + 0.5 * (IMAGE * IMAGE).sum(3, keepdims=True)),
    ),
    "norm across the channels": (
        "LRN", {"input": IMAGE},
        {"depthRadius": 1, "bias": 1, "alpha": 0.5, "beta": 0.5, "normRegion": 0},
        (IMAGE / np.sqrt(1 + 0.5 * (IMAGE * IMAGE).sum(3, keepdims=True))).astype(F32),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(name: str) -> None:
    op, inputs, params, wanted = SETTINGS[name]
    check_op(op, inputs, params, wanted, rtol=1e-4)


# ------------------------------------------------------------------------ codes

A = codes(np.random.default_rng(1).integers(-100, 100, (2, 3)), 0.5, 3)
B = codes(np.random.default_rng(2).integers(-100, 100, (2, 3)), 0.25, -4)
LIKE_A = codes(np.random.default_rng(3).integers(-100, 100, (2, 3)), 0.5, 3)

COMPARISONS = {
    "EQUAL": np.equal, "GREATER": np.greater, "GREATER_EQUAL": np.greater_equal,
    "LESS": np.less, "LESS_EQUAL": np.less_equal, "NOT_EQUAL": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("other", [B, LIKE_A, A], ids=["other scale", "same scale", "itself"])
@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_of_codes(op: str, other: Given) -> None:
    wanted = Given(COMPARISONS[op](real(A), real(other)), TRUTH)
    check_op(op, {"input1": A, "input2": other}, {}, wanted)


def as_a(array: np.ndarray) -> Given:
    """Codes with the parameters of A."""
    return codes(array, 0.5, 3)


def _bound(*numbers: int) -> Given:
    return const(numbers, I32)


BOUNDS = {"begin": _bound(1, 2), "end": _bound(2, -4), "strides": _bound(1, -2)}

OF_CODES: dict[str, tuple[str, dict[str, Any], dict[str, Any], Any]] = {
    "joined": (
        "CONCAT", {"input": [A, B]}, {"axis": 1},
        quantized(np.concatenate([real(A), real(B)], 1), 0.5, 1),
    ),
    "greatest": (
        "MAXIMUM", {"input1": A, "input2": B}, {}, quantized(np.maximum(real(A), real(B)), 0.5, 1),
    ),
    "least": (
        "MINIMUM", {"input1": A, "input2": B}, {}, quantized(np.minimum(real(A), real(B)), 0.5, 1),
    ),
    "powers": (
        "POW", {"input": codes([[8, 12, 20]], 0.25), "y": codes([[4], [2]], 0.5)}, {},
        quantized(np.array([[2, 3, 5]]) ** np.array([[2.0], [1.0]]), 0.25, -20),
    ),
    "rest": (
        "MOD", {"input1": A, "input2": codes([[5, 8, -6]], 0.5, 1)}, {},
        quantized(np.fmod(real(A), np.array([[2, 3.5, -3.5]])), 0.5, 1),
    ),
    "stacked": (
        "STACK", {"input": [A, LIKE_A]}, {"axis": 1}, as_a(np.stack([A.array, LIKE_A.array], 1)),
    ),
    "unstacked": ("UNSTACK", {"input": A}, {"axis": 1}, [as_a(row) for row in A.array.T]),
    "cut by strides": (
        "STRIDED_SLICE", {"input": A, **BOUNDS}, {}, as_a(A.array[1:2, ::-2]),
    ),
    "repeated": ("TILE", {"input": A, "multiples": const([2, 1], I32)}, {},
                 as_a(np.tile(A.array, (2, 1)))),
    "spread": ("BROADCAST_TO", {"input": as_a(A.array[:1])}, {"shape": [2, 3]},
               as_a(np.tile(A.array[:1], (2, 1)))),
    "flattened": ("FLATTEN", {"input": A}, {"axis": 0}, as_a(A.array.reshape(1, 6))),
    "a dimension more": ("EXPAND_DIMS", {"input": A, "axis": const([0], I32)}, {},
                         as_a(A.array[None])),
    "extents": ("SHAPE", {"input": A}, {}, I32([2, 3])),
    "number of dimensions": ("RANK", {"input": A}, {}, I32([2])),
    "whole numbers": (
        "QUANT_DTYPE_CAST", {"input": F32([[-5.5, 0, 1.25]])}, {"srcT": 11, "dstT": 4},
        Given(I32([[-5500, 0, 1250]]), QuantParams([0.001], [0])),
    ),
    "a range beside codes": ("RANGE", {"input": A}, {"limit": 2}, I32([0, 1])),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_CODES)
def test_codes(name: str) -> None:
    op, inputs, params, wanted = OF_CODES[name]
    check_op(op, inputs, params, wanted, steps=1)


@pytest.mark.parametrize("regular", [False, True])
def test_boxes_of_each_class_or_of_the_best(*, regular: bool) -> None:
    """Of two boxes in one place the lesser one goes, unless it is of another class."""
    anchors = np.asarray([[0.5, 0.5, 1, 1], [0.5, 0.5, 1, 1], [2.5, 2.5, 1, 1]], F32)
    scores = np.asarray([[[0, 0.9, 0.1], [0, 0.2, 0.8], [0, 0.7, 0.6]]], F32)
    params = {
        "scale": [10, 10, 5, 5], "nmsIoUThreshold": 0.5, "nmsScoreThreshold": 0.5,
        "maxDetections": 4, "detectionsPerClass": 4, "maxClassesPerDetection": 1, "numClasses": 2,
        "useRegularNms": regular,
    }  # fmt: skip
    near, far = [0, 0, 1, 1], [2, 2, 3, 3]
    found = [(near, 0, 0.9), (near, 1, 0.8), (far, 0, 0.7), (far, 1, 0.6)]
    kept = found if regular else [found[0], found[2]]
    filled = kept + [([0, 0, 0, 0], 0, 0)] * (4 - len(kept))
    boxes, classes, confidences = (np.asarray([part], F32) for part in zip(*filled, strict=True))
    given = {"bbox": np.zeros((1, 3, 4), F32), "scores": scores, "anchors": anchors}
    wanted = [boxes, classes, confidences, F32([len(kept)])]
    devices = ["reference", "onnxruntime:cpu"]
    check_op("DETECTION_POST_PROCESS", given, params, wanted, devices=devices)
