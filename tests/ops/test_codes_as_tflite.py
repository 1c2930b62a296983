"""Ops of real numbers on codes: QDQ in ONNX files; in .tflite files in floats, or on the codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Layout, Op, Quant, Value
from nnconv.ir.types import TensorType
from nnconv.ops import activation as a
from nnconv.ops import elementwise as e
from nnconv.ops import norm
from nnconv.ops import numeric as n
from nnconv.ops import product as p
from nnconv.ops import reduce as r
from nnconv.ops.pool import AveragePool3D
from nnconv.ops.quantize import Dequantize, Quantize
from nnconv.ops.slices import Pad
from nnconv.ops.spatial import Padding
from support.onnx_spine import IrCase, check_ir
from support.tflite_spine import TfliteCase, check_tflite

Build = Callable[[Builder], Value]

X = {
    DType.INT8: Quant.per_tensor(0.03, -5),
    DType.UINT8: Quant.per_tensor(0.03, 120),
    DType.INT16: Quant.per_tensor(0.0002),
}
Y = {
    DType.INT8: Quant.per_tensor(0.05, 3),
    DType.UINT8: Quant.per_tensor(0.05, 131),
    DType.INT16: Quant.per_tensor(0.0003),
}

SHAPE = (2, 3, 4)


def unary(op: Op, dtype: DType) -> Build:
    """An op of codes of other parameters than its result's."""
    return lambda b: b.add(op, [b.input("x", dtype, SHAPE, quant=X[dtype])], quant=Y[dtype])


UNARY: tuple[Op, ...] = (
    *(n.Tan(), n.Atan(), n.Sinh(), n.Cosh(), n.Asinh(), n.Erf()),
    *(a.Softplus(), a.Softsign(), a.Mish(), a.Swish(), a.Selu(), a.Celu(), a.HardSigmoid()),
    *(a.ThresholdedRelu(alpha=0.51), a.Shrink(lambd=0.51, bias=0.2)),
    *(e.HardSwish(), e.Gelu(), e.Elu(), e.LeakyRelu(alpha=0.1), e.Abs(), e.Tanh(), e.Sigmoid()),
    *(e.Clip(low=-1.0, high=1.0), e.Clip(low=0.0, high=6.0)),
    *(r.ReduceMean(axes=(1,)), r.ReduceSum(axes=(1,)), r.ReduceMax(axes=(1, 2), keep_dims=True)),
    *(r.ReduceMin(axes=(0,)), r.ReduceL1(axes=(1,)), r.ReduceL2(axes=(1,), keep_dims=True)),
    *(r.ReduceLogSumExp(axes=(2,)), r.ReduceSumSquare(axes=(2,)), r.ReduceProd(axes=(1,))),
    *(r.CumSum(axis=1), r.CumProd(axis=1)),
    *(norm.Softmax(axis=2), norm.Softmax(axis=1), norm.LogSoftmax(axis=2), norm.Hardmax(axis=2)),
)


def binary(op: Op, dtype: DType) -> Build:
    """An op of two operands of codes."""

    def build(b: Builder) -> Value:
        x = b.input("a", dtype, SHAPE, quant=X[dtype])
        return b.add(op, [x, b.input("b", dtype, SHAPE, quant=Y[dtype])], quant=Y[dtype])

    return build


BINARY: tuple[Op, ...] = (
    *(e.Add(), e.Sub(), e.Mul(), e.Maximum(), e.Minimum(), e.PRelu(), e.SquaredDifference()),
    *(n.MaxOf(), n.MinOf(), n.MeanOf()),
)


def _clip(dtype: DType) -> Build:
    def build(b: Builder) -> Value:
        x = b.input("x", dtype, SHAPE, quant=X[dtype])
        bounds = [b.input(name, DType.FLOAT32, ()) for name in ("low", "high")]
        return b.add(n.ClipBetween(), [x, *bounds], quant=Y[dtype])

    return build


def _gemm(dtype: DType) -> Build:
    def build(b: Builder) -> Value:
        x = b.input("x", dtype, (3, 4), quant=X[dtype])
        w = b.input("w", dtype, (4, 5), quant=X[dtype])
        return b.add(p.Gemm(alpha=0.5), [x, w], quant=Y[dtype])

    return build


def _einsum(dtype: DType) -> Build:
    def build(b: Builder) -> Value:
        x = b.input("x", dtype, (2, 3, 4), quant=X[dtype])
        w = b.input("w", dtype, (2, 4, 5), quant=X[dtype])
        return b.add(p.Einsum(equation="bij,bjk->bik"), [x, w], quant=Y[dtype])

    return build


BOUNDS = [None, np.array(-0.5, np.float32), np.array(1.25, np.float32)]

BUILDS: list[tuple[str, Build, list[np.ndarray | None] | None]] = [
    (f"{op!r} {dtype}", make(op, dtype), None)
    for make, ops in ((unary, UNARY), (binary, BINARY))
    for op in ops
    for dtype in X
] + [
    (f"{name} {dtype}", make(dtype), feeds)
    for name, make, feeds in (
        ("clip", _clip, BOUNDS),
        ("gemm", _gemm, None),
        ("einsum", _einsum, None),
    )
    for dtype in X
]

ONNX = [
    IrCase(name, build, feeds, opsets=(21,), evaluated=False, format=source)
    for name, build, feeds in BUILDS
    for source in ("onnx",)
]

TFLITE = [TfliteCase(name, build, feeds) for name, build, feeds in BUILDS]


@pytest.mark.parametrize("case", ONNX, ids=str)
def test_codes_as_onnx(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)


@pytest.mark.parametrize("case", TFLITE, ids=str)
def test_codes_as_tflite(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)


@pytest.mark.parametrize("dtype", X)
def test_results_of_finer_steps_than_an_operator_gives_are_kept(
    dtype: DType, tmp_path: Path
) -> None:
    """All that LOGISTIC could give of these is 0."""
    least, _ = dtype.int_range
    zero = 0 if dtype is DType.INT16 else least
    steps = Quant.per_tensor(1e-9 if dtype is DType.INT16 else 3e-6, zero)
    scale = 12 / (32768 if dtype is DType.INT16 else 256)
    wide = Quant.per_tensor(scale, 0 if dtype is DType.INT16 else least + 255)

    def build(b: Builder) -> Value:
        return b.add(e.Sigmoid(), [b.input("x", dtype, SHAPE, quant=wide)], quant=steps)

    ops = {"DEQUANTIZE": 1, "LOGISTIC": 1, "QUANTIZE": 1}
    counted = None if dtype is DType.UINT8 else ops  # those are signed inside
    check_tflite(TfliteCase("fine", build, ops=counted), tmp_path)


def test_a_pad_that_no_code_stands_for_puts_in_what_it_says(tmp_path: Path) -> None:
    """The codes end at 3.66."""

    def build(b: Builder) -> Value:
        x = b.input("x", DType.INT8, SHAPE, quant=X[DType.INT8])
        real = b.add(Dequantize(dtype=DType.FLOAT32), [x])
        return b.add(Pad(before=(0, 1, 0), after=(0, 0, 2), value=4.5), [real])

    check_tflite(TfliteCase("pad", build), tmp_path)


def test_codes_that_saturate_before_they_become_others_do_so(tmp_path: Path) -> None:
    """Those in between end at 0: all of the result is 0."""
    between = Quant.per_tensor(0.016, 127)

    def build(b: Builder) -> Value:
        x = b.input("x", DType.INT8, SHAPE, quant=X[DType.INT8])
        sums = b.add(r.ReduceSum(axes=(1,)), [x], quant=between)
        return b.add(e.Clip(low=0.0, high=1.0), [sums], quant=Quant.per_tensor(1 / 255, -128))

    check_tflite(TfliteCase("saturate", build), tmp_path)


def test_means_over_three_dimensions_are_rounded_once(tmp_path: Path) -> None:
    """Means of planes don't fit the narrow range of the whole."""

    def build(b: Builder) -> Value:
        x = b.input("x", DType.INT8, (1, 4, 3, 2, 2), quant=X[DType.INT8])
        nothing = Padding((0, 0, 0), (0, 0, 0))
        op = AveragePool3D(layout=Layout.NHWC, window=(4, 3, 2), stride=(1, 1, 1), padding=nothing)
        return b.add(op, [x], quant=Quant.per_tensor(0.001, -20))

    check_tflite(TfliteCase("mean", build), tmp_path)


@pytest.mark.parametrize("op", [e.LeakyRelu(alpha=0.1), e.Sigmoid(), e.Tanh()], ids=repr)
def test_codes_of_one_type_become_codes_of_another(op: Op, tmp_path: Path) -> None:
    def build(b: Builder) -> Value:
        x = b.input("x", DType.UINT8, SHAPE, quant=X[DType.UINT8])
        return b.add_typed(op, [x], [TensorType(DType.INT8, SHAPE, Y[DType.INT8])])[0]

    check_tflite(TfliteCase("types", build, options={"int8": "keep"}), tmp_path)


@pytest.mark.parametrize(
    "op", [e.Add(), e.Sub(), e.Mul(), e.Div(), e.Maximum(), e.SquaredDifference()], ids=repr
)
@pytest.mark.parametrize("first", [True, False])
def test_one_element_gives_the_dimensions_that_it_has(op: Op, first: bool, tmp_path: Path) -> None:
    """XNNPACK makes tables of such chains, and would leave out the dimensions put in."""
    before, between, after = X[DType.INT8], Y[DType.INT8], Quant.per_tensor(1 / 256, -128)

    def build(b: Builder) -> list[Value]:
        x = b.input("x", DType.INT8, (2, 3), quant=before)
        one = b.const(np.full((1, 1, 1), 61, np.int8), quant=before)
        coded = b.add(op, [one, x] if first else [x, one], quant=between)
        real = b.add(Dequantize(dtype=DType.FLOAT32), [x])
        two = b.const(np.full((1, 1, 1), 2, np.float32))
        found = b.add(op, [two, real] if first else [real, two])
        return [
            b.add(e.Sigmoid(), [coded], quant=after),
            b.add(Quantize(dtype=DType.INT8), [found], quant=between),
        ]

    codes = np.array([[5, 20, 90], [0, 37, 127]], np.int8)
    check_tflite(TfliteCase("rank", build, [codes]), tmp_path)
