"""Models of more than 2 GiB: buffers found by offset, and data beside the written model.

The weights are zeros but for two rows; sources take no room on the disk for what isn't written.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

import nnconv
from nnconv.formats.onnx import protobuf
from support import large
from support.spine import onnx_session
from support.tflite_builder import Buffer, TfliteBuilder

WIDTH = 8192
LAST = np.arange(WIDTH, dtype=np.float32)
BEHIND_HEAD = 1 << 16
BEHIND_2_GIB = (1 << 31) + 4096

MOST_MEMORY = 600 << 20
"""What a conversion of 2.3 GB may take besides the maps of its files."""


def two_tables(rows: int, start: int) -> bytes:
    """The flatbuffer: rows by index, of two tables that lie at ``start`` of the file."""
    b = TfliteBuilder()
    ids = b.input("ids", "int32", (2,))
    for number in range(2):
        table = Buffer()
        table.size = rows * LAST.nbytes
        table.offset = start + number * table.size
        b._buffers.append(table)
        place = len(b._buffers) - 1
        weights = b.tensor("float32", (rows, WIDTH), name=f"table{number}", buffer=place)
        b.output(b.op("GATHER", [weights, ids], [("float32", (2, WIDTH))], options={"axis": 0}))
    head = bytes(b.build())
    assert len(head) < BEHIND_HEAD
    return head


def make(path: Path, *, rows: int, start: int) -> None:
    """Write a model; the last row of each table isn't zeros."""
    with path.open("wb") as file:
        file.write(two_tables(rows, start))
        for number in range(2):
            file.seek(start + (number + 1) * rows * LAST.nbytes - LAST.nbytes)
            file.write(LAST + number)
    assert path.stat().st_size > 1 << 31


def check(model: Path, *, rows: int) -> None:
    """Move the written files elsewhere, look where they say their data are, and run them."""
    moved = model.parent / "elsewhere"
    moved.mkdir()
    for file in sorted(model.parent.glob(f"{model.name}*")):
        file.rename(moved / file.name)
    model = moved / model.name
    assert model.stat().st_size < 1 << 16
    graph = onnx.load(str(model), load_external_data=False).graph
    places = [{entry.key: entry.value for entry in c.external_data} for c in graph.initializer]
    tables = [place for place in places if place]
    assert [place["location"] for place in tables] == [f"{model.name}.data"] * 2
    assert [int(place["length"]) for place in tables] == [rows * LAST.nbytes] * 2
    assert int(tables[1]["offset"]) >= int(tables[0]["offset"]) + rows * LAST.nbytes
    for number, got in enumerate(onnx_session(model).run(None, {"ids": np.int32([0, rows - 1])})):
        assert not got[0].any()
        np.testing.assert_array_equal(got[1], LAST + number)


def test_weights_behind_2_gib_are_found_and_written_beside_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a lower limit of what a model may hold, so that little is written."""
    source, target = tmp_path / "large.tflite", tmp_path / "large.onnx"
    make(source, rows=40, start=BEHIND_2_GIB)
    monkeypatch.setattr(protobuf, "write", partial(protobuf.write, max_bytes=1 << 20))
    nnconv.convert(source, target)
    source.unlink()
    check(target, rows=40)


@large.on_request
def test_more_than_2_gib_are_converted_in_little_memory(tmp_path: Path) -> None:
    rows = 35_000
    make(tmp_path / "large.tflite", rows=rows, start=BEHIND_HEAD)
    try:
        large.convert(tmp_path / "large.tflite", tmp_path / "large.onnx", MOST_MEMORY)
        check(tmp_path / "large.onnx", rows=rows)
    finally:
        shutil.rmtree(tmp_path)


def test_a_buffer_that_ends_behind_its_file_is_refused(tmp_path: Path) -> None:
    short = tmp_path / "short.tflite"
    short.write_bytes(two_tables(35_000, BEHIND_HEAD) + bytes(BEHIND_HEAD))
    with pytest.raises(nnconv.errors.InvalidModelError):
        nnconv.convert(short, tmp_path / "short.onnx")
    assert not list(tmp_path.glob("short.onnx*"))
