"""Every field that the encoder writes, read back by the onnx package."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper

from nnconv.errors import GraphError, InvalidModelError, UsageError
from nnconv.formats.onnx import protobuf
from nnconv.formats.onnx.wire import (
    IR_VERSION_OF_OPSET,
    Attribute,
    AttributeType,
    DataType,
    Graph,
    Model,
    Node,
    Tensor,
    ValueInfo,
    ir_version_for,
)


def to_bytes(model):
    parts, size = protobuf.encode(model)
    data = b"".join(bytes(chunk) for chunk in protobuf.part_chunks(parts))
    assert len(data) == size
    return data


def read_back(model):
    return onnx.load_model_from_string(to_bytes(model))


def graph_of(*nodes, name="g", **fields):
    return Graph(name, nodes, fields.pop("inputs", ()), fields.pop("outputs", ()), **fields)


def attribute_read_back(value):
    model = read_back(Model(graph_of(Node("Op", [], [], {"a": value})), 21))
    (attribute,) = model.graph.node[0].attribute
    assert attribute.name == "a"
    return attribute


# Each strategy draws a pair: ours, and what the onnx package builds from the same facts.

texts = st.text(max_size=6)
names = st.text(min_size=1, max_size=6)
int64s = st.integers(-(2**63), 2**63 - 1)
float32s = st.floats(width=32)


@st.composite
def tensor_pairs(draw, name=names):
    dims = draw(st.lists(st.integers(0, 3), max_size=3))
    values = draw(st.lists(int64s, min_size=int(np.prod(dims)), max_size=int(np.prod(dims))))
    array = np.array(values, np.int64).reshape(dims)
    label = draw(name)
    ours = Tensor(label, DataType.INT64, dims, array)
    theirs = helper.make_tensor(label, TensorProto.INT64, dims, array.tobytes(), raw=True)
    if not label:
        theirs.ClearField("name")
    return ours, theirs


@st.composite
def value_pairs(draw):
    name = draw(names)
    dtype = draw(st.sampled_from(DataType))
    extents = st.none() | names | st.integers(0, 2**63 - 1)
    dims = draw(st.none() | st.lists(extents, max_size=4))
    return ValueInfo(name, dtype, dims), helper.make_tensor_value_info(name, int(dtype), dims)


_SCALARS = {
    AttributeType.INT: int64s,
    AttributeType.FLOAT: float32s,
    AttributeType.STRING: texts | st.binary(max_size=5),
}


@st.composite
def attribute_pairs(draw, graphs):
    """Draw a value and the field of AttributeProto that it goes to, with its content there."""
    kind = draw(
        st.sampled_from(
            [
                kind
                for kind in AttributeType
                if kind in protobuf._LIST_KINDS or kind in protobuf._ITEM_KINDS
            ]
        )
    )
    many = kind in protobuf._ITEM_KINDS
    item_kind = protobuf._ITEM_KINDS.get(kind, kind)
    if item_kind is AttributeType.TENSOR:
        items = tensor_pairs(st.just("") | names)
    elif item_kind is AttributeType.GRAPH:
        items = graphs
    else:
        items = _SCALARS[item_kind].map(lambda value: (value, value))
    pairs = draw(st.lists(items, max_size=3)) if many else [draw(items)]
    ours = [pair[0] for pair in pairs]
    theirs = [pair[1] for pair in pairs]
    if item_kind is AttributeType.STRING:
        theirs = [item.encode() if isinstance(item, str) else item for item in theirs]
    value = ours if many else ours[0]
    if not ours or draw(st.booleans()):
        value = Attribute(kind, value)
    return value, kind, theirs


_FIELDS = {
    AttributeType.FLOAT: "f",
    AttributeType.INT: "i",
    AttributeType.STRING: "s",
    AttributeType.TENSOR: "t",
    AttributeType.GRAPH: "g",
    AttributeType.FLOATS: "floats",
    AttributeType.INTS: "ints",
    AttributeType.STRINGS: "strings",
    AttributeType.TENSORS: "tensors",
    AttributeType.GRAPHS: "graphs",
}


def attribute_message(name, kind, items):
    message = AttributeProto(name=name, type=int(kind))
    field = _FIELDS[kind]
    if kind in protobuf._ITEM_KINDS:
        getattr(message, field).extend(items)
    elif kind in {AttributeType.TENSOR, AttributeType.GRAPH}:
        getattr(message, field).CopyFrom(items[0])
    else:
        setattr(message, field, items[0])
    return message


@st.composite
def node_pairs(draw, graphs):
    op_type, name, domain = draw(names), draw(texts), draw(texts)
    inputs, outputs = draw(st.lists(texts, max_size=3)), draw(st.lists(texts, max_size=3))
    drawn = draw(st.dictionaries(names, attribute_pairs(graphs), max_size=3))
    ours = Node(
        op_type,
        inputs,
        outputs,
        {key: value for key, (value, _, _) in drawn.items()},
        name=name,
        domain=domain,
    )
    theirs = onnx.NodeProto(op_type=op_type, input=inputs, output=outputs)
    theirs.attribute.extend(
        attribute_message(key, kind, items) for key, (_, kind, items) in drawn.items()
    )
    if name:
        theirs.name = name
    if domain:
        theirs.domain = domain
    return ours, theirs


@st.composite
def graph_pairs(draw, graphs):
    name = draw(names)
    parts = [
        draw(st.lists(strategy, max_size=2))
        for strategy in (node_pairs(graphs), value_pairs(), value_pairs(), tensor_pairs())
    ]
    values = draw(st.lists(value_pairs(), max_size=2))
    nodes, inputs, outputs, initializers = ([ours for ours, _ in pairs] for pairs in parts)
    ours = Graph(
        name, nodes, inputs, outputs, initializers, value_info=[value for value, _ in values]
    )
    nodes, inputs, outputs, initializers = ([theirs for _, theirs in pairs] for pairs in parts)
    theirs = helper.make_graph(
        nodes, name, inputs, outputs, initializers, value_info=[value for _, value in values]
    )
    return ours, theirs


@st.composite
def leaf_graphs(draw):
    name = draw(names)
    return Graph(name, [], [], []), helper.make_graph([], name, [], [])


@st.composite
def model_pairs(draw):
    ours, theirs = draw(graph_pairs(graph_pairs(leaf_graphs())))
    opset = draw(st.sampled_from(sorted(IR_VERSION_OF_OPSET)))
    producer, version, doc = draw(texts), draw(texts), draw(texts)
    metadata = draw(st.dictionaries(texts, texts, max_size=3))
    extra = draw(st.dictionaries(names, st.integers(1, 2**31), max_size=2))
    model = Model(
        ours,
        opset,
        producer_name=producer,
        producer_version=version,
        metadata=metadata,
        doc_string=doc,
        extra_opsets=extra,
    )
    message = onnx.ModelProto(ir_version=IR_VERSION_OF_OPSET[opset], graph=theirs)
    message.opset_import.extend(
        helper.make_opsetid(domain, number) for domain, number in {"": opset, **extra}.items()
    )
    for field, text in (
        ("producer_name", producer),
        ("producer_version", version),
        ("doc_string", doc),
    ):
        if text:
            setattr(message, field, text)
    for key, value in metadata.items():
        message.metadata_props.add(key=key, value=value)
    return model, message


@given(model_pairs())
def test_bytes_are_those_that_protobuf_writes_for_the_same_model(pair):
    model, message = pair
    assert to_bytes(model) == message.SerializeToString(deterministic=True)


@given(int64s)
def test_varints_are_those_of_int64(value):
    assert attribute_read_back(value).i == value


@pytest.mark.parametrize("value", [0, 127, 128, 16383, 16384, 2**63 - 1, -1, -(2**63)])
def test_varints_at_their_edges(value):
    assert attribute_read_back([value]).ints == [value]


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, [0, 2**64]])
def test_ints_beyond_64_bits_are_refused_with_the_place(value):
    node = Node("Clip", ["x"], ["y"], {"low": value}, name="clamp")
    with pytest.raises(GraphError, match=r"Clip \(`clamp`\), attribute low: .*range of INT"):
        protobuf.encode(Model(graph_of(node), 21))


@pytest.mark.parametrize("value", [1e39, [0.0, -1e300], Attribute(AttributeType.FLOAT, 10**400)])
def test_floats_beyond_32_bits_are_refused(value):
    with pytest.raises(GraphError, match="range of FLOAT"):
        attribute_read_back(value)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (True, AttributeProto.INT, 1),
        (np.False_, AttributeProto.INT, 0),
        (np.int8(-3), AttributeProto.INT, -3),
        (DataType.FLOAT16, AttributeProto.INT, 10),
        (np.float32(0.1), AttributeProto.FLOAT, float(np.float32(0.1))),
        (np.float64(0.5), AttributeProto.FLOAT, 0.5),
        (float("-inf"), AttributeProto.FLOAT, float("-inf")),
        ("é", AttributeProto.STRING, "é".encode()),
        (b"\xff", AttributeProto.STRING, b"\xff"),
        ("a\udcff", AttributeProto.STRING, b"a\xff"),
        ((1, 2.5), AttributeProto.FLOATS, [1.0, 2.5]),
        ((True, 2), AttributeProto.INTS, [1, 2]),
        (["a", b"b"], AttributeProto.STRINGS, [b"a", b"b"]),
        (Attribute(AttributeType.FLOATS, [1, 2]), AttributeProto.FLOATS, [1.0, 2.0]),
        (Attribute(AttributeType.FLOAT, 1), AttributeProto.FLOAT, 1.0),
    ],
)
def test_kind_follows_from_the_value(value, kind, expected):
    attribute = attribute_read_back(value)
    assert attribute.type == kind
    assert helper.get_attribute_value(attribute) == expected


@pytest.mark.parametrize("kind", [kind for kind in AttributeType if kind in protobuf._ITEM_KINDS])
def test_empty_lists_keep_their_kind(kind):
    attribute = attribute_read_back(Attribute(kind, ()))
    assert attribute.type == kind
    assert list(helper.get_attribute_value(attribute)) == []


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "empty list needs its kind"),
        (None, "None is of no kind"),
        (1j, "is of no kind"),
        (np.zeros(2), "is of no kind"),
        ([1, "a"], "not of one kind"),
        ([None], "not of one kind"),
        ([[1]], "not of one kind"),
        (Attribute(AttributeType.INT, 1.5), "no value of the kind INT"),
        (Attribute(AttributeType.INTS, 1), "no value of the kind INTS"),
        (Attribute(AttributeType.STRINGS, "abc"), "no value of the kind STRINGS"),
        (Attribute(AttributeType.TENSORS, [1]), "no value of the kind TENSORS"),
        (Attribute(AttributeType.GRAPH, None), "no value of the kind GRAPH"),
    ],
)
def test_values_of_no_kind_are_refused(value, why):
    with pytest.raises(GraphError, match=why):
        attribute_read_back(value)


def test_zeros_of_both_signs_stay_apart():
    nodes = [Node("Op", [], [], {"a": value, "b": [value]}) for value in (0.0, -0.0)]
    first, second = read_back(Model(graph_of(*nodes), 21)).graph.node
    assert not np.signbit([first.attribute[0].f, first.attribute[1].floats[0]]).any()
    assert np.signbit([second.attribute[0].f, second.attribute[1].floats[0]]).all()


def test_equal_attributes_of_other_kinds_stay_apart():
    values = [1, 1.0, [1], [1.0], "1", [True]]
    nodes = [Node("Op", [], [], {"a": value}) for value in values]
    kinds = [node.attribute[0].type for node in read_back(Model(graph_of(*nodes), 21)).graph.node]
    assert kinds == [2, 1, 7, 6, 3, 7]


def test_dims_unset_named_zero_and_of_no_rank():
    values = [
        ValueInfo("named", DataType.FLOAT, ("batch", None, 0, 7)),
        ValueInfo("scalar", DataType.BOOL, ()),
        ValueInfo("unranked", DataType.INT8, None),
    ]
    named, scalar, unranked = read_back(Model(graph_of(inputs=values), 21)).graph.input
    dims = named.type.tensor_type.shape.dim
    assert [dim.WhichOneof("value") for dim in dims] == [
        "dim_param",
        None,
        "dim_value",
        "dim_value",
    ]
    assert (dims[0].dim_param, dims[2].dim_value, dims[3].dim_value) == ("batch", 0, 7)
    assert scalar.type.tensor_type.HasField("shape")
    assert not scalar.type.tensor_type.shape.dim
    assert not unranked.type.tensor_type.HasField("shape")
    assert unranked.type.tensor_type.elem_type == TensorProto.INT8


def test_negative_extents_are_refused():
    graph = graph_of(inputs=[ValueInfo("x", DataType.FLOAT, (-1, 2))])
    with pytest.raises(GraphError, match=r"'x': an extent of \(-1, 2\) is negative"):
        protobuf.encode(Model(graph, 21))


def test_names_beyond_ascii_survive():
    node = Node("Relu", ["入力"], ["выход"], name="ñ", domain="")
    graph = graph_of(node, name="グラフ")
    model = Model(graph, 21, producer_name="ü", metadata={"ключ": "値", "empty": ""})
    back = read_back(model)
    assert (back.graph.name, back.producer_name) == ("グラフ", "ü")
    assert back.graph.node[0] == helper.make_node("Relu", ["入力"], ["выход"], name="ñ")
    assert {prop.key: prop.value for prop in back.metadata_props} == model.metadata


@pytest.mark.parametrize(
    "graph",
    [
        graph_of(Node("Relu", ["a\udcff"], ["y"])),
        graph_of(Node("Relu", ["x"], ["y"], name="\ud800")),
        graph_of(Node("Relu", ["x"], ["y"], {"\udc80": 1})),
        graph_of(inputs=[ValueInfo("\udc80", DataType.FLOAT, ())]),
        graph_of(inputs=[ValueInfo("x", DataType.FLOAT, ("\udc80",))]),
        graph_of(initializers=[Tensor("\udc80", DataType.FLOAT, (0,), None)]),
    ],
)
def test_names_without_utf8_form_are_refused(graph):
    with pytest.raises(InvalidModelError, match="no UTF-8 form"):
        protobuf.encode(Model(graph, 21))


def test_absent_optional_inputs_stay_in_place():
    back = read_back(Model(graph_of(Node("Clip", ["x", "", "max"], ["y"])), 21))
    assert back.graph.node[0].input == ["x", "", "max"]


def test_graphs_nested_deep_take_their_own_bytes_each():
    depth = 20
    graph = graph_of(name="leaf")
    for level in range(depth):
        graph = graph_of(Node("If", ["c"], ["y"], {"then_branch": graph}), name=f"level{level}")
    message = read_back(Model(graph, 21)).graph
    for level in reversed(range(depth)):
        assert message.name == f"level{level}"
        message = message.node[0].attribute[0].g
    assert message.name == "leaf"


def test_the_same_model_gives_the_same_bytes():
    weights = np.arange(5000, dtype=np.float32)

    def build():
        node = Node("Add", ["x", "w"], ["y"], {"b": 1, "a": [2, 3]})
        tensors = [Tensor("w", DataType.FLOAT, (5000,), weights)]
        return Model(graph_of(node, initializers=tensors), 21, metadata={"z": "1", "a": "2"})

    assert to_bytes(build()) == to_bytes(build())


def test_ir_versions_are_those_of_the_onnx_releases():
    released = {opset: ir for _, ir, opset, *_ in reversed(helper.VERSION_TABLE) if opset >= 13}
    assert released
    known = {opset: IR_VERSION_OF_OPSET.get(opset) for opset in released}
    # A later onnx may know opsets that came after this table was made.
    newest = max(IR_VERSION_OF_OPSET)
    assert {opset: ir for opset, ir in known.items() if opset <= newest} == {
        opset: ir for opset, ir in released.items() if opset <= newest
    }


@pytest.mark.parametrize("opset", [12, 0, -1, 1000])
def test_unknown_opsets_are_refused_with_the_allowed_ones(opset):
    with pytest.raises(UsageError, match=r"allowed are 13 to \d+"):
        ir_version_for(opset)


def test_ir_version_can_be_chosen():
    assert read_back(Model(graph_of(), 21, ir_version=8)).ir_version == 8
