"""Which ops each format can read and write, from the tables that reading and writing use."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from nnconv.errors import UsageError
from nnconv.formats import FORMATS


class OpSupport(NamedTuple):
    """One op of a format.

    Attributes:
        op: its name; for ONNX, which spells many ops as several nodes, the name in nnconv's IR.
        read: whether models that have it can be read.
        write: whether it can be written.
    """

    op: str
    read: bool
    write: bool


def op_support(format_name: str) -> list[OpSupport]:
    """List the ops of a format that can be read or written, by name.

    Raises:
        UsageError: there is no such format.
    """
    if format_name == "tflite":
        from nnconv.formats.tflite.importer import importers

        return [OpSupport(name, read=True, write=False) for name in sorted(importers())]
    if format_name == "onnx":
        return [OpSupport(name, read=False, write=True) for name in _onnx_exports()]
    raise UsageError(f"there is no format {format_name!r}; formats are {', '.join(FORMATS)}.")


def _onnx_exports() -> list[str]:
    import nnconv.ops
    from nnconv.formats.onnx.exporter import exporter_of
    from nnconv.ir import Op

    names = set()
    for info in iter_modules(nnconv.ops.__path__):
        module = import_module(f"nnconv.ops.{info.name}")
        for cls in vars(module).values():
            own = (
                isinstance(cls, type) and issubclass(cls, Op) and cls.__module__ == module.__name__
            )
            if own and exporter_of(cls) is not None:
                names.add(cls.__name__)
    return sorted(names)
