"""Random graphs: LiteRT, the reference backend and onnxruntime agree, under all options."""

from __future__ import annotations

from collections import Counter

import pytest

from support.random_graphs import check, draw
from support.random_moves import MOVERS
from support.random_ops import MAKERS
from support.random_patterns import PATTERNS

BLOCK = 15


@pytest.mark.parametrize("block", range(10))
def test_all_ways_agree(block, tmp_path):
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        check(seed, tmp_path)


def test_the_seeds_reach_every_op():
    ops = Counter(
        line.split(" = ")[1].split("(")[0] for seed in range(150) for line in draw(seed)[0].log
    )
    assert len(ops) > len(MAKERS) + len(MOVERS) + len(PATTERNS)


def test_a_seed_makes_one_graph():
    assert draw(7)[1] == draw(7)[1]
