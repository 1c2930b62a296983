"""The encoder of .tflite files: their structure in one piece, their weights in a stream.

All tables come first, in a few bytes per tensor and operator; the content of tensors follows, each
buffer aligned as its schema demands, and is fetched from its array only when the file is written.
So no more memory is needed than for the structure and one block of an array that doesn't lie in
memory as the file wants it.

The FlatBuffers part of a file can't pass 2 GiB. In a larger file the weights lie behind it, and
each buffer says where.

Source: schema.fbs of https://github.com/google-ai-edge/LiteRT.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from nnconv.errors import GraphError, plural
from nnconv.formats.atomic import behind_links, replacing
from nnconv.formats.stored import Storage, stored_nbytes
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR, TABLES
from nnconv.formats.tflite.buffers import (
    INLINE_BYTES,
    Content,
    Part,
    part_chunks,
    place_buffers,
    tensor_error,
)
from nnconv.formats.tflite.build import (
    File,
    Operator,
    OptionsTable,
    Quantization,
    Signature,
    Subgraph,
    Tensor,
)
from nnconv.formats.tflite.storage import STORAGE
from nnconv.formats.tflite.tables import (
    BadFieldError,
    Fields,
    TableWriter,
    present_fields,
    union_tag,
)

IDENTIFIER = b"TFL3"
"""What stands at byte 4 of each .tflite file."""

VERSION = 3
"""The schema version that files state."""

MAX_BYTES = (1 << 31) - (1 << 20)
"""The largest FlatBuffers part: 2 GiB, the most that its offsets allow, less a margin for tools."""

_BYTES = Storage("<u1", 8)

_LAST_OLD_CODE = 127
"""What the field that old readers know holds for all builtins that it can't name."""

_TABLES_WITH_FLOATS = frozenset(
    name
    for name, fields in TABLES.items()
    if any(field[2] == "float32" for field in fields.values())
)


class _Encoder:
    """Writes the tables of a file, and notes what its buffers hold.

    Attributes:
        writer: the tables so far.
        contents: what buffers 1, 2, ... hold. Buffer 0 is what tensors without content name.
    """

    def __init__(self) -> None:
        self.writer = TableWriter(IDENTIFIER)
        self.contents: list[Content] = []
        self._codes: dict[tuple[int | str, int], int] = {}
        self._shared: dict[tuple[Any, ...], int] = {}
        self._options: dict[tuple[Any, ...], Fields] = {}

    def model(self, file: File) -> int:
        """Write everything but the buffers; return where the offset to their vector is."""
        writer = self.writer
        fields: dict[str, Any] = dict.fromkeys(("operator_codes", "subgraphs", "buffers"))
        fields["version"] = VERSION
        optional = {
            "description": file.description,
            "metadata": file.metadata,
            "signature_defs": file.signatures,
        }
        fields.update({field: content for field, content in optional.items() if content})
        places = writer.inline("Model", fields, 0)
        if file.description:
            writer.text(file.description, places["description"])
        slots = writer.slots(len(file.subgraphs), places["subgraphs"])
        for index, (subgraph, slot) in enumerate(zip(file.subgraphs, slots, strict=True)):
            self._subgraph(subgraph, index, slot)
        slots = writer.slots(len(self._codes), places["operator_codes"])
        for (code, version), slot in zip(self._codes, slots, strict=True):
            writer.table("OperatorCode", _code_fields(code, version), slot)
        if file.signatures:
            slots = writer.slots(len(file.signatures), places["signature_defs"])
            for signature, slot in zip(file.signatures, slots, strict=True):
                writer.table("SignatureDef", _signature_fields(signature, file), slot)
        if file.metadata:
            slots = writer.slots(len(file.metadata), places["metadata"])
            for (name, data), slot in zip(file.metadata.items(), slots, strict=True):
                self.contents.append(
                    Content(data, _BYTES, memoryview(data).nbytes, name, is_metadata=True)
                )
                writer.table("Metadata", {"name": name, "buffer": len(self.contents)}, slot)
        return places["buffers"]

    def _subgraph(self, subgraph: Subgraph, index: int, slot: int) -> None:
        writer, count = self.writer, len(subgraph.tensors)
        fields: dict[str, Any] = dict.fromkeys(("tensors", "inputs", "outputs", "operators"))
        if subgraph.name:
            fields["name"] = subgraph.name
        places = writer.inline("SubGraph", fields, slot)
        if subgraph.name:
            writer.text(subgraph.name, places["name"])
        for role, indices in (("inputs", subgraph.inputs), ("outputs", subgraph.outputs)):
            if indices and not 0 <= min(indices) <= max(indices) < count:
                raise GraphError(
                    f"TFLite subgraph {index} (`{subgraph.name}`): its {role} {list(indices)} "
                    f"aren't all among its {plural(count, 'tensor')}."
                )
            writer.vector(indices, "int32", places[role])
        tensor_slots = writer.slots(count, places["tensors"])
        for tensor, place in zip(subgraph.tensors, tensor_slots, strict=True):
            self._tensor(tensor, count, place)
        operator_slots = writer.slots(len(subgraph.operators), places["operators"])
        checked = _has_tensors(subgraph.operators, count)
        for number, (op, place) in enumerate(zip(subgraph.operators, operator_slots, strict=True)):
            try:
                if not checked:
                    _check_indices(op, count)
                self._operator(op, place)
            except BadFieldError as error:
                raise GraphError(
                    f"TFLite subgraph {index}, op #{number} ({_code_name(op.code)}): {error}."
                ) from error

    def _tensor(self, tensor: Tensor, count: int, slot: int) -> None:
        shape, signature = tensor.shape, tensor.shape_signature
        fields: dict[str, Any] = {}
        if shape or tensor.has_rank:
            fields["shape"] = shape
            if shape and min(shape) < 0:
                raise tensor_error(tensor.name, f"an extent of {tuple(shape)} is negative")
        if tensor.type:
            fields["type"] = tensor.type
        if tensor.data is not None:
            buffer = self._buffer(tensor)
            if buffer:
                fields["buffer"] = buffer
        if tensor.name:
            fields["name"] = tensor.name
        if tensor.is_variable:
            fields["is_variable"] = True
        if signature is not None:
            if len(signature) != len(shape):
                raise tensor_error(
                    tensor.name, f"its shape signature {signature} and shape {shape} differ in rank"
                )
            fields["shape_signature"] = signature
        if tensor.has_rank:
            fields["has_rank"] = True
        try:
            if tensor.quant is not None:
                fields["quantization"] = _quantization_fields(tensor.quant, shape, count)
            self.writer.table("Tensor", fields, slot)
        except BadFieldError as error:
            raise tensor_error(tensor.name, str(error)) from error

    def _buffer(self, tensor: Tensor) -> int:
        """Return the index of the buffer that holds a constant; 0 if it has no elements."""
        data = tensor.data
        storage = STORAGE.get(tensor.type)
        if storage is None:
            raise tensor_error(tensor.name, f"{tensor.type!r} can't be the type of a constant")
        if tensor.is_variable:
            raise tensor_error(tensor.name, "a variable can't have a content in the file")
        nbytes = stored_nbytes(
            data, tuple(tensor.shape), storage, fail=lambda what: tensor_error(tensor.name, what)
        )
        if not nbytes:
            return 0  # an empty vector would be no constant to LiteRT either
        key: tuple[Any, ...]
        if isinstance(data, np.ndarray):
            layout = (nbytes,) if data.flags.c_contiguous else (data.shape, data.strides)
            key = (data.__array_interface__["data"][0], data.dtype.str, storage.bits, *layout)
        else:
            key = (id(data),)
        buffer = self._shared.get(key)
        if buffer is None:
            self.contents.append(Content(data, storage, nbytes, tensor.name))
            buffer = self._shared[key] = len(self.contents)
        return buffer

    def _operator(self, op: Operator, slot: int) -> None:
        key = (op.code, op.version)
        index = self._codes.get(key)
        if index is None:
            index = self._codes[key] = len(self._codes)
        fields: dict[str, Any] = {"inputs": op.inputs, "outputs": op.outputs}
        if index:
            fields["opcode_index"] = index
        if op.options is not None:
            fields["builtin_options_type"] = union_tag("BuiltinOptions", op.options[0])
            fields["builtin_options"] = self._table_options(op.options)
        if op.options2 is not None:
            fields["builtin_options_2_type"] = union_tag("BuiltinOptions2", op.options2[0])
            fields["builtin_options_2"] = self._table_options(op.options2)
        if op.custom_options:
            fields["custom_options"] = op.custom_options
        if op.mutating_variable_inputs:
            fields["mutating_variable_inputs"] = op.mutating_variable_inputs
        if op.intermediates:
            fields["intermediates"] = op.intermediates
        self.writer.table("Operator", fields, slot)

    def _table_options(self, options: OptionsTable) -> tuple[str, Fields]:
        """Return options without defaults; most operators repeat those of another."""
        name, fields = options
        if name in _TABLES_WITH_FLOATS:  # zeros of both signs would be one key
            return name, present_fields(name, fields)
        key = (name, *fields.items())
        try:
            present = self._options.get(key)
        except TypeError:  # a list has no hash
            return name, present_fields(name, fields)
        if present is None:
            present = self._options[key] = present_fields(name, fields)
        return name, present


_ROLES = (("inputs", -1), ("outputs", 0), ("intermediates", -1))
"""The fields of operators that hold tensor indices, and the least that each may hold."""


def _has_tensors(operators: Sequence[Operator], count: int) -> bool:
    """Tell whether the operators' tensors are all among the ``count`` of a subgraph.

    This goes over whole subgraphs in the interpreter's own loops; :func:`_check_indices` finds the
    operator and the words for it where the answer is no.
    """
    for role, lowest in _ROLES:
        indices = chain.from_iterable(map(attrgetter(role), operators))
        distinct = set(indices)
        if distinct and not lowest <= min(distinct) <= max(distinct) < count:
            return False
    return True


def _check_indices(op: Operator, count: int) -> None:
    for role, lowest in _ROLES:
        for index in getattr(op, role):
            if not lowest <= index < count:
                raise BadFieldError(
                    f"tensor {index} of its {role} isn't among the {plural(count, 'tensor')}"
                )


def _code_fields(code: int | str, version: int) -> Fields:
    custom = isinstance(code, str)
    number = BUILTIN_OPERATOR["CUSTOM"] if isinstance(code, str) else code
    fields = {
        "deprecated_builtin_code": min(number, _LAST_OLD_CODE),
        "custom_code": code if custom else None,
        "version": version,
        "builtin_code": number,
    }
    return present_fields("OperatorCode", fields)


def _code_name(code: int | str) -> str:
    if isinstance(code, str):
        return code
    return next((name for name, number in BUILTIN_OPERATOR.items() if number == code), f"{code}")


def _quantization_fields(quant: Quantization, shape: tuple[int, ...], count: int) -> Fields:
    fields: dict[str, Any] = {}
    scales, zero_points = quant.scales, quant.zero_points
    many = len(scales)
    if many:
        if many > 1 and not (0 <= quant.axis < len(shape) and shape[quant.axis] == many):
            raise BadFieldError(
                f"{plural(many, 'scale')} can't belong to axis {quant.axis} of the shape {shape}"
            )
        if len(zero_points) != many:
            if len(zero_points) > 1:
                raise BadFieldError(
                    f"{plural(many, 'scale')} beside {plural(len(zero_points), 'zero point')}"
                )
            zero_points = [int(zero_points[0]) if len(zero_points) else 0] * many
        fields = {"scale": scales, "zero_point": zero_points}
    if quant.axis:
        fields["quantized_dimension"] = quant.axis
    if quant.blockwise is not None:
        blockwise = quant.blockwise
        if not 0 <= blockwise.scales < count or not -1 <= blockwise.zero_points < count:
            raise BadFieldError(f"{blockwise} names tensors that aren't among the {count}")
        fields["details_type"] = union_tag("QuantizationDetails", "BlockwiseQuantization")
        fields["details"] = (
            "BlockwiseQuantization",
            present_fields("BlockwiseQuantization", blockwise._asdict()),
        )
    return fields


def _signature_fields(signature: Signature, file: File) -> Fields:
    number = signature.subgraph
    count = len(file.subgraphs[number].tensors) if 0 <= number < len(file.subgraphs) else 0
    fields: dict[str, Any] = {}
    for role, pairs in (("inputs", signature.inputs), ("outputs", signature.outputs)):
        for name, index in pairs:
            if not 0 <= index < count:
                raise GraphError(
                    f"TFLite signature {signature.key!r}: {name!r} of its {role} is tensor "
                    f"{index}, which subgraph {number} doesn't have."
                )
        fields[role] = [
            present_fields("TensorMap", {"name": name, "tensor_index": index})
            for name, index in pairs
        ]
    fields["signature_key"] = signature.key
    if number:
        fields["subgraph_index"] = number
    return fields


def _parts(file: File, max_bytes: int, behind_above: int) -> list[Part]:
    encoder = _Encoder()
    try:
        slot = encoder.model(file)
    except BadFieldError as error:
        raise GraphError(f"TFLite file: {error}.") from error
    return place_buffers(
        encoder.writer, slot, encoder.contents, max_bytes=max_bytes, behind_above=behind_above
    )


def encode(file: File, *, max_bytes: int = MAX_BYTES, behind_above: int = INLINE_BYTES) -> bytes:
    """Return the bytes of a .tflite file; see :func:`write`, which needs less memory."""
    return b"".join(part_chunks(_parts(file, max_bytes, behind_above)))


def write(
    file: File,
    path: str | os.PathLike[str],
    *,
    max_bytes: int = MAX_BYTES,
    behind_above: int = INLINE_BYTES,
) -> Path:
    """Write ``file`` to ``path``, whole or not at all.

    Args:
        file: what to write.
        path: where; what is there is replaced. A link stays: the file that it leads to is written.
        max_bytes: a larger file keeps its weights behind its FlatBuffers part.
        behind_above: constants of more bytes than this are kept there then.

    Returns:
        The file written.

    Raises:
        GraphError: a number, name or content is none that TFLite can have where it stands.
        InvalidModelError: a name isn't UTF-8, or the model is too large even without weights.
        UsageError: the file can't be written.
    """
    target = behind_links(Path(path))
    parts = _parts(file, max_bytes, behind_above)
    with replacing(target) as (stream,):
        stream.writelines(part_chunks(parts))
    return target
