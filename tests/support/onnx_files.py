"""Comparing what nnconv reads from an ONNX file with what the onnx package does."""

import numpy as np
from onnx import AttributeProto, TensorProto, TypeProto, numpy_helper

from nnconv.formats.onnx import wire

_TENSOR_KINDS = {AttributeProto.TENSOR: "t", AttributeProto.TENSORS: "tensors"}
_GRAPH_KINDS = {AttributeProto.GRAPH: "g", AttributeProto.GRAPHS: "graphs"}
_PLAIN_KINDS = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
}


def check_model(ours: wire.Model, theirs) -> None:
    """See that ``ours`` says what ``theirs``, a ModelProto, says."""
    opsets = {("" if s.domain == "ai.onnx" else s.domain): s.version for s in theirs.opset_import}
    assert ours.opset == opsets.pop("", 0 if opsets else 1)
    assert ours.extra_opsets == opsets
    assert ours.ir_version == theirs.ir_version
    assert ours.producer_name == theirs.producer_name
    assert ours.producer_version == theirs.producer_version
    assert ours.domain == theirs.domain
    assert ours.model_version == theirs.model_version
    assert ours.doc_string == theirs.doc_string
    assert ours.metadata == {entry.key: entry.value for entry in theirs.metadata_props}
    check_graph(ours.graph, theirs.graph)
    assert len(ours.functions) == len(theirs.functions)
    for mine, other in zip(ours.functions, theirs.functions, strict=True):
        check_function(mine, other)


def check_function(ours: wire.Function, theirs) -> None:
    """See that ``ours`` says what ``theirs``, a FunctionProto, says."""
    assert (ours.domain, ours.name, ours.overload) == (theirs.domain, theirs.name, theirs.overload)
    assert list(ours.inputs) == list(theirs.input)
    assert list(ours.outputs) == list(theirs.output)
    assert list(ours.attributes) == list(theirs.attribute)
    assert ours.opsets == {s.domain: s.version for s in theirs.opset_import}
    assert ours.doc_string == theirs.doc_string
    check_attributes(ours.defaults, theirs.attribute_proto)
    check_nodes(ours.nodes, theirs.node)
    check_values(ours.value_info, theirs.value_info)


def check_graph(ours: wire.Graph, theirs) -> None:
    """See that ``ours`` says what ``theirs``, a GraphProto, says."""
    assert ours.name == theirs.name
    assert ours.doc_string == theirs.doc_string
    check_nodes(ours.nodes, theirs.node)
    check_values(ours.inputs, theirs.input)
    check_values(ours.outputs, theirs.output)
    check_values(ours.value_info, theirs.value_info)
    dense = len(theirs.initializer)
    assert len(ours.initializers) == dense + len(theirs.sparse_initializer)
    for mine, other in zip(ours.initializers[:dense], theirs.initializer, strict=True):
        check_tensor(mine, other)
    for mine, other in zip(ours.initializers[dense:], theirs.sparse_initializer, strict=True):
        check_sparse(mine, other)


def check_nodes(ours, theirs) -> None:
    """See that ``ours`` say what ``theirs``, NodeProtos, say."""
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        domain = "" if other.domain == "ai.onnx" else other.domain
        assert (mine.op_type, mine.domain, mine.name) == (other.op_type, domain, other.name)
        assert mine.overload == other.overload
        assert list(mine.inputs) == list(other.input)
        assert list(mine.outputs) == list(other.output)
        check_attributes(mine.attributes, other.attribute)


def check_attributes(ours, theirs) -> None:
    """See that ``ours`` say what ``theirs``, AttributeProtos, say."""
    assert list(ours) == [attribute.name for attribute in theirs]
    for mine, other in zip(ours.values(), theirs, strict=True):
        assert mine.type == other.type
        assert mine.ref_attr_name == other.ref_attr_name
        if other.ref_attr_name:
            assert mine.value is None
        else:
            _check_attribute(mine, other)


def _items(mine, value, *, many: bool):
    return (zip(mine, value, strict=True)) if many else [(mine, value)]


def _check_attribute(ours: wire.Attribute, theirs) -> None:
    kind, value = theirs.type, ours.value
    many = theirs.type in {6, 7, 8, 9, 10, 12, 14}
    assert isinstance(value, tuple) == many
    if kind in _PLAIN_KINDS:
        expected = getattr(theirs, _PLAIN_KINDS[kind])
        for mine, other in _items(value, expected, many=many):
            if isinstance(other, bytes):
                assert mine.encode(errors="surrogateescape") == other
            else:
                assert type(mine) is type(other)
                np.testing.assert_array_equal(mine, other)
    elif kind in _TENSOR_KINDS:
        for mine, other in _items(value, getattr(theirs, _TENSOR_KINDS[kind]), many=many):
            check_tensor(mine, other)
    elif kind in _GRAPH_KINDS:
        for mine, other in _items(value, getattr(theirs, _GRAPH_KINDS[kind]), many=many):
            check_graph(mine, other)
    elif kind in {AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS}:
        expected = theirs.sparse_tensors if many else theirs.sparse_tensor
        for mine, other in _items(value, expected, many=many):
            check_sparse(mine, other)
    else:
        expected = theirs.type_protos if many else theirs.tp
        for mine, other in _items(value, expected, many=many):
            check_type(mine, other)


def check_values(ours, theirs) -> None:
    """See that ``ours`` say what ``theirs``, ValueInfoProtos, say."""
    assert [mine.name for mine in ours] == [other.name for other in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        check_type(mine, other.type)


def check_type(ours: wire.ValueInfo, theirs) -> None:
    """See that ``ours`` has the type ``theirs``, a TypeProto."""
    kind = theirs.WhichOneof("value")
    if kind != "tensor_type":
        assert (ours.dtype, ours.dims) == (None, None)
        assert ours.other == ("" if kind is None else spelt(theirs))
        return
    assert ours.other == ""
    assert (ours.dtype or 0) == theirs.tensor_type.elem_type
    if not theirs.tensor_type.HasField("shape"):
        assert ours.dims is None
        return
    dims = []
    for dim in theirs.tensor_type.shape.dim:
        which = dim.WhichOneof("value")
        value = getattr(dim, which) if which else None
        unknown = value == "" or (isinstance(value, int) and value < 0)
        dims.append(None if unknown else value)
    assert ours.dims is not None
    assert list(ours.dims) == dims


def spelt(theirs: TypeProto) -> str:
    """A type as ONNX's schemas spell it."""
    kind = theirs.WhichOneof("value")
    if kind in {"tensor_type", "sparse_tensor_type"}:
        name = TensorProto.DataType.Name(getattr(theirs, kind).elem_type).lower()
        return f"{kind.removesuffix('_type')}({name})"
    if kind == "map_type":
        key = TensorProto.DataType.Name(theirs.map_type.key_type).lower()
        return f"map({key},{spelt(theirs.map_type.value_type)})"
    name = {"sequence_type": "seq", "optional_type": "optional"}[kind]
    return f"{name}({spelt(getattr(theirs, kind).elem_type)})"


def check_tensor(ours: wire.Tensor, theirs) -> None:
    """See that ``ours`` has the name, type, shape and elements of ``theirs``, a TensorProto."""
    assert ours.name == theirs.name
    assert ours.dtype == theirs.data_type
    assert tuple(ours.dims) == tuple(theirs.dims)
    if theirs.data_location == TensorProto.EXTERNAL:
        return
    check_array(ours.array(), numpy_helper.to_array(theirs))


def check_sparse(ours: wire.Tensor, theirs) -> None:
    """See that ``ours`` is ``theirs``, a SparseTensorProto, made dense."""
    values = numpy_helper.to_array(theirs.values)
    indices = numpy_helper.to_array(theirs.indices)
    dense = np.zeros(tuple(theirs.dims), values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    assert ours.name == theirs.values.name
    check_array(ours.array(), dense)


def check_array(ours: np.ndarray, theirs: np.ndarray) -> None:
    """See that ``ours`` holds what ``theirs``, an array of the onnx package, does."""
    assert ours.shape == theirs.shape
    if theirs.dtype == object or theirs.dtype.kind in "SU":
        assert ours.tolist() == theirs.tolist()
    elif theirs.dtype.name in {"int4", "uint4", "int2", "uint2"}:
        np.testing.assert_array_equal(ours, theirs.astype(ours.dtype))
    elif theirs.dtype.name.startswith("float") and theirs.dtype.itemsize == 1:
        assert ours.dtype == np.uint8
        np.testing.assert_array_equal(ours, theirs.view(np.uint8))
    else:
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()
