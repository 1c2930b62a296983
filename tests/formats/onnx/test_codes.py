"""Codes whose sign a file turns: what is read as quantization, and what stays arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from nnconv.backends.reference.executor import run_graph
from onnx import NodeProto, helper

import nnconv
from nnconv.ir import DType, Model, Quant
from nnconv.ir.verifier import verify_model
from nnconv.ops.elementwise import Add, Clip
from nnconv.ops.quantize import Cast, Quantize
from support.onnx_routes import run_onnxruntime
from support.onnx_whole import check_against_onnxruntime, info, onnx_model, to_tflite

U8, I8 = onnx.TensorProto.UINT8, onnx.TensorProto.INT8
SCALE = np.float32(0.1)
CONSTANTS = {
    "half": np.uint8(128),
    "scale": SCALE,
    "point": np.uint8(118),
    "other": np.uint8(117),
    "shape": np.array([1, 3, 4, 2], np.int64),
    "six": np.uint8(178),
    "filters": np.random.default_rng(0).standard_normal((2, 2, 1, 1)).astype(np.float32),
    "axes": np.array([1], np.int64),
}


def _node(kind: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def _turned_in(x: str, y: str) -> list[NodeProto]:
    return [_node("Cast", x, f"{y}_cast", to=U8), _node("Add", f"{y}_cast half", y)]


def _turned_out(x: str, y: str) -> list[NodeProto]:
    return [_node("Add", f"half {x}", f"{y}_sum"), _node("Cast", f"{y}_sum", y, to=I8)]


MOVES = [
    _node("Reshape", "u shape", "r"),
    _node("Transpose", "r", "t", perm=[0, 3, 1, 2]),
    _node("Concat", "t t", "c", axis=2),
]
WIDEN = [_node("DequantizeLinear", "c scale point", "d")]
BACK = [_node("QuantizeLinear", "e scale point", "q")]
WHOLE = [
    *_turned_in("x", "u"),
    *MOVES,
    *WIDEN,
    _node("Sigmoid", "d", "e"),
    *BACK,
    *_turned_out("q", "y"),
]
X = info("x", np.int8, [1, 24])
Y = info("y", np.int8, [1, 2, 6, 4])


def _load(nodes: list[NodeProto], folder: Path, **more: Any) -> tuple[Model, Path]:
    model = onnx_model(nodes, [X], more.pop("outputs", [Y]), CONSTANTS)
    for key, text in more.items():
        model.metadata_props.add(key=key, value=text)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    found = nnconv.load(path)
    verify_model(found)
    return found, path


def _codes(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (1, 24)).astype(np.int8)


def _check(model: Model, path: Path) -> None:
    """The reference computes what onnxruntime does of the file."""
    wanted = run_onnxruntime(str(path), {"x": _codes()})
    for seen, want in zip(run_graph(model.graph, [_codes()]), wanted, strict=True):
        if want.dtype.kind in "iu":
            assert int(np.abs(seen.astype(int) - want.astype(int)).max()) <= 1
        else:
            np.testing.assert_allclose(seen, want, rtol=1e-5, atol=1e-6)


def _kinds(model: Model) -> list[type]:
    return [type(node.op) for node in model.graph.nodes]


def test_the_interface_gets_the_parameters_of_what_is_behind_it(tmp_path):
    model, path = _load(WHOLE, tmp_path)
    signed = Quant.per_tensor(float(SCALE), 118 - 128)
    assert (model.inputs[0].dtype, model.inputs[0].quant) == (DType.INT8, signed)
    assert (model.outputs[0].dtype, model.outputs[0].quant) == (DType.INT8, signed)
    kinds = _kinds(model)
    assert kinds.count(Quantize) == 3
    assert Add not in kinds
    assert Cast not in kinds
    _check(model, path)


def test_nothing_of_it_is_left_in_tflite(tmp_path):
    made = to_tflite(onnx_model(WHOLE, [X], [Y], CONSTANTS), tmp_path)
    assert "CAST" not in made.ops
    assert "ADD" not in made.ops
    assert made.ops["QUANTIZE"] <= 1
    check_against_onnxruntime(made, [_codes()], steps=1)


def test_onnx_gets_the_nodes_back(tmp_path):
    _, path = _load(WHOLE, tmp_path)
    again = tmp_path / "again.onnx"
    report = nnconv.convert(path, again)
    assert sum(report.counts.values()) <= len(WHOLE)
    wanted = run_onnxruntime(str(path), {"x": _codes()})
    np.testing.assert_array_equal(run_onnxruntime(str(again), {"x": _codes()})[0], wanted[0])


def test_what_is_only_moved_has_the_parameters_that_the_file_notes(tmp_path):
    note = '{"x": {"scale": [0.5], "zero_point": [3]}}'
    nodes = [*_turned_in("x", "u"), *MOVES, *_turned_out("c", "y")]
    model, path = _load(nodes, tmp_path, **{"nnconv.quantization": note})
    assert model.inputs[0].quant == Quant.per_tensor(0.5, 3) == model.outputs[0].quant
    _check(model, path)


def test_an_input_that_something_else_reads_keeps_its_numbers(tmp_path):
    outputs = [Y, info("z", np.int32, [1, 24])]
    nodes = [*WHOLE, _node("Cast", "x", "z", to=onnx.TensorProto.INT32)]
    model, path = _load(nodes, tmp_path, outputs=outputs)
    assert model.inputs[0].quant is None
    assert Add not in _kinds(model)
    _check(model, path)


def test_codes_that_are_read_on_are_numbers_again(tmp_path):
    nodes = [*WHOLE[:-1], _node("Cast", "y_sum", "s", to=I8)]
    nodes.append(_node("ReduceMax", "s axes", "y"))
    outputs = [info("y", np.int8, [1, 1, 6, 4])]
    model, path = _load(nodes, tmp_path, outputs=outputs)
    assert Add not in _kinds(model)
    _check(model, path)


READ_ON = [
    _node("Add", "f d", "g"),
    _node("QuantizeLinear", "g scale point", "h"),
    *_turned_out("h", "y"),
]
STAYS: dict[str, list[NodeProto]] = {
    "two meanings": [*WHOLE[:6], _node("DequantizeLinear", "c scale other", "f"), *READ_ON],
    "read as numbers": [
        *WHOLE[:6],
        _node("Cast", "c", "f", to=onnx.TensorProto.FLOAT),
        *READ_ON,
    ],
    "no parameters": [*_turned_in("x", "u"), *MOVES, *_turned_out("c", "y")],
}


@pytest.mark.parametrize("name", STAYS)
def test_what_the_codes_mean_must_be_told_and_one(name, tmp_path):
    model, path = _load(STAYS[name], tmp_path)
    assert Add in _kinds(model)
    assert model.inputs[0].quant is None
    _check(model, path)


@pytest.mark.parametrize(
    ("bounds", "wanted"),
    [
        ((118, 255), (0.0, np.inf)),
        ((118, 178), (0.0, 6.0)),
        ((108, 128), (-1.0, 1.0)),
        ((0, 150), (-np.inf, 3.2)),
    ],
)
def test_clamped_codes_are_clamped_numbers(bounds, wanted, tmp_path):
    constants = {**CONSTANTS, "low": np.uint8(bounds[0]), "high": np.uint8(bounds[1])}
    nodes = [
        _node("QuantizeLinear", "x scale point", "q"),
        _node("Clip", "q low high", "c"),
        _node("DequantizeLinear", "c scale point", "y"),
    ]
    shape = [1, 24]
    model = onnx_model(
        nodes, [info("x", np.float32, shape)], [info("y", np.float32, shape)], constants
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    found = nnconv.load(path)
    (clip,) = [node.op for node in found.graph.nodes if isinstance(node.op, Clip)]
    assert (clip.low, clip.high) == pytest.approx(wanted)
    x = np.random.default_rng(1).uniform(-14, 14, shape).astype(np.float32)
    (want,) = run_onnxruntime(str(path), {"x": x})
    again = tmp_path / "again.onnx"
    assert sum(nnconv.convert(path, again).counts.values()) == 3
    np.testing.assert_array_equal(run_onnxruntime(str(again), {"x": x})[0], want)
    np.testing.assert_allclose(run_graph(found.graph, [x])[0], want, rtol=1e-5, atol=1e-6)
