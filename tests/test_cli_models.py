"""What inspect and run show of a model; the model is made here, the device is a stand-in."""

import io
import json
import pickle
from types import MappingProxyType, SimpleNamespace

import numpy as np
import onnx
import pytest
from nnconv.backends import TensorInfo
from nnconv.cli import main
from onnx import TensorProto, helper

import nnconv
from nnconv.errors import ExitCode
from nnconv.ir import DType
from support.tflite_builder import TfliteBuilder


def small_model():
    b = TfliteBuilder(description="a test")
    x = b.input("x", "float32", (1, 3), signature=(-1, 3))
    q = b.input("a=b", "int8", (2,), quant=(0.5, -128))
    one = b.const(np.ones(3, np.float32))
    total = b.op("ADD", [x, one], [("float32", (1, 3))])
    y = b.op("ABS", [total], [("float32", (1, 3), None, "scope/y:0")])
    b.output(y, q)
    b.signature("serve", {"x": x, "codes": q}, {"y": y, "codes": q})
    b.metadata("made_by", b"hand")
    return b


class Doubler:
    """Gives each input back twice as large, under the names of the outputs."""

    inputs = (
        TensorInfo("x", DType.FLOAT32, (None, 3)),
        TensorInfo("a=b", DType.INT8, (2,)),
    )
    states = (SimpleNamespace(input=TensorInfo("h", DType.FLOAT32, (1,))),)
    last_seconds = 0.25
    device = "onnxruntime:cpu"
    aliases = MappingProxyType({"codes": "a=b"})

    def run(self, feeds):
        self.feeds = feeds
        return {"scope/y:0": feeds["x"] * 2, "scope_y_0": feeds["a=b"]}


def saved(array):
    """The bytes of an .npy file."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def stated(header):
    """An .npy file that has this header and nothing behind it."""
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "small.tflite"
    file.write_bytes(small_model().build())
    return str(file)


@pytest.fixture
def device(monkeypatch):
    executable = Doubler()

    def compile_for(_model, _device, **options):
        executable.options = options
        return executable

    monkeypatch.setitem(vars(nnconv), "compile", compile_for)
    return executable


@pytest.fixture
def arrays(tmp_path):
    """Options that give both inputs, and what they hold."""
    x = np.array([[1, 2, 3.5]], np.float32)
    q = np.array([-4, 5], np.int8)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "q.npy", q)
    options = ["--input", f"x={tmp_path / 'x.npy'}", "--input", f"a=b={tmp_path / 'q.npy'}"]
    return options, {"x": x, "a=b": q}


def test_inspect_counts_ops_and_constants_and_shows_types(path, capsys):
    assert main(["inspect", path, "--json"]) == ExitCode.OK
    seen = json.loads(capsys.readouterr().out)
    (signature,) = seen["signatures"]
    assert (seen["format"], seen["nodes"], seen["description"]) == ("tflite", 2, "a test")
    assert seen["ops"] == {"ABS": 1, "ADD": 1}
    assert seen["constants"] == {"count": 1, "bytes": 12}
    assert seen["metadata"] == {"made_by": 4}
    assert seen["unsupported"] == []
    assert signature["key"] == "serve"
    assert signature["inputs"] == [
        {"name": "x", "dtype": "float32", "shape": [None, 3], "quant": None, "formula": ""},
        {
            "name": "a=b",
            "dtype": "int8",
            "shape": [2],
            "quant": {"scale": [0.5], "zero_point": [-128], "axis": None, "block": 0},
            "formula": "real = 0.5 * (q + 128)",
        },
    ]
    assert [value["name"] for value in signature["outputs"]] == ["scope/y:0", "a=b"]
    assert signature["called"] == {"a=b": "codes", "scope/y:0": "y"}


def test_inspect_prints_the_same_for_people(path, capsys):
    assert main(["inspect", path, "--graph"]) == ExitCode.OK
    text = capsys.readouterr().out
    for part in ("small.tflite: tflite", "signature serve", "?,3", "2 nodes", "q + 128", "= Add("):
        assert part in text
    assert "can't convert" not in text


def test_inspect_shows_a_model_that_can_not_be_converted(tmp_path, capsys):
    b = small_model()
    b.output(b.op("Mystery", [b.input("z", "float32", (2,))], [("float32", (2,))]))
    file = tmp_path / "odd.tflite"
    file.write_bytes(b.build())
    assert main(["inspect", str(file), "--json"]) == ExitCode.OK
    seen = json.loads(capsys.readouterr().out)
    assert seen["ops"] == {"ABS": 1, "ADD": 1, "Mystery": 1}
    assert [item["op"] for item in seen["unsupported"]] == ["Mystery"]
    assert main(["inspect", str(file)]) == ExitCode.OK
    assert "can't convert" in capsys.readouterr().out


def test_run_feeds_the_files_and_saves_the_outputs(path, device, arrays, tmp_path, capsys):
    options, feeds = arrays
    out = tmp_path / "out"
    assert main(["run", path, *options, "--output-dir", str(out), "--json"]) == ExitCode.OK
    assert device.feeds.keys() == feeds.keys()
    assert all(np.array_equal(device.feeds[name], feeds[name]) for name in feeds)
    seen = json.loads(capsys.readouterr().out)
    assert (seen["random_inputs"], seen["seconds"]) == ([], 0.25)
    assert device.options == {}
    first, second = seen["outputs"]
    assert (first["name"], first["dtype"], first["shape"]) == ("scope/y:0", "float32", [1, 3])
    assert (first["min"], first["max"]) == (2.0, 7.0)
    # Two names that are the same once a file may bear them stay two files.
    assert first["file"] != second["file"]
    np.testing.assert_array_equal(np.load(first["file"]), feeds["x"] * 2)
    np.testing.assert_array_equal(np.load(second["file"]), feeds["a=b"])


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "doesn't begin as .npy files do"),
        (b"not an array", "doesn't begin as .npy files do"),
        (pickle.dumps(np.zeros(3)), "doesn't begin as .npy files do"),
        (b"\x93NUMPY\x01\x00\xff\xff{", "is broken"),
        (stated("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}"), "is broken"),
        (
            stated("{'descr': '<f4', 'fortran_order': False, 'shape': (9" + "9" * 30 + ",)}"),
            "is broken",
        ),
        (stated("{'descr': (), 'fortran_order': False, 'shape': ()}"), "is broken"),
        (stated("{'descr': '<f4', 'shape': ((((("), "is broken"),
        (stated("[" * 5000), "is broken"),
        (stated("-" * 3000 + "1"), "is broken"),
        (stated(" " * 20000), "is broken"),
        (saved(np.array([{"code": "runs"}], object)), "holds Python objects"),
        (saved(np.zeros(2, [("a", "O")])), "holds Python objects"),
        (saved(np.zeros(2, [("a", "<f4"), ("b", "<i2")])), "holds records of a, b, not numbers"),
        (saved(np.zeros((2, 3), "<M8[s]")), "holds times (datetime64[s]), not numbers"),
        (b"PK\x03\x04 and no more", "is an archive"),
        (None, "No such file"),
    ],
)
@pytest.mark.parametrize("command", ["run", "diff"])
def test_bad_input_file_is_a_usage_error(command, path, tmp_path, capsys, content, complaint):
    file = tmp_path / "bad.npy"
    if content is not None:
        file.write_bytes(content)
    arguments = [path, *([path] if command == "diff" else []), "--input", f"x={file}"]
    assert main([command, *arguments]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert complaint in told
    assert f"--input x: {file} can't be read as .npy: " in told
    assert "allow_pickle" not in told


@pytest.mark.parametrize(
    ("dtype", "name"), [("V4", "|V4"), ("longdouble", np.dtype("longdouble").name)]
)
@pytest.mark.parametrize("command", ["run", "diff"])
def test_types_that_no_model_has_are_named(command, path, tmp_path, capsys, dtype, name):
    np.save(tmp_path / "x.npy", np.zeros((1, 3), dtype))
    device = ["--device", "reference"] if command == "run" else ["--device-a", "reference"]
    paths = [path] * (1 + (command == "diff"))
    assert main([command, *paths, *device, "--input", f"x={tmp_path / 'x.npy'}"]) == ExitCode.USAGE
    assert f"input 'x' is {name}, must be float32" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [
        saved(np.array([[1, 2, 3.5]], ">f4")),
        saved(np.asfortranarray(np.array([[1, 2, 3.5]], ">f4"))),
        stated("{'descr': '<f4', 'fortran_order': False, 'shape': (1L, 3L), }")
        + np.array([[1, 2, 3.5]], "<f4").tobytes(),
    ],
    ids=["big-endian", "big-endian by columns", "Python 2"],
)
def test_arrays_of_other_machines_are_read(path, device, tmp_path, capsys, content):
    (tmp_path / "x.npy").write_bytes(content)
    assert main(["run", path, "--input", f"x={tmp_path / 'x.npy'}"]) == ExitCode.OK
    np.testing.assert_array_equal(device.feeds["x"], np.array([[1, 2, 3.5]], np.float32))
    assert device.feeds["x"].dtype.isnative
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("device")
def test_archive_of_arrays_is_refused(path, tmp_path, capsys):
    np.savez(tmp_path / "many.npz", a=np.zeros(1))
    assert main(["run", path, "--input", f"x={tmp_path / 'many.npz'}"]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "is an archive" in told
    assert "np.save" in told


@pytest.mark.usefixtures("device")
def test_unknown_input_name_lists_those_that_exist(path, capsys):
    assert main(["run", path, "--input", "y=z.npy"]) == ExitCode.USAGE
    assert "x, a=b" in capsys.readouterr().err


def test_run_draws_what_is_not_given_and_passes_options_on(path, device, tmp_path, capsys):
    np.save(tmp_path / "h.npy", np.ones(1, np.float32))
    options = ["--input", f"h={tmp_path / 'h.npy'}", "--threads", "2", "--signature", "serve"]
    assert main(["run", path, *options, "--seed", "3", "--json"]) == ExitCode.OK
    assert device.options == {"threads": 2, "signature": "serve"}
    assert list(device.feeds) == ["x", "a=b", "h"]
    first = device.feeds["x"]
    assert json.loads(capsys.readouterr().out)["random_inputs"] == ["a=b", "x"]
    assert main(["run", path, *options, "--seed", "3"]) == ExitCode.OK
    assert np.array_equal(first, device.feeds["x"])
    assert "random inputs (seed 3): x, a=b" in capsys.readouterr().out


@pytest.fixture
def strings(tmp_path):
    """An ONNX model that puts strings in a row, and a file of some."""
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.STRING, shape)
        for name, shape in (("x", [2, 3]), ("y", [1, 6]))
    )
    graph = helper.make_graph([helper.make_node("Flatten", ["x"], ["y"], axis=0)], "row", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "s.onnx")
    np.save(tmp_path / "s.npy", np.array([["a", "bc", "d"], ["e", "", "é"]]))
    return tmp_path


@pytest.mark.parametrize("device", ["reference", "onnxruntime:cpu", "litert:cpu"])
def test_run_saves_strings(strings, capsys, device):
    given = f"x={strings / 's.npy'}"
    words = ["run", str(strings / "s.onnx"), "--device", device, "--input", given]
    assert main([*words, "--output-dir", str(strings / "out")]) == ExitCode.OK, capsys.readouterr()
    row = np.load(strings / "s.npy").reshape(1, 6)
    np.testing.assert_array_equal(np.load(strings / "out/y.npy"), row)


def test_strings_that_are_given_are_compared(strings, capsys):
    path = str(strings / "s.onnx")
    for devices in (["reference", "onnxruntime:cpu"], ["litert:cpu", "reference"]):
        words = ["diff", path, path, "--device-a", devices[0], "--device-b", devices[1]]
        assert main([*words, "--input", f"x={strings / 's.npy'}"]) == ExitCode.OK
        assert "0 differ " in capsys.readouterr().out
    assert main(["diff", path, path]) == ExitCode.USAGE
    assert "nothing can be drawn for the strings of input `x`" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "diff"])
def test_inputs_go_by_the_names_of_a_signature(command, tmp_path, capsys):
    path = str(tmp_path / "small.tflite")
    (tmp_path / "small.tflite").write_bytes(small_model().build())
    np.save(tmp_path / "codes.npy", np.array([1, 2], np.int8))
    options = {"run": ["--device"], "diff": ["--device-b", "reference", "--device-a"]}
    words = [command, path, *options[command], "reference", "--input"]
    told = main([*words, f"codes={tmp_path / 'codes.npy'}"])
    assert told == ExitCode.OK, capsys.readouterr()
    assert main([*words, "other=x.npy"]) == ExitCode.USAGE
    assert "its inputs are x, a=b" in capsys.readouterr().err
    twice = [f"{name}={tmp_path / 'codes.npy'}" for name in ("codes", "a=b")]
    assert main([*words, twice[0], "--input", twice[1]]) == ExitCode.USAGE
    assert "given twice" in capsys.readouterr().err
