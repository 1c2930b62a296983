"""Extents without a name get one, as far as they can be followed, and lose it again."""

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.clone import clone_model
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model, Signature
from nnconv.ir.types import TensorType
from nnconv.ir.verifier import verify_model
from nnconv.ops.control import If, While
from nnconv.ops.elementwise import Add, Neg
from nnconv.ops.shape import Concat
from nnconv.passes.name_extents import forget_extents, name_extents


def body(op):
    graph = Graph("body")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, (None, 3))
    graph.outputs = [b.add(op, [x, x] if not isinstance(op, Neg) else [x])]
    return graph


def test_what_is_computed_of_inputs_has_their_names():
    graph = Graph("net")
    b = Builder(graph)
    x, y = b.input("x", DType.FLOAT32, (None, 3)), b.input("", DType.FLOAT32, ("n", None))
    which = b.input("which", DType.BOOL, ())
    kind = [TensorType(DType.FLOAT32, (None, 3))]
    negative = b.add(Neg(), [x])
    (chosen,) = b.add_typed(If(), [which, negative], kind, bodies=[body(Neg()), body(Add())])
    longer = b.add(Concat(axis=0), [chosen, chosen])
    graph.outputs = [chosen, longer, b.add(Neg(), [y])]
    model = Model([Signature("", graph, ("x", "", "which"), ("a", "b", "c"))])
    names = name_extents(model)
    verify_model(model)
    assert names == {"x:0", "input1:1"}
    assert [v.shape for v in graph.outputs] == [("x:0", 3), (None, 3), ("n", "input1:1")]
    assert chosen.producer.bodies[0].inputs[0].shape == ("x:0", 3)
    assert name_extents(clone_model(model)) == frozenset()
    forget_extents([*graph.inputs, *graph.outputs], names)
    assert [v.shape for v in graph.inputs] == [(None, 3), ("n", None), ()]
    assert [v.shape for v in graph.outputs] == [(None, 3), (None, 3), ("n", None)]


def test_turns_may_change_extents():
    graph, asks, turn = Graph("net"), Graph("asks"), Graph("turn")
    b, inner = Builder(graph), Builder(turn)
    x = b.input("x", DType.FLOAT32, (None, 3))
    going = b.input("going", DType.BOOL, ())
    conditions = Builder(asks)
    asks.outputs = [conditions.input("going", DType.BOOL, ())]
    conditions.input("x", DType.FLOAT32, (None, 3))
    before = inner.input("going", DType.BOOL, ()), inner.input("x", DType.FLOAT32, (None, 3))
    turn.outputs = [
        inner.const(np.asarray(False)),
        inner.add(Concat(axis=0), [before[1], before[1]]),
    ]
    kinds = [going.type, TensorType(DType.FLOAT32, (None, 3))]
    results = b.add_typed(While(), [going, x], kinds, bodies=[asks, turn])
    graph.outputs = [results[1]]
    model = Model([Signature("", graph, ("x", "going"), ("y",))])
    assert name_extents(model) == {"x:0"}
    assert graph.outputs[0].shape == (None, 3)
    assert turn.inputs[1].shape == (None, 3)
