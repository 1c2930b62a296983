"""Which ops each format can read and write, from the tables that reading and writing use."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from nnconv.errors import UsageError
from nnconv.formats import FORMATS, WRITABLE
from nnconv.ir.op import Op


class OpSupport(NamedTuple):
    """What a format can do.

    Attributes:
        read: the format's own ops that can be read, by their names there.
        write: the ops of nnconv's IR that can be written, each with how: by an ``own`` form, or
            ``decomposed`` into ops that have one.
    """

    read: list[str]
    write: dict[str, str]


def op_support(format_name: str) -> OpSupport:
    """List the ops of a format that can be read, and those of the IR that it can hold.

    Raises:
        UsageError: there is no such format.
    """
    if format_name not in FORMATS:
        raise UsageError(f"there is no format {format_name!r}; formats are {', '.join(FORMATS)}.")
    importer = import_module(f"nnconv.formats.{format_name}.importer")
    write = _written(format_name) if format_name in WRITABLE else {}
    return OpSupport(sorted(importer.importers()), write)


def _written(format_name: str) -> dict[str, str]:
    exporter_of = import_module(f"nnconv.formats.{format_name}.exporter").exporter_of
    decomposes = format_name != "onnx"  # whose exporters spell what it lacks themselves
    write = {}
    for op in ir_ops():
        if exporter_of(op) is not None:
            write[op.__name__] = "own"
        elif decomposes and _is_decomposed(op):
            write[op.__name__] = "decomposed"
    return dict(sorted(write.items()))


def _is_decomposed(op: type[Op]) -> bool:
    from nnconv.decompositions.base import decompositions_of

    return bool(decompositions_of(op))


def ir_ops() -> Iterator[type[Op]]:
    """Every class of the IR's op families, bases of others among them."""
    import nnconv.ops

    for info in iter_modules(nnconv.ops.__path__):
        module = import_module(f"nnconv.ops.{info.name}")
        for cls in vars(module).values():
            if isinstance(cls, type) and issubclass(cls, Op) and cls.__module__ == module.__name__:
                yield cls
