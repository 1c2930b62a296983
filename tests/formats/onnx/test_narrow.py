"""Numbers that a file moves in a wider type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from nnconv.backends.reference.executor import run_graph
from onnx import NodeProto, helper

import nnconv
from nnconv.ir import Model, Quant
from nnconv.ir.verifier import verify_model
from nnconv.ops.quantize import Cast, Dequantize
from support.onnx_routes import run_onnxruntime
from support.onnx_whole import info, onnx_model

TENSOR = onnx.TensorProto
CONSTANTS = {
    "pads": np.array([0, 1, 0, 2], np.int64),
    "seven": np.int32(7),
    "many": np.int32(70000),
    "small": np.int16(7),
    "row": np.arange(3, dtype=np.int32).reshape(1, 3),
    "scale": np.float32(0.25),
    "point": np.float32(3),
}


def _node(kind: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def _model(middle: list[NodeProto], dtype: Any, folder: Path, to: int | None = None) -> Model:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [_node("Cast", "x", "w", to=TENSOR.INT32), *middle]
    nodes.append(_node("Cast", "v", "y", to=to or kind))
    out = info("y", dtype if to is None else helper.tensor_dtype_to_np_dtype(to), [None, None])
    model = onnx_model(nodes, [info("x", dtype, [2, 3])], [out], CONSTANTS)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    found = nnconv.load(path)
    verify_model(found)
    x = np.random.default_rng(0).integers(0, 2, (2, 3)).astype(dtype)
    (want,) = run_onnxruntime(str(path), {"x": x})
    np.testing.assert_array_equal(run_graph(found.graph, [x])[0], want)
    again = folder / "again.onnx"
    assert sum(nnconv.convert(path, again).counts.values()) <= len(nodes)
    np.testing.assert_array_equal(run_onnxruntime(str(again), {"x": x})[0], want)
    return found


MOVES = {
    "pad": [_node("Pad", "w pads seven", "v")],
    "pad, cast number": [
        _node("Cast", "small", "number", to=TENSOR.INT32),
        _node("Pad", "w pads number", "v"),
    ],
    "concat": [_node("Concat", "w row w", "v", axis=0)],
    "transpose": [_node("Transpose", "w", "v", perm=[1, 0])],
}


@pytest.mark.parametrize("dtype", [np.int16, np.int8, np.uint8])
@pytest.mark.parametrize("name", MOVES)
def test_moves_are_made_in_the_narrow_type(name, dtype, tmp_path):
    if dtype is not np.int16 and name == "pad, cast number":
        pytest.skip("the number is of another type then")
    model = _model(MOVES[name], dtype, tmp_path)
    assert not any(isinstance(node.op, Cast) for node in model.graph.nodes)


STAYS = {
    "sum": ([_node("Add", "w row", "v")], np.int16, None),
    "number too large": ([_node("Pad", "w pads many", "v")], np.int16, None),
    "another type": ([_node("Pad", "w pads seven", "v")], np.int16, TENSOR.INT8),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_needs_the_wide_type_stays(name, tmp_path):
    middle, dtype, to = STAYS[name]
    model = _model(middle, dtype, tmp_path, to)
    assert any(isinstance(node.op, Cast) for node in model.graph.nodes)


NOTE = '{"x": {"scale": [0.25], "zero_point": [3]}, "y": {"scale": [0.25], "zero_point": [3]}}'


@pytest.mark.parametrize("noted", [True, False])
def test_noted_codes_that_a_product_widens_are_dequantized(noted, tmp_path):
    nodes = [
        _node("Transpose", "x", "t", perm=[1, 0]),
        _node("Cast", "t", "f", to=TENSOR.FLOAT),
        _node("Sub", "f point", "d"),
        _node("Mul", "d scale", "r"),
        _node("Identity", "t", "y"),
    ]
    x, y = info("x", np.int16, [2, 3]), info("y", np.int16, [3, 2])
    model = onnx_model(nodes, [x], [y, info("r", np.float32, [3, 2])], CONSTANTS)
    if noted:
        model.metadata_props.add(key="nnconv.quantization", value=NOTE)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    found = nnconv.load(path)
    verify_model(found)
    wanted = Quant.per_tensor(0.25, 3) if noted else None
    assert found.inputs[0].quant == wanted == found.outputs[0].quant
    assert any(isinstance(node.op, Dequantize) for node in found.graph.nodes) is noted
    codes = np.arange(6, dtype=np.int16).reshape(2, 3)
    for seen, want in zip(
        run_graph(found.graph, [codes]), run_onnxruntime(str(path), {"x": codes}), strict=True
    ):
        np.testing.assert_array_equal(seen, want)


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e30])
def test_numbers_that_no_integer_is_stay_in_the_wider_type(number: float, tmp_path: Path) -> None:
    made = {"far": np.float32([number, 1, 2]), "pads": np.int64([0, 1]), "fill": np.float32(number)}
    nodes = [
        _node("Cast", "x", "w", to=TENSOR.FLOAT),
        _node("Where", "c w far", "v"),
        _node("Cast", "v", "y", to=TENSOR.INT8),
        _node("Cast", "x", "w2", to=TENSOR.FLOAT),
        _node("Pad", "w2 pads fill", "v2"),
        _node("Cast", "v2", "z", to=TENSOR.INT8),
    ]
    inputs = [info("x", "int8", [3]), info("c", "bool", [3])]
    model = onnx_model(nodes, inputs, [info("y", "int8", [3]), info("z", "int8", [4])], made)
    source, target = tmp_path / "source.onnx", tmp_path / "result.onnx"
    onnx.save(model, source)
    nnconv.convert(source, target)
    feeds = {"x": np.int8([5, 6, 7]), "c": np.array([True, False, True])}
    y, z = run_onnxruntime(str(target), feeds)
    assert y.tolist() == [5, 1, 7]
    assert z[:3].tolist() == [5, 6, 7]
