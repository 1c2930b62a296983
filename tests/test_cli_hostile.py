"""The command line where names, streams and options are not what one hopes for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from nnconv.cli import main

import nnconv
from nnconv.errors import BackendError, ExitCode, UnsupportedError
from support.tflite_builder import TfliteBuilder

HOSTILE = "a\n\x1b[31mb\u202e"
SHOWN = r"a\n\x1b[31mb\u202e"


def build(name="x", op="NEG", shape=(2, 3)):
    b = TfliteBuilder(description=HOSTILE)
    x = b.input(name, "float32", shape)
    b.output(b.op(op, [x], [("float32", shape, None, f"{name} out")]))
    return b.build()


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.tflite"
    path.write_bytes(build())
    return path


@pytest.fixture
def target(tmp_path):
    return tmp_path / "out.onnx"


def refused(capsys, *arguments):
    """The code and the line of a refusal that leaves nothing behind."""
    folder = Path(arguments[1]).parent
    before = sorted(folder.iterdir())
    code = main(list(map(str, arguments)))
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert sorted(folder.iterdir()) == before
    return code, err


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("command", ["convert", "inspect", "run"])
def test_names_can_not_forge_lines_or_steer_a_terminal(command, tmp_path, target, capsys):
    model = tmp_path / "model.tflite"
    model.write_bytes(build(HOSTILE))
    rest = {"convert": [target, "--verify"], "inspect": ["--graph"], "run": []}[command]
    assert main([command, *map(str, [model, *rest])]) == ExitCode.OK
    out = capsys.readouterr().out
    assert SHOWN in out
    assert all(line.isprintable() for line in out.splitlines())
    assert "\nb" not in out


def test_names_in_errors_are_escaped_too(tmp_path, target, capsys):
    model = tmp_path / "model.tflite"
    model.write_bytes(build(HOSTILE, op=HOSTILE))
    code, err = refused(capsys, "convert", model, target)
    assert code == ExitCode.UNSUPPORTED
    assert len(err.splitlines()) == 2
    assert all(line.isprintable() for line in err.splitlines())


def test_names_in_json_come_back_as_they_are(tmp_path, target, capsys):
    model = tmp_path / "model.tflite"
    model.write_bytes(build(HOSTILE))
    assert main(["convert", str(model), str(target), "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["inputs"][0][0] == HOSTILE


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "cp1252"])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_letters_that_stdout_lacks_are_escaped(encoding, options, tmp_path, target):
    model = tmp_path / "größe 入力.tflite"
    model.write_bytes(build("größe 入力"))
    done = subprocess.run(
        [sys.executable, "-m", "nnconv", "convert", model, target, *options],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (ExitCode.OK, b"")
    text = done.stdout.decode(encoding)
    if options:
        assert json.loads(text)["inputs"][0][0] == "größe 入力"
    else:
        assert ("größe 入力: float32[2,3]" in text) == (encoding == "utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_file_name_that_is_no_text(options, tmp_path, target):
    model = tmp_path / os.fsdecode(b"\xff.tflite")
    model.write_bytes(build())
    done = subprocess.run(
        [sys.executable, "-m", "nnconv", "convert", model, target, *options],
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (ExitCode.OK, b"")
    assert rb"\udcff.tflite" in done.stdout


@pytest.mark.parametrize("length", [256, 5000])
def test_a_name_that_is_too_long_is_a_usage_error(length, good, capsys):
    code, err = refused(capsys, "convert", good, good.with_name("x" * length + ".onnx"))
    assert code == ExitCode.USAGE
    assert "can't be written" in err


@pytest.mark.parametrize("name", ["\0", "a\0b.onnx", "a\0b.nnapi", "a\0b"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["convert", "GOOD", "NAME"],
        ["convert", "GOOD", "NAME", "--to", "nnrt"],
        ["convert", "NAME", "TARGET"],
        ["inspect", "NAME"],
        ["check", "NAME", "--to", "onnx"],
        ["diff", "NAME", "GOOD"],
        ["diff", "GOOD", "NAME"],
        ["run", "NAME"],
        ["run", "GOOD", "--output-dir", "NAME"],
        ["run", "GOOD", "--input", "x=NAME"],
    ],
    ids=" ".join,
)
def test_a_name_with_a_nul_byte_is_a_usage_error(name, arguments, good, target, capsys):
    places = {"GOOD": str(good), "TARGET": str(target), "NAME": name}
    given = [places.get(each, each.replace("NAME", name)) for each in arguments]
    assert main(given) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert "null byte" in err.lower() or "NUL byte" in err
    assert not target.exists()


def test_outputs_with_long_names_are_saved(tmp_path, capsys):
    model = tmp_path / "model.tflite"
    b = TfliteBuilder()
    x = b.input("x", "float32", (2,))
    names = ["入" * 300 + end for end in "ab"]
    b.output(*(b.op("NEG", [x], [("float32", (2,), None, name)]) for name in names))
    model.write_bytes(b.build())
    out = ["--output-dir", str(tmp_path / "out")]
    assert main(["run", str(model), *out, "--json"]) == ExitCode.OK
    files = [fact["file"] for fact in json.loads(capsys.readouterr().out)["outputs"]]
    assert len(set(files)) == 2
    assert all(np.load(file).shape == (2,) for file in files)


# ---------------------------------------------------------------- files


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("command", ["convert", "inspect", "run"])
def test_a_pipe_is_not_waited_for(command, tmp_path, target, capsys):
    pipe = tmp_path / "pipe.tflite"
    os.mkfifo(pipe)
    code, err = refused(capsys, command, pipe, *([target] if command == "convert" else []))
    assert code == ExitCode.BAD_INPUT
    assert "no regular file" in err


def test_a_link_stays_and_the_file_behind_it_is_written(good, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, content in (("old.onnx", b"old"), ("new.onnx", None)):
        behind = folder / name
        if content is not None:
            behind.write_bytes(content)
        link = tmp_path / name
        link.symlink_to(Path("folder") / name)
        assert main(["convert", str(good), str(link)]) == ExitCode.OK
        assert link.is_symlink()
        assert onnxruntime.InferenceSession(behind.read_bytes()).get_inputs()[0].name == "x"
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(
    ("start", "word"),
    [
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"PK\x03\x04", "zip archive"),
        (b"\x89HDF\r\n\x1a\n", "Keras"),
        (b"<!DOCTYPE html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ],
)
def test_what_another_file_is_gets_named(start, word, tmp_path, target, capsys):
    model = tmp_path / "model.tflite"
    model.write_bytes(start)
    code, err = refused(capsys, "convert", model, target)
    assert code == ExitCode.BAD_INPUT
    assert word in err


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--input-shape", "y=2,3"], "there is no input 'y'; the model's inputs are 'x'"),
        (["--input-shape", "x=2,99999999999"], "extent of 99999999999"),
        (["--input-shape", f"x=2,{10**30}"], "extent of 1000"),
        (["--input-shape", "x=2,3", "--input-shape", "x=2,4"], "given twice for 'x'"),
        (["--seed", "-1"], "-1 is not in the range"),
        (["--verify", "--input-shape", "x=60000,60000"], "too large to be drawn"),
    ],
)
def test_options_that_do_not_suit_are_usage_errors(options, words, good, target, capsys):
    code = main(["convert", str(good), str(target), *options])
    out, err = capsys.readouterr()
    assert (code, out) == (ExitCode.USAGE, "")
    assert words in err


def test_a_shape_that_does_not_suit_the_ops_is_a_usage_error(tmp_path, target, capsys):
    b = TfliteBuilder()
    x = b.input("x", "float32", (2, 3))
    b.output(b.op("ADD", [x, b.const(np.ones(3, np.float32))], [("float32", (2, 3))]))
    model = tmp_path / "model.tflite"
    model.write_bytes(b.build())
    code, err = refused(capsys, "convert", model, target, "--input-shape", "x=2,4")
    assert code == ExitCode.USAGE
    assert "with the shapes given for 'x': " in err
    assert "op #0 (ADD)" in err


def test_one_input_twice_is_a_usage_error(good, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    twice = ["--input", f"x={tmp_path / 'x.npy'}"] * 2
    code, err = refused(capsys, "run", good, *twice)
    assert code == ExitCode.USAGE
    assert "given twice for 'x'" in err


def test_an_array_too_large_for_memory_is_a_usage_error(good, tmp_path, capsys):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000, 100), }"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + header.ljust(117) + b"\n")
    code, err = refused(capsys, "run", good, "--input", f"x={tmp_path / 'x.npy'}")
    assert code == ExitCode.USAGE
    assert "can't be read as .npy" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [["devices", "--bogus", "--json"], ["bogus", "--json"], ["convert", "--json"]]
)
def test_usage_errors_are_json_wherever_the_option_stands(arguments, capsys):
    assert main(arguments) == ExitCode.USAGE
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["exit_code"]) == ("UsageError", ExitCode.USAGE)


@pytest.mark.parametrize("seed", [-1, True, 1.5, "0"])
def test_a_seed_is_a_count(seed, good, target):
    with pytest.raises(nnconv.errors.UsageError, match="seed is"):
        nnconv.convert(good, target, verify=True, seed=seed)
    assert not target.exists()


# ---------------------------------------------------------------- streams


def shell(command, *arguments):
    """Run a command line in which ``nnconv`` is followed by what a shell does with its streams."""
    program = f"{sys.executable} -m nnconv"
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"set -o pipefail; {command.replace('nnconv', program)}",
            "bash",
            *arguments,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr
    return done


needs_bash = pytest.mark.skipif(sys.platform != "linux", reason="needs bash and /dev/full")


@needs_bash
@pytest.mark.parametrize(
    "streams", [">&-", "2>&-", "<&-", ">&- 2>&- <&-", "2>/dev/full", "| true", "| head -1"]
)
def test_a_lost_stream_does_not_change_the_outcome(streams, good, target):
    done = shell(f'nnconv convert "$1" "$2" {streams}', str(good), str(target))
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert target.exists()


@needs_bash
@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("wrong", ["out.xyz", "--bogus"])
def test_a_refusal_keeps_its_code_without_stderr(streams, wrong, good):
    done = shell(f'nnconv convert "$1" "$2" {streams}', str(good), str(good.with_name(wrong)))
    assert done.returncode == ExitCode.USAGE


@needs_bash
@pytest.mark.parametrize("options", ["", "--json"])
def test_a_full_stdout_is_told(options):
    done = shell(f"nnconv ops {options} > /dev/full")
    assert done.returncode == ExitCode.USAGE
    assert done.stderr == "error: stdout can't be written: No space left on device\n"


# ---------------------------------------------------------------- errors as objects


@pytest.mark.parametrize("kind", [UnsupportedError, BackendError])
def test_errors_survive_a_trip_to_another_process(kind, tmp_path):
    import pickle

    model = tmp_path / "model.tflite"
    model.write_bytes(build(op="Riddle"))
    with pytest.raises(UnsupportedError) as caught:
        nnconv.load(model)
    error = caught.value if kind is UnsupportedError else BackendError("no\nroom", hint="rest")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


def test_memory_that_can_not_be_had_is_no_bug(good, monkeypatch, capsys):
    def greedy(*_arguments, **_options):
        return np.empty(1 << 60, np.uint8)

    monkeypatch.setattr(nnconv, "compile", greedy)
    assert main(["run", str(good), "--json"]) == ExitCode.BACKEND
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["exit_code"] == ExitCode.BACKEND
    assert err.startswith("error: there isn't enough memory: ")
