"""Files of every kind that holds an NNAPI model, told apart and read."""

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.errors import InvalidModelError, UnsupportedError, UsageError
from nnconv.formats.nnapi import file
from nnconv.formats.nnapi.detect import ARCHIVE, OWN, STREAM, is_nnapi, kind_of
from nnconv.formats.nnapi.importer import importers
from nnconv.formats.nnapi.reader import import_model, read
from nnconv.formats.nnapi.summary import summarize
from nnconv.formats.nnapi.types import OperandCode, OperationCode
from nnconv.formats.nnapi.wire import Lifetime, Model
from nnconv.ir.dtype import DType
from nnconv.ir.verifier import verify_graph
from support.nnapi_models import FLOAT, INT, NnapiBuilder, add_model, conv_model, if_model
from support.pytorch_nnapi import Pickle, nnapi_state, stream_of, write_archive


def exported_by_pytorch():
    """ADD of an input of unknown rows and a constant, behind the two bools that always come."""
    b = NnapiBuilder()
    for value in (0, 1):
        b.const(OperandCode.BOOL, value)
    x, w = b.input(FLOAT, (0, 2)), b.const(FLOAT, [[1, 2]])
    b.run(OperationCode.ADD, [x, w, b.const(INT, 1)], [b.output(FLOAT, (0, 2))])
    return b.model()


def write(folder, kind):
    """A file of each kind with the same model."""
    if kind == OWN:
        file.write(exported_by_pytorch(), folder / "net.nnapi")
        return folder / "net.nnapi"
    if kind == STREAM:
        (folder / "net.nnapi.bin").write_bytes(stream_of(exported_by_pytorch())[0])
        return folder / "net.nnapi.bin"
    pickled = Pickle()
    pickled.value(("Nnapi", nnapi_state(exported_by_pytorch())))
    return write_archive(folder / "net.pt", pickled)


@pytest.mark.parametrize("kind", [OWN, STREAM, ARCHIVE])
def test_each_kind_is_told_and_read(tmp_path, kind):
    path = write(tmp_path, kind)
    data = path.read_bytes()
    assert kind_of(data[:4096], len(data)) == kind
    model = read(path)
    assert model.format == "nnapi"
    assert [(v.name, v.dtype, v.shape) for v in model.inputs] == [
        ("input0", DType.FLOAT32, (None, 2))
    ]
    verify_graph(model.graph)
    (result,) = run_graph(model.graph, [np.asarray([[-5, 1], [0, 0]], np.float32)])
    assert result.tolist() == [[0, 3], [1, 2]]


def test_other_files_are_told_apart(tmp_path):
    assert not is_nnapi(b"TFL3" * 10, 40)
    assert not is_nnapi(b"", 0)
    (tmp_path / "x").write_bytes(b"TFL3" * 10)
    with pytest.raises(InvalidModelError):
        read(tmp_path / "x")
    with pytest.raises(InvalidModelError, match="No such file"):
        read(tmp_path / "none")


def test_names_of_the_interface_are_kept():
    model = import_model(if_model())
    assert [v.name for v in model.inputs] == ["condition", "a", "b"]
    assert [v.name for v in model.outputs] == ["chosen"]
    for chosen, wanted in ((1, [1, 2]), (0, [3, 4])):
        arrays = [np.asarray([chosen], bool), np.asarray([1, 2], "f4"), np.asarray([3, 4], "f4")]
        assert run_graph(model.graph, arrays)[0].tolist() == wanted


def test_shapes_can_be_given():
    model = import_model(exported_by_pytorch(), input_shapes={"input0": (4, 2)})
    assert model.outputs[0].shape == (4, 2)
    with pytest.raises(UsageError, match="there is no input 'x'; the model's inputs are 'input0'"):
        import_model(exported_by_pytorch(), input_shapes={"x": (4, 2)})


def test_inputs_may_be_left_out():
    b = NnapiBuilder()
    x, axes = b.input(FLOAT, (1, 2, 1)), b.input(OperandCode.TENSOR_INT32, (0,))
    b.run(OperationCode.SQUEEZE, [x, axes], [b.output(FLOAT, (0,))])
    model = import_model(b.model(), omitted={axes})
    assert len(model.inputs) == 1
    assert model.outputs[0].shape == (2,)


@pytest.mark.parametrize(
    ("shape", "axes", "stated", "wanted"),
    [
        ((1, 1), [0, 1], (1,), (1,)),
        ((1, 1), [0, -1], (0,), (1,)),
        ((1,), [0], (), (1,)),
        ((1, 3), [0, 0], (3,), (3,)),
        ((1, 3, 1), [-1, 2], (0, 3), (1, 3)),
        ((1, 3, 1), [2, 0], (0,), (3,)),
        ((1, 2, 3), [0], (0, 0), (2, 3)),
    ],
)
def test_axes_given_at_run_time_leave_one_dimension_at_least(shape, axes, stated, wanted):
    """They may repeat, too."""
    b = NnapiBuilder()
    x, dropped = b.input(FLOAT, shape), b.input(OperandCode.TENSOR_INT32, (len(axes),))
    b.run(OperationCode.SQUEEZE, [x, dropped], [b.output(FLOAT, stated)])
    graph = import_model(b.model()).graph
    numbers = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    (found,) = run_graph(graph, [numbers, np.asarray(axes, np.int32)])
    np.testing.assert_array_equal(found, numbers.reshape(wanted))


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("regular", [False, True])
def test_rows_behind_the_last_detection_are_of_no_class(regular, background):
    b = NnapiBuilder()
    scores, deltas = b.input(FLOAT, (1, 2, 3)), b.input(FLOAT, (1, 2, 4))
    anchors = b.const(FLOAT, [[1, 1, 1, 1], [5, 5, 1, 1]])
    rest = [*[b.const(OperandCode.FLOAT32, 1.0)] * 4, b.const(OperandCode.BOOL, regular)]
    rest += [b.const(INT, number) for number in (3, 1, 2)]
    rest += [b.const(OperandCode.FLOAT32, 0.5)] * 2 + [b.const(OperandCode.BOOL, background)]
    integer = OperandCode.TENSOR_INT32
    results = [b.output(FLOAT, (1, 3)), b.output(FLOAT, (1, 3, 4))]
    results += [b.output(integer, (1, 3)), b.output(integer, (1,))]
    b.run(OperationCode.DETECTION_POSTPROCESSING, [scores, deltas, anchors, *rest], results)
    graph = import_model(b.model()).graph
    given = np.array([[[0.9, 0.2, 0.8], [0.9, 0.3, 0.1]]], np.float32)
    found, _, labels, count = run_graph(graph, [given, np.zeros((1, 2, 4), np.float32)])
    assert count.tolist() == [1]
    np.testing.assert_array_equal(found, np.float32([[0.8, 0, 0]]))
    np.testing.assert_array_equal(labels, [[1 + background, 0, 0]])


def test_what_breaks_a_rule_is_refused():
    model = add_model()
    model.main.operands[2].value = np.asarray(9, np.int32)
    with pytest.raises(InvalidModelError) as caught:
        import_model(model, path="net")
    text = "net: operation 0 (ADD): activation is 9, allowed are [0, 1, 2, 3]"
    assert str(caught.value) == text
    model = conv_model()
    model.main.operands[2].scale = 0.5
    with pytest.raises(InvalidModelError, match=r"bias has the scale 0\.5, must have 0\.125"):
        import_model(model)
    model = conv_model()
    model.main.operands[model.main.outputs[0]].dimensions = (1, 3, 3, 3)
    with pytest.raises(InvalidModelError, match="output 0 states the dimensions"):
        import_model(model)


def test_all_that_can_not_be_read_is_listed(monkeypatch):
    others = {name: importer for name, importer in importers().items() if name != "ADD"}
    monkeypatch.setattr("nnconv.formats.nnapi.graph.importers", lambda: others)
    with pytest.raises(UnsupportedError) as caught:
        import_model(if_model())
    assert [item.where for item in caught.value.items] == [
        "model 0, operation 0",
        "model 1, operation 0",
    ]


def test_a_fixed_scale_counts_for_what_is_inside_and_is_demanded_of_outputs():
    quant8 = OperandCode.TENSOR_QUANT8_ASYMM
    for inside in (True, False):
        b = NnapiBuilder()
        x = b.input(quant8, (2,), scale=0.5, zero_point=3)
        make = b.operand if inside else b.output
        middle = make(quant8, (2,), scale=0.25, zero_point=1)
        b.run(OperationCode.LOGISTIC, [x], [middle])
        if inside:
            b.run(OperationCode.DEQUANTIZE, [middle], [b.output(FLOAT, (2,))])
            graph = import_model(b.model()).graph
            (result,) = run_graph(graph, [np.asarray([3, 255], np.uint8)])
            assert result.tolist() == [0.5, 255 / 256]
        else:
            with pytest.raises(InvalidModelError, match="the operation gives"):
                import_model(b.model())


@pytest.mark.parametrize("kind", [OWN, STREAM, ARCHIVE])
def test_summary(tmp_path, kind):
    summary = summarize(write(tmp_path, kind))
    relaxed = ", float32 may be computed as float16" if kind == ARCHIVE else ""
    assert (summary.format, summary.description) == ("nnapi", f"feature level 1{relaxed}")
    assert summary.ops == {"ADD": 1}
    assert summary.constants == 4
    (entry,) = summary.entries
    assert [(t.name, t.shape) for t in entry.inputs] == [("input0", (None, 2))]


@pytest.mark.parametrize(
    ("code", "scalars"),
    [
        (OperationCode.ROI_ALIGN, [1, 1, 1.0, 1.0, 0, 0, False]),
        (OperationCode.ROI_POOLING, [1, 1, 1.0, 1.0, False]),
    ],
)
def test_images_of_another_rank_are_refused(code, scalars):
    b = NnapiBuilder()
    operands = [b.input(FLOAT, (1, 2, 2, 1, 1)), b.input(FLOAT, (1, 4))]
    operands.append(b.input(OperandCode.TENSOR_INT32, (1,)))
    types = {bool: OperandCode.BOOL, int: INT, float: OperandCode.FLOAT32}
    operands += [b.const(types[type(value)], value) for value in scalars]
    b.run(code, operands, [b.output(FLOAT, (1, 1, 1, 1))])
    with pytest.raises(InvalidModelError, match="rank 5, must have 4"):
        import_model(b.model())


def chained_ifs(depth):
    """IFs inside each other, of which both branches are the same model."""
    graphs = []
    for number in range(depth):
        b = NnapiBuilder()
        condition = b.const(OperandCode.TENSOR_BOOL8, [True])
        following = b.operand(OperandCode.MODEL, lifetime=Lifetime.MODEL, value=number)
        x, y = b.input(FLOAT, (2,)), b.output(FLOAT, (2,))
        b.run(OperationCode.IF, [condition, following, following, x], [y])
        graphs.append(b.graph)
    last = NnapiBuilder()
    last.run(OperationCode.RELU, [last.input(FLOAT, (2,))], [last.output(FLOAT, (2,))])
    return Model(graphs[0], [*graphs[1:], last.graph])


def test_models_that_refer_to_each_other_twice_are_not_followed_without_end():
    graph = import_model(chained_ifs(8)).graph
    (result,) = run_graph(graph, [np.asarray([-1, 2], np.float32)])
    assert result.tolist() == [0, 2]
    with pytest.raises(InvalidModelError, match=r"net\.nnapi: .* without end"):
        import_model(chained_ifs(30), path="net.nnapi")


def test_what_breaks_rules_is_called_by_its_path_on_lines_of_its_own():
    b = NnapiBuilder()
    x = b.input(FLOAT, (2,), name="x\n\x1b[31m")
    b.graph.operands[x].scale = 3.0
    b.run(OperationCode.RELU, [x], [b.output(FLOAT, (2,))])
    with pytest.raises(InvalidModelError) as caught:
        import_model(b.model(), path="net.nnapi")
    first, *rest = caught.value.message.split("\n")
    assert first == "net.nnapi: a rule of NNAPI at feature level 8 is broken:"
    assert all(line.startswith("  ") and line.isprintable() for line in rest)


def test_summary_of_a_model_that_is_given_a_model_is_refused(tmp_path):
    b = NnapiBuilder()
    b.input(OperandCode.MODEL, ())
    b.run(OperationCode.RELU, [b.input(FLOAT, (2,))], [b.output(FLOAT, (2,))])
    file.write(b.model(), tmp_path / "net.nnapi")
    with pytest.raises(InvalidModelError, match="rule"):
        summarize(tmp_path / "net.nnapi")


def test_extents_below_zero_are_refused():
    b = NnapiBuilder()
    repeats = b.const(OperandCode.TENSOR_INT32, [-2, 1])
    b.run(OperationCode.TILE, [b.input(FLOAT, (1, 2)), repeats], [b.output(FLOAT, (0, 2))])
    with pytest.raises(InvalidModelError, match=r"shape \[-2, 2\]"):
        import_model(b.model())
