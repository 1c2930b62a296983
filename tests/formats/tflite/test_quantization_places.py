"""Quantization parameters where no kernel takes them are refused or worked out, never tripped over.

A file may state any parameters on any tensor.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import nnconv
from nnconv.errors import InvalidModelError, UnsupportedError
from nnconv.formats.tflite.reader import read
from support.tflite_builder import Quant, Tensor, TfliteBuilder, pack

PLAIN = Quant(0.5, 3)
SHAPE = (1, 4, 6, 2)
CONV = {"padding": "SAME", "stride_w": 1, "stride_h": 1}


def _blocks(b: TfliteBuilder, count: int) -> Quant:
    return Quant(block_scales=b.const(np.ones(count, np.float16)), block_size=2)


def _written(b: TfliteBuilder, folder: Path) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(bytes(b.build()))
    return path


def _input_in_blocks(b: TfliteBuilder) -> Tensor:
    x = b.input("x", "int8", SHAPE, quant=_blocks(b, 24))
    return b.op("SOFTMAX", [x], [("int8", SHAPE, PLAIN)])


def _result_in_blocks(b: TfliteBuilder) -> Tensor:
    x = b.input("x", "int8", SHAPE, quant=PLAIN)
    return b.op("SOFTMAX", [x], [("int8", SHAPE, _blocks(b, 24))])


def _moved_result_in_blocks(b: TfliteBuilder) -> Tensor:
    x = b.input("x", "int8", SHAPE, quant=PLAIN)
    shape = b.const(np.array((1, 24, 2), np.int32))
    return b.op("RESHAPE", [x, shape], [("int8", (1, 24, 2), _blocks(b, 24))])


def _filter_in_blocks(b: TfliteBuilder, op: str) -> Tensor:
    x = b.input("x", "int8", SHAPE, quant=PLAIN)
    shape = (2, 1, 1, 2) if op == "CONV_2D" else (1, 2, 2, 2)
    weights = b.const(np.ones(shape, np.int8), quant=_blocks(b, int(np.prod(shape[:-1]))))
    return b.op(op, [x, weights, None], [("int8", SHAPE, PLAIN)], options=CONV)


@pytest.mark.parametrize(
    "build",
    [
        _input_in_blocks,
        _result_in_blocks,
        _moved_result_in_blocks,
        lambda b: _filter_in_blocks(b, "CONV_2D"),
        lambda b: _filter_in_blocks(b, "DEPTHWISE_CONV_2D"),
    ],
    ids=["input", "result", "moved", "filter", "depthwise"],
)
def test_blocks_belong_to_the_weights_of_a_dense_layer(build, tmp_path: Path) -> None:
    b = TfliteBuilder()
    b.output(build(b))
    with pytest.raises(UnsupportedError, match="in blocks"):
        nnconv.load(_written(b, tmp_path))


def test_a_scalar_has_no_blocks(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", "int8", SHAPE, quant=PLAIN)
    scalar = b.const(np.int8(3), quant=_blocks(b, 1))
    b.output(b.op("ADD", [x, scalar], [("int8", SHAPE, PLAIN)]))
    with pytest.raises(InvalidModelError, match="scalar"):
        nnconv.load(_written(b, tmp_path))


def test_weights_with_scales_along_the_depth_are_multiplied_as_floats(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(-9, 9, (3, 4)).astype(np.int8)
    scales = np.array([0.5, 0.25, 2.0, 1.0], np.float32)
    b = TfliteBuilder()
    x = b.input("x", "int8", (2, 4), quant=(0.5, 3))
    weights = b.const(codes, quant=Quant(scales, axis=1))
    offset = b.const(np.array([8, -16, 4], np.int32), quant=(0.25, 0))
    b.output(b.op("FULLY_CONNECTED", [x, weights, offset], [("int8", (2, 3), (2.0, 1))]))
    nnconv.convert(_written(b, tmp_path), tmp_path / "model.onnx")
    given = rng.integers(-20, 20, (2, 4)).astype(np.int8)
    (seen,) = nnconv.compile(tmp_path / "model.onnx").run({"x": given}).values()
    real = (given - 3.0) * 0.5 @ (codes * scales).T + np.array([2.0, -4.0, 1.0])
    np.testing.assert_allclose(seen, np.clip(np.round(real / 2.0) + 1, -128, 127), atol=1)


def test_parameters_along_several_axes_are_named_as_unsupported():
    b = TfliteBuilder()
    x = b.input("x", "int8", SHAPE, quant=PLAIN)
    b.output(b.op("RELU", [x], [("int8", SHAPE, PLAIN)]))
    content = b.to_object()
    quantization = content.subgraphs[0].tensors[x.index].quantization
    quantization.detailsType = schema.QuantizationDetails.MultiAxisQuantization
    quantization.details = schema.MultiAxisQuantizationT(0, -1, 2, [1, 3])
    with pytest.raises(UnsupportedError, match="along several axes"):
        read(bytes(pack(content)), name="several axes")
