"""Which kernels onnxruntime ends up with: for quantized weighted ops integer ones alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnconv
from nnconv.formats.tflite.reader import read
from ops.test_conv import DEPTHWISE_FORMS, DEPTHWISE_KINDS, FORMS, conv_case
from ops.test_conv_transpose import FORMS as TRANSPOSED
from ops.test_conv_transpose import transpose_case
from ops.test_matmul import FORMS as LAYERS
from ops.test_matmul import FULL_KINDS, PRODUCTS, full_case, product_case
from support.spine import Case, check, model_bytes, onnx_ops, optimized_ops
from support.tflite_builder import TfliteBuilder
from support.weighted import KINDS

FLOAT_KERNELS = {
    "Conv",
    "FusedConv",
    "ConvTranspose",
    "Gemm",
    "FusedGemm",
    "MatMul",
    "FusedMatMul",
    "DequantizeLinear",
    "QuantizeLinear",
}
EIGHT_BITS = [k for k in FULL_KINDS if k.x in ("int8", "uint8")]
INTEGER = [
    *(("QLinearConv", conv_case(f, k)) for f in FORMS for k in KINDS[1:4]),
    *(("QLinearConv", conv_case(f, k)) for f in DEPTHWISE_FORMS for k in DEPTHWISE_KINDS[1:4]),
    *(
        ("QLinearConv", transpose_case(f, k))
        for f in TRANSPOSED
        if max(f.stride) > 1
        for k in KINDS[1:4]
    ),
    *(("QGemm", full_case(f, k)) for f in LAYERS for k in EIGHT_BITS),
    *(
        ("QLinearMatMul", product_case(PRODUCTS[n], n, "int8", c))
        for n in PRODUCTS
        for c in ("", "b")
    ),
]


def written(case: Case, folder: Path) -> Path:
    """The case's model as an ONNX file."""
    path = folder / "model.onnx"
    nnconv.save(read(model_bytes(case), name=case.id), path, **case.options)
    return path


@pytest.mark.parametrize(("kernel", "case"), INTEGER, ids=str)
def test_integer_kernels(kernel: str, case: Case, tmp_path: Path) -> None:
    seen = optimized_ops(written(case, tmp_path), tmp_path)
    assert seen.get(kernel) == 1
    assert not FLOAT_KERNELS & seen.keys()


def _float_island(b: TfliteBuilder, op: str, *, activation: str, moved: bool) -> None:
    """DEQUANTIZE, an op with float weights of very different sizes, QUANTIZE."""
    rng = np.random.default_rng(0)
    real = b.input("x", "int8", (2, 5, 6, 4), quant=(0.05, 3))
    if moved:
        codes = real
        real = b.op(
            "RESHAPE",
            [codes, b.const(np.asarray((2, 6, 5, 4), np.int32))],
            [("int8", (2, 6, 5, 4), (0.05, 3))],
        )
    shape = (2, 6, 5, 4) if moved else (2, 5, 6, 4)
    real = b.op("DEQUANTIZE", [real], [("float32", shape)])
    options: dict[str, object] = {"fused_activation_function": activation}
    sizes = np.asarray([100, 1, 1, 1, 0.1], np.float32)
    if op == "CONV_2D":
        w = rng.standard_normal((5, 3, 3, 4)).astype(np.float32) * sizes.reshape(5, 1, 1, 1) / 9
        options |= {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    else:
        w = rng.standard_normal((5, 4)).astype(np.float32) * sizes.reshape(5, 1)
        options["keep_num_dims"] = True
    offset = b.const(rng.standard_normal(5).astype(np.float32))
    result = (*shape[:3], 5)
    y = b.op(op, [real, b.const(w), offset], [("float32", result)], options=options)
    b.output(b.op("QUANTIZE", [y], [("int8", result, (0.05, -4))]))


@pytest.mark.parametrize("moved", [False, True], ids=["straight", "moved"])
@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6"])
@pytest.mark.parametrize("op", ["CONV_2D", "FULLY_CONNECTED"])
def test_float_weights_stay_float(op: str, activation: str, moved: bool, tmp_path: Path) -> None:
    def build(b: TfliteBuilder) -> None:
        _float_island(b, op, activation=activation, moved=moved)

    case = Case("island", build)
    check(case, tmp_path)
    seen = optimized_ops(written(case, tmp_path), tmp_path)
    assert not {"QLinearConv", "QGemm", "QLinearMatMul"} & seen.keys()


@pytest.mark.parametrize("dtype", ["int8", "int4", "int2"])
def test_large_float_layers_keep_small_weights(dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    top = {"int8": 127, "int4": 7, "int2": 1}[dtype]

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (1, 512))
        codes = rng.integers(-top, top, (512, 512), endpoint=True).astype(np.int8)
        w = b.const(codes, dtype=dtype, quant=(0.02, 0))
        offset = b.const(rng.standard_normal(512).astype(np.float32))
        b.output(b.op("FULLY_CONNECTED", [x, w, offset], [("float32", (1, 512))]))

    case = Case("large", build, tolerance=2e-2)
    check(case, tmp_path)
    path = written(case, tmp_path)
    assert path.stat().st_size < 512 * 512 * (1 if dtype == "int8" else 0.5) + 8000
    assert optimized_ops(path, tmp_path) == {"MatMulNBits": 1}


def test_large_blockwise_layers_are_one_kernel(tmp_path: Path) -> None:
    from support.tflite_builder import Quant

    rng = np.random.default_rng(2)
    x = rng.standard_normal((2, 512)).astype(np.float32)
    codes = rng.integers(-7, 7, (512, 512), endpoint=True).astype(np.int8)
    scales = rng.uniform(0.01, 0.05, (512, 16)).astype(np.float16)
    real = codes * np.repeat(scales.astype(np.float32), 32, axis=1)

    def build(b: TfliteBuilder) -> None:
        data = b.input("x", "float32", x.shape)
        quant = Quant(block_scales=b.const(scales), block_size=32)
        w = b.const(codes, dtype="int4", quant=quant)
        b.output(b.op("FULLY_CONNECTED", [data, w, None], [("float32", (2, 512))]))

    case = Case(
        "block", build, inputs=(x,), expected=((x @ real.T).astype(np.float32),), tolerance=2e-2
    )
    check(case, tmp_path)
    assert optimized_ops(written(case, tmp_path), tmp_path) == {"MatMulNBits": 1}


def test_repeated_channels_run_depthwise(tmp_path: Path) -> None:
    seen = onnx_ops(written(conv_case(DEPTHWISE_FORMS[1], KINDS[0]), tmp_path))
    assert seen["Gather"] == 1


def test_layers_share_one_constant(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)

    def build(b: TfliteBuilder) -> None:
        w = b.const(rng.integers(-127, 127, (64, 64)).astype(np.int8), quant=(0.02, 0))
        for name in "xz":
            x = b.input(name, "float32", (3, 64))
            b.output(b.op("FULLY_CONNECTED", [x, w, None], [("float32", (3, 64))]))

    path = written(Case("shared", build), tmp_path)
    assert path.stat().st_size < 64 * 64 + 2000


@pytest.mark.parametrize(
    ("activation", "quant"),
    [("RELU", (0.02, -128)), ("RELU6", (6 / 255, -128)), ("RELU_N1_TO_1", (1 / 128, 0))],
)
def test_activations_within_the_range_cost_nothing(
    activation: str, quant: tuple[float, int], tmp_path: Path
) -> None:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "int8", (1, 4, 5, 4), quant=(0.05, 3))
        w = b.const(np.arange(-8, 8, dtype=np.int8).reshape(4, 1, 1, 4), quant=(0.02, 0))
        offset = b.const(np.zeros(4, np.int32), quant=(0.001, 0))
        options = {
            "padding": "SAME",
            "stride_h": 1,
            "stride_w": 1,
            "fused_activation_function": activation,
        }
        result = ("int8", (1, 4, 5, 4), quant)
        b.output(b.op("CONV_2D", [x, w, offset], [result], options=options))

    case = Case("range", build)
    check(case, tmp_path)
    assert "Clip" not in onnx_ops(written(case, tmp_path))


def test_explicitly_dequantized_weights_stay_exact(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (1, 512))
        codes = rng.integers(-127, 127, (512, 512)).astype(np.int8)
        w = b.op("DEQUANTIZE", [b.const(codes, quant=(0.02, 0))], [("float32", (512, 512))])
        b.output(b.op("FULLY_CONNECTED", [x, w, None], [("float32", (1, 512))]))

    case = Case("explicit", build)
    check(case, tmp_path)
    path = written(case, tmp_path)
    assert path.stat().st_size < 512 * 512 + 4000
    assert optimized_ops(path, tmp_path) == {"Gemm": 1}
