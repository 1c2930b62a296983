"""nnconv.check: what keeps a model from being written in a format."""

import json

import numpy as np
import onnx
import pytest
from nnconv.cli import main
from onnx import TensorProto, helper

import nnconv
from nnconv.errors import ExitCode, InvalidModelError, UsageError
from nnconv.formats.nnapi import file
from nnconv.formats.nnapi.types import OperandCode, OperationCode
from support.nnapi_models import FLOAT, INT, NnapiBuilder, add_model, conv_model
from support.tflite_builder import TfliteBuilder


@pytest.fixture
def nnapi_file(tmp_path):
    def write(model):
        path = tmp_path / "model.nnapi"
        file.write(model, path)
        return path

    return write


@pytest.fixture
def two_odd_ones(tmp_path):
    """An ONNX model with two nodes of a domain that nobody knows, and one that all formats have."""
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Frob", ["a"], ["b"], name="first", domain="odd"),
        helper.make_node("Nicate", ["b"], ["y"], name="second", domain="odd"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("odd", 1)]
    path = tmp_path / "odd.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    return path


def broken_model():
    """ADD of floats and int32, behind one that is fine."""
    b = NnapiBuilder()
    x = b.input(FLOAT, (2, 3), name="x")
    middle = b.operand(FLOAT, (2, 3))
    none = b.const(INT, 0)
    b.run(OperationCode.ADD, [x, x, none], [middle])
    y = b.const(OperandCode.TENSOR_INT32, [1, 2, 3])
    b.run(OperationCode.ADD, [middle, y, none], [b.output(FLOAT, (2, 3), name="z")])
    return b.model()


@pytest.mark.parametrize(
    ("model", "least"),
    [
        (add_model(), 1),
        (conv_model(), 1),
        (conv_model(per_channel=True), 3),
        (conv_model(nchw=True), 3),
        (add_model(kind=OperandCode.TENSOR_FLOAT16), 3),
        (add_model(kind=OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, scale=0.5), 4),
        (add_model(kind=OperandCode.TENSOR_INT32), 4),
    ],
)
def test_least_level_of_an_nnapi_file(nnapi_file, model, least):
    path = nnapi_file(model)
    newest = nnconv.check(path, "nnapi")
    assert newest.passed
    assert newest.least_version == least
    for level in range(1, 9):
        found = nnconv.check(path, "nnapi", feature_level=level)
        assert found.passed is (level >= least)
        assert found.least_version == least
        assert all(level < o.version <= least for o in found.obstacles)


def test_a_rule_that_no_level_allows_is_named(nnapi_file):
    found = nnconv.check(nnapi_file(broken_model()), "nnapi")
    assert not found.passed
    assert found.least_version is None
    (obstacle,) = found.obstacles
    assert obstacle.op == "ADD"
    assert "operation 1" in obstacle.where
    assert "TENSOR_INT32" in obstacle.why
    assert obstacle.version is None


def test_a_broken_model_is_bad_input_for_other_formats(nnapi_file):
    with pytest.raises(InvalidModelError, match="TENSOR_INT32"):
        nnconv.check(nnapi_file(broken_model()), "onnx")


@pytest.mark.parametrize("target", ["onnx", "tflite"])
def test_every_node_that_cannot_be_read_is_listed(two_odd_ones, target):
    found = nnconv.check(two_odd_ones, target)
    assert [o.op for o in found.obstacles] == ["odd:Frob", "odd:Nicate"]
    assert not found.passed


@pytest.mark.parametrize("source", [".tflite", ".onnx"])
@pytest.mark.parametrize(("code", "least"), [("ADD", 1), ("DIV", 2), ("MAXIMUM", 3)])
def test_least_level_of_other_formats(nnapi_file, tmp_path, source, code, least):
    b = NnapiBuilder()
    x, y = (b.input(FLOAT, (2, 3), name=name) for name in "xy")
    fused = [] if code == "MAXIMUM" else [b.const(INT, 0)]
    b.run(OperationCode[code], [x, y, *fused], [b.output(FLOAT, (2, 3), name="z")])
    path = tmp_path / f"m{source}"
    nnconv.convert(nnapi_file(b.model()), path)
    for asked in (None, 1, 2, 5):
        found = nnconv.check(path, "nnapi", feature_level=asked)
        assert found.least_version == least
        assert found.passed is (asked is None or asked >= least)


def test_what_no_level_has_is_listed(tmp_path):
    b = TfliteBuilder()
    x = b.input("x", "complex64", (2,))
    b.output(b.op("COMPLEX_ABS", [x], [("float32", (2,))]))
    b.output(b.op("REAL", [x], [("float32", (2,))]))
    path = tmp_path / "m.tflite"
    path.write_bytes(b.build())
    found = nnconv.check(path, "nnapi", feature_level=4)
    assert found.least_version is None
    assert any("complex64" in o.why for o in found.obstacles)
    assert not found.passed


def gelu_tflite():
    b = TfliteBuilder()
    x = b.input("x", "float32", (2, 3))
    b.output(b.op("GELU", [x], [("float32", (2, 3))]))
    return b.build()


@pytest.fixture
def picked(tmp_path):
    """Rows that are gathered, others that are chosen where they are less, and their roots."""

    def value(name, kind=TensorProto.FLOAT, dims=(2, 3)):
        return helper.make_tensor_value_info(name, kind, dims)

    nodes = [
        helper.make_node("Gather", ["x", "i"], ["g"], axis=1),
        helper.make_node("Less", ["g", "x"], ["c"]),
        helper.make_node("Where", ["c", "g", "x"], ["w"]),
        helper.make_node("Erf", ["w"], ["y"]),
    ]
    inputs = [value("x"), value("i", TensorProto.INT64, (3,))]
    graph = helper.make_graph(nodes, "g", inputs, [value("y")])
    path = tmp_path / "picked.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


def test_each_node_is_listed_once_with_the_reasons_of_its_parts(picked):
    """At level 1 Gather and Erf become dozens of operations that it lacks."""
    found = nnconv.check(picked, "nnapi", feature_level=1).obstacles
    assert [(o.op, o.where) for o in found if o.op != "Select"] == [
        ("Gather", "op #0 Gather (`g`)"),
        ("Less", "op #1 Less (`c`)"),
        ("Erf", "op #3 Erf (`y`)"),
    ]
    gather, erf = found[0], found[-1]
    assert gather.why.startswith("its indices may count from the end; MAXIMUM needs feature level")
    assert erf.why.startswith("NNAPI has no Erf; ")


def test_no_value_is_named_that_has_no_name(tmp_path):
    """The first result of a layer has none where nobody reads it, nor have those of its parts."""
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        for name, dims in (("x", (2, 3, 4)), ("w", (1, 20, 4)), ("r", (1, 20, 5)), ("h", (1, 3, 5)))
    ]
    ends.append(helper.make_tensor_value_info("n", TensorProto.INT32, (3,)))
    layer = helper.make_node("LSTM", ["x", "w", "r", "", "n"], ["", "h"], hidden_size=5)
    graph = helper.make_graph([layer], "g", [*ends[:3], ends[4]], [ends[3]])
    path = tmp_path / "layer.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)]), path)
    (found,) = nnconv.check(path, "nnapi", feature_level=2).obstacles
    assert found.where == "op #0 LSTM (`h`)"
    assert "a value on the way is TENSOR_BOOL8" in found.why
    assert "``" not in found.why


def test_what_reads_a_stand_in_is_not_to_blame(picked):
    """Where may choose by truth values at no level that lacks them: Less is what fails."""
    found = nnconv.check(picked, "nnapi", feature_level=1).obstacles
    assert not any("allowed is TENSOR_BOOL8" in o.why for o in found)


def test_models_that_fit_have_no_obstacles(tmp_path, nnapi_file):
    path = tmp_path / "m.tflite"
    path.write_bytes(gelu_tflite())
    for source in (path, nnconv.load(path), nnapi_file(conv_model())):
        for target in ("onnx", "tflite"):
            assert nnconv.check(source, target).passed


def test_checking_changes_no_model(nnapi_file):
    model = nnconv.load(nnapi_file(conv_model(nchw=False)))
    before = [str(node.op) for node in model.graph.nodes]
    nnconv.check(model, "onnx")
    nnconv.check(model, "tflite")
    assert [str(node.op) for node in model.graph.nodes] == before


@pytest.mark.parametrize(
    ("to", "options"),
    [
        ("onnx", {"feature_level": 3}),
        ("nnapi", {"opset": 18}),
        ("nnapi", {"feature_level": 9}),
        ("nnapi", {"feature_level": True}),
        ("onnx", {"opset": 3}),
        ("caffe", {}),
        ("onnx", {"signature": "none such"}),
    ],
)
def test_wrong_options(nnapi_file, to, options):
    with pytest.raises(UsageError):
        nnconv.check(nnapi_file(add_model()), to, **options)


def test_input_shapes_are_given_to_files(nnapi_file):
    b = NnapiBuilder()
    x = b.input(FLOAT, (2, 3), name="x")
    out = b.output(FLOAT, (), name="y")
    b.run(OperationCode.ADD, [x, b.const(FLOAT, np.ones(3)), b.const(INT, 0)], [out])
    path = nnapi_file(b.model())
    assert nnconv.check(path, "onnx", input_shapes={"x": (5, 3)}).passed
    with pytest.raises(UsageError, match="no input"):
        nnconv.check(path, "onnx", input_shapes={"z": (5, 3)})


def test_command_lists_obstacles_and_exits_with_4(nnapi_file, capsys):
    path = nnapi_file(conv_model(per_channel=True, nchw=True))
    code = main(["check", str(path), "--to", "nnapi", "--feature-level", "2"])
    shown = capsys.readouterr().out
    assert code == ExitCode.UNSUPPORTED
    assert "CONV_2D" in shown
    assert "feature level 3 will do" in shown
    code = main(["check", str(path), "--to", "nnapi", "--feature-level", "2", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert code == ExitCode.UNSUPPORTED
    assert told["least_version"] == 3
    assert not told["passed"]
    assert {"op", "where", "why", "hint", "version", "reason"} == set(told["obstacles"][0])


def test_command_says_that_a_model_fits(nnapi_file, capsys):
    path = nnapi_file(add_model())
    assert main(["check", str(path), "--to", "onnx"]) == ExitCode.OK
    assert "onnx can hold it" in capsys.readouterr().out
    assert main(["check", str(path), "--to", "nnapi", "--feature-level", "1"]) == ExitCode.OK
    assert capsys.readouterr().out.endswith("nnapi can hold it at feature level 1\n")
    assert main(["check", str(path), "--to", "nnapi", "--feature-level", "2"]) == ExitCode.OK
    assert "at feature level 2; feature level 1 will do" in capsys.readouterr().out
