"""The kinds of operators in a .tflite file, and their options."""

from __future__ import annotations

import builtins
from typing import Any

from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR, OPTIONS, TABLES, UNIONS
from nnconv.formats.tflite.flatbuffer import Table

_OPERATOR_NAMES = {number: name for name, number in BUILTIN_OPERATOR.items()}


class Options:
    """The options of an operator, by the schema's field names.

    Fields that the file lacks have the schema's defaults, also where the whole table is missing. A
    name that the schema doesn't have for this operator is a KeyError.

    Attributes:
        name: the options table's type, "" if the operator has none.
    """

    __slots__ = ("_fields", "_table", "name")

    def __init__(self, name: str, table: Table | None) -> None:
        self.name = name
        self._table = table
        self._fields = TABLES[name] if name else {}

    def _scalar(self, field: str) -> Any:
        default = self._fields[field][3]
        return default if self._table is None else self._table.scalar(field)

    def _values(self, field: str) -> tuple[Any, ...]:
        _ = self._fields[field]
        return () if self._table is None else self._table.values(field)

    def has(self, field: str) -> builtins.bool:
        """Tell whether the file itself gives ``field``."""
        _ = self._fields[field]
        return self._table is not None and self._table.has(field)

    def int(self, field: str) -> builtins.int:
        """An integer or the number of an enum member."""
        return builtins.int(self._scalar(field))

    def float(self, field: str) -> builtins.float:
        """A float32, exactly."""
        return builtins.float(self._scalar(field))

    def bool(self, field: str) -> builtins.bool:
        """A truth value."""
        return builtins.bool(self._scalar(field))

    def ints(self, field: str) -> tuple[builtins.int, ...]:
        """A vector of integers; () if it is missing."""
        return self._values(field)

    def floats(self, field: str) -> tuple[builtins.float, ...]:
        """A vector of float32; () if it is missing."""
        return self._values(field)

    def bools(self, field: str) -> tuple[builtins.bool, ...]:
        """A vector of truth values; () if it is missing."""
        return self._values(field)

    def text(self, field: str) -> str:
        """A string; "" if it is missing."""
        _ = self._fields[field]
        return "" if self._table is None else self._table.text(field)

    def raw(self, field: str) -> bytes:
        """The bytes of a vector of uint8 or of a string; b"" if it is missing."""
        _ = self._fields[field]
        return b"" if self._table is None else bytes(self._table.raw(field))


class OperatorCode:
    """What operators of one kind share.

    Attributes:
        name: the builtin's name, ``BUILTIN_<n>`` for a number newer than the schema, ``CUSTOM``.
        custom_code: the name of a custom op, else "".
        version: the op's version.
        options: the type of its options table, "" for none.
        union: the field of Operator that holds it.
        tag: its number in that union.
        calls: the options that name subgraphs.
    """

    __slots__ = ("calls", "custom_code", "name", "options", "tag", "union", "version")

    def __init__(self, table: Table) -> None:
        # The first 127 builtins are told by the old, 8 bit field, the others by the new one.
        number = max(table.scalar("deprecated_builtin_code"), table.scalar("builtin_code"))
        self.name: str = _OPERATOR_NAMES.get(number, f"BUILTIN_{number}")
        self.custom_code = table.text("custom_code") if self.name == "CUSTOM" else ""
        self.version: int = table.scalar("version")
        self.options = OPTIONS.get(self.name, "")
        self.union = "builtin_options"
        self.tag = 0
        self.calls: tuple[str, ...] = ()
        if self.options:
            for union, name in (
                ("builtin_options", "BuiltinOptions"),
                ("builtin_options_2", "BuiltinOptions2"),
            ):
                for tag, member in UNIONS[name].items():
                    if member == self.options:
                        self.union, self.tag = union, tag
            self.calls = tuple(field for field in TABLES[self.options] if "subgraph" in field)
