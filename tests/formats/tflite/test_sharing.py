"""LiteRT writes results over operands: nothing that is still to be read is among them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Value
from nnconv.ops import elementwise as e
from nnconv.ops.shape import Reshape, Unsqueeze
from support.tflite_spine import TfliteCase, check_tflite, tflite_ops

ARITHMETIC = {"add": e.Add, "sub": e.Sub, "mul": e.Mul, "div": e.Div}


def _net(op: str, *, view: str, chain: int = 2) -> TfliteCase:
    def build(b: Builder) -> list[Value]:
        y = b.input("x", DType.FLOAT32, (3, 4))
        for _ in range(chain):
            y = b.add(e.Add(), [y, b.const(np.full((3, 4), 2, np.float32))])
        moved = b.add(Unsqueeze(axes=(0,)) if view == "raised" else Reshape(shape=(4, 3)), [y])
        other = b.const(np.full((4, 3) if view != "raised" else (1, 3, 4), 3, np.float32))
        early = b.add(e.Neg(), [b.add(ARITHMETIC[op](), [moved, other])])
        kept = b.add(Reshape(shape=(12,)), [y]) if view == "two" else y
        return [early, b.add(e.Abs(), [kept])]

    return TfliteCase(f"{op}, {view}, {chain}", build)


@pytest.mark.parametrize("view", ["one", "two", "raised"])
@pytest.mark.parametrize("op", ARITHMETIC)
def test_what_is_read_later_stays(op: str, view: str, tmp_path: Path) -> None:
    case = _net(op, view=view)
    check_tflite(case, tmp_path)
    assert "SHAPE" in tflite_ops((tmp_path / "model.tflite").read_bytes())


def test_nothing_is_added_where_nothing_is_in_danger(tmp_path: Path) -> None:
    case = _net("add", view="one", chain=1)
    check_tflite(case, tmp_path)
    assert "SHAPE" not in tflite_ops((tmp_path / "model.tflite").read_bytes())
