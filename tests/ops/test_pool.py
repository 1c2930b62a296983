"""Pooling: kind x dtype x padding x activation x window, with every dimension different."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import nnconv
from nnconv.formats.onnx.mean import regions
from nnconv.formats.tflite.reader import read
from nnconv.ops.spatial import Padding
from support.spine import Case, check, model_bytes, onnx_ops, optimized_ops
from support.tflite_builder import TfliteBuilder

QUANT = {"float32": None, "int8": (0.05, 3), "uint8": (0.05, 131), "int16": (0.001, 0)}
ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
QUANTIZED_POOLS = ("MAX_POOL_2D", "AVERAGE_POOL_2D")


@dataclass(frozen=True)
class Form:
    """One pool, without its kind and type."""

    x: tuple[int, int, int, int] = (2, 5, 6, 7)
    window: tuple[int, int] = (3, 2)
    stride: tuple[int, int] = (2, 1)
    padding: str = "SAME"
    activation: str = "NONE"

    def __str__(self) -> str:
        window, stride = "x".join(map(str, self.window)), "x".join(map(str, self.stride))
        return f"{self.padding}-{window}-stride{stride}-{self.activation}"

    @property
    def y(self) -> tuple[int, int, int, int]:
        extents = []
        for i in range(2):
            extent = self.x[1 + i] - (self.window[i] - 1 if self.padding == "VALID" else 0)
            extents.append(-(-extent // self.stride[i]))
        return (self.x[0], extents[0], extents[1], self.x[3])


def pool_case(op: str, dtype: str, form: Form) -> Case:
    """The case of a kind, type and form."""

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", dtype, form.x, quant=QUANT[dtype])
        options = {
            "padding": form.padding,
            "stride_h": form.stride[0],
            "stride_w": form.stride[1],
            "filter_height": form.window[0],
            "filter_width": form.window[1],
            "fused_activation_function": form.activation,
        }
        b.output(b.op(op, [x], [(dtype, form.y, QUANT[dtype])], options=options))

    return Case(f"{op}-{dtype}-{form}", build)


FORMS = [
    *(Form(padding=p, activation=a) for p in ("SAME", "VALID") for a in ACTIVATIONS),
    Form(window=(5, 6), stride=(1, 1), padding="VALID"),
    Form(window=(2, 2), stride=(3, 4)),
    Form(window=(4, 5), stride=(1, 1)),
    Form(window=(1, 1), stride=(2, 3), padding="VALID"),
    Form(x=(1, 9, 8, 16), window=(3, 3), stride=(2, 2), padding="VALID"),
]
CASES = [
    *(pool_case(op, d, form) for op in QUANTIZED_POOLS for d in QUANT for form in FORMS),
    *(pool_case("L2_POOL_2D", "float32", form) for form in FORMS),
    *(
        replace(pool_case(op, d, FORMS[0]), options={"opset": o, "int8": s})
        for op in QUANTIZED_POOLS
        for d in QUANT
        for o in (13, 24)
        for s in ("keep", "resign")
        if not (d == "int16" and op == "AVERAGE_POOL_2D" and o == 13)
    ),
    *(
        pool_case(op, d, Form(x=(0, 5, 6, 7)))
        for op in QUANTIZED_POOLS
        for d in ("float32", "int8")
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pool(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_average_leaves_padding_out(tmp_path: Path) -> None:
    case = pool_case(
        "AVERAGE_POOL_2D", "float32", Form(x=(1, 2, 2, 1), window=(2, 2), stride=(1, 1))
    )
    x = np.asarray([1, 2, 3, 4], np.float32).reshape(1, 2, 2, 1)
    expected = np.asarray([2.5, 3, 3.5, 4], np.float32).reshape(1, 2, 2, 1)
    check(replace(case, inputs=(x,), expected=(expected,)), tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
def test_maximum_of_the_lowest_is_the_lowest(dtype: str, tmp_path: Path) -> None:
    low = np.finfo(dtype).min if dtype == "float32" else np.iinfo(dtype).min
    x = np.full((2, 5, 6, 7), low, dtype)
    check(replace(pool_case("MAX_POOL_2D", dtype, Form()), inputs=(x,)), tmp_path)


def _kernels(case: Case, folder: Path) -> tuple[dict[str, int], dict[str, int]]:
    path = folder / "model.onnx"
    nnconv.save(read(model_bytes(case), name=case.id), path)
    return onnx_ops(path), optimized_ops(path, folder)


def test_quantized_mean_is_a_convolution(tmp_path: Path) -> None:
    case = pool_case("AVERAGE_POOL_2D", "uint8", Form(padding="VALID"))
    assert _kernels(case, tmp_path)[1] == {"QLinearConv": 1}


def test_mean_over_all_is_global(tmp_path: Path) -> None:
    form = Form(window=(5, 6), padding="VALID")
    _, seen = _kernels(pool_case("AVERAGE_POOL_2D", "uint8", form), tmp_path)
    assert seen["QLinearGlobalAveragePool"] == 1


def _between_convolutions(b: TfliteBuilder) -> None:
    quant = (0.05, 131)
    x = b.input("x", "uint8", (1, 6, 6, 8), quant=quant)
    window = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    kernel = np.random.default_rng(0).integers(1, 255, (8, 1, 1, 8)).astype(np.uint8)

    def conv(value: object, shape: tuple[int, ...]) -> object:
        w = b.const(kernel, quant=(0.02, 128))
        offset = b.const(np.zeros(8, np.int32), quant=(0.001, 0))
        return b.op("CONV_2D", [value, w, offset], [("uint8", shape, quant)], options=window)

    y = conv(x, (1, 6, 6, 8))
    options = {
        "padding": "VALID",
        "stride_h": 2,
        "stride_w": 2,
        "filter_height": 2,
        "filter_width": 2,
    }
    y = b.op("MAX_POOL_2D", [y], [("uint8", (1, 3, 3, 8), quant)], options=options)
    b.output(conv(y, (1, 3, 3, 8)))


def test_maximum_between_convolutions_stays_integer(tmp_path: Path) -> None:
    case = Case("between", _between_convolutions)
    check(case, tmp_path)
    assert _kernels(case, tmp_path)[1] == {"QLinearConv": 2, "NhwcMaxPool": 1}


def test_lone_maximum_goes_through_floats(tmp_path: Path) -> None:
    written, _ = _kernels(pool_case("MAX_POOL_2D", "uint8", Form()), tmp_path)
    assert written["Cast"] == 2


@pytest.mark.parametrize(
    ("extent", "window", "stride", "covers"),
    [
        (5, 3, 1, [(0, 2, 2), (0, 5, 3), (3, 5, 2)]),
        (6, 3, 2, [(0, 5, 3), (4, 6, 2)]),
        (4, 2, 2, [(0, 4, 2)]),
        (7, 5, 1, [(0, 3, 3), (0, 4, 4), (0, 7, 5), (3, 7, 4), (4, 7, 3)]),
    ],
)
def test_regions_of_equal_windows(
    extent: int, window: int, stride: int, covers: list[tuple[int, int, int]]
) -> None:
    padding = Padding.same_for((extent,), (window,), (stride,), (1,))
    found = regions(extent, window, stride, padding.before[0], padding.after[0])
    assert [(r.begin, r.end, r.window) for r in found] == covers


def test_padded_quantized_mean_is_convolutions(tmp_path: Path) -> None:
    form = Form(x=(1, 9, 8, 5), window=(3, 3), stride=(1, 1))
    case = pool_case("AVERAGE_POOL_2D", "uint8", form)
    check(case, tmp_path)
    assert _kernels(case, tmp_path)[1] == {"QLinearConv": 9, "Slice": 8, "Concat": 4}


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_float_means_of_odd_channels_are_convolutions(padding: str, tmp_path: Path) -> None:
    form = Form(x=(2, 5, 6, 20), padding=padding)
    written, _ = _kernels(pool_case("AVERAGE_POOL_2D", "float32", form), tmp_path)
    assert written["Conv"] == 1
    written, _ = _kernels(
        pool_case("AVERAGE_POOL_2D", "float32", replace(form, x=(2, 5, 6, 32))), tmp_path
    )
    assert written["AveragePool"] == 1
