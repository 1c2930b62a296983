"""Activations that only some formats have as one op."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Op, Value
from nnconv.ops import activation as a
from support.onnx_spine import IrCase, check_ir, on_litert
from support.tflite_spine import TfliteCase, check_tflite

FLOATS = {
    DType.FLOAT32: 1e-6,
    DType.FLOAT16: 1e-3,
    DType.BFLOAT16: 8e-3,
    DType.FLOAT64: 1e-12,
}
"""Float types with the tolerance that their precision allows."""


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


OPS: dict[str, tuple[Op, Callable[[np.ndarray], np.ndarray], str]] = {
    "softplus": (a.Softplus(), softplus, "Softplus"),
    "softsign": (a.Softsign(), lambda x: x / (1 + np.abs(x)), "Softsign"),
    "mish": (a.Mish(), lambda x: x * np.tanh(softplus(x)), "Mish"),
    "selu": (
        a.Selu(alpha=1.5, gamma=2.0),
        lambda x: np.where(x > 0, 2 * x, 3 * (np.exp(x) - 1)),
        "Selu",
    ),
    "selu default": (
        a.Selu(),
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)),
        "Selu",
    ),
    "celu": (
        a.Celu(alpha=2.0),
        lambda x: np.maximum(0, x) + np.minimum(0, 2 * (np.exp(x / 2) - 1)),
        "Celu",
    ),
    "thresholded": (
        a.ThresholdedRelu(alpha=0.5),
        lambda x: np.where(x > 0.5, x, 0),
        "ThresholdedRelu",
    ),
    "hard sigmoid": (
        a.HardSigmoid(alpha=0.25, beta=0.75),
        lambda x: np.clip(0.25 * x + 0.75, 0, 1),
        "HardSigmoid",
    ),
    "shrink": (
        a.Shrink(bias=0.25, lambd=1.0),
        lambda x: np.where(x < -1, x + 0.25, np.where(x > 1, x - 0.25, 0)),
        "Shrink",
    ),
    "swish": (a.Swish(alpha=0.5), lambda x: x / (1 + np.exp(-x / 2)), ""),
    "swish default": (a.Swish(), lambda x: x / (1 + np.exp(-x)), ""),
}

_NO_FLOAT64 = {"softplus", "softsign", "mish", "selu", "selu default", "thresholded"} | {
    "hard sigmoid"
}
"""Ops without a kernel for float64 in onnxruntime."""


def _unary(op: Op, dtype: DType) -> Callable[[Builder], Value]:
    return lambda b: b.add(op, [b.input("x", dtype, (3, 4, 5))])


def _case(name: str, dtype: DType) -> IrCase:
    op, formula, onnx_name = OPS[name]
    one = onnx_name and not (onnx_name == "Celu" and dtype is not DType.FLOAT32)
    one = one and not (dtype is DType.BFLOAT16 and name == "shrink")
    wide = dtype is DType.FLOAT64 and name in _NO_FLOAT64
    # attributes are float32; onnxruntime's Shrink computes float64 in it
    rough = dtype is DType.FLOAT32 or name in ("shrink", "selu default")
    own = 1e-6 if name == "selu default" else 0
    return IrCase(
        f"{name} {dtype}",
        _unary(op, dtype),
        expected=lambda x: formula(x.astype(np.float64)),
        nodes={onnx_name: 1} if one else None,
        runs=() if dtype is DType.BFLOAT16 or wide else None,
        evaluated=dtype is not DType.BFLOAT16,
        tolerance=max(FLOATS[dtype], own),
        runtime_tolerance=max(FLOATS[dtype], 2e-6) if rough else None,
        note="onnxruntime has no bfloat16 kernels",
    )


CASES = [_case(name, dtype) for name in OPS for dtype in FLOATS]

FAR = np.float32([-1000, -100, -20, -1, -0.0, 0, 1, 20, 100, 1000])

BEYOND = np.float32([-np.inf, np.inf, np.nan])

CASES += [
    IrCase(
        f"{name} {places}",
        lambda b, op=op, count=feed.size: b.add(op, [b.input("x", DType.FLOAT32, (count,))]),
        [feed],
        evaluated=False,
        not_on_litert="its kernels keep sums finite" if feed is BEYOND else "",
        note="what overflows on the way must not show",
    )
    for name, (op, _, _) in OPS.items()
    for places, feed in (("far out", FAR), ("beyond", BEYOND))
]

CASES += [
    IrCase(
        f"shrink {dtype}",
        _unary(a.Shrink(bias=1.5, lambd=2.5), dtype),
        nodes={"Shrink": 1},
        evaluated=False,
    )
    for dtype in (DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64)
]

CASES += [
    IrCase(
        "swish of opset 24",
        _unary(a.Swish(alpha=0.5), DType.FLOAT32),
        opsets=(24,),
        nodes={"Swish": 1},
        nodes_at=24,
    ),
    IrCase("swish is one gate", _unary(a.Swish(), DType.FLOAT32), nodes={"Sigmoid": 1, "Mul": 1}),
    IrCase("scalar", lambda b: b.add(a.Mish(), [b.input("x", DType.FLOAT32, ())])),
    IrCase("nothing", lambda b: b.add(a.Selu(), [b.input("x", DType.FLOAT32, (2, 0, 3))])),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_activation(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)


@pytest.mark.parametrize("case", on_litert(CASES), ids=str)
def test_activation_on_litert(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)
