"""What the ONNX writer makes of a model's interface: names, passing values, states, metadata."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import nnconv
from nnconv.errors import UnsupportedError
from nnconv.formats.onnx.protobuf import encode, part_chunks
from nnconv.formats.onnx.protobuf import write as write_file
from nnconv.formats.onnx.writer import to_wire
from nnconv.ir import Builder, DType, Graph, Model, Op, Quant, Signature, State
from nnconv.ops.elementwise import Abs, Add, Clip, Mul, Neg
from support.spine import onnx_session

RELU = Clip(low=0.0, high=float("inf"))
SHAPE = (2, 3)
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def model_of(graph, **rest):
    return Model([Signature("", graph, **rest)])


def chain(input_names, output_names):
    """Inputs a, b, ...; outputs Neg(a), Abs(a) + b, ... under the given names."""
    builder = Builder(Graph("g"))
    inputs = [builder.input(name, DType.FLOAT32, SHAPE) for name in input_names]
    total = inputs[0]
    outputs = []
    for index, name in enumerate(output_names):
        total = builder.add(Add(), [total, inputs[index % len(inputs)]], name=name)
        outputs.append(total)
    builder.graph.outputs = outputs
    return model_of(builder.graph)


def write(model, path, **options):
    """Write a model; gives the writer's report."""
    content, report = to_wire(model, model.main, **options)
    write_file(content, path)
    return report


def run(path, *arrays):
    session = onnx_session(path)
    names = [info.name for info in session.get_inputs()]
    outputs = [info.name for info in session.get_outputs()]
    return names, outputs, session.run(None, dict(zip(names, arrays, strict=True)))


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        (["x"], ["y"]),
        (["serving_default_x:0", "b"], ["StatefulPartitionedCall:0", "StatefulPartitionedCall:1"]),
        (["a/b/c", "a//b", "/a"], ["a/b", "a/b/d", "out/"]),
        (["x y", " ", "\t"], ["."]),
        (["größe", "名前", "🙂"], ["выход"]),
        (["If", "Add"], ["Neg", "graph"]),
    ],
)
def test_usable_names_and_their_order_are_kept(inputs, outputs, tmp_path):
    path = tmp_path / "m.onnx"
    report = write(chain(inputs, outputs), path)
    names, written, results = run(path, *[X] * len(inputs))
    assert (names, written) == (inputs, outputs)
    assert (report.inputs, report.outputs) == (inputs, outputs)
    assert not report.renamed
    for index, result in enumerate(results):
        assert np.array_equal(result, X * (index + 2))


@pytest.mark.parametrize(
    ("inputs", "outputs", "renamed"),
    [
        (["", ""], ["y"], {("input", "", "input_0"), ("input", "", "input_1")}),
        (["x"], ["", "y"], {("output", "", "output_0")}),
        (["x", "x"], ["y"], {("input", "x", "x_1")}),
        (["x"], ["y", "y", "y"], {("output", "y", "y_1"), ("output", "y", "y_2")}),
        (["x"], ["x"], {("output", "x", "x_1")}),
        (["x", "x_1", "x"], ["x_2"], {("input", "x", "x_2"), ("output", "x_2", "x_2_1")}),
        (["", "input_0"], ["y"], {("input", "", "input_0"), ("input", "input_0", "input_0_1")}),
    ],
)
def test_empty_and_repeated_names_are_replaced_and_reported(inputs, outputs, renamed, tmp_path):
    path = tmp_path / "m.onnx"
    report = write(chain(inputs, outputs), path)
    names, written, results = run(path, *[X] * len(inputs))
    assert len({*names, *written}) == len(inputs) + len(outputs)
    assert set(report.renamed) == renamed
    for index, result in enumerate(results):
        assert np.array_equal(result, X * (index + 2))


def test_inner_names_stay_clear_of_the_interface(tmp_path):
    builder = Builder(Graph())
    x = builder.input("y/Mul", DType.FLOAT32, SHAPE)
    inner = builder.add(Mul(), [x, builder.const(np.float32(2), "y")], name="z")
    y = builder.add(Neg(), [inner], name="y")
    builder.graph.outputs = [builder.add(Abs(), [y], name="z"), y]
    path = tmp_path / "m.onnx"
    report = write(model_of(builder.graph), path)
    names, written, results = run(path, X)
    assert (names, written, report.renamed) == (["y/Mul"], ["z", "y"], [])
    assert np.array_equal(results[0], np.abs(2 * X))
    assert np.array_equal(results[1], -2 * X)


def test_an_input_that_goes_out_is_copied(tmp_path):
    builder = Builder(Graph())
    x = builder.input("x", DType.FLOAT32, SHAPE)
    unused = builder.input("unused", DType.INT32, (4,))
    builder.graph.outputs = [x, builder.add(Neg(), [x], name="y"), x]
    assert not unused.use_count
    path = tmp_path / "m.onnx"
    write(model_of(builder.graph), path)
    names, written, results = run(path, X, np.zeros(4, np.int32))
    assert names == ["x", "unused"]
    assert written[1] == "y"
    assert len(set(written)) == 3
    for result, expected in zip(results, (X, -X, X), strict=True):
        assert np.array_equal(result, expected)


def test_a_value_that_goes_out_twice_has_two_names(tmp_path):
    builder = Builder(Graph())
    x = builder.input("x", DType.FLOAT32, SHAPE)
    y = builder.add(RELU, [x], name="y")
    z = builder.add(Neg(), [y], name="z")
    builder.graph.outputs = [y, z, y]
    path = tmp_path / "m.onnx"
    report = write(model_of(builder.graph), path)
    _, written, results = run(path, X)
    assert written == ["y", "z", "y_1"]
    assert report.renamed == [("output", "y", "y_1")]
    for result, expected in zip(results, (np.maximum(X, 0), -np.maximum(X, 0)) * 2, strict=False):
        assert np.array_equal(result, expected)


@pytest.mark.parametrize("quantized", [False, True])
def test_a_constant_can_go_out(quantized, tmp_path):
    builder = Builder(Graph())
    builder.input("x", DType.FLOAT32, SHAPE)
    data = np.array([-128, 0, 127], np.int8)
    quant = Quant.per_tensor(0.5, -3) if quantized else None
    constant = builder.const(data, "c", quant=quant)
    builder.graph.outputs = [constant, constant]
    path = tmp_path / "m.onnx"
    write(model_of(builder.graph), path)
    _, written, results = run(path, X)
    assert written[0] == "c"
    assert len(set(written)) == 2
    for result in results:
        assert result.dtype == np.int8
        assert np.array_equal(result, data)


@pytest.mark.parametrize("resign", [True, False])
def test_int8_edges_keep_their_codes(resign, tmp_path):
    builder = Builder(Graph())
    quant = Quant.per_tensor(0.5, -3)
    x = builder.input("x", DType.INT8, SHAPE, quant=quant)
    y = builder.add(RELU, [x], name="y", quant=quant)
    builder.graph.outputs = [x, y]
    path = tmp_path / "m.onnx"
    write(model_of(builder.graph), path, resign=resign)
    codes = np.array([[-128, -3, 0], [5, 126, 127]], np.int8)
    _, _, results = run(path, codes)
    assert np.array_equal(results[0], codes)
    assert np.array_equal(results[1], np.maximum(codes, -3))


def test_symbols_and_unknown_extents_are_declared(tmp_path):
    builder = Builder(Graph())
    x = builder.input("x", DType.FLOAT32, ("batch", None, 3))
    builder.graph.outputs = [builder.add(Neg(), [x], name="y")]
    path = tmp_path / "m.onnx"
    write(model_of(builder.graph), path)
    declared = onnx.load(str(path)).graph
    for info in (declared.input[0], declared.output[0]):
        first, second, third = info.type.tensor_type.shape.dim
        assert first.dim_param == "batch"
        assert not second.HasField("dim_value")
        assert third.dim_value == 3


def counter(initial, *, name="count"):
    """A model that adds its input to a state and gives the sum."""
    builder = Builder(Graph())
    x = builder.input("x", DType.FLOAT32, SHAPE)
    state = builder.input(name, DType.FLOAT32, SHAPE)
    total = builder.add(Add(), [x, state], name="sum")
    builder.graph.outputs = [total, total]
    return model_of(builder.graph, states=(State(state, total, initial, name),))


def metadata(path):
    return {p.key: json.loads(p.value) for p in onnx.load(str(path)).metadata_props}


@pytest.mark.parametrize(
    ("initial", "noted"),
    [
        (np.zeros(SHAPE, np.float32), 0.0),
        (np.full(SHAPE, 1.5, np.float32), 1.5),
        (X, X.tolist()),
    ],
)
def test_states_are_inputs_and_outputs_and_are_noted(initial, noted, tmp_path):
    path = tmp_path / "m.onnx"
    write(counter(initial), path)
    names, written, results = run(path, X, initial)
    assert (names, written) == (["x", "count"], ["sum", "count_next"])
    assert np.array_equal(results[0], X + initial)
    assert np.array_equal(results[1], results[0])
    assert metadata(path)["nnconv.states"] == [
        {"name": "count", "input": "count", "output": "count_next", "initial": noted}
    ]


def test_states_of_one_name_stay_apart(tmp_path):
    builder = Builder(Graph())
    first, second = (builder.input("s", DType.FLOAT32, SHAPE) for _ in range(2))
    after = [builder.add(Neg(), [first]), builder.add(Abs(), [second])]
    builder.graph.outputs = after
    zeros = np.zeros(SHAPE, np.float32)
    states = tuple(
        State(before, value, zeros, "s")
        for before, value in zip((first, second), after, strict=True)
    )
    path = tmp_path / "m.onnx"
    write(model_of(builder.graph, states=states), path)
    names, written, results = run(path, X, X)
    assert len({*names, *written}) == 4
    assert np.array_equal(results[0], -X)
    assert np.array_equal(results[1], np.abs(X))
    noted = metadata(path)["nnconv.states"]
    assert [(n["input"], n["output"]) for n in noted] == list(zip(names, written, strict=True))


def test_signature_and_quantization_are_noted(tmp_path):
    builder = Builder(Graph())
    quant = Quant.per_tensor(0.25, 7)
    x = builder.input("x:0", DType.UINT8, SHAPE, quant=quant)
    builder.graph.outputs = [builder.add(RELU, [x], name="y:0", quant=quant)]
    model = Model([Signature("größe", builder.graph, ("image",), ("score",))])
    path = tmp_path / "m.onnx"
    write(model, path)
    entries = metadata(path)
    assert entries["nnconv.signature"] == {
        "key": "größe",
        "inputs": {"image": "x:0"},
        "outputs": {"score": "y:0"},
    }
    parameters = {"scale": [0.25], "zero_point": [7]}
    assert entries["nnconv.quantization"] == {"x:0": parameters, "y:0": parameters}


def test_a_model_without_specials_has_no_metadata(tmp_path):
    path = tmp_path / "m.onnx"
    write(chain(["x"], ["y"]), path)
    assert metadata(path) == {}


@pytest.mark.parametrize("opset", [13, 21, 27])
def test_opset_and_producer_are_stated(opset, tmp_path):
    path = tmp_path / "m.onnx"
    write(chain(["x"], ["y"]), path, opset=opset)
    written = onnx.load(str(path))
    assert [(o.domain, o.version) for o in written.opset_import] == [("", opset)]
    assert (written.producer_name, written.producer_version) == ("nnconv", nnconv.__version__)


def test_the_same_model_gives_the_same_bytes(tmp_path):
    contents = []
    for name in ("a.onnx", "b.onnx"):
        model = counter(X)
        write(model, tmp_path / name)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]


def test_writing_leaves_the_model_as_it_was():
    model = chain(["x", "x"], ["", "y"])
    first, _ = to_wire(model, model.main)
    second, _ = to_wire(model, model.main)
    contents = [b"".join(part_chunks(encode(m)[0])) for m in (first, second)]
    assert contents[0] == contents[1]


class Strange(Op):
    """An op that no format knows."""

    def infer(self, types):
        return (types[0],)


def test_every_node_without_a_form_is_named_and_nothing_is_written(tmp_path):
    builder = Builder(Graph())
    x = builder.input("x", DType.FLOAT32, SHAPE)
    first = builder.add(Strange(), [x], name="first")
    second = builder.add(Strange(), [builder.add(Neg(), [first])], name="second")
    builder.graph.outputs = [second]
    path = tmp_path / "m.onnx"
    with pytest.raises(UnsupportedError) as caught:
        write(model_of(builder.graph), path)
    assert [item.op for item in caught.value.items] == ["Strange", "Strange"]
    assert "`first`" in str(caught.value)
    assert "`second`" in str(caught.value)
    assert not path.exists()
