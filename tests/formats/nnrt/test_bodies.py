"""Loops, branches and recurrences, which NNRt lacks: turns written out, branches both computed."""

import numpy as np
import onnx
import onnx.parser
import pytest

import nnconv
from nnconv.errors import UnsupportedError
from nnconv.formats.nnapi.reader import import_model as read_nnapi
from nnconv.formats.nnrt.reader import import_model as read_nnrt
from nnconv.ir import Builder, DType, Graph, Model, Signature, Value
from nnconv.ir.types import TensorType
from nnconv.lowering import to_nnapi, to_nnrt
from nnconv.ops.control import While
from nnconv.ops.elementwise import Add, Less, LogicalAnd
from nnconv.ops.gather import Gather
from support.onnx_routes import run_onnxruntime
from support.rnn_models import LstmShape, sequence_lstm
from support.tflite_builder import TfliteBuilder

HEADER = '<ir_version: 8, opset_import: ["": 17]>'

SCAN = """
net (float[3] start, float[5,3] x) => (float[3] last, float[5,3] y) {
  last, y = Scan <num_scan_inputs = 1, body = turn (float[3] sum, float[3] row)
    => (float[3] more, float[3] given) {
      more = Add (sum, row)
      given = Mul (more, row)
    }> (start, x)
}
"""

LOOP = """
net (float[2] x, float limit) => (float[2] y) <int64 most = {4}, bool yes = {1}> {
  y = Loop <body = turn (int64 number, bool going, float[2] x)
    => (bool again, float[2] y) {
      count = Cast <to = 1> (number)
      y = Add (x, count)
      sum = ReduceSum <keepdims = 0> (y)
      again = Less (sum, limit)
    }> (most, yes, x)
}
"""

BRANCH = """
net (float[2] x, bool which) => (float[2] y) {
  y = If (which) <
    then_branch = one () => (float[2] a) { a = Exp (x) },
    else_branch = other () => (float[2] b) { b = Neg (x) }
  >
}
"""

GROWING = """
net (float[2] x, bool which) => (float[n] y) {
  y = If (which) <
    then_branch = one () => (float[4] a) { a = Concat <axis = 0> (x, x) },
    else_branch = other () => (float[2] b) { b = Neg (x) }
  >
}
"""

PICKING = """
net (float[2] x, int64[1] place, bool which) => (float[1] y) {
  y = If (which) <
    then_branch = one () => (float[1] a) { a = Gather <axis = 0> (x, place) },
    else_branch = other () => (float[1] b) { b = ReduceSum (x) }
  >
}
"""

SCANNING = """
net (float[3] start, float[5,3] x, bool which) => (float[3] last) {
  last = If (which) <
    then_branch = all () => (float[3] a) {
      a, y = Scan <num_scan_inputs = 1, body = turn (float[3] sum, float[3] row)
        => (float[3] more, float[3] given) {
          more = Add (sum, row)
          given = Mul (more, row)
        }> (start, x)
    },
    else_branch = none () => (float[3] b) { b = Neg (start) }
  >
}
"""

REACHING = """
net (float[3] start, float[5,3] x, bool which) => (float[3] last)
  <int64 most = {TURNS}, bool yes = {1}> {
  last = If (which) <
    then_branch = some () => (float[3] a) {
      a = Loop <body = turn (int64 number, bool going, float[3] sum)
        => (bool again, float[3] more) {
          row = Gather <axis = 0> (x, number)
          more = Add (sum, row)
          again = Identity (going)
        }> (most, yes, start)
    },
    else_branch = none () => (float[3] b) { b = Neg (start) }
  >
}
"""

ENDLESS = LOOP.replace("int64 most = {4}", "int64 most = {9223372036854775807}")


def saved(text, tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model(HEADER + text), path)
    return path


def lstm(tmp_path, steps):
    rng = np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(rng.normal(size=shape).astype(np.float32) / 4, name)
        for name, shape in (("w", (2, 16, 3)), ("r", (2, 16, 4)), ("b", (2, 32)))
    ]
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node(
                "LSTM", ["x", "w", "r", "b"], ["y", "h"], direction="bidirectional", hidden_size=4
            )
        ],
        "net",
        [onnx.helper.make_tensor_value_info("x", kind, [steps, 1, 3])],
        [
            onnx.helper.make_tensor_value_info("y", kind, [steps, 2, 1, 4]),
            onnx.helper.make_tensor_value_info("h", kind, [2, 1, 4]),
        ],
        weights,
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    return path


def check(path, feeds, tmp_path, *, nnapi=True):
    """Compare with onnxruntime, in NNAPI before it had bodies too."""
    wanted = run_onnxruntime(str(path), feeds)
    for name, options in {"net.nnrt": {}, "net.nnapi": {"feature_level": 3}}.items():
        if not nnapi and options:
            continue
        written = tmp_path / name
        nnconv.convert(path, written, **options)
        executable = nnconv.compile(written, "reference")
        raised = {
            info.name: feeds[info.name].reshape(feeds[info.name].shape or info.shape)
            for info in executable.inputs
        }
        results = executable.run(raised)
        for got, want in zip(results.values(), wanted, strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def row(*numbers):
    return np.asarray(numbers, np.float32)


def test_turns_of_a_known_number_are_written_out(tmp_path):
    rows = np.arange(15, dtype=np.float32).reshape(5, 3)
    check(saved(SCAN, tmp_path), {"start": row(1, 2, 3), "x": rows}, tmp_path)


def counting(first, limits):
    """A While that adds up rows of ``x``, as long as two counters are below their limits."""
    x, total = (TensorType(DType.FLOAT32, shape) for shape in ((6, 2), (2,)))
    counter = TensorType(DType.INT32, ())
    types = [counter, counter, total, x]
    asks, turn = Graph("condition"), Graph("turn")
    for body in (asks, turn):
        body.inputs = [Value(f"v{i}", kind) for i, kind in enumerate(types)]
    b = Builder(asks)
    tests = [
        b.add(Less(), [value, b.const(np.asarray(limit, np.int32))])
        for value, limit in zip(asks.inputs, limits, strict=False)
    ]
    asks.outputs = [b.add(LogicalAnd(), tests)]
    b, (i, j, sums, rows) = Builder(turn), turn.inputs
    one = b.const(np.asarray(1, np.int32))
    more = b.add(Add(), [sums, b.add(Gather(axis=0), [rows, j])])
    turn.outputs = [b.add(Add(), [i, one]), b.add(Add(), [j, one]), more, rows]
    b = Builder(Graph("net"))
    starts = [b.const(np.asarray(number, np.int32)) for number in first]
    given = [*starts, b.input("sum", DType.FLOAT32, (2,)), b.input("x", DType.FLOAT32, (6, 2))]
    b.graph.outputs = [b.add_typed(While(), given, types, bodies=[asks, turn])[2]]
    return Model([Signature("", b.graph)])


@pytest.mark.parametrize(
    ("first", "limits", "turns"), [((0, 1), (4, 6), 4), ((1, 2), (9, 5), 3), ((0, 3), (4, 2), 0)]
)
def test_turns_that_two_counters_end_are_written_out(first, limits, turns):
    """TensorFlow's loops hold a counter of their own against the most turns."""
    x = np.arange(12, dtype=np.float32).reshape(6, 2) ** 2
    feeds = {"sum": row(1, -1), "x": x}
    wanted = feeds["sum"] + x[first[1] : first[1] + turns].sum(0)
    written = to_nnrt(counting(first, limits)).model
    older = to_nnapi(counting(first, limits), feature_level=3).model
    for model in (read_nnrt(written), read_nnapi(older)):
        assert not any(node.bodies for node in model.main.graph.nodes)
        (result,) = nnconv.compile(model, "reference").run(feeds).values()
        np.testing.assert_array_equal(result, wanted)


def test_turns_that_floats_count_are_not_written_out():
    """Up to 2.5 there are three."""
    types = [TensorType(DType.FLOAT32, ()), TensorType(DType.FLOAT32, (2,))]
    asks, turn = Graph("condition"), Graph("turn")
    for body in (asks, turn):
        body.inputs = [Value(f"v{i}", kind) for i, kind in enumerate(types)]
    b = Builder(asks)
    asks.outputs = [b.add(Less(), [asks.inputs[0], b.const(np.float32(2.5))])]
    b = Builder(turn)
    one = b.const(np.float32(1))
    turn.outputs = [b.add(Add(), [value, one]) for value in turn.inputs]
    b = Builder(Graph("net"))
    given = [b.const(np.float32(0)), b.input("sum", DType.FLOAT32, (2,))]
    b.graph.outputs = [b.add_typed(While(), given, types, bodies=[asks, turn])[1]]
    with pytest.raises(UnsupportedError, match="NNRt has no While"):
        to_nnrt(Model([Signature("", b.graph)]))


@pytest.mark.parametrize("limit", [-100.0, 4.0, 6.5, 100.0])
def test_a_condition_ends_turns_before_the_last(limit, tmp_path):
    feeds = {"x": row(1, 2), "limit": np.asarray(limit, np.float32)}
    check(saved(LOOP, tmp_path), feeds, tmp_path)


@pytest.mark.parametrize("which", [False, True])
def test_of_both_branches_one_is_taken(which, tmp_path):
    path = saved(BRANCH, tmp_path)
    check(path, {"x": row(1, np.inf), "which": np.asarray(which)}, tmp_path)


@pytest.mark.parametrize("which", [False, True])
@pytest.mark.parametrize("text", [SCANNING, REACHING.replace("TURNS", "5")], ids=["scan", "loop"])
def test_a_branch_may_hold_a_loop_that_ends(text, which, tmp_path):
    feeds = {"start": row(1, 2, 3), "x": np.arange(15, dtype=np.float32).reshape(5, 3)}
    check(saved(text, tmp_path), feeds | {"which": np.asarray(which)}, tmp_path)


@pytest.mark.parametrize("scale", [0.02, 1.0])
def test_a_clipped_lstm_of_tflite_goes_on_from_onnx(scale, tmp_path):
    """There the loop that is needed where a cell is clipped lies in a branch."""
    b = TfliteBuilder()
    sequence_lstm(LstmShape(), 6, cell_clip=0.3)(b)
    (tmp_path / "net.tflite").write_bytes(bytes(b.build()))
    path = tmp_path / "net.onnx"
    nnconv.convert(tmp_path / "net.tflite", path)
    rng = np.random.default_rng(0)
    feeds = {
        value.name: (scale * rng.normal(size=value.shape)).astype(np.float32)
        for value in nnconv.load(path).graph.inputs
    }
    check(path, feeds, tmp_path)


OPEN_BRANCH = """
net (float[n,3] x, bool which) => (float[n,3] y) <int64[1] last = {2}> {
  y = If (which) <then_branch = twice () => (float[n,3] y) {
    y = Add (x, x)
  }, else_branch = picked () => (float[n,3] y) {
    column = Gather <axis = 1> (x, last)
    y = Mul (x, column)
  }>
}
"""


@pytest.mark.parametrize("name", ["n", None])
def test_of_branches_with_the_same_open_extents_one_is_taken(name, tmp_path):
    path = saved(OPEN_BRANCH, tmp_path)
    model = onnx.load(path)
    if name is None:
        for end in (*model.graph.input[:1], *model.graph.output):
            end.type.tensor_type.shape.dim[0].ClearField("dim_param")
        onnx.save(model, path)
    for rows, which in ((1, True), (4, False)):
        x = np.random.default_rng(rows).normal(size=(rows, 3)).astype(np.float32)
        check(path, {"x": x, "which": np.asarray(which)}, tmp_path)
    report = nnconv.convert(path, tmp_path / "net.nnrt")
    assert [row[2] for row in (*report.inputs[:1], *report.outputs)] == [[name, 3]] * 2


@pytest.mark.parametrize("steps", [5, 100])
def test_steps_of_a_recurrence_are_written_out(steps, tmp_path):
    x = np.random.default_rng(1).normal(size=(steps, 1, 3)).astype(np.float32)
    check(lstm(tmp_path, steps), {"x": x}, tmp_path)


@pytest.mark.parametrize(
    ("text", "op"),
    [
        (GROWING, "If"),
        (PICKING, "If"),
        (REACHING.replace("TURNS", "6"), "If"),
        (ENDLESS, "While"),
    ],
    ids=["other extents", "a wrong index", "turns past the last row", "no end known"],
)
def test_what_has_no_such_form_is_named(text, op, tmp_path):
    with pytest.raises(UnsupportedError, match=f"NNRt has no {op}"):
        nnconv.convert(saved(text, tmp_path), tmp_path / "net.nnrt")


def test_open_steps_are_an_lstms_alone(tmp_path):
    x = np.random.default_rng(1).normal(size=(7, 1, 3)).astype(np.float32)
    check(lstm(tmp_path, "steps"), {"x": x}, tmp_path, nnapi=False)
    with pytest.raises(UnsupportedError, match="NNRt has no While"):
        nnconv.convert(tmp_path / "net.onnx", tmp_path / "net.nnrt", api=1)
