"""Biases and weights as the ONNX writer spells them, for models that no TFLite file gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from nnconv.backends.reference.executor import run_graph
from onnx import numpy_helper

import nnconv
from nnconv.ir import DType, Graph, Model, Quant, Signature
from nnconv.ir.builder import Builder
from nnconv.ops.matmul import FullyConnected
from support.spine import optimized_ops, run_onnx

X_SCALE, W_SCALE = 0.1, 0.02


def layer(codes: list[int], scale: float, *, point: int = 0, y_scale: float = 0.5) -> Model:
    """A quantized layer whose bias has a scale of its own."""
    graph = Graph("layer")
    builder = Builder(graph)
    x = builder.input("x", DType.UINT8, (3, 4), quant=Quant.per_tensor(X_SCALE, 120))
    rows = np.arange(-4, 4, dtype=np.int8).reshape(2, 4) * 9
    w = builder.const(rows, "w", quant=Quant.per_tensor(W_SCALE))
    bias = builder.const(np.asarray(codes, np.int32), "b", quant=Quant.per_tensor(scale, point))
    y = builder.add(FullyConnected(), [x, w, bias], name="y", quant=Quant.per_tensor(y_scale, 100))
    graph.outputs = [y]
    return Model([Signature("", graph, ("x",), ("y",))])


def initializers(path: Path) -> dict[str, np.ndarray]:
    """An ONNX file's constants."""
    return {i.name: numpy_helper.to_array(i) for i in onnx.load(str(path)).graph.initializer}


def check(model: Model, path: Path) -> None:
    """Compare onnxruntime's codes with the reference backend's."""
    x = np.random.default_rng(0).integers(0, 256, (3, 4)).astype(np.uint8)
    expected = run_graph(model.graph, [x])[0].astype(int)
    nnconv.save(model, path)
    assert np.abs(run_onnx(path, model, [x])[0].astype(int) - expected).max() <= 1


@pytest.mark.parametrize(
    ("codes", "scale", "point", "stored"),
    [
        ([100, -40], X_SCALE * W_SCALE, 0, [100, -40]),
        ([100, -40], 0.01, 0, [500, -200]),
        ([100, -40], 0.01, 20, [400, -300]),
    ],
    ids=["own", "other", "shifted"],
)
def test_bias_is_written_at_the_product_of_scales(
    codes: list[int], scale: float, point: int, stored: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    check(layer(codes, scale, point=point), path)
    assert initializers(path)["b"].tolist() == stored
    assert optimized_ops(path, tmp_path) == {"QGemm": 1}


def test_bias_beyond_32_bits_is_written_in_floats(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    check(layer([2_000_000_000, -5], 0.01, y_scale=1e5), path)
    written = initializers(path)["b"]
    assert written.dtype == np.float32
    assert written[0] == pytest.approx(2e7)
