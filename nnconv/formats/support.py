"""Which ops each format can read and write, from the tables that reading and writing use."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from nnconv.errors import UsageError
from nnconv.formats import FORMATS, WRITABLE
from nnconv.formats.mentions import mentioned
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


class OpRow(NamedTuple):
    """Where an op of the IR is at home.

    Attributes:
        op: its name.
        forms: how each format holds it: ``since`` followed by the least version of the format that
            has the operation of its name, or else one that serves for it, ``yes`` where versions
            don't matter, ``parts`` where it becomes other ops, or nothing.
        reference: whether the reference backend runs it.
    """

    op: str
    forms: dict[str, str]
    reference: bool


def support_matrix(kernels: Collection[str]) -> list[OpRow]:
    """Every op of the IR by format; ``kernels`` are those that the reference backend runs."""
    written = {name: _written(name) for name in WRITABLE}
    rows = []
    for op in sorted(ir_ops(), key=lambda op: op.__name__):
        name = op.__name__
        if not any(name in table for table in written.values()) and name not in kernels:
            continue  # a base of others
        forms = {kind: _form(kind, op, table.get(name, "")) for kind, table in written.items()}
        rows.append(OpRow(name, forms, name in kernels))
    return rows


def _form(kind: str, op: type[Op], how: str) -> str:
    if how != "own":
        return "parts" if how else ""
    operations = operations_of(kind, op)
    named = [name for name in operations if name.replace("_", "") == op.__name__.upper()]
    versions = [version_of(kind, name) for name in named or operations]
    return f"since {min(versions)}" if versions else "yes"


_TABLES = {"nnapi": ("OperationCode", "level"), "nnrt": ("OperationType", "since")}
"""The enumeration of a format's operations, and what says since when there is one."""


def version_of(kind: str, operation: str) -> int:
    """NNAPI's feature level, or NNRt's API version, that brought an operation."""
    enumeration, attribute = _TABLES[kind]
    codes = getattr(import_module(f"nnconv.formats.{kind}.types"), enumeration)
    spec = import_module(f"nnconv.formats.{kind}.table").spec_of(codes[operation])
    version: int = getattr(spec, attribute)
    return version


def operations_of(kind: str, op: type[Op]) -> list[str]:
    """The operations of NNAPI or NNRt that an op's exporter mentions; none of other formats."""
    exporter = import_module(f"nnconv.formats.{kind}.exporter").exporter_of(op)
    if kind not in _TABLES or exporter is None:
        return []
    known = getattr(import_module(f"nnconv.formats.{kind}.types"), _TABLES[kind][0]).__members__
    texts = {
        text for text in mentioned(exporter, op, f"nnconv.formats.{kind}") if isinstance(text, str)
    }
    return sorted(texts & set(known))


def ir_ops() -> Iterator[type[Op]]:
    """Every class of the IR's op families, bases of others among them."""
    import nnconv.ops

    for info in iter_modules(nnconv.ops.__path__):
        module = import_module(f"nnconv.ops.{info.name}")
        for cls in vars(module).values():
            if isinstance(cls, type) and issubclass(cls, Op) and cls.__module__ == module.__name__:
                yield cls
