"""Numbers of nodes beyond all that there can be: refused, and never an internal error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnconv
from nnconv.errors import NnconvError
from support.onnx_routes import feeding, node
from support.onnx_whole import ints

FAR = 2**36
FARS = [FAR, FAR]


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


IMAGE, WEIGHTS, FOUR = zeros(1, 4, 4, 4), {"w": zeros(4, 4, 1, 1)}, zeros(4)

FURTHER: dict[str, tuple[Any, np.ndarray, dict[str, Any]]] = {
    "OneHot": (
        node("OneHot", ["x", "d", "v"], ["y"]),
        ints(0),
        {"d": np.int64(FAR), "v": zeros(2)},
    ),
    "TopK": (node("TopK", ["x", "k"], ["y", "i"]), IMAGE, {"k": ints(FAR)}),
    "Expand": (node("Expand", ["x", "k"], ["y"]), zeros(1), {"k": ints(FAR)}),
    "Tile": (node("Tile", ["x", "k"], ["y"]), zeros(1), {"k": ints(FAR)}),
    **{
        f"Pad {mode} {count}": (
            node("Pad", ["x", "k"], ["y"], mode=mode),
            FOUR,
            {"k": ints(count, 0)},
        )
        for mode in ("constant", "edge", "reflect", "wrap")
        for count in (FAR, -FAR)
    },
    "Reshape": (node("Reshape", ["x", "k"], ["y"]), zeros(1), {"k": ints(FAR)}),
    "EyeLike": (node("EyeLike", ["x"], ["y"], k=FAR), zeros(4, 4), {}),
    "Trilu": (node("Trilu", ["x", "k"], ["y"]), zeros(4, 4), {"k": np.int64(FAR)}),
    **{
        f"{op} window": (
            node(op, ["x"], ["y"], kernel_shape=FARS, pads=[FAR // 2] * 4),
            IMAGE,
            {},
        )
        for op in ("MaxPool", "AveragePool", "LpPool")
    },
    **{
        f"{op} {name}": (node(op, ["x", "w"], ["y"], **{name: numbers}), IMAGE, WEIGHTS)
        for op in ("Conv", "ConvTranspose")
        for name, numbers in (
            ("strides", FARS),
            ("dilations", FARS),
            ("pads", FARS * 2),
            ("group", FAR),
        )
    },
    "DepthToSpace": (node("DepthToSpace", ["x"], ["y"], blocksize=FAR), IMAGE, {}),
    "SpaceToDepth": (node("SpaceToDepth", ["x"], ["y"], blocksize=FAR), IMAGE, {}),
    "LRN": (node("LRN", ["x"], ["y"], size=2 * FAR + 1), IMAGE, {}),
    "Resize": (
        node("Resize", ["x", "", "", "k"], ["y"], mode="linear"),
        IMAGE,
        {"k": ints(1, 4, *FARS)},
    ),
    "RoiAlign": (
        node("RoiAlign", ["x", "r", "b"], ["y"], output_height=FAR, sampling_ratio=FAR),
        IMAGE,
        {"r": zeros(1, 4), "b": ints(0)},
    ),
    "DFT": (node("DFT", ["x", "k"], ["y"]), zeros(1, 4, 1), {"k": np.int64(FAR)}),
    "Range": (
        [
            node("Range", ["a", "k", "b"], ["r"]),
            node("Cast", ["r"], ["c"], to=1),
            node("Add", ["x", "c"], ["y"]),
        ],
        zeros(1),
        {"a": np.int64(0), "k": np.int64(FAR), "b": np.int64(1)},
    ),
    "ConstantOfShape": (
        [node("ConstantOfShape", ["k"], ["r"]), node("Add", ["x", "r"], ["y"])],
        zeros(1),
        {"k": ints(FAR)},
    ),
    "HannWindow": (
        [node("HannWindow", ["k"], ["w"]), node("Add", ["x", "w"], ["y"])],
        zeros(1),
        {"k": np.int64(FAR)},
    ),
    "Col2Im": (
        node("Col2Im", ["x", "a", "a"], ["y"]),
        zeros(1, 4, 4),
        {"a": ints(*FARS)},
    ),
    "LSTM": (
        node("LSTM", ["x", "w", "r"], ["", "y"], hidden_size=FAR),
        zeros(2, 1, 3),
        {"w": zeros(1, 4, 3), "r": zeros(1, 4, 1)},
    ),
}


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
@pytest.mark.parametrize("kind", FURTHER)
def test_numbers_beyond_all_extents(kind: str, suffix: str, tmp_path: Path) -> None:
    nodes, data, constants = FURTHER[kind]
    source, target = tmp_path / "model.onnx", tmp_path / f"result.{suffix}"
    source.write_bytes(feeding("far", nodes, data, constants=constants).model().SerializeToString())
    try:
        nnconv.convert(source, target)
    except NnconvError as error:
        assert error.message.count("\n") < 5  # noqa: PT017 - some are converted
        assert not target.exists()
