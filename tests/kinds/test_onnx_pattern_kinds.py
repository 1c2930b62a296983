"""Kinds of graphs that exporters write, of many small nodes: sizes at run time, masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from support.onnx_routes import OnnxCase, check_routes, node
from support.onnx_whole import check_against_onnxruntime, info, ints, onnx_model, to_tflite
from support.whole import normal

FLOAT = "float32"


def pattern(
    id: str, nodes: list[Any], runs: list[dict[str, np.ndarray]], constants: Any, **more: Any
) -> OnnxCase:
    first, *others = runs
    more.setdefault("open", {name: tuple(range(array.ndim)) for name, array in first.items()})
    return OnnxCase(
        id, nodes, first, more=others, constants=constants, same_nodes=False, tolerance=1e-4, **more
    )


PATTERNS = [
    pattern(
        "up to another's size",
        [
            node("Shape", ["z"], ["s"], start=2),
            node("Shape", ["x"], ["c"], end=2),
            node("Concat", ["c", "s"], ["n"], axis=0),
            node("Resize", ["x", "", "", "n"], ["y"], mode="linear"),
        ],
        [
            {"x": normal(1, 3, 4, 5), "z": normal(1, 2, 9, 11)},
            {"x": normal(2, 3, 7, 3), "z": normal(2, 2, 5, 12)},
        ],
        {},
        open={"x": (0, 2, 3), "z": (0, 2, 3)},
    ),
    pattern(
        "cut to another's size",
        [
            node("Shape", ["z"], ["e"], start=2),
            node("Slice", ["x", "b", "e", "a"], ["c"]),
            node("Concat", ["c", "z"], ["y"], axis=1),
        ],
        [
            {"x": normal(1, 3, 9, 9), "z": normal(1, 2, 7, 8)},
            {"x": normal(1, 3, 6, 9), "z": normal(1, 2, 6, 4)},
        ],
        {"b": ints(0, 0), "a": ints(2, 3)},
        open={"x": (2, 3), "z": (2, 3)},
    ),
    pattern(
        "positions by a range",
        [
            node("Shape", ["x"], ["n1"], start=1, end=2),
            node("Squeeze", ["n1"], ["n"]),
            node("Range", ["zero", "n", "one"], ["i"]),
            node("Gather", ["t", "i"], ["e"]),
            node("Add", ["x", "e"], ["y"]),
        ],
        [{"x": normal(2, 7, 4)}, {"x": normal(1, 3, 4)}],
        {"zero": np.array(0), "one": np.array(1), "t": normal(20, 4)},
        open={"x": (0, 1)},
    ),
    pattern(
        "a causal mask",
        [
            node("Shape", ["x"], ["n"], start=1, end=2),
            node("Concat", ["n", "n"], ["nn"], axis=0),
            node("ConstantOfShape", ["nn"], ["ones"], value=helper.make_tensor("", 1, [1], [1])),
            node("Trilu", ["ones"], ["tri"], upper=0),
            node("Equal", ["tri", "zero"], ["m"]),
            node("Where", ["m", "away", "x"], ["w"]),
            node("Softmax", ["w"], ["y"]),
        ],
        [{"x": normal(2, 5, 5)}, {"x": normal(1, 8, 8)}],
        {"zero": np.float32(0), "away": np.float32(-np.inf)},
    ),
    pattern(
        "a norm spelled out",
        [
            node("ReduceMean", ["x", "a"], ["m"]),
            node("Sub", ["x", "m"], ["d"]),
            node("Pow", ["d", "two"], ["p"]),
            node("ReduceMean", ["p", "a"], ["v"]),
            node("Add", ["v", "eps"], ["w"]),
            node("Sqrt", ["w"], ["s"]),
            node("Div", ["d", "s"], ["n"]),
            node("Mul", ["n", "g"], ["h"]),
            node("Add", ["h", "b"], ["y"]),
        ],
        [{"x": normal(2, 5, 8)}, {"x": normal(1, 3, 8)}],
        {
            "a": ints(-1),
            "two": np.float32(2),
            "eps": np.float32(1e-5),
            "g": normal(8),
            "b": normal(8, seed=1),
        },
        open={"x": (0, 1)},
    ),
    pattern(
        "what is above a limit",
        [
            node("Greater", ["x", "limit"], ["m"]),
            node("NonZero", ["m"], ["nz"]),
            node("Transpose", ["nz"], ["i"]),
            node("GatherND", ["x", "i"], ["y"]),
        ],
        [{"x": normal(3, 4)}, {"x": normal(1, 9)}, {"x": -np.abs(normal(2, 2))}],
        {"limit": np.float32(0)},
    ),
    pattern(
        "patches by indices",
        [
            node("Gather", ["x", "i"], ["a"], axis=2),
            node("Gather", ["a", "i"], ["b"], axis=4),
            node("Transpose", ["b"], ["c"], perm=[0, 1, 2, 4, 3, 5]),
            node("Reshape", ["c", "s"], ["y"]),
        ],
        [{"x": normal(1, 2, 6, 6)}],
        {"i": np.int64([[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]]), "s": ints(1, 18, 16)},
        open={},
    ),
    pattern(
        "a shuffle of channels",
        [
            node("Shape", ["x"], ["n"]),
            node("Gather", ["n", "two"], ["h"]),
            node("Gather", ["n", "three"], ["w"]),
            node("Concat", ["head", "h", "w"], ["s"], axis=0),
            node("Reshape", ["x", "s"], ["p"]),
            node("Transpose", ["p"], ["q"], perm=[0, 2, 1, 3, 4]),
            node("Reshape", ["q", "n"], ["y"]),
        ],
        [{"x": normal(1, 6, 3, 5)}, {"x": normal(1, 6, 4, 2)}],
        {"two": ints(2), "three": ints(3), "head": ints(1, 2, 3)},
        open={"x": (2, 3)},
    ),
]


@pytest.mark.parametrize("case", PATTERNS, ids=str)
def test_patterns_of_small_onnx_nodes(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


def test_boxes_that_are_left_are_all_there_are(tmp_path: Path) -> None:
    """Not as many as there might be, filled up."""
    left = np.float32([0, 0.1, -0.1, 10, 10.1, 100])
    boxes = np.stack([0 * left, left, 0 * left + 1, left + 1], axis=-1)[None]
    scores = np.float32([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]]])
    nodes = [
        node("NonMaxSuppression", ["b", "s", "most", "overlap", "least"], ["i"]),
        node("Gather", ["i", "two"], ["which"], axis=1),
        node("Gather", ["b", "which"], ["y"], axis=1),
    ]
    inputs = [info("b", FLOAT, [1, 6, 4]), info("s", FLOAT, [1, 1, 6])]
    outputs = [info("i", "int64", [None, 3]), info("y", FLOAT, [1, None, 4])]
    constants = {
        "most": np.array(3), "overlap": np.float32([0.5]), "least": np.float32([0.2]),
        "two": np.array(2),
    }  # fmt: skip
    made = to_tflite(onnx_model(nodes, inputs, outputs, constants), tmp_path)
    runs = [[boxes, scores], [boxes, scores / 4], [boxes, scores / 10]]
    counts = [len(found[0]) for found in check_against_onnxruntime(made, *runs)]
    assert counts == [3, 2, 0]
