"""Convolutions of any rank, with groups, weights known at run time, integers less zero points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Layout, Op, Value
from nnconv.ops import conv as c
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Transpose
from nnconv.ops.spatial import Padding
from support.onnx_spine import IrCase, check_ir

SPATIAL = {1: (11,), 2: (9, 8), 3: (6, 7, 5)}
CONVS: dict[int, type[Op]] = {1: c.Conv1D, 2: c.Conv2D, 3: c.Conv3D}
TRANSPOSED: dict[int, type[Op]] = {
    1: c.ConvTranspose1D,
    2: c.ConvTranspose2D,
    3: c.ConvTranspose3D,
}

Build = Callable[[Builder], Value]


def attributes(rank: int, **more: object) -> dict[str, object]:
    plain: dict[str, object] = {
        "layout": Layout.NCHW,
        "stride": (2, 1, 2)[:rank],
        "dilation": (1, 2, 1)[:rank],
        "padding": Padding((1, 2, 1)[:rank], (2, 0, 1)[:rank]),
    }
    return plain | more


def random(b: Builder, shape: Sequence[int], seed: int = 3) -> Value:
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return b.const(data, f"c{seed}")


def turned(rank: int, *, transposed: bool) -> tuple[int, ...]:
    """From ONNX's order of weights to the IR's."""
    spatial = range(2, rank + 2)
    return (1, *spatial, 0) if transposed else (0, *spatial, 1)


def conv(
    op: Op,
    channels: int,
    weights: tuple[int, ...],
    *,
    bias: int = 0,
    constant: bool = True,
    dtype: DType = DType.FLOAT32,
) -> Build:
    """A convolution of weights of a shape of ONNX's."""
    rank = len(weights) - 2
    order = turned(rank, transposed=type(op) in TRANSPOSED.values())

    def typed(b: Builder, value: Value) -> Value:
        return value if dtype is DType.FLOAT32 else b.add(Cast(dtype=dtype), [value])

    def build(b: Builder) -> Value:
        x = typed(b, b.input("x", DType.FLOAT32, (2, channels, *SPATIAL[rank])))
        if constant:
            filters = typed(b, random(b, [weights[p] for p in order]))
        else:
            filters = typed(b, b.input("w", DType.FLOAT32, weights))
            filters = b.add(Transpose(perm=order), [filters])
        operands = [x, filters, *([typed(b, random(b, [bias], 4))] if bias else [])]
        result = b.add(op, operands)
        return result if dtype is DType.FLOAT32 else b.add(Cast(dtype=DType.FLOAT32), [result])

    return build


def direct_cases() -> list[IrCase]:
    cases = []
    window = (3, 2, 3)
    same = Padding((0, 0, 0), (0, 0, 0), same=True)
    for rank, kind in CONVS.items():
        size = window[:rank]
        for groups, channels, filters in ((1, 4, 3), (2, 4, 6), (4, 4, 8)):
            op = kind(**attributes(rank, groups=groups))
            weights = (filters, channels // groups, *size)
            for constant in (True, False):
                build = conv(op, channels, weights, bias=filters, constant=constant)
                what = f"{rank}-D {groups} groups{'' if constant else ' at run time'}"
                cases.append(IrCase(what, build, nodes={"Conv": 1}))
        for lower in (False, True):
            padding = Padding(same.before[:rank], same.after[:rank], same=True, lower=lower)
            op = kind(**attributes(rank, padding=padding, dilation=(1,) * rank))
            build = conv(op, 4, (3, 4, *size))
            cases.append(IrCase(f"{rank}-D same{' lower' * lower}", build, nodes={"Conv": 1}))
    for dtype in (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64):
        build = conv(c.Conv2D(**attributes(2)), 4, (3, 4, 3, 2), bias=3, dtype=dtype)
        tolerance = 1e-5 if dtype is DType.FLOAT64 else 2e-2
        told = dtype is not DType.BFLOAT16
        cases.append(IrCase(f"{dtype}", build, tolerance=tolerance, evaluated=told))
    return cases


def transposed_cases() -> list[IrCase]:
    cases = []
    for rank, kind in TRANSPOSED.items():
        size = (3, 2, 3)[:rank]
        for groups, channels, filters in ((1, 4, 3), (2, 4, 6), (4, 4, 8)):
            extra = (1, 0, 1)[:rank]
            op = kind(**attributes(rank, groups=groups, output_padding=extra))
            weights = (channels, filters // groups, *size)
            for constant in (True, False):
                build = conv(op, channels, weights, bias=filters, constant=constant)
                what = f"transposed {rank}-D {groups} groups{'' if constant else ' at run time'}"
                told = groups == 1 and rank < 3  # onnx's evaluator can't do others
                cases.append(IrCase(what, build, nodes={"ConvTranspose": 1}, evaluated=told))
    for lower in (False, True):
        for wanted in ((20, 10), (17, 8)):
            padding = Padding((0, 0), (0, 0), lower=lower)
            fields = attributes(2, padding=padding, output_padding=(1, 0), size=wanted)
            build = conv(c.ConvTranspose2D(**fields), 4, (4, 3, 3, 2), bias=3)
            what = f"transposed to {wanted[0]}x{wanted[1]}{' lower' * lower}"
            cases.append(IrCase(what, build, nodes={"ConvTranspose": 1}, evaluated=False))
    fields = attributes(2, output_padding=(0, 0))
    for dtype in (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64):
        build = conv(c.ConvTranspose2D(**fields), 4, (4, 3, 3, 2), bias=3, dtype=dtype)
        tolerance = 1e-5 if dtype is DType.FLOAT64 else 2e-2
        told = dtype is not DType.BFLOAT16
        cases.append(IrCase(f"transposed {dtype}", build, tolerance=tolerance, evaluated=told))
    return cases


def integers(
    rank: int,
    x_type: DType,
    w_type: DType,
    *,
    points: str,
    groups: int = 1,
    constant: bool = True,
) -> Build:
    """ConvInteger; ``points``: "" no zero points, "x", "one" for all filters, "each"."""
    op = c.ConvInteger(**attributes(rank, groups=groups))
    rng = np.random.default_rng(5)
    size = (3, 2, 3)[:rank]

    def codes(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        low, high = dtype.int_range
        return rng.integers(low, high, shape, endpoint=True).astype(dtype.numpy)

    def build(b: Builder) -> Value:
        x = b.input("x", x_type, (2, 4, *SPATIAL[rank]))
        shape = (6, 4 // groups, *size)
        if constant:
            order = turned(rank, transposed=False)
            filters = b.const(codes(tuple(shape[p] for p in order), w_type), "w")
        else:
            order = turned(rank, transposed=False)
            filters = b.add(Transpose(perm=order), [b.input("w", w_type, shape)])
        operands = [x, filters]
        if points:
            operands.append(b.const(np.asarray(7, x_type.numpy), "zx"))
        if points in ("one", "each"):
            shape = (6,) if points == "each" else ()
            operands.append(b.const(codes(shape, w_type), "zw"))
        return b.add(op, operands)

    return build


def integer_cases() -> list[IrCase]:
    byte, signed = DType.UINT8, DType.INT8
    table = {
        "1-D": integers(1, byte, byte, points="one"),
        "2-D": integers(2, byte, signed, points="x"),
        "3-D": integers(3, byte, byte, points=""),
        "groups": integers(2, byte, byte, points="one", groups=2),
        "signed": integers(2, signed, signed, points="one"),
        "at run time": integers(2, byte, byte, points="one", constant=False),
        "a zero point each": integers(2, byte, signed, points="each"),
        "a zero point each, groups": integers(1, byte, signed, points="each", groups=2),
    }
    return [
        # onnx's evaluator works in the operands' 8 bits
        IrCase(
            f"integers {what}",
            build,
            nodes=None if "each" in what else {"ConvInteger": 1},
            evaluated=False,
        )
        for what, build in table.items()
    ]


@pytest.mark.parametrize("case", [*direct_cases(), *transposed_cases(), *integer_cases()], ids=str)
def test_conv(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)
