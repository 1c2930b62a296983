"""Compiled models on disk."""

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest

from nnconv import backends
from nnconv.runtime import nnapi
from nnconv.runtime.core import program as core
from support.nnapi_calls import TOKEN, array
from support.nnapi_runtime import device, finished

DEVICE = "onnxruntime:cpu"


@pytest.fixture
def writes(monkeypatch):
    """What was converted for a device, and so not found in the cache."""
    seen = []
    write = core._write

    def counted(model, device, path):
        seen.append(device)
        return write(model, device, path)

    monkeypatch.setattr(core, "_write", counted)
    return seen


def computes(folder, *, token=TOKEN, model=None, name=DEVICE):
    made = nnapi.Compilation.create_for_devices(
        finished() if model is None else model, [device(name)]
    )
    made.set_caching(folder, token)
    made.finish()
    execution = nnapi.Execution(made)
    execution.set_input(0, array())
    execution.set_input(1, array())
    result = np.zeros((2, 3), np.float32)
    execution.set_output(0, result)
    execution.compute()
    assert np.array_equal(result, 2 * array())


@pytest.mark.parametrize("name", ["onnxruntime:cpu", "litert:cpu"])
def test_a_model_is_converted_once(tmp_path, writes, name):
    computes(tmp_path, name=name)
    computes(tmp_path, name=name)
    assert writes == [name]


def test_another_token_and_another_model_are_not_found(tmp_path, writes):
    computes(tmp_path)
    computes(tmp_path, token=bytes(31) + b"x")
    relaxed = finished()
    relaxed.wire.relaxed = True
    computes(tmp_path, model=relaxed)
    assert len(writes) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda _: b"",
        lambda _: None,
    ],
)
@pytest.mark.parametrize("pattern", ["*.onnx", "*.onnx.json"])
def test_a_damaged_entry_is_left_aside(tmp_path, writes, damage, pattern):
    computes(tmp_path)
    (path,) = tmp_path.glob(pattern)
    data = damage(path.read_bytes())
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
    computes(tmp_path)
    computes(tmp_path)
    assert len(writes) == 2


def test_an_entry_under_another_tokens_name_is_left_aside(tmp_path, writes):
    computes(tmp_path)
    first = {path.suffix: path for path in tmp_path.iterdir()}
    other = bytes(31) + b"x"
    computes(tmp_path, token=other)
    for path in tmp_path.iterdir():
        if path not in first.values():
            path.write_bytes(first[path.suffix].read_bytes())
    computes(tmp_path, token=other)
    assert len(writes) == 3


@pytest.mark.parametrize("text", ["[]", "{}", "nothing", '{"checksum": 3}'])
def test_a_note_may_be_anything(tmp_path, writes, text):
    computes(tmp_path)
    (note,) = tmp_path.glob("*.json")
    assert json.loads(note.read_text())["device"] == DEVICE
    note.write_text(text)
    computes(tmp_path)
    assert len(writes) == 2


def test_a_folder_that_is_missing_keeps_nothing(tmp_path, writes):
    computes(tmp_path / "missing")
    assert writes == []
    assert not (tmp_path / "missing").exists()


def test_another_process_finds_the_model(tmp_path, writes):
    computes(tmp_path)
    code = f"""
import importlib.util, sys
sys.path[:0] = {sys.path!r}
from nnconv.runtime.core import program
def fail(*_):
    raise AssertionError("it is converted again")
program._write = fail
spec = importlib.util.spec_from_file_location("cached", {__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.computes({str(tmp_path)!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert writes == [DEVICE]


def test_what_is_kept_needs_no_more_optimizing(tmp_path):
    computes(tmp_path)
    (path,) = tmp_path.glob("*.onnx")
    graph = onnx.load(path).graph
    again = backends.compile(path, DEVICE, optimize=False)
    feeds = {info.name: array() for info in again.inputs}
    assert np.array_equal(next(iter(again.run(feeds).values())), 2 * array())
    assert {entry.suffix for entry in tmp_path.iterdir()} == {".onnx", ".json"}
    assert [node.op_type for node in graph.node] == ["Add"]


def test_another_kind_of_cpu_finds_nothing(tmp_path, writes, monkeypatch):
    computes(tmp_path)
    monkeypatch.setattr(core, "_version", lambda device: f"{device} on another CPU")
    computes(tmp_path)
    assert len(writes) == 2
