"""Compiled models on disk."""

import errno
import json
import shutil
import subprocess
import sys
import threading

import numpy as np
import onnx
import pytest

from nnconv import backends
from nnconv.errors import BackendError
from nnconv.ir import Model
from nnconv.runtime import nnapi
from nnconv.runtime.core import forms, program
from nnconv.runtime.core.cache import CacheSlot
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode
from support.nnapi_calls import TOKEN, array
from support.nnapi_runtime import FLOAT, REFERENCE, device, finished

DEVICE = "onnxruntime:cpu"


@pytest.fixture
def writes(monkeypatch):
    """What was converted for a device, and so not found in the cache."""
    seen = []
    write = forms._write

    def counted(model, device, path):
        seen.append(device)
        return write(model, device, path)

    monkeypatch.setattr(forms, "_write", counted)
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
@pytest.mark.parametrize("pattern", ["*.onnx", "entry.json", "known.json"])
def test_a_damaged_entry_is_left_aside(tmp_path, writes, damage, pattern):
    computes(tmp_path)
    (path,) = tmp_path.glob(f"*/{pattern}")
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
    (first,) = tmp_path.iterdir()
    other = bytes(31) + b"x"
    computes(tmp_path, token=other)
    (second,) = set(tmp_path.iterdir()) - {first}
    shutil.rmtree(second)
    first.rename(second)
    computes(tmp_path, token=other)
    assert len(writes) == 3


@pytest.mark.parametrize("text", ["[]", "{}", "nothing", '{"checksum": 3}', "[" * 100_000])
def test_a_note_may_be_anything(tmp_path, writes, text):
    computes(tmp_path)
    (note,) = tmp_path.glob("*/entry.json")
    assert list(json.loads(note.read_text())["versions"]) == [DEVICE]
    note.write_text(text)
    computes(tmp_path)
    assert len(writes) == 2


def weighted(weights):
    """The sum of both inputs, and weights."""
    model = nnapi.Model()
    kind = OperandType(FLOAT, weights.shape)
    a, b, middle, constant, out = (model.add_operand(kind) for _ in range(5))
    activation = model.add_operand(OperandType(OperandCode.INT32))
    model.set_operand_value(constant, weights)
    model.set_operand_value(activation, np.int32(0))
    model.add_operation(OperationCode.ADD, [a, b, activation], [middle])
    model.add_operation(OperationCode.ADD, [middle, constant, activation], [out])
    model.identify_inputs_and_outputs([a, b], [out])
    model.finish()
    return model


def gives(folder, weights, name=DEVICE):
    """What a model of these weights gives for zeros, which must be the weights."""
    made = nnapi.Compilation.create_for_devices(weighted(weights), [device(name)])
    made.set_caching(folder, TOKEN)
    made.finish()
    execution = nnapi.Execution(made)
    result = np.zeros(weights.shape, np.float32)
    for index in (0, 1):
        execution.set_input(index, np.zeros(weights.shape, np.float32))
    execution.set_output(0, result)
    execution.compute()
    return result


@pytest.mark.parametrize("place", [4, 5000, 9998])
@pytest.mark.parametrize("change", ["another", "moved"])
def test_every_weight_counts(tmp_path, writes, place, change):
    first = np.arange(10_000, dtype=np.float32)
    second = first.copy()
    if change == "another":
        second[place] += 1
    else:
        second[place - 4 : place + 2] = np.roll(second[place - 4 : place + 2], 2)
    for weights in (first, second):
        assert np.array_equal(gives(tmp_path, weights), weights)
    assert len(writes) == 2
    assert len(list(tmp_path.iterdir())) == 1, "a token has one entry"


@pytest.mark.parametrize("name", ["onnxruntime:cpu", "litert:cpu"])
def test_an_entry_is_not_exchanged_while_it_is_read(tmp_path, monkeypatch, name):
    first, second = np.arange(2000, dtype=np.float32), np.ones(2000, np.float32)
    gives(tmp_path, first, name)
    find = CacheSlot.find

    def found_before_another_is_kept(slot, versions):
        found = find(slot, versions)
        monkeypatch.setattr(CacheSlot, "find", find)
        assert np.array_equal(gives(tmp_path, second, name), second)
        return found

    monkeypatch.setattr(CacheSlot, "find", found_before_another_is_kept)
    assert np.array_equal(gives(tmp_path, first, name), first)


@pytest.mark.parametrize("folder", ["a\0b", b"a\0b", "\ud800", "x" * 5000])
def test_a_folder_that_cannot_be_keeps_nothing(folder, writes):
    computes(folder)
    assert writes == []


def test_a_folder_that_is_missing_keeps_nothing(tmp_path, writes):
    computes(tmp_path / "missing")
    assert writes == []
    assert not (tmp_path / "missing").exists()


def test_another_process_finds_the_model(tmp_path, writes):
    computes(tmp_path)
    code = f"""
import importlib.util, sys
sys.path[:0] = {sys.path!r}
from nnconv.runtime.core import forms
def fail(*_):
    raise AssertionError("it is converted again")
forms._write = fail
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
    (path,) = tmp_path.glob("*/*.onnx")
    graph = onnx.load(path).graph
    again = backends.compile(path, DEVICE, optimize=False)
    feeds = {info.name: array() for info in again.inputs}
    assert np.array_equal(next(iter(again.run(feeds).values())), 2 * array())
    assert [node.op_type for node in graph.node] == ["Add"]


def test_another_kind_of_cpu_finds_nothing(tmp_path, writes, monkeypatch):
    computes(tmp_path)
    monkeypatch.setattr(program, "_version", lambda device: f"{device} on another CPU")
    computes(tmp_path)
    assert len(writes) == 2


def two_pieces():
    """A product and a sum that no device takes whole: SQRT stands between them."""
    model = nnapi.Model()
    first = last = model.add_operand(nnapi.OperandType(FLOAT, (64, 512)))
    weights = model.add_operand(nnapi.OperandType(FLOAT, (512, 512)))
    model.set_operand_value(weights, np.eye(512, dtype=np.float32) * 2)
    bias = model.add_operand(nnapi.OperandType(FLOAT, (512,)))
    model.set_operand_value(bias, np.zeros(512, np.float32))
    none = model.add_operand(nnapi.OperandType(nnapi.OperandCode.INT32))
    model.set_operand_value(none, np.int32(0))
    for code in (OperationCode.FULLY_CONNECTED, OperationCode.SQRT, OperationCode.FULLY_CONNECTED):
        others = [] if code is OperationCode.SQRT else [weights, bias, none]
        result = model.add_operand(nnapi.OperandType(FLOAT, (64, 512)))
        model.add_operation(code, [last, *others], [result])
        last = result
    model.identify_inputs_and_outputs([first], [last])
    model.finish()
    return model


def roots(folder, names):
    """Compile and run them; gives where they ran."""
    made = nnapi.Compilation.create_for_devices(two_pieces(), [device(name) for name in names])
    made.set_caching(folder, TOKEN)
    made.finish()
    execution = nnapi.Execution(made)
    data = np.random.default_rng(0).random((64, 512), np.float32)
    result = np.zeros_like(data)
    execution.set_input(0, data)
    execution.set_output(0, result)
    execution.compute()
    np.testing.assert_allclose(result, 2 * np.sqrt(2 * data), rtol=1e-6)
    return made.program.device_for(((64, 512),))


@pytest.fixture
def no_square_roots(monkeypatch):
    """No device but the reference takes SQRT; gives what devices were asked to convert."""
    asked = []

    def picky(inner):
        def ask(model, device, *args, **options):
            if isinstance(model, Model) and device != REFERENCE:
                asked.append(device)
                if any(node.op.name == "Sqrt" for node in model.graph.nodes):
                    raise BackendError(f"{device} has no Sqrt")
            return inner(model, device, *args, **options)

        return ask

    monkeypatch.setattr(backends, "compile", picky(backends.compile))
    monkeypatch.setattr(forms, "_write", picky(forms._write))
    return asked


@pytest.mark.parametrize("name", ["onnxruntime:cpu", "litert:cpu"])
def test_pieces_are_converted_once(tmp_path, no_square_roots, name):
    names = [name, REFERENCE]
    assert roots(tmp_path, names) == f"{name}+{REFERENCE}"
    (entry,) = tmp_path.iterdir()
    assert len([path for path in entry.iterdir() if path.suffix in (".onnx", ".tflite")]) == 2
    no_square_roots.clear()
    assert roots(tmp_path, names) == f"{name}+{REFERENCE}"
    assert no_square_roots == []
    assert list(tmp_path.iterdir()) == [entry]


@pytest.mark.usefixtures("no_square_roots")
def test_weights_of_what_is_kept_lie_beside_it(tmp_path):
    roots(tmp_path, [DEVICE, REFERENCE])
    (entry,) = tmp_path.iterdir()
    for path in entry.glob("*.onnx"):
        assert path.stat().st_size < 10_000
        assert path.with_name(f"{path.name}.data").stat().st_size >= 4 * 512 * 512


@pytest.mark.parametrize("suffix", [".onnx", ".onnx.data", "known.json", "entry.json"])
def test_a_damaged_piece_is_converted_anew(tmp_path, no_square_roots, suffix):
    roots(tmp_path, [DEVICE, REFERENCE])
    path = next(path for path in tmp_path.glob("*/*") if path.name.endswith(suffix))
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    no_square_roots.clear()
    roots(tmp_path, [DEVICE, REFERENCE])
    assert no_square_roots
    no_square_roots.clear()
    roots(tmp_path, [DEVICE, REFERENCE])
    assert no_square_roots == []


@pytest.mark.usefixtures("no_square_roots")
def test_a_piece_that_goes_while_it_is_looked_for_is_converted_anew(tmp_path, monkeypatch):
    roots(tmp_path, [DEVICE, REFERENCE])
    find = CacheSlot.find

    def found_too_late(self, versions):
        found = find(self, versions)
        for path in tmp_path.glob("*/*.onnx"):
            path.unlink()
        return found

    monkeypatch.setattr(CacheSlot, "find", found_too_late)
    assert roots(tmp_path, [DEVICE, REFERENCE]) == f"{DEVICE}+{REFERENCE}"


@pytest.mark.usefixtures("no_square_roots")
def test_other_devices_have_entries_of_their_own(tmp_path):
    assert roots(tmp_path, [DEVICE, REFERENCE]) == f"{DEVICE}+{REFERENCE}"
    assert roots(tmp_path, ["litert:cpu", REFERENCE]) == f"litert:cpu+{REFERENCE}"
    assert roots(tmp_path, [REFERENCE]) == REFERENCE
    assert len(list(tmp_path.iterdir())) == 2  # the reference keeps nothing


def test_where_nothing_can_be_written_the_model_runs_all_the_same(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(forms, "_write", full)
    computes(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_threads_keep_one_entry(tmp_path):
    threads = [threading.Thread(target=computes, args=(tmp_path,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(tmp_path.iterdir())) == 1
    computes(tmp_path)
