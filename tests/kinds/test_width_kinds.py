"""Kinds of fault in models of other widths than 8 bits, and of weights alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from support.litert import run_litert
from support.tflite_builder import Quant, TfliteBuilder
from support.whole import Whole, convert, floats, layer

# ---------------------------------------------------------------- dynamic range and float16


def test_weights_of_a_float_model_stay_8_bits_and_data_is_not_rounded(tmp_path: Path) -> None:
    """LiteRT rounds the data to 8 bits first, and says 0.830709."""
    b = TfliteBuilder()
    x = b.input("x", "float32", (1, 2))
    y = layer(b, x, np.int8([[100, 50]]), None, scale=0.01, y=("float32", None))
    whole = convert(b, tmp_path, y)
    data = np.float32([[0.33, 1]])
    (got,) = whole.run(data)
    np.testing.assert_allclose(got, [[0.83]], rtol=1e-6)
    bound = 0.5 * (1 / 127) * (1.0 + 0.5)
    assert abs(got.item() - run_litert(whole.source, [data], "opt")[0].item()) <= bound
    assert any(c.dtype == np.int8 and c.size == 2 for c in whole.constants)


def test_halves_are_widened_exactly_and_stay_small_in_the_file(tmp_path: Path) -> None:
    """1e-6 is below float16's normal range; 65504 is its largest number."""
    halves = np.float16([0.1, 1e-6, 65504, -2e-7])
    b = TfliteBuilder()
    x = b.input("x", "float32", (4,))
    wide = b.op("DEQUANTIZE", [b.const(halves)], [("float32", (4,))])
    whole = convert(b, tmp_path, b.op("MUL", [x, wide], [("float32", (4,))]))
    (got,) = whole.run(np.ones(4, np.float32))
    np.testing.assert_array_equal(got, halves.astype(np.float32))
    assert got[1] != 0
    kinds = Counter(node.op_type for node in whole.graph.node)
    assert kinds["DequantizeLinear"] == 0, "it has no float16 source"


def test_a_bias_of_halves(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    w, bias = rng.standard_normal((300, 40)).astype(np.float16), np.float16(rng.random(300))
    b = TfliteBuilder()
    x = b.input("x", "float32", (2, 40))
    operands = [
        b.op("DEQUANTIZE", [b.const(part)], [("float32", part.shape)]) for part in (w, bias)
    ]
    y = b.op("FULLY_CONNECTED", [x, *operands], [("float32", (2, 300))])
    whole = convert(b, tmp_path, y)
    data = rng.standard_normal((2, 40)).astype(np.float32)
    expected = data @ w.astype(np.float32).T + bias.astype(np.float32)
    np.testing.assert_allclose(whole.run(data)[0], expected, rtol=1e-4, atol=1e-5)
    assert whole.target.stat().st_size < 1.2 * whole.source.stat().st_size


# ---------------------------------------------------------------- 16 bits


def test_data_of_16_bits_keeps_its_wide_bias(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", "int16", (1, 2), quant=(0.001, 0))
    bias_scale = float(np.float32(0.001) * np.float32(0.02))
    y = layer(
        b,
        x,
        np.int8([[40, 30]]),
        np.int64([250]),
        scale=0.02,
        bias_scale=bias_scale,
        y=("int16", (0.005, 0)),
    )
    whole = convert(b, tmp_path, y)
    assert whole.run(np.int16([[2000, -500]]))[0].tolist() == [[261]]
    assert {info.type for info in whole.session.get_outputs()} == {"tensor(int16)"}


# ---------------------------------------------------------------- 4 bits and blocks


@pytest.mark.parametrize("opset", [13, 21])
def test_odd_counts_of_4_bit_weights(opset: int, tmp_path: Path) -> None:
    """The first of two shares a byte in its low half; the last one is alone."""
    codes = np.int8([[-8, 7, 1], [2, -3, 4], [5, -6, -7]])
    scales = np.float32([0.5, 0.25, 2])
    b = TfliteBuilder()
    x = b.input("x", "float32", (2, 3))
    w = b.const(codes, dtype="int4", quant=Quant(scales, 0, axis=0))
    y = b.op("FULLY_CONNECTED", [x, w, None], [("float32", (2, 3))])
    got = convert(b, tmp_path, y, opset=opset).run(floats(2, 3))[0]
    np.testing.assert_array_equal(got, floats(2, 3) @ (codes * scales[:, None]).T)


def _blockwise(folder: Path, depth: int, block: int, opset: int) -> tuple[Whole, np.ndarray]:
    rng = np.random.default_rng(0)
    codes = rng.integers(-8, 8, (4, depth)).astype(np.int8)
    scales = (2.0 ** rng.integers(-4, 2, (4, -(-depth // block)))).astype(np.float16)
    b = TfliteBuilder()
    x = b.input("x", "float32", (2, depth))
    quant = Quant(block_scales=b.const(scales), block_size=block)
    w = b.const(codes, dtype="int4", quant=quant)
    y = b.op("FULLY_CONNECTED", [x, w, None], [("float32", (2, 4))])
    whole = convert(b, folder, y, opset=opset)
    return whole, codes * np.repeat(scales.astype(np.float32), block, axis=1)[:, :depth]


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("depth", [96, 48])
def test_blocks_along_the_depth_have_their_scales(depth: int, opset: int, tmp_path: Path) -> None:
    """The last block of a depth that they don't divide is a short one."""
    whole, w = _blockwise(tmp_path, depth, 32, opset)
    x = np.random.default_rng(1).integers(-4, 5, (2, depth)).astype(np.float32)
    np.testing.assert_array_equal(whole.run(x)[0], x @ w.T)
