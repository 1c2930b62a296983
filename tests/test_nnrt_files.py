"""NNRt models as files, as users meet them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from nnconv.cli import main

import nnconv
from nnconv.errors import ExitCode, InvalidModelError, UsageError
from nnconv.formats import detect
from nnconv.formats.nnrt import file
from nnconv.formats.nnrt.types import DataType, OperationType
from support.nnrt_models import GraphBuilder, add_model, conv_model


@pytest.fixture
def nnrt_file(tmp_path):
    """Write a model and give its path."""

    def write(graph, name="m.nnrt"):
        file.write(graph, tmp_path / name)
        return tmp_path / name

    return write


def told(capsys, *arguments):
    """What the command prints as JSON."""
    code = main([*map(str, arguments), "--json"])
    printed = capsys.readouterr().out
    assert code == ExitCode.OK, printed
    return json.loads(printed)


@pytest.mark.parametrize("name", ["m.nnrt", "m.json", "m.onnx", "m"])
def test_files_are_told_by_their_content(nnrt_file, name):
    path = nnrt_file(add_model(), "m.json" if name == "m.json" else "m.nnrt")
    path = path.rename(path.with_name(name))
    assert detect(path) == "nnrt"
    model = nnconv.load(path)
    assert [(v.name, v.shape) for v in model.inputs] == [("x", (2, 3))]
    assert [(v.name, v.shape) for v in model.outputs] == [("y", (2, 3))]


def test_inspect(nnrt_file, capsys):
    facts = told(capsys, "inspect", nnrt_file(conv_model(quantized=True)))
    assert facts["format"] == "nnrt"
    assert facts["description"] == "API version 2"
    assert facts["ops"] == {"CONV2D": 1, "MAX_POOL": 1}
    assert facts["constants"] == {"count": 2, "bytes": 88}


def test_run(nnrt_file, tmp_path):
    np.save(tmp_path / "x.npy", np.full((2, 3), 2, np.float32))
    path, folder = nnrt_file(add_model()), tmp_path / "out"
    options = ["--input", f"x={tmp_path / 'x.npy'}", "--output-dir", str(folder)]
    assert main(["run", str(path), *options]) == ExitCode.OK
    found = np.load(folder / "y.npy")
    np.testing.assert_allclose(found, np.float32([[3, 0, 2.1]] * 2), rtol=1e-6)


@pytest.mark.parametrize("suffix", [".onnx", ".tflite", ".nnapi"])
@pytest.mark.parametrize("quantized", [False, True])
def test_convert_and_verify(nnrt_file, tmp_path, suffix, quantized):
    target = tmp_path / f"m{suffix}"
    report = nnconv.convert(nnrt_file(conv_model(quantized=quantized)), target, verify=True)
    assert report.source_format == "nnrt"
    assert report.verification is not None
    assert report.verification.passed


def test_ops_lists_all_operations(capsys):
    read = told(capsys, "ops", "--format", "nnrt")["nnrt"]["read"]
    assert set(read) == {code.name for code in OperationType}


def log_model():
    b = GraphBuilder()
    b.op("LOG", [b.input((2,), name="x")], [b.output((2,), name="y")])
    return b.graph


def odd_model():
    graph = log_model()
    graph.tensors[0].data_type = DataType.INT32
    return graph


@pytest.mark.parametrize(
    ("graph", "least"), [(add_model(), 1), (log_model(), 2), (odd_model(), None)]
)
def test_check_tells_the_least_version(nnrt_file, graph, least):
    path = nnrt_file(graph)
    for api in (None, 1, 2):
        found = nnconv.check(path, "nnrt", api=api)
        assert found.least_version == least
        assert found.passed is (least is not None and (api or 2) >= least)
        assert found.version_kind == "API version"


def test_check_names_operation_and_what_is_allowed(nnrt_file):
    (obstacle,) = nnconv.check(nnrt_file(log_model()), "nnrt", api=1).obstacles
    assert (obstacle.op, obstacle.where) == ("LOG", "operation 0 (LOG)")
    assert obstacle.why == "version 1 doesn't know the operation"
    assert (obstacle.hint, obstacle.version) == ("API version 2 allows it", 2)
    found = nnconv.check(nnrt_file(odd_model()), "nnrt").obstacles
    assert "input is INT32, allowed are FLOAT32, FLOAT16" in [o.why for o in found]


def test_check_on_the_command_line(nnrt_file, capsys):
    path = str(nnrt_file(log_model()))
    assert main(["check", path, "--to", "nnrt"]) == ExitCode.OK
    assert main(["check", path, "--to", "nnrt", "--api", "v2"]) == ExitCode.OK
    assert main(["check", path, "--to", "nnrt", "--api", "v1"]) == ExitCode.UNSUPPORTED
    assert "API version 2 allows it" in " ".join(capsys.readouterr().out.split())
    assert main(["check", path, "--to", "nnrt", "--api", "v3"]) == ExitCode.USAGE


@pytest.mark.parametrize(
    ("to", "options"), [("nnrt", {"api": 3}), ("nnrt", {"opset": 18}), ("onnx", {"api": 1})]
)
def test_wrong_options(nnrt_file, to, options):
    with pytest.raises(UsageError):
        nnconv.check(nnrt_file(add_model()), to, **options)


def test_a_model_that_breaks_rules_is_bad_input(nnrt_file):
    graph = add_model()
    graph.operations[0].inputs = (0,)
    with pytest.raises(InvalidModelError, match="1 input, allowed are 2"):
        nnconv.load(nnrt_file(graph))
