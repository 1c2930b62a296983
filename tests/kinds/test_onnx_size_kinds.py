"""ONNX models of more than 2 GiB: weights by offset in files beside them, and in TFLite files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import nnconv
from nnconv.errors import InvalidModelError
from support import large
from support.litert import RESOLVERS, LiteRtRunner
from support.onnx_routes import node
from support.onnx_whole import info, onnx_model

WIDTH = 8192
LAST = np.arange(WIDTH, dtype=np.float32)
BEHIND_2_GIB = (1 << 31) + 4096

MOST_MEMORY = 700 << 20
"""What a conversion of 2.3 GB may take besides the maps of its files."""


def two_tables(rows: int, start: int) -> onnx.ModelProto:
    """Rows by index, of two tables that lie from ``start`` on in one file."""
    nodes = [node("Gather", [f"table{i}", "ids"], [f"y{i}"]) for i in range(2)]
    outputs = [info(f"y{i}", "float32", [2, WIDTH]) for i in range(2)]
    model = onnx_model(nodes, [info("ids", "int32", [2])], outputs)
    size = rows * LAST.nbytes
    for number in range(2):
        tensor = model.graph.initializer.add()
        tensor.name, tensor.data_type = f"table{number}", TensorProto.FLOAT
        tensor.dims.extend([rows, WIDTH])
        tensor.data_location = TensorProto.EXTERNAL
        place = {"location": "tables.bin", "offset": start + number * size, "length": size}
        tensor.external_data.extend(
            helper.onnx.StringStringEntryProto(key=k, value=str(v)) for k, v in place.items()
        )
    return model


def make(folder: Path, *, rows: int, start: int) -> Path:
    """Write a model; the last row of each table isn't zeros, and zeros take no room on the disk."""
    path = folder / "large.onnx"
    path.write_bytes(two_tables(rows, start).SerializeToString())
    with (folder / "tables.bin").open("wb") as file:
        for number in range(2):
            file.seek(start + (number + 1) * rows * LAST.nbytes - LAST.nbytes)
            file.write(LAST + number)
    assert (folder / "tables.bin").stat().st_size > 1 << 31
    return path


def check(path: Path, rows: int, resolvers: tuple[str, ...] = RESOLVERS) -> None:
    for resolver in resolvers:
        results = LiteRtRunner(path, resolver).run([np.int32([0, rows - 1])])
        for number, got in enumerate(results):
            assert not got[0].any()
            np.testing.assert_array_equal(got[1], LAST + number)


def test_onnx_weights_behind_2_gib_are_found(tmp_path: Path) -> None:
    source = make(tmp_path, rows=40, start=BEHIND_2_GIB)
    nnconv.convert(source, tmp_path / "large.tflite")
    assert (tmp_path / "large.tflite").stat().st_size < 4 << 20
    check(tmp_path / "large.tflite", 40)


@large.on_request
def test_more_than_2_gib_become_one_tflite_file_in_little_memory(tmp_path: Path) -> None:
    """Its weights lie behind its head, by offset."""
    rows = 35_000
    make(tmp_path, rows=rows, start=0)
    try:
        large.convert(tmp_path / "large.onnx", tmp_path / "large.tflite", MOST_MEMORY)
        assert (tmp_path / "large.tflite").stat().st_size > 1 << 31
        check(tmp_path / "large.tflite", rows, ("opt",))
    finally:
        shutil.rmtree(tmp_path)


def test_onnx_weights_that_end_behind_their_file_are_refused(tmp_path: Path) -> None:
    source = make(tmp_path, rows=40, start=BEHIND_2_GIB)
    os.truncate(tmp_path / "tables.bin", BEHIND_2_GIB)
    with pytest.raises(InvalidModelError):
        nnconv.convert(source, tmp_path / "large.tflite")
    assert not (tmp_path / "large.tflite").exists()
