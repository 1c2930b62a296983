"""Kinds of fault in what a file holds besides arithmetic: names, extents, bodies, states."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from nnconv.cli import main

import nnconv
from nnconv.errors import ExitCode, UnsupportedError
from support.litert import LiteRtRunner, run_litert
from support.places import FIXTURES
from support.spine import onnx_session
from support.tflite_builder import Subgraph, Tensor, TfliteBuilder
from support.whole import Whole, conv, convert, convert_bytes, floats, identity_conv

FLOAT = "float32"


# ---------------------------------------------------------------- names and order


def test_an_input_that_goes_out_and_one_that_nobody_reads(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (3,))
    b.input("unused", "int32", (2, 2))
    y = b.op("RELU", [x], [(FLOAT, (3,), None, "y")])
    whole = convert(b, tmp_path, y, x, y)
    data = [np.float32([-1, 0, 2]), np.zeros((2, 2), np.int32)]
    assert [info.name for info in whole.session.get_inputs()] == ["x", "unused"]
    for array, wanted in zip(whole.run(*data), run_litert(whole.source, data), strict=True):
        np.testing.assert_array_equal(array, wanted)
    names = [info.name for info in whole.session.get_outputs()]
    assert names[0] == "y"
    assert len(set(names)) == 3
    # ONNX gives each name once: what could not stay is told.
    assert [(kind, old) for kind, old, _ in whole.report.renamed] == [
        ("output", "x"),
        ("output", "y"),
    ]


NAMES = ["scope/x:0", "with space", "größe 入力", "a;b;c", "..", "-", "'\"\\", "x" * 300]


def test_names_stay_whatever_they_are_made_of(tmp_path: Path) -> None:
    b = TfliteBuilder()
    inputs = [b.input(name, FLOAT, (2,)) for name in NAMES]
    outputs = [b.op("NEG", [x], [(FLOAT, (2,), None, f"{x.name} out")]) for x in reversed(inputs)]
    whole = convert(b, tmp_path, *outputs)
    assert whole.report.renamed == []
    assert [info.name for info in whole.session.get_inputs()] == NAMES
    wanted = [f"{name} out" for name in reversed(NAMES)]
    assert [info.name for info in whole.session.get_outputs()] == wanted
    feeds = [np.full(2, i, np.float32) for i in range(len(NAMES))]
    got = whole.run(*feeds)
    assert [array[0] for array in got] == [-i for i in reversed(range(len(NAMES)))]


def test_names_that_cannot_stay_are_told(tmp_path: Path) -> None:
    """Empty ones, and those that are there twice."""
    b = TfliteBuilder()
    inputs = [b.input(name, FLOAT, (2,)) for name in ("", "x", "x", "")]
    outputs = [b.op("NEG", [x], [(FLOAT, (2,), None, "y")]) for x in inputs]
    whole = convert(b, tmp_path, *outputs)
    infos = [*whole.session.get_inputs(), *whole.session.get_outputs()]
    names = [info.name for info in infos]
    assert len(set(names)) == 8
    assert names[1] == "x"
    assert names[4] == "y"
    told = {new: old for _, old, new in whole.report.renamed}
    assert told.keys() == set(names) - {"x", "y"}
    assert sorted(told.values()) == ["", "", "x", "y", "y", "y"]
    got = whole.run(*(np.full(2, i, np.float32) for i in range(4)))
    assert [array[0] for array in got] == [0, -1, -2, -3]


def two_entries() -> bytes:
    """Two signatures over two subgraphs, whose own names differ from the tensors'."""
    b = TfliteBuilder()
    second = b.subgraph("second")
    for s, key, op in ((b, "serve", "NEG"), (second, "train/step", "ABS")):
        x, z = s.input("x:0", FLOAT, (2,)), s.input("z:0", FLOAT, (2,))
        y = s.op("SUB", [s.op(op, [x], [(FLOAT, (2,))]), z], [(FLOAT, (2,), None, "y:0")])
        s.output(y, x)
        b.signature(key, {"later": z, "image": x}, {"same": x, "score": y})
    return bytes(b.build())


def test_every_signature_is_reachable_and_keeps_its_names(tmp_path: Path) -> None:
    content = two_entries()
    runner = LiteRtRunner(content)
    feeds = {"image": np.float32([-1, 2]), "later": np.float32([5, 7])}
    for key, other in (("serve", "train/step"), ("train/step", "serve")):
        whole = convert_bytes(content, tmp_path, signature=key)
        assert whole.report.signature == key
        assert whole.report.other_signatures == [other]
        executable = nnconv.compile(whole.target, "onnxruntime:cpu")
        got = executable.run({"x:0": feeds["image"], "z:0": feeds["later"]})
        wanted = runner.run_signature(key, feeds)
        np.testing.assert_array_equal(got["y:0"], wanted["score"])
        kept = {prop.key: prop.value for prop in onnx.load(str(whole.target)).metadata_props}
        for name in (key, "image", "later", "same", "score"):
            assert any(name in value for value in kept.values())


# ---------------------------------------------------------------- open extents


@pytest.mark.parametrize("computed", [False, True])
def test_an_open_batch_runs_at_any_size(computed: bool, tmp_path: Path) -> None:
    """Behind a flattening, to -1 or to what the shape says at run time."""
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (1, 3, 4, 2), signature=(-1, 3, 4, 2))
    y = identity_conv(b, x)
    target = b.const(np.int32([-1, 24]))
    if computed:
        shape = b.op("SHAPE", [y], [("int32", (4,))], options={"out_type": "INT32"})
        bounds = [b.const(np.int32([place])) for place in (0, 1, 1)]
        options = {"shrink_axis_mask": 1}
        batch = b.op("STRIDED_SLICE", [shape, *bounds], [("int32", ())], options=options)
        options = {"values_count": 2, "axis": 0}
        target = b.op("PACK", [batch, b.const(np.int32(24))], [("int32", (2,))], options=options)
    flat = b.op("RESHAPE", [y, target], [(FLOAT, (1, 24))])
    w = b.const(floats(5, 24))
    whole = convert(b, tmp_path, b.op("FULLY_CONNECTED", [flat, w, None], [(FLOAT, (1, 5))]))
    for info in (*whole.session.get_inputs(), *whole.session.get_outputs()):
        assert not isinstance(info.shape[0], int)
    for count in (1, 5):
        data = floats(count, 3, 4, 2)
        np.testing.assert_array_equal(whole.run(data)[0], data.reshape(count, 24) @ floats(5, 24).T)


def test_extents_are_fixed_on_request(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (1, 3, 4, 2), signature=(-1, -1, -1, 2))
    whole = convert(b, tmp_path, identity_conv(b, x), input_shapes={"x": (2, 5, 6, 2)})
    infos = [*whole.session.get_inputs(), *whole.session.get_outputs()]
    assert [info.shape for info in infos] == [[2, 5, 6, 2]] * 2
    np.testing.assert_array_equal(whole.run(floats(2, 5, 6, 2))[0], floats(2, 5, 6, 2))


def test_counts_known_at_run_time_are_open_in_the_interface(tmp_path: Path) -> None:
    """The rank stays known."""
    b = TfliteBuilder()
    x = b.input("x", "bool", (2, 3))
    places = b.op("WHERE", [x], [("int64", (1, 2))])
    boxes, scores = b.input("boxes", FLOAT, (6, 4)), b.input("scores", FLOAT, (6,))
    limits = [b.const(np.int32(4)), b.const(np.float32(0.5)), b.const(np.float32(0.1))]
    operands = [boxes, scores, *limits]
    kept, count = b.op("NON_MAX_SUPPRESSION_V4", operands, [("int32", (4,)), ("int32", ())])
    whole = convert(b, tmp_path, places, kept, count)
    shapes = [info.shape for info in whole.session.get_outputs()]
    assert not isinstance(shapes[0][0], int)
    assert shapes[0][1] == 2
    assert shapes[1:] == [[4], []], "padded to the bound; the count says how many are meant"
    corners = np.float32([[i, i, i + 1, i + 1] for i in range(6)])
    feeds = [np.eye(2, 3, dtype=bool), corners, np.float32([0.9, 0.05, 0.8, 0.7, 0, 0])]
    got = whole.run(*feeds)
    assert got[0].tolist() == [[0, 0], [1, 1]]
    assert got[1].tolist() == [0, 2, 3, 0]
    assert got[2] == 3


# ---------------------------------------------------------------- ops that nobody knows


def unknown_ops() -> bytes:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (2,))
    y = b.op("Mystery", [x], [(FLOAT, (2,), None, "first")])
    y = b.op("NEG", [y], [(FLOAT, (2,))])
    y = b.op("FlexErf", [y], [(FLOAT, (2,), None, "second")])
    b.output(b.op("Mystery", [y], [(FLOAT, (2,), None, "third")]))
    return bytes(b.build())


def test_every_unknown_op_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        convert_bytes(unknown_ops(), tmp_path)
    assert [item.op for item in caught.value.items] == ["Mystery", "FlexErf", "Mystery"]
    assert [
        place in item.where
        for item, place in zip(caught.value.items, ("op #0", "op #2", "op #3"), strict=True)
    ] == [True] * 3
    assert not list(tmp_path.glob("*.onnx*"))


def test_the_command_exits_with_4_and_writes_nothing(tmp_path: Path, capsys: Any) -> None:
    source, target = tmp_path / "m.tflite", tmp_path / "m.onnx"
    source.write_bytes(unknown_ops())
    assert main(["convert", str(source), str(target), "--json"]) == ExitCode.UNSUPPORTED
    error = json.loads(capsys.readouterr().out)
    assert len(json.dumps(error).split("Mystery")) > 2
    target.write_bytes(b"what was there before")
    assert main(["convert", str(source), str(target)]) == ExitCode.UNSUPPORTED
    told = capsys.readouterr().err
    assert [told.count(f"{op} at subgraph 0") for op in ("Mystery", "FlexErf")] == [2, 1]
    assert target.read_bytes() == b"what was there before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.tflite"]


# ---------------------------------------------------------------- sparse weights

SPARSE: dict[str, dict[str, Any]] = {
    "csr": {"formats": ["dense", "csr"]},
    "csr columns first": {"formats": ["dense", "csr"], "traversal": [1, 0]},
    "blocks of 1 by 4": {
        "formats": ["dense", "csr", "dense"], "block": {1: 4}, "traversal": [0, 1, 2],
    },
}  # fmt: skip


@pytest.mark.parametrize("form", SPARSE)
@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_sparse_weights_become_dense(form: str, kind: str, tmp_path: Path) -> None:
    dense = np.zeros((4, 8), np.float32)
    dense[0, 0], dense[0, 5], dense[2, 3], dense[3, 4:8] = 1, -2, 3, [4, -5, 6, 7]
    quant = (0.5, 0) if kind == "int8" else None
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (2, 8))
    w = b.sparse_const(dense.astype(kind), quant=quant, **SPARSE[form])
    w = b.op("DENSIFY", [w], [(kind, (4, 8), quant)])
    if quant:
        w = b.op("DEQUANTIZE", [w], [(FLOAT, (4, 8))])
    whole = convert(b, tmp_path, b.op("FULLY_CONNECTED", [x, w, None], [(FLOAT, (2, 4))]))
    scale = 0.5 if quant else 1
    np.testing.assert_array_equal(whole.run(floats(2, 8))[0], floats(2, 8) @ dense.T * scale)


# ---------------------------------------------------------------- bodies


def test_a_loop_of_three_turns(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (2,))
    cond, body = b.subgraph("cond"), b.subgraph("body")
    i = cond.input("i", "int32", ())
    cond.input("x", FLOAT, (2,))
    cond.output(cond.op("LESS", [i, cond.const(np.int32(3))], [("bool", ())]))
    i, a = body.input("i", "int32", ()), body.input("x", FLOAT, (2,))
    more = body.op("ADD", [i, body.const(np.int32(1))], [("int32", ())])
    body.output(more, body.op("ADD", [a, a], [(FLOAT, (2,))]))
    options = {"cond_subgraph_index": cond, "body_subgraph_index": body}
    results = [("int32", ()), (FLOAT, (2,))]
    turns, y = b.op("WHILE", [b.const(np.int32(0)), x], results, options=options)
    got = convert(b, tmp_path, y, turns).run(np.float32([1, -3]))
    assert got[0].tolist() == [8, -24]
    assert got[1] == 3


def _branches(b: TfliteBuilder, condition: Tensor) -> Tensor:
    """Twice the rows, or the rows as they are."""
    x = b.input("x", FLOAT, (2, 3))
    then, otherwise = b.subgraph("then"), b.subgraph("else")
    a = then.input("a", FLOAT, (2, 3))
    then.output(then.op("CONCATENATION", [a, a], [(FLOAT, (4, 3))], options={"axis": 0}))
    otherwise.output(otherwise.input("a", FLOAT, (2, 3)))
    options = {"then_subgraph_index": then, "else_subgraph_index": otherwise}
    y = b.op("IF", [condition, x], [(FLOAT, (2, 3))], options=options)
    assert isinstance(y, Tensor)
    return y


def test_branches_of_other_shapes(tmp_path: Path) -> None:
    b = TfliteBuilder()
    whole = convert(b, tmp_path, _branches(b, b.input("flag", "bool", ())))
    x = floats(2, 3)
    np.testing.assert_array_equal(whole.run(np.array(True), x)[0], np.concatenate([x, x]))
    np.testing.assert_array_equal(whole.run(np.array(False), x)[0], x)


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_on_a_constant_is_decided_beforehand(condition: bool, tmp_path: Path) -> None:
    b = TfliteBuilder()
    whole = convert(b, tmp_path, _branches(b, b.const(np.array(condition))))
    x = floats(2, 3)
    expected = np.concatenate([x, x]) if condition else x
    np.testing.assert_array_equal(whole.run(x)[0], expected)
    assert "If" not in {node.op_type for node in whole.graph.node}


# ---------------------------------------------------------------- states


def _counter(b: TfliteBuilder) -> Tensor:
    """What was fed so far, all added up; it starts at [5, 6]."""

    def handle(s: Subgraph) -> Any:
        return s.op("VAR_HANDLE", [], [("resource", ())], options={"shared_name": "total"})

    init = b.subgraph("init")
    init.op("ASSIGN_VARIABLE", [handle(init), init.const(np.float32([5, 6]))], [])
    x = b.input("x", FLOAT, (2,))
    b.op("CALL_ONCE", [], [], options={"init_subgraph_index": init})
    old = b.op("READ_VARIABLE", [handle(b)], [(FLOAT, (2,))])
    y = b.op("ADD", [x, old], [(FLOAT, (2,), None, "y")])
    b.op("ASSIGN_VARIABLE", [handle(b), y], [])
    assert isinstance(y, Tensor)
    return y


def run_with_states(whole: Whole, runs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Feed each state's output back in, from the initial values that the source has."""
    states = [state.initial for state in nnconv.load(whole.source).states]
    results = []
    for x in runs:
        first, *states = whole.run(x, *states)
        results.append(first)
    return results


def test_a_variable_carries_over(tmp_path: Path) -> None:
    b = TfliteBuilder()
    whole = convert(b, tmp_path, _counter(b))
    assert len(whole.report.states) == 1
    runs = [np.float32([1, 1]), np.float32([10, 20])]
    assert [array.tolist() for array in run_with_states(whole, runs)] == [[6, 7], [16, 27]]
    runner = LiteRtRunner(whole.source)
    assert [runner.run([x])[0].tolist() for x in runs] == [[6, 7], [16, 27]]
    executable = nnconv.compile(whole.target, "onnxruntime:cpu")
    assert [executable.run({"x": x})["y"].tolist() for x in runs] == [[6, 7], [16, 27]]


def test_an_lstm_with_absent_operands_keeps_the_others_in_place(tmp_path: Path) -> None:
    """No peephole, projection or norm; neither do the input gate's weights exist (CIFG)."""
    rng = np.random.default_rng(0)
    steps, batch, depth, cells = 4, 2, 3, 5
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (batch, steps, depth))

    def weights(*shape: int) -> Tensor:
        return b.const(rng.standard_normal(shape).astype(np.float32) / 2)

    inner = [None, *(weights(cells, depth) for _ in range(3))]
    recurrent = [None, *(weights(cells, cells) for _ in range(3))]
    biases = [None, *(weights(cells) for _ in range(3))]
    states = [b.variable(FLOAT, (batch, cells)) for _ in range(2)]
    operands = [x, *inner, *recurrent, None, None, None, *biases, None, None, *states, *[None] * 4]
    options = {"fused_activation_function": "TANH", "time_major": False}
    y = b.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [(FLOAT, (batch, steps, cells))], options=options
    )
    whole = convert(b, tmp_path, y)
    runs = [rng.standard_normal((batch, steps, depth)).astype(np.float32) for _ in range(2)]
    runner = LiteRtRunner(whole.source, "opt")
    wanted = [runner.run([x])[0] for x in runs]
    got = run_with_states(whole, runs)
    for array, expected in zip(got, wanted, strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6)
    assert not np.allclose(
        whole.run(runs[1], *(np.zeros((batch, cells), np.float32),) * 2)[0], got[1]
    )


# ---------------------------------------------------------------- opsets

MODELS = sorted((FIXTURES / "digits").glob("*.tflite"))


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
def test_every_opset_gives_equal_results(model: Path, tmp_path: Path) -> None:
    (info,) = nnconv.load(model).inputs
    shape = tuple(d if isinstance(d, int) else 3 for d in info.shape or ())
    rng = np.random.default_rng(0)
    kind = info.dtype.numpy
    drawn = rng.random(shape) if info.dtype.is_float else rng.integers(0, 100, shape)
    results = []
    for opset in range(13, 28):
        target = tmp_path / f"{opset}.onnx"
        report = nnconv.convert(model, target, opset=opset)
        assert report.opset == opset
        assert onnx.load(target).opset_import[0].version == opset
        session = onnx_session(target)
        results.append(session.run(None, {session.get_inputs()[0].name: drawn.astype(kind)})[0])
    for array in results[1:]:
        if array.dtype.kind == "f":
            np.testing.assert_allclose(array, results[0], rtol=1e-4, atol=1e-5)
        else:
            assert np.abs(array.astype(int) - results[0]).max() <= 1


@pytest.mark.parametrize("opset", [12, 28, 0, -1])
def test_other_opsets_are_refused(opset: int, tmp_path: Path) -> None:
    with pytest.raises(nnconv.errors.UsageError, match="13 to 27"):
        nnconv.convert(MODELS[0], tmp_path / "m.onnx", opset=opset)
    assert not (tmp_path / "m.onnx").exists()


# ---------------------------------------------------------------- shared tensors


def test_a_weight_of_a_convolution_and_a_layer(tmp_path: Path) -> None:
    """One buffer, two tensors of other shapes: turning one leaves the other as it was."""
    rng = np.random.default_rng(0)
    values = rng.integers(-5, 6, (6, 12)).astype(np.float32)
    b = TfliteBuilder()
    x, z = b.input("x", FLOAT, (1, 4, 5, 3)), b.input("z", FLOAT, (2, 12))
    rows = b.const(values)
    filters = b.const(values.reshape(6, 2, 2, 3), share=rows)
    bias = b.const(np.zeros(6, np.float32))
    y = conv(b, [x, filters, bias], (1, 3, 4, 6), padding="VALID")
    product = b.op("FULLY_CONNECTED", [z, rows, None], [(FLOAT, (2, 6))])
    whole = convert(b, tmp_path, y, product)
    data = rng.integers(-5, 6, (1, 4, 5, 3)).astype(np.float32)
    got = whole.run(data, floats(2, 12))
    wanted = run_litert(whole.source, [data, floats(2, 12)])
    for array, expected in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(array, expected)


def test_an_input_that_a_layer_and_the_interface_read(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (1, 3, 4, 2))
    y = identity_conv(b, x)
    again = b.op("ADD", [x, y], [(FLOAT, (1, 3, 4, 2))])
    whole = convert(b, tmp_path, x, y, again)
    got = whole.run(floats(1, 3, 4, 2))
    for array, factor in zip(got, (1, 1, 2), strict=True):
        np.testing.assert_array_equal(array, factor * floats(1, 3, 4, 2))


# ---------------------------------------------------------------- showing what is there


@pytest.mark.parametrize(
    ("kind", "point", "shown"),
    [("int8", -128, "q + 128"), ("int8", 3, "q - 3"), ("uint8", 131, "q - 131"), ("int8", 0, "q")],
)
def test_inspect_prints_what_codes_mean(
    kind: str, point: int, shown: str, tmp_path: Path, capsys: Any
) -> None:
    b = TfliteBuilder()
    x = b.input("x", kind, (2,), quant=(0.5, point))
    b.output(b.op("RESHAPE", [x, b.const(np.int32([2]))], [(kind, (2,), (0.5, point))]))
    path = tmp_path / "m.tflite"
    path.write_bytes(b.build())
    assert main(["inspect", str(path), "--json"]) == ExitCode.OK
    (signature,) = json.loads(capsys.readouterr().out)["signatures"]
    formula = signature["inputs"][0]["formula"]
    assert formula in {f"real = 0.5 * ({shown})", f"real = 0.5 * {shown}"}
    assert main(["inspect", str(path)]) == ExitCode.OK
    assert shown in capsys.readouterr().out
    code = 7
    assert eval(formula.removeprefix("real = "), {"q": code}) == 0.5 * (code - point)


def test_a_session_loads_without_any_help_from_nnconv(tmp_path: Path) -> None:
    """The written file is plain ONNX of the standard domain."""
    for model in MODELS:
        target = tmp_path / "m.onnx"
        nnconv.convert(model, target)
        assert {entry.domain for entry in onnx.load(target).opset_import} <= {""}
        onnxruntime.InferenceSession(target.read_bytes(), providers=["CPUExecutionProvider"])


def test_conversion_needs_no_runtime(tmp_path: Path) -> None:
    """Neither onnxruntime, LiteRT, onnx, protobuf nor flatbuffers, let alone TensorFlow."""
    absent = ["onnxruntime", "ai_edge_litert", "tflite_runtime", "onnx", "google", "flatbuffers"]
    target = tmp_path / "m.onnx"
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({[*absent, 'tensorflow']}))\n"
        f"import nnconv; nnconv.convert({str(MODELS[0])!r}, {str(target)!r})"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert target.exists()


@pytest.mark.parametrize(
    "shape", [(1, 3, 4, 3), (1, 3, 5, 2), (3, 4, 2)], ids=["depth", "size", "rank"]
)
def test_extents_that_a_model_cannot_take_are_a_usage_error(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    """It names the op that they don't fit, and isn't the file's fault."""
    b = TfliteBuilder()
    y = identity_conv(b, b.input("x", FLOAT, (1, 3, 4, 2)))
    w = b.const(floats(5, 24))
    y = b.op("FULLY_CONNECTED", [y, w, None], [(FLOAT, (1, 5))])
    with pytest.raises(nnconv.errors.UsageError, match=r"'x'.*(CONV_2D|FULLY_CONNECTED)"):
        convert(b, tmp_path, y, input_shapes={"x": shape})
    assert not (tmp_path / "model.onnx").exists()


def test_a_model_that_gives_nothing_is_refused(tmp_path: Path) -> None:
    b = TfliteBuilder()
    b.op("NEG", [b.input("x", FLOAT, (2,))], [(FLOAT, (2,))])
    with pytest.raises(UnsupportedError, match="gives nothing"):
        convert(b, tmp_path)
    assert not (tmp_path / "model.onnx").exists()
