"""FULLY_CONNECTED and BATCH_MATMUL: kind of weights x shapes x options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from nnconv.errors import UnsupportedError
from nnconv.formats.tflite.reader import read
from support.spine import Case, check, optimized_ops
from support.tflite_builder import Quant, TfliteBuilder
from support.weighted import HYBRID, KINDS, X_QUANT, Y_QUANT, Kind, bias, weights

FULL_KINDS = [
    *KINDS,
    Kind("int8", "int8", bias="int32", zero_point=5),
    Kind("float32", "int8", tolerance=HYBRID),
    Kind("float32", "int8", channels=True, tolerance=HYBRID),
    Kind("float32", "int4", channels=True, tolerance=HYBRID),
    Kind("float32", "int2", channels=True, tolerance=HYBRID),
    Kind("int8", "int4", channels=True, bias="int32"),
    Kind("int8", "int2", channels=True, bias="int32"),
    Kind("int16", "int4", channels=True, bias="int64"),
]


@dataclass(frozen=True)
class Form:
    """One FULLY_CONNECTED, without its types: shapes, options, and which parts there are."""

    id: str
    x: tuple[int, ...]
    y: tuple[int, ...]
    w: tuple[int, int] = (5, 8)
    keep: bool = False
    activation: str = "NONE"
    bias: bool = True
    run_time: bool = False

    def __str__(self) -> str:
        return self.id


def build_full(b: TfliteBuilder, form: Form, kind: Kind) -> None:
    """The model of a form and kind."""
    x = b.input("x", kind.x, form.x, quant=X_QUANT[kind.x])
    w, scales = weights(b, kind, form.w)
    if form.run_time:
        w = b.input("w", kind.w, form.w, quant=None if kind.w == "float32" else (scales[0], 0))
    inputs = [x, w, bias(b, kind, form.w[0], scales) if form.bias else None]
    options = {"keep_num_dims": form.keep, "fused_activation_function": form.activation}
    result = (kind.x, form.y, Y_QUANT[kind.x])
    b.output(b.op("FULLY_CONNECTED", inputs, [result], options=options))


def full_case(form: Form, kind: Kind) -> Case:
    """The case of a form and kind."""
    return Case(
        f"{form}-{kind}-{kind.zero_point}",
        lambda b: build_full(b, form, kind),
        tolerance=kind.tolerance,
    )


MATRIX = Form("matrix", (3, 8), (3, 5))
FORMS = [
    MATRIX,
    Form("no-bias", (3, 8), (3, 5), bias=False, activation="RELU"),
    Form("keeps-rank-3", (2, 3, 8), (2, 3, 5), keep=True, activation="RELU6"),
    Form("flattens-to-rows", (2, 3, 8), (6, 5)),
    Form("flattens-all", (3, 2, 4), (3, 5), activation="RELU"),
]
FEW_FORMS = [
    Form("rank-1", (8,), (1, 5)),
    Form("rank-1-kept", (8,), (5,), keep=True),
    Form("rank-4-kept", (2, 3, 4, 8), (2, 3, 4, 5), keep=True, bias=False),
    Form("splits-row", (1, 16), (2, 5)),
    Form("one-filter", (3, 8), (3, 1), (1, 8)),
    Form("no-rows", (0, 8), (0, 5)),
]
RUN_TIME = Form("run-time-weights", (3, 8), (3, 5), run_time=True)
CASES = [
    *(full_case(form, kind) for form in FORMS for kind in FULL_KINDS),
    *(full_case(form, kind) for form in FEW_FORMS for kind in (KINDS[0], KINDS[1], KINDS[4])),
    *(full_case(RUN_TIME, kind) for kind in (KINDS[0], KINDS[1])),
    replace(
        full_case(MATRIX, Kind("float16", "float16", bias="float16")),
        resolver="xnn",
        tolerance=2e-3,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fully_connected(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("opset", [13, 21, 24])
@pytest.mark.parametrize("int8", ["resign", "keep"])
@pytest.mark.parametrize("kind", FULL_KINDS, ids=str)
def test_opsets_and_signs(kind: Kind, int8: str, opset: int, tmp_path: Path) -> None:
    check(replace(full_case(FORMS[2], kind), options={"opset": opset, "int8": int8}), tmp_path)


def test_shuffled_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(-127, 127, (8, 32), endpoint=True).astype(np.int8)
    blocks = codes.reshape(2, 4, 2, 16).transpose(0, 2, 1, 3)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "uint8", (4, 32), quant=(0.05, 128))
        stored = np.ascontiguousarray(blocks).reshape(8, 32).view(np.uint8)
        w = b.const(stored, quant=(0.02, 128))
        offset = b.const(rng.integers(-300, 300, 8).astype(np.int32), quant=(0.001, 0))
        results = [("int16", (4, 8), (0.01, 0)), ("uint8", (4, 32), (0.05, 128))]
        y, _ = b.op(
            "FULLY_CONNECTED",
            [x, w, offset],
            results,
            options={"weights_format": 1},
            version=2,
        )
        b.output(y)

    check(Case("shuffled", build), tmp_path)


@pytest.mark.parametrize("dtype", ["int4", "int8"])
@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("columns", [64, 96])
def test_blockwise_weights(columns: int, opset: int, dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(-7, 7, (5, columns), endpoint=True).astype(np.int8)
    scales = rng.uniform(0.01, 0.05, (5, columns // 32)).astype(np.float16)
    x = rng.standard_normal((3, columns)).astype(np.float32)
    real = codes * np.repeat(scales.astype(np.float32), 32, axis=1)

    def build(b: TfliteBuilder) -> None:
        data = b.input("x", "float32", x.shape)
        quant = Quant(block_scales=b.const(scales), block_size=32)
        w = b.const(codes, dtype=dtype, quant=quant)
        b.output(b.op("FULLY_CONNECTED", [data, w, None], [("float32", (3, 5))]))

    note = "LiteRT quantizes the data"
    expected = ((x @ real.T).astype(np.float32),)
    case = Case("block", build, inputs=(x,), expected=expected, options={"opset": opset}, note=note)
    check(case, tmp_path)


def test_half_weights_and_bias(tmp_path: Path) -> None:
    w = np.asarray([[0.1, 1e-6, 65504.0], [6e-8, -2.0, 0.5]], np.float16)
    offset = np.asarray([0.1, 6e-8], np.float16)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (2, 3))
        wide = [
            b.op("DEQUANTIZE", [b.const(half)], [("float32", half.shape)]) for half in (w, offset)
        ]
        b.output(b.op("FULLY_CONNECTED", [x, *wide], [("float32", (2, 2))]))

    x = np.eye(2, 3, dtype=np.float32)
    expected = (x @ w.T.astype(np.float32) + offset.astype(np.float32),)
    check(Case("half", build, inputs=(x,), expected=expected, tolerance=0.0), tmp_path)


def test_sums_of_16_bits(tmp_path: Path) -> None:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "int16", (1, 2), quant=(0.001, 0))
        w = b.const(np.asarray([[40, 30]], np.int8), quant=(0.02, 0))
        offset = b.const(np.asarray([250], np.int64), quant=(2e-5, 0))
        b.output(b.op("FULLY_CONNECTED", [x, w, offset], [("int16", (1, 1), (0.005, 0))]))

    x = np.asarray([[2000, -500]], np.int16)
    expected = (np.asarray([[261]], np.int16),)
    check(Case("16x8", build, inputs=(x,), expected=expected, steps=0), tmp_path)


def test_dynamic_range(tmp_path: Path) -> None:
    x = np.asarray([[0.33, 1.0]], np.float32)

    def build(b: TfliteBuilder) -> None:
        data = b.input("x", "float32", (1, 2))
        w = b.const(np.asarray([[100, 50]], np.int8), quant=(0.01, 0))
        b.output(b.op("FULLY_CONNECTED", [data, w, None], [("float32", (1, 1))]))

    expected = (np.asarray([[0.83]], np.float32),)
    # half a step of data quantized symmetrically, times the sum of the weights
    bound = 0.5 / 127 * 1.5 / 0.83
    check(Case("dynamic", build, inputs=(x,), expected=expected, tolerance=bound), tmp_path)


def test_layers_share_weights_and_bias(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)

    def build(b: TfliteBuilder) -> None:
        w = b.const(rng.integers(-127, 127, (4, 4)).astype(np.int8), quant=(0.02, 0))
        offset = b.const(rng.integers(-300, 300, 4).astype(np.int32), quant=(0.001, 0))
        for name, scale in (("x", 0.05), ("z", 0.02)):
            x = b.input(name, "int8", (3, 4), quant=(scale, 3))
            b.output(b.op("FULLY_CONNECTED", [x, w, offset], [("int8", (3, 4), (0.25, 1))]))

    check(Case("shared", build), tmp_path)


def test_bias_without_parameters(tmp_path: Path) -> None:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "int8", (3, 4), quant=(0.05, 3))
        w = b.const(np.arange(-8, 8, dtype=np.int8).reshape(4, 4), quant=(0.02, 0))
        offset = b.const(np.asarray([[100, -200, 3000, 40]], np.int32))
        b.output(b.op("FULLY_CONNECTED", [x, w, offset], [("int8", (3, 4), (0.25, 1))]))

    check(Case("bias", build), tmp_path)


Shapes = tuple[tuple[int, ...], tuple[int, ...], bool, bool, tuple[int, ...]]
PRODUCTS: dict[str, Shapes] = {
    "plain": ((3, 4), (4, 5), False, False, (3, 5)),
    "batch": ((2, 3, 4), (2, 4, 5), False, False, (2, 3, 5)),
    "turned-left": ((2, 4, 3), (2, 4, 5), True, False, (2, 3, 5)),
    "turned-right": ((2, 3, 4), (2, 5, 4), False, True, (2, 3, 5)),
    "turned-both": ((2, 4, 3), (5, 4), True, True, (2, 3, 5)),
    "broadcast": ((2, 1, 3, 4), (6, 4, 5), False, False, (2, 6, 3, 5)),
    "row": ((2, 1, 4), (2, 4, 5), False, False, (2, 1, 5)),
    "rank-5": ((2, 1, 2, 3, 4), (3, 1, 5, 4), False, True, (2, 3, 2, 3, 5)),
}
OPERANDS = {
    "float32": (None, None, None),
    "int8": ((0.05, 3), (0.04, -7), (0.2, 5)),
    "int16": ((0.001, 0), (0.002, 0), (0.004, 0)),
}


def product_case(
    shapes: Shapes, name: str, dtype: str, constant: str = "", result: str = ""
) -> Case:
    """A BATCH_MATMUL; ``constant`` says which operand ("a", "b") is one."""
    a_shape, b_shape, turn_a, turn_b, shape = shapes
    quants = OPERANDS[dtype]

    def build(b: TfliteBuilder) -> None:
        rng = np.random.default_rng(6)
        operands = []
        for key, extents, quant in (("a", a_shape, quants[0]), ("b", b_shape, quants[1])):
            if key != constant:
                operands.append(b.input(key, dtype, extents, quant=quant))
            elif dtype == "float32":
                operands.append(b.const(rng.standard_normal(extents).astype(np.float32)))
            else:
                codes = rng.integers(-100, 100, extents).astype(dtype)
                operands.append(b.const(codes, quant=quant))
        options = {"adj_x": turn_a, "adj_y": turn_b}
        kind = (result or dtype, shape, None if result else quants[2])
        b.output(b.op("BATCH_MATMUL", operands, [kind], options=options, version=2))

    return Case(f"{name}-{dtype}-{constant or 'inputs'}-{result}", build)


MATMULS = [
    *(
        product_case(shapes, name, dtype, constant)
        for name, shapes in PRODUCTS.items()
        for dtype in OPERANDS
        for constant in ("", "b", "a")
        if not (constant == "a" and dtype == "int16")
    ),
    *(product_case(PRODUCTS[n], n, "int8", result="int32") for n in ("batch", "turned-right")),
]


@pytest.mark.parametrize("case", MATMULS, ids=str)
def test_batch_matmul(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_batch_matmul_signs(tmp_path: Path) -> None:
    case = product_case(PRODUCTS["turned-right"], "right", "int8", "b")
    check(replace(case, options={"int8": "keep", "opset": 13}), tmp_path)


def test_products_of_int32_are_refused() -> None:
    """LiteRT multiplies int8 to int32; nothing else has a sum of that type."""
    b = TfliteBuilder()
    x, y = (b.input(name, "int32", (2, 3, 3)) for name in "xy")
    b.output(b.op("BATCH_MATMUL", [x, y], [("int32", (2, 3, 3))]))
    with pytest.raises(UnsupportedError, match="operands are int32 and int32"):
        read(b.build())


def test_hybrid_matmul(tmp_path: Path) -> None:
    def build(b: TfliteBuilder) -> None:
        a = b.input("a", "float32", (2, 3, 8))
        codes = np.random.default_rng(7).integers(-127, 127, (2, 8, 5)).astype(np.int8)
        options = {"asymmetric_quantize_inputs": True}
        result = [("float32", (2, 3, 5))]
        b.output(
            b.op("BATCH_MATMUL", [a, b.const(codes, quant=(0.02, 0))], result, options=options)
        )

    check(Case("hybrid", build, tolerance=HYBRID), tmp_path)


@pytest.mark.parametrize("extents", [(1, 1), (2, 3)], ids=str)
def test_codes_go_from_a_convolution_to_a_layer_as_they_lie(
    extents: tuple[int, int], tmp_path: Path
) -> None:
    def build(b: TfliteBuilder) -> None:
        rng = np.random.default_rng(0)
        x = b.input("x", "int8", (1, extents[0] + 1, extents[1] + 2, 8), quant=(0.05, 3))
        count = 4 * extents[0] * extents[1]
        filters = b.const(rng.integers(-127, 127, (4, 2, 3, 8)).astype(np.int8), quant=(0.01, 0))
        rows = b.const(rng.integers(-127, 127, (5, count)).astype(np.int8), quant=(0.01, 0))
        offsets = [
            b.const(rng.integers(-99, 99, n).astype(np.int32), quant=(0.0005, 0)) for n in (4, 5)
        ]
        options = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
        kind = ("int8", (1, *extents, 4), (0.05, -3))
        y = b.op("CONV_2D", [x, filters, offsets[0]], [kind], options=options)
        shape = b.const(np.array([1, count], np.int32))
        flat = b.op("RESHAPE", [y, shape], [("int8", (1, count), (0.05, -3))])
        kind = ("int8", (1, 5), (0.1, 9))
        b.output(b.op("FULLY_CONNECTED", [flat, rows, offsets[1]], [kind]))

    check(Case("net", build, steps=2), tmp_path)
    counts = optimized_ops(tmp_path / "model.onnx", tmp_path)
    assert counts["QLinearConv"] == counts["QGemm"] == 1
    assert "Transpose" not in counts
