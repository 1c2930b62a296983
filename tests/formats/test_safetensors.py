"""Safetensors files: ours are read by the package, the package's by us, broken ones by nobody."""

import json

import numpy as np
import pytest
from safetensors.numpy import load, save

from nnconv.errors import InvalidModelError
from nnconv.formats.safetensors import chunks, map_file, parse

ARRAYS = {
    "floats": ("F32", np.arange(6, dtype=np.float32).reshape(2, 3)),
    "halves": ("F16", np.array([1.5, 2.5], np.float16)),
    "bytes": ("U8", np.arange(3, dtype=np.uint8)),
    "scalar": ("I32", np.array(7, np.int32)),
    "turned": ("I16", np.arange(6, dtype=np.int16).reshape(2, 3).T),
}


def test_ours_is_read_by_the_package_and_by_us():
    data = b"".join(chunks(ARRAYS, {"key": "text"}))
    theirs, ours = load(data), parse(data)
    assert ours.metadata == {"key": "text"}
    for name, (code, array) in ARRAYS.items():
        assert np.array_equal(theirs[name], array)
        assert ours.tensors[name][0] == code
        assert np.array_equal(ours.tensors[name][1], array)


def test_theirs_is_read_by_us():
    arrays = {name: np.ascontiguousarray(array) for name, (_, array) in ARRAYS.items()}
    content = parse(save(arrays, {"key": "text"}))
    assert content.metadata == {"key": "text"}
    for name, array in arrays.items():
        assert np.array_equal(content.tensors[name][1], array)


def header(**changes):
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes
    text = json.dumps({"w": entry}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(8)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a header of 0 bytes in a file of 0"),
        (b"\xff" * 16, "in a file of 16"),
        ((2).to_bytes(8, "little") + b"[]", "its header is no object"),
        ((1).to_bytes(8, "little") + b"{", "its header: "),
        (header(dtype="F8"), "elements of 'F8' aren't known"),
        (header(shape=[3]), "8 bytes for 3 elements of F32"),
        (header(shape=[-2]), "must be at least 0"),
        (header(data_offsets=[8, 16]), "outside of the file's 8"),
        (header(data_offsets=[8, 0]), "outside of the file's 8"),
        (header(shape=[0, 1 << 40, 1 << 40], data_offsets=[0, 0]), "isn't possible"),
        (header(extra=1), "isn't known"),
    ],
)
def test_a_broken_file_is_refused(data, message):
    with pytest.raises(InvalidModelError) as caught:
        parse(data)
    assert message in str(caught.value)


def test_an_empty_file_maps_to_nothing(tmp_path):
    (tmp_path / "empty").touch()
    assert bytes(map_file(tmp_path / "empty")) == b""
