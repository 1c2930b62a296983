"""The tables that ``nnconv ops`` prints come from what reading and writing use."""

from __future__ import annotations

import json

import pytest
from nnconv.cli import main

from nnconv.errors import UsageError
from nnconv.formats import FORMATS
from nnconv.formats.support import op_support


def test_each_format_reads_ops_by_its_own_names() -> None:
    assert {"CONV_2D", "CUSTOM:TFLite_Detection_PostProcess"} <= set(op_support("tflite").read)
    assert {"Conv", "com.microsoft:QLinearAdd"} <= set(op_support("onnx").read)


def test_each_format_writes_ops_of_the_ir() -> None:
    onnx, tflite = op_support("onnx").write, op_support("tflite").write
    assert {"Conv2D", "Lstm", "If"} <= set(onnx) & set(tflite)
    assert tflite["Conv2D"] == "own"
    assert set(tflite.values()) == {"own", "decomposed"}
    assert set(onnx.values()) == {"own"}


def test_an_unknown_format_is_a_wrong_argument() -> None:
    with pytest.raises(UsageError, match="caffe"):
        op_support("caffe")


def test_the_command_shows_all_formats_beside_each_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ops"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["op", *FORMATS, "reference"] in lines
    assert ["Transpose", "yes", "yes", *["since", "2", "since", "1", "yes"]] in lines


@pytest.mark.parametrize("options", [[], ["--format", "tflite"]])
def test_the_command_prints_the_same(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ops", "--json", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    formats = options[1:] or list(FORMATS)
    assert set(told) == {*formats, "reference", "matrix"}
    assert told["matrix"]["Ceil"] == {
        "tflite": "yes", "onnx": "yes", "nnapi": "parts", "nnrt": "since 2",
    }  # fmt: skip
    for name in formats:
        assert told[name]["read"] == op_support(name).read
        assert told[name]["write"] == op_support(name).write
    assert "Conv2D" in told["reference"]
