"""Kinds of fault in ONNX models of several graphs: branches, loops, functions, recurrent layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import GraphProto, helper

import nnconv
from support.onnx_qdq import Qdq
from support.onnx_routes import OnnxCase, check_routes, node
from support.onnx_whole import check_against_onnxruntime, info, ints, onnx_model, to_tflite
from support.whole import floats, normal

FLOAT = "float32"


def body(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> GraphProto:
    return helper.make_graph(nodes, "body", inputs, outputs)


# ---------------------------------------------------------------- branches


def branches(condition: str, *, constant: bool | None = None) -> onnx.ModelProto:
    """Twice the rows of what lies outside, or those behind a convolution of theirs."""
    then = [node("Concat", ["x", "x"], ["t"], axis=0)]
    otherwise = [node("Conv", ["x", "w"], ["c"]), node("Add", ["c", "k"], ["e"])]
    nodes = [
        node(
            "If",
            [condition],
            ["y"],
            then_branch=body(then, [], [info("t", FLOAT, None)]),
            else_branch=body(otherwise, [], [info("e", FLOAT, None)]),
        )
    ]
    inputs = [info("x", FLOAT, [1, 2, 3, 4])]
    constants = {"w": normal(2, 2, 1, 1), "k": normal(2, 1, 1)}
    if constant is None:
        inputs.append(info("flag", "bool", []))
    else:
        constants["flag"] = np.array(constant)
    return onnx_model(nodes, inputs, [info("y", FLOAT, [None, 2, 3, 4])], constants)


def test_onnx_branches_of_other_shapes(tmp_path: Path) -> None:
    made = to_tflite(branches("flag"), tmp_path)
    x = normal(1, 2, 3, 4)
    check_against_onnxruntime(made, [x, np.array(True)], [x, np.array(False)])
    assert made.ops["IF"] == 1


@pytest.mark.parametrize("constant", [True, False])
def test_an_onnx_branch_on_a_constant_is_decided_beforehand(constant: bool, tmp_path: Path) -> None:
    made = to_tflite(branches("flag", constant=constant), tmp_path)
    check_against_onnxruntime(made, [normal(1, 2, 3, 4)])
    assert "IF" not in made.ops


@pytest.mark.parametrize("op", ["Clip", "Relu", "Slice"])
def test_branches_read_codes_whose_quantizer_has_nothing_to_do(op: str, tmp_path: Path) -> None:
    """onnxruntime ends the process where it takes out a quantizer that bodies alone read."""
    q = Qdq()
    inside = q.qdq(
        q.op("Neg", q.qdq(q.input("x", FLOAT, [5, 3]), 0.01, 0, "int16")), 0.01, 0, "int16"
    )
    ends = {
        "Clip": [q.const(np.float32(-np.inf)), q.const(np.float32(1e6))],
        "Relu": [],
        "Slice": [q.const(np.int64([0])), q.const(np.int64([5]))],
    }
    codes = q.q(q.op(op, inside, *ends[op]), 0.01, 0, "int16")
    sides = [
        body([node("Identity", [codes], [name])], [], [info(name, "int16", [5, 3])])
        for name in ("then", "else")
    ]
    q.inputs.append(info("flag", "bool", []))
    q.op("If", "flag", name="y", then_branch=sides[0], else_branch=sides[1])
    source, target = tmp_path / "source.onnx", tmp_path / "model.onnx"
    onnx.save(q.model([("y", "int16", [5, 3])]), source)
    nnconv.convert(source, target)
    x = -floats(5, 3)
    session = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"x": x, "flag": np.array(True)})
    assert np.abs(got - np.rint(-x / 0.01)).max() <= 1


# ---------------------------------------------------------------- loops


def loop(count: bool, condition: bool) -> onnx.ModelProto:
    """x doubles, and each turn's x and number are collected; ``flag`` or the sum ends it."""
    turn = [
        node("Add", ["a", "a"], ["b"]),
        node("Add", ["a", "k"], ["seen"]),  # k lies outside
        node("ReduceSum", ["b"], ["total"], keepdims=0),
        node("Less", ["total", "limit"], ["on"]),
        node("Cast", ["i"], ["number"], to=onnx.TensorProto.FLOAT),
    ]
    inputs = [info("i", "int64", []), info("c", "bool", []), info("a", FLOAT, [2])]
    outputs = [
        info("on", "bool", []), info("b", FLOAT, [2]), info("seen", FLOAT, [2]),
        info("number", FLOAT, []),
    ]  # fmt: skip
    operands = ["n" if count else "", "flag" if condition else "", "x"]
    nodes = [node("Loop", operands, ["y", "all", "numbers"], body=body(turn, inputs, outputs))]
    given = [info("x", FLOAT, [2])]
    given += [info("n", "int64", [])] * count + [info("flag", "bool", [])] * condition
    results = [info("y", FLOAT, [2]), info("all", FLOAT, [None, 2]), info("numbers", FLOAT, [None])]
    # Without a condition at the start, ONNX lets what the body says of it count for nothing.
    limit = np.float32(60 if condition else np.inf)
    constants = {"k": np.float32([10, 20]), "limit": limit}
    return onnx_model(nodes, given, results, constants)


@pytest.mark.parametrize("condition", [False, True])
def test_onnx_loops_collect_what_each_turn_gives(condition: bool, tmp_path: Path) -> None:
    made = to_tflite(loop(count=True, condition=condition), tmp_path)
    flags = [[np.array(flag)] for flag in (True, False)] if condition else [[]]
    runs = [
        [np.float32(x), np.array(turns), *flag]
        for x, turns in (([1, -3], 3), ([10, 20], 5), ([1, 2], 0), ([1, 2], -1))
        for flag in flags
    ]
    check_against_onnxruntime(made, *runs)


def test_an_onnx_loop_until_a_condition(tmp_path: Path) -> None:
    made = to_tflite(loop(count=False, condition=True), tmp_path)
    runs = [[np.float32(x), np.array(flag)] for x in ([1, 2], [50, 50]) for flag in (True, False)]
    check_against_onnxruntime(made, *runs)


@pytest.mark.parametrize("backwards", [0, 1])
def test_an_onnx_scan_runs_along_its_axis(backwards: int, tmp_path: Path) -> None:
    """Running sums over the second dimension, stored along the first or last."""
    turn = [node("Add", ["s", "e"], ["t"]), node("Mul", ["t", "f"], ["out"])]
    inputs = [info("s", FLOAT, [2]), info("e", FLOAT, [2])]
    outputs = [info("t", FLOAT, [2]), info("out", FLOAT, [2])]
    attributes = {
        "num_scan_inputs": 1, "scan_input_axes": [1], "scan_output_axes": [-1],
        "scan_input_directions": [backwards], "scan_output_directions": [backwards],
    }  # fmt: skip
    made = node("Scan", ["z", "x"], ["last", "y"], body=body(turn, inputs, outputs), **attributes)
    results = [info("last", FLOAT, [2]), info("y", FLOAT, [2, 5])]
    given = [info("z", FLOAT, [2]), info("x", FLOAT, [2, 5])]
    model = onnx_model([made], given, results, {"f": np.float32([1, 10])})
    check_against_onnxruntime(to_tflite(model, tmp_path), [np.float32([1, 2]), floats(2, 5)])


def test_onnx_bodies_inside_bodies_reach_what_lies_outside(tmp_path: Path) -> None:
    """A branch in a loop reads the loop's values and the model's."""
    then = body([node("Add", ["a", "x"], ["t"])], [], [info("t", FLOAT, [2])])
    otherwise = body([node("Mul", ["a", "k"], ["e"])], [], [info("e", FLOAT, [2])])
    turn = [
        node("Mod", ["i", "two"], ["odd"]),
        node("Cast", ["odd"], ["is_odd"], to=onnx.TensorProto.BOOL),
        node("If", ["is_odd"], ["b"], then_branch=then, else_branch=otherwise),
        node("Identity", ["c"], ["on"]),
    ]
    inputs = [info("i", "int64", []), info("c", "bool", []), info("a", FLOAT, [2])]
    outputs = [info("on", "bool", []), info("b", FLOAT, [2])]
    nodes = [node("Loop", ["n", "", "x"], ["y"], body=body(turn, inputs, outputs))]
    constants = {"k": np.float32([3, -1]), "two": np.array(2)}
    given = [info("x", FLOAT, [2]), info("n", "int64", [])]
    model = onnx_model(nodes, given, [info("y", FLOAT, [2])], constants)
    made = to_tflite(model, tmp_path)
    check_against_onnxruntime(made, *([np.float32([1, 2]), np.array(n)] for n in (0, 1, 4)))


# ---------------------------------------------------------------- functions


def functional(attribute: bool) -> onnx.ModelProto:
    """A function that calls another, twice, under the same inner names."""
    inner_node = node("LeakyRelu", ["x"], ["t"])
    if attribute:
        reference = onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT)
        reference.ref_attr_name = "slope"
        inner_node.attribute.append(reference)
    versions = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    inner = helper.make_function(
        "own", "Leak", ["x"], ["y"], [inner_node, node("Neg", ["t"], ["y"])], versions,
        attributes=["slope"] if attribute else [],
    )  # fmt: skip
    call = node("Leak", ["x"], ["t"], domain="own", slope=0.5 if attribute else None)
    again = node("Leak", ["t"], ["u"], domain="own", slope=0.25 if attribute else None)
    outer = helper.make_function(
        "own", "Twice", ["x", "w"], ["u", "p"], [call, again, node("Mul", ["u", "w"], ["p"])],
        versions,
    )  # fmt: skip
    nodes = [
        node("Twice", ["x", "k"], ["t", "m"], domain="own"),
        node("Twice", ["m", "k"], ["", "y"], domain="own"),
        node("Add", ["t", "y"], ["z"]),
    ]
    outputs = [info("y", FLOAT, [3]), info("z", FLOAT, [3])]
    given = [info("x", FLOAT, [3])]
    constants = {"k": np.float32([1, -2, 3])}
    return onnx_model(
        nodes, given, outputs, constants, domains={"own": 1}, functions=[inner, outer]
    )


@pytest.mark.parametrize("attribute", [False, True])
def test_functions_of_an_onnx_model_are_inlined(attribute: bool, tmp_path: Path) -> None:
    made = to_tflite(functional(attribute), tmp_path)
    check_against_onnxruntime(made, [np.float32([-4, 1, -2])])


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
@pytest.mark.parametrize("name", ["Relu", "Gelu", "HardSwish", "Softplus", "Mish"])
def test_functions_named_like_a_standard_op_are_not_called(
    name: str, domain: str, tmp_path: Path
) -> None:
    """Runtimes have that op themselves, also where ONNX defines it by others."""
    body = [node("Neg", ["a"], ["b"])]
    function = helper.make_function(domain, name, ["a"], ["b"], body, [helper.make_opsetid("", 21)])
    called = [node(name, ["x"], ["y"], domain=domain)]
    model = onnx_model(
        called, [info("x", FLOAT, [3])], [info("y", FLOAT, [3])], functions=[function], opset=21
    )
    check_against_onnxruntime(to_tflite(model, tmp_path), [np.float32([-4, 1, -2])])


# ---------------------------------------------------------------- recurrent layers


def recurrent(op: str, *, given: str, direction: str, batch: int = 2) -> OnnxCase:
    """``given`` names the optional operands that there are."""
    gates, sides, depth, cells = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], 1, 3, 4
    sides = 2 if direction == "bidirectional" else 1
    constants = {
        "w": normal(sides, gates * cells, depth) / 2,
        "r": normal(sides, gates * cells, cells) / 2,
    }
    operands = ["x", "w", "r", "", "", "", "", ""]
    feeds = {"x": normal(5, batch, depth)}
    options = {
        "bias": (3, "b", normal(sides, 2 * gates * cells)),
        "lengths": (4, "l", np.int32([5, 2][:batch])),
        "state": (5, "h", normal(sides, batch, cells)),
        "cell": (6, "c", normal(sides, batch, cells, seed=1)),
        "peepholes": (7, "p", normal(sides, 3 * cells)),
    }
    for name in given.split():
        place, operand, array = options[name]
        operands[place] = operand
        (feeds if name in ("state", "cell") else constants)[operand] = array
    while not operands[-1]:
        operands.pop()
    results = ["y", "last", "cells"] if op == "LSTM" else ["y", "last"]
    made = node(op, operands, results, hidden_size=cells, direction=direction)
    name = f"{op} {direction} {given}"
    return OnnxCase(name, made, feeds, constants=constants, same_nodes=False, tolerance=1e-4)


def layers() -> list[OnnxCase]:
    cases = [
        recurrent(op, given=given, direction=direction)
        for op in ("LSTM", "GRU", "RNN")
        for direction in ("forward", "reverse", "bidirectional")
        for given in ("bias", "lengths", "bias state")
    ]
    cases += [
        recurrent("LSTM", given=given, direction="forward")
        for given in ("cell", "peepholes", "bias lengths state cell peepholes", "")
    ]
    return cases


@pytest.mark.parametrize("case", layers(), ids=str)
def test_absent_operands_of_onnx_layers_keep_the_others_in_place(
    case: OnnxCase, tmp_path: Path
) -> None:
    check_routes(case, tmp_path)


def test_states_of_an_onnx_layer_stay_inputs_and_outputs(tmp_path: Path) -> None:
    """Fed back, they carry on where the last run ended."""
    nodes = [node("GRU", ["x", "w", "r", "b", "", "h"], ["", "next"], hidden_size=4)]
    constants = {"w": normal(1, 12, 3), "r": normal(1, 12, 4), "b": normal(1, 24)}
    inputs = [info("x", FLOAT, [1, 2, 3]), info("h", FLOAT, [1, 2, 4])]
    model = onnx_model(nodes, inputs, [info("next", FLOAT, [1, 2, 4])], constants)
    made = to_tflite(model, tmp_path)
    state = np.zeros((1, 2, 4), np.float32)
    for step in range(3):
        x = normal(1, 2, 3, seed=step)
        (wanted,) = check_against_onnxruntime(made, [x, state], tolerance=1e-4)
        (state,) = made.run(x, state)
        np.testing.assert_allclose(state, wanted[0], rtol=1e-5, atol=1e-5)


def test_a_sequence_of_any_length(tmp_path: Path) -> None:
    nodes = [node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4)]
    constants = {"w": normal(1, 16, 3), "r": normal(1, 16, 4)}
    model = onnx_model(
        nodes,
        [info("x", FLOAT, ["steps", "batch", 3])],
        [info("y", FLOAT, ["steps", 1, "batch", 4])],
        constants,
    )
    made = to_tflite(model, tmp_path)
    check_against_onnxruntime(
        made, *([normal(*shape)] for shape in ((5, 2, 3), (1, 1, 3), (7, 3, 3))), tolerance=1e-4
    )
    (nothing,) = made.run(normal(0, 2, 3))
    assert nothing.shape == (0, 1, 2, 4)


def test_onnx_ops_that_are_functions_of_others(tmp_path: Path) -> None:
    """ONNX defines them by simpler ones."""
    x = normal(2, 6)
    for op, attributes in {
        "MeanVarianceNormalization": {"axes": [1]}, "Celu": {}, "HardSwish": {}, "Mish": {},
        "ThresholdedRelu": {}, "Shrink": {}, "Softsign": {}, "Gelu": {"approximate": "tanh"},
    }.items():  # fmt: skip
        model = onnx_model(
            [node(op, ["x"], ["y"], **attributes)],
            [info("x", FLOAT, [2, 6])],
            [info("y", FLOAT, [2, 6])],
        )
        check_against_onnxruntime(to_tflite(model, tmp_path), [x], tolerance=1e-4)


def test_axes_of_a_body_are_its_own(tmp_path: Path) -> None:
    """The layout changes inside as well, and its edges keep theirs."""
    turn = [
        node("Conv", ["a", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("ReduceMax", ["c", "axes"], ["m"], keepdims=1),
        node("Sub", ["c", "m"], ["b"]),
        node("Identity", ["on"], ["still"]),
    ]
    inputs = [info("i", "int64", []), info("on", "bool", []), info("a", FLOAT, [1, 2, 3, 4])]
    outputs = [info("still", "bool", []), info("b", FLOAT, [1, 2, 3, 4])]
    nodes = [
        node("Conv", ["x", "w"], ["z"], pads=[1, 1, 1, 1]),
        node("Loop", ["n", "", "z"], ["l"], body=body(turn, inputs, outputs)),
        node("Relu", ["l"], ["y"]),
    ]
    constants = {"w": normal(2, 2, 3, 3) / 3, "axes": ints(1), "n": np.array(3)}
    model = onnx_model(
        nodes, [info("x", FLOAT, [1, 2, 3, 4])], [info("y", FLOAT, [1, 2, 3, 4])], constants
    )
    check_against_onnxruntime(to_tflite(model, tmp_path), [normal(1, 2, 3, 4)], tolerance=1e-4)
