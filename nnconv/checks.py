"""What the arguments of public functions must be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from reprlib import repr as short
from typing import TypeVar

from nnconv.errors import UsageError

Given = TypeVar("Given")
"""What is given for an input."""


def _is_path(value: object) -> bool:
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        return False
    try:
        return b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _is_shape(value: object) -> bool:
    return value is None or (isinstance(value, Iterable) and not isinstance(value, str | bytes))


def _are_shapes(value: object) -> bool:
    return value is None or (
        isinstance(value, Mapping) and _is_map(value) and all(map(_is_shape, value.values()))
    )


_KINDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "path": (_is_path, "the name of a file"),
    "text": (_is_text, "a string"),
    "text or None": (lambda value: value is None or _is_text(value), "a string or None"),
    "flag": (lambda value: isinstance(value, bool), "True or False"),
    "shapes": (_are_shapes, "shapes by input name"),
    "seed": (lambda value: type(value) is int and value >= 0, "0 or a positive number"),
    "arrays": (_is_map, "arrays by input name"),
}


def check_arguments(kind: str, **values: object) -> None:
    """See that arguments are of a kind, one of those above.

    Raises:
        UsageError: naming the first that isn't.
    """
    fits, what = _KINDS[kind]
    for name, value in values.items():
        if not fits(value):
            raise UsageError(f"{name} is {short(value)}, must be {what}")


def by_own_names(given: Mapping[str, Given], others: Mapping[str, str]) -> dict[str, Given]:
    """What is given for inputs, by their own names where it goes by what ``others`` call them.

    Raises:
        UsageError: something is given for both names of one.
    """
    found: dict[str, Given] = {}
    for called, item in given.items():
        name = others.get(called, called)
        if name in found:
            raise UsageError(f"input {name!r} is given twice, by both of its names")
        found[name] = item
    return found
