"""Random ONNX graphs: onnxruntime, the reference backend and LiteRT agree, under all options."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from support.random_onnx import check, draw
from support.random_onnx_patterns import MAKERS

BLOCK = 15


@pytest.mark.parametrize("block", range(10))
def test_all_ways_agree(block: int, tmp_path: Path) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        check(seed, tmp_path)


def test_the_seeds_reach_every_op() -> None:
    nets = [draw(seed)[0] for seed in range(150)]
    ops = Counter(node.op_type for net in nets for node in net.nodes)
    assert len(ops) > len(set(MAKERS))
    assert {net.kind for net in nets} == {"float", "int8", "uint8"}
    assert {net.dynamic for net in nets} == {False, True}


def test_a_seed_makes_one_graph() -> None:
    assert draw(7)[1] == draw(7)[1]
