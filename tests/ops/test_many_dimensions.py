"""Ops of more dimensions than LiteRT's kernels take: done on fewer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnconv
from nnconv.errors import UnsupportedError
from support.onnx_routes import OnnxCase, check_routes, feeding, node
from support.onnx_whole import ints
from support.whole import floats

TEN = (2, 2, 1, 2, 2, 2, 1, 1, 3, 2)
OTHER = (1, 1, 3, 2, 2, 1, 2, 2, 3, 2)
TURNED = [4, 5, 6, 7, 8, 9, 0, 1, 2, 3]
TWO = (2, 1, 2, 1, 2, 1, 2, 1, 3)
BY_TURNS = (1, 2, 1, 2, 1, 2, 1, 2, 3)
COUNTS = np.arange(np.prod(TEN)).reshape(TEN)
TRUTHS = COUNTS % 3 == 0

CASES = [
    feeding("leading", node("Add", ["x", "z"], ["y"]), floats(*(2,) * 9), floats(1, 1, *(2,) * 7)),
    feeding("lower rank", node("Add", ["x", "z"], ["y"]), floats(*(2,) * 8, 3), floats(3)),
    feeding("both repeat", node("Sub", ["x", "z"], ["y"]), floats(*TEN), floats(*OTHER)),
    feeding("by turns", node("Mul", ["x", "z"], ["y"]), floats(*TWO), floats(*BY_TURNS)),
    feeding("Where", node("Where", ["u", "x", "z"], ["y"]), floats(*TEN), floats(3, 2), TRUTHS),
    feeding("Greater", node("Greater", ["x", "z"], ["y"]), floats(*TEN), floats(2)),
    feeding("Mod", node("Mod", ["x", "z"], ["y"]), COUNTS, ints(3, 5)),
    feeding("And", node("And", ["x", "z"], ["y"]), TRUTHS, TRUTHS[0, 0, 0, 0, 0, 0, 0, 0]),
    feeding("PRelu", node("PRelu", ["x", "z"], ["y"]), floats(*TEN), floats(3, 1)),
    feeding("turned", node("Transpose", ["x"], ["y"], perm=TURNED), floats(*TEN)),
    feeding("reversed", node("Transpose", ["x"], ["y"]), floats(*(2,) * 11)),
    feeding(
        "shuffled",
        node("Transpose", ["x"], ["y"], perm=[1, 8, 3, 9, 5, 0, 7, 2, 6, 4]),
        floats(2, 3, 2, 2, 2, 3, 2, 2, 2, 2),
    ),
    feeding("Softmax", node("Softmax", ["x"], ["y"], axis=4), floats(*TWO)),
    feeding(
        "LayerNormalization",
        node("LayerNormalization", ["x", "s"], ["y"]),
        floats(*TWO),
        constants={"s": floats(3)},
        tolerance=1e-4,
    ),
    feeding(
        "MatMul",
        node("MatMul", ["x", "z"], ["y"]),
        floats(*TWO[:7], 4, 3),
        floats(*BY_TURNS[:7], 3, 2),
    ),
    feeding("Einsum", node("Einsum", ["x"], ["y"], equation="abcdefghi->ihgfedcba"), floats(*TWO)),
    feeding(
        "open",
        node("Add", ["x", "z"], ["y"]),
        floats(*TEN),
        floats(2),
        more=[{"x": floats(5, *TEN[1:]), "z": floats(2)}],
        open={"x": [0]},
    ),
    feeding(
        "open and turned",
        node("Transpose", ["x"], ["y"], perm=TURNED),
        floats(*TEN),
        more=[{"x": floats(5, *TEN[1:4], 4, *TEN[5:])}],
        open={"x": [0, 4]},
    ),
    feeding(
        "codes",
        [
            node("QuantizeLinear", ["x", "s", "p"], ["q"]),
            node("DequantizeLinear", ["q", "s", "p"], ["d"]),
            node("Transpose", ["d"], ["t"], perm=TURNED),
            node("Add", ["t", "t"], ["a"]),
            node("QuantizeLinear", ["a", "s", "p"], ["r"]),
            node("DequantizeLinear", ["r", "s", "p"], ["y"]),
        ],
        floats(*TEN),
        constants={"s": np.float32(0.0625), "p": np.int8(3)},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_more_dimensions_than_kernels_take(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


def test_extents_that_may_turn_out_to_be_1_are_refused(tmp_path: Path) -> None:
    """Which operand is broadcast then is known at run time alone."""
    case = feeding(
        "open",
        node("Add", ["x", "z"], ["y"]),
        floats(*TEN),
        floats(*TEN),
        open={"x": [0], "z": [0]},
    )
    source, target = tmp_path / "model.onnx", tmp_path / "model.tflite"
    source.write_bytes(case.model().SerializeToString())
    with pytest.raises(UnsupportedError, match="up to 8 dimensions, there are 10"):
        nnconv.convert(source, target)
    assert not target.exists()
