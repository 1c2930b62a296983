"""CONV_3D and CONV_3D_TRANSPOSE, with every dimension different."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from support.spine import Case, check
from support.tflite_builder import TfliteBuilder

WINDOW = (2, 3, 4)
STRIDES = ((1, 1, 1), (2, 1, 3))
DILATIONS = ((1, 1, 1), (1, 2, 1))
Triple = tuple[int, int, int]


def _options(padding: str, stride: Triple, dilation: Triple, activation: str) -> dict[str, object]:
    options: dict[str, object] = {"padding": padding, "fused_activation_function": activation}
    for axis, step, spread in zip("dhw", stride, dilation, strict=True):
        options |= {f"stride_{axis}": step, f"dilation_{axis}_factor": spread}
    return options


def forward_case(padding: str, stride: Triple, dilation: Triple, activation: str) -> Case:
    """A CONV_3D."""
    extents = (5, 6, 7)
    reach = [(w - 1) * d + 1 for w, d in zip(WINDOW, dilation, strict=True)]
    out = [
        -(-(extent if padding == "SAME" else extent - r + 1) // step)
        for extent, r, step in zip(extents, reach, stride, strict=True)
    ]

    def build(b: TfliteBuilder) -> None:
        rng = np.random.default_rng(0)
        x = b.input("x", "float32", (2, *extents, 3))
        w = b.const(rng.standard_normal((*WINDOW, 3, 8)).astype(np.float32))
        offset = b.const(rng.standard_normal(8).astype(np.float32))
        options = _options(padding, stride, dilation, activation)
        b.output(b.op("CONV_3D", [x, w, offset], [("float32", (2, *out, 8))], options=options))

    return Case(f"forward-{padding}-{stride}-{dilation}-{activation}", build)


def transposed_case(padding: str, stride: Triple, *, biased: bool, run_time: bool) -> Case:
    """A CONV_3D_TRANSPOSE; with ``run_time`` the result's shape is an input."""
    extents = (3, 4, 5)
    out = tuple(
        extent * step if padding == "SAME" else (extent - 1) * step + w
        for extent, w, step in zip(extents, WINDOW, stride, strict=True)
    )
    shape = np.asarray((2, *out, 6), np.int32)

    def build(b: TfliteBuilder) -> None:
        rng = np.random.default_rng(0)
        wanted = b.input("shape", "int32", (5,)) if run_time else b.const(shape)
        x = b.input("x", "float32", (2, *extents, 3))
        operands = [wanted, b.const(rng.standard_normal((*WINDOW, 6, 3)).astype(np.float32)), x]
        if biased:
            operands.append(b.const(rng.standard_normal(6).astype(np.float32)))
        options = _options(padding, stride, (1, 1, 1), "RELU" if biased else "NONE")
        b.output(b.op("CONV_3D_TRANSPOSE", operands, [("float32", (2, *out, 6))], options=options))

    name = f"transposed-{padding}-{stride}-{'bias' if biased else 'plain'}"
    inputs = (shape, None) if run_time else None
    return Case(name + ("-run-time" if run_time else ""), build, inputs=inputs)


CASES = [
    *(
        forward_case(p, s, d, a)
        for p, s, d, a in product(("SAME", "VALID"), STRIDES, DILATIONS, ("NONE", "RELU6"))
    ),
    *(
        transposed_case(p, s, biased=biased, run_time=run_time)
        for p, s, biased, run_time in product(
            ("SAME", "VALID"), STRIDES, (False, True), (False, True)
        )
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_conv_3d(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
