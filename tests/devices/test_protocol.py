"""What all devices have in common: names, checks, states, options, and the same results."""

import json

import numpy as np
import pytest
from nnconv.backends import Device, devices, reference_ops
from nnconv.backends import compile as compile_for

import nnconv
from nnconv.errors import (
    BackendError,
    ExitCode,
    InvalidModelError,
    UsageError,
)
from support.compare import assert_close, assert_same
from support.tflite_builder import TfliteBuilder

RUNNABLE = ["onnxruntime:cpu", "litert:cpu", "reference"]


def two_entry_points():
    """Two signatures on subgraphs of their own; the second turns its inputs' order round."""
    b = TfliteBuilder()
    x = b.input("x:0", "float32", (2, 3), signature=(-1, 3))
    y = b.op("ABS", [x], [("float32", (2, 3), None, "y:0")])
    b.output(y)
    b.signature("first", {"x": x}, {"y": y})
    other = b.subgraph("other")
    p = other.input("p:0", "float32", (2,))
    q = other.input("q:0", "float32", (2,))
    d = other.op("SUB", [p, q], [("float32", (2,), None, "d:0")])
    other.output(d)
    b.signature("second", {"right": q, "left": p}, {"difference": d})
    return b


def counter():
    """A variable that grows by the input; the output is its new value."""
    b = TfliteBuilder()
    x = b.input("x", "float32", (1, 2))
    weights = b.const(np.ones((1, 2), np.float32))
    recurrent = b.const(np.ones((1, 1), np.float32))
    bias = b.const(np.zeros(1, np.float32))
    hidden = b.variable("float32", (1, 1), name="h")
    options = {"fused_activation_function": "NONE"}
    y = b.op("RNN", [x, weights, recurrent, bias, hidden], [("float32", (1, 1))], options=options)
    b.output(y)
    return b


def only(results):
    """The one number of the one output."""
    (array,) = results.values()
    return array.item()


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "two.tflite"
    path.write_bytes(two_entry_points().build())
    return path


def test_every_documented_device_is_listed():
    found = {device.name: device for device in devices()}
    documented = {*RUNNABLE, "onnxruntime:cuda", "onnxruntime:dml"}
    assert set(found) == documented
    assert all(found[name].available for name in RUNNABLE)
    assert all(device.version for device in found.values() if device.available)
    assert all(device.why_not for device in found.values() if not device.available)
    json.dumps([device.as_dict() for device in found.values()])


def test_note_says_what_is_missing_before_the_version():
    assert Device("d", "cpu", available=True, version="r 1").note == "r 1"
    assert Device("d", "gpu", available=False, version="r 1", why_not="no gpu").note == "no gpu"


@pytest.mark.parametrize("device", RUNNABLE)
def test_runs_the_first_entry_point_for_any_batch(file, device, rng):
    executable = compile_for(file, device)
    (info,) = executable.inputs
    assert (info.name, str(info.dtype), len(info.shape), info.shape[1]) == ("x:0", "float32", 2, 3)
    for batch in (2, 5, 1):
        x = rng.standard_normal((batch, 3)).astype(np.float32)
        results = executable.run({"x:0": x})
        assert list(results) == ["y:0"]
        assert_same(results["y:0"], np.abs(x))
        assert executable.last_seconds > 0


@pytest.mark.parametrize("device", RUNNABLE)
def test_runs_another_entry_point_by_either_name_of_its_inputs(file, device):
    executable = compile_for(file, device, signature="second")
    assert [info.name for info in executable.inputs] == ["p:0", "q:0"]
    a, b = np.array([5, 6], np.float32), np.array([1, 8], np.float32)
    for feeds in ({"p:0": a, "q:0": b}, {"right": b, "left": a}):
        assert_same(executable.run(feeds)["d:0"], a - b)
    with pytest.raises(UsageError, match="input 'q:0' is given twice, by both of its names"):
        executable.run({"p:0": a, "q:0": b, "right": a})


@pytest.mark.parametrize("device", RUNNABLE)
def test_input_shapes_replace_those_of_the_file(file, device):
    executable = compile_for(file, device, input_shapes={"x:0": (4, 3)})
    assert executable.inputs[0].shape == (4, 3)
    x = np.full((4, 3), -1, np.float32)
    assert_same(executable.run({"x:0": x})["y:0"], -x)
    with pytest.raises(UsageError, match=r"has shape \[2, 3\], must be \[4, 3\]"):
        executable.run({"x:0": x[:2]})


@pytest.mark.parametrize("device", RUNNABLE)
@pytest.mark.parametrize(
    ("feeds", "complaint"),
    [
        ({}, "no data for input 'x:0'"),
        ({"x:0": np.zeros((2, 3), np.float32), "z": np.zeros(1)}, "there is no input 'z'"),
        ({"x:0": np.zeros((2, 3))}, "is float64, must be float32"),
        ({"x:0": np.zeros((2, 3), np.int8)}, "is int8, must be float32"),
        ({"x:0": np.zeros((2, 4), np.float32)}, r"has shape \[2, 4\], must be \[\?, 3\]"),
        ({"x:0": np.zeros(3, np.float32)}, r"has shape \[3\]"),
        ({"x:0": np.float32(1)}, r"has shape \[\]"),
    ],
)
def test_wrong_inputs_are_usage_errors(file, device, feeds, complaint):
    with pytest.raises(UsageError, match=complaint):
        compile_for(file, device).run(feeds)


@pytest.mark.parametrize("device", RUNNABLE)
def test_strided_and_reversed_inputs_are_taken_as_they_look(file, device, rng):
    x = rng.standard_normal((3, 4)).astype(np.float32).T[::-2]
    assert_same(compile_for(file, device).run({"x:0": x})["y:0"], np.abs(x))


@pytest.mark.parametrize("device", RUNNABLE)
def test_states_live_until_reset(tmp_path, device):
    path = tmp_path / "counter.tflite"
    path.write_bytes(counter().build())
    executable = compile_for(path, device)
    (name,) = [info.name for info in executable.inputs]
    x = np.array([[1, 0.5]], np.float32)
    seen = [only(executable.run({name: x})) for _ in range(3)]
    assert seen == [1.5, 3.0, 4.5]
    executable.reset()
    assert only(executable.run({name: x})) == 1.5


def test_state_that_is_fed_comes_back_and_leaves_what_is_kept(tmp_path):
    path = tmp_path / "counter.tflite"
    path.write_bytes(counter().build())
    executable = compile_for(path, "reference")
    (state,) = executable.states
    x = np.array([[1, 0.5]], np.float32)
    results = executable.run({"x": x, state.input.name: np.array([[10]], np.float32)})
    assert results[state.output].item() == 11.5
    assert list(executable.run({"x": x})) == [info.name for info in executable.outputs]
    assert only(executable.run({"x": x})) == 3.0


def test_written_file_keeps_states_as_the_source_does(tmp_path):
    source, target = tmp_path / "counter.tflite", tmp_path / "counter.onnx"
    source.write_bytes(counter().build())
    nnconv.convert(source, target)
    x = {"x": np.array([[1, 0.5]], np.float32)}
    on_litert, on_onnx = compile_for(source, "litert:cpu"), compile_for(target)
    assert [i.name for i in on_onnx.inputs] == [i.name for i in on_litert.inputs]
    for _ in range(3):
        a, b = (next(iter(e.run(x).values())) for e in (on_litert, on_onnx))
        assert_close(b, a)


@pytest.mark.parametrize("device", RUNNABLE)
def test_names_that_are_empty_or_doubled_are_made_the_same_everywhere(tmp_path, device):
    b = TfliteBuilder()
    inputs = [b.input(name, "float32", (2,)) for name in ("", "a", "a", "")]
    names = ["", "b", "b", ""]
    for x, name in zip(inputs, names, strict=True):
        b.output(b.op("ABS", [x], [("float32", (2,), None, name)]))
    path = tmp_path / "m.tflite"
    path.write_bytes(b.build())
    executable = compile_for(path, device)
    assert [i.name for i in executable.inputs] == ["input_0", "a", "a_1", "input_3"]
    assert [o.name for o in executable.outputs] == ["output_0", "b", "b_1", "output_3"]
    feeds = {i.name: np.full(2, -n, np.float32) for n, i in enumerate(executable.inputs)}
    found = [array.tolist() for array in executable.run(feeds).values()]
    assert found == [[n, n] for n in range(4)]


@pytest.mark.parametrize("device", ["onnxruntime:cpu", "reference"])
def test_model_in_memory_runs_and_stays_as_it_was(file, device):
    from nnconv.ir.printer import print_model

    model = nnconv.load(file)
    before = print_model(model)
    x = np.full((2, 3), -2, np.float32)
    assert_same(compile_for(model, device).run({"x:0": x})["y:0"], -x)
    assert print_model(model) == before
    with pytest.raises(UsageError, match="goes with a file"):
        compile_for(model, device, input_shapes={"x:0": (4, 3)})


@pytest.mark.parametrize("device", RUNNABLE)
def test_closed_model_says_so(file, device):
    with compile_for(file, device) as executable:
        pass
    with pytest.raises(UsageError, match="was closed"):
        executable.run({"x:0": np.zeros((1, 3), np.float32)})


@pytest.mark.parametrize(
    ("device", "options", "complaint"),
    [
        ("abacus", {}, "devices are onnxruntime:cpu, "),
        ("reference", {"threads": 1}, "its options are input_shapes, signature"),
        ("onnxruntime:cpu", {"threads": -1}, "must be 0 to 1024"),
        ("litert:cpu", {"threads": True}, "must be 0 to 1024"),
        ("litert:cpu", {"resolver": "best"}, "allowed are xnn, opt, ref"),
        *((device, {"signature": "third"}, "no signature 'third'") for device in RUNNABLE),
        *((device, {"colour": 1}, "has no option colour") for device in RUNNABLE),
    ],
)
def test_wrong_options_are_usage_errors(file, device, options, complaint):
    with pytest.raises(UsageError, match=complaint) as caught:
        compile_for(file, device, **options)
    assert caught.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize("device", RUNNABLE)
def test_broken_file_is_a_bad_input_on_every_device(tmp_path, device):
    path = tmp_path / "broken.tflite"
    path.write_bytes(two_entry_points().build()[:200])
    with pytest.raises(InvalidModelError):
        compile_for(path, device)


@pytest.mark.parametrize("device", ["onnxruntime:cuda", "onnxruntime:dml"])
def test_device_that_is_not_there_names_what_would_help(file, device):
    if next(d for d in devices() if d.name == device).available:
        pytest.skip("it is there")
    with pytest.raises(BackendError, match="pip install"):
        compile_for(file, device)


@pytest.mark.parametrize("kind", ["model", "onnx"])
def test_litert_runs_what_is_no_tflite_file(file, tmp_path, kind):
    source = nnconv.load(file)
    if kind == "onnx":
        source = tmp_path / "m.onnx"
        nnconv.convert(file, source)
    with compile_for(source, "litert:cpu") as executable:
        results = executable.run({"x:0": np.array([[1, -2, 3]], np.float32)})
    assert_same(results["y:0"], np.array([[1, 2, 3]], np.float32))


def test_reference_ops_are_those_with_kernels():
    assert {"Abs", "Conv2D"} <= reference_ops()
