"""What LiteRT has no room for is refused, where a file of it would end the process or be wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import nnconv
from nnconv.errors import UnsupportedError
from support.onnx_whole import check_against_onnxruntime, info, onnx_model, to_tflite


def refused(tmp_path: Path, op: str, dims: list[int], **attributes: object) -> str:
    given = {"w": np.ones((3, 2, 3, 3), np.float32)}
    node = helper.make_node(op, ["x", "w"], ["y"], **attributes)
    x, y = info("x", "float32", dims), info("y", "float32", None)
    source, target = tmp_path / "m.onnx", tmp_path / "m.tflite"
    source.write_bytes(onnx_model([node], [x], [y], given).SerializeToString())
    with pytest.raises(UnsupportedError) as refusal:
        nnconv.convert(source, target)
    assert not target.exists()
    return str(refusal.value)


def test_numbers_of_options_beyond_int32_are_refused(tmp_path: Path) -> None:
    assert "int32" in refused(tmp_path, "Conv", [1, 2, 5, 5], strides=[1 << 40, 1 << 40])


def test_a_layer_over_no_elements_gives_its_bias(tmp_path: Path) -> None:
    constants = {"w": np.ones((0, 3), np.float32), "b": np.float32([1, -2, 3])}
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"])
    x, y = info("x", "float32", [2, 0]), info("y", "float32", [2, 3])
    made = to_tflite(onnx_model([node], [x], [y], constants), tmp_path)
    check_against_onnxruntime(made, [np.empty((2, 0), np.float32)])
