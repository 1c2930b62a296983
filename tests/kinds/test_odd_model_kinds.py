"""Graphs that no framework writes but that no rule forbids, and some that one does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from nnconv.backends.reference.executor import run_graph
from onnx import TensorProto, helper, numpy_helper

import nnconv
from nnconv.errors import InvalidModelError, UnsupportedError
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model, Signature
from nnconv.ir.types import TensorType
from nnconv.ops.control import If
from nnconv.ops.elementwise import Abs, Neg
from support.tflite_builder import TfliteBuilder

TARGETS = ("onnx", "tflite", "nnapi", "nnrt")

node = helper.make_node


def value(name: str, shape: Sequence[int | str] | None, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def const(name: str, data: Any, dtype: Any = np.float32) -> Any:
    return numpy_helper.from_array(np.asarray(data, dtype), name)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Sequence[Any] = (),
    *,
    opset: int = 21,
) -> Any:
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=3 if opset < 9 else 10)


def body(nodes: Sequence[Any], output: str, constants: Sequence[Any] = ()) -> Any:
    return helper.make_graph(nodes, output, [], [value(output, [2])], constants)


def nested(depth: int) -> Any:
    """IFs inside of one another, the innermost of which gives -x."""
    inner = body([node("Neg", ["x"], ["o0"])], "o0")
    for level in range(1, depth):
        other = body([node("Abs", ["x"], [f"e{level}"])], f"e{level}")
        choice = node("If", ["c"], [f"o{level}"], then_branch=inner, else_branch=other)
        inner = body([choice], f"o{level}")
    other = body([node("Abs", ["x"], ["e"])], "e")
    return model(
        [node("If", ["c"], ["y"], then_branch=inner, else_branch=other)],
        [value("c", [], TensorProto.BOOL), X],
        [Y],
    )


X, Y = value("x", [2]), value("y", [2])
NEG = node("Neg", ["x"], ["y"])


def same_names(op: str) -> Any:
    """A branch whose names are those of the other and of the graph around."""
    return body([node(op, ["x"], ["t"]), node("Add", ["t", "k"], ["o"])], "o", [const("k", [1, 2])])


ODD = {
    "bounds that cross": model(
        [node("Clip", ["x", "lo", "hi"], ["y"])], [X], [Y], [const("lo", 2), const("hi", 1)]
    ),
    "a block beyond all extents": model(
        [
            node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=1 << 62),
            node("Add", ["x", "d"], ["y"]),
        ],
        [X],
        [Y],
        [const("w", [3, -5], np.int8), const("s", [0.5])],
    ),
    "an output is an input": model([], [X], [X]),
    "an input is an output as well": model([NEG], [X], [X, Y]),
    "an output is a constant": model([], [X], [value("k", [3])], [const("k", [1, 2, 3])]),
    "an output is there twice": model([NEG], [X], [Y, Y]),
    "outputs are one value": model(
        [
            node("Neg", ["x"], ["a"]),
            node("Identity", ["a"], ["b"]),
            node("Identity", ["a"], ["c"]),
        ],
        [X],
        [value(name, [2]) for name in "bca"],
    ),
    "inputs that nothing reads": model([NEG], [X, value("u", [4, 4])], [Y]),
    "an unread constant is an input": model(
        [NEG], [X, value("k", [3])], [Y], [const("k", [1, 2, 3])]
    ),
    "nodes in no order": model([node("Neg", ["a"], ["y"]), node("Abs", ["x"], ["a"])], [X], [Y]),
    "two nodes of a name": model(
        [node("Neg", ["x"], ["a"], name="n"), node("Abs", ["a"], ["y"], name="n")], [X], [Y]
    ),
    "a constant of denormals": model(
        [node("Mul", ["x", "k"], ["y"])], [X], [Y], [const("k", [1e-40, 1e-45])]
    ),
    "a constant that is no number": model(
        [node("Add", ["x", "k"], ["y"])],
        [value("x", [3])],
        [value("y", [3])],
        [const("k", [np.nan, np.inf, -np.inf])],
    ),
    "a join with nothing": model(
        [node("Concat", ["x", "k"], ["y"], axis=0)], [X], [Y], [const("k", np.zeros(0))]
    ),
    "an operand left out in the middle": model(
        [node("Clip", ["x", "", "k"], ["y"])], [X], [Y], [const("k", 0.5)]
    ),
    "scalars": model([NEG], [value("x", [])], [value("y", [])]),
    "nine dimensions": model([NEG], [value("x", [1, 2] * 4 + [1])], [value("y", [1, 2] * 4 + [1])]),
    "the oldest opset": model([NEG], [X], [Y], opset=7),
    "the newest opset": model([NEG], [X], [Y], opset=onnx.defs.onnx_opset_version()),
    "names used again in branches": model(
        [
            node("Neg", ["x"], ["t"]),
            node("If", ["c"], ["b"], then_branch=same_names("Neg"), else_branch=same_names("Abs")),
            node("Add", ["b", "t"], ["y"]),
        ],
        [value("c", [], TensorProto.BOOL), X],
        [Y],
    ),
    "a branch gives a constant": model(
        [
            node(
                "If",
                ["c"],
                ["y"],
                then_branch=body([], "k", [const("k", [1, 2])]),
                else_branch=body([node("Neg", ["x"], ["u"])], "u"),
            )
        ],
        [value("c", [], TensorProto.BOOL), X],
        [Y],
    ),
    "sixteen branches inside of one another": nested(16),
    "two hundred outputs": model(
        [node("Neg", ["x"], [f"y{i}"]) for i in range(200)],
        [X],
        [value(f"y{i}", [2]) for i in range(200)],
    ),
    **{
        f"the name {name!r}": model(
            [node("Neg", [name], [f"{name}'"], name=name)],
            [value(name, [2])],
            [value(f"{name}'", [2])],
        )
        for name in ("a b", "ü→日本", "new\nline", "/", "..", "x:0", "n" * 300, "%s{}", "-x", "a=b")
    },
}


def feeds_of(loaded: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.normal(0, 2, v.shape).astype(v.dtype.numpy) for v in loaded.inputs]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", ODD)
def test_odd_graphs_come_out_right(case, target, tmp_path):
    source, result = tmp_path / "source.onnx", tmp_path / f"result.{target}"
    onnx.save(ODD[case], source)
    loaded = nnconv.load(source)
    feeds = feeds_of(loaded)
    wanted = run_graph(loaded.graph, feeds)
    has_branches = any(each.op_type == "If" for each in ODD[case].graph.node)
    if target == "nnrt" and has_branches and "sixteen" in case:
        assert not nnconv.check(source, target).passed
        with pytest.raises(UnsupportedError):
            nnconv.convert(source, result)
        return
    assert nnconv.check(source, target).passed
    nnconv.convert(source, result)
    again = nnconv.load(result)
    assert len(again.inputs) == len(loaded.inputs)
    given = [
        array.astype(v.dtype.numpy).reshape(v.shape if array.ndim == 0 else array.shape)
        for array, v in zip(feeds, again.inputs, strict=True)
    ]
    for old, new in zip(wanted, run_graph(again.graph, given), strict=True):
        np.testing.assert_allclose(new.reshape(old.shape), old, rtol=1e-6)


BROKEN = {
    "a circle": model(
        [node("Neg", ["b"], ["a"]), node("Abs", ["a"], ["b"])], [X], [value("b", [2])]
    ),
    "an operand that nothing gives": model([node("Add", ["x", "no"], ["y"])], [X], [Y]),
    "an output that nothing gives": model([NEG], [X], [value("no", [2])]),
    "two nodes of a result": model([NEG, node("Abs", ["x"], ["y"])], [X], [Y]),
    "a result of a constant's name": model([NEG], [X], [Y], [const("y", [1, 2])]),
    "an input that is there twice": model([NEG], [X, X], [Y]),
    "an opset to come": model([NEG], [X], [Y], opset=99),
    "an extent of 2**40 out of one": model(
        [node("Expand", ["x", "s"], ["y"])],
        [value("x", [1])],
        [value("y", [2**40])],
        [const("s", [2**40], np.int64)],
    ),
}


COUNTS = value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL)
CIRCLES = {
    "of one": [node("Identity", ["d"], ["d"])],
    "of two": [node("Identity", ["e"], ["d"]), node("Identity", ["d"], ["e"])],
}
BROKEN |= {
    f"a circle {name} for a loop's condition": model(
        [
            node(
                "Loop",
                ["n", "go", "x"],
                ["y"],
                body=helper.make_graph(
                    [*circle, node("Neg", ["z"], ["w"])],
                    "body",
                    [*COUNTS, value("z", [2])],
                    [value("d", [], TensorProto.BOOL), value("w", [2])],
                ),
            )
        ],
        [X],
        [Y],
        [const("n", 3, np.int64), const("go", True, np.bool_)],
    )
    for name, circle in CIRCLES.items()
}

BROKEN |= {
    f"{op} with weights of other extents": model(
        [node(op, ["x", "g"], ["y"])], [X], [Y], [const("g", [1, 2, 3])], opset=23
    )
    for op in ("LayerNormalization", "RMSNormalization")
}

MATRIX, WHOLE = value("x", [2, 2]), value("k", [2, 2], TensorProto.INT32)
SCALARS = [value("a", []), value("b", [], TensorProto.INT32), value("c", [])]
PIXELS = [value("x", [1, 1, 4, 4]), value("w", [1, 1, 2, 2]), value("k", [1], TensorProto.INT32)]
MIXED: dict[str, tuple[Any, list[Any]]] = {
    "Clip": (node("Clip", ["x", "k"], ["y"]), [MATRIX, value("k", [], TensorProto.INT32)]),
    "Concat": (node("Concat", ["x", "k"], ["y"], axis=0), [MATRIX, WHOLE]),
    "Conv": (node("Conv", ["x", "w", "k"], ["y"]), PIXELS),
    "Einsum": (node("Einsum", ["x", "k"], ["y"], equation="ij,ij->i"), [MATRIX, WHOLE]),
    "Gemm": (node("Gemm", ["x", "k"], ["y"]), [MATRIX, WHOLE]),
    "MatMul": (node("MatMul", ["x", "k"], ["y"]), [MATRIX, WHOLE]),
    "Mean": (node("Mean", ["x", "k"], ["y"]), [MATRIX, WHOLE]),
    "Pad": (node("Pad", ["x", "pads", "k"], ["y"]), [MATRIX, value("k", [], TensorProto.INT32)]),
    "PRelu": (node("PRelu", ["x", "k"], ["y"]), [MATRIX, WHOLE]),
    "Range": (node("Range", ["a", "b", "c"], ["y"]), SCALARS),
}
BROKEN |= {
    f"{op} of floats and integers": model(
        [mixed], ends, [value("y", None)], [const("pads", [1, 1, 1, 1], np.int64)]
    )
    for op, (mixed, ends) in MIXED.items()
}
BROKEN["a sequence of floats and integers"] = model(
    [
        node("SequenceConstruct", ["x", "k"], ["q"]),
        node("ConcatFromSequence", ["q"], ["y"], axis=0, new_axis=1),
    ],
    [MATRIX, WHOLE],
    [value("y", None)],
)


@pytest.mark.parametrize("case", BROKEN)
def test_broken_graphs_are_refused_in_a_line(case, tmp_path):
    onnx.save(BROKEN[case], tmp_path / "source.onnx")
    for target in TARGETS:
        with pytest.raises((InvalidModelError, UnsupportedError)) as caught:
            nnconv.convert(tmp_path / "source.onnx", tmp_path / f"result.{target}")
        assert str(caught.value).isprintable()
        assert not Path(tmp_path / f"result.{target}").exists()


def deep(depth: int) -> Model:
    """The model of ``nested``, of any depth."""

    def graph(level: int) -> Graph:
        b = Builder(Graph(f"level{level}"))
        c, x = b.input("c", DType.BOOL, (1,)), b.input("x", DType.FLOAT32, (2,))
        if level == depth:
            results = [b.add(Neg(), [x])]
        else:
            other = Builder(Graph(f"other{level}"))
            _, y = other.input("c", DType.BOOL, (1,)), other.input("x", DType.FLOAT32, (2,))
            other.graph.outputs.append(other.add(Abs(), [y]))
            kinds, bodies = [TensorType(DType.FLOAT32, (2,))], [graph(level + 1), other.graph]
            results = b.add_typed(If(), [c, c, x], kinds, bodies=bodies)
        b.graph.outputs.extend(results)
        return b.graph

    return Model(signatures=[Signature("", graph(0))])


@pytest.mark.parametrize("target", ["onnx", "nnapi"])
def test_branches_are_as_deep_as_readers_go(target, tmp_path):
    given, wanted = [np.array([True]), np.float32([2, -3])], np.float32([-2, 3])
    refused = []
    for depth in range(29, 37):
        path = tmp_path / f"{depth}.{target}"
        if not nnconv.check(deep(depth), target).passed:
            with pytest.raises(UnsupportedError, match="would be inside of one another"):
                nnconv.save(deep(depth), path)
            refused.append(depth)
            continue
        nnconv.save(deep(depth), path)
        (found,) = run_graph(nnconv.load(path).graph, given)
        np.testing.assert_array_equal(found, wanted)
        if target == "onnx":
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            feeds = {"c": given[0], "x": given[1]}
            np.testing.assert_array_equal(session.run(None, feeds)[0], wanted)
    assert min(refused) > 31
    assert max(refused) == 36


def test_more_ends_than_a_format_has_are_refused(tmp_path):
    b = TfliteBuilder()
    inputs = [b.input(f"x{i}", "float32", (2,)) for i in range(201)]
    b.output(b.op("ADD_N", inputs, [("float32", (2,), None, "y")]))
    source = tmp_path / "wide.tflite"
    source.write_bytes(b.build())
    (obstacle,) = nnconv.check(source, "nnrt").obstacles
    assert "201 inputs" in obstacle.why
    assert nnconv.check(source, "nnrt", api=1).passed
    with pytest.raises(UnsupportedError, match="takes up to 200"):
        nnconv.convert(source, tmp_path / "wide.nnrt")
    nnconv.convert(source, tmp_path / "wide.nnrt", api=1)
    assert len(nnconv.load(tmp_path / "wide.nnrt").inputs) == 201
    nnconv.convert(source, tmp_path / "wide.nnapi")
    assert len(nnconv.load(tmp_path / "wide.nnapi").inputs) == 201
