"""Transposed convolutions: result shape x stride x window x kind, all dimensions different."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from support.spine import Case, check, onnx_ops
from support.tflite_builder import TfliteBuilder
from support.weighted import HYBRID, KINDS, X_QUANT, Y_QUANT, Kind, bias, weights

TRANSPOSE_KINDS = [
    *KINDS,
    Kind("float32", "int8", tolerance=HYBRID),
    Kind("float32", "int8", channels=True, tolerance=HYBRID),
]


@dataclass(frozen=True)
class Form:
    """One TRANSPOSE_CONV, without its types.

    Attributes:
        x: shape of the data.
        window, stride: extents.
        padding: SAME or VALID.
        extra: what the result has beyond the least extents of its padding.
        activation: fused activation.
        bias: whether there is one.
        filters: result channels.
    """

    x: tuple[int, int, int, int] = (2, 4, 3, 4)
    window: tuple[int, int] = (3, 2)
    stride: tuple[int, int] = (2, 2)
    padding: str = "SAME"
    extra: tuple[int, int] = (0, 0)
    activation: str = "NONE"
    bias: bool = True
    filters: int = 5

    def __str__(self) -> str:
        window, stride = "x".join(map(str, self.window)), "x".join(map(str, self.stride))
        extra = f"-extra{self.extra[0]}{self.extra[1]}" if any(self.extra) else ""
        return f"{self.padding}-{window}-stride{stride}{extra}-{self.activation}"

    @property
    def y(self) -> tuple[int, int, int, int]:
        extents = []
        for i in range(2):
            extent, step = self.x[1 + i], self.stride[i]
            if self.padding == "SAME":
                extents.append(extent * step - self.extra[i])
            else:
                extents.append((extent - 1) * step + self.window[i] + self.extra[i])
        return (self.x[0], extents[0], extents[1], self.filters)


def build(b: TfliteBuilder, form: Form, kind: Kind, *, run_time: bool = False) -> None:
    """The model; with ``run_time`` the result's shape is an input."""
    shape = np.asarray(form.y, np.int32)
    x = b.input("x", kind.x, form.x, quant=X_QUANT[kind.x])
    wanted = b.input("shape", "int32", (4,)) if run_time else b.const(shape)
    w, scales = weights(b, kind, (form.filters, *form.window, form.x[3]))
    inputs = [wanted, w, x]
    if form.bias:
        inputs.append(bias(b, kind, form.filters, scales))
    options = {
        "padding": form.padding,
        "stride_h": form.stride[0],
        "stride_w": form.stride[1],
        "fused_activation_function": form.activation,
    }
    result = (kind.x, form.y, Y_QUANT[kind.x])
    b.output(b.op("TRANSPOSE_CONV", inputs, [result], options=options, version=3))


def transpose_case(form: Form, kind: Kind, *, run_time: bool = False) -> Case:
    """The case of a form and kind."""
    inputs = (None, np.asarray(form.y, np.int32)) if run_time else None
    return Case(
        f"{form}-{kind}{'-run-time' if run_time else ''}",
        lambda b: build(b, form, kind, run_time=run_time),
        inputs=inputs,
        tolerance=kind.tolerance,
    )


FORMS = [
    Form(),
    Form(padding="VALID", activation="RELU"),
    Form(window=(4, 4), activation="RELU6", bias=False),
    Form(window=(2, 2), stride=(2, 1), padding="VALID"),
    Form(window=(3, 3), stride=(1, 1)),
    Form(window=(5, 4), stride=(3, 2)),
    Form(extra=(1, 1)),
]
GRID = [
    Form(x=(1, 4, 5, 2), window=(w, w), stride=(s, s), padding=padding, filters=3, extra=extra)
    for w in (1, 2, 3, 4, 5)
    for s in (1, 2, 3)
    for padding in ("SAME", "VALID")
    for extra in ((0, 0), (1, 0))
    if not (extra[0] and (s == 1 or padding == "VALID"))
]
CASES = [
    *(transpose_case(form, kind) for form in FORMS for kind in TRANSPOSE_KINDS),
    *(transpose_case(form, kind) for form in GRID for kind in (KINDS[0], KINDS[2])),
    *(transpose_case(form, kind, run_time=True) for form in FORMS for kind in (KINDS[0], KINDS[1])),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_transpose_conv(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


K11_SAME = (1, 2, 5, 4, 4, 5, 14, 10, 10, 14, 36, 24, 12, 15, 34, 20)
"""x 1..4 under a 3x3 filter 1..9 at stride 2: SAME cuts the end."""


@pytest.mark.parametrize("custom", [False, True], ids=["builtin", "mediapipe"])
def test_same_cuts_the_end(tmp_path: Path, custom: bool) -> None:
    x = np.arange(1, 5, dtype=np.float32).reshape(1, 2, 2, 1)
    expected = np.asarray(K11_SAME, np.float32).reshape(1, 4, 4, 1)

    def build_known(b: TfliteBuilder) -> None:
        data = b.input("x", "float32", x.shape)
        w = b.const(np.arange(1, 10, dtype=np.float32).reshape(1, 3, 3, 1))
        result = [("float32", (1, 4, 4, 1))]
        if custom:
            offset = b.const(np.zeros(1, np.float32))
            packed = struct.pack("<iii", 1, 2, 2)
            name = "Convolution2DTransposeBias"
            b.output(b.op(name, [data, w, offset], result, custom_options=packed))
            return
        shape = b.const(np.asarray((1, 4, 4, 1), np.int32))
        options = {"padding": "SAME", "stride_h": 2, "stride_w": 2}
        b.output(b.op("TRANSPOSE_CONV", [shape, w, data], result, options=options))

    check(Case("known", build_known, inputs=(x,), expected=(expected,)), tmp_path)


@pytest.mark.parametrize(("padding", "extent"), [(1, 6), (2, 7)], ids=["same", "valid"])
def test_mediapipe_bias(padding: int, extent: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((2, 3, 2, 4)).astype(np.float32)
    offset = rng.standard_normal(2).astype(np.float32)
    form = Form(x=(2, 3, 5, 4), window=(3, 2), filters=2, padding=("SAME", "VALID")[padding - 1])
    assert form.y[1] == extent

    def build_custom(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", form.x)
        packed = struct.pack("<iii", padding, 2, 2)
        operands = [x, b.const(w), b.const(offset)]
        b.output(
            b.op(
                "Convolution2DTransposeBias",
                operands,
                [("float32", form.y)],
                custom_options=packed,
            )
        )

    note = "LiteRT's interpreter lacks MediaPipe's op"
    check(Case("bias", build_custom, resolver=None, note=note), tmp_path)


@pytest.mark.parametrize("opset", [13, 24])
def test_opsets(opset: int, tmp_path: Path) -> None:
    check(replace(transpose_case(FORMS[0], KINDS[2]), options={"opset": opset}), tmp_path)


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[2]], ids=str)
def test_unknown_batch(kind: Kind, tmp_path: Path) -> None:
    """The shape is computed as converters write it: the batch from SHAPE, the rest known."""
    form = Form(x=(1, 4, 3, 4))

    def build_open(b: TfliteBuilder) -> None:
        x = b.input("x", kind.x, form.x, quant=X_QUANT[kind.x], signature=(-1, 4, 3, 4))
        edges = [b.const(np.asarray([i], np.int32)) for i in (0, 1, 1)]
        shape = b.op("SHAPE", [x], [("int32", (4,))], options={"out_type": "INT32"})
        batch = b.op(
            "STRIDED_SLICE", [shape, *edges], [("int32", ())], options={"shrink_axis_mask": 1}
        )
        sizes = [b.const(np.asarray(extent, np.int32)) for extent in form.y[1:]]
        wanted = b.op(
            "PACK", [batch, *sizes], [("int32", (4,))], options={"values_count": 4, "axis": 0}
        )
        w, scales = weights(b, kind, (form.filters, *form.window, form.x[3]))
        operands = [wanted, w, x, bias(b, kind, form.filters, scales)]
        options = {"padding": "SAME", "stride_h": 2, "stride_w": 2}
        result = (kind.x, form.y, Y_QUANT[kind.x])
        b.output(b.op("TRANSPOSE_CONV", operands, [result], options=options, version=3))

    rng = np.random.default_rng(0)
    x = rng.integers(-100, 100, (3, 4, 3, 4)).astype(kind.x)
    check(Case("open", build_open, inputs=(x,)), tmp_path)
    kernel = "Conv" if kind.x == "int8" else "ConvTranspose"
    assert onnx_ops(tmp_path / "model.onnx")[kernel] == 1
    assert "Shape" not in onnx_ops(tmp_path / "model.onnx")
