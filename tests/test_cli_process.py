"""Whole runs of the command line on real files: what is printed, what is written, how it exits."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from nnconv.cli import main

import nnconv
from nnconv.errors import ExitCode
from support.tflite_builder import TfliteBuilder


def build(*ops):
    b = TfliteBuilder()
    value = b.input("x", "float32", (2, 3))
    for op in ops:
        value = b.op(op, [value], [("float32", (2, 3))])
    b.output(value)
    return b.build()


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.tflite"
    path.write_bytes(build("ABS", "NEG"))
    return path


@pytest.fixture
def target(tmp_path):
    return tmp_path / "out.onnx"


def nnconv_process(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "nnconv", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_convert_verifies_and_prints_a_table(fixtures_dir, target):
    done = nnconv_process(
        "convert", fixtures_dir / "digits" / "digits_int8.tflite", target, "--verify"
    )
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert "verified: onnxruntime:cpu on the result against litert:cpu on the source" in done.stdout
    assert "quantized: runtimes round halves differently" in done.stdout
    assert target.exists()


def test_convert_json_is_one_object(good, target):
    done = nnconv_process("convert", good, target, "--verify", "--json")
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    seen = json.loads(done.stdout, parse_constant=pytest.fail)
    assert seen["verified"] is True
    (check,) = seen["verification"]["outputs"]
    assert check["max_abs"] == 0
    assert seen["counts"] == {"Abs": 1, "Neg": 1}


@pytest.mark.parametrize(
    ("target", "options", "key", "version", "words"),
    [
        ("m.onnx", ["--opset", "17"], "opset", 17, "onnx, opset 17"),
        ("m.nnapi", [], "feature_level", 3, "nnapi, feature level 3"),
        ("m.nnrt", [], "api", 2, "nnrt, API version 2"),
        ("m.nnrt", ["--api", "v1"], "api", 1, "nnrt, API version 1"),
        ("m.tflite", [], None, None, "tflite)"),
    ],
)
def test_the_version_written_is_told(target, options, key, version, words, tmp_path, capsys):
    path = tmp_path / "source.tflite"
    path.write_bytes(build("EXP"))
    arguments = ["convert", str(path), str(tmp_path / target), *options]
    assert main(arguments) == ExitCode.OK
    assert f"({words}" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == ExitCode.OK
    seen = json.loads(capsys.readouterr().out)
    told = {name: seen[name] for name in ("opset", "feature_level", "api")}
    assert {name: number for name, number in told.items() if number is not None} == (
        {key: version} if key else {}
    )


@pytest.mark.parametrize("command", ["devices", "ops"])
def test_lists_are_json_on_request(command):
    done = nnconv_process(command, "--json")
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert json.loads(done.stdout)


@pytest.mark.parametrize("device", ["onnxruntime:cpu", "litert:cpu", "reference"])
def test_run_saves_the_same_on_every_device(good, tmp_path, capsys, device):
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "new" / "folder"
    options = ["--device", device, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", str(out)]
    assert main(["run", str(good), *options, "--json"]) == ExitCode.OK
    (shown,) = json.loads(capsys.readouterr().out)["outputs"]
    np.testing.assert_array_equal(np.load(shown["file"]), -np.abs(x))


def test_run_takes_the_written_file_as_well(good, target, capsys):
    assert main(["convert", str(good), str(target)]) == ExitCode.OK
    capsys.readouterr()
    shown = []
    for path in (good, target):
        assert main(["run", str(path), "--json", "--seed", "5"]) == ExitCode.OK
        shown.append(json.loads(capsys.readouterr().out)["outputs"])
    assert shown[0] == shown[1]


@pytest.mark.parametrize("device", ["onnxruntime:cpu", "litert:cpu", "reference"])
@pytest.mark.parametrize("suffix", [".tflite", ".onnx", ".nnapi", ".nnrt"])
def test_run_draws_inputs_of_the_shapes_given(suffix, device, tmp_path, capsys):
    b = TfliteBuilder()
    b.output(b.op("ABS", [b.input("x", "float32", (1, 3), signature=(-1, 3))], [("float32", None)]))
    path = tmp_path / "open.tflite"
    path.write_bytes(b.build())
    if suffix != ".tflite":
        nnconv.convert(path, path.with_suffix(suffix))
    arguments = ["run", str(path.with_suffix(suffix)), "--device", device, "--json"]
    assert main([*arguments, "--input-shape", "x=4,3"]) == ExitCode.OK
    (shown,) = json.loads(capsys.readouterr().out)["outputs"]
    assert shown["shape"] == [4, 3]
    assert main([*arguments, "--input-shape", "y=4,3"]) == ExitCode.USAGE
    assert "no input 'y'" in json.loads(capsys.readouterr().out)["error"]["message"]


def refused(arguments, capsys):
    """The exit code and stderr of a refusal; with --json the code is the same, stdout says why."""
    code = main(list(map(str, arguments)))
    out, err = capsys.readouterr()
    assert out == ""
    assert main([*map(str, arguments), "--json"]) == code
    assert json.loads(capsys.readouterr().out)["error"]["message"]
    return code, err


def one_line(arguments, capsys):
    code, err = refused(arguments, capsys)
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    return code, err


def test_missing_output_folder_is_a_usage_error(good, tmp_path, capsys):
    code, err = one_line(["convert", good, tmp_path / "no" / "out.onnx"], capsys)
    assert code == ExitCode.USAGE
    assert "there is no folder" in err


def test_output_that_is_the_input_is_a_usage_error(good, capsys):
    before = good.read_bytes()
    link = good.with_name("link.onnx")
    link.symlink_to(good)
    for other in (good, link):
        code, err = one_line(["convert", good, other, "--to", "onnx"], capsys)
        assert code == ExitCode.USAGE
        assert "is the source file" in err
    assert good.read_bytes() == before


def test_output_of_no_known_format_is_a_usage_error(good, tmp_path, capsys):
    code, err = one_line(["convert", good, tmp_path / "out.xyz"], capsys)
    assert code == ExitCode.USAGE
    assert "names no format" in err


@pytest.mark.parametrize("arguments", [["--device", "abacus"], ["--signature", "none"]])
def test_wrong_choice_names_those_there_are(good, capsys, arguments):
    code, _ = one_line(["run", good, *arguments], capsys)
    assert code == ExitCode.USAGE


@pytest.mark.parametrize("command", ["convert", "inspect", "run"])
def test_folder_or_missing_file_as_model_is_a_usage_error(tmp_path, command, capsys):
    rest = [tmp_path / "out.onnx"] if command == "convert" else []
    for model in (tmp_path, tmp_path / "missing.tflite"):
        code, err = refused([command, model, *rest], capsys)
        assert code == ExitCode.USAGE
        assert model.name in err


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything is readable to root"
)
def test_unreadable_model_is_a_usage_error(good, target, capsys):
    good.chmod(0)
    assert refused(["convert", good, target], capsys)[0] == ExitCode.USAGE


@pytest.mark.parametrize("command", ["convert", "inspect", "run"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"\x1c\x00\x00\x00TFL3 and no more"])
def test_broken_model_is_a_bad_input(tmp_path, target, command, content, capsys):
    model = tmp_path / "broken.tflite"
    model.write_bytes(content)
    rest = [target] if command == "convert" else []
    code, err = one_line([command, model, *rest], capsys)
    assert code == ExitCode.BAD_INPUT
    assert "broken.tflite" in err
    assert not target.exists()


def test_unsupported_ops_are_all_listed_and_nothing_is_written(tmp_path, target, capsys):
    model = tmp_path / "odd.tflite"
    model.write_bytes(build("Mystery", "ABS", "Riddle", "Riddle"))
    target.write_bytes(b"what was there")
    code, err = refused(["convert", model, target], capsys)
    assert code == ExitCode.UNSUPPORTED
    assert [err.count(f"\n  {name} at") for name in ("Mystery", "Riddle", "ABS")] == [1, 2, 0]
    assert target.read_bytes() == b"what was there"


def test_runtime_that_fails_exits_5(tmp_path, capsys):
    model = tmp_path / "odd.tflite"
    model.write_bytes(build("Mystery"))
    code, err = one_line(["run", model, "--device", "litert:cpu"], capsys)
    assert code == ExitCode.BACKEND
    assert "Mystery" in err
