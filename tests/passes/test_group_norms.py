"""Norms of groups, spelled as norms of longer channels between reshapes."""

from __future__ import annotations

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Model, Signature, Value
from nnconv.ops import elementwise as e
from nnconv.ops.shape import Reshape
from nnconv.ops.standardize import GroupNormalization, InstanceNormalization
from nnconv.passes.base import run_passes
from nnconv.passes.group_norms import GroupNormsPass
from nnconv.passes.prune import PrunePass
from support.layout_nets import Net, move

PARTS = ["", "mul", "add", "mul add"]


def _norm(net: Net, x: Value, parts: str, groups: int = 2) -> Value:
    batch, channels, *rest = x.shape or ()
    first = batch if isinstance(batch, int) else -1
    count = int(np.prod([channels, *rest])) // groups
    y = net.add(Reshape(shape=(first, groups, count)), x)
    op = InstanceNormalization(axis=1, epsilon=1e-3)
    y = net.add(op, y, net.floats(groups), net.floats(groups))
    y = net.add(Reshape(shape=(first, channels, *rest)), y)  # type: ignore[arg-type]
    column = [channels, *(1 for _ in rest)]
    if "mul" in parts:
        y = net.add(e.Mul(), net.floats(*column), y)  # type: ignore[arg-type]
    return net.add(e.Add(), y, net.floats(1, *column)) if "add" in parts else y  # type: ignore[arg-type]


def _ops(net: Net, *outputs: Value) -> list[type]:
    net.out(*outputs)
    shape = [d if isinstance(d, int) else 3 for d in net.x.shape or ()]
    inputs = [net.rng.standard_normal(shape).astype(np.float32)]
    before = run_graph(net.graph, inputs)
    run_passes(Model([Signature("", net.graph)]), [GroupNormsPass(), PrunePass()], verify=True)
    for old, new in zip(before, run_graph(net.graph, inputs), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-5)
    return [type(node.op) for node in net.graph.nodes]


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("shape", [(2, 6, 5, 7), ("n", 6, 5, 7), (2, 6, 9), (2, 6, 2, 3, 4)])
def test_norms_of_groups_are_found(shape, parts):
    net = Net(*shape)
    assert _ops(net, _norm(net, net.x, parts)) == [GroupNormalization]


def test_activations_and_others_stay_behind():
    net = Net(2, 6, 5, 7)
    y = net.relu(net.add(e.Add(), _norm(net, net.x, "mul"), net.floats(5, 7)))
    assert _ops(net, y) == [GroupNormalization, e.Add, e.Clip]


@pytest.mark.parametrize("reason", ["read inside", "other shape", "whole rows"])
def test_what_is_no_norm_of_groups_stays(reason):
    net = Net(2, 6, 4, 4)
    shape = (6, 2, 16) if reason == "whole rows" else (2, 2, 48)
    y = net.add(Reshape(shape=shape), net.x)
    y = net.add(InstanceNormalization(axis=1, epsilon=1e-3), y, net.floats(2), net.floats(2))
    z = net.add(Reshape(shape=(2, 4, 6, 4) if reason == "other shape" else (2, 6, 4, 4)), y)
    more = [y] if reason == "read inside" else []
    assert _ops(net, z, *more).count(GroupNormalization) == 0


def test_none_is_left_with_transposes_inside():
    net = Net()
    y = net.conv(net.x, 6)
    y = net.add(e.Add(), y, net.relu(_norm(net, net.conv(y, 6), "mul add")))
    net.out(net.conv(y, 3))
    run_passes(Model([Signature("", net.graph)]), [GroupNormsPass(), PrunePass()], verify=True)
    assert move(net.graph) == 2
