"""Kinds of fault in ops on images: shuffled depth, resizing, windows and their edges, groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnconv.errors import InvalidModelError, UnsupportedError
from support.litert import run_litert
from support.tflite_builder import TfliteBuilder
from support.whole import Whole, conv, convert, floats, identity_conv

FLOAT = "float32"


def first_channels(x: np.ndarray) -> np.ndarray:
    """To [N, C, H, W], in which the known answers are given."""
    return x.transpose(0, 3, 1, 2)


# ---------------------------------------------------------------- depth and space


@pytest.mark.parametrize("behind_conv", [False, True])
@pytest.mark.parametrize("opset", [13, 21])
def test_depth_goes_to_space_column_by_column_of_blocks(
    opset: int, behind_conv: bool, tmp_path: Path
) -> None:
    """The other order would start 0, 6, 12, 1, 7, 13."""
    x = floats(1, 18, 3, 2).transpose(0, 2, 3, 1)
    b = TfliteBuilder()
    data = b.input("x", FLOAT, x.shape)
    data = identity_conv(b, data) if behind_conv else data
    y = b.op("DEPTH_TO_SPACE", [data], [(FLOAT, (1, 9, 6, 2))], options={"block_size": 3})
    (got,) = convert(b, tmp_path, y, opset=opset).run(x)
    assert first_channels(got)[0, 0, 0].tolist() == [0, 12, 24, 1, 13, 25]


@pytest.mark.parametrize("behind_conv", [False, True])
def test_depth_of_one_pixel_goes_to_space(behind_conv: bool, tmp_path: Path) -> None:
    b = TfliteBuilder()
    data = b.input("x", FLOAT, (1, 1, 1, 8))
    data = identity_conv(b, data) if behind_conv else data
    y = b.op("DEPTH_TO_SPACE", [data], [(FLOAT, (1, 2, 2, 2))], options={"block_size": 2})
    (got,) = convert(b, tmp_path, y).run(floats(1, 1, 1, 8))
    assert first_channels(got)[0, 0].reshape(-1).tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("behind_conv", [False, True])
def test_space_goes_back_to_depth(behind_conv: bool, tmp_path: Path) -> None:
    x = floats(1, 4, 6, 3)
    b = TfliteBuilder()
    data = b.input("x", FLOAT, x.shape)
    data = identity_conv(b, data) if behind_conv else data
    deep = b.op("SPACE_TO_DEPTH", [data], [(FLOAT, (1, 2, 3, 12))], options={"block_size": 2})
    y = b.op("DEPTH_TO_SPACE", [deep], [(FLOAT, x.shape)], options={"block_size": 2})
    deeper, back = convert(b, tmp_path, deep, y).run(x)
    blocks = x.reshape(1, 2, 2, 3, 2, 3).transpose(0, 1, 3, 2, 4, 5)
    np.testing.assert_array_equal(deeper, blocks.reshape(1, 2, 3, 12))
    np.testing.assert_array_equal(back, x)


# ---------------------------------------------------------------- resizing

RESIZED = {
    "legacy": ({}, [0, 2, 4, 4], [0, 3, 6, 10, 13, 16]),
    "half pixel": ({"half_pixel_centers": True}, [0, 1, 3, 4], [1, 5, 8, 11, 15, 18]),
    "align corners": ({"align_corners": True}, [0, 4 / 3, 8 / 3, 4], [0, 4, 8, 11, 15, 19]),
}


def resize(
    op: str, x: np.ndarray, width: int, folder: Path, behind_conv: bool, **options: bool
) -> Whole:
    b = TfliteBuilder()
    data = b.input("x", FLOAT, x.shape)
    data = identity_conv(b, data) if behind_conv else data
    size = b.const(np.int32([x.shape[1], width]))
    shape = (*x.shape[:2], width, x.shape[3])
    return convert(b, folder, b.op(op, [data, size], [(FLOAT, shape)], options=options, version=3))


@pytest.mark.parametrize("behind_conv", [False, True])
@pytest.mark.parametrize("flags", RESIZED)
def test_resizing_takes_the_coordinates_of_its_flags(
    flags: str, behind_conv: bool, tmp_path: Path
) -> None:
    options, linear, nearest = RESIZED[flags]
    x = np.float32([0, 4]).reshape(1, 1, 2, 1)
    (got,) = resize("RESIZE_BILINEAR", x, 4, tmp_path, behind_conv, **options).run(x)
    np.testing.assert_allclose(got.reshape(-1), linear, rtol=1e-6)
    x = floats(1, 1, 20, 1)
    (got,) = resize("RESIZE_NEAREST_NEIGHBOR", x, 6, tmp_path, behind_conv, **options).run(x)
    assert got.reshape(-1).tolist() == nearest


def test_flags_that_exclude_each_other_are_refused(tmp_path: Path) -> None:
    """LiteRT's own kernels refuse them, XNNPACK's take them: nobody knows what was meant."""
    options = {"half_pixel_centers": True, "align_corners": True}
    with pytest.raises(UnsupportedError, match="both set"):
        resize("RESIZE_BILINEAR", floats(1, 2, 4, 1), 8, tmp_path, False, **options)
    assert not (tmp_path / "model.onnx").exists()


def test_nearest_takes_both_flags(tmp_path: Path) -> None:
    whole = resize(
        "RESIZE_NEAREST_NEIGHBOR",
        floats(1, 1, 4, 1),
        6,
        tmp_path,
        False,
        half_pixel_centers=True,
        align_corners=True,
    )
    assert whole.run(floats(1, 1, 4, 1))[0].reshape(-1).tolist() == [0, 1, 2, 2, 3, 3]


# ---------------------------------------------------------------- transposed convolution


def transposed(b: TfliteBuilder, padding: str, size: int) -> object:
    x = b.input("x", FLOAT, (1, 2, 2, 1))
    w = b.const(1 + floats(1, 3, 3, 1))
    shape = b.const(np.int32([1, size, size, 1]))
    options = {"padding": padding, "stride_h": 2, "stride_w": 2}
    return b.op("TRANSPOSE_CONV", [shape, w, x], [(FLOAT, (1, size, size, 1))], options=options)


def test_transposed_same_padding_cuts_the_end(tmp_path: Path) -> None:
    b = TfliteBuilder()
    (got,) = convert(b, tmp_path, transposed(b, "SAME", 4)).run(1 + floats(1, 2, 2, 1))
    expected = [1, 2, 5, 4, 4, 5, 14, 10, 10, 14, 36, 24, 12, 15, 34, 20]
    assert got.reshape(-1).tolist() == expected


def test_transposed_convolution_whose_start_is_cut_off(tmp_path: Path) -> None:
    """What other frameworks call padding 1 with output padding 1."""
    b = TfliteBuilder()
    full = transposed(b, "VALID", 5)
    begin, size = b.const(np.int32([0, 1, 1, 0])), b.const(np.int32([1, 4, 4, 1]))
    y = b.op("SLICE", [full, begin, size], [(FLOAT, (1, 4, 4, 1))])
    (got,) = convert(b, tmp_path, y).run(1 + floats(1, 2, 2, 1))
    expected = [5, 14, 10, 12, 14, 36, 24, 30, 15, 34, 20, 24, 24, 55, 32, 36]
    assert got.reshape(-1).tolist() == expected


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
def test_sizes_of_transposed_convolutions(
    kernel: int, stride: int, padding: str, tmp_path: Path
) -> None:
    height, width = 3, 4
    fit = (lambda n: n * stride) if padding == "SAME" else lambda n: (n - 1) * stride + kernel
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (1, height, width, 2))
    w = b.const(floats(5, kernel, kernel, 2))
    shape = (1, max(fit(height), 1), max(fit(width), 1), 5)
    options = {"padding": padding, "stride_h": stride, "stride_w": stride}
    y = b.op("TRANSPOSE_CONV", [b.const(np.int32(shape)), w, x], [(FLOAT, shape)], options=options)
    whole = convert(b, tmp_path, y)
    data = floats(1, height, width, 2)
    np.testing.assert_array_equal(whole.run(data)[0], run_litert(whole.source, [data])[0])


# ---------------------------------------------------------------- edges of pools


def test_an_average_leaves_same_padding_out(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (1, 2, 2, 1))
    sizes = {"filter_height": 2, "filter_width": 2}
    y = conv(b, [x], (1, 2, 2, 1), op="AVERAGE_POOL_2D", **sizes)
    (got,) = convert(b, tmp_path, y).run(1 + floats(1, 2, 2, 1))
    assert got.reshape(-1).tolist() == [2.5, 3, 3.5, 4]


def test_an_average_counts_zeros_that_an_op_put_there(tmp_path: Path) -> None:
    """And leaves out those of its own padding, in the last row and column."""
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (1, 4, 4, 1))
    around = b.const(np.int32([[0, 0], [1, 1], [1, 1], [0, 0]]))
    wide = b.op("PAD", [x, around], [(FLOAT, (1, 6, 6, 1))])
    sizes = {"filter_height": 3, "filter_width": 3}
    y = conv(b, [wide], (1, 3, 3, 1), stride=(2, 2), op="AVERAGE_POOL_2D", **sizes)
    (got,) = convert(b, tmp_path, y).run(1 + floats(1, 4, 4, 1))
    expected = [14 / 9, 30 / 9, 2, 57 / 9, 11, 6, 4.5, 7.5, 4]
    np.testing.assert_allclose(got.reshape(-1), expected, rtol=1e-6)


@pytest.mark.parametrize("op", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_padding_of_a_pool_has_no_value(op: str, tmp_path: Path) -> None:
    """Whatever number stands for it could come out, or make an infinity a nan."""
    low = float(np.finfo(np.float32).min)
    x = np.float32([[-9, 2, -np.inf], [4, 5, 6], [7, 8, low]]).reshape(1, 3, 3, 1)
    b = TfliteBuilder()
    sizes = {"filter_height": 2, "filter_width": 2}
    y = conv(b, [b.input("x", FLOAT, x.shape)], (1, 2, 2, 1), stride=(2, 2), op=op, **sizes)
    (got,) = convert(b, tmp_path, y).run(x)
    expected = [5, 6, 8, low] if op == "MAX_POOL_2D" else [0.5, -np.inf, 7.5, low]
    assert got.reshape(-1).tolist() == expected


# ---------------------------------------------------------------- groups


def grouped(x: np.ndarray, w: np.ndarray, groups: int) -> np.ndarray:
    """A VALID convolution with stride 1: filters [O, kh, kw, C / groups], in plain loops."""
    height, width = (x.shape[1 + i] - w.shape[1 + i] + 1 for i in range(2))
    depth, count = w.shape[3], w.shape[0] // groups
    out = np.zeros((x.shape[0], height, width, w.shape[0]), np.float64)
    for o in range(w.shape[0]):
        first = o // count * depth
        for i in range(height):
            for j in range(width):
                part = x[:, i : i + w.shape[1], j : j + w.shape[2], first : first + depth]
                out[:, i, j, o] = (part * w[o]).sum(axis=(1, 2, 3))
    return out


@pytest.mark.parametrize(
    ("channels", "filters", "groups"), [(4, 6, 2), (6, 3, 3), (4, 4, 4), (4, 8, 4), (4, 12, 4)]
)
def test_groups_take_their_own_channels(
    channels: int, filters: int, groups: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-5, 6, (2, 5, 4, channels)).astype(np.float32)
    w = rng.integers(-5, 6, (filters, 3, 2, channels // groups)).astype(np.float32)
    b = TfliteBuilder()
    operands = [b.input("x", FLOAT, x.shape), b.const(w), b.const(np.zeros(filters, np.float32))]
    whole = convert(b, tmp_path, conv(b, operands, (2, 3, 3, filters), padding="VALID"))
    np.testing.assert_array_equal(whole.run(x)[0], grouped(x, w, groups))


@pytest.mark.parametrize("multiplier", [1, 2, 3])
def test_depth_multipliers_repeat_each_channel(multiplier: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-5, 6, (2, 5, 4, 3)).astype(np.float32)
    w = rng.integers(-5, 6, (1, 3, 2, 3 * multiplier)).astype(np.float32)
    b = TfliteBuilder()
    operands = [b.input("x", FLOAT, x.shape), b.const(w), b.const(np.zeros(w.shape[3], np.float32))]
    options = {"depth_multiplier": multiplier, "padding": "VALID"}
    y = conv(b, operands, (2, 3, 3, w.shape[3]), op="DEPTHWISE_CONV_2D", **options)
    expected = grouped(x, w.transpose(3, 1, 2, 0), 3)
    np.testing.assert_array_equal(convert(b, tmp_path, y).run(x)[0], expected)


@pytest.mark.parametrize(("depth", "filters"), [(3, 6), (2, 5)])
def test_groups_that_do_not_come_out_even_are_refused(
    depth: int, filters: int, tmp_path: Path
) -> None:
    b = TfliteBuilder()
    w = b.const(floats(filters, 1, 1, depth))
    operands = [b.input("x", FLOAT, (1, 3, 3, 4)), w, b.const(np.zeros(filters, np.float32))]
    with pytest.raises(InvalidModelError):
        convert(b, tmp_path, conv(b, operands, (1, 3, 3, filters)))
    assert not (tmp_path / "model.onnx").exists()
