"""What inspect and run show of a model; the model is made here, the device is a stand-in."""

import json

import numpy as np
import pytest
from nnconv.cli import main

import nnconv
from nnconv.errors import ExitCode
from nnconv.ir import Builder, DType, Graph, Model, Quant, Signature
from nnconv.ops.elementwise import Abs, Add


def small_model():
    graph = Graph("main")
    builder = Builder(graph)
    x = builder.input("x", DType.FLOAT32, (None, 3))
    q = builder.input("a=b", DType.INT8, (2,), quant=Quant.per_tensor(0.5, 3))
    total = builder.add(Add(), [x, builder.const(np.ones(3, np.float32), "one")], name="total")
    graph.outputs.append(builder.add(Abs(), [total], name="scope/y:0"))
    graph.outputs.append(q)
    return Model([Signature("serve", graph)], format="tflite", description="a test")


class Doubler:
    """Gives each input back twice as large, under the names of the outputs."""

    def run(self, feeds):
        self.feeds = feeds
        return {"scope/y:0": feeds["x"] * 2, "scope_y_0": feeds["a=b"]}


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setitem(vars(nnconv), "load", lambda _: small_model())
    file = tmp_path / "small.tflite"
    file.write_bytes(b"0123456789")
    return str(file)


@pytest.fixture
def device(monkeypatch):
    executable = Doubler()
    monkeypatch.setitem(vars(nnconv), "compile", lambda _model, _device: executable)
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
    assert (seen["format"], seen["size"], seen["nodes"]) == ("tflite", 10, 2)
    assert seen["ops"] == {"Abs": 1, "Add": 1}
    assert seen["constants"] == {"count": 1, "bytes": 12}
    assert signature["key"] == "serve"
    assert signature["inputs"] == [
        {"name": "x", "dtype": "float32", "shape": [None, 3], "quant": None},
        {
            "name": "a=b",
            "dtype": "int8",
            "shape": [2],
            "quant": {"scale": [0.5], "zero_point": [3], "axis": None, "block": 0},
        },
    ]
    assert [value["name"] for value in signature["outputs"]] == ["scope/y:0", "a=b"]


def test_inspect_prints_the_same_for_people(path, capsys):
    assert main(["inspect", path, "--graph"]) == ExitCode.OK
    text = capsys.readouterr().out
    for part in ("small.tflite: tflite, 10 bytes", "signature serve", "?,3", "2 nodes", "= Add("):
        assert part in text


def test_run_feeds_the_files_and_saves_the_outputs(path, device, arrays, tmp_path, capsys):
    options, feeds = arrays
    out = tmp_path / "out"
    assert main(["run", path, *options, "--output-dir", str(out), "--json"]) == ExitCode.OK
    assert device.feeds.keys() == feeds.keys()
    assert all(np.array_equal(device.feeds[name], feeds[name]) for name in feeds)
    seen = json.loads(capsys.readouterr().out)
    assert seen["random_inputs"] == []
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
        (b"", "can't be read as .npy"),
        (b"not an array", "can't be read as .npy"),
        (b"\x93NUMPY\x01\x00\xff\xff{", "can't be read as .npy"),
        (None, "can't be read as .npy"),
    ],
)
def test_bad_input_file_is_a_usage_error(path, tmp_path, capsys, content, complaint):
    file = tmp_path / "bad.npy"
    if content is not None:
        file.write_bytes(content)
    assert main(["run", path, "--input", f"x={file}"]) == ExitCode.USAGE
    assert complaint in capsys.readouterr().err


@pytest.mark.usefixtures("device")
def test_pickled_input_file_is_refused(path, tmp_path, capsys):
    file = tmp_path / "bad.npy"
    np.save(file, np.array([{"code": "runs"}], object), allow_pickle=True)
    assert main(["run", path, "--input", f"x={file}"]) == ExitCode.USAGE
    assert "allow_pickle" in capsys.readouterr().err


@pytest.mark.usefixtures("device")
def test_archive_of_arrays_is_refused(path, tmp_path, capsys):
    np.savez(tmp_path / "many.npz", a=np.zeros(1))
    assert main(["run", path, "--input", f"x={tmp_path / 'many.npz'}"]) == ExitCode.USAGE
    assert "np.save" in capsys.readouterr().err


@pytest.mark.usefixtures("device")
def test_unknown_input_name_lists_those_that_exist(path, capsys):
    assert main(["run", path, "--input", "y=z.npy"]) == ExitCode.USAGE
    assert "x, a=b" in capsys.readouterr().err
