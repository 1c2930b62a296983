"""Variables: states that are read at the start of a run and written at its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.errors import UnsupportedError
from nnconv.formats.tflite.reader import read
from nnconv.ir import Model
from nnconv.ir.verifier import verify_model
from support.litert import LiteRtRunner
from support.spine import onnx_session
from support.tflite_builder import Subgraph, Tensor, TfliteBuilder, flexbuffer

FLOAT, INT, BOOL = "float32", "int32", "bool"
Q8 = (0.5, 3)


def handle(s: Subgraph, name: str = "v") -> Tensor:
    made = s.op("VAR_HANDLE", [], [("resource", ())], options={"shared_name": name})
    assert isinstance(made, Tensor)
    return made


def initialize(b: TfliteBuilder, values: dict[str, np.ndarray], **kind: object) -> None:
    init = b.subgraph("init")
    for name, value in values.items():
        init.op("ASSIGN_VARIABLE", [handle(init, name), init.const(value, **kind)], [])
    b.op("CALL_ONCE", [], [], options={"init_subgraph_index": init})


def counter(b: TfliteBuilder) -> None:
    x = b.input("x", FLOAT, (2,))
    initialize(b, {"v": np.float32([5, 6])})
    v = handle(b)
    before = b.op("READ_VARIABLE", [v], [(FLOAT, (2,))])
    y = b.op("ADD", [x, before], [(FLOAT, (2,))])
    b.op("ASSIGN_VARIABLE", [v, y], [])
    after = b.op("READ_VARIABLE", [v], [(FLOAT, (2,))])
    b.output(before, y, b.op("NEG", [after], [(FLOAT, (2,))]))


def quantized(b: TfliteBuilder) -> None:
    """A ring of int8 codes: the newest row comes in, the oldest goes out."""
    x = b.input("x", "int8", (1, 3), quant=Q8)
    rows = np.int8([[1, 2, 3], [4, 5, 6]])
    initialize(b, {"ring": rows}, quant=Q8)
    v = handle(b, "ring")
    old = b.op("READ_VARIABLE", [v], [("int8", (2, 3), Q8)])
    full = b.op("CONCATENATION", [old, x], [("int8", (3, 3), Q8)], options={"axis": 0})
    new = b.op(
        "SLICE",
        [full, b.const(np.int32([1, 0])), b.const(np.int32([2, 3]))],
        [("int8", (2, 3), Q8)],
    )
    b.op("ASSIGN_VARIABLE", [v, new], [])
    b.output(full)


def computed_start(b: TfliteBuilder) -> None:
    """The initial value is what ops of the initializing subgraph compute."""
    x = b.input("x", FLOAT, (2,))
    init = b.subgraph("init")
    twice = init.op(
        "ADD", [init.const(np.float32([1, 2])), init.const(np.float32(3))], [(FLOAT, (2,))]
    )
    init.op("ASSIGN_VARIABLE", [handle(init), twice], [])
    b.op("CALL_ONCE", [], [], options={"init_subgraph_index": init})
    y = b.op("ADD", [x, b.op("READ_VARIABLE", [handle(b)], [(FLOAT, (2,))])], [(FLOAT, (2,))])
    b.op("ASSIGN_VARIABLE", [handle(b), y], [])
    b.output(y)


def in_branch(b: TfliteBuilder) -> None:
    """One branch changes the variable, the other doesn't touch it."""
    flag, x = b.input("flag", BOOL, ()), b.input("x", FLOAT, (2,))
    initialize(b, {"v": np.float32([5, 6])})
    then, otherwise = b.subgraph("then"), b.subgraph("else")
    a = then.input("a", FLOAT, (2,))
    total = then.op(
        "ADD", [a, then.op("READ_VARIABLE", [handle(then)], [(FLOAT, (2,))])], [(FLOAT, (2,))]
    )
    then.op("ASSIGN_VARIABLE", [handle(then), total], [])
    then.output(total)
    a = otherwise.input("a", FLOAT, (2,))
    otherwise.output(otherwise.op("NEG", [a], [(FLOAT, (2,))]))
    options = {"then_subgraph_index": then, "else_subgraph_index": otherwise}
    b.output(b.op("IF", [flag, x], [(FLOAT, (2,))], options=options))


def in_loop(b: TfliteBuilder, *, pass_handle: bool = False) -> None:
    """Each turn adds x to the variable; the handle is met inside, or handed in."""
    x = b.input("x", FLOAT, (2,))
    initialize(b, {"v": np.float32([5, 6])})
    cond, body = b.subgraph("cond"), b.subgraph("body")
    places: dict[int, list[Tensor]] = {}
    for s in (cond, body):
        i, a = s.input("i", INT, ()), s.input("a", FLOAT, (2,))
        places[s.index] = [i, a, *([s.input("v", "resource", ())] if pass_handle else [])]
    i, *_ = places[cond.index]
    cond.output(cond.op("LESS", [i, cond.const(np.int32(3))], [(BOOL, ())]))
    i, a, *rest = places[body.index]
    v = rest[0] if rest else handle(body)
    total = body.op("ADD", [a, body.op("READ_VARIABLE", [v], [(FLOAT, (2,))])], [(FLOAT, (2,))])
    body.op("ASSIGN_VARIABLE", [v, total], [])
    body.output(body.op("ADD", [i, body.const(np.int32(1))], [(INT, ())]), a, *rest)
    outer = [handle(b)] if pass_handle else []
    outputs = b.op(
        "WHILE",
        [b.const(np.int32(0)), x, *outer],
        [(INT, ()), (FLOAT, (2,)), *([("resource", ())] if pass_handle else [])],
        options={"cond_subgraph_index": cond, "body_subgraph_index": body},
    )
    after = b.op("READ_VARIABLE", [handle(b)], [(FLOAT, (2,))])
    b.output(outputs[0], b.op("NEG", [after], [(FLOAT, (2,))]))


def cell(s: Subgraph, x: Tensor) -> Tensor:
    """An RNN, whose state is a variable tensor of the subgraph."""
    rng = np.random.default_rng(0)
    shapes = ((2, 2), (2, 2), (2,))
    weights = [s.const(rng.standard_normal(shape).astype(np.float32)) for shape in shapes]
    state = s.variable(FLOAT, (1, 2), name="h")
    options = {"fused_activation_function": "RELU_N1_TO_1"}
    made = s.op("RNN", [x, *weights, state], [(FLOAT, (1, 2))], options=options)
    assert isinstance(made, Tensor)
    return made


def cell_in_loop(b: TfliteBuilder) -> None:
    """The state of an RNN in a loop goes on from turn to turn, not from run to run."""
    x = b.input("x", FLOAT, (1, 2))
    cond, body = b.subgraph("cond"), b.subgraph("body")
    i = cond.input("i", INT, ())
    cond.input("a", FLOAT, (1, 2))
    cond.output(cond.op("LESS", [i, cond.const(np.int32(3))], [(BOOL, ())]))
    i, a = body.input("i", INT, ()), body.input("a", FLOAT, (1, 2))
    body.output(body.op("ADD", [i, body.const(np.int32(1))], [(INT, ())]), cell(body, a))
    outputs = b.op(
        "WHILE",
        [b.const(np.int32(0)), x],
        [(INT, ()), (FLOAT, (1, 2))],
        options={"cond_subgraph_index": cond, "body_subgraph_index": body},
    )
    b.output(outputs[1])


def cell_in_branch(b: TfliteBuilder) -> None:
    """The state of an RNN in a branch starts anew each time."""
    flag, x = b.input("flag", BOOL, ()), b.input("x", FLOAT, (1, 2))
    then, otherwise = b.subgraph("then"), b.subgraph("else")
    then.output(cell(then, then.input("a", FLOAT, (1, 2))))
    a = otherwise.input("a", FLOAT, (1, 2))
    otherwise.output(otherwise.op("NEG", [a], [(FLOAT, (1, 2))]))
    options = {"then_subgraph_index": then, "else_subgraph_index": otherwise}
    b.output(b.op("IF", [flag, x], [(FLOAT, (1, 2))], options=options))


def cell_in_composite(b: TfliteBuilder) -> None:
    """The state of an RNN in a composite starts anew each time."""
    x = b.input("x", FLOAT, (1, 2))
    inner = b.subgraph("inner")
    inner.output(cell(inner, inner.input("a", FLOAT, (1, 2))))
    options = {
        "name": "test.cell",
        "decomposition_subgraph_index": inner,
        "composite_attributes": flexbuffer({}),
    }
    b.output(b.op("STABLEHLO_COMPOSITE", [x], [(FLOAT, (1, 2))], options=options))


X = np.float32([1, 2])
ROW = np.float32([[0.3, -0.2]])
STEPS: dict[str, tuple[Callable[[TfliteBuilder], None], list[list[np.ndarray]]]] = {
    "counter": (counter, [[X], [X + 1], [X - 4]]),
    "quantized": (quantized, [[np.int8([[k, -k, 100]])] for k in (7, 8, 9)]),
    "computed-start": (computed_start, [[X], [X]]),
    "in-branch": (in_branch, [[np.array(k), X] for k in (True, False, True)]),
    "in-loop": (in_loop, [[X], [X + 1]]),
    "cell-in-loop": (cell_in_loop, [[ROW], [-ROW]]),
    "cell-in-branch": (cell_in_branch, [[np.array(k), ROW] for k in (True, False, True)]),
    "cell-in-composite": (cell_in_composite, [[ROW], [ROW]]),
    "in-loop-handle": (lambda b: in_loop(b, pass_handle=True), [[X], [X + 1]]),
}


def run_reference(model: Model, steps: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """Outputs of each step, the states handed on."""
    states, results = [s.initial for s in model.states], []
    for inputs in steps:
        outputs = run_graph(model.graph, [*inputs, *states])
        results.append(outputs[: len(model.outputs)])
        states = outputs[len(model.outputs) :]
    return results


def run_onnx_steps(
    path: Path, model: Model, steps: list[list[np.ndarray]]
) -> list[list[np.ndarray]]:
    """Outputs of each step in onnxruntime, the states handed on by name."""
    session = onnx_session(path)
    states = {state.name: state.initial for state in model.states}
    names = [info.name for info in session.get_outputs()]
    results = []
    for inputs in steps:
        feeds = dict(zip((v.name for v in model.inputs), inputs, strict=True))
        outputs = dict(zip(names, session.run(None, {**feeds, **states}), strict=True))
        results.append([outputs[v.name] for v in model.outputs])
        states = {name: outputs[f"{name}_next"] for name in states}
    return results


@pytest.mark.parametrize("name", STEPS)
def test_each_run_continues_the_last(name: str, tmp_path: Path) -> None:
    build, steps = STEPS[name]
    b = TfliteBuilder()
    build(b)
    content = b.build()
    model = read(content)
    verify_model(model)
    runner = LiteRtRunner(content)
    expected = [[np.array(a) for a in runner.run(inputs)] for inputs in steps]
    path = tmp_path / "model.onnx"
    nnconv.save(model, path)
    for results in (run_reference(model, steps), run_onnx_steps(path, model, steps)):
        for step, (actual, wanted) in enumerate(zip(results, expected, strict=True)):
            for a, w in zip(actual, wanted, strict=True):
                assert a.dtype == w.dtype
                np.testing.assert_allclose(a, w, rtol=1e-5, err_msg=f"step {step}")


def test_a_variable_tensor_inside_a_called_subgraph_is_a_state() -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (1, 3))
    body = b.subgraph("body")
    a = body.input("a", FLOAT, (1, 3))
    rng = np.random.default_rng(0)
    weights = [
        body.const(rng.standard_normal(s).astype(np.float32)) for s in ((2, 3), (2, 2), (2,))
    ]
    state = body.variable(FLOAT, (1, 2), name="h")
    options = {"fused_activation_function": "TANH"}
    body.output(body.op("RNN", [a, *weights, state], [(FLOAT, (1, 2))], options=options))
    b.output(b.op("CALL", [x], [(FLOAT, (1, 2))], options={"subgraph": body}))
    model = read(b.build())
    assert [(s.name, s.initial.tolist()) for s in model.states] == [("h", [[0.0, 0.0]])]


def test_signatures_share_variables_and_keep_their_names(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x:0", FLOAT, (2,))
    initialize(b, {"v": np.float32([5, 6])})
    b.op("ASSIGN_VARIABLE", [handle(b), x], [])
    y = b.op("NEG", [x], [(FLOAT, (2,), None, "y:0")])
    b.output(y)
    b.signature("set", {"value": x}, {"negated": y})
    get = b.subgraph("get")
    found = get.op("READ_VARIABLE", [handle(get)], [(FLOAT, (2,), None, "found:0")])
    get.output(found)
    b.signature("get", {}, {"content": found})
    source = tmp_path / "model.tflite"
    source.write_bytes(b.build())
    model = nnconv.load(source)
    assert [s.key for s in model.signatures] == ["set", "get"]
    assert [[v.name for v in s.outputs] for s in model.signatures] == [["y:0"], ["found:0"]]
    for signature in model.signatures:
        assert [(s.name, s.initial.tolist()) for s in signature.states] == [("v", [5.0, 6.0])]
    path = tmp_path / "get.onnx"
    report = nnconv.convert(source, path, signature="get")
    assert report.signature == "get"
    assert report.other_signatures == ["set"]
    assert report.states == [("v", "v_next")]
    session = onnx_session(path)
    assert [o.name for o in session.get_outputs()] == ["found:0", "v_next"]
    results = session.run(None, {"v": np.float32([1, 2])})
    np.testing.assert_array_equal(results, [[1, 2], [1, 2]])
    entries = {p.key: p.value for p in onnx.load(str(path)).metadata_props}
    assert '"content": "found:0"' in entries["nnconv.signature"]
    assert '"initial": [5.0, 6.0]' in entries["nnconv.states"]


def test_a_variable_that_changes_its_shape_has_open_extents(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", FLOAT, (2,))
    initialize(b, {"v": np.float32([5, 6, 7])})
    old = b.op("READ_VARIABLE", [handle(b)], [(FLOAT, (3,))])
    new = b.op("CONCATENATION", [old, x], [(FLOAT, (5,))], options={"axis": 0})
    b.op("ASSIGN_VARIABLE", [handle(b), new], [])
    b.output(new)
    model = read(b.build())
    assert model.states[0].input.shape == (None,)
    path = tmp_path / "model.onnx"
    nnconv.save(model, path)
    results = run_onnx_steps(path, model, [[X], [-X]])
    assert results[1][0].tolist() == [5, 6, 7, 1, 2, -1, -2]


@pytest.mark.parametrize("name", ["alexa", "hey_jarvis"])
def test_a_streaming_model_goes_on_where_it_stopped(
    name: str, shared_dir: Path, tmp_path: Path
) -> None:
    source = next(shared_dir.glob(f"models/tflite/**/{name}.tflite"))
    rng = np.random.default_rng(20)
    tone, loudness = rng.normal(0, 60, (1, 1, 40)), rng.normal(0, 40, (20, 1, 40))
    frames = [tone + loudness[i] - 40 + np.zeros((1, 3, 1)) for i in range(20)]
    steps = [[np.clip(frame, -128, 127).astype(np.int8)] for frame in frames]
    model = nnconv.load(source)
    nnconv.save(model, tmp_path / "model.onnx")
    runner = LiteRtRunner(source, "opt")
    expected = [np.array(runner.run(inputs)[0]) for inputs in steps]
    results = run_onnx_steps(tmp_path / "model.onnx", model, steps)
    for (actual,), wanted in zip(results, expected, strict=True):
        assert actual.dtype == wanted.dtype
        assert np.abs(actual.astype(int) - wanted.astype(int)).max() <= 1


def test_a_loop_in_an_initializer_is_refused() -> None:
    b = TfliteBuilder()
    b.input("x", FLOAT, (2,))
    init, cond, body = b.subgraph("init"), b.subgraph("cond"), b.subgraph("body")
    cond.input("i", INT, ())
    cond.output(cond.const(np.array(True)))
    body.output(body.input("i", INT, ()))
    options = {"cond_subgraph_index": cond, "body_subgraph_index": body}
    endless = init.op("WHILE", [init.const(np.int32(0))], [(INT, ())], options=options)
    more = init.op("ADD", [endless, init.const(np.int32(1))], [(INT, ())])
    init.op("ASSIGN_VARIABLE", [handle(init), more], [])
    b.op("CALL_ONCE", [], [], options={"init_subgraph_index": init})
    b.output(b.op("READ_VARIABLE", [handle(b)], [(INT, ())]))
    with pytest.raises(UnsupportedError, match="computed beforehand"):
        read(b.build())
