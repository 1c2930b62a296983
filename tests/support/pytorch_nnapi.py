"""A writer of PyTorch's serialized NNAPI models, for fixtures without PyTorch."""

import struct
import zipfile
from pathlib import Path

import numpy as np

from nnconv.formats.nnapi.wire import Model


def stream_of(model: Model, *, inline: int = 16) -> tuple[bytes, list[np.ndarray]]:
    """The stream of a model and its numbered buffers: the constants above ``inline`` bytes."""
    graph = model.main
    operands, values, contents, weights = b"", b"", b"", []
    dimensions = b""
    for index, operand in enumerate(graph.operands):
        rank = len(operand.dimensions)
        operands += struct.pack("<iIfi", operand.type, rank, operand.scale, operand.zero_point)
        dimensions += struct.pack(f"<{rank}I", *operand.dimensions)
        if operand.data is None:
            continue
        data = operand.data.tobytes()
        if len(data) > inline:
            source, content = 2, struct.pack("<III", len(weights), 0, len(data))
            weights.append(operand.data)
        else:
            source, content = 0, data
        values += struct.pack("<iiI", index, source, len(content))
        contents += content + bytes(-len(content) % 4)
    operations, arguments = b"", b""
    for op in graph.operations:
        operations += struct.pack("<iII", op.code, len(op.inputs), len(op.outputs))
        indices = (*op.inputs, *op.outputs)
        arguments += struct.pack(f"<{len(indices)}I", *indices)
    counts = (
        len(graph.operands), len(values) // 12, len(graph.operations), len(graph.inputs),
        len(graph.outputs),
    )  # fmt: skip
    ends = (*graph.inputs, *graph.outputs)
    stream = b"".join(
        [
            struct.pack("<6i", 1, *counts), operands, values, operations, dimensions, contents,
            arguments, struct.pack(f"<{len(ends)}I", *ends),
        ]
    )  # fmt: skip
    return stream, weights


STORAGES = {"f": "FloatStorage", "i": "IntStorage", "u": "ByteStorage"}


class Pickle:
    """Writes the opcodes of a protocol-2 pickle, as TorchScript's own pickler would."""

    def __init__(self) -> None:
        self.code = b"\x80\x02"
        self.storages: list[np.ndarray] = []

    def value(self, value: object) -> None:
        """Push a plain value, a list, a dict, a tensor, or a module as (name, dict)."""
        if value is None or isinstance(value, bool):
            self.code += {None: b"N", True: b"\x88", False: b"\x89"}[value]
        elif isinstance(value, int):
            self.code += b"J" + struct.pack("<i", value)
        elif isinstance(value, str):
            text = value.encode()
            self.code += b"X" + struct.pack("<I", len(text)) + text
        elif isinstance(value, list):
            self.code += b"]("
            for entry in value:
                self.value(entry)
            self.code += b"e"
        elif isinstance(value, dict):
            self.code += b"}("
            for key, entry in value.items():
                self.value(key)
                self.value(entry)
            self.code += b"u"
        elif isinstance(value, np.ndarray):
            self.tensor(value)
        else:
            name, state = value
            self.code += b"c__torch__.m\n" + name.encode() + b"\n)\x81"
            self.value(state)
            self.code += b"b"

    def tensor(self, array: np.ndarray, **changes: object) -> None:
        """Push a tensor; ``changes`` falsify its offset, size, stride or count."""
        name = STORAGES[array.dtype.kind]
        count = changes.get("count", array.size)
        self.code += b"ctorch._utils\n_rebuild_tensor_v2\n(("
        self.value("storage")
        self.code += f"ctorch\n{name}\n".encode()
        self.value(str(len(self.storages)))
        self.value("cpu")
        self.value(count)
        self.code += b"tQ"
        self.storages.append(array)
        self.value(changes.get("offset", 0))
        strides = [step // array.itemsize for step in array.strides]
        for numbers in (changes.get("size", array.shape), changes.get("stride", strides)):
            self.code += b"("
            for number in numbers:
                self.value(number)
            self.code += b"t"
        self.code += b"\x89)tR"


def write_archive(path: Path, pickled: Pickle, **members: bytes) -> Path:
    """Write a .pt file of a pickle; ``members`` are added, or replace others."""
    entries = {"data.pkl": pickled.code + b".", "byteorder": b"little", "version": b"3\n"}
    for index, storage in enumerate(pickled.storages):
        entries[f"data/{index}"] = storage.tobytes()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (entries | members).items():
            archive.writestr(f"model/{name}", data)
    return path


def nnapi_state(model: Model, **changes: object) -> dict[str, object]:
    """The state of a module of PyTorch's NnapiModule that holds a model."""
    stream, weights = stream_of(model)
    return {
        "training": False,
        "ser_model": np.frombuffer(stream, np.int32),
        "weights": [np.ascontiguousarray(weight) for weight in weights],
        "inp_mem_fmts": [0] * len(model.main.inputs),
        "out_mem_fmts": [0] * len(model.main.outputs),
        "compilation_preference": 1,
        "relax_f32_to_f16": True,
    } | changes
