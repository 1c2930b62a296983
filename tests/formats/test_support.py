"""The op tables that the command line lists are those that reading and writing use."""

import json

import pytest
from nnconv.cli import main

from nnconv.errors import UsageError
from nnconv.formats.support import OpSupport, op_support


def test_tflite_ops_go_by_their_own_names_and_are_read():
    rows = op_support("tflite")
    assert OpSupport("CONV_2D", read=True, write=False) in rows
    assert [row.op for row in rows] == sorted({row.op for row in rows})


def test_onnx_ops_are_those_that_have_an_exporter():
    names = {row.op for row in op_support("onnx") if row.write}
    assert {"Abs", "Conv2D"} <= names
    assert not {"Op", "Unary", "Binary"} & names


def test_unknown_format_is_a_usage_error():
    with pytest.raises(UsageError, match="formats are tflite, onnx"):
        op_support("caffe")


@pytest.mark.parametrize("chosen", [["tflite"], ["onnx"], ["tflite", "onnx"]])
def test_command_lists_the_chosen_formats(chosen, capsys):
    options = ["--format", *chosen] if len(chosen) == 1 else []
    assert main(["ops", "--json", *options]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert list(seen) == chosen
    assert all(row["read"] or row["write"] for rows in seen.values() for row in rows)
