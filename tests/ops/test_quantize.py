"""Ops between number types: every pair that LiteRT runs, and the values at the edges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnconv
from nnconv.formats.tflite.reader import read
from nnconv.ir import DType
from nnconv.ir import quant as ir_quant
from support.elementwise import one_op
from support.litert import run_litert
from support.spine import Case, check, onnx_ops
from support.tflite_builder import Quant, TfliteBuilder

SHAPE = (2, 3, 4, 5)

# -------------------------------------------------------------------- CAST

CASTABLE = "float32 float16 float64 int8 uint8 int16 uint16 int32 uint32 int64 bool"
EDGES = np.array(
    [
        *(-1.5, -0.0, 0.5, 127.9, 128, 255.9, 300, np.nan, np.inf, -np.inf, 1e30, -1e30),
        *(3e9, 5e9, -3e9, 70000, -40000, 1.9e19, 32767.5, 65535.9, 2147483520, 4294967040),
    ],
    np.float32,
)


def _integer_edges(dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    some = [limits.min, limits.max, limits.max // 2, limits.max // 3, 0, 1, 100, 127]
    return np.array(some, dtype)


def _edges(source: str) -> np.ndarray:
    if source == "bool":
        return np.array([True, False])
    if source in {"float32", "float64"}:
        return EDGES.astype(source)
    if source == "float16":
        return np.array([-1.5, -0.0, 0.5, 127.9, 300, np.nan, np.inf, -np.inf, 65504], np.float16)
    return _integer_edges(source)


CASTS = [
    one_op(
        f"CAST-{source}-{target}",
        "CAST",
        [(source, _edges(source).shape)],
        (target, _edges(source).shape),
        inputs=[_edges(source)],
    )
    for source in CASTABLE.split()
    for target in CASTABLE.split()
    if source != target
]
MORE_CASTS = [
    *(
        one_op(
            f"CAST-{source}-{target}-{'x'.join(map(str, shape))}",
            "CAST",
            [(source, shape)],
            (target, shape),
        )
        for source, target in (("float32", "int32"), ("int32", "float32"), ("bool", "uint8"))
        for shape in ((), (0, 3), SHAPE)
    ),
    *(
        one_op(
            f"CAST-{source}-{target}-opset13",
            "CAST",
            [(source, EDGES.shape)],
            (target, EDGES.shape),
            inputs=[EDGES.astype(source)],
            options={"opset": 13},
        )
        for source in ("float32", "float64")
        for target in ("int8", "uint8", "int16", "int32", "int64", "uint32", "bool")
    ),
    one_op(
        "CAST-quantized",
        "CAST",
        [("int8", SHAPE, (0.05, 3))],
        ("float32", SHAPE),
        note="the codes themselves are cast",
    ),
]


def _cast_there_and_back(inner: str, opset: int) -> Case:
    """From a float to a type that Python can't hand to onnxruntime, and back."""

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", EDGES.shape)
        narrow = b.op("CAST", [x], [(inner, EDGES.shape)])
        b.output(b.op("CAST", [narrow], [("float32", EDGES.shape)]))

    expected = {"int2": (-2, 1), "int4": (-8, 7), "uint4": (0, 15)}[inner]
    cut = np.trunc(np.nan_to_num(EDGES, nan=expected[1], posinf=expected[1]))
    return Case(
        f"CAST-{inner}-{opset}",
        build,
        options={"opset": opset},
        inputs=[EDGES],
        expected=[np.clip(cut, *expected)],
        note="LiteRT gives the same int4, but has no cast of computed int4 to float",
    )


NARROW_CASTS = [
    _cast_there_and_back(inner, opset)
    for inner in ("int2", "int4", "uint4")
    for opset in (13, 21, 24)
]


def _complex_case(name: str, steps: list[tuple[str, str]], source: str, **more: object) -> Case:
    """A chain of ops whose inner tensors may be complex."""

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", source, (2, 5))
        for op, dtype in steps:
            x = b.op(op, [x], [(dtype, (2, 5))])
        b.output(x)

    return Case(name, build, **more)


COMPLEX = [
    *(
        _complex_case(f"{source}-complex64-{op}", [("CAST", "complex64"), (op, target)], source)
        for source in ("float32", "int32", "float64")
        for op, target in (
            ("REAL", "float32"),
            ("IMAG", "float32"),
            ("COMPLEX_ABS", "float32"),
            ("CAST", "float32"),
            ("CAST", "int32"),
            ("CAST", "bool"),
            ("CAST", "int8"),
            ("CAST", "float64"),
        )
    ),
    *(
        _complex_case(
            f"complex64-{op}-edge",
            [(op, "float32")],
            "complex64",
            onnx=False,
            note="onnxruntime takes no complex inputs",
        )
        for op in ("REAL", "IMAG", "COMPLEX_ABS", "CAST")
    ),
]


def _complex_constant(op: str) -> Case:
    """A complex constant, so that the imaginary parts count."""
    data = np.array([[3 + 4j, -1j], [2 - 0.5j, -5]], np.complex64)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (2, 2))
        part = b.op(op, [b.const(data)], [("float32", (2, 2))])
        b.output(b.op("ADD", [x, part], [("float32", (2, 2))]))

    return Case(f"{op}-const", build)


COMPLEX_CONSTANTS = [_complex_constant(op) for op in ("REAL", "IMAG", "COMPLEX_ABS")]

# -------------------------------------------------------------------- QUANTIZE, DEQUANTIZE

PARAMETERS = {
    "int8": (0.05, 3),
    "uint8": (0.05, 131),
    "int16": (0.001, 0),
    "int32": (0.0001, 0),
}
OTHERS = {"int8": (0.08, -7), "uint8": (0.03, 100), "int16": (0.0017, 0), "int32": (2e-7, 0)}
PAIRS = [
    *(("int8", target) for target in ("int8", "uint8", "int16")),
    *(("uint8", target) for target in ("uint8", "int8", "int16")),
    *(("int16", target) for target in ("int8", "int16", "int32")),
    *(("int32", target) for target in ("int8", "int16")),
]
ALL_CODES = {
    "int8": np.arange(-128, 128).astype(np.int8),
    "uint8": np.arange(256).astype(np.uint8),
    "int16": np.arange(-32768, 32768, 13).astype(np.int16),
    "int32": np.random.default_rng(0).integers(-80000, 80000, 500).astype(np.int32),
}
QUANTIZES = [
    *(
        one_op(
            f"QUANTIZE-float32-{target}-{opset}",
            "QUANTIZE",
            [("float32", SHAPE)],
            (target, SHAPE, PARAMETERS[target]),
            options={"opset": opset},
        )
        for target in ("int8", "uint8", "int16")
        for opset in (13, 21)
    ),
    *(
        one_op(
            f"QUANTIZE-{source}-{target}-{form}-{opset}",
            "QUANTIZE",
            [(source, ALL_CODES[source].shape, PARAMETERS[source])],
            (target, ALL_CODES[source].shape, OTHERS[target]),
            inputs=[ALL_CODES[source]],
            options={"int8": form, "opset": opset},
        )
        for source, target in PAIRS
        for form in ("resign", "keep")
        for opset in (13, 21)
    ),
    one_op(
        "QUANTIZE-float32-extremes",
        "QUANTIZE",
        [("float32", (4,))],
        ("int8", (4,), (0.05, 3)),
        inputs=[np.array([np.inf, -np.inf, 1e30, -1e30], np.float32)],
        resolver="xnn",
        note="'opt' takes +inf for the least code",
    ),
    one_op(
        "QUANTIZE-resigned",
        "QUANTIZE",
        [("uint8", (256,), (0.05, 131))],
        ("int8", (256,), (0.05, 3)),
        inputs=[ALL_CODES["uint8"]],
        steps=0,
    ),
]


def _wide_requantization(scale: float) -> Case:
    """16-bit codes on a very fine 32-bit grid: float32 has too few digits for it."""
    codes = np.arange(-32768, 32768, 7).astype(np.int16)
    real = codes.astype(np.float64) * np.float64(np.float32(0.37))
    wanted = np.clip(np.round(real / np.float64(np.float32(scale))), -(2**31), 2**31 - 1)
    return one_op(
        f"QUANTIZE-int16-int32-{scale:g}",
        "QUANTIZE",
        [("int16", codes.shape, (0.37, 0))],
        ("int32", codes.shape, (scale, 0)),
        inputs=[codes],
        expected=[wanted.astype(np.int32)],
    )


def _through_four_bits(dtype: str, opset: int) -> Case:
    """Quantized to 4 bits and back."""
    quant = (0.4, 0 if dtype == "int4" else 8)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", SHAPE)
        codes = b.op("QUANTIZE", [x], [(dtype, SHAPE, quant)])
        b.output(b.op("DEQUANTIZE", [codes], [("float32", SHAPE)]))

    return Case(
        f"QUANTIZE-{dtype}-{opset}",
        build,
        inputs=[np.random.default_rng(0).uniform(-5, 5, SHAPE).astype(np.float32)],
        options={"opset": opset},
        resolver="opt" if dtype == "int4" else None,
        note="LiteRT quantizes to int4, not to uint4",
    )


FOUR_BITS = [_through_four_bits(dtype, opset) for dtype in ("int4", "uint4") for opset in (13, 21)]


def _edge_case(dtype: str, opset: int) -> Case:
    """A narrow type at the edge of a graph."""
    return one_op(
        f"edge-{dtype}-{opset}",
        "CAST",
        [("float32", (4,))],
        (dtype, (4,)),
        resolver=None,
        onnx=False,
        options={"opset": opset},
        note="ONNX has int4 from opset 21 on, int2 from 25 on",
    )


EDGE_TYPES = [_edge_case("int4", 13), _edge_case("uint4", 20), _edge_case("int2", 24)]
FROM_HALF = [
    one_op(
        f"QUANTIZE-float16-{target}",
        "QUANTIZE",
        [("float16", SHAPE)],
        (target, SHAPE, PARAMETERS[target]),
        resolver="xnn",
    )
    for target in ("int8", "uint8")
]
WIDE = [_wide_requantization(scale) for scale in (1e-5, 6e-6, 0.2)]

DEQUANTIZES = [
    *(
        one_op(
            f"DEQUANTIZE-{source}-{target}-{opset}",
            "DEQUANTIZE",
            [(source, ALL_CODES[source].shape, PARAMETERS[source])],
            (target, ALL_CODES[source].shape),
            inputs=[ALL_CODES[source]],
            tolerance=1e-5 if target == "float32" else 1e-3,
            resolver="opt" if target == "float32" else "xnn" if source != "int16" else None,
            note="without its delegate LiteRT gives float32 whatever the file says",
            options={"opset": opset},
        )
        for source in ("int8", "uint8", "int16")
        for target in ("float32", "float16")
        for opset in (13, 21)
    ),
    one_op("DEQUANTIZE-float16", "DEQUANTIZE", [("float16", SHAPE)], ("float32", SHAPE)),
]


def _constant(dtype: str, quant: Quant | tuple[float, int] | None, opset: int) -> Case:
    """A dequantized constant."""
    rng = np.random.default_rng(0)
    low, high = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint8": (0, 255)}.get(
        dtype, (-128, 127)
    )
    if dtype == "float16":
        data = rng.standard_normal((3, 5)).astype(np.float16)
    else:
        data = rng.integers(low, high, (3, 5), endpoint=True)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (3, 5))
        codes = b.const(data, dtype=dtype, quant=quant)
        y = b.op("DEQUANTIZE", [codes], [("float32", (3, 5))])
        b.output(b.op("ADD", [x, y], [("float32", (3, 5))]))

    kind = "channel" if isinstance(quant, Quant) else "tensor"
    return Case(f"DEQUANTIZE-const-{dtype}-{kind}-{opset}", build)


CONSTANTS = [
    *(
        _constant(dtype, None if dtype == "float16" else (0.1, point), opset)
        for dtype, point in (
            *(("int8", 3), ("uint8", 120), ("int16", 0), ("float16", 0)),
            *(("int4", 0), ("uint4", 7), ("int2", 0)),
        )
        for opset in (13, 21)
    ),
    *(
        _constant(dtype, Quant([0.1, 0.02, 0.5], points, axis=0), opset)
        for dtype, points in (("int8", [0, 0, 0]), ("uint8", [128, 120, 3]))
        for opset in (13, 21)
    ),
]

# -------------------------------------------------------------------- BITCAST, FAKE_QUANT

SAME_SIZE = [("int8", "uint8"), ("int16", "uint16"), ("int32", "uint32"), ("int64", "uint64")]
OTHER_SIZE = [
    *(("int32", "uint8"), ("int32", "int16"), ("uint16", "int8"), ("int64", "int32")),
    *(("uint32", "uint16"), ("int64", "int8")),
]
BITCASTS = [
    *(
        one_op(f"BITCAST-{a}-{b}", "BITCAST", [(a, (8,))], (b, (8,)), inputs=[_integer_edges(a)])
        for pair in SAME_SIZE
        for a, b in (pair, pair[::-1])
        if "uint64" not in pair
    ),
    *(
        one_op(
            f"BITCAST-{wide}-{narrow}",
            "BITCAST",
            [(wide, (8,))],
            (narrow, (8, np.dtype(wide).itemsize // np.dtype(narrow).itemsize)),
            inputs=[_integer_edges(wide)],
        )
        for wide, narrow in OTHER_SIZE
    ),
    *(
        one_op(
            f"BITCAST-{narrow}-{wide}",
            "BITCAST",
            [(narrow, (3, np.dtype(wide).itemsize // np.dtype(narrow).itemsize))],
            (wide, (3,)),
            inputs=[
                np.random.default_rng(0)
                .integers(0, 2**63, 3)
                .astype(wide)
                .view(narrow)
                .reshape(3, -1)
            ],
        )
        for wide, narrow in OTHER_SIZE
    ),
    *(
        one_op(
            f"BITCAST-{a}-{b}-{opset}",
            "BITCAST",
            [(a, (8,))],
            (b, (8,)),
            onnx=opset > 25,
            options={"opset": opset},
            note="ONNX has no op between a float and its bits before opset 26",
        )
        for a, b in (("float32", "int32"), ("int32", "float32"), ("float16", "int16"))
        for opset in (21, 26)
    ),
]
FAKE_QUANTS = [
    one_op(
        f"FAKE_QUANT-{low}-{high}-{bits}-{narrow}",
        "FAKE_QUANT",
        [("float32", SHAPE)],
        ("float32", SHAPE),
        op_options={"min": low, "max": high, "num_bits": bits, "narrow_range": narrow},
        resolver=None if narrow else "opt",
        note="LiteRT refuses the narrow range",
    )
    for low, high in ((-1.0, 3.0), (0.0, 6.0), (-2.5, 0.0), (-0.7, 0.7))
    for bits in (4, 8, 16)
    for narrow in (False, True)
]


@pytest.mark.parametrize("case", [*CASTS, *MORE_CASTS, *NARROW_CASTS], ids=str)
def test_cast(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", [*COMPLEX, *COMPLEX_CONSTANTS], ids=str)
def test_complex(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize(
    "case",
    [*QUANTIZES, *WIDE, *FOUR_BITS, *EDGE_TYPES, *FROM_HALF, *DEQUANTIZES, *CONSTANTS],
    ids=str,
)
def test_quantization(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", [*BITCASTS, *FAKE_QUANTS], ids=str)
def test_bitcast_and_fake_quant(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_a_change_of_sign_convention_is_no_arithmetic(tmp_path: Path) -> None:
    case = one_op(
        "QUANTIZE",
        "QUANTIZE",
        [("uint8", (256,), (0.05, 131))],
        ("int8", (256,), (0.05, 3)),
        inputs=[ALL_CODES["uint8"]],
        steps=0,
    )
    check(case, tmp_path)
    assert "QuantizeLinear" not in onnx_ops(tmp_path / "model.onnx")


@pytest.mark.parametrize("point", [0, 3])
@pytest.mark.parametrize("span", [6.0, 1.0, 2.4])
def test_numbers_halfway_between_codes_are_rounded_as_runtimes_do(span, point):
    """Half of a span of 255 steps may be halfway, though no float32 scale is exactly span / 255."""
    scale = np.float32(span / 255)
    x = np.float32([(n + 0.5) * (span / 255) for n in (127, 63, 31, 200)])
    b = TfliteBuilder()
    source = b.input("x", "float32", x.shape)
    b.output(b.op("QUANTIZE", [source], [("uint8", x.shape, (float(scale), point))]))
    (litert,) = run_litert(b.build(), [x])
    model = read(b.build())
    (result,) = nnconv.compile(model, "reference").run({"x": x}).values()
    np.testing.assert_array_equal(result, litert)
    if span == 6.0:  # 3 of hard swish; 128 is even too, which is what ONNX rounds to
        assert result[0] == 128 + point


def test_scales_near_0_saturate_without_a_warning():
    numbers = np.array([-1.0, 0.0, 1e6], np.float32)
    found = ir_quant.quantize(numbers, ir_quant.Quant.per_tensor(1e-42, 3), DType.UINT8)
    assert found.tolist() == [0, 3, 255]
