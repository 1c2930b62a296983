"""Models of more than 2 GiB: buffers found by offset, and data beside the written model.

The weights are zeros but for two rows, and the source takes no room for the rest. The result does:
its test is skipped where the disk is too full.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import nnconv
from support.spine import onnx_session
from support.tflite_builder import Buffer, TfliteBuilder

ROWS, WIDTH = 35_000, 8192
TABLE_BYTES = ROWS * WIDTH * 4
LAST = np.arange(WIDTH, dtype=np.float32)
MARGIN = 1 << 16
"""Where the first table starts; the flatbuffer is shorter."""

LIMIT_BYTES = 600 << 20
"""Memory that a conversion may have besides the maps of its files: a quarter of the weights."""


def two_tables() -> bytes:
    """The flatbuffer: two tables that lie behind it, and rows of each by index."""
    b = TfliteBuilder()
    ids = b.input("ids", "int32", (2,))
    for number in range(2):
        table = Buffer()
        table.offset, table.size = MARGIN + number * TABLE_BYTES, TABLE_BYTES
        b._buffers.append(table)
        shape = (ROWS, WIDTH)
        weights = b.tensor("float32", shape, name=f"table{number}", buffer=len(b._buffers) - 1)
        rows = b.op("GATHER", [weights, ids], [("float32", (2, WIDTH))], options={"axis": 0})
        b.output(rows)
    return bytes(b.build())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the source, emptied when the test is over."""
    if shutil.disk_usage(tmp_path).free < 3 * TABLE_BYTES:
        pytest.skip("no room for a file of 2.3 GB")
    head = two_tables()
    assert len(head) < MARGIN
    with (tmp_path / "large.tflite").open("wb") as file:
        file.write(head)
        for number in range(2):
            file.seek(MARGIN + (number + 1) * TABLE_BYTES - LAST.nbytes)
            file.write(LAST + number)
    assert (tmp_path / "large.tflite").stat().st_size > 1 << 31
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_more_than_2_gib_are_converted_in_little_memory(folder: Path) -> None:
    """And the two written files work wherever they are moved to together."""
    subprocess.run(
        [sys.executable, "-m", "nnconv", "convert", "large.tflite", "large.onnx"],
        check=True,
        cwd=folder,
        capture_output=True,
        timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES)),
    )
    moved = folder / "elsewhere"
    moved.mkdir()
    for file in sorted(folder.glob("large.onnx*")):
        file.rename(moved / file.name)
    model = moved / "large.onnx"
    assert model.stat().st_size < 1 << 16
    graph = onnx.load(str(model), load_external_data=False).graph
    places = [{entry.key: entry.value for entry in c.external_data} for c in graph.initializer]
    tables = [place for place in places if place]
    assert [place["location"] for place in tables] == ["large.onnx.data"] * 2
    assert [int(place["length"]) for place in tables] == [TABLE_BYTES] * 2
    assert int(tables[1]["offset"]) >= int(tables[0]["offset"]) + TABLE_BYTES
    first, second = onnx_session(model).run(None, {"ids": np.int32([0, ROWS - 1])})
    for number, rows in enumerate((first, second)):
        assert not rows[0].any()
        np.testing.assert_array_equal(rows[1], LAST + number)


def test_a_buffer_that_ends_behind_its_file_is_refused(tmp_path: Path) -> None:
    short = tmp_path / "short.tflite"
    short.write_bytes(two_tables() + bytes(MARGIN))
    with pytest.raises(nnconv.errors.InvalidModelError):
        nnconv.convert(short, tmp_path / "short.onnx")
    assert not list(tmp_path.glob("short.onnx*"))
