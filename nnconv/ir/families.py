"""Finding what belongs to an op: it stands in the file of the op's own stem, in whatever folder."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from nnconv.ir.op import Op


@cache
def table_of(package: str, stem: str, name: str) -> dict[type[Op], Any]:
    """The table ``name`` of a file in a package; empty if there is no such file."""
    module = f"{package}.{stem}"
    found: dict[type[Op], Any] = getattr(import_module(module), name) if find_spec(module) else {}
    return found


def entry_of(op: type[Op], package: str, name: str) -> Any:
    """What the table ``name`` of the op's file in a package has for it; None if nothing.

    The file is loaded when it is asked for.
    """
    return table_of(package, op.__module__.rpartition(".")[2], name).get(op)
