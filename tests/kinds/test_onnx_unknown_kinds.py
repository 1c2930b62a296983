"""Kinds of ONNX models with ops that nobody knows, or texts: what reads them is not at fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import nnconv
from nnconv.errors import InvalidModelError, UnsupportedError
from support.onnx_routes import node
from support.onnx_whole import info, onnx_model

FLOAT = "float32"
WHOLE = "int64"


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def behind(of: str) -> tuple[list[Any], list[Any], Any]:
    """Nodes that read `a`, which is of whole numbers, their inputs, and what they give."""
    pair = [
        helper.make_graph([node(*nodes)], "b", [], [info(nodes[2][0], WHOLE, [5])])
        for nodes in (("Concat", ["a", "k"], ["t"]), ("Concat", ["k", "a"], ["e"]))
    ]
    for body in pair:
        body.node[0].attribute.append(helper.make_attribute("axis", 0))
    k, y = info("k", WHOLE, [2]), info("y", WHOLE, [5])
    nodes: dict[str, tuple[list[Any], list[Any], Any]] = {
        "Concat": ([node("Concat", ["a", "k"], ["y"], axis=0)], [k], y),
        "Gather": ([node("Gather", ["x", "a"], ["y"], axis=0)], [], info("y", FLOAT, [3])),
        "a rank": ([node("ArgMax", ["a"], ["y"], axis=-1)], [], info("y", WHOLE, [1])),
        "codes": (
            [node("DequantizeLinear", ["a", "x"], ["y"], axis=0)],
            [],
            info("y", FLOAT, [3]),
        ),
        "what is made of it": (
            [node("Neg", ["a"], ["b"]), node("Concat", ["b", "k"], ["y"], axis=0)],
            [k],
            y,
        ),
        "bodies": (
            [node("If", ["flag"], ["y"], then_branch=pair[0], else_branch=pair[1])],
            [k, info("flag", "bool", [])],
            y,
        ),
    }
    return nodes[of]


@pytest.mark.parametrize("has_types", [True, False])
@pytest.mark.parametrize(
    "of", ["Concat", "Gather", "a rank", "codes", "what is made of it", "bodies"]
)
def test_what_reads_results_of_unknown_ops_is_not_at_fault(
    of: str, has_types: bool, tmp_path: Path
) -> None:
    """Their type may be any: float32 stood in for it, and was told to be no type of indices."""
    nodes, inputs, result = behind(of)
    model = onnx_model(
        [node("Mystery", ["x"], ["a"], domain="own"), *nodes],
        [info("x", FLOAT, [3]), *inputs],
        [result],
        domains={"own": 1},
    )
    if has_types and of != "codes":  # which int64 has none of
        model.graph.value_info.append(info("a", WHOLE, [3]))
    with pytest.raises(UnsupportedError) as caught:
        nnconv.load(saved(model, tmp_path))
    assert [item.op for item in caught.value.items] == ["own:Mystery"]


def test_each_unknown_op_is_told_whatever_it_reads(tmp_path: Path) -> None:
    pair = [
        helper.make_graph(
            [node("Riddle", ["b"], [name], domain="own")], "b", [], [info(name, FLOAT, [3])]
        )
        for name in ("t", "e")
    ]
    model = onnx_model(
        [
            node("Mystery", ["x"], ["a"], domain="own"),
            node("Enigma", ["a"], ["b"], domain="own"),
            node("If", ["flag"], ["c"], then_branch=pair[0], else_branch=pair[1]),
            node("SequenceMap", ["c", "b"], ["d"], body=pair[0]),
            node("NoSuchOp", ["c"], ["y"]),
        ],
        [info("x", FLOAT, [3]), info("flag", "bool", [])],
        [info("y", FLOAT, [3])],
        domains={"own": 1},
    )
    with pytest.raises(UnsupportedError) as caught:
        nnconv.load(saved(model, tmp_path))
    told = [item.op for item in caught.value.items]
    assert told == [
        "own:Mystery", "own:Enigma", "own:Riddle", "own:Riddle", "SequenceMap", "NoSuchOp"
    ]  # fmt: skip


def test_faults_beside_unknown_ops_are_told(tmp_path: Path) -> None:
    model = onnx_model(
        [
            node("Mystery", ["x"], ["a"], domain="own"),
            node("Concat", ["x", "k"], ["y"], axis=0),
        ],
        [info("x", FLOAT, [3]), info("k", WHOLE, [3])],
        [info("y", FLOAT, [6])],
        domains={"own": 1},
    )
    with pytest.raises(InvalidModelError, match="float32 and int64, must be of one type"):
        nnconv.load(saved(model, tmp_path))


@pytest.mark.parametrize("texts", ["a\0", ["a", "", "日本"]])
def test_constants_of_texts_are_read_as_such(texts: str | list[str], tmp_path: Path) -> None:
    """What adds them to others isn't at fault; onnxruntime and the reference compute it."""
    name = "value_string" if isinstance(texts, str) else "value_strings"
    model = onnx_model(
        [node("Constant", [], ["k"], **{name: texts}), node("Equal", ["x", "k"], ["y"])],
        [info("x", object, [3])],
        [info("y", "bool", [3])],
    )
    path = saved(model, tmp_path)
    given = np.array(["a\0", "", "日本"], object)
    for device in ("onnxruntime:cpu", "reference"):
        found = nnconv.compile(path, device).run({"x": given})["y"]
        np.testing.assert_array_equal(found, given == np.array(texts, object))
    (obstacle,) = nnconv.check(path, "tflite").obstacles
    assert "a constant of strings" in obstacle.why


def test_a_result_that_is_a_constant_of_texts_is_named(tmp_path: Path) -> None:
    model = onnx_model(
        [node("Neg", ["x"], ["y"])],
        [info("x", FLOAT, [3])],
        [info("y", FLOAT, [3]), info("k", object, [1])],
    )
    model.graph.initializer.append(helper.make_tensor("k", onnx.TensorProto.STRING, [1], [b"a"]))
    for target in ("onnx", "tflite"):
        (obstacle,) = nnconv.check(saved(model, tmp_path), target).obstacles
        assert "constant of strings" in obstacle.why
        assert "`k`" in obstacle.why + obstacle.where
