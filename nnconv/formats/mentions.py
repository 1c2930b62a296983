"""What the functions of nnconv's tables mention: which ops and operations they can make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import isclass, isfunction, ismodule
from types import CodeType
from typing import Any


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def mentioned(function: Callable[..., Any], key: object, package: str) -> Iterator[object]:
    """Objects and constants that a function and its helpers in ``package`` mention.

    Of a table only the entry of ``key`` counts, if it has one.
    """
    todo: list[object] = [function]
    seen: set[int] = set()
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            todo += [value[key]] if key in value else value.values()
        elif isinstance(value, tuple | list | frozenset):
            todo += value
        elif isfunction(value) and value.__module__.startswith(package):
            todo += _parts_of(value)
        elif isclass(value) and value.__module__.startswith(
            (f"{package}.imports.", f"{package}.exports.")
        ):
            todo += _members_of(value)
        else:
            yield value


def _parts_of(function: Any) -> Iterator[object]:
    """What one function mentions: constants, globals, members of modules, closed-over values."""
    for cell in function.__closure__ or ():
        yield cell.cell_contents
    for code in _codes(function.__code__):
        yield from (c for c in code.co_consts if isinstance(c, str | tuple))
        present = [function.__globals__.get(name) for name in code.co_names]
        modules = [value for value in present if ismodule(value)]
        yield from (value for value in present if not ismodule(value))
        for module in modules:
            yield from (vars(module)[n] for n in code.co_names if n in vars(module))


def _members_of(helper: type) -> Iterator[object]:
    """The functions of a helper class, properties too."""
    for member in vars(helper).values():
        yield member.fget if isinstance(member, property) else member
