"""Activations on whole numbers: they come behind the op's own wrapping, whatever type does it."""

from __future__ import annotations

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Value
from nnconv.ir.op import Activation, Layout
from nnconv.ops.elementwise import Add, Mul, Sub
from nnconv.ops.pool import MaxPool2D
from nnconv.ops.spatial import Padding
from support.onnx_spine import IrCase, check_ir
from support.tflite_spine import TfliteCase, check_tflite

TYPES = [DType.UINT8, DType.UINT16, DType.UINT32, DType.INT8, DType.INT16, DType.INT32, DType.INT64]
OPS = {Add: np.add, Mul: np.multiply, Sub: np.subtract}
BOUNDS = {Activation.RELU: (0, None), Activation.RELU6: (0, 6)}


def numbers(dtype: DType) -> list[np.ndarray]:
    """Small numbers, and the greatest of the type, which wrap."""
    low, high = dtype.int_range
    x = np.array([3, 5, 0, 7, high, low, high - 1], dtype.numpy)
    return [x, np.array([5, 3, 1, 7, 2, 1, high], dtype.numpy)]


def wrapped(op: type, activation: Activation, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.clip(OPS[op](x, y), *BOUNDS[activation])


@pytest.mark.parametrize("activation", BOUNDS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_what_wraps_does_so_before_it_is_clamped(dtype, op, activation, tmp_path):
    feeds = numbers(dtype)

    def build(b: Builder) -> Value:
        inputs = [b.input(name, dtype, feeds[0].shape) for name in "xy"]
        return b.add(op(activation=activation), inputs)

    wanted = [wrapped(op, activation, *feeds)]
    check_tflite(TfliteCase("tflite", build, feeds=feeds, expected=wanted), tmp_path)


@pytest.mark.parametrize("activation", BOUNDS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_the_greatest_of_a_window_is_clamped(dtype, activation, tmp_path):
    low, high = max(dtype.int_range[0], -50), min(dtype.int_range[1], 50)
    x = np.random.default_rng(1).integers(low, high, (1, 4, 4, 2)).astype(dtype.numpy)
    op = MaxPool2D(
        layout=Layout.NHWC,
        window=(2, 2),
        stride=(1, 1),
        padding=Padding.none(2),
        activation=activation,
    )

    def build(b: Builder) -> Value:
        return b.add(op, [b.input("x", dtype, x.shape)])

    greatest = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (1, 2)).max((-2, -1))
    wanted = [np.clip(greatest, *BOUNDS[activation])]
    not_there = "it has cases of its own"
    case = IrCase(
        "onnx", build, feeds=[x], expected=wanted, not_on_litert=not_there, format="tflite"
    )
    check_ir(case, tmp_path)
    check_tflite(TfliteCase("tflite", build, feeds=[x], expected=wanted), tmp_path)
