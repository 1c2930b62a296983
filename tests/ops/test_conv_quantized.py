"""Quantized convolutions and pools as TFLite, on all three sets of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnconv.ir import Activation, Builder, DType, Layout, Op, Quant, Value
from nnconv.ops import conv as c
from nnconv.ops import pool as p
from nnconv.ops.blocks import DepthToSpace, SpaceToDepth
from nnconv.ops.elementwise import Clip
from nnconv.ops.resample import Resample, ResampleNearest
from nnconv.ops.resize import ResizeBilinear, ResizeNearest
from nnconv.ops.sampling import GridSample
from nnconv.ops.slices import Pad, PadMode
from nnconv.ops.spatial import Padding
from nnconv.ops.standardize import BatchNormalization, InstanceNormalization
from support.tflite_spine import TfliteCase, check_tflite

Build = Callable[[Builder], Value]

SHAPE = (2, 9, 8, 4)

_POINTS = {DType.INT8: -5, DType.UINT8: 117, DType.INT16: 0}
_STEPS = {DType.INT8: 0.05, DType.UINT8: 0.05, DType.INT16: 0.0002}


def of(dtype: DType, factor: float = 1.0) -> Quant:
    return Quant.per_tensor(_STEPS[dtype] * factor, _POINTS[dtype])


def codes(shape: Sequence[int], dtype: DType, seed: int = 0) -> np.ndarray:
    low, high = dtype.int_range
    rng = np.random.default_rng(seed)
    return rng.integers(low + 1, high, shape, endpoint=True).astype(dtype.numpy)


def weights(
    b: Builder, shape: Sequence[int], dtype: DType, *, by_channel: bool, axis: int = 0
) -> Value:
    """Symmetric weights; those of uint8 have a zero point."""
    step = 0.02 if dtype.bits == 8 else 0.2
    if by_channel:
        scales = step * (1 + 0.1 * np.arange(shape[axis]))
        quant = Quant.per_channel(scales.tolist(), axis=axis)
    else:
        quant = Quant.per_tensor(step, 120 if dtype is DType.UINT8 else 0)
    return b.const(codes(shape, dtype, 1), "w", quant=quant, dtype=dtype)


def bias(b: Builder, x: Quant, w: Value, count: int, *, wide: bool) -> Value:
    assert w.quant is not None
    scale = np.asarray(w.quant.scale) * x.scale[0]
    data = np.random.default_rng(2).integers(-900, 900, count)
    dtype = np.int64 if wide else np.int32
    many = len(scale) > 1
    quant = Quant.per_channel(scale.tolist(), axis=0) if many else Quant.per_tensor(scale[0])
    return b.const(data.astype(dtype), "b", quant=quant)


def conv(
    op: Op,
    filters: Sequence[int],
    dtype: DType,
    *,
    by_channel: bool = True,
    with_bias: bool = True,
    weight_type: DType | None = None,
) -> Build:
    kind = weight_type or (DType.UINT8 if dtype is DType.UINT8 else DType.INT8)
    groups = op.groups  # type: ignore[attr-defined]
    transposed = isinstance(op, c.ConvTranspose2D)

    def build(b: Builder) -> Value:
        x = b.input("x", dtype, SHAPE, quant=of(dtype))
        w = weights(b, filters, kind, by_channel=by_channel)
        count = filters[0] * (groups if transposed else 1)
        operands = [x, w]
        if with_bias:
            operands.append(bias(b, of(dtype), w, count, wide=dtype is DType.INT16))
        return b.add(op, operands, quant=of(dtype, 4.0))

    return build


FIELDS: dict[str, Any] = {
    "stride": (2, 1),
    "dilation": (1, 1),
    "padding": Padding((1, 0), (1, 1)),
}

PLAIN = c.Conv2D(**FIELDS)
OWN = c.Conv2D(**FIELDS | {"padding": Padding((2, 1), (0, 1))}, activation=Activation.RELU)
GROUPED = c.Conv2D(**FIELDS, groups=2)
DEPTHWISE = c.Conv2D(**FIELDS, groups=4)
TURNED = c.ConvTranspose2D(**FIELDS | {"stride": (2, 2)}, output_padding=(1, 0))


def conv_cases() -> list[TfliteCase]:
    table = {
        "plain": (PLAIN, (6, 3, 2, 4)),
        "padded": (OWN, (6, 3, 2, 4)),
        "groups": (GROUPED, (6, 3, 2, 2)),
        "depthwise": (DEPTHWISE, (4, 3, 2, 1)),
        "depthwise, two each": (DEPTHWISE, (8, 3, 2, 1)),
        "transposed": (TURNED, (6, 3, 2, 4)),
    }
    cases = []
    for what, (op, filters) in table.items():
        for dtype in _POINTS:
            for by_channel in (True, False):
                if dtype is DType.UINT8 and by_channel:
                    continue  # no kernel; see below
                for with_bias in (True, False):
                    name = f"{what} {dtype} {'channel' if by_channel else 'tensor'}"
                    build = conv(op, filters, dtype, by_channel=by_channel, with_bias=with_bias)
                    cases.append(TfliteCase(f"{name}{'' if with_bias else ' without bias'}", build))
    in_floats = {
        "uint8 by channel": conv(PLAIN, (6, 3, 2, 4), DType.UINT8, weight_type=DType.INT8),
        "dilated transposed": conv(
            TURNED.replace(dilation=(2, 1)),
            (6, 3, 2, 4),
            DType.INT8,  # type: ignore[attr-defined]
        ),
        "transposed groups": conv(
            TURNED.replace(groups=2),  # type: ignore[attr-defined]
            (3, 3, 2, 4),
            DType.INT8,
            by_channel=False,
        ),
    }
    cases += [TfliteCase(what, build) for what, build in in_floats.items()]
    narrow = conv(PLAIN, (6, 3, 2, 4), DType.INT8, weight_type=DType.INT4)
    return [*cases, TfliteCase("int4 weights", narrow)]


def unary(op: Op, dtype: DType, *, factor: float = 1.0) -> Build:
    def build(b: Builder) -> Value:
        x = b.input("x", dtype, SHAPE, quant=of(dtype))
        return b.add(op, [x], quant=of(dtype, factor))

    return build


_WINDOW: dict[str, Any] = {"window": (3, 2), "stride": (2, 1), "padding": Padding((1, 0), (1, 1))}
_UNEVEN = _WINDOW | {"padding": Padding((0, 1), (1, 0))}
_SIZES = {"axes": (1, 2), "sizes": (13, 5)}


def other_cases() -> list[TfliteCase]:
    moves: dict[str, Op] = {
        "max pool": p.MaxPool2D(**_WINDOW),
        "max pool, padding of its own": p.MaxPool2D(**_UNEVEN),
        "max pool, dilated": p.MaxPool2D(**_UNEVEN, dilation=(2, 1)),
        "max pool, open end": p.MaxPool2D(**_WINDOW | {"stride": (2, 3)}, ceil=True),
        "nearest": ResizeNearest(size=(13, 5), half_pixel=True),
        "picked": ResampleNearest(**_SIZES),
        "pad": Pad(before=(0, 1, 2, 0), after=(0, 0, 1, 0)),
        "pad value": Pad(before=(0, 1, 2, 0), after=(0, 0, 1, 0), value=1.3),
        "pad reflect": Pad(before=(0, 1, 2, 0), after=(0, 0, 1, 0), mode=PadMode.REFLECT),
        "depth to space": DepthToSpace(block=2),
        "depth to space, depth outermost": DepthToSpace(block=2, column_row_depth=True),
        "space to depth": SpaceToDepth(block=1),
    }
    real: dict[str, Op] = {
        "average pool": p.AveragePool2D(**_WINDOW),
        "average pool, padding of its own": p.AveragePool2D(**_UNEVEN),
        "average pool, counted": p.AveragePool2D(**_UNEVEN, count_padding=True),
        "bilinear": ResizeBilinear(size=(13, 5), half_pixel=True),
        "cubic": Resample(**_SIZES, cubic=True),
    }
    cases = []
    for dtype in _POINTS:
        cases += [TfliteCase(f"{what} {dtype}", unary(op, dtype)) for what, op in moves.items()]
        for what, op in real.items():
            for factor in (1.0, 1.5):
                name = f"{what} {dtype}{'' if factor == 1 else ' requantized'}"
                cases.append(TfliteCase(name, unary(op, dtype, factor=factor)))
    return cases


def normalization(op: Op, names: Sequence[str]) -> Build:
    def build(b: Builder) -> Value:
        x = b.input("x", DType.INT8, SHAPE, quant=of(DType.INT8))
        rng = np.random.default_rng(3)
        numbers = [b.const(rng.uniform(0.5, 1.5, 4).astype(np.float32), n) for n in names]
        return b.add(op, [x, *numbers], quant=of(DType.INT8, 2.0))

    return build


def sampled(b: Builder) -> Value:
    x = b.input("x", DType.INT8, (2, 4, 5, 6), quant=of(DType.INT8))
    places = np.random.default_rng(4).uniform(-1, 1, (2, 3, 2, 2)).astype(np.float32)
    return b.add(GridSample(), [x, b.const(places)], quant=of(DType.INT8))


REAL = [
    TfliteCase(
        "batch normalization",
        normalization(BatchNormalization(axis=3, epsilon=1e-3), ["scale", "offset", "mean", "var"]),
    ),
    TfliteCase(
        "instance normalization",
        normalization(InstanceNormalization(axis=3, epsilon=1e-3), ["scale", "offset"]),
    ),
    TfliteCase("grid", sampled),
]


def relu_first(dtype: DType) -> Build:
    """What is pooled is 0 or more, and its lowest code 0."""
    low = dtype.int_range[0] if dtype.is_integer else 0

    def build(b: Builder) -> Value:
        quant = Quant.per_tensor(0.05, low) if dtype.is_integer else None
        x = b.input("x", dtype, SHAPE, quant=quant)
        if quant is None:
            x = b.add(Clip(low=0.0, high=float("inf")), [x])
        return b.add(p.MaxPool2D(**_UNEVEN), [x], quant=quant)

    return build


POSITIVE = [
    TfliteCase("positive int8", relu_first(DType.INT8), ops={"PAD": 1, "MAX_POOL_2D": 1}),
    TfliteCase(
        "positive float32",
        relu_first(DType.FLOAT32),
        ops={"RELU": 1, "PAD": 1, "MAX_POOL_2D": 1},
    ),
]


def test_layouts_are_channels_last() -> None:
    assert all(op.layout is Layout.NHWC for op in (PLAIN, TURNED))


CASES = [*conv_cases(), *other_cases(), *REAL, *POSITIVE]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tflite(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)
