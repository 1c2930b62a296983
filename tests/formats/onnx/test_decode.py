"""What is read from ONNX files is what the onnx package reads from them."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from nnconv.errors import InvalidModelError
from nnconv.formats.onnx import protobuf, wire
from nnconv.formats.onnx.decode import read
from nnconv.formats.onnx.wire import Attribute, AttributeType, DataType
from support.effort import calls_of
from support.onnx_files import check_model, check_tensor

FLOAT = TensorProto.FLOAT


def value(name, dims=(2, "n", None)):
    return helper.make_tensor_value_info(name, FLOAT, dims)


def model(*nodes, inputs=("x",), outputs=("y",), initializers=(), **options):
    graph = helper.make_graph(
        nodes, "main", [value(x) for x in inputs], [value(y) for y in outputs], initializers
    )
    return helper.make_model(graph, **options)


def reading(proto):
    return read(proto.SerializeToString(), "a file")


def body(name):
    node = helper.make_node("Relu", ["x"], [f"{name}/y"])
    return helper.make_graph([node], name, [], [onnx.ValueInfoProto(name=f"{name}/y")])


def sparse(dims=(3, 4), *, flat=True, dtype=np.float32):
    values = numpy_helper.from_array(np.array([1, 2, 3], dtype), "sparse")
    places = np.array([1, 6, 11])
    indices = places if flat else np.stack([places // dims[1], places % dims[1]], axis=1)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(indices), list(dims))


# ------------------------------------------------------------------------------- whole models


def test_models_of_others(shared_dir):
    paths = sorted(shared_dir.glob("models/**/*.onnx"))
    if not paths:
        pytest.skip("no ONNX models among the reference models")
    compared = 0
    for path in paths:
        theirs = onnx.load(path, load_external_data=False)
        try:
            ours = read(path)
        except InvalidModelError as error:  # some are there to be refused
            assert "weightless" in path.name, error  # noqa: PT017
            continue
        check_model(ours, theirs)
        compared += 1
    assert compared > len(paths) * 0.9


def everything():
    """A model that has each kind of thing that a model may have."""
    node = helper.make_node(
        "Odd", ["x", "", "w"], ["y", ""], name="odd", domain="org.example", doc_string="a node"
    )
    node.overload = "second"
    node.metadata_props.add(key="a", value="b")
    tensor = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "t")
    kinds = {
        "f": 0.1,
        "i": -(2**63),
        "s": b"text \xff",
        "floats": [1.5, -0.0],
        "ints": [2**63 - 1, -1, 0, 128],
        "strings": [b"", b"\xc3\xa4", b"\xff"],
        "t": tensor,
        "tensors": [tensor, numpy_helper.from_array(np.array(True))],
        "g": body("g"),
        "graphs": [body("g1"), body("g2")],
        "sparse_tensor": sparse(),
        "sparse_tensors": [sparse(flat=False), sparse(dtype=np.int8)],
        "tp": helper.make_tensor_type_proto(FLOAT, [1, None]),
        "type_protos": [helper.make_sequence_type_proto(helper.make_tensor_type_proto(7, None))],
    }
    node.attribute.extend(helper.make_attribute(name, item) for name, item in kinds.items())
    for name, kind in (("no ints", "INTS"), ("no floats", "FLOATS"), ("no graphs", "GRAPHS")):
        node.attribute.add(name=name, type=AttributeProto.AttributeType.Value(kind))
    proto = model(
        node,
        helper.make_node("Relu", ["x"], ["z"], domain="ai.onnx"),
        initializers=[numpy_helper.from_array(np.float32([1, 2]), "w")],
        producer_name="maker",
        producer_version="1.0",
        doc_string="on the whole",
        opset_imports=[helper.make_opsetid("ai.onnx", 17), helper.make_opsetid("org.example", 3)],
        functions=[function()],
    )
    proto.domain, proto.model_version = "org.example.models", -5
    proto.graph.doc_string = "a graph"
    proto.graph.sparse_initializer.append(sparse())
    proto.graph.value_info.append(value("z", None))
    proto.graph.quantization_annotation.add(tensor_name="y")
    helper.set_model_props(proto, {"key": "ä", "other": ""})
    proto.training_info.add(algorithm=body("training"))
    proto.configuration.add(name="device", num_devices=2)
    return proto


def function():
    made = helper.make_function(
        "org.example",
        "Odd",
        ["a", "b"],
        ["c"],
        [helper.make_node("Elu", ["a"], ["c"])],
        [helper.make_opsetid("", 17)],
        attributes=["alpha"],
        attribute_protos=[helper.make_attribute("beta", 2.0), helper.make_attribute("axes", [1])],
        doc_string="a function",
        overload="second",
        value_info=[value("d")],
    )
    made.node[0].attribute.add(name="alpha", ref_attr_name="alpha", type=AttributeProto.FLOAT)
    return made


def test_everything_that_a_model_may_have():
    proto = everything()
    check_model(reading(proto), proto)


@given(st.binary(max_size=20), st.sampled_from([(100, 0), (100, 2), (31, 5), (2**28, 1)]))
def test_unknown_fields_are_passed_over(content, number_and_type):
    number, kind = number_and_type
    body = {0: b"\x96\x01", 1: bytes(8), 2: protobuf.varint(len(content)) + content, 5: bytes(4)}
    unknown = protobuf.varint(number << 3 | kind) + body[kind]
    proto = everything()
    check_model(read(unknown + proto.SerializeToString() + unknown), proto)


def test_fields_of_a_wrong_wire_type_are_passed_over_as_protobuf_does():
    relu = helper.make_node("Relu", ["x"], ["y"]).SerializeToString()
    node = protobuf.delimited(b"\x0a", relu + b"\x08\x05" + b"\x25abcd" + b"\x2d\0\0\0\0")
    data = b"\x08\x08" + protobuf.delimited(b"\x3a", node) + b"\x0a\x02\x08\x01"
    theirs = onnx.ModelProto.FromString(data)
    check_model(read(data), theirs)
    assert read(data).ir_version == 8


def test_what_is_given_twice_is_merged_or_the_last_one_stands():
    proto, more = everything(), everything()
    more.graph.name, more.ir_version, more.producer_name = "other", 7, "later"
    del more.opset_import[:]
    data = proto.SerializeToString() + more.SerializeToString()
    ours = read(data)
    theirs = onnx.ModelProto.FromString(data)
    assert len(ours.graph.nodes) == 4
    assert (ours.graph.name, ours.ir_version, ours.producer_name) == ("other", 7, "later")
    theirs.graph.sparse_initializer.sort(key=id)  # all alike
    check_model(ours, theirs)


def test_messages_within_are_merged_too():
    tensor = TensorProto(name="t", data_type=FLOAT, dims=[2], float_data=[1])
    rest = TensorProto(float_data=[5])
    attribute = b"".join(
        (
            helper.make_attribute("value", tensor).SerializeToString(),
            protobuf.delimited(b"\x2a", rest.SerializeToString()),
        )
    )
    node = protobuf.delimited(b"\x2a", attribute) + b"\x22\x01N"
    value_type = b"".join(
        protobuf.delimited(b"\x12", protobuf.delimited(b"\x0a", part))
        for part in (b"\x08\x01", b"\x12\x04\x0a\x02\x08\x03", b"\x12\x02\x0a\x00")
    )
    result = protobuf.delimited(b"\x62", b"\x0a\x01y" + value_type)
    graph = protobuf.delimited(b"\x3a", protobuf.delimited(b"\x0a", node) + result)
    data = b"\x08\x08" + graph
    check_model(read(data), onnx.ModelProto.FromString(data))
    assert read(data).graph.nodes[0].attributes["value"].value.array().tolist() == [1, 5]
    assert read(data).graph.outputs[0].dims == (3, None)


def test_of_types_the_last_one_given_stands():
    kinds = [
        helper.make_tensor_type_proto(FLOAT, [1]),
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [1])),
        helper.make_tensor_type_proto(TensorProto.INT8, None),
    ]
    for count in (2, 3):
        both = b"".join(kind.SerializeToString() for kind in kinds[:count])
        graph = protobuf.delimited(b"\x62", b"\x0a\x01y" + protobuf.delimited(b"\x12", both))
        data = b"\x08\x08" + protobuf.delimited(b"\x3a", graph)
        check_model(read(data), onnx.ModelProto.FromString(data))


def test_what_the_writer_writes_is_read():
    tensor = wire.Tensor.from_array("w", np.arange(6, dtype=np.int16).reshape(2, 3))
    node = wire.Node("Odd", ["x"], ["y"], {"k": 1, "t": tensor, "n": Attribute(7, ())}, name="n")
    x = wire.ValueInfo("x", DataType.FLOAT, ["n", 2, None])
    y = wire.ValueInfo("y", DataType.INT4, None)
    node.attributes["n"] = Attribute(AttributeType.INTS, ())
    written = wire.Model(wire.Graph("g", [node], [x], [y], [tensor]), 17, metadata={"a": "b"})
    data = b"".join(protobuf.part_chunks(protobuf.encode(written)[0]))
    ours = read(data)
    assert b"".join(protobuf.part_chunks(protobuf.encode(ours)[0])) == data


@pytest.mark.parametrize(
    ("imports", "opset", "extra"),
    [
        ([], 1, {}),
        ([("", 9)], 9, {}),
        ([("ai.onnx", 9), ("", 9)], 9, {}),
        ([("ai.onnx.ml", 3)], 0, {"ai.onnx.ml": 3}),
        ([("ai.onnx.ml", 3), ("", 20)], 20, {"ai.onnx.ml": 3}),
    ],
)
def test_operator_sets(imports, opset, extra):
    proto = model()
    del proto.opset_import[:]
    proto.opset_import.extend(helper.make_opsetid(*item) for item in imports)
    ours = reading(proto)
    assert (ours.opset, ours.extra_opsets) == (opset, extra)


def test_kinds_that_files_of_the_first_version_leave_out():
    node = helper.make_node("Odd", ["x"], ["y"], i=5, f=0.5, s="a", ints=[1, 2], t=onnx_scalar())
    for attribute in node.attribute:
        attribute.ClearField("type")
    ours = reading(model(node)).graph.nodes[0].attributes
    assert {name: item.type.name.lower()[: len(name)] for name, item in ours.items()} == {
        name: name for name in ours
    }


def onnx_scalar():
    return numpy_helper.from_array(np.float32(2))


def test_zeros_that_a_writer_left_out():
    node = onnx.NodeProto(op_type="Odd")
    for name, kind in (("i", 2), ("f", 1), ("s", 3)):
        node.attribute.add(name=name, type=kind)
    ours = reading(model(node)).graph.nodes[0].attributes
    assert {name: item.value for name, item in ours.items()} == {"i": 0, "f": 0.0, "s": ""}


def test_names_that_are_no_utf8_can_be_printed():
    data = model(helper.make_node("Relu", ["x?"], ["y"])).SerializeToString()
    assert read(data.replace(b"x?", b"x\xff")).graph.nodes[0].inputs == ["x\\xff"]


@pytest.mark.parametrize(
    "kind",
    [
        helper.make_tensor_type_proto(FLOAT, None),
        helper.make_tensor_type_proto(FLOAT, []),
        helper.make_tensor_type_proto(FLOAT, [0, -1, "n", "", None, 2**40]),
        helper.make_tensor_type_proto(0, [1]),
        onnx.TypeProto(),
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.INT64, [1])),
        helper.make_optional_type_proto(
            helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.STRING, None))
        ),
        helper.make_map_type_proto(
            TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.DOUBLE, None)
        ),
        helper.make_sparse_tensor_type_proto(TensorProto.FLOAT16, [1]),
    ],
    ids=lambda kind: kind.WhichOneof("value") or "none",
)
def test_types_of_values(kind):
    if kind.WhichOneof("value") == "map_type":
        assert helper.printable_type(kind)  # a sound type
    proto = model()
    proto.graph.input[0].type.CopyFrom(kind)
    ours = reading(proto)
    if "double" in ours.graph.inputs[0].other:
        assert ours.graph.inputs[0].other == "map(int64,tensor(double))"
    check_model(ours, proto)


def test_opaque_types_are_named():
    proto = model()
    proto.graph.input[0].type.Clear()
    proto.graph.input[0].type.opaque_type.domain = "org.example"
    proto.graph.input[0].type.opaque_type.name = "Thing"
    assert reading(proto).graph.inputs[0].other == "opaque(org.example,Thing)"


def test_a_path_is_mapped_and_bytes_are_viewed(tmp_path):
    weights = np.arange(5000, dtype=np.float32)
    proto = model(initializers=[numpy_helper.from_array(weights, "w")])
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
        array = read(source).graph.initializers[0].array()
        assert not array.flags.writeable
        np.testing.assert_array_equal(array, weights)
    constant = helper.make_node("Constant", [], ["y"], value=numpy_helper.from_array(weights))
    path.write_bytes(model(constant).SerializeToString())
    tensor = read(path).graph.nodes[0].attributes["value"].value
    assert isinstance(tensor.data, memoryview)
    check_tensor(tensor, constant.attribute[0].t)


def test_graphs_may_nest_as_deep_as_protobuf_reads():
    proto = model(helper.make_node("If", ["x"], ["y"], then_branch=body("g")))
    for _ in range(29):
        graph = onnx.GraphProto(name="around")
        graph.node.append(helper.make_node("If", ["x"], ["y"], then_branch=proto.graph))
        proto.graph.CopyFrom(graph)
    check_model(reading(proto), onnx.ModelProto.FromString(proto.SerializeToString()))


def test_the_cost_is_in_proportion_to_the_nodes():
    def cost(count):
        nodes = [
            helper.make_node("Conv", [f"x{i}", "w"], [f"x{i + 1}"], name=f"n{i}", strides=[1, 2])
            for i in range(count)
        ]
        data = model(*nodes).SerializeToString()
        return calls_of(lambda: read(data))

    assert cost(1000) < 10.1 * cost(100)
