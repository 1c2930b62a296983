"""Models that PyTorch's NNAPI exporter (``torch.backends._nnapi``) serialized.

The exporter records NNAPI's calls in a stream of 32-bit words without a mark of its own; weights
lie beside it, as numbered buffers. In a saved module (.pt, .ptl) both are members of the archive;
:mod:`nnconv.formats.nnapi.pytorch_archive` takes them out. A stream in a file of its own has its
weights in a .npz file of the same name, as ``w0``, ``w1``, ...
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nnconv import npy
from nnconv.errors import InvalidModelError, plural
from nnconv.formats.nnapi.detect import (
    MOST_COUNT,
    STREAM_HEADER,
    STREAM_OPERAND,
    STREAM_VERSION,
)
from nnconv.formats.nnapi.types import NUMPY, OperandCode, OperationCode
from nnconv.formats.nnapi.wire import Graph, Lifetime, Model, Operand, Operation

Array: TypeAlias = "np.ndarray[Any, Any]"

IMMEDIATE, NUMBERED_BUFFER, NUMBERED_MEMORY = 0, 2, 3
"""Where the stream says that a value lies."""

_VALUE = struct.Struct("<iiI")
_OPERATION = struct.Struct("<iII")
_BUFFER = struct.Struct("<III")

STREAM_SUFFIX = ".nnapi.bin"


class Reader:
    """Takes a stream apart from its start on; every access is checked."""

    __slots__ = ("data", "missing", "offset", "path")

    def __init__(self, data: bytes, path: str, missing: str = "") -> None:
        self.data = data
        self.path = path
        self.missing = missing
        self.offset = 0

    def fail(self, message: str) -> InvalidModelError:
        """The error to raise for what is wrong with the stream."""
        return InvalidModelError(message, path=self.path)

    def take(self, count: int, what: str) -> bytes:
        """The next bytes."""
        end = self.offset + count
        if end > len(self.data):
            raise self.fail(f"{what} end at byte {end}, the stream has {len(self.data)}")
        piece = self.data[self.offset : end]
        self.offset = end
        return piece

    def records(self, kind: struct.Struct, count: int, what: str) -> list[tuple[Any, ...]]:
        """The next ``count`` records."""
        return list(kind.iter_unpack(self.take(kind.size * count, what)))

    def words(self, count: int, what: str) -> tuple[int, ...]:
        """The next ``count`` words."""
        return struct.unpack(f"<{count}I", self.take(4 * count, what))


def read_stream(
    stream: bytes, weights: Sequence[Array] = (), *, path: str = "", missing: str = ""
) -> Model:
    """The model of a stream and its numbered buffers.

    Args:
        stream: its bytes.
        weights: the numbered buffers.
        path: what errors call the file.
        missing: the file that has the numbered buffers, if it isn't there.

    Raises:
        InvalidModelError: the stream is broken, or a buffer doesn't fit an operand.
    """
    r = Reader(stream, path, missing)
    version, *counts = r.records(STREAM_HEADER, 1, "the header")[0]
    if version != STREAM_VERSION:
        raise r.fail(f"version {version}, must be {STREAM_VERSION}")
    if any(not 0 <= count < MOST_COUNT for count in counts):
        raise r.fail(f"the counts {counts}, each must be from 0 to {MOST_COUNT - 1}")
    kinds = r.records(STREAM_OPERAND, counts[0], "the operands")
    values = r.records(_VALUE, counts[1], "the values")
    codes = r.records(_OPERATION, counts[2], "the operations")
    operands = [
        _operand(r, index, kind, r.words(kind[1], "the dimensions"))
        for index, kind in enumerate(kinds)
    ]
    for index, source, length in values:
        data = r.take(length, "the values")
        r.take(-length % 4, "the values")
        _set_value(r, operands, index, _content(r, index, source, data, weights))
    operations = [_operation(r, code, inputs, outputs) for code, inputs, outputs in codes]
    graph = Graph(
        operands, operations, r.words(counts[3], "the inputs"), r.words(counts[4], "the outputs")
    )
    if r.offset != len(stream):
        raise r.fail(f"{plural(len(stream) - r.offset, 'byte')} left behind the stream's end")
    _mark_ends(r, graph)
    return Model(graph)


def _operand(r: Reader, index: int, kind: tuple[Any, ...], dims: tuple[int, ...]) -> Operand:
    code, _, scale, zero_point = kind
    if code not in OperandCode.__members__.values() or code == OperandCode.MODEL:
        raise r.fail(f"operand {index}: type {code} isn't known")
    return Operand(OperandCode(code), dims, scale=scale, zero_point=zero_point)


def _content(
    r: Reader, index: int, source: int, data: bytes, weights: Sequence[Array]
) -> bytes | memoryview:
    """The bytes of a value: its own, or a part of a numbered buffer."""
    if source == IMMEDIATE:
        return data
    if source != NUMBERED_BUFFER:
        raise r.fail(
            f"the value of operand {index} lies in a source of kind {source}, must be {IMMEDIATE} "
            f"or {NUMBERED_BUFFER}"
        )
    if len(data) != _BUFFER.size:
        raise r.fail(f"the value of operand {index} has {plural(len(data), 'byte')}, must have 12")
    number, offset, length = _BUFFER.unpack(data)
    if r.missing:
        raise r.fail(f"its weights are in {r.missing}, which isn't there: operand {index} needs it")
    if number >= len(weights):
        raise r.fail(f"operand {index} lies in buffer {number}, there are {len(weights)}")
    buffer = memoryview(np.ascontiguousarray(weights[number]).reshape(-1).view(np.uint8))
    if offset + length > len(buffer):
        end = offset + length
        raise r.fail(
            f"operand {index} ends at byte {end} of buffer {number}: {plural(len(buffer), 'byte')}"
        )
    return buffer[offset : offset + length]


def _set_value(r: Reader, operands: list[Operand], index: int, content: bytes | memoryview) -> None:
    if not 0 <= index < len(operands):
        raise r.fail(f"a value of operand {index}, there are {len(operands)}")
    operand = operands[index]
    if operand.lifetime is Lifetime.CONSTANT:
        raise r.fail(f"operand {index} has two values")
    if not operand.is_known or len(content) != operand.nbytes:
        raise r.fail(
            f"the value of operand {index} has {plural(len(content), 'byte')}, "
            f"{operand.type.name} {list(operand.dimensions)} has {operand.nbytes}"
        )
    operand.lifetime = Lifetime.CONSTANT
    operand.value = np.frombuffer(content, NUMPY[operand.type]).reshape(operand.dimensions)


def _operation(r: Reader, code: int, inputs: int, outputs: int) -> Operation:
    if code not in OperationCode.__members__.values():
        raise r.fail(f"operation {code} isn't known")
    return Operation(
        OperationCode(code),
        r.words(inputs, "the operations' operands"),
        r.words(outputs, "the operations' operands"),
    )


def _mark_ends(r: Reader, graph: Graph) -> None:
    """See that every index leads to an operand; give inputs and outputs their lifetimes."""
    groups = [op.inputs for op in graph.operations] + [op.outputs for op in graph.operations]
    for index in (i for group in (*groups, graph.inputs, graph.outputs) for i in group):
        if index >= len(graph.operands):
            raise r.fail(f"operand {index}, there are {len(graph.operands)}")
    for lifetime, indices in ((Lifetime.INPUT, graph.inputs), (Lifetime.OUTPUT, graph.outputs)):
        for index in indices:
            if graph.operands[index].lifetime is not Lifetime.TEMPORARY:
                seen = graph.operands[index].lifetime.value
                raise r.fail(f"operand {index} is an {lifetime.value} and a {seen}")
            graph.operands[index].lifetime = lifetime


def read(path: str | os.PathLike[str]) -> Model:
    """Read a stream from a file; its weights are in the .npz file beside it, if it has any.

    ``model.nnapi.bin`` has them in ``model.npz``, as ``w0``, ``w1``, ...

    Raises:
        InvalidModelError: the stream or the weights are broken, or missing.
    """
    file = Path(path)
    try:
        stream, beside = file.read_bytes(), _beside(file)
        is_there = beside.is_file()
        weights = _weights_of(beside) if is_there else []
        missing = "" if is_there else os.fspath(beside)
        return read_stream(stream, weights, path=os.fspath(path), missing=missing)
    except OSError as error:
        raise InvalidModelError(
            f"it can't be read: {error.strerror or error}", path=os.fspath(path)
        ) from error


def _beside(file: Path) -> Path:
    """Where the numbered buffers of a stream lie."""
    return file.with_name(file.name.removesuffix(STREAM_SUFFIX).removesuffix(".bin") + ".npz")


def _weights_of(path: Path) -> list[Array]:
    try:
        return npy.read_numbered(path, "w")
    except npy.WrongFileError as error:
        raise InvalidModelError(str(error), path=os.fspath(path)) from error
