"""ONNX models as plain objects, as they are read and written: the counterpart of onnx.proto.

The classes hold what an ONNX file holds and know nothing of the IR. They are slotted and made
without decorators, since a model has tens of thousands of them and each conversion imports them.
They check nothing when made: :mod:`nnconv.formats.onnx.protobuf` does when it encodes them, and
:mod:`nnconv.formats.onnx.decode` has done so when it made them of a file.

Source of names and numbers: onnx.proto and docs/Versioning.md of https://github.com/onnx/onnx.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from nnconv.errors import GraphError, UsageError


class DataType(enum.IntEnum):
    """Element types of tensors (``TensorProto.DataType``)."""

    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    """For value types only: a tensor of strings can't be written as a constant."""
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20
    UINT4 = 21
    INT4 = 22
    FLOAT4E2M1 = 23
    FLOAT8E8M0 = 24
    UINT2 = 25
    INT2 = 26
    FLOAT6E2M3 = 27
    """This and the next are read, but not written."""
    FLOAT6E3M2 = 28


class AttributeType(enum.IntEnum):
    """Kinds of attributes (``AttributeProto.AttributeType``); those over 10 are only read."""

    FLOAT = 1
    INT = 2
    STRING = 3
    TENSOR = 4
    GRAPH = 5
    FLOATS = 6
    INTS = 7
    STRINGS = 8
    TENSORS = 9
    GRAPHS = 10
    SPARSE_TENSOR = 11
    SPARSE_TENSORS = 12
    TYPE_PROTO = 13
    TYPE_PROTOS = 14


IR_VERSION_OF_OPSET = {
    13: 7,
    14: 7,
    15: 8,
    16: 8,
    17: 8,
    18: 8,
    19: 9,
    20: 9,
    21: 10,
    22: 10,
    23: 11,
    24: 12,
    25: 13,
    26: 13,
    27: 13,
    28: 14,
}
"""The IR version that the ONNX release which brought an opset has: the least that carries it."""


def ir_version_for(opset: int) -> int:
    """Return the least IR version that carries ``opset``, so that the oldest runtimes load it.

    Raises:
        UsageError: ``opset`` isn't one that can be written.
    """
    version = IR_VERSION_OF_OPSET.get(opset)
    if version is None:
        lowest, highest = min(IR_VERSION_OF_OPSET), max(IR_VERSION_OF_OPSET)
        raise UsageError(f"ONNX opset {opset} can't be written; allowed are {lowest} to {highest}.")
    return version


class Tensor:
    """A constant: initializer, or the value of a tensor attribute.

    Attributes:
        name: unique in its graph; ``""`` for an attribute's tensor.
        dtype: the element type.
        dims: extents; ``()`` for a scalar.
        data: the elements in one of three forms. An array whose shape is ``dims`` and whose numpy
            type is the storage type of ``dtype`` (any strides and byte order; ``uint16`` for
            ``BFLOAT16``, ``uint8`` for 8-bit floats, one ``int8``/``uint8`` per element for the
            types under 8 bits). Or the bytes as the file will hold them: C order, little endian,
            types under 8 bits packed, first element in the lowest bits. Or None: no elements.
            It is kept, not copied, so it must not change before the model is written.
            A tensor of a file may give a function instead, which is called when the data are
            first asked for; those of strings are an array of ``str``.
    """

    __slots__ = ("_data", "dims", "dtype", "name")

    def __init__(
        self,
        name: str,
        dtype: DataType,
        dims: Sequence[int],
        data: TensorData | Callable[[], TensorData],
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.dims = dims
        self._data = data

    @property
    def data(self) -> TensorData:
        """The elements, in one of the three forms.

        Raises:
            InvalidModelError: they were to be fetched from a file, and it is broken.
        """
        if callable(self._data):
            self._data = self._data()
        return self._data

    def array(self) -> np.ndarray[Any, Any]:
        """Return the elements as the IR stores them, as a view of the data where that is possible.

        Types under 8 bits have one element each in an ``int8`` or ``uint8``, ``BFLOAT16`` is
        ml_dtypes' type, floats of 8 bits and fewer are their bits in a ``uint8``, strings are
        objects.

        Raises:
            GraphError: the data don't fit ``dims``; can't happen in a tensor of a file.
            InvalidModelError: as for :attr:`data`.
        """
        from nnconv.formats.onnx.content import array_of

        return array_of(self)

    @classmethod
    def from_array(cls, name: str, array: np.ndarray[Any, Any]) -> Tensor:
        """Make a tensor of the element type that has ``array``'s numpy type as its own.

        Raises:
            GraphError: no element type has it.
        """
        dtype = _DATA_TYPE_OF_NUMPY.get(array.dtype.newbyteorder("="))
        if dtype is None:
            raise GraphError(f"ONNX has no element type for the numpy type {array.dtype}.")
        return cls(name, dtype, array.shape, array)

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, {self.dtype.name}, {tuple(self.dims)})"


class Attribute:
    """An attribute value together with its kind, for where the value alone leaves that open.

    An empty list is the usual case: ``Attribute(AttributeType.INTS, ())``. Integers under
    ``FLOATS`` are another. All attributes of a file are of this class; equal ones may share an
    object. Their lists are tuples, their strings ``str`` (bytes that aren't UTF-8 as the
    surrogates of ``surrogateescape``), their types :class:`ValueInfo` without a name, their sparse
    tensors dense.

    Attributes:
        type: the kind.
        value: the value; None where ``ref_attr_name`` stands for it.
        ref_attr_name: in a function's node: the function's attribute that gives the value; "" for
            an attribute that has one of its own. It can't be written.
    """

    __slots__ = ("ref_attr_name", "type", "value")

    def __init__(self, type: AttributeType, value: Any, ref_attr_name: str = "") -> None:
        self.type = type
        self.value = value
        self.ref_attr_name = ref_attr_name

    def __repr__(self) -> str:
        value = f"@{self.ref_attr_name}" if self.ref_attr_name else repr(self.value)
        return f"Attribute({self.type.name}, {value})"


class ValueInfo:
    """Name and type of a value: a graph's input or output, or one in between.

    Attributes:
        name: the value's name.
        dtype: the element type; None where a file leaves it open, and for values that are no
            tensors. Such a value can't be written.
        dims: per axis an extent, the name of a symbol, or None (unknown); None in place of the
            tuple: even the rank is unknown.
        other: for a value that is no tensor its type as ONNX spells it, such as
            ``seq(tensor(float))``; else "".
    """

    __slots__ = ("dims", "dtype", "name", "other")

    def __init__(
        self,
        name: str,
        dtype: DataType | None,
        dims: Sequence[int | str | None] | None,
        *,
        other: str = "",
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.dims = dims
        self.other = other

    def __repr__(self) -> str:
        dims = None if self.dims is None else tuple(self.dims)
        kind = self.other or (self.dtype.name if self.dtype is not None else None)
        return f"ValueInfo({self.name!r}, {kind}, {dims})"


class Node:
    """An operator applied to values.

    Attributes:
        op_type: the operator's name.
        inputs: names of values; ``""`` stands for an absent optional one.
        outputs: names of values; ``""`` stands for an unused optional one.
        attributes: written in this order. A bool is written as the int 0 or 1, as ONNX has no
            bool attributes; a list that mixes ints and floats is one of floats. An empty list
            needs :class:`Attribute`.
        name: for messages only, may be empty.
        domain: the operator set; ``""`` is the standard one (``ai.onnx`` in a file is it too).
        overload: tells functions of the same name apart; it isn't written.
    """

    __slots__ = ("attributes", "domain", "inputs", "name", "op_type", "outputs", "overload")

    def __init__(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        name: str = "",
        domain: str = "",
        overload: str = "",
    ) -> None:
        self.op_type = op_type
        self.inputs = inputs
        self.outputs = outputs
        self.attributes: Mapping[str, AttributeValue] = {} if attributes is None else attributes
        self.name = name
        self.domain = domain
        self.overload = overload

    def __repr__(self) -> str:
        return f"Node({self.op_type!r}, {list(self.inputs)} -> {list(self.outputs)})"


class Graph:
    """Nodes in topological order, with the values that enter and leave them.

    Attributes:
        name: must not be empty when written.
        nodes: each after the ones whose outputs it takes (in a file perhaps not).
        inputs: what the caller gives, in order.
        outputs: what the caller gets, in order.
        initializers: the constants; those that a file has in sparse form are dense, and come last.
        value_info: types of values in between, where known and worth writing.
        doc_string: free text; it isn't written.
    """

    __slots__ = ("doc_string", "initializers", "inputs", "name", "nodes", "outputs", "value_info")

    def __init__(
        self,
        name: str,
        nodes: Sequence[Node],
        inputs: Sequence[ValueInfo],
        outputs: Sequence[ValueInfo],
        initializers: Sequence[Tensor] = (),
        *,
        value_info: Sequence[ValueInfo] = (),
        doc_string: str = "",
    ) -> None:
        self.name = name
        self.nodes = nodes
        self.inputs = inputs
        self.outputs = outputs
        self.initializers = initializers
        self.value_info = value_info
        self.doc_string = doc_string

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {len(self.nodes)} nodes)"


class Function:
    """An op that the model itself defines by nodes; it is read, but not written.

    Attributes:
        domain: the operator set that it belongs to; ``""`` is the standard one.
        name: the op type of the nodes that call it.
        overload: tells functions of the same name apart.
        nodes: as those of a graph.
        inputs: names of the values that stand for a calling node's operands.
        outputs: names of the values that are its results.
        attributes: names of the attributes that a calling node must give.
        defaults: those that it may give, with the values that they have otherwise.
        opsets: versions of the operator sets that its nodes use, by domain.
        value_info: types of values in between.
        doc_string: free text.
    """

    __slots__ = (
        "attributes",
        "defaults",
        "doc_string",
        "domain",
        "inputs",
        "name",
        "nodes",
        "opsets",
        "outputs",
        "overload",
        "value_info",
    )

    def __init__(
        self,
        domain: str,
        name: str,
        nodes: Sequence[Node],
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        overload: str = "",
        attributes: Sequence[str] = (),
        defaults: Mapping[str, Attribute] | None = None,
        opsets: Mapping[str, int] | None = None,
        value_info: Sequence[ValueInfo] = (),
        doc_string: str = "",
    ) -> None:
        self.domain = domain
        self.name = name
        self.nodes = nodes
        self.inputs = inputs
        self.outputs = outputs
        self.overload = overload
        self.attributes = attributes
        self.defaults: Mapping[str, Attribute] = {} if defaults is None else defaults
        self.opsets: Mapping[str, int] = {} if opsets is None else opsets
        self.value_info = value_info
        self.doc_string = doc_string

    def __repr__(self) -> str:
        return f"Function({self.domain!r}, {self.name!r}, {len(self.nodes)} nodes)"


class Model:
    """A graph with what a runtime must know to read it.

    Attributes:
        graph: the main graph.
        opset: version of the standard operator set; 0 in a file that names only others.
        ir_version: version of the file format.
        producer_name: the tool that made the model.
        producer_version: that tool's version.
        metadata: free texts, written in this order.
        doc_string: free text.
        extra_opsets: versions of other operator sets that nodes use, by domain.
        functions: ops that the model defines; they aren't written.
        domain: whose model it is, such as ``org.example``; it isn't written.
        model_version: the number that its maker gave it; it isn't written.
        path: the file that it was read from, as messages call it; "" for one that wasn't.
    """

    __slots__ = (
        "doc_string",
        "domain",
        "extra_opsets",
        "functions",
        "graph",
        "ir_version",
        "metadata",
        "model_version",
        "opset",
        "path",
        "producer_name",
        "producer_version",
    )

    def __init__(
        self,
        graph: Graph,
        opset: int,
        *,
        ir_version: int | None = None,
        producer_name: str = "nnconv",
        producer_version: str = "",
        metadata: Mapping[str, str] | None = None,
        doc_string: str = "",
        extra_opsets: Mapping[str, int] | None = None,
        functions: Sequence[Function] = (),
        domain: str = "",
        model_version: int = 0,
        path: str = "",
    ) -> None:
        """Describe a model; without ``ir_version`` it gets the least that carries ``opset``.

        Raises:
            UsageError: ``ir_version`` is to be chosen, and ``opset`` isn't known.
        """
        self.graph = graph
        self.opset = opset
        self.ir_version = ir_version_for(opset) if ir_version is None else ir_version
        self.producer_name = producer_name
        self.producer_version = producer_version
        self.metadata: Mapping[str, str] = {} if metadata is None else metadata
        self.doc_string = doc_string
        self.extra_opsets: Mapping[str, int] = {} if extra_opsets is None else extra_opsets
        self.functions = functions
        self.domain = domain
        self.model_version = model_version
        self.path = path

    def __repr__(self) -> str:
        return f"Model({self.graph!r}, opset {self.opset}, IR version {self.ir_version})"


TensorData: TypeAlias = "np.ndarray[Any, Any] | bytes | memoryview | None"
"""The elements of a tensor (see :class:`Tensor`)."""

AttributeValue: TypeAlias = (
    "int | float | str | bytes | Tensor | Graph | Attribute | Sequence[int] | Sequence[float]"
    " | Sequence[str] | Sequence[bytes] | Sequence[Tensor] | Sequence[Graph]"
)
"""What an attribute may be: its kind follows from the Python type (see :class:`Node`)."""

_DATA_TYPE_OF_NUMPY = {
    np.dtype(name): dtype
    for name, dtype in (
        ("float32", DataType.FLOAT),
        ("uint8", DataType.UINT8),
        ("int8", DataType.INT8),
        ("uint16", DataType.UINT16),
        ("int16", DataType.INT16),
        ("int32", DataType.INT32),
        ("int64", DataType.INT64),
        ("bool", DataType.BOOL),
        ("float16", DataType.FLOAT16),
        ("float64", DataType.DOUBLE),
        ("uint32", DataType.UINT32),
        ("uint64", DataType.UINT64),
        ("complex64", DataType.COMPLEX64),
        ("complex128", DataType.COMPLEX128),
    )
}
