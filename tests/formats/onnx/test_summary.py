"""What an ONNX file holds is told from the file alone, and its format from its content."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnconv.errors import InvalidModelError
from nnconv.formats import detect, summarize
from nnconv.formats.onnx.detect import is_onnx
from nnconv.ir.dtype import DType


def example(**options):
    weights = numpy_helper.from_array(np.zeros((2, 3), np.float32), "w")
    codes = helper.make_tensor("codes", TensorProto.INT4, [3], [1, 2, 3])
    texts = numpy_helper.from_array(np.array(["a", "bcä"], object), "texts")
    body = helper.make_graph([helper.make_node("Odd", [], ["z"], domain="a.b")], "b", [], [])
    body.initializer.append(weights)
    function = helper.make_function(
        "a.b", "F", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], []
    )
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["y"]),
            helper.make_node("If", ["c"], ["i"], then_branch=body),
            helper.make_node("Constant", [], ["k"], value=weights),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, None]),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info("e", TensorProto.FLOAT8E5M2, None),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.INT4, [1]),
            helper.make_tensor_sequence_value_info("s", TensorProto.INT64, None),
            helper.make_value_info("t", helper.make_tensor_type_proto(0, None)),
        ],
        [weights, codes, texts],
    )
    made = helper.make_model(graph, functions=[function], **options)
    made.ir_version = 8
    helper.set_model_props(made, {"z": "ä", "a": "12345"})
    return made


def test_summary(tmp_path):
    path = tmp_path / "m.onnx"
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("a.b", 2)]
    made = example(producer_name="maker", producer_version="1.0", opset_imports=sets)
    path.write_bytes(made.SerializeToString())
    summary = summarize(path)
    assert summary.format == "onnx"
    assert summary.description == (
        "maker 1.0, IR version 8, operator sets ai.onnx 17, a.b 2, 1 function"
    )
    assert list(summary.ops.items()) == [("Relu", 2), ("Constant", 1), ("If", 1), ("a.b:Odd", 1)]
    assert summary.constants == 5
    assert summary.constant_bytes == 3 * 24 + 2 + 5
    assert summary.metadata == {"a": 5, "z": 2}
    (entry,) = summary.entries
    assert entry.key == ""
    assert [(v.name, v.dtype, v.shape) for v in entry.inputs] == [
        ("x", DType.FLOAT32, ("n", 3, None)),
        ("e", "float8e5m2", None),
    ]
    assert [(v.name, v.dtype, v.shape) for v in entry.outputs] == [
        ("y", DType.INT4, (1,)),
        ("s", "seq(tensor(int64))", None),
        ("t", "?", None),
    ]


def test_a_broken_file(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08")
    with pytest.raises(InvalidModelError, match="ends within"):
        summarize(path)


# ------------------------------------------------------------------------------------- detection


@pytest.mark.parametrize("name", ["model", "model.bin", "model.tflite", "model.onnx"])
def test_onnx_files_are_told_by_their_content(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(example(producer_name="maker").SerializeToString())
    assert detect(path) == "onnx"


def test_all_reference_models_are_told_by_their_content(shared_dir):
    paths = sorted(shared_dir.glob("models/**/*.onnx"))
    for path in paths:
        with path.open("rb") as file:
            assert is_onnx(file.read(4096), path.stat().st_size), path
    for path in shared_dir.glob("models/**/*.tflite"):
        with path.open("rb") as file:
            assert not is_onnx(file.read(4096), path.stat().st_size), path


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a text",
        b"{}",
        b"\x08",
        b"\x08\x08",
        b"\x08\x08\x3a",
        b"\x08\x08\x3a\x00",
        b"\x08\x08\x3a\x05abc",
        b"\x3a\x03abc",
        b"\x08\x00\x3a\x03abc",
        b"\x08\x80\x01\x3a\x03abc",
        b"\x08\x08\x0a\x00\x3a\x03abc",
        b"\x08\x08" + b"\x12\x00" * 4096,
        b"\x08\x08\x12\x90\x4e" + bytes(10_000),
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        bytes(100),
    ],
)
def test_other_files_are_not_taken_for_onnx(tmp_path, data):
    assert not is_onnx(data[:4096], len(data))
    path = tmp_path / "model"
    path.write_bytes(data)
    with pytest.raises(InvalidModelError, match="the format can't be told"):
        detect(path)


def test_a_broken_file_goes_by_its_suffix(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"a text")
    assert detect(path) == "onnx"
