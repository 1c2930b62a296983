"""States as variables: one each, whatever they are called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnconv
from nnconv.ir import Builder, DType, Graph, Model, Signature
from nnconv.ir.graph import State
from nnconv.ops.elementwise import Add, Mul
from support.litert import LiteRtRunner


@pytest.mark.parametrize("names", [("", ""), ("a", "a"), ("a", "b")])
def test_states_of_one_name_are_variables_of_their_own(names: tuple[str, str], tmp_path: Path):
    b = Builder(Graph("main"))
    x, *before = (b.input(name, DType.FLOAT32, (2,)) for name in ("x", "s0", "s1"))
    after = [b.add(Add(), [before[0], x]), b.add(Mul(), [before[1], x])]
    y = b.add(Add(), after, name="y")
    b.graph.outputs = [y, *after]
    initial = [np.zeros(2, np.float32), np.ones(2, np.float32)]
    states = tuple(
        State(*pair, first, name)
        for *pair, first, name in zip(before, after, initial, names, strict=True)
    )
    path = tmp_path / "m.tflite"
    nnconv.save(Model([Signature("", b.graph, ("x",), ("y",), states)]), path)
    assert len(nnconv.load(path).states) == 2
    runner = LiteRtRunner(path.read_bytes())
    for step in range(1, 4):
        (y_now,) = runner.run([np.full(2, 2, np.float32)])
        np.testing.assert_array_equal(y_now, np.full(2, 2 * step + 2**step, np.float32))
