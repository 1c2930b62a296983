"""PyTorch's saved modules (.pt, .ptl) with an NNAPI module inside, read without PyTorch.

Such a file is a zip archive of plain members. One of them is a pickle; it is read by an unpickler
that knows tensors and inert objects and calls nothing else. The code in the archive is left alone.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from nnconv.errors import InvalidModelError, UsageError, plural
from nnconv.formats.nnapi.pytorch import read_stream
from nnconv.formats.nnapi.wire import Model
from nnconv.formats.safetensors import map_file

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_PICKLE_BYTES = 1 << 26
"""A module tree takes kilobytes: what is far beyond isn't one."""

MOST_DEPTH = 100
"""Modules nest a few deep."""

STORAGES = {
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "DoubleStorage": "<f8",
    "ByteStorage": "u1",
    "CharStorage": "i1",
    "ShortStorage": "<i2",
    "IntStorage": "<i4",
    "LongStorage": "<i8",
    "BoolStorage": "u1",
    "QUInt8Storage": "u1",
    "QInt8Storage": "i1",
    "QInt32Storage": "<i4",
}
"""The numpy type of each of PyTorch's storages."""

_FAILURES = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""What a broken pickle can make Python's unpickler raise."""


class Module:
    """An object of the pickle: its class's name and its state."""

    __slots__ = ("state",)
    kind = ""

    def __setstate__(self, state: Any) -> None:
        self.state = state


class Tensor:
    """A tensor of the pickle."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array


class NnapiModule:
    """An NNAPI module of a saved file.

    Attributes:
        path: where it is in the module tree, as ``a.b``; empty for the root.
        model: the NNAPI model.
        input_formats, output_formats: 1 for each input or output that PyTorch has as NCHW and the
            model as NHWC; 0 and 2 for the others.
        preference: the compilation preference that it was exported with.
    """

    __slots__ = ("input_formats", "model", "output_formats", "path", "preference")

    def __init__(
        self,
        path: str,
        model: Model,
        *,
        input_formats: tuple[int, ...],
        output_formats: tuple[int, ...],
        preference: int,
    ) -> None:
        self.path = path
        self.model = model
        self.input_formats = input_formats
        self.output_formats = output_formats
        self.preference = preference


def read(path: str | os.PathLike[str], *, module: str | None = None) -> NnapiModule:
    """Read the NNAPI module of a saved file.

    Args:
        path: the file.
        module: where the module is in the tree; needed only where there are several.

    Raises:
        InvalidModelError: the file is broken, or no NNAPI module is inside.
        UsageError: there are several modules and none is named, or none of that name.
    """
    name = os.fspath(path)
    archive = _Archive(map_file(path), name)
    found = dict(_nnapi_modules(archive.root()))
    if not found:
        raise InvalidModelError(
            "no NNAPI module is inside: it is an ordinary TorchScript module",
            path=name,
            hint="torch.backends._nnapi.prepare.convert_model_to_nnapi makes one.",
        )
    if module is None and len(found) == 1:
        module = next(iter(found))
    if module not in found:
        names = ", ".join(repr(key) for key in found)
        raise UsageError(f"{name}: which NNAPI module is meant? There are {names}")
    return _nnapi_module(module, found[module], name)


def _nnapi_modules(root: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every NNAPI module of a tree, with its place."""
    stack: list[tuple[str, Any, int]] = [("", root, 0)]
    seen: set[int] = set()
    while stack:
        place, value, depth = stack.pop()
        state = value.state if isinstance(value, Module) and hasattr(value, "state") else value
        if not isinstance(state, dict) or depth > MOST_DEPTH or id(state) in seen:
            continue
        seen.add(id(state))
        if "ser_model" in state and "weights" in state:
            yield place, state
            continue
        for key, entry in state.items():
            stack.append((f"{place}.{key}" if place else str(key), entry, depth + 1))


def _nnapi_module(place: str, state: dict[str, Any], path: str) -> NnapiModule:
    stream, weights = state["ser_model"], state["weights"]
    fits = isinstance(stream, Tensor) and isinstance(weights, list)
    if not fits or not all(isinstance(weight, Tensor) for weight in weights):
        raise InvalidModelError(f"module {place!r} has no stream or no weights", path=path)
    if stream.array.dtype not in (np.dtype("<i4"), np.dtype("u1")):
        raise InvalidModelError(f"its stream has elements of {stream.array.dtype}", path=path)
    model = read_stream(stream.array.tobytes(), [weight.array for weight in weights], path=path)
    model.relaxed = state.get("relax_f32_to_f16") is True
    preference = state.get("compilation_preference", 2)
    return NnapiModule(
        place,
        model,
        input_formats=_formats(state.get("inp_mem_fmts"), len(model.main.inputs), path),
        output_formats=_formats(state.get("out_mem_fmts"), len(model.main.outputs), path),
        preference=preference if isinstance(preference, int) else 2,
    )


def _formats(values: Any, count: int, path: str) -> tuple[int, ...]:
    if values is None:
        return (0,) * count
    if (
        not isinstance(values, list)
        or len(values) != count
        or any(v not in (0, 1, 2) for v in values)
    ):
        raise InvalidModelError("its list of memory formats is broken", path=path)
    return tuple(values)


class _Archive:
    """The members of a saved file: views of its bytes."""

    def __init__(self, data: memoryview, path: str) -> None:
        self.data = data
        self.path = path
        if bytes(data[4:8]) == b"PTMF":
            raise self.fail("it is in the FlatBuffers form of the lite interpreter")
        try:
            with zipfile.ZipFile(path) as opened:
                entries = opened.infolist()
        except (zipfile.BadZipFile, OSError, ValueError, RuntimeError) as error:
            raise self.fail(f"a zip archive that is broken: {error}") from error
        names = [entry.filename for entry in entries]
        if len(set(names)) != len(names):
            raise self.fail("two members have one name")
        if any(name.startswith("/") or ".." in name.split("/") for name in names):
            raise self.fail("a member's name leads out of the archive")
        roots = {name.partition("/")[0] for name in names}
        if len(roots) != 1:
            raise self.fail("it has no single root folder")
        self.members = {e.filename.partition("/")[2]: e for e in entries}
        if "byteorder" in self.members and bytes(self.member("byteorder")) != b"little":
            raise self.fail("it was written by a big-endian machine")

    def fail(self, message: str) -> InvalidModelError:
        """The error to raise for what is wrong with the file."""
        return InvalidModelError(message, path=self.path)

    def member(self, name: str) -> memoryview:
        """The bytes of a member; PyTorch doesn't compress those that matter."""
        entry = self.members.get(name)
        if entry is None:
            raise self.fail(f"it has no member {name}")
        if entry.compress_type != zipfile.ZIP_STORED:
            raise self.fail(f"member {name} is compressed")
        head = bytes(self.data[entry.header_offset : entry.header_offset + 30])
        if len(head) < 30 or not head.startswith(b"PK\x03\x04"):
            raise self.fail(f"member {name} isn't where the archive says")
        start = entry.header_offset + 30 + sum(struct.unpack_from("<HH", head, 26))
        end = start + entry.file_size
        if end > len(self.data):
            raise self.fail(f"member {name} ends behind the file")
        return self.data[start:end]

    def root(self) -> Any:
        """The module tree."""
        raw = self.member("data.pkl")
        if len(raw) > MOST_PICKLE_BYTES:
            raise self.fail(
                f"its pickle has {plural(len(raw), 'byte')}, at most {MOST_PICKLE_BYTES} are read"
            )
        try:
            return _Unpickler(io.BytesIO(raw), self).load()
        except _FAILURES as error:
            raise self.fail(f"its pickle can't be read: {error}") from error

    def storage(self, dtype: str, key: str, count: int) -> Array:
        """The elements of a storage."""
        raw = self.member(f"data/{key}")
        kind = np.dtype(dtype)
        if len(raw) != count * kind.itemsize:
            raise self.fail(
                f"storage {key} has {plural(len(raw), 'byte')} for {plural(count, 'element')}"
            )
        return np.frombuffer(raw, kind) if len(raw) else np.zeros(0, kind)


class _Unpickler(pickle.Unpickler):
    """Makes tensors, plain containers and inert objects, and nothing else."""

    def __init__(self, file: io.BytesIO, archive: _Archive) -> None:
        super().__init__(file)
        self.archive = archive

    def find_class(self, module: str, name: str) -> Any:
        if module == "__torch__" or module.startswith("__torch__."):
            return type("Module", (Module,), {"kind": f"{module}.{name}", "__slots__": ()})
        if module == "torch" and name in STORAGES:
            return _Storage(STORAGES[name])
        known = _CALLABLES.get((module, name))
        if known is None:
            raise pickle.UnpicklingError(f"{module}.{name} may not be in it")
        return known

    def persistent_load(self, pid: Any) -> Any:
        kind, storage, key, _, count = pid
        if kind != "storage" or not isinstance(storage, _Storage) or not isinstance(key, str):
            raise pickle.UnpicklingError("a reference to something else than a storage")
        if not isinstance(count, int) or count < 0:
            raise pickle.UnpicklingError("a storage without a size")
        return self.archive.storage(storage.dtype, key, count)


class _Storage:
    """A type of storage."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Tensor:
    """A view of a storage, once it is sure that it stays inside."""
    numbers = (offset, *size, *stride)
    if not isinstance(storage, np.ndarray) or len(size) != len(stride) or len(size) > 32:
        raise pickle.UnpicklingError("a tensor without a storage or shape")
    if any(not isinstance(n, int) or not 0 <= n < 1 << 40 for n in numbers):
        raise pickle.UnpicklingError("a tensor of negative or absurd size")
    if 0 in size:
        return Tensor(np.zeros(0, storage.dtype).reshape([min(n, 1) for n in size]))
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if last >= storage.size:
        raise pickle.UnpicklingError(f"a tensor ends at element {last} of {storage.size}")
    if int(np.prod(size, dtype=object)) > storage.size:
        raise pickle.UnpicklingError("a tensor has more elements than its storage")
    strides = [step * storage.itemsize for step in stride]
    return Tensor(np.lib.stride_tricks.as_strided(storage[offset:], size, strides, writeable=False))


def _quantized(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Tensor:
    return _tensor(storage, offset, size, stride)


def _same(values: Any, *_: Any) -> Any:
    return values


def _mapping(*entries: Any) -> dict[Any, Any]:
    return dict(*entries)


_JIT = "torch.jit._pickle"
_CALLABLES: dict[tuple[str, str], Callable[..., Any] | str] = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_qtensor"): _quantized,
    ("torch", "per_tensor_affine"): "per_tensor_affine",
    ("collections", "OrderedDict"): _mapping,
    (_JIT, "build_tensorlist"): _same,
    (_JIT, "build_intlist"): _same,
    (_JIT, "build_doublelist"): _same,
    (_JIT, "build_boollist"): _same,
    (_JIT, "restore_type_tag"): _same,
}
"""What a pickle may name besides modules and storages."""
