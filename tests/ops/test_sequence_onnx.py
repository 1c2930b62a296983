"""Sequences of tensors in ONNX models, none of which is left: onnxruntime says what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import nnconv
from nnconv.errors import InvalidModelError, UnsupportedError
from support.onnx_routes import OnnxCase, check_routes, node

RNG = np.random.default_rng(2)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


X, Z = floats(5, 3, 4), floats(2, 3, 4)
PARTS = {"three": np.asarray([1, 3, 1]), "two": np.asarray(2), "i": np.asarray(1)}


def case(id: str, nodes: list[Any], feeds: dict[str, np.ndarray], **more: Any) -> OnnxCase:
    more.setdefault("constants", PARTS)
    more.setdefault("results", ["float32"] * len(more.get("outputs", ["y"])))
    return OnnxCase(id, nodes, feeds, same_nodes=False, opset=17, **more)


def split(*inputs: str, **attributes: Any) -> Any:
    return node("SplitToSequence", inputs, ["q"], **attributes)


def at(index: str = "i") -> Any:
    return node("SequenceAt", ["q", index], ["y"])


ANY_ROWS: dict[str, Any] = {"open": {"x": (0,)}, "more": [{"x": floats(7, 3, 4)}]}
FED = {"constants": {}}
SPLITS = [
    case("parts of given sizes", [split("x", "three"), at()], {"x": X}),
    case("parts of two", [split("x", "two"), at()], {"x": X}),
    case("the last part", [split("x", "two"), at("last")], {"x": X},
         constants={"two": np.asarray(2), "last": np.asarray(-1)}),
    case("parts of two of any rows", [split("x", "two"), at()], {"x": X}, **ANY_ROWS),
    case("rows", [split("x"), at()], {"x": X}),
    case("rows without their dimension", [split("x", keepdims=0), at()], {"x": X}),
    case("of any rows", [split("x"), at()], {"x": X}, **ANY_ROWS),
    case("of any rows without their dimension", [split("x", keepdims=0), at()], {"x": X},
         **ANY_ROWS),
    case("along another axis", [split("x", axis=-1, keepdims=0), at()], {"x": X}),
    case("a row of a place that is told", [split("x", keepdims=0), at()],
         {"x": X, "i": np.asarray(3)}, **FED, more=[{"x": X, "i": np.asarray(-2)}]),
    case("of any rows one of a place that is told", [split("x"), at()],
         {"x": X, "i": np.asarray(3)}, **FED, open={"x": (0,)},
         more=[{"x": floats(2, 3, 4), "i": np.asarray(0)}]),
    case("how many rows", [split("x"), node("SequenceLength", ["q"], ["y"])], {"x": X},
         results=["int64"], **ANY_ROWS),
    case("of many rows", [split("x", keepdims=0), at("last")], {"x": floats(300, 2)},
         constants={"last": np.asarray(-7)}),
    case("of many parts", [split("x", "two"), at("place")], {"x": floats(601, 2)},
         constants={"two": np.asarray(2), "place": np.asarray(300)}),
    case("how many parts", [split("x", "two"), node("SequenceLength", ["q"], ["y"])], {"x": X},
         results=["int64"]),
    case("joined anew", [split("x", keepdims=0),
                         node("ConcatFromSequence", ["q"], ["y"], axis=1, new_axis=1)],
         {"x": X}, **ANY_ROWS),
    case("joined along another axis", [split("x", keepdims=0),
                                       node("ConcatFromSequence", ["q"], ["y"], axis=1)],
         {"x": X}, **ANY_ROWS),
    case("joined again", [split("x", "two"), node("ConcatFromSequence", ["q"], ["y"], axis=0)],
         {"x": X}, **ANY_ROWS),
]  # fmt: skip

MADE = node("SequenceConstruct", ["x", "z"], ["q"])
LISTS = [
    case("joined", [MADE, node("ConcatFromSequence", ["q"], ["y"], axis=0)], {"x": X, "z": Z}),
    case("stacked", [MADE, node("ConcatFromSequence", ["q"], ["y"], axis=-1, new_axis=1)],
         {"x": X, "z": X + 1}),
    case("taken", [MADE, at()], {"x": X, "z": Z}),
    case("taken from a place that is told", [MADE, at()],
         {"x": X, "z": X + 1, "i": np.asarray(0)}, **FED),
    case("changed", [
        node("SequenceEmpty", [], ["none"]),
        node("SequenceInsert", ["none", "x"], ["a"]),
        node("SequenceInsert", ["a", "z", "zero"], ["b"]),
        node("SequenceInsert", ["b", "x"], ["c"]),
        node("SequenceErase", ["c", "i"], ["d"]),
        node("SequenceErase", ["c"], ["e"]),
        node("SequenceLength", ["d"], ["n"]),
        node("ConcatFromSequence", ["d"], ["y"], axis=0),
        node("ConcatFromSequence", ["e"], ["w"], axis=0),
    ], {"x": X, "z": Z}, constants={"zero": np.asarray(0), "i": np.asarray(1)},
        outputs=["n", "y", "w"], results=["int64", "float32", "float32"]),
]  # fmt: skip


def loop(*body: Any, start: str = "none") -> list[Any]:
    """A loop that carries ``s`` [2], first ``begin``, and a sequence ``q``, first ``start``."""
    row = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    rows = helper.make_sequence_type_proto(row)

    def carried(after: str) -> list[Any]:
        return [
            helper.make_tensor_value_info(f"go{after}", TensorProto.BOOL, []),
            helper.make_value_info(f"s{after}", row),
            helper.make_value_info(f"q{after}", rows),
        ]

    nodes = [node("Add", ["s", "step"], ["s_out"]), *body, node("Identity", ["go"], ["go_out"])]
    counter = helper.make_tensor_value_info("at", TensorProto.INT64, [])
    turn = helper.make_graph(nodes, "turn", [counter, *carried("")], carried("_out"))
    given = ["count", "yes", "begin", start]
    return [node("SequenceEmpty", [], ["none"]), node("Loop", given, ["last", "all"], body=turn)]


APPEND = node("SequenceInsert", ["q", "s_out"], ["q_out"])
ROW = np.float32([1, 2])
TURNS = {
    "count": np.asarray(4), "yes": np.asarray(True), "step": np.float32([0.5, -1]),
    "i": np.asarray(2),
}  # fmt: skip
UNKNOWN = {name: value for name, value in TURNS.items() if name != "count"}
AGAIN = [{"begin": ROW, "count": np.asarray(3)}, {"begin": ROW, "count": np.asarray(6)}]
LOOPS = [
    case("stacked by a loop",
         [*loop(APPEND), node("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=1)],
         {"begin": ROW}, constants=TURNS, outputs=["y", "last"]),
    case("stacked by a loop at the end",
         [*loop(APPEND), node("ConcatFromSequence", ["all"], ["y"], axis=-1, new_axis=1)],
         {"begin": ROW}, constants=TURNS),
    case("joined by a loop",
         [*loop(APPEND), node("ConcatFromSequence", ["all"], ["y"], axis=0)],
         {"begin": ROW}, constants=TURNS),
    case("stacked by a loop of any turns",
         [*loop(APPEND), node("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=1)],
         AGAIN[0], more=AGAIN[1:], constants=UNKNOWN, outputs=["y", "last"]),
    case("put by a loop behind what is there",
         [node("SequenceConstruct", ["begin"], ["first"]), *loop(APPEND, start="first"),
          node("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=1)],
         {"begin": ROW}, constants=TURNS),
    case("taken from what a loop made",
         [*loop(APPEND), node("SequenceAt", ["all", "i"], ["y"]),
          node("SequenceLength", ["all"], ["n"])],
         {"begin": ROW}, constants=TURNS, outputs=["y", "n"], results=["float32", "int64"]),
    case("taken inside a loop",
         [node("SequenceConstruct", ["begin", "step", "begin", "begin"], ["rows"]),
          *loop(node("SequenceAt", ["rows", "at"], ["row"]),
                node("Mul", ["row", "s_out"], ["product"]),
                node("SequenceInsert", ["q", "product"], ["q_out"])),
          node("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=1)],
         {"begin": ROW}, constants=TURNS),
]  # fmt: skip


@pytest.mark.parametrize("case", [*SPLITS, *LISTS, *LOOPS], ids=str)
def test_sequences(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


REFUSED = {
    "that goes out": case("", [MADE], {"x": X, "z": Z}, outputs=["q"]),
    "whose length is told": case(
        "", [split("x", "n"), at()], {"x": X, "n": np.asarray([2, 3])}, constants=PARTS
    ),
    "of several shapes": case("", [MADE, at()], {"x": X, "z": Z, "i": np.asarray(0)}, **FED),
    "that a loop empties": case(
        "",
        [*loop(node("SequenceErase", ["q"], ["q_out"]), start="first"),
         node("ConcatFromSequence", ["all"], ["y"], axis=0)],
        {"begin": ROW}, constants=TURNS,
    ),
    "that a loop looks at": case(
        "",
        [*loop(APPEND, node("SequenceLength", ["q"], ["n"])),
         node("ConcatFromSequence", ["all"], ["y"], axis=0)],
        {"begin": ROW}, constants=TURNS,
    ),
    "that is read as a tensor": case("", [MADE, node("Neg", ["q"], ["y"])], {"x": X, "z": Z}),
    "of thousands, put together one by one": case(
        "",
        [node("SequenceEmpty", [], ["q0"]),
         *(node("SequenceInsert", [f"q{i}", "x"], [f"q{i + 1}"]) for i in range(5000)),
         node("SequenceLength", ["q5000"], ["y"])],
        {"x": X},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_sequences_that_runtimes_would_need_are_refused(what: str, tmp_path: Path) -> None:
    path = tmp_path / "case.onnx"
    model = REFUSED[what].model()
    if what == "that goes out":
        row = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
        model.graph.output[0].type.CopyFrom(helper.make_sequence_type_proto(row))
    if what == "that a loop empties":
        model.graph.node.insert(0, node("SequenceConstruct", ["begin"], ["first"]))
    onnx.save(model, path)
    with pytest.raises(UnsupportedError) as caught:
        nnconv.load(path)
    assert len(caught.value.items) == 1


def test_places_beyond_a_sequence_are_broken(tmp_path: Path) -> None:
    path = tmp_path / "case.onnx"
    beyond = case("", [MADE, at()], {"x": X, "z": Z}, constants={"i": np.asarray(2)})
    onnx.save(beyond.model(), path)
    with pytest.raises(InvalidModelError, match="place 2 in a sequence of 2"):
        nnconv.load(path)


@pytest.mark.parametrize("outputs", [["last"], ["last", ""]])
def test_sequences_that_nobody_reads_have_no_names(outputs: list[str], tmp_path: Path) -> None:
    path = tmp_path / "case.onnx"
    nodes = [*loop(APPEND), node("Clip", ["last", "", "most"], ["y"])]
    constants = {**TURNS, "most": np.float32(2.5)}
    model = case("", nodes, {"begin": ROW}, constants=constants).model()
    model.graph.node[1].output[:] = outputs
    onnx.save(model, path)
    result = nnconv.compile(path, "reference").run({"begin": ROW})["y"]
    np.testing.assert_array_equal(result, np.minimum(ROW + 4 * TURNS["step"], 2.5))


@pytest.mark.parametrize("suffix", ["tflite", "nnapi", "nnrt"])
def test_loops_that_only_count_give_as_many_as_they_count(suffix: str, tmp_path: Path) -> None:
    """The condition is always true, as PyTorch writes it: NNRt gets the turns one by one."""
    path, target = tmp_path / "case.onnx", tmp_path / f"case.{suffix}"
    steps = floats(4, 2)
    turn = [node("Gather", ["steps", "at"], ["row"], axis=0), node("Mul", ["row", "s_out"], ["p"])]
    nodes = loop(*turn, node("SequenceInsert", ["q", "p"], ["q_out"]))
    nodes.append(node("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=1))
    counted = case("", nodes, {"begin": ROW, "steps": steps}, constants=TURNS)
    onnx.save(counted.model(), path)
    report = nnconv.convert(path, target, verify=True)
    assert report.verified
    model = nnconv.load(target)
    assert [value.shape for value in model.outputs] == [(4, 2)]
    result = nnconv.compile(model, "reference").run({"begin": ROW, "steps": steps})["y"]
    sums = ROW + TURNS["step"] * np.arange(1, 5, dtype=np.float32)[:, None]
    np.testing.assert_allclose(result, steps * sums, rtol=1e-6)
