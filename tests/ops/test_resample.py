"""Resizing along any dimensions in other types and opsets than onnxruntime has one node for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Op, Value
from nnconv.ops.quantize import Cast
from nnconv.ops.resample import Coordinates, Policy, Resample, ResampleNearest, Rounding
from nnconv.ops.slices import Pad, PadMode
from support.onnx_spine import IrCase, check_ir, on_litert
from support.tflite_spine import TfliteCase, check_tflite

Build = Callable[[Builder], Value]

SHAPE = (2, 5, 4, 3)


def resized(op: Op, dtype: DType = DType.FLOAT32, shape: Sequence[int] = SHAPE) -> Build:
    def build(b: Builder) -> Value:
        if dtype is not DType.BFLOAT16:
            return b.add(op, [b.input("x", dtype, tuple(shape))])
        x = b.add(Cast(dtype=dtype), [b.input("x", DType.FLOAT32, tuple(shape))])
        return b.add(Cast(dtype=DType.FLOAT32), [b.add(op, [x])])

    return build


def open_(op: Op, **operands: np.ndarray) -> tuple[Build, list[np.ndarray | None]]:
    """With operands at run time: roi, scales, sizes."""

    def build(b: Builder) -> Value:
        inputs: list[Value | None] = [b.input("x", DType.FLOAT32, SHAPE)]
        for name in ("roi", "scales", "sizes"):
            array = operands.get(name)
            inputs.append(None if array is None else b.input(name, DType.of(array), array.shape))
        return b.add(op, inputs)

    given = [operands[name] for name in ("roi", "scales", "sizes") if name in operands]
    return build, [None, *given]


OPSETS = (13, 18, 21, 27)


def axes_cases() -> list[IrCase]:
    """Dimensions that onnxruntime doesn't resize by itself, and axes before there were any."""
    cases = []
    for axes in ((0,), (1,), (3,), (1, 2), (2, 3), (3, 1), (0, 1, 2), (0, 1, 2, 3)):
        scales = tuple(1.5 + i for i in range(len(axes)))
        name = f"along {','.join(map(str, axes))}"
        ops: dict[str, Op] = {
            "linear": Resample(axes=axes, scales=scales),
            "cubic": Resample(axes=axes, scales=scales, cubic=True),
            "nearest": ResampleNearest(axes=axes, scales=scales),
        }
        cases += [
            IrCase(f"{what} {name}", resized(op), opsets=OPSETS, evaluated=what == "nearest")
            for what, op in ops.items()
        ]
    return cases


def option_cases() -> list[IrCase]:
    ops: dict[str, Op] = {
        "antialias": Resample(axes=(1, 2), sizes=(2, 3), antialias=True),
        "symmetric": Resample(
            axes=(2, 3), scales=(1.3, 0.7), coordinates=Coordinates.HALF_PIXEL_SYMMETRIC
        ),
        "not larger": Resample(axes=(2, 3), sizes=(9, 5), policy=Policy.NOT_LARGER),
        "nearest not smaller": ResampleNearest(
            axes=(2, 3), sizes=(9, 5), policy=Policy.NOT_SMALLER
        ),
        "nearest symmetric": ResampleNearest(
            axes=(2, 3),
            scales=(1.3, 0.7),
            coordinates=Coordinates.HALF_PIXEL_SYMMETRIC,
            rounding=Rounding.FLOOR,
        ),
    }
    return [IrCase(what, resized(op), opsets=OPSETS, evaluated=False) for what, op in ops.items()]


def run_time_cases() -> list[IrCase]:
    scales = np.asarray([1.5, 2.25], np.float32)
    sizes = np.asarray([7, 5], np.int64)
    roi = np.asarray([0.1, -0.2, 0.8, 1.1], np.float32)
    linear, nearest = Resample(axes=(2, 3)), ResampleNearest(axes=(2, 3))
    crop: dict[str, Any] = {"coordinates": Coordinates.CROP, "extrapolation": 3.0}
    table = {
        "scales": open_(linear, scales=scales),
        "sizes": open_(linear, sizes=sizes),
        "nearest scales": open_(nearest, scales=scales),
        "nearest sizes": open_(nearest, sizes=sizes),
        "roi": open_(linear.replace(**crop), roi=roi, sizes=sizes),
        "nearest roi": open_(nearest.replace(**crop), roi=roi, sizes=sizes),
    }
    return [
        IrCase(f"{what} at run time", build, feeds, opsets=(13, 17, 18, 21), evaluated=False)
        for what, (build, feeds) in table.items()
    ]


def type_cases() -> list[IrCase]:
    nearest = ResampleNearest(axes=(2, 3), scales=(2.0, 1.5))
    linear = Resample(axes=(2, 3), scales=(2.0, 4.0))  # whose weights are exact
    chosen = (
        *(DType.BOOL, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32),
        *(DType.INT64, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64),
    )
    weighed = (DType.INT8, DType.UINT8, DType.INT32, DType.FLOAT16, DType.FLOAT64)
    cases = [
        IrCase(f"nearest of {d}", resized(nearest, d), evaluated=False, tolerance=1e-2)
        for d in chosen
    ]
    return cases + [
        IrCase(
            f"linear of {d}",
            resized(linear, d),
            evaluated=False,
            tolerance=1e-2,
        )
        for d in weighed
    ]


def pad_cases() -> list[IrCase]:
    """Pads before there were axes and wrapping."""
    pads = np.asarray([1, 0, 2, 1], np.int64)

    def at_run_time(op: Pad) -> Build:
        def build(b: Builder) -> Value:
            x = b.input("x", DType.FLOAT32, SHAPE)
            return b.add(op, [x, b.input("pads", DType.INT64, (4,))])

        return build

    of_axes = Pad(before=None, after=None, flat=True, axes=(3, 1), value=0.5)
    edge = of_axes.replace(mode=PadMode.EDGE)
    wrap = Pad(before=(0, 2, 1, 0), after=(0, 6, 0, 1), mode=PadMode.WRAP)
    return [
        IrCase("pads of axes at run time", at_run_time(of_axes), [None, pads], opsets=OPSETS),
        IrCase("edges of axes at run time", at_run_time(edge), [None, pads], opsets=OPSETS),
        IrCase("wrapping", resized(wrap), opsets=OPSETS),
    ]


CASES = [*axes_cases(), *option_cases(), *run_time_cases(), *type_cases(), *pad_cases()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_onnx(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)


@pytest.mark.parametrize("case", on_litert(CASES), ids=str)
def test_tflite(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)
