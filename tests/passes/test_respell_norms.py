"""Norms that are spelled as means, differences and roots."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.ir import Builder, DType, Graph, Model, Signature, Value
from nnconv.ops import elementwise as e
from nnconv.ops.reduce import ReduceMean
from nnconv.ops.standardize import InstanceNormalization, LayerNormalization
from nnconv.passes.base import run_passes
from nnconv.passes.prune import PrunePass
from nnconv.passes.respell_norms import RespellNormsPass


@dataclass
class Norm:
    """One spelling.

    Attributes:
        shape: of what is normed.
        axes: of the statistics.
        squares: how differences are squared.
        root: ``rsqrt``, or ``sqrt`` under a Div.
        scale, offset: shapes of what follows; None for none.
        reads: what else is read: "", "mean", "difference".
    """

    shape: tuple[int | str, ...] = (2, 5, 6)
    axes: tuple[int, ...] = (2,)
    squares: str = "mul"
    root: str = "rsqrt"
    scale: tuple[int, ...] | None = None
    offset: tuple[int, ...] | None = None
    reads: str = ""

    def graph(self) -> Graph:
        """The spelling as a graph."""
        b, rng = Builder(Graph("norm")), np.random.default_rng(0)
        x = b.input("x", DType.FLOAT32, self.shape)
        op = ReduceMean(axes=self.axes, keep_dims=True)
        mean = b.add(op, [x])
        d = b.add(e.Sub(), [x, mean])
        if self.squares == "difference":
            squares = b.add(e.SquaredDifference(), [x, mean])
        elif self.squares == "pow":
            squares = b.add(e.Pow(), [d, b.const(np.float32(2).reshape(()))])
        elif self.squares == "square":
            squares = b.add(e.Square(), [d])
        else:
            squares = b.add(e.Mul(), [d, d])
        total = b.add(e.Add(), [b.add(op, [squares]), b.const(np.full((), 1e-3, np.float32))])
        if self.root == "rsqrt":
            y = b.add(e.Mul(), [d, b.add(e.Rsqrt(), [total])])
        else:
            y = b.add(e.Div(), [d, b.add(e.Sqrt(), [total])])
        for kind, shape in ((e.Mul(), self.scale), (e.Add(), self.offset)):
            if shape is not None:
                y = b.add(kind, [b.const(rng.standard_normal(shape).astype(np.float32)), y])
        y.name = "y"
        more: list[Value] = {"mean": [mean], "difference": [d]}.get(self.reads, [])
        b.graph.outputs = [y, *(b.add(e.Neg(), [v]) for v in more)]
        return b.graph


def _ops(graph: Graph) -> list[type]:
    shape = [d if isinstance(d, int) else 3 for d in graph.inputs[0].shape or ()]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    before = run_graph(graph, [x])
    steps = [RespellNormsPass(), PrunePass()]
    run_passes(Model([Signature("", graph)]), steps, verify=True)
    for old, new in zip(before, run_graph(graph, [x]), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-5)
    return [type(node.op) for node in graph.nodes]


LAYERS = {
    "plain": Norm(),
    "scale": Norm(scale=(6,)),
    "both": Norm(scale=(6,), offset=(6,)),
    "number": Norm(scale=(1,), offset=()),
    "offset": Norm(offset=(1, 1, 6)),
    "two dimensions": Norm(axes=(1, 2), scale=(5, 6), offset=(1, 6)),
    "squared difference": Norm(squares="difference", scale=(6,), offset=(6,)),
    "power": Norm(squares="pow"),
    "square": Norm(squares="square", root="sqrt", scale=(6,)),
    "quotient": Norm(root="sqrt", scale=(6,), offset=(6,)),
    "open batch": Norm(shape=("n", 5, 6), scale=(6,), offset=(6,)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer_norms_are_found(name):
    assert _ops(LAYERS[name].graph()) == [LayerNormalization]


INSTANCES = {
    "channels last": Norm((2, 4, 5, 6), (1, 2), scale=(6,), offset=(6,)),
    "channels last, plain": Norm((2, 4, 5, 6), (1, 2)),
    "channels first": Norm((2, 6, 4, 5), (2, 3), scale=(6, 1, 1), offset=(1, 6, 1, 1)),
    "open batch": Norm(("n", 4, 5, 6), (1, 2), scale=(6,), offset=(6,)),
}


@pytest.mark.parametrize("name", INSTANCES)
def test_instance_norms_are_found(name):
    assert _ops(INSTANCES[name].graph()) == [InstanceNormalization]


@pytest.mark.parametrize(
    "norm",
    [
        Norm(axes=(0,)),
        Norm((2, 4, 5, 6), (1, 3)),
        Norm(reads="mean"),
        Norm(reads="difference"),
        Norm(shape=(2, 5, "n")),
    ],
    ids=["of the batch", "apart", "mean is read", "difference is read", "open rows"],
)
def test_what_is_no_norm_stays(norm):
    assert not {LayerNormalization, InstanceNormalization} & {*_ops(norm.graph())}


def test_factors_of_other_dimensions_follow():
    ops = _ops(Norm(scale=(5, 1), offset=(6,)).graph())
    assert ops == [InstanceNormalization, e.Add]  # the scale is one of channels


def test_onnx_gets_the_one_node(tmp_path: Path):
    path = tmp_path / "norm.onnx"
    graph = Norm(scale=(6,), offset=(6,)).graph()
    nnconv.save(Model([Signature("", graph)], format="tflite"), path)
    assert [n.op.name for n in nnconv.load(path).graph.nodes] == ["LayerNormalization"]
