"""The .nnrt file and its .json twin."""

import json

import numpy as np
import pytest

from nnconv.errors import InvalidModelError
from nnconv.formats.marks import KEYS, is_container
from nnconv.formats.nnrt import file
from nnconv.formats.nnrt.types import NUMPY, DataType, OperationType, TensorType
from nnconv.formats.nnrt.wire import Graph, QuantParams, Tensor
from support.nnrt_models import add_model, conv_model


def same(a: Graph, b: Graph) -> bool:
    """Whether two graphs have the same content."""
    return (
        (a.api, a.name, a.inputs, a.outputs) == (b.api, b.name, b.inputs, b.outputs)
        and [(o.type, o.params, o.inputs, o.outputs) for o in a.operations]
        == [(o.type, o.params, o.inputs, o.outputs) for o in b.operations]
        and len(a.tensors) == len(b.tensors)
        and all(map(same_tensor, a.tensors, b.tensors))
    )


def same_tensor(a: Tensor, b: Tensor) -> bool:
    facts = [(t.data_type, t.type, t.dimensions, t.quant, t.name) for t in (a, b)]
    if facts[0] != facts[1] or (a.data is None) is not (b.data is None):
        return False
    return a.data is None or (
        b.data is not None and a.data.dtype == b.data.dtype and a.data.tobytes() == b.data.tobytes()
    )


def rich_graph() -> Graph:
    """A graph with every type of elements, large and small, and all entries that there are."""
    rng, graph = np.random.default_rng(5), Graph(api=1, name="rich")
    for kind, dtype in NUMPY.items():
        for shape in ((), (3,), (5, 7)):
            data = rng.integers(0, 2, shape) if kind is DataType.BOOL else rng.uniform(0, 99, shape)
            array = np.asarray(data).astype(dtype)
            graph.tensors.append(Tensor(kind, shape, data=array, name=f"{kind.name} {shape}"))
    graph.tensors += [
        Tensor(DataType.FLOAT32, (-1, 3)),
        Tensor(DataType.UNKNOWN, (2,)),
        Tensor(DataType.FLOAT64, (2,), data=np.array([np.inf, np.nan])),
        Tensor(DataType.INT64, (1,), data=np.array([-(1 << 63)])),
        Tensor(DataType.UINT64, (1,), data=np.array([(1 << 64) - 1], np.uint64)),
        Tensor(DataType.INT8, (2,), quant=QuantParams([0.1, 1 / 3], [1, -2])),
        Tensor(DataType.INT8, (2,), quant=QuantParams([0.1], [0], [4])),
        Tensor(DataType.INT8, (), type=TensorType.ADD_ACTIVATIONTYPE, data=np.array(1, np.int8)),
    ]
    return graph


@pytest.mark.parametrize("make", [add_model, conv_model, rich_graph], ids=lambda f: f.__name__)
def test_files_and_twins_come_back_as_they_were(make, tmp_path):
    graph = make()
    assert same(file.read(file.to_bytes(graph)), graph)
    assert same(file.from_json(file.to_json(graph)), graph)
    for name in ("m.nnrt", "m.json"):
        file.write(graph, tmp_path / name)
        assert same(file.read(tmp_path / name), graph)
    assert file.to_bytes(file.read(tmp_path / "m.json")) == (tmp_path / "m.nnrt").read_bytes()


def test_larger_constants_stay_in_the_files_memory_map(tmp_path):
    file.write(conv_model(), tmp_path / "m.nnrt")
    weights = file.read(tmp_path / "m.nnrt").tensors[1].data
    assert weights is not None
    assert not weights.flags.owndata


def test_files_are_told_by_their_content():
    data = file.to_bytes(add_model())
    assert is_container(KEYS["nnrt"], data[:4096], len(data))
    assert is_container(KEYS["nnrt"], file.to_json(add_model()).encode(), 4096)
    assert not is_container(
        KEYS["nnrt"], data[:4096].replace(b"nnconv.nnrt", b"nnconv.nnrx"), len(data)
    )


def test_a_twin_has_a_line_for_each_tensor_and_operation():
    lines = file.to_json(add_model()).splitlines()
    assert ' {"op": "ADD", "params": [3], "inputs": [0, 1], "outputs": [2]}' in [
        line.rstrip(",")[1:] for line in lines
    ]
    assert sum('"data_type"' in line for line in lines) == 4


def changed(place=(), **entries):
    """The twin of the model of a sum with entries changed; None takes one out."""
    plain = json.loads(file.to_json(add_model()))
    inner = plain
    for step in place:
        inner = inner[step]
    for key, value in entries.items():
        inner.pop(key, None)
        if value is not None:
            inner[key] = value
    return json.dumps(plain)


X, C = ("tensors", 0), ("tensors", 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting"),
        (changed(format="nnconv.nnapi"), 'format: "nnconv.nnapi", must be one of "nnconv.nnrt"'),
        (changed(version=2), "version: 2, must be one of 1"),
        (changed(api=3), "api: 3, must be one of 1, 2"),
        (changed(tensors=None), "tensors is missing"),
        (changed(X, data_type="INT4"), 'tensors[0].data_type: "INT4", must be one of'),
        (changed(X, type="PAD"), 'tensors[0].type: "PAD", must be one of'),
        (changed(X, dimensions=[1 << 31]), "tensors[0].dimensions[0]: 2147483648, must be at most"),
        (changed(X, colour=1), 'tensors[0]: "colour" isn\'t known'),
        (changed(X, zero_points=[1]), "tensors[0]: zero points or bits without scales"),
        (changed(X, scales=[1], zero_points=[]), "scales, zero points and bits must be as many"),
        (changed(X, scales=[1, 2], bits=[8]), "scales, zero points and bits must be as many"),
        (changed(C, value=[1, 2]), "tensors[1]: 2 elements for FLOAT32 [3]"),
        (changed(C, base64="AAAA"), "tensors[1]: value, base64: must be one of them"),
        (changed(C, dimensions=[-1]), "value of FLOAT32 [-1], type and extents must be known"),
        (changed(C, data_type="UNKNOWN"), "value of UNKNOWN [3], type and extents must be known"),
        (changed(C, value=[1, 2, 1e39]), "tensors[1]: an element is no float32"),
        (changed(C, value=None, tensor="t"), "tensors[1]: there is no tensor 't'"),
        (changed(C, data_type="INT8", value=[1, 2, 128]), "tensors[1]: an element is no int8"),
        (changed(("operations", 0), op="PLUS"), 'operations[0].op: "PLUS", must be one of'),
        (changed(("operations", 0), params=[9]), "operations[0]: a tensor beyond the 4 there are"),
        (changed(outputs=[4]), "an input or output, a tensor beyond the 4 there are"),
    ],
)
def test_a_broken_twin_is_refused(text, message):
    with pytest.raises(InvalidModelError) as caught:
        file.from_json(text, path="twin.json")
    assert message in str(caught.value)
    assert "twin.json" in str(caught.value)


def test_data_without_a_type_are_not_written(tmp_path):
    graph = add_model()
    graph.tensors[1].data_type = DataType.UNKNOWN
    with pytest.raises(InvalidModelError, match="no type of elements"):
        file.write(graph, tmp_path / "m.nnrt")
    assert not (tmp_path / "m.nnrt").exists()


def test_the_schema_allows_what_is_written():
    jsonschema = pytest.importorskip("jsonschema")
    from nnconv.schemas import read_schema

    schema = read_schema("nnrt/model.schema.json")
    for graph in (add_model(), conv_model(quantized=True), rich_graph()):
        jsonschema.validate(json.loads(file.to_json(graph)), schema)


def test_operations_keep_their_names():
    assert file.from_json(file.to_json(add_model())).operations[0].type is OperationType.ADD
