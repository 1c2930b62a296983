"""Random graphs of the IR: the reference backend and all formats with their runtimes agree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from nnconv.ops.control import If, While
from support.random_ir import check, draw
from support.random_ir_ops import MAKERS

BLOCK = 15


@pytest.mark.parametrize("block", range(8))
def test_all_ways_agree(block: int, tmp_path: Path) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        check(seed, tmp_path)


def test_the_seeds_reach_most_ops() -> None:
    models = [draw(seed)[1] for seed in range(150)]
    ops = Counter(type(node.op) for model in models for node in model.graph.nodes)
    assert len(ops) > 0.8 * len(MAKERS)
    assert {If, While} <= set(ops)


def test_hardly_anything_is_refused(tmp_path: Path) -> None:
    nets = [check(seed, tmp_path) for seed in range(1000, 1040)]
    files = [line for net in nets for line in net.refusals if not line.startswith("onnxruntime")]
    assert len(files) <= len(nets) // 20


def test_a_seed_makes_one_graph() -> None:
    assert draw(7)[0].log == draw(7)[0].log
