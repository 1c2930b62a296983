"""nnconv diff: two models, or one on two devices, on the same inputs."""

import json

import numpy as np
import onnx
import pytest
from nnconv.cli import main
from onnx import TensorProto, helper

import nnconv
from nnconv.diff.models import diff_models
from nnconv.errors import BackendError, ExitCode, UsageError
from nnconv.formats.nnapi import file
from nnconv.formats.nnapi.types import OperationCode
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType, of_type
from nnconv.ir.graph import Graph, Model, Signature, State
from nnconv.ops.elementwise import Add, Mul
from support.nnapi_models import FLOAT, INT, NnapiBuilder, conv_model


def sums(constant, names=("x", "z"), rows=2):
    """A model that adds a constant to rows of three."""
    b = NnapiBuilder()
    x = b.input(FLOAT, (rows, 3), name=names[0])
    out = b.output(FLOAT, (rows, 3), name=names[1])
    b.run(OperationCode.ADD, [x, b.const(FLOAT, constant), b.const(INT, 0)], [out])
    return b.model()


@pytest.fixture
def write(tmp_path):
    def writer(model, name):
        path = tmp_path / name
        file.write(model, path)
        return str(path)

    return writer


def test_equal_models_of_two_formats_agree(write, tmp_path):
    a = write(conv_model(per_channel=True), "a.nnapi")
    for suffix in (".onnx", ".tflite"):
        b = tmp_path / f"b{suffix}"
        nnconv.convert(a, b)
        found = diff_models(a, b)
        assert found.passed
        assert found.source_device == "reference"
        assert found.runs == 1
        assert found.outputs[0].name == "result"


def test_a_difference_is_measured(write):
    found = diff_models(write(sums([1, 2, 3]), "a.nnapi"), write(sums([1, 2, 3.5]), "b.nnapi"))
    assert not found.passed
    assert found.outputs[0].max_abs == pytest.approx(0.5)


def test_two_devices(write):
    a = write(conv_model(), "a.nnapi")
    found = diff_models(a, a, device_a="onnxruntime:cpu", device_b="litert:cpu")
    assert found.passed
    assert (found.source_device, found.result_device) == ("onnxruntime:cpu", "litert:cpu")


def test_devices_may_have_spaces_around_them(write):
    a = write(conv_model(), "a.nnapi")
    found = diff_models(a, a, device_a=" reference ", device_b="litert:cpu, reference")
    assert (found.source_device, found.result_device) == ("reference", "litert:cpu,reference")


@pytest.mark.parametrize("side", ["device_a", "device_b"])
@pytest.mark.parametrize("device", ["nowhere", "", "reference,"])
def test_device_that_does_not_exist_is_wrong_usage(write, capsys, side, device):
    a = write(sums([1, 2, 3]), "a.nnapi")
    with pytest.raises(UsageError, match=r"^there is no device"):
        diff_models(a, a, **{side: device})
    asked = ["diff", a, a, f"--{side.replace('_', '-')}", device]
    assert main(asked) == ExitCode.USAGE
    assert "there is no device" in capsys.readouterr().err


def test_all_that_a_device_refuses_is_told_on_one_line(tmp_path, monkeypatch):
    """LiteRT adds no complex numbers; the file is named once, as it was given."""
    x, y, z = (helper.make_tensor_value_info(n, TensorProto.COMPLEX64, [2]) for n in "xyz")
    nodes = [helper.make_node("Add", ["x", source], [result]) for source, result in ("xy", "yz")]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y, z]))
    (tmp_path / "complex.onnx").write_bytes(model.SerializeToString())
    monkeypatch.chdir(tmp_path)
    for path in ("complex.onnx", tmp_path / "complex.onnx"):
        with pytest.raises(BackendError) as caught:
            diff_models(path, path, device_a="reference", device_b="litert:cpu")
        text = caught.value.message
        assert text.startswith(f"{path} can't be run: 2 unsupported nodes: Add at "), text
        assert text.count("complex.onnx") == text.count("]; Add at ") == 1, text


def two_inputs(names, outputs, *, swapped=False):
    """The difference and the sum of two inputs, which may come in the other order."""
    b = NnapiBuilder()
    ends = {}
    for name in reversed(names) if swapped else names:
        ends[name] = b.input(FLOAT, (3,), name=name)
    first, second = (ends[name] for name in names)
    codes = {outputs[0]: OperationCode.SUB, outputs[1]: OperationCode.ADD}
    for name in reversed(outputs) if swapped else outputs:
        out = b.output(FLOAT, (3,), name=name)
        b.run(codes[name], [first, second, b.const(INT, 0)], [out])
    return b.model()


def test_ends_belong_together_by_name(write):
    a = write(two_inputs("pq", "yz"), "a.nnapi")
    assert diff_models(a, write(two_inputs("pq", "yz", swapped=True), "b.nnapi")).passed


def test_ends_belong_together_by_place_where_names_differ(write):
    a = write(two_inputs("pq", "yz"), "a.nnapi")
    assert diff_models(a, write(two_inputs("mn", "uv"), "b.nnapi")).passed
    assert not diff_models(a, write(two_inputs("mn", "uv", swapped=True), "c.nnapi")).passed


def test_given_shapes_go_to_both(write):
    a = write(sums([1, 2, 3], rows=0), "a.nnapi")
    b = write(sums([1, 2, 3], names=("u", "v"), rows=0), "b.nnapi")
    assert diff_models(a, b).runs == 2  # two batches
    found = diff_models(a, b, input_shapes={"x": (7, 3)})
    assert found.passed
    assert found.runs == 1


def test_given_inputs_are_used(write):
    a, b = write(sums([1, 2, 3]), "a.nnapi"), write(sums([1, 2, 4]), "b.nnapi")
    huge = np.full((2, 3), 1e9, np.float32)  # beside which a difference of 1 is nothing
    assert diff_models(a, b, inputs={"x": huge}).passed
    with pytest.raises(UsageError, match="no input w"):
        diff_models(a, b, inputs={"w": huge})


def test_models_that_do_not_match(write):
    a = write(sums([1, 2, 3]), "a.nnapi")
    with pytest.raises(UsageError, match="1 input, the second 2"):
        diff_models(a, write(two_inputs("pq", "yz"), "b.nnapi"))
    other = write(sums([1, 2, 3], rows=4), "c.nnapi")
    with pytest.raises(UsageError, match=r"c\.nnapi"):
        diff_models(a, other)


def test_command_exits_with_1_where_results_differ(write, capsys, tmp_path):
    a, b = write(sums([1, 2, 3]), "a.nnapi"), write(sums([1, 2, 4]), "b.nnapi")
    assert main(["diff", a, b]) == ExitCode.DIFFERS
    assert "DIFFERS" in capsys.readouterr().out
    assert main(["diff", a, "--device-b", "onnxruntime:cpu"]) == ExitCode.OK
    assert "verified" in capsys.readouterr().out
    np.save(tmp_path / "x.npy", np.full((2, 3), 1e9, np.float32))
    assert main(["diff", a, b, "--input", f"x={tmp_path / 'x.npy'}", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["passed"] is True
    assert main(["diff", a]) == ExitCode.USAGE


def counting(path, *, step=1.0, name="state", count=2):
    """A model that adds its input to states; ``step`` times the last one goes out."""
    graph = Graph("net")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, (2, 3))
    states, total = [], x
    for number in range(count):
        before = b.input(f"{name}{number}", DType.FLOAT32, (2, 3))
        total = b.add(Add(), [before, total], name=f"total{number}")
        begins = np.full((2, 3), number + 0.5, np.float32)
        states.append(State(before, total, begins, before.name))
    y = b.add(Mul(), [total, b.const(np.float32(step))], name="y")
    graph.outputs = [y, *(state.output for state in states)]
    nnconv.save(Model([Signature("", graph, ("x",), ("y",), tuple(states))]), path)
    return path


@pytest.mark.parametrize("suffix", ["nnapi", "nnrt", "onnx"])
def test_states_are_compared_with_inputs_in_their_place(tmp_path, suffix, capsys):
    stateful, plain = counting(tmp_path / "a.tflite"), tmp_path / f"b.{suffix}"
    nnconv.convert(stateful, plain)
    for first, second in ((stateful, plain), (plain, stateful)):
        found = diff_models(first, second, input_shapes={"x": (2, 3)})
        assert found.passed
        assert (found.runs, len(found.outputs)) == (3, 1)
        said = [note for note in found.notes if "has states of the other model" in note]
        assert len(said) == (suffix != "onnx")  # which has states of its own
    assert main(["diff", str(stateful), str(plain)]) == ExitCode.OK
    assert (
        f"note: {plain} has states of the other model as its last 2 inputs"
        in capsys.readouterr().out
    ) == bool(said)


def test_states_that_go_wrong_are_seen(tmp_path):
    stateful = counting(tmp_path / "a.tflite")
    wrong = counting(tmp_path / "b.nnapi", step=1.01)
    assert not diff_models(stateful, wrong).passed
    assert not diff_models(wrong, stateful).passed


def test_inputs_that_may_be_states_are_named(tmp_path):
    stateful = counting(tmp_path / "a.tflite")
    other = counting(tmp_path / "b.nnapi", name="s")
    for files, which in (((stateful, other), "second"), ((other, stateful), "first")):
        with pytest.raises(UsageError, match=r"inputs?, the second") as caught:
            diff_models(*files)
        assert f"inputs of the {which} one may be what the other has as" in caught.value.hint
        assert "state0, state1" in caught.value.hint
    with pytest.raises(UsageError, match="1 input, the second 4") as caught:
        diff_models(stateful, counting(tmp_path / "c.nnapi", count=3))
    assert not caught.value.hint


def test_inputs_of_another_type_are_the_users_fault(fixtures_dir):
    """Not a runtime's."""
    paths = [fixtures_dir / "digits" / f"digits_{kind}.tflite" for kind in ("float", "int8")]
    with pytest.raises(UsageError, match="'image' is float32, must be int8"):
        diff_models(*paths)


def test_arrays_of_types_that_numpy_lacks(tmp_path):
    """A .npy file holds bfloat16 as bytes without a meaning."""
    x = helper.make_tensor_value_info("x", TensorProto.BFLOAT16, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [2, 3])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "halves", [x], [y])
    path, other = tmp_path / "neg.onnx", tmp_path / "neg.tflite"
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    assert nnconv.convert(path, other, verify=True).verification.passed
    given = tmp_path / "x.npy"
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3).astype(DType.BFLOAT16.numpy)
    np.save(given, numbers)
    arguments = ["--device", "reference", "--input", f"x={given}", "--output-dir", str(tmp_path)]
    assert main(["run", str(path), *arguments]) == ExitCode.OK
    found = of_type(np.load(tmp_path / "y.npy"), DType.BFLOAT16)
    np.testing.assert_array_equal(found, -numbers)
    same = diff_models(path, other, device_a="reference", inputs={"x": np.load(given)})
    assert same.passed


def labels(path, words):
    """A model that gives the word of the largest of three numbers, four times, and its place."""
    nodes = [
        helper.make_node("ArgMax", ["x"], ["place"], axis=1, keepdims=0),
        helper.make_node("Gather", ["words", "place"], ["word"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("x", TensorProto.FLOAT, [4, 3]),
            ("word", TensorProto.STRING, [4]),
            ("place", TensorProto.INT64, [4]),
        )
    ]
    stored = helper.make_tensor("words", TensorProto.STRING, [3], words)
    graph = helper.make_graph(nodes, "labels", ends[:1], ends[1:], [stored])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return str(path)


@pytest.mark.parametrize("device", ["onnxruntime:cpu", "reference"])
def test_strings_are_compared_and_those_that_differ_counted(tmp_path, device, capsys):
    a = labels(tmp_path / "a.onnx", ["cat", "dög", ""])
    x = np.eye(4, 3, dtype=np.float32)  # the last row's first is the largest
    devices = {"device_a": "onnxruntime:cpu", "device_b": device, "inputs": {"x": x}}
    for words, count in (
        (["cat", "dög", ""], 0),
        (["cat", "dog", ""], 1),
        (["Cat", "dög", " "], 3),
    ):
        b = labels(tmp_path / "b.onnx", words)
        found = diff_models(a, b, **devices)
        assert found.passed == (count == 0)
        word, place = found.outputs
        assert (word.max_abs, word.tolerance_kind, word.steps) == (count, "strings", None)
        assert word.max_rel_to_largest == count / 4
        assert (place.passed, place.max_abs) == (True, 0)
        assert word.row()[1] == f"{count} differ"
    assert main(["diff", a, b, "--device-b", device]) == ExitCode.DIFFERS
    assert "strings must be equal" in capsys.readouterr().out
