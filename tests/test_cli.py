"""The command line's own work: options, exit codes, how errors and results are shown."""

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest
from nnconv.cli import INTERNAL_ERROR, main

import nnconv
from nnconv.conversion import ConversionReport
from nnconv.errors import (
    BackendError,
    ExitCode,
    InvalidModelError,
    Reason,
    UnsupportedError,
    UnsupportedItem,
    UsageError,
)

ITEMS = [
    UnsupportedItem(op="HASHTABLE", where="op #1", why="no tables", reason=Reason.OUT_OF_SCOPE),
    UnsupportedItem(op="CUSTOM", where="op #3", why="unknown", reason=Reason.UNKNOWN_OP, hint="h"),
]


@dataclass
class Verification:
    """Stands in for what a comparison found."""

    passed: bool
    worst: float
    notes: tuple[str, ...] = ("as far as it goes",)

    @property
    def title(self):
        return f"verified: {self.passed}"

    def rows(self):
        return [("y", "2 steps", "1", "quantized", "DIFFERS")]


def report(passed=None, **facts):
    found = None if passed is None else Verification(passed, float("nan"))
    return ConversionReport(
        "a.tflite", "b.onnx", "tflite", "onnx", opset=21, verification=found, **facts
    )


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(b"not looked at")
    return str(path)


@pytest.fixture
def convert(monkeypatch):
    """Let nnconv.convert give or raise what the test sets, and note its arguments."""

    class Fake:
        def __init__(self):
            self.result = report()
            self.error = None
            self.calls = []

        def __call__(self, src, dst, **options):
            self.calls.append((src, dst, options))
            if self.error:
                raise self.error
            return self.result

    fake = Fake()
    monkeypatch.setitem(vars(nnconv), "convert", fake)
    return fake


@pytest.mark.parametrize(
    ("verified", "code"), [(None, ExitCode.OK), (True, ExitCode.OK), (False, ExitCode.DIFFERS)]
)
def test_exit_code_tells_whether_results_differ(convert, model, capsys, verified, code):
    convert.result = report(verified)
    assert main(["convert", model, "out.onnx", "--verify"]) == code
    out = capsys.readouterr().out
    assert out.startswith("a.tflite (tflite) -> b.onnx (onnx, opset 21): 0 nodes\n")
    shown = "DIFFERS" in out and "note: as far as it goes" in out
    assert shown == (f"verified: {verified}" in out) == (verified is not None)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("u"), ExitCode.USAGE),
        (InvalidModelError("broken", path="a.tflite"), ExitCode.BAD_INPUT),
        (UnsupportedError(ITEMS), ExitCode.UNSUPPORTED),
        (BackendError("b"), ExitCode.BACKEND),
    ],
)
def test_each_error_has_its_exit_code_and_goes_to_stderr(convert, model, capsys, error, code):
    convert.error = error
    assert main(["convert", model, "out.onnx"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"error: {error}\n"


def test_json_error_lists_every_unsupported_node(convert, model, capsys):
    convert.error = UnsupportedError(ITEMS, path="a.tflite")
    assert main(["convert", model, "out.onnx", "--json"]) == ExitCode.UNSUPPORTED
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["exit_code"]) == ("UnsupportedError", 4)
    assert [(i["op"], i["where"], i["reason"], i["hint"]) for i in error["items"]] == [
        ("HASHTABLE", "op #1", "out of scope", ""),
        ("CUSTOM", "op #3", "unknown op", "h"),
    ]


def test_json_result_is_one_object_of_plain_json(convert, model, capsys):
    convert.result = report(passed=True)
    assert main(["convert", model, "out.onnx", "--json"]) == ExitCode.OK
    seen = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert seen["verified"] is True
    assert seen["verification"] == {"passed": True, "worst": "nan", "notes": ["as far as it goes"]}
    assert seen["source_format"] == "tflite"


def test_report_names_everything_that_changed(convert, model, capsys):
    convert.result = report(
        inputs=[("x", "float32", [None, 3])],
        outputs=[("y", "int8", []), ("h_out", "float32", None)],
        states=[("h_in", "h_out")],
        renamed=[("output", "", "y")],
        moved_io=["x"],
        signature="f",
        other_signatures=["g"],
        counts={"Conv": 2, "Relu": 1},
        notes=["weights lie beside the file"],
    )
    assert main(["convert", model, "out.onnx"]) == ExitCode.OK
    assert capsys.readouterr().out == (
        "a.tflite (tflite) -> b.onnx (onnx, opset 21): 3 nodes\n"
        "  input   x: float32[?,3]\n"
        "  output  y: int8[scalar]\n"
        "  output  h_out: float32[?]\n"
        "  state   comes in as h_in, goes out as h_out\n"
        "  renamed output '' to 'y'\n"
        "  layout  of x changed\n"
        "  only signature 'f' was converted; the others: 'g'\n"
        "  note: weights lie beside the file\n"
    )


def test_internal_error_is_one_line_that_asks_for_a_report(convert, model, capsys):
    convert.error = KeyError("stride\nh")
    assert main(["convert", model, "out.onnx"]) == INTERNAL_ERROR
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "internal error (KeyError: 'stride\\nh')" in err
    assert "report" in err


def test_debug_shows_the_traceback_of_an_internal_error(convert, model):
    convert.error = KeyError("stride")
    with pytest.raises(KeyError):
        main(["convert", model, "out.onnx", "--debug"])


def test_options_reach_the_conversion(convert, model):
    arguments = (
        "--verify --seed 7 --opset 17 --feature-level 3 --api v1 --io-layout nchw --int8 keep "
        "--quant float"
    )
    shapes = ["--input-shape", "a=b=1,2,3", "--input-shape", "s="]
    assert main(["convert", model, "o.onnx", *arguments.split(), *shapes, "--signature", "f"]) == 0
    ((src, dst, options),) = convert.calls
    assert (str(src), str(dst)) == (model, "o.onnx")
    assert options == {
        "verify": True,
        "seed": 7,
        "opset": 17,
        "feature_level": 3,
        "api": 1,
        "io_layout": "nchw",
        "int8": "keep",
        "quant": "float",
        "signature": "f",
        "source_format": None,
        "target_format": None,
        "input_shapes": {"a=b": (1, 2, 3), "s": ()},
    }


@pytest.mark.parametrize("shape", ["x", "x=1,,2", "x=1,two", "x=-1,2", "=1,2"])
def test_malformed_input_shape_is_a_usage_error(convert, model, capsys, shape):
    assert main(["convert", model, "o.onnx", "--input-shape", shape]) == ExitCode.USAGE
    assert "such as x=1,224,224,3" in capsys.readouterr().err
    assert convert.calls == []


@pytest.mark.parametrize(
    "arguments",
    [["frobnicate"], ["convert"], ["convert", "no-such-file", "x.onnx"], ["devices", "--nope"], []],
)
def test_wrong_usage_exits_2(arguments, capsys):
    assert main(arguments) == ExitCode.USAGE
    assert capsys.readouterr().err


def test_json_usage_error_is_json_too(model, capsys):
    assert main(["convert", "--json", model]) == ExitCode.USAGE
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "UsageError"


@pytest.mark.parametrize("way", [["-m", "nnconv"], ["-c", "from nnconv.cli import main; main()"]])
def test_module_and_function_print_the_version(way):
    done = subprocess.run(
        [sys.executable, *way, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"nnconv, version {nnconv.__version__}\n"


def test_process_exits_with_the_code():
    done = subprocess.run(
        [sys.executable, "-m", "nnconv", "frobnicate"], capture_output=True, check=False
    )
    assert done.returncode == ExitCode.USAGE
