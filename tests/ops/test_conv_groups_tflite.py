"""Grouped convolutions of data whose extents a run tells: the file states their channels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from support.litert import run_litert
from support.tflite_builder import TfliteBuilder


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_groups_behind_a_part_that_a_run_chooses(depth: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(depth)
    b = TfliteBuilder()
    x, begin = b.input("x", "float32", (2, 5, 5, 4)), b.input("begin", "int32", (4,))
    size = b.const(np.int32([1, 5, 5, 4]))
    part = b.op("SLICE", [x, begin, size], [("float32", (1, 5, 5, 4))])
    weights = b.const(rng.standard_normal((4, 3, 3, depth)).astype(np.float32))
    bias = b.const(np.zeros(4, np.float32))
    options = {"padding": 1, "stride_h": 1, "stride_w": 1}
    options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    b.output(b.op("CONV_2D", [part, weights, bias], [("float32", (1, 3, 3, 4))], options=options))
    path = tmp_path / "model.tflite"
    path.write_bytes(b.build())
    feeds = [rng.standard_normal((2, 5, 5, 4)).astype(np.float32), np.int32([1, 0, 0, 0])]
    (wanted,) = run_litert(path.read_bytes(), feeds)
    (got,) = run_graph(nnconv.load(path).graph, feeds)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    nnconv.convert(path, tmp_path / "model.onnx")
    run = nnconv.compile(tmp_path / "model.onnx", "onnxruntime:cpu")
    (got,) = run.run(dict(zip(("x", "begin"), feeds, strict=True))).values()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
