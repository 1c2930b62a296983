"""Enumerations whose members come from a file of schemas/."""

from __future__ import annotations

from collections.abc import Mapping
from enum import EnumMeta, IntEnum
from typing import TYPE_CHECKING, Any


class _FromSchema(EnumMeta):
    """Makes a class of the ``members`` that are given beside its bases."""

    def __new__(
        metacls, cls: str, bases: Any, space: Any, *, members: Mapping[str, int] | None = None
    ) -> Any:
        for name, number in (members or {}).items():
            space[name] = number
        return super().__new__(metacls, cls, bases, space)

    if TYPE_CHECKING:  # mypy doesn't see the members

        def __getattr__(cls, name: str) -> Any: ...


class Code(IntEnum, metaclass=_FromSchema):
    """Base of an enumeration of numbers."""
