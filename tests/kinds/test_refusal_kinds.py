"""Kinds of numbers that mean nothing: LiteRT refuses them, and nothing may be written for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnconv
from nnconv.errors import InvalidModelError, UnsupportedError
from support.litert import run_litert
from support.tflite_builder import TfliteBuilder
from support.whole import convert_bytes

FLOAT = "float32"
INTS = np.int32

CASES: dict[str, tuple[str, list[Any], tuple[int, ...], dict[str, Any], str]] = {
    # name: (op, operands: a shape is a float input, an array a constant; result, options, words)
    "depth": (
        "ONE_HOT",
        [INTS([0, 1]), INTS(-3), np.float32(1), ()],
        (2, 3),
        {"axis": -1},
        "shape [2, -3]",
    ),
    "fill": ("FILL", [INTS([-2, 3]), ()], (2, 3), {}, "shape [-2, 3]"),
    "broadcast": ("BROADCAST_TO", [(3,), INTS([-2, 3])], (2, 3), {}, "shape [-2, 3]"),
    "tile": ("TILE", [(3,), INTS([-2])], (6,), {}, "shape [-6]"),
    "scatter": ("SCATTER_ND", [INTS([[0]]), (1,), INTS([-4])], (4,), {}, "shape [-4]"),
    "crop": (
        "BATCH_TO_SPACE_ND",
        [(4, 2, 2, 1), INTS([2, 2]), INTS([[9, 0], [0, 0]])],
        (1, 4, 4, 1),
        {},
        "shape [1, -5, 4, 1]",
    ),
    "pad": ("PAD", [(4,), INTS([[-1, 1]])], (4,), {}, "pads [-1, 1]"),
    "pad with a value": ("PADV2", [(4,), INTS([[2, -1]]), np.float32(1)], (5,), {}, "pads [2, -1]"),
    "reflect": ("MIRROR_PAD", [(3,), INTS([[3, 0]])], (6,), {"mode": "REFLECT"}, "mirror more"),
    "symmetric": ("MIRROR_PAD", [(3,), INTS([[0, 4]])], (7,), {"mode": "SYMMETRIC"}, "mirror more"),
    "begin": ("SLICE", [(4,), INTS([-1]), INTS([2])], (2,), {}, "before the start"),
    "size": ("SLICE", [(4,), INTS([1]), INTS([-7])], (2,), {}, "before the start"),
    "reshape": ("RESHAPE", [(4,), INTS([-5, 4])], (1, 4), {}, "below -1"),
    "scalar": ("SOFTMAX", [()], (), {"beta": 1.0}, "is a scalar"),
}


def build(name: str) -> tuple[bytes, list[np.ndarray]]:
    op, operands, shape, options, _ = CASES[name]
    b = TfliteBuilder()
    given = [
        b.input(f"x{i}", FLOAT, what) if isinstance(what, tuple) else b.const(what)
        for i, what in enumerate(operands)
    ]
    b.output(b.op(op, given, [(FLOAT, shape)], options=options))
    return b.build(), [np.ones(what, np.float32) for what in operands if isinstance(what, tuple)]


@pytest.mark.parametrize("name", CASES)
def test_numbers_that_mean_nothing_are_refused(name: str, tmp_path: Path) -> None:
    content, feeds = build(name)
    with pytest.raises(InvalidModelError) as caught:
        convert_bytes(content, tmp_path)
    assert CASES[name][-1] in caught.value.message
    assert f"op #0 ({CASES[name][0]})" in caught.value.message
    assert not (tmp_path / "model.onnx").exists()
    with pytest.raises((RuntimeError, ValueError)):
        run_litert(tmp_path / "model.tflite", feeds)


@pytest.mark.parametrize(("mode", "most"), [("REFLECT", 2), ("SYMMETRIC", 3)])
def test_a_mirror_may_show_all_there_is(mode: str, most: int, tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (3,))
    pads = b.const(INTS([[most, most]]))
    b.output(b.op("MIRROR_PAD", [x, pads], [(FLOAT, (3 + 2 * most,))], options={"mode": mode}))
    whole = convert_bytes(b.build(), tmp_path)
    data = np.float32([1, 2, 3])
    np.testing.assert_array_equal(whole.run(data)[0], run_litert(whole.source, [data])[0])


def test_a_negative_radius_is_refused(tmp_path: Path) -> None:
    """LiteRT reads beyond its memory there."""
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (1, 2, 2, 3))
    options = {"radius": -1, "bias": 1.0, "alpha": 1.0, "beta": 0.5}
    b.output(b.op("LOCAL_RESPONSE_NORMALIZATION", [x], [(FLOAT, (1, 2, 2, 3))], options=options))
    with pytest.raises(InvalidModelError, match="radius -1"):
        convert_bytes(b.build(), tmp_path)


@pytest.mark.parametrize("read_by", ["op", "nothing"])
def test_a_file_with_constants_of_strings_is_not_broken(read_by: str, tmp_path: Path) -> None:
    b = TfliteBuilder()
    places = b.input("places", "int32", (2,))
    words = b.const(np.array(["a", "b", "c"], object), dtype="string")
    if read_by == "op":
        b.output(b.op("GATHER", [words, places], [("string", (2,))], options={"axis": 0}))
    else:
        b.output(words)
    source = tmp_path / "words.tflite"
    source.write_bytes(b.build())
    with pytest.raises(UnsupportedError, match="it has a constant of strings") as caught:
        nnconv.load(source)
    (item,) = caught.value.items
    assert "tensor #1" in item.where
