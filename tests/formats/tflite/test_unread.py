"""Operators and tensors that nothing reads aren't written."""

import numpy as np

import nnconv
from nnconv.formats.tflite import build, wire
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR, TensorType
from nnconv.formats.tflite.unread import without_unread
from nnconv.ir import Builder, DType, Graph, Layout, Model, Signature
from nnconv.ops.conv import Conv2D
from nnconv.ops.quantize import Cast
from nnconv.ops.spatial import Padding


def tensor(name, *, variable=False):
    return build.Tensor(name, TensorType.FLOAT32, (2,), is_variable=variable)


def operator(name, inputs, outputs, **more):
    return build.Operator(BUILTIN_OPERATOR[name], inputs, outputs, **more)


def subgraph(names, operators, *, variables=()):
    tensors = [tensor(n, variable=n in variables) for n in names]
    return build.Subgraph("g", tensors, [0], [len(names) - 1], operators)


def test_a_chain_that_ends_in_nothing_goes_with_its_tensors():
    graph = subgraph(
        ["x", "dead", "deader", "w", "y"],
        [operator("EXP", [0], [1]), operator("ADD", [1, 3], [2]), operator("EXP", [0], [4])],
    )
    left = without_unread(graph)
    assert [t.name for t in left.tensors] == ["x", "y"]
    assert [(o.inputs, o.outputs) for o in left.operators] == [([0], [1])]
    assert (left.inputs, left.outputs) == ([0], [1])


def test_where_all_is_read_nothing_changes():
    graph = subgraph(["x", "m", "y"], [operator("EXP", [0], [1]), operator("EXP", [1], [2])])
    assert without_unread(graph) is graph


def test_absent_operands_stay_absent():
    graph = subgraph(
        ["x", "dead", "w", "y"],
        [operator("EXP", [0], [1]), operator("FULLY_CONNECTED", [0, 2, -1], [3])],
    )
    (left,) = without_unread(graph).operators
    assert (left.inputs, left.outputs) == ([0, 1, -1], [2])


def test_what_changes_a_state_stays():
    acting = [
        operator("WHILE", [0], [1]),
        operator("SVDF", [0, 2], [3]),
        operator("CALL_ONCE", [], []),
        operator("LSTM", [0], [4], mutating_variable_inputs=[True]),
        operator("EXP", [0], [5]),
    ]
    graph = subgraph(["x", "a", "state", "b", "c", "y"], acting, variables=["state"])
    assert without_unread(graph) is graph


def test_an_inputs_place_is_kept_though_nothing_reads_it():
    tensors = [tensor("x"), tensor("unread"), tensor("y")]
    graph = build.Subgraph("g", tensors, [0, 1], [2], [operator("EXP", [0], [2])])
    assert without_unread(graph) is graph


def test_float16_weights_are_stored_once(tmp_path):
    """Turned for a depthwise convolution, they leave nothing of their old order behind."""
    b = Builder(Graph("main"))
    x = b.input("x", DType.FLOAT32, (1, 5, 5, 8))
    weights = b.const(np.ones((8, 3, 3, 1), np.float16), "w")
    wide = b.add(Cast(dtype=DType.FLOAT32), [weights])
    op = Conv2D(
        layout=Layout.NHWC,
        stride=(1, 1),
        dilation=(1, 1),
        padding=Padding((1, 1), (1, 1)),
        groups=8,
    )
    y = b.add(op, [x, wide], name="y")
    b.graph.outputs = [y]
    path = tmp_path / "m.tflite"
    nnconv.save(Model([Signature("", b.graph)], format="tflite"), path)
    (graph,) = wire.read(path).subgraphs
    assert [o.name for o in graph.operators] == ["DEQUANTIZE", "DEPTHWISE_CONV_2D"]
    assert sum(t.code == TensorType.FLOAT16 for t in graph.tensors) == 1
