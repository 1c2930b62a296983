"""Kinds of ONNX models that can't become TFLite, or are broken: all is named, nothing written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from ai_edge_litert.schema_py_generated import ModelT
from nnconv.cli import main
from onnx import TensorProto, helper

import nnconv
from nnconv.errors import ExitCode, InvalidModelError, NnconvError, UnsupportedError
from nnconv.formats.tflite import wire
from support.onnx_routes import node
from support.onnx_whole import info, ints, onnx_model, to_tflite
from support.whole import normal

FLOAT = "float32"


def nothing_written(folder: Path) -> bool:
    """Neither the result nor a part of it under another name."""
    return [path.name for path in folder.iterdir()] == ["model.onnx"]


# ---------------------------------------------------------------- ops that nobody knows


def unknown() -> onnx.ModelProto:
    """Three nodes of two unknown kinds, and one that only strings could mean something to."""
    inner = helper.make_graph(
        [node("Mystery", ["x"], ["t"], domain="own", name="deep")], "b", [], [info("t", FLOAT, [2])]
    )
    nodes = [
        node("Mystery", ["x"], ["a"], domain="own", name="first"),
        node("Neg", ["a"], ["b"]),
        node("Riddle", ["b"], ["c"], domain="own"),
        node("If", ["flag"], ["d"], then_branch=inner, else_branch=inner),
        node("Add", ["c", "d"], ["y"]),
    ]
    inputs = [info("x", FLOAT, [2]), info("flag", "bool", [])]
    return onnx_model(nodes, inputs, [info("y", FLOAT, [2])], domains={"own": 3})


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_every_unknown_onnx_op_is_named_at_once(suffix: str, tmp_path: Path) -> None:
    """With its operator set, its place and its name; those of bodies as well."""
    source = tmp_path / "model.onnx"
    source.write_bytes(unknown().SerializeToString())
    with pytest.raises(UnsupportedError) as caught:
        nnconv.convert(source, tmp_path / f"result.{suffix}")
    found = [(item.op, item.where) for item in caught.value.items]
    assert [op for op, _ in found] == ["own:Mystery", "own:Riddle", "own:Mystery", "own:Mystery"]
    for (_, where), place in zip(
        found, ("node #0 (`first`)", "node #2", "then_branch", "else_branch"), strict=True
    ):
        assert place in where
    assert nothing_written(tmp_path)


def test_what_cannot_be_is_named_in_each_body_of_each_node(tmp_path: Path) -> None:
    """NonZero has no form in NNAPI; in each body it is the first node."""
    bodies = [
        helper.make_graph(
            [
                node("NonZero", ["x"], [f"places{number}"]),
                node("Cast", [f"places{number}"], [f"numbers{number}"], to=TensorProto.FLOAT),
            ],
            "body",
            [],
            [info(f"numbers{number}", FLOAT, [2, "n"])],
        )
        for number in range(4)
    ]
    nodes = [
        node("If", ["flag"], [name], then_branch=bodies[first], else_branch=bodies[first + 1])
        for name, first in (("a", 0), ("b", 2))
    ]
    inputs = [info("x", FLOAT, [3, 4]), info("flag", "bool", [])]
    model = onnx_model(nodes, inputs, [info(name, FLOAT, [2, "n"]) for name in "ab"])
    source = tmp_path / "model.onnx"
    source.write_bytes(model.SerializeToString())
    with pytest.raises(UnsupportedError) as caught:
        nnconv.convert(source, tmp_path / "result.nnapi")
    assert [item.where for item in caught.value.items] == [
        f"node #{number} (`{name}`) If, {branch} op #0 NonZero (`places{2 * number + place}`)"
        for number, name in enumerate("ab")
        for place, branch in enumerate(("then_branch", "else_branch"))
    ]
    assert nothing_written(tmp_path)


@pytest.mark.parametrize("suffix", ["nnapi", "nnrt"])
def test_what_reads_a_result_that_cannot_be_is_not_named(suffix: str, tmp_path: Path) -> None:
    """NonZero has no form there; a Cast of its places would have, and isn't at fault."""
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Cast", ["places"], ["numbers"], to=TensorProto.FLOAT),
        node("Neg", ["numbers"], ["y"]),
    ]
    model = onnx_model(nodes, [info("x", FLOAT, [3, 4])], [info("y", FLOAT, [2, "n"])])
    source = tmp_path / "model.onnx"
    source.write_bytes(model.SerializeToString())
    with pytest.raises(UnsupportedError) as caught:
        nnconv.convert(source, tmp_path / f"result.{suffix}")
    assert [item.op for item in caught.value.items] == ["NonZero"]
    assert nothing_written(tmp_path)


@pytest.mark.parametrize("suffix", ["tflite", "onnx", "nnapi", "nnrt"])
@pytest.mark.parametrize("place", ["Gather", "Equal", "Identity", "output", "branch"])
def test_constants_of_strings_are_refused_at_what_reads_them(
    suffix: str, place: str, tmp_path: Path
) -> None:
    words = {"words": np.array(["a", "b", "c"], object)}
    inputs = [info("i", "int64", [3]), info("flag", "bool", [])]
    y = helper.make_tensor_value_info("y", TensorProto.STRING, [3])
    if place == "Gather":
        nodes = [node("Gather", ["words", "i"], ["y"])]
    elif place == "Equal":
        inputs.append(helper.make_tensor_value_info("x", TensorProto.STRING, [3]))
        nodes, y = [node("Equal", ["x", "words"], ["y"])], info("y", "bool", [3])
    elif place == "Identity":
        nodes = [node("Identity", ["words"], ["y"])]
    elif place == "output":
        nodes, y = [], helper.make_tensor_value_info("words", TensorProto.STRING, [3])
    else:
        inner = helper.make_graph([node("Gather", ["words", "i"], ["t"])], "b", [], [y])
        inner.output[0].name = "t"
        nodes = [node("If", ["flag"], ["y"], then_branch=inner, else_branch=inner)]
    source = tmp_path / "model.onnx"
    model = onnx_model(nodes, inputs, [y], words)
    source.write_bytes(model.SerializeToString())
    with pytest.raises(UnsupportedError, match="string"):
        nnconv.convert(source, tmp_path / f"result.{suffix}")
    assert nothing_written(tmp_path)


MOVES_OF_STRINGS = {
    "Concat": (["x", "x"], [6], {"axis": 0}),
    "Gather": (["x", "i"], [3], {}),
    "GatherElements": (["x", "i"], [3], {}),
    "Where": (["flags", "x", "x"], [3], {}),
    "Slice": (["x", "one", "three"], [2], {}),
    "Transpose": (["table"], [2, 3], {}),
    "Compress": (["x", "flags"], ["n"], {"axis": 0}),
    "Tile": (["x", "one"], [3], {}),
    "Flatten": (["table"], [1, 6], {"axis": 0}),
}


@pytest.mark.parametrize("op", MOVES_OF_STRINGS)
def test_moves_of_strings_run_in_litert_or_are_refused(op: str, tmp_path: Path) -> None:
    names, shape, attributes = MOVES_OF_STRINGS[op]
    texts = np.array(["a", "bé", ""], object)
    feeds = {
        "x": texts,
        "table": np.stack([texts, texts[::-1]], axis=1),
        "i": np.array([2, 0, 0]),
        "flags": np.array([True, False, True]),
    }
    kinds = {"x": TensorProto.STRING, "table": TensorProto.STRING, "i": TensorProto.INT64}
    inputs = [
        helper.make_tensor_value_info(n, kinds.get(n, TensorProto.BOOL), feeds[n].shape)
        for n in feeds
        if n in names
    ]
    y = helper.make_tensor_value_info("y", TensorProto.STRING, shape)
    constants = {n: ints(number) for n, number in (("one", 1), ("three", 3)) if n in names}
    model = onnx_model([node(op, names, ["y"], **attributes)], inputs, [y], constants)
    source = tmp_path / "model.onnx"
    source.write_bytes(model.SerializeToString())
    given = {value.name: feeds[value.name] for value in inputs}
    wanted = nnconv.compile(source, "onnxruntime:cpu").run(given)["y"]
    if op in ("Tile", "Flatten"):
        got = nnconv.compile(source, "litert:cpu").run(given)["y"]
        np.testing.assert_array_equal(got, wanted)
        return
    with pytest.raises(UnsupportedError, match="string"):
        nnconv.compile(source, "litert:cpu")


def test_the_command_names_unknown_onnx_ops_and_exits_with_4(tmp_path: Path, capsys: Any) -> None:
    source, target = tmp_path / "model.onnx", tmp_path / "model.tflite"
    source.write_bytes(unknown().SerializeToString())
    target.write_bytes(b"what was there before")
    assert main(["convert", str(source), str(target), "--json"]) == ExitCode.UNSUPPORTED
    error = json.loads(capsys.readouterr().out)
    assert json.dumps(error).count("Mystery") >= 3
    assert main(["convert", str(source), str(target)]) == ExitCode.UNSUPPORTED
    told = capsys.readouterr().err
    assert [told.count(name) >= count for name, count in (("Mystery", 3), ("Riddle", 1))] == [
        True
    ] * 2
    assert target.read_bytes() == b"what was there before"


OUTSIDE: dict[str, tuple[list[Any], list[Any]]] = {
    "strings": (
        [node("StringNormalizer", ["s"], ["y"])],
        [helper.make_tensor_value_info("s", TensorProto.STRING, [2])],
    ),
    "sequences": (
        [node("SequenceAt", ["q", "i"], ["y"])],
        [
            helper.make_tensor_sequence_value_info("q", TensorProto.FLOAT, [2]),
            info("i", "int64", []),
        ],
    ),
    "training": (
        [node("Gradient", ["x"], ["y"], domain="ai.onnx.preview.training", xs=["x"], y="x")],
        [info("x", FLOAT, [2])],
    ),
    "optionals": (
        [node("Optional", ["x"], ["o"]), node("OptionalGetElement", ["o"], ["y"])],
        [info("x", FLOAT, [2])],
    ),
}


@pytest.mark.parametrize("kind", OUTSIDE)
def test_what_is_out_of_scope_is_refused_as_such(kind: str, tmp_path: Path) -> None:
    nodes, inputs = OUTSIDE[kind]
    model = onnx_model(
        nodes, inputs, [info("y", FLOAT, None)], domains={"ai.onnx.preview.training": 1}
    )
    with pytest.raises(UnsupportedError) as caught:
        to_tflite(model, tmp_path)
    assert caught.value.items
    assert nothing_written(tmp_path)


# ---------------------------------------------------------------- nothing but builtin operators


def everything() -> onnx.ModelProto:
    """Ops that other converters leave to TensorFlow's own kernels, or to custom ones."""
    ops: list[tuple[str, list[str], dict[str, Any]]] = [
        ("Erf", ["x"], {}),
        ("Sinh", ["x"], {}),
        ("Asinh", ["x"], {}),
        ("Tan", ["x"], {}),
        ("Acos", ["u"], {}),
        ("Atanh", ["u"], {}),
        ("Softplus", ["x"], {}),
        ("Softsign", ["x"], {}),
        ("Celu", ["x"], {}),
        ("Selu", ["x"], {}),
        ("Mish", ["x"], {}),
        ("Hardmax", ["x"], {}),
        ("Det", ["m"], {}),
        ("LRN", ["i"], {"size": 3}),
        ("Einsum", ["m", "m"], {"equation": "ij,kj->ik"}),
        ("Trilu", ["m"], {}),
        ("CumSum", ["m", "axis"], {"exclusive": 1}),
        ("GridSample", ["i", "g"], {}),
        ("LpPool", ["i"], {"kernel_shape": [2, 2]}),
        ("MaxUnpool", ["i", "places"], {"kernel_shape": [2, 2]}),
        ("Unique", ["x"], {}),
        (
            "RoiAlign",
            ["i", "boxes", "which"],
            {"output_height": 2, "output_width": 2, "sampling_ratio": 2},
        ),
        ("Resize", ["i", "", "by"], {"mode": "cubic"}),
        ("GroupNormalization", ["i", "s", "s"], {"num_groups": 2}),
        ("ReduceLogSumExp", ["x"], {}),
        ("IsInf", ["x"], {}),
        ("BitShift", ["n", "n"], {"direction": "LEFT"}),
        ("Compress", ["x", "k"], {}),
        ("NonZero", ["x"], {}),
        ("ScatterElements", ["m", "e", "m"], {"reduction": "max"}),
    ]
    nodes = [node(op, operands, [f"y{i}"], **more) for i, (op, operands, more) in enumerate(ops)]
    inputs = [
        info("x", FLOAT, [3]),
        info("u", FLOAT, [3]),
        info("m", FLOAT, [3, 3]),
        info("i", FLOAT, [1, 4, 4, 4]),
        info("g", FLOAT, [1, 2, 2, 2]),
        info("boxes", FLOAT, [1, 4]),
        info("n", "uint32", [3]),
        info("places", "int64", [1, 4, 4, 4]),
    ]
    constants = {
        "axis": np.array(1),
        "which": ints(0),
        "by": np.float32([1, 1, 2, 2]),
        "s": np.ones(4, np.float32),
        "k": np.array([True, False, True]),
        "e": np.eye(3, dtype=np.int64),
    }
    model = onnx_model(nodes, inputs, [], constants, opset=21)
    others = {"Unique": FLOAT, "IsInf": "bool", "BitShift": "uint32", "NonZero": "int64"}
    kinds = [others.get(made.op_type, FLOAT) for made in nodes]
    model.graph.output.extend(info(f"y{i}", kind, None) for i, kind in enumerate(kinds))
    return model


def test_neither_flex_nor_custom_ops_are_written(tmp_path: Path) -> None:
    """The written file runs on any LiteRT, without TensorFlow."""
    made = to_tflite(everything(), tmp_path)
    operators = [op for graph in wire.read(made.content).subgraphs for op in graph.operators]
    assert len(operators) > 30
    codes = ModelT.InitFromPackedBuf(made.content, 0).operatorCodes
    assert len(codes) > 10
    assert not [code.customCode for code in codes if code.customCode]


# ---------------------------------------------------------------- numbers that mean nothing

CONV = {"w": normal(4, 3, 3, 3)}
PLANE = [info("x", FLOAT, [1, 3, 8, 8])]
ROW = [info("x", FLOAT, [6])]

Numbers = tuple[Any, list[Any], dict[str, np.ndarray]]

BROKEN: dict[str, Numbers] = {
    "stride 0": ([node("Conv", ["x", "w"], ["y"], strides=[0, 1])], PLANE, CONV),
    "dilation 0": ([node("Conv", ["x", "w"], ["y"], dilations=[0, 1])], PLANE, CONV),
    "too many strides": ([node("Conv", ["x", "w"], ["y"], strides=[1, 1, 1])], PLANE, CONV),
    "kernel beyond": ([node("MaxPool", ["x"], ["y"], kernel_shape=[9, 9])], PLANE, {}),
    "kernel 0": ([node("MaxPool", ["x"], ["y"], kernel_shape=[0, 2])], PLANE, {}),
    "channels": ([node("Conv", ["x", "w"], ["y"])], [info("x", FLOAT, [1, 5, 8, 8])], CONV),
    "bias": ([node("Conv", ["x", "w", "b"], ["y"])], PLANE, {**CONV, "b": normal(5)}),
    "axis": ([node("Softmax", ["x"], ["y"], axis=1)], ROW, {}),
    "perm": ([node("Transpose", ["x"], ["y"], perm=[0, 0])], [info("x", FLOAT, [2, 3])], {}),
    "reshape": ([node("Reshape", ["x", "s"], ["y"])], ROW, {"s": ints(4, 2)}),
    "reshape twice": ([node("Reshape", ["x", "s"], ["y"])], ROW, {"s": ints(-1, -1)}),
    "broadcast": ([node("Add", ["x", "c"], ["y"])], ROW, {"c": normal(4)}),
    "matrices": ([node("MatMul", ["x", "c"], ["y"])], ROW, {"c": normal(4, 2)}),
    "joined": ([node("Concat", ["x", "c"], ["y"], axis=0)], ROW, {"c": normal(4, 2)}),
    "split": ([node("Split", ["x", "s"], ["y", "z"])], ROW, {"s": ints(1, 2)}),
    "squeezed": ([node("Squeeze", ["x", "a"], ["y"])], ROW, {"a": ints(0)}),
    "blocks": ([node("DepthToSpace", ["x"], ["y"], blocksize=2)], PLANE, {}),
    "tile": ([node("Tile", ["x", "s"], ["y"])], ROW, {"s": ints(-1)}),
    "types": ([node("Add", ["x", "c"], ["y"])], ROW, {"c": ints(1)}),
    "scale 0": ([node("QuantizeLinear", ["x", "s"], ["y"])], ROW, {"s": np.float32(0)}),
    "missing operand": ([node("Conv", ["x"], ["y"])], PLANE, {}),
    "missing attribute": ([node("Concat", ["x", "x"], ["y"])], ROW, {}),
    "nobody's value": ([node("Add", ["x", "ghost"], ["y"])], ROW, {}),
    "made twice": ([node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["y"])], ROW, {}),
    "circle": (
        [node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"]), node("Neg", ["b"], ["y"])],
        ROW,
        {},
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_onnx_models_that_break_a_rule_are_refused(name: str, tmp_path: Path) -> None:
    """By name and place, before anything is written."""
    nodes, inputs, constants = BROKEN[name]
    model = onnx_model(nodes, inputs, [info("y", FLOAT, None)], constants)
    with pytest.raises(InvalidModelError) as caught:
        to_tflite(model, tmp_path)
    assert f"{nodes[0].op_type} at node #0" in str(caught.value) or len(nodes) > 1
    assert nothing_written(tmp_path)


def cut_short() -> bytes:
    constants = {"w": normal(4, 3, 3, 3)}
    nodes = [node("Conv", ["x", "w"], ["y"])]
    outputs = [info("y", FLOAT, [1, 4, 6, 6])]
    return bytes(onnx_model(nodes, PLANE, outputs, constants).SerializeToString())


@pytest.mark.parametrize("kind", ["empty", "half", "text", "other", "tflite"])
def test_files_that_are_no_onnx_models_are_refused(kind: str, tmp_path: Path) -> None:
    whole = cut_short()
    content = {
        "empty": b"", "half": whole[: len(whole) // 2], "text": b"hello, world\n" * 9,
        "other": bytes(range(256)), "tflite": b"\x1c\x00\x00\x00TFL3" + bytes(40),
    }[kind]  # fmt: skip
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(NnconvError):
        nnconv.convert(tmp_path / "model.onnx", tmp_path / "model.tflite")
    assert nothing_written(tmp_path)


def test_each_place_where_an_onnx_file_may_end_is_refused(tmp_path: Path) -> None:
    whole = cut_short()
    path = tmp_path / "model.onnx"
    for length in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(NnconvError):
            nnconv.convert(path, tmp_path / "model.tflite")
    assert nothing_written(tmp_path)


def test_an_onnx_model_that_gives_nothing_is_refused(tmp_path: Path) -> None:
    model = onnx_model([node("Neg", ["x"], ["y"])], ROW, [])
    with pytest.raises(UnsupportedError, match="gives nothing"):
        to_tflite(model, tmp_path)
    assert nothing_written(tmp_path)


def test_shapes_in_an_onnx_file_are_checked_by_its_nodes(tmp_path: Path) -> None:
    """What it states of values between is believed only where it can be."""
    nodes = [node("Neg", ["x"], ["h"]), node("Abs", ["h"], ["y"])]
    model = onnx_model(nodes, ROW, [info("y", FLOAT, [7])])
    model.graph.value_info.append(info("h", FLOAT, [7]))
    made = to_tflite(model, tmp_path)
    assert made.interface().outputs == [("y", FLOAT, (6,))]


def test_nodes_that_wait_for_each_other_are_named(tmp_path: Path) -> None:
    """Those of the circle, in the order of their data, and no others."""
    nodes = [
        node("Relu", ["x"], ["before"], name="before"),
        node("Add", ["before", "c"], ["a"], name="first"),
        node("Neg", ["a"], ["b"]),
        node("Relu", ["b"], ["c"], name="third"),
        node("Abs", ["c"], ["y"], name="behind"),
    ]
    model = onnx_model(nodes, [info("x", FLOAT, [2])], [info("y", FLOAT, [2])])
    with pytest.raises(InvalidModelError) as caught:
        to_tflite(model, tmp_path)
    _, _, told = caught.value.message.partition("nodes wait for each other's results: ")
    assert sorted(told.split(", ")) == [
        "Add at node #1 (`first`)", "Neg at node #2 (`b`)", "Relu at node #3 (`third`)",
    ]  # fmt: skip
