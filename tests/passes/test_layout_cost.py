"""The layout pass looks at each node a fixed number of times, however many operands it has."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Graph, Layout, Model, Op, Signature
from nnconv.ops.conv import Conv2D
from nnconv.ops.elementwise import AddN, Sigmoid
from nnconv.ops.shape import Concat
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.layout import LayoutPass


@pytest.mark.parametrize("op", [AddN(), Concat(axis=3)], ids=lambda op: op.name)
def test_a_node_of_many_operands_is_asked_as_often_as_one_of_few(
    op: Op, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[int] = Counter()
    permute = type(op).permute

    def counting(self, perm, types):
        asked[len(types)] += 1
        return permute(self, perm, types)

    monkeypatch.setattr(type(op), "permute", counting)
    for count in (3, 30):
        graph = Graph()
        b = Builder(graph)
        x = b.input("x", DType.FLOAT32, (1, 4, 5, 3))
        weights = b.const(np.ones((3, 1, 1, 3), np.float32))
        conv = Conv2D(
            layout=Layout.NHWC, stride=(1, 1), dilation=(1, 1), padding=Padding.none(), groups=1
        )
        moved = b.add(conv, [x, weights])
        graph.outputs = [b.add(op, [b.add(Sigmoid(), [moved]) for _ in range(count)])]
        run_passes(Model([Signature("", graph)]), [LayoutPass(Layout.NCHW)], verify=True)
    assert asked[30] == asked[3] > 0
