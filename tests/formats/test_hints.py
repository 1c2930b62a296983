"""Refusals for want of extents name the inputs whose shapes would tell them."""

import onnx
import pytest
from onnx import TensorProto, helper

import nnconv
from nnconv.errors import UnsupportedError
from nnconv.formats.hints import shapes_hint


def value(name, dims, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def onnx_file(tmp_path, nodes, inputs, output="y"):
    graph = helper.make_graph(nodes, "g", inputs, [value(output, None)])
    path = tmp_path / "source.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def hints(source, target, **options):
    with pytest.raises(UnsupportedError) as caught:
        nnconv.convert(source, target, **options)
    return {item.hint for item in caught.value.items}


def test_a_rank_that_is_not_known(tmp_path):
    inputs = [value("scores", None), value("other", ["n", 2]), value("known", [2])]
    source = onnx_file(tmp_path, [helper.make_node("Softmax", ["scores"], ["y"])], inputs)
    wanted = "Giving the shape of `scores`, `other` (--input-shape) may help."
    assert hints(source, tmp_path / "y.tflite") == {wanted}
    shapes = {"scores": (2, 3)}
    nnconv.convert(source, tmp_path / "y.tflite", input_shapes=shapes)


def test_a_rank_that_no_input_tells_asks_for_none(tmp_path):
    nodes = [
        helper.make_node("Reshape", ["x", "sizes"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"]),
    ]
    inputs = [value("x", [6]), value("sizes", ["n"], TensorProto.INT64)]
    named = "Giving the shape of `sizes` (--input-shape) may help."
    assert hints(onnx_file(tmp_path, nodes, inputs), tmp_path / "y.tflite") == {named}
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("ReduceMax", ["places"], ["sizes"], axes=[0], keepdims=0),
        helper.make_node("Reshape", ["x", "sizes"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"]),
    ]
    source = onnx_file(tmp_path, nodes, [value("x", [6])])
    assert hints(source, tmp_path / "y.tflite") == {""}


def test_many_inputs_are_not_all_named():
    assert shapes_hint([]) == ""
    assert shapes_hint([f"x{i}" for i in range(9)]).endswith("`x7`, ... (--input-shape) may help.")
