"""Branches whose ranks differ, or that can't work with the shapes at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

import nnconv
from nnconv.errors import InvalidModelError
from support.onnx_whole import check_against_onnxruntime, info, onnx_model, to_tflite


def branch(*nodes: NodeProto, result: str) -> object:
    out = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
    return helper.make_graph(list(nodes), result, [], [out])


def squeezed(*, one: int = 1) -> ModelProto:
    """What PyTorch writes of squeeze(-1) behind something of an unknown extent."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Shape", ["r"], ["s"]),
        helper.make_node("Gather", ["s", "last"], ["n"]),
        helper.make_node("Equal", ["n", "one"], ["flag"]),
        helper.make_node(
            "If",
            ["flag"],
            ["q"],
            then_branch=branch(helper.make_node("Squeeze", ["r", "axes"], ["a"]), result="a"),
            else_branch=branch(helper.make_node("Identity", ["r"], ["b"]), result="b"),
        ),
        helper.make_node("MatMul", ["q", "w"], ["y"]),
    ]
    constants = {
        "last": np.array(-1),
        "one": np.array(one),
        "axes": np.array([-1]),
        "w": np.arange(12, dtype=np.float32).reshape(3, 4),
    }
    x, y = info("x", np.float32, ["n", 3, "m"]), info("y", np.float32, None)
    return onnx_model(nodes, [x], [y], constants)


def test_what_pytorch_squeezes_if_it_can_is_squeezed(tmp_path: Path) -> None:
    made = to_tflite(squeezed(), tmp_path)
    assert "IF" not in made.ops
    x = np.random.default_rng(0).standard_normal((2, 3, 1)).astype(np.float32)
    check_against_onnxruntime(made, [x], [x[:1]], interface=False)


def test_another_condition_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(squeezed(one=2).SerializeToString())
    assert "If" in [node.op.name for node in nnconv.load(path).graph.nodes]


def choice(inner: int) -> ModelProto:
    """Two layers, of 3 and of ``inner`` inputs, between which an input chooses."""
    nodes = [
        helper.make_node(
            "If",
            ["flag"],
            ["y"],
            then_branch=branch(helper.make_node("MatMul", ["x", "v"], ["a"]), result="a"),
            else_branch=branch(helper.make_node("MatMul", ["x", "w"], ["b"]), result="b"),
        )
    ]
    constants = {
        "v": np.ones((inner, 2), np.float32),
        "w": np.arange(6, dtype=np.float32).reshape(3, 2),
    }
    inputs = [info("x", np.float32, ["n", "m"]), info("flag", np.bool_, ())]
    return onnx_model(nodes, inputs, [info("y", np.float32, ["n", 2])], constants)


def test_a_branch_that_fits_no_shape_given_is_left_out(tmp_path: Path) -> None:
    made = to_tflite(choice(5), tmp_path, input_shapes={"x": (2, 3)})
    assert "IF" not in made.ops
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    check_against_onnxruntime(made, [x, np.array(False)], interface=False)


def test_branches_that_fit_are_both_kept(tmp_path: Path) -> None:
    made = to_tflite(choice(3), tmp_path, input_shapes={"x": (2, 3)})
    assert made.ops["IF"] == 1
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    runs = [[x, np.array(False)], [x, np.array(True)]]
    check_against_onnxruntime(made, *runs, interface=False)


def test_no_branch_that_fits_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(choice(5).SerializeToString())
    with pytest.raises((InvalidModelError, nnconv.errors.UsageError), match="MatMul"):
        nnconv.load(path, input_shapes={"x": (2, 4)})
