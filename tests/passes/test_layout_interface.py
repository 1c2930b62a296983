"""The layout pass at the interface: inputs and outputs that move on request."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Layout, Model, Signature
from nnconv.ir.graph import State
from nnconv.ops import elementwise as e
from nnconv.ops import reduce as r
from nnconv.ops.resize import ResizeBilinear
from nnconv.ops.shape import Reshape
from nnconv.passes.base import run_passes
from nnconv.passes.layout import LayoutPass
from nnconv.passes.prune import PrunePass
from support.image_nets import F32, Net, arrays, count


def _moved(net: Net, **extra: object) -> tuple[Model, LayoutPass]:
    model = Model([Signature("", net.graph, **extra)])  # type: ignore[arg-type]
    layout = LayoutPass(Layout.NCHW, edge=model.main)
    run_passes(model, [layout, PrunePass()], verify=True)
    return model, layout


def test_interface_moves_on_request():
    net = Net()
    y = net.conv(net.x, 6)
    flat = net.b.add(r.ReduceMax(axes=(1, 2)), [y])
    y.name, flat.name = "y", "flat"
    net.out(y, flat, y)
    inputs = arrays(net.graph)
    before = run_graph(net.graph, inputs)
    model, layout = _moved(net)
    assert layout.moved_io == ["x", "y"]
    assert count(net.graph) == 0
    assert [v.shape for v in (*model.inputs, *model.outputs)] == [
        (2, 3, 4, 5),
        (2, 6, 4, 5),
        (2, 6),
        (2, 6, 4, 5),
    ]
    after = run_graph(net.graph, [inputs[0].transpose(0, 3, 1, 2)])
    np.testing.assert_allclose(after[0].transpose(0, 2, 3, 1), before[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(after[1], before[1], rtol=1e-5, atol=1e-5)


def test_bilinear_resize_moves_with_the_interface():
    net = Net()
    net.out(net.conv(net.b.add(ResizeBilinear(size=(8, 10)), [net.x]), 4))
    _, layout = _moved(net)
    assert layout.moved_io[:1] == ["x"]
    assert count(net.graph) == 0


def test_inputs_outside_regions_stay():
    net = Net()
    other = net.b.input("other", F32, (2, 3, 4, 5))
    net.out(net.conv(net.x, 4), net.b.add(Reshape(shape=(-1,)), [other]))
    _, layout = _moved(net)
    assert "other" not in layout.moved_io
    assert net.graph.inputs[1].shape == (2, 3, 4, 5)


def test_states_keep_their_layout_and_are_found_again():
    net = Net()
    held = net.b.input("held", F32, (2, 4, 5, 6))
    following = net.b.add(e.Add(), [net.conv(net.x, 6), held])
    net.out(net.conv(following, 2), following)
    state = State(held, following, np.zeros((2, 4, 5, 6), np.float32), "held")
    model, layout = _moved(net, states=(state,))
    assert layout.moved_io[:1] == ["x"]
    assert "held" not in layout.moved_io
    assert net.graph.inputs[1] is held
    (found,) = model.states
    assert found.output is net.graph.outputs[1]
    assert found.output.shape == (2, 4, 5, 6)
