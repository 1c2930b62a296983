"""Weights that TFLite's kernels read as codes beside floats, on the way to ONNX and back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import nnconv
from nnconv.ir import Builder, DType, Graph, Model, Origin, Quant, Signature
from nnconv.ops.matmul import FullyConnected
from nnconv.ops.norm import LogSoftmax
from support.tflite_spine import tflite_ops

TFLITE = Origin("tflite", "FULLY_CONNECTED", 0)


def _model(columns: int, *, axis: int | None = 0, rank: int = 2, codes: bool = True) -> Model:
    b = Builder(Graph("main"), origin=TFLITE)
    x = b.input("x", DType.FLOAT32, (2, 3, columns)[-rank:])
    rng = np.random.default_rng(0)
    scales = rng.uniform(0.01, 0.1, 8).astype(np.float32).tolist()
    quant = Quant.per_tensor(scales[0]) if axis is None else Quant.per_channel(scales, axis=0)
    data = rng.integers(-127, 128, (8, columns)).astype(np.int8)
    weights = b.const(
        data if codes else data.astype(np.float32), "w", quant=quant if codes else None
    )
    bias = b.const(rng.standard_normal(8).astype(np.float32), "b")
    y = b.add(FullyConnected(), [x, weights, bias])
    b.graph.outputs = [b.add(LogSoftmax(axis=rank - 1), [y], name="y")]
    return Model([Signature("", b.graph)], format="tflite", source="test")


def _there_and_back(model: Model, folder: Path) -> tuple[onnx.ModelProto, dict[str, int]]:
    path, again, back = folder / "m.onnx", folder / "again.onnx", folder / "m.tflite"
    nnconv.save(model, path)
    first = nnconv.convert(path, again)  # what is noted lasts
    assert sum(first.counts.values()) <= len(onnx.load(str(path)).graph.node)
    nnconv.convert(again, back)
    return onnx.load(str(path)), tflite_ops(back.read_bytes())


@pytest.mark.parametrize("columns", [16, 1 << 15])  # these are written in different ways
@pytest.mark.parametrize("axis", [0, None])
@pytest.mark.parametrize("rank", [2, 3])
def test_the_kernels_of_the_source_come_back(columns, axis, rank, tmp_path):
    model = _model(columns, axis=axis, rank=rank)
    written, ops = _there_and_back(model, tmp_path)
    notes = {p.key: json.loads(p.value) for p in written.metadata_props}
    assert notes["nnconv.source"] == "tflite"
    (name,) = notes["nnconv.hybrid"]
    assert name in {t.name for t in written.graph.initializer}
    ops.pop("RESHAPE", None)
    assert ops == {"FULLY_CONNECTED": 1, "LOG_SOFTMAX": 1}


def test_weights_of_floats_are_not_noted(tmp_path):
    written, _ = _there_and_back(_model(16, codes=False), tmp_path)
    assert "nnconv.hybrid" not in {p.key for p in written.metadata_props}


@pytest.mark.parametrize("note", ["null", "[1, 2]", '"elsewhere"', "{", '["none"]'])
def test_notes_that_say_nothing_are_passed_over(note, tmp_path):
    path = tmp_path / "m.onnx"
    nnconv.save(_model(16), path)
    model = onnx.load(str(path))
    for prop in model.metadata_props:
        prop.value = note
    path.write_bytes(model.SerializeToString())
    assert nnconv.load(path).graph.nodes is not None
    report = nnconv.convert(path, tmp_path / "m.tflite")
    assert report.counts["DEQUANTIZE"] == 1
