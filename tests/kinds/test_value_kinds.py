"""Kinds of fault in single values: indices, infinities and nans, empty and scalar tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from nnconv.errors import InvalidModelError
from support.litert import run_litert
from support.tflite_builder import TfliteBuilder
from support.whole import convert, floats, identity_conv

FLOAT = "float32"


# ---------------------------------------------------------------- indices


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("run_time", [False, True])
def test_negative_indices_count_from_the_end(kind: str, run_time: bool, tmp_path: Path) -> None:
    """LiteRT fails on them when it runs."""
    picks = np.asarray([-1, 0], kind)
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (4,))
    chosen = b.input("i", kind, (2,)) if run_time else b.const(picks)
    whole = convert(b, tmp_path, b.op("GATHER", [x, chosen], [(FLOAT, (2,))], options={"axis": 0}))
    feeds = [1 + floats(4), *([picks] if run_time else [])]
    assert whole.run(*feeds)[0].tolist() == [4, 1]


@pytest.mark.parametrize("index", [2**31, 2**32, -(2**31) - 1, 4, -5])
def test_an_index_out_of_range_is_refused_and_does_not_wrap(index: int, tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (4,))
    y = b.op("GATHER", [x, b.const(np.int64([index]))], [(FLOAT, (1,))], options={"axis": 0})
    with pytest.raises(InvalidModelError, match=str(index)):
        convert(b, tmp_path, y)
    assert not (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize("extent", [3, -1], ids=["known", "open"])
def test_what_a_gather_asks_for_is_not_cut_short(extent: int, tmp_path: Path) -> None:
    """Neighbours may be taken as a slice, which says nothing where some of them aren't there."""
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (2, 3), signature=(2, extent))
    if extent == 3:  # an index that is worked out before the run
        parts = [b.const(np.int32([1, 2])), b.const(np.int32([1, 1]))]
        picks = b.op("ADD", parts, [("int32", (2,))])
    else:
        picks = b.const(np.int32([2, 3]))
    whole = convert(b, tmp_path, b.op("GATHER", [x, picks], [(FLOAT, (2, 2))], options={"axis": 1}))
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument):
        whole.run(floats(2, 3))
    if extent < 0:
        np.testing.assert_array_equal(whole.run(floats(2, 4))[0], floats(2, 4)[:, 2:])


@pytest.mark.parametrize("op", ["DIV", "FLOOR_DIV", "FLOOR_MOD"])
def test_a_division_by_a_constant_0_is_refused(op: str, tmp_path: Path) -> None:
    """onnxruntime would not even load it; a float divided by 0 is infinite."""
    b = TfliteBuilder()
    x = b.input("x", "int32", (2,))
    with pytest.raises(InvalidModelError, match="divides by 0"):
        convert(b, tmp_path, b.op(op, [x, b.const(np.int32([2, 0]))], [("int32", (2,))]))
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (2,))
    y = b.op("DIV", [x, b.const(np.float32([2, 0]))], [(FLOAT, (2,))])
    assert convert(b, tmp_path, y).run(np.float32([1, -1]))[0].tolist() == [0.5, -np.inf]


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_the_place_of_a_maximum_keeps_its_type(kind: str, tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (2, 3))
    options = {"output_type": kind.upper()}
    y = b.op("ARG_MAX", [x, b.const(np.int32(1))], [(kind, (2,))], options=options)
    (got,) = convert(b, tmp_path, y).run(np.float32([[1, 5, 5], [3, 2, 1]]))
    assert got.dtype == kind
    assert got.tolist() == [1, 0]


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_a_slice_to_the_largest_integer_goes_to_the_end(kind: str, tmp_path: Path) -> None:
    x = floats(2, 5)
    largest, least = np.iinfo(kind).max, np.iinfo(kind).min
    b = TfliteBuilder()
    data = b.input("x", FLOAT, x.shape)

    def cut(begin: list[int], end: list[int], strides: list[int], shape: tuple[int, ...]) -> Any:
        operands = [b.const(np.asarray(part, kind)) for part in (begin, end, strides)]
        return b.op("STRIDED_SLICE", [data, *operands], [(FLOAT, shape)])

    forward = cut([0, 1], [largest, largest], [1, 2], (2, 2))
    backward = cut([-1, 4], [least, least], [-1, -3], (2, 2))
    got = convert(b, tmp_path, forward, backward).run(x)
    np.testing.assert_array_equal(got[0], x[:, 1::2])
    np.testing.assert_array_equal(got[1], x[::-1, 4::-3])


# ---------------------------------------------------------------- special values


@pytest.mark.parametrize("masked", [-np.inf, np.float32(-3.4e38)])
def test_masks_in_a_softmax(masked: float, tmp_path: Path) -> None:
    """A row without any finite number has no answer: nan, as LiteRT's XNNPACK kernels say."""
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (2, 3))
    mask = b.input("mask", FLOAT, (2, 3))
    total = b.op("ADD", [x, mask], [(FLOAT, (2, 3))])
    y = b.op("SOFTMAX", [total], [(FLOAT, (2, 3))], options={"beta": 1.0})
    whole = convert(b, tmp_path, y)
    feeds = [np.float32([[1, 2, 2], [0, 0, 0]]), np.full((2, 3), masked, np.float32)]
    feeds[1][0, 1:] = 0
    (got,) = whole.run(*feeds)
    np.testing.assert_array_equal(got[0], np.float32([0, 0.5, 0.5]))
    assert np.isnan(got[1]).all() if np.isinf(masked) else (got[1] == np.float32(1 / 3)).all()
    np.testing.assert_array_equal(got, run_litert(whole.source, feeds, "xnn")[0])


def test_floats_are_cast_to_bytes_as_litert_does(tmp_path: Path) -> None:
    """A bare ONNX Cast gives 255, 0, 127, 128, 255, 44, 0, 0."""
    values = np.float32([-1.5, 0.5, 127.9, 128, 255.9, 300, np.nan, np.inf])
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (8,))
    options = {"in_data_type": "FLOAT32", "out_data_type": "UINT8"}
    whole = convert(b, tmp_path, b.op("CAST", [x], [("uint8", (8,))], options=options))
    assert whole.run(values)[0].tolist() == [0, 0, 127, 128, 255, 255, 255, 255]


def test_infinities_and_nans_pass_through(tmp_path: Path) -> None:
    values = np.float32([-np.inf, -3.4e38, -0.0, 0.0, 3.4e38, np.inf, np.nan])
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (7,))
    same = b.op("RESHAPE", [x, b.const(np.int32([7]))], [(FLOAT, (7,))])
    clipped = b.op("RELU", [x], [(FLOAT, (7,))])
    twice = b.op("ADD", [x, x], [(FLOAT, (7,))])
    got = convert(b, tmp_path, same, clipped, twice).run(values)
    np.testing.assert_array_equal(got[0].view(np.uint32), values.view(np.uint32))
    np.testing.assert_array_equal(got[1][:6], np.maximum(values[:6], 0))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got[2], values + values)


# ---------------------------------------------------------------- empty tensors and scalars


def test_empty_slices_and_joins(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (2, 3))
    begin, size = b.const(np.int32([1, 0])), b.const(np.int32([0, 3]))
    nothing = b.op("SLICE", [x, begin, size], [(FLOAT, (0, 3))])
    options = {"axis": 0}
    joined = b.op("CONCATENATION", [nothing, x, nothing], [(FLOAT, (2, 3))], options=options)
    total = b.op("SUM", [nothing, b.const(np.int32([0]))], [(FLOAT, (3,))])
    got = convert(b, tmp_path, nothing, joined, total).run(floats(2, 3))
    assert got[0].shape == (0, 3)
    np.testing.assert_array_equal(got[1], floats(2, 3))
    assert got[2].tolist() == [0, 0, 0]


def test_where_nothing_is_true(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", "bool", (2, 3))
    whole = convert(b, tmp_path, b.op("WHERE", [x], [("int64", (0, 2))]))
    assert whole.run(np.zeros((2, 3), bool))[0].shape == (0, 2)
    assert whole.run(np.ones((2, 3), bool))[0].shape == (6, 2)


@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
def test_scalars_and_single_elements_stay_what_they_are(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, shape)
    two = b.const(np.full(shape, 2, np.float32))
    power = b.op("POW", [x, two], [(FLOAT, shape)])
    leaky = b.op("LEAKY_RELU", [power], [(FLOAT, shape)], options={"alpha": 0.5})
    matrix = b.input("m", FLOAT, (2, 3))
    pads = b.const(np.int32([[1, 0], [0, 0]]))
    padded = b.op("PADV2", [matrix, pads, b.const(np.float32(7))], [(FLOAT, (3, 3))])
    scaled = b.op("MUL", [matrix, leaky], [(FLOAT, (2, 3))])
    whole = convert(b, tmp_path, power, leaky, padded, scaled)
    infos = [*whole.session.get_inputs(), *whole.session.get_outputs()]
    wanted = [list(shape), [2, 3], list(shape), list(shape), [3, 3], [2, 3]]
    assert [info.shape for info in infos] == wanted
    got = whole.run(np.full(shape, -3, np.float32), floats(2, 3))
    assert got[0].shape == shape
    assert got[0] == got[1] == 9
    assert got[2][0].tolist() == [7, 7, 7]
    np.testing.assert_array_equal(got[3], 9 * floats(2, 3))


# ---------------------------------------------------------------- strided slices

X = floats(2, 3)
_OPS = "STRIDED_SLICE"
SLICES: dict[str, tuple[list[int], list[int], list[int], dict[str, int], Any]] = {
    "..., None, None": (
        [0, 0, 0], [0, 0, 0], [1, 1, 1],
        {"ellipsis_mask": 0b1, "new_axis_mask": 0b110}, X[..., None, None],
    ),
    "..., :1, 2:": (
        [0, 0, 2], [0, 1, 0], [1, 1, 1],
        {"ellipsis_mask": 0b1, "begin_mask": 0b10, "end_mask": 0b100}, X[..., :1, 2:],
    ),
    "None, ..., 1": (
        [0, 0, 1], [0, 0, 2], [1, 1, 1],
        {"new_axis_mask": 0b1, "ellipsis_mask": 0b10, "shrink_axis_mask": 0b100}, X[None, ..., 1],
    ),
    "1, None, ..., None": (
        [1, 0, 0, 0], [2, 0, 0, 0], [1, 1, 1, 1],
        {"shrink_axis_mask": 0b1, "new_axis_mask": 0b1010, "ellipsis_mask": 0b100},
        X[1, None, ..., None],
    ),
    "::-1, 2::-2": (
        [0, 2], [0, 0], [-1, -2], {"begin_mask": 0b1, "end_mask": 0b11}, X[::-1, 2::-2],
    ),
    "-1, ::2": (
        [-1, 0], [0, 0], [1, 2],
        {"shrink_axis_mask": 0b1, "begin_mask": 0b10, "end_mask": 0b10}, X[-1, ::2],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SLICES)
@pytest.mark.parametrize("run_time", [False, True])
def test_slices_with_masks_are_numpys(name: str, run_time: bool, tmp_path: Path) -> None:
    begin, end, strides, masks, expected = SLICES[name]
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (2, 3))
    first = b.input("begin", "int32", (len(begin),)) if run_time else b.const(np.int32(begin))
    operands = [x, first, b.const(np.int32(end)), b.const(np.int32(strides))]
    y = b.op(_OPS, operands, [(FLOAT, expected.shape)], options=masks, version=4)
    feeds = [X, *([np.int32(begin)] if run_time else [])]
    np.testing.assert_array_equal(convert(b, tmp_path, y).run(*feeds)[0], expected)


def test_a_slice_behind_a_convolution_keeps_its_axes(tmp_path: Path) -> None:
    x = floats(2, 4, 5, 3)
    b = TfliteBuilder()
    y = identity_conv(b, b.input("x", FLOAT, x.shape))
    operands = [b.const(np.int32(part)) for part in ([0, 1, 0], [0, 2, 0], [1, 1, -1])]
    masks = {"ellipsis_mask": 0b1, "shrink_axis_mask": 0b10, "begin_mask": 0b100, "end_mask": 0b100}
    expected = x[..., 1, ::-1]
    y = b.op(_OPS, [y, *operands], [(FLOAT, expected.shape)], options=masks, version=4)
    np.testing.assert_array_equal(convert(b, tmp_path, y).run(x)[0], expected)
