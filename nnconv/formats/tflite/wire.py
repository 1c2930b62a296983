"""The content of a .tflite file as small typed objects, checked, in the file's own terms.

`read` decodes the structure (subgraphs, tensors, operators) at once and checks what a program that
walks it relies on: every index is in range, every tensor is produced once and before it is read,
calls between subgraphs end. Buffers, options and quantization parameters are decoded when asked
for. Bytes of buffers are never copied: arrays are views of the memory map or the bytes given.

Nothing here is interpreted beyond the file format: meaning is given to it by the importer.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnconv.errors import InvalidModelError, plural
from nnconv.formats.tflite._gen.schema import TABLES, UNIONS, TensorType
from nnconv.formats.tflite.flatbuffer import Reader, Table
from nnconv.formats.tflite.wire_options import OperatorCode, Options
from nnconv.formats.tflite.wire_quant import Blockwise, MultiAxis, Quantization, read_quantization

if TYPE_CHECKING:
    from collections.abc import Buffer

    import numpy.typing as npt

__all__ = [
    "IDENTIFIER",
    "Blockwise",
    "File",
    "MultiAxis",
    "Operator",
    "OperatorCode",
    "Options",
    "Quantization",
    "Signature",
    "Subgraph",
    "Tensor",
    "TensorType",
    "Variant",
    "read",
    "tensor_data",
]

IDENTIFIER = b"TFL3"
"""What stands at byte 4 of each .tflite file."""

_TENSOR_TYPES = {int(code): code for code in TensorType}


class Variant(NamedTuple):
    """The type of what a tensor of type VARIANT holds."""

    code: TensorType
    shape: tuple[int, ...]
    has_rank: bool


class Tensor:
    """A tensor of a subgraph.

    Attributes:
        index: its place in the subgraph.
        name: its name, which need not be unique.
        code: its type.
        shape: its extents; where ``signature`` says -1 they are placeholders.
        signature: the extents with -1 for those that may change; None if the file has none.
        has_rank: whether the file says that the rank is known. Many files say no without reason.
        buffer: index of its buffer. Buffer 0 means that it has no content.
        external_buffer: number of its buffer in another file, 0 for none.
        is_variable: whether its content survives from run to run.
        subgraph: index of its subgraph.
    """

    __slots__ = (
        "_quantization",
        "_table",
        "buffer",
        "code",
        "external_buffer",
        "has_rank",
        "index",
        "is_variable",
        "name",
        "shape",
        "signature",
        "subgraph",
    )

    def __init__(self, table: Table, *, index: int, subgraph: int) -> None:
        """Decode ``table``.

        Raises:
            InvalidModelError: if the type is unknown or the shape impossible.
        """
        self._table = table
        self._quantization: Quantization | bool | None = False
        self.index = index
        self.subgraph = subgraph
        self.name = table.text("name")
        self.shape: tuple[int, ...] = table.values("shape")
        self.signature = table.values("shape_signature") or None
        self.has_rank: bool = table.scalar("has_rank")
        self.buffer: int = table.scalar("buffer")
        self.external_buffer: int = table.scalar("external_buffer")
        self.is_variable: bool = table.scalar("is_variable")
        self.code = _tensor_type(table, self.where)
        if self.shape and min(self.shape) < 0:
            raise self.fail(f"the shape {list(self.shape)} has a negative extent")
        if self.signature:
            if min(self.signature) < -1:
                raise self.fail(f"the shape signature {list(self.signature)} is impossible")
            if self.shape and len(self.signature) != len(self.shape):
                raise self.fail(
                    f"the shape {list(self.shape)} and the shape signature "
                    f"{list(self.signature)} differ in rank"
                )

    @property
    def where(self) -> str:
        """The tensor's place, for messages."""
        return f"subgraph {self.subgraph}, tensor #{self.index} (`{self.name}`)"

    def fail(self, message: str) -> InvalidModelError:
        """Give the error to raise for a fault in this tensor."""
        return self._table.reader.fail(message, self.where)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def quantization(self) -> Quantization | None:
        """The quantization parameters, None if there are none.

        Raises:
            InvalidModelError: if their numbers don't fit each other or the shape.
        """
        if isinstance(self._quantization, bool):
            self._quantization = read_quantization(self._table, self.shape, fail=self.fail)
        return self._quantization

    @property
    def sparsity(self) -> Table | None:
        """The table that tells how the content is packed, if the tensor is a sparse one."""
        return self._table.table("sparsity")

    @property
    def variant(self) -> tuple[Variant, ...]:
        """The types of what a tensor of type VARIANT holds."""
        return tuple(
            Variant(
                _tensor_type(table, self.where), table.values("shape"), table.scalar("has_rank")
            )
            for table in self._table.tables("variant_tensors")
        )


def _tensor_type(table: Table, where: str) -> TensorType:
    number = table.scalar("type")
    code = _TENSOR_TYPES.get(number)
    if code is None:
        raise table.reader.fail(f"the tensor type {number} is unknown", where)
    return code


class Operator:
    """An operator of a subgraph.

    Attributes:
        index: its place in the subgraph.
        subgraph: index of its subgraph.
        code: what it shares with others of its kind.
        inputs: tensor indices; -1 where an optional operand is left out.
        outputs: tensor indices.
    """

    __slots__ = ("_options", "_table", "code", "index", "inputs", "outputs", "subgraph")

    def __init__(
        self, table: Table, *, index: int, subgraph: int, codes: Sequence[OperatorCode]
    ) -> None:
        """Decode ``table``.

        Raises:
            InvalidModelError: if its code doesn't exist, or its options are another op's.
        """
        self._table = table
        self._options: Options | None = None
        self.index = index
        self.subgraph = subgraph
        number = table.scalar("opcode_index")
        if number >= len(codes):
            raise table.reader.fail(
                f"it has operator code {number}, the file has {len(codes)}",
                f"subgraph {subgraph}, op #{index}",
            )
        code = codes[number]
        self.code: OperatorCode = code
        self.inputs: tuple[int, ...] = table.values("inputs")
        self.outputs: tuple[int, ...] = table.values("outputs")
        if code.tag:
            tag = table.scalar(f"{code.union}_type")
            # The interpreter ignores the options of an op that looks at none.
            if tag not in (0, code.tag) and TABLES[code.options]:
                union = "BuiltinOptions" if code.union == "builtin_options" else "BuiltinOptions2"
                seen = UNIONS[union].get(tag, f"of the unknown type {tag}")
                raise self.fail(f"its options are {seen}, where {code.options} belong")

    @property
    def name(self) -> str:
        """The builtin's name, ``BUILTIN_<n>`` for a number newer than the schema, or ``CUSTOM``."""
        return self.code.name

    @property
    def custom_code(self) -> str:
        """The name of a custom op, else ""."""
        return self.code.custom_code

    @property
    def version(self) -> int:
        """The op's version."""
        return self.code.version

    @property
    def where(self) -> str:
        """The operator's place, for messages."""
        name = self.custom_code or self.name
        return f"subgraph {self.subgraph}, op #{self.index} ({name})"

    def fail(self, message: str) -> InvalidModelError:
        """Give the error to raise for a fault in this operator."""
        return self._table.reader.fail(message, self.where)

    @property
    def options(self) -> Options:
        """The options, with the schema's defaults for what the file leaves out."""
        if self._options is None:
            code = self.code
            table = self._table.union(code.union) if code.tag else None
            if table is not None and table.name != code.options:
                table = None  # of an op without options, whose table the interpreter ignores
            self._options = Options(code.options, table)
        return self._options

    @property
    def intermediates(self) -> tuple[int, ...]:
        """Indices of the tensors that hold parameters of the op's inner values; -1 for none."""
        return self._table.values("intermediates")

    @property
    def mutating_variable_inputs(self) -> tuple[bool, ...]:
        """For each input whether the op changes it; () if the file doesn't say."""
        return self._table.values("mutating_variable_inputs")

    @property
    def custom_options(self) -> bytes:
        """The options of a custom op, as the file has them (FlexBuffers, mostly).

        Raises:
            InvalidModelError: if they are said to lie outside of the file.
        """
        table = self._table
        offset = table.scalar("large_custom_options_offset")
        if offset <= 1:  # 1 is a placeholder that writers leave when they have nothing
            return bytes(table.raw("custom_options"))
        size = table.scalar("large_custom_options_size")
        if offset + size > table.reader.size:
            raise self.fail(f"its options (bytes {offset} to {offset + size}) aren't in the file")
        return bytes(table.reader.data[offset : offset + size])

    @property
    def calls(self) -> tuple[int, ...]:
        """Indices of the subgraphs that the op runs, in the order of the schema's fields."""
        found: list[int] = []
        for field in self.code.calls:
            is_vector = TABLES[self.code.options][field][1] == "vector"
            options = self.options
            found.extend(options.ints(field) if is_vector else (options.int(field),))
        return tuple(found)


class Subgraph:
    """A subgraph: tensors, and operators in the order of execution.

    Attributes:
        index: its place in the file.
        name: its name.
        tensors: all tensors.
        inputs: tensor indices.
        outputs: tensor indices.
        operators: all operators.
    """

    __slots__ = ("index", "inputs", "name", "operators", "outputs", "tensors")

    def __init__(self, table: Table, *, index: int, codes: Sequence[OperatorCode]) -> None:
        self.index = index
        self.name = table.text("name")
        self.tensors = tuple(
            Tensor(entry, index=i, subgraph=index)
            for i, entry in enumerate(table.tables("tensors"))
        )
        self.inputs: tuple[int, ...] = table.values("inputs")
        self.outputs: tuple[int, ...] = table.values("outputs")
        self.operators = tuple(
            Operator(entry, index=i, subgraph=index, codes=codes)
            for i, entry in enumerate(table.tables("operators"))
        )


class Signature:
    """A named entry point.

    Attributes:
        key: its name.
        subgraph: index of the subgraph that it runs.
        inputs: (name, tensor index) pairs, in the file's order.
        outputs: (name, tensor index) pairs, in the file's order.
    """

    __slots__ = ("inputs", "key", "outputs", "subgraph")

    def __init__(self, table: Table) -> None:
        self.key = table.text("signature_key")
        self.subgraph: int = table.scalar("subgraph_index")
        self.inputs = _tensor_map(table, "inputs")
        self.outputs = _tensor_map(table, "outputs")


def _tensor_map(table: Table, field: str) -> tuple[tuple[str, int], ...]:
    return tuple(
        (entry.text("name"), entry.scalar("tensor_index")) for entry in table.tables(field)
    )


class File:
    """A .tflite file.

    Attributes:
        path: its path, or what the caller called it.
        version: the schema version that it states (3).
        description: what its converter wrote about it.
        subgraphs: all subgraphs, the main one first.
        signatures: all entry points; () in files of old converters.
        metadata: arrays of uint8 by name, views as those of `buffer`.
    """

    __slots__ = (
        "_buffers",
        "_reader",
        "description",
        "metadata",
        "path",
        "signatures",
        "subgraphs",
        "version",
    )

    def __init__(self, reader: Reader) -> None:
        root = reader.root("Model")
        self._reader = reader
        self.path = reader.path
        self.version: int = root.scalar("version")
        self.description = root.text("description")
        self._buffers = root.positions("buffers")
        codes = [OperatorCode(table) for table in root.tables("operator_codes")]
        self.subgraphs = tuple(
            Subgraph(table, index=i, codes=codes)
            for i, table in enumerate(root.tables("subgraphs"))
        )
        self.signatures = tuple(Signature(table) for table in root.tables("signature_defs"))
        self.metadata: dict[str, npt.NDArray[np.uint8]] = {}
        for table in root.tables("metadata"):
            content = self.buffer(table.scalar("buffer"))
            self.metadata[table.text("name")] = (
                np.empty(0, np.uint8) if content is None else content
            )

    @property
    def buffer_count(self) -> int:
        """The number of buffers."""
        return len(self._buffers)

    def fail(self, message: str, where: str = "") -> InvalidModelError:
        """Give the error to raise for a fault in this file."""
        return self._reader.fail(message, where)

    def buffer(self, index: int) -> npt.NDArray[np.uint8] | None:
        """The content of a buffer: uint8 of shape (n,), a read-only view; None if it is empty.

        Raises:
            InvalidModelError: if there is no such buffer, or it reaches beyond the file's end.
        """
        if not 0 <= index < len(self._buffers):
            raise self.fail(f"buffer {index} doesn't exist: the file has {len(self._buffers)}")
        table = Table(self._reader, "Buffer", self._buffers[index])
        content: npt.NDArray[np.uint8] = table.array("data")
        if len(content):
            return content
        # The content of large files lies behind the FlatBuffers part. 1 is a placeholder that
        # writers leave where they have nothing to place there.
        offset, size = table.scalar("offset"), table.scalar("size")
        if offset <= 1 or not size:
            return None
        if offset + size > self._reader.size:
            raise self.fail(
                f"its content (bytes {offset} to {offset + size}) isn't in the file, which has "
                f"{plural(self._reader.size, 'byte')}",
                f"buffer {index}",
            )
        return np.frombuffer(self._reader.data, np.uint8, size, offset)


def read(source: str | os.PathLike[str] | Buffer, name: str = "") -> File:
    """Read a .tflite file.

    Args:
        source: a path, whose file is mapped into memory, or the bytes of a file.
        name: what errors call the file; the path if it is empty.

    Raises:
        InvalidModelError: if the file can't be read, is no .tflite file or breaks the format.
    """
    from nnconv.formats.tflite.wire_check import check_file, check_kind

    if isinstance(source, str | os.PathLike):
        name = name or os.fspath(source)
        data = _map(Path(source), name)
    else:
        data = memoryview(source).toreadonly().cast("B")
    reader = Reader(data, path=name)
    check_kind(reader)
    file = File(reader)
    check_file(file)
    reader.refill()
    return file


def _map(path: Path, name: str) -> memoryview:
    try:
        with path.open("rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidModelError("it is no regular file", path=name)
            if not status.st_size:  # an empty file can't be mapped
                return memoryview(b"")
            return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise InvalidModelError(error.strerror or str(error), path=name) from error


def tensor_data(file: File, tensor: Tensor) -> npt.NDArray[Any] | None:
    """The constant content of a tensor.

    A view of the file where it has the values as they are. Integers of 2 and 4 bits are spread out
    to int8 or uint8, sparse tensors made dense. Types that numpy lacks come as their bits:
    bfloat16 as uint16, the 8-bit floats as uint8.

    Returns:
        An array of the tensor's shape; None for a tensor without content (an activation, a
        variable, a constant without elements), and for types that are no numbers (STRING,
        RESOURCE, VARIANT).

    Raises:
        InvalidModelError: if the buffer's size isn't the one that type and shape need, or the
            sparse form is broken.
        UnsupportedError: if the content is in another file.
    """
    from nnconv.formats.tflite.content import tensor_content

    return tensor_content(file, tensor)
