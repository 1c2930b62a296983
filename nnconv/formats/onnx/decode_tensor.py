"""Tensors as an ONNX file has them: dense or sparse, inside it or in a file beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nnconv.errors import InvalidModelError, plural
from nnconv.formats.onnx.content import FIELD_OF, STORED, from_varints, stored_bytes
from nnconv.formats.onnx.decode_type import Texts, add_entry, data_type
from nnconv.formats.onnx.mapped import DataFiles
from nnconv.formats.onnx.protobuf_reader import (
    BrokenMessageError,
    Bytes,
    Span,
    fields,
    merged,
    packed_ints,
    signed,
)
from nnconv.formats.onnx.wire import DataType, Tensor

if TYPE_CHECKING:
    import numpy.typing as npt

    from nnconv.formats.onnx.wire import TensorData

_DENSE_BASE = 64 << 20
_DENSE_PER_BYTE = 256
"""How many bytes all sparse tensors of a file may have when they are dense: a hostile one could
name a shape of any size. At one element in a thousand a file needs about 250 times its own size."""

_DATA_FIELDS = {
    0x22: "float_data",
    0x25: "float_data",
    0x28: "int32_data",
    0x2A: "int32_data",
    0x38: "int64_data",
    0x3A: "int64_data",
    0x51: "double_data",
    0x52: "double_data",
    0x58: "uint64_data",
    0x5A: "uint64_data",
}
"""The typed fields by key, packed and not."""

_AS_THEY_LIE = frozenset({"float_data", "double_data"})
"""Typed fields whose bytes are those of raw data."""


class TensorDecoder:
    """Decodes tensors; their elements are fetched when they are asked for."""

    def __init__(self, texts: Texts, files: DataFiles, *, name: str, size: int) -> None:
        """Start for one file.

        Args:
            texts: shared with others who decode the file.
            files: where external data lie.
            name: what errors call the file.
            size: the file's bytes.
        """
        self._texts = texts
        self._files = files
        self._name = name
        self._dense_left = _DENSE_BASE + _DENSE_PER_BYTE * size

    def tensor(self, data: Bytes, start: int, stop: int) -> Tensor:
        """Decode a TensorProto.

        Raises:
            BrokenMessageError: it is broken.
        """
        found = _Fields(data)
        try:
            found.read(self._texts, start, stop)
            return Tensor(found.name, found.dtype(), tuple(found.dims), self._elements(found))
        except BrokenMessageError as error:
            raise (error.at(f"`{found.name}`") if found.name else error) from None

    def _elements(self, found: _Fields) -> TensorData | Callable[[], TensorData]:
        dtype, dims = found.dtype(), found.dims
        if dtype is DataType.STRING:
            return found.string_array()
        needed = stored_bytes(dtype, dims)
        where = f"tensor `{found.name}`"
        if found.is_external:
            return partial(self._files.fetch, found.external, needed, where=where)
        field = FIELD_OF.get(dtype, "int32_data")
        raw = found.raw
        if not raw and field in found.typed:
            content = found.typed[field]
            if field not in _AS_THEY_LIE:
                return partial(self._from_varints, dtype, tuple(dims), content, where=where)
            raw = content
        if raw is None:
            if needed:
                raise BrokenMessageError(f"it has no data, but its shape {dims} has elements")
            return b""
        if len(raw) != needed:
            raise BrokenMessageError(
                f"its data have {plural(len(raw), 'byte')}; {dtype.name} of the shape {dims} "
                f"takes {needed}"
            )
        return memoryview(raw).toreadonly() if isinstance(raw, bytearray) else raw

    def _from_varints(
        self, dtype: DataType, dims: tuple[int, ...], content: Bytes, *, where: str
    ) -> TensorData:
        try:
            return from_varints(dtype, dims, content)
        except BrokenMessageError as error:
            raise InvalidModelError(error.message, path=self._name, where=where) from None

    def sparse(self, data: Bytes, start: int, stop: int) -> Tensor:
        """Decode a SparseTensorProto. The tensor is dense.

        Raises:
            BrokenMessageError: it is broken, or as a dense tensor out of proportion to the file.
        """
        parts: dict[int, list[Span]] = {0x0A: [], 0x12: []}
        dims: list[int] = []
        for key, value, first, last in fields(data, start, stop):
            if key in parts:
                parts[key].append((data, first, last))
            elif key == 0x18:
                dims.append(signed(value))
            elif key == 0x1A:
                dims += packed_ints(data, first, last)
        if not parts[0x0A] or not parts[0x12]:
            raise BrokenMessageError("it has no values or no indices")
        values, indices = (self.tensor(*merged(spans)) for spans in parts.values())
        try:
            self._check_sparse(values, indices, dims)
        except BrokenMessageError as error:
            raise error.at(f"`{values.name}`") from None
        shape = tuple(dims)
        return Tensor(
            values.name, values.dtype, shape, partial(self._dense, values, indices, shape)
        )

    def _check_sparse(self, values: Tensor, indices: Tensor, dims: list[int]) -> None:
        if values.dtype is DataType.STRING:
            raise BrokenMessageError("it is a sparse tensor of strings")
        stored_bytes(values.dtype, dims)
        count = values.dims[0] if len(values.dims) == 1 else -1
        if indices.dtype is not DataType.INT64 or tuple(indices.dims) not in {
            (count,),
            (count, len(dims)),
        }:
            raise BrokenMessageError(
                f"{values.dtype.name} values {list(values.dims)} and {indices.dtype.name} indices "
                f"{list(indices.dims)} don't make a sparse tensor of "
                f"{plural(len(dims), 'axis', 'axes')}"
            )
        nbytes = prod(dims) * max(STORED[values.dtype][1], 8) // 8
        if nbytes > self._dense_left:
            raise BrokenMessageError(
                f"the sparse tensor {dims} would take {plural(nbytes, 'byte')}, out of "
                "proportion to the file"
            )
        self._dense_left -= nbytes

    def _dense(self, values: Tensor, indices: Tensor, dims: tuple[int, ...]) -> npt.NDArray[Any]:
        content, places = values.array(), indices.array()
        if values.dtype is DataType.BFLOAT16:
            content = content.view(np.uint16)
        limits = dims if places.ndim == 2 else (prod(dims),)
        columns = places.reshape(len(content), len(limits)).T
        for column, limit in zip(columns, limits, strict=True):
            if column.size and not 0 <= column.min() <= column.max() < limit:
                raise InvalidModelError(
                    f"an index of the sparse tensor {list(dims)} is outside of it",
                    path=self._name,
                    where=f"tensor `{values.name}`",
                )
        dense = np.zeros(dims, content.dtype)
        if places.ndim == 2:
            dense[tuple(columns)] = content
        else:
            dense.reshape(-1)[places] = content
        return dense


class _Fields:
    """What the fields of a TensorProto say."""

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self.name = ""
        self.dims: list[int] = []
        self.code = 0
        self.raw: Bytes | bytearray | None = None
        self.typed: dict[str, Any] = {}
        self.strings: list[str] = []
        self.external: dict[str, str] = {}
        self.is_external = False

    def read(self, texts: Texts, start: int, stop: int) -> None:
        data = self.data
        for key, value, first, last in fields(data, start, stop):
            if key == 0x08:
                self.dims.append(signed(value))
            elif key == 0x0A:
                self.dims += packed_ints(data, first, last)
            elif key == 0x10:
                self.code = value
            elif key == 0x42:
                self.name = texts[data[first:last]]
            elif key == 0x4A:
                self.raw = data[first:last]
            elif key in _DATA_FIELDS:
                self._add(_DATA_FIELDS[key], data[first:last])
            elif key == 0x32:
                self.strings.append(str(data[first:last], "utf-8", "surrogateescape"))
            elif key == 0x6A:
                add_entry(self.external, data, first, last)
            elif key == 0x70:
                self.is_external = value == 1
            elif key == 0x1A:
                raise BrokenMessageError("it is a segment of a tensor, which no runtime reads")

    def _add(self, field: str, piece: Bytes) -> None:
        """Append to a typed field, which a file may give in any number of pieces."""
        known = self.typed.get(field)
        if known is None:
            self.typed[field] = piece
        elif isinstance(known, bytearray):
            known += piece
        else:
            self.typed[field] = bytearray(known) + piece

    def dtype(self) -> DataType:
        code = data_type(self.code)
        if code is None:
            raise BrokenMessageError("it has no element type")
        return code

    def string_array(self) -> npt.NDArray[Any]:
        if self.is_external or self.raw:
            raise BrokenMessageError("it has its strings as raw bytes")
        if len(self.dims) > 64 or min(self.dims, default=0) < 0:
            raise BrokenMessageError(f"the shape {self.dims[:65]} is impossible")
        if prod(self.dims) != len(self.strings):
            raise BrokenMessageError(
                f"it has {plural(len(self.strings), 'string')}, its shape {self.dims} needs "
                f"{prod(self.dims)}"
            )
        array = np.empty(len(self.strings), object)
        array[:] = self.strings
        return array.reshape(self.dims)
