"""NNAPI models as users meet them: files to load, show, run, and convert with a check."""

import json

import numpy as np
import pytest
from nnconv.cli import main

import nnconv
from nnconv.errors import ExitCode, InvalidModelError, UsageError
from nnconv.formats import detect
from nnconv.formats.nnapi import file
from nnconv.formats.nnapi.types import OperandCode, OperationCode
from support.nnapi_models import FLOAT, INT, NnapiBuilder, add_model, conv_model, if_model
from support.tflite_builder import TfliteBuilder

MODELS = {
    "add": add_model,
    "conv": lambda: conv_model(per_channel=True, nchw=False),
    "if": if_model,
}
DEVICES = ["reference", "onnxruntime:cpu", "litert:cpu"]


@pytest.fixture(params=[".nnapi", ".json"])
def suffix(request):
    return request.param


@pytest.fixture
def write(tmp_path):
    def writer(model, name="model.nnapi"):
        path = tmp_path / name
        file.write(model, path)
        return path

    return writer


def told(capsys, *arguments):
    """What a command that must succeed says as JSON."""
    code = main([*map(str, arguments), "--json"])
    out = capsys.readouterr().out
    assert code == ExitCode.OK, out
    return json.loads(out)


def test_files_are_told_by_content(write, suffix, tmp_path):
    path = write(add_model(), f"model{suffix}")
    assert detect(path) == "nnapi"
    assert [value.name for value in nnconv.load(path).inputs] == ["x"]
    misnamed = tmp_path / "model.tflite"
    misnamed.write_bytes(path.read_bytes())
    assert detect(misnamed) == "nnapi"


def test_json_of_another_kind_is_no_model(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"format": "something else"}')
    with pytest.raises(InvalidModelError, match="can't be told"):
        nnconv.load(path)


@pytest.mark.parametrize("name", ["model.npz", "model.pt"])
def test_archive_without_an_nnapi_module_says_so(tmp_path, name):
    path = tmp_path / name
    with path.open("wb") as opened:
        np.savez(opened, x=np.ones(3))
    with pytest.raises(InvalidModelError, match=r"data\.pkl"):
        nnconv.load(path)


@pytest.mark.parametrize("name", MODELS)
def test_inspect_shows_interface_and_operations(write, suffix, capsys, name):
    model = MODELS[name]()
    facts = told(capsys, "inspect", write(model, f"m{suffix}"), "--graph")
    assert facts["format"] == "nnapi"
    assert facts["unsupported"] == []
    counted = sum(len(graph.operations) for _, graph in model.graphs())
    assert facts["nodes"] == counted
    names = [model.main.operands[index].name for index in model.main.inputs]
    assert [value["name"] for value in facts["signatures"][0]["inputs"]] == names


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MODELS)
def test_run_gives_the_same_on_every_device(write, capsys, tmp_path, name, device):
    path = write(MODELS[name]())
    told(capsys, "run", path, "--device", device, "--output-dir", tmp_path / "out")
    told(capsys, "run", path, "--device", "reference", "--output-dir", tmp_path / "wanted")
    wanted = sorted((tmp_path / "wanted").iterdir())
    assert wanted
    for saved in wanted:
        got = np.load(tmp_path / "out" / saved.name)
        step = 1 if got.dtype == np.uint8 else 1e-6
        np.testing.assert_allclose(got, np.load(saved), rtol=1e-5, atol=step)


def test_compile_takes_a_file_and_a_loaded_model(write):
    path = write(add_model())
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for source in (path, nnconv.load(path)):
        got = nnconv.compile(source, "onnxruntime:cpu").run({"x": x})
        np.testing.assert_array_equal(got["z"], x + np.arange(1, 4))


@pytest.mark.parametrize("target", [".onnx", ".tflite"])
@pytest.mark.parametrize("name", MODELS)
def test_conversion_is_verified(write, tmp_path, target, name):
    report = nnconv.convert(write(MODELS[name]()), tmp_path / f"out{target}", verify=True)
    assert report.source_format == "nnapi"
    assert report.verified
    assert report.verification.source_device == "reference"
    assert report.verification.runs


@pytest.mark.parametrize("suffix", [".nnapi", ".onnx", ".tflite"])
@pytest.mark.parametrize("name", ["add", "conv"])
def test_conversion_to_nnapi_is_verified(write, tmp_path, capsys, suffix, name):
    source = tmp_path / f"source{suffix}"
    nnconv.convert(write(MODELS[name]()), source)
    target = tmp_path / "target.nnapi"
    facts = told(capsys, "convert", source, target, "--verify", "--feature-level", "4")
    assert facts["verified"]
    assert facts["feature_level"] <= 4
    if name == "add":
        assert facts["feature_level"] == 1
    assert facts["verification"]["result_device"] == "reference"
    kept = nnconv.load(target)
    assert [v.name for v in kept.inputs] == [v.name for v in nnconv.load(source).inputs]


def test_the_twin_is_written_where_its_format_is_named(write, tmp_path, capsys):
    path, twin = write(conv_model()), tmp_path / "twin.json"
    with pytest.raises(UsageError, match="suffix"):
        nnconv.convert(path, twin)
    told(capsys, "convert", path, twin, "--to", "nnapi", "--verify")
    assert json.loads(twin.read_text())["format"] == "nnconv.nnapi"


def test_integers_that_became_narrower_are_verified(tmp_path):
    b = TfliteBuilder()
    x = b.input("x", "int64", (2, 3))
    b.output(b.op("ABS", [x], [("int64", (2, 3))]))
    source = tmp_path / "m.tflite"
    source.write_bytes(b.build())
    report = nnconv.convert(source, tmp_path / "m.nnapi", verify=True)
    assert report.verified
    assert [kind for _, kind, _ in report.inputs + report.outputs] == ["int32", "int32"]
    assert any("int64" in note for note in report.notes)


def test_open_extents_are_verified_with_two_batches(write, tmp_path):
    b = NnapiBuilder()
    x = b.input(FLOAT, (0, 3), name="x")
    out = b.output(FLOAT, (0, 3), name="y")
    b.run(OperationCode.ADD, [x, b.const(FLOAT, [1, 2, 3]), b.const(INT, 1)], [out])
    report = nnconv.convert(write(b.model()), tmp_path / "y.onnx", verify=True)
    assert report.verified
    assert report.verification.runs == 2


def test_a_wrong_result_is_found(write, tmp_path, monkeypatch):
    """The source is another model than the one that was converted: that must show."""
    path, other = write(add_model()), tmp_path / "other.nnapi"
    b = NnapiBuilder()
    x = b.input(FLOAT, (2, 3), name="x")
    y = b.const(FLOAT, [1, 2, 4])
    b.run(OperationCode.ADD, [x, y, b.const(INT, 0)], [b.output(FLOAT, (2, 3), name="z")])
    file.write(b.model(), other)
    from nnconv.diff import verify

    real = verify.verify_conversion

    def swapped(report, model, **options):
        report.source = str(other)
        return real(report, model, **options)

    monkeypatch.setattr(verify, "verify_conversion", swapped)
    assert nnconv.convert(path, tmp_path / "out.onnx", verify=True).verified is False


def test_ops_lists_what_is_read(capsys):
    read = told(capsys, "ops", "--format", "nnapi")["nnapi"]["read"]
    assert set(read) == {code.name for code in OperationCode} - {"OEM_OPERATION"}


def test_a_model_that_breaks_a_rule_is_refused(write):
    b = NnapiBuilder()
    x = b.input(FLOAT, (2, 3), name="x")
    y = b.const(OperandCode.TENSOR_INT32, [1, 2, 3])
    b.run(OperationCode.ADD, [x, y, b.const(INT, 0)], [b.output(FLOAT, (2, 3), name="z")])
    path = write(b.model())
    with pytest.raises(InvalidModelError, match="ADD"):
        nnconv.load(path)
    with pytest.raises(UsageError, match="can't be read"):
        nnconv.load(path, format="caffe")
