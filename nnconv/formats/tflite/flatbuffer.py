"""A FlatBuffers reader that trusts nothing, driven by the schema tables.

A table is decoded in one go: the inline fields of all tables that share a vtable are unpacked by
one precompiled `struct.Struct`, whose bounds check covers them all. What fields refer to (strings,
vectors, other tables) is followed on demand, each offset and length checked against the buffer
before anything is allocated.

Offsets may point anywhere, so a small file can name the same bytes a million times. Everything
that is decoded into Python objects is therefore paid from a budget in proportion to the file: a
hostile file ends in an error, not in exhausted memory. There is no recursion: the TFLite schema has
no table that contains itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from nnconv.errors import InvalidModelError, plural
from nnconv.formats.tflite._gen.schema import TABLES, UNIONS

if TYPE_CHECKING:
    import numpy.typing as npt

CODES = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}
"""The code that the struct module has for each scalar type of the schema."""

_WIDTHS = {name: struct.calcsize(f"<{code}") for name, code in CODES.items()}

_U32 = struct.Struct("<I").unpack_from
_I32 = struct.Struct("<i").unpack_from
_VTABLE_HEAD = struct.Struct("<HH").unpack_from

# What decoding costs, in about bytes of memory, and how much of it a file may cost. Files that
# converters write need between 1 and 3 times their own size (weights excluded, which cost nothing).
_TABLE_COST = 128
_PLAN_COST = 512
_ITEM_COST = 16
_BUDGET_BASE = 4 << 20
_BUDGET_PER_BYTE = 8
_REFILL_BASE = 32 << 20
_REFILL_PER_BYTE = 16

_Row = tuple[Any, ...]


class _Plan:
    """How to unpack the tables that share one vtable."""

    __slots__ = ("defaults", "offsets", "select", "unpack")

    def __init__(
        self,
        unpack: Callable[[memoryview, int], _Row],
        select: Callable[[_Row], _Row],
        *,
        defaults: _Row,
        offsets: tuple[int, ...],
    ) -> None:
        self.unpack = unpack
        self.select = select
        self.defaults = defaults
        self.offsets = offsets


class Reader:
    """A FlatBuffers buffer.

    Attributes:
        data: the bytes.
        size: their number.
        path: what errors call the file.
    """

    __slots__ = ("_budget", "_plans", "data", "path", "size")

    def __init__(self, data: memoryview, *, path: str = "") -> None:
        """Wrap ``data``, a contiguous memoryview of unsigned bytes."""
        self.data = data
        self.size = len(data)
        self.path = path
        self._budget = _BUDGET_BASE + _BUDGET_PER_BYTE * self.size
        self._plans: dict[str, dict[int, _Plan]] = {}

    def fail(self, message: str, where: str = "") -> InvalidModelError:
        """Give the error to raise for a fault in this file."""
        return InvalidModelError(message, path=self.path, where=where)

    def root(self, name: str) -> Table:
        """Decode the root table, of the schema's type ``name``.

        Raises:
            InvalidModelError: if the buffer can't hold it.
        """
        if self.size < 8:
            raise self.fail(f"a FlatBuffers file has at least 8 bytes, this one has {self.size}")
        return Table(self, name, _U32(self.data, 0)[0])

    def charge(self, cost: int) -> None:
        """Pay ``cost`` from the budget.

        Raises:
            InvalidModelError: if the budget is spent.
        """
        self._budget -= cost
        if self._budget < 0:
            raise self.fail(
                "the file refers to the same parts again and again: its content would be many "
                f"times larger than its {plural(self.size, 'byte')}"
            )

    def refill(self) -> None:
        """Start a new, larger budget, for a walk over the file that may look at a part twice."""
        self._budget = _REFILL_BASE + _REFILL_PER_BYTE * self.size

    def plan(self, name: str, vtable: int, *, pos: int) -> _Plan:
        """Read the vtable at ``vtable`` as one for tables of type ``name``."""
        plans = self._plans.setdefault(name, {})
        plan = plans.get(vtable)
        if plan is None:
            where = f"{name} table at byte {pos}"
            self.charge(_PLAN_COST)
            try:
                plan = plans[vtable] = self._read_plan(name, vtable, where=where)
            except struct.error:
                raise self.fail("the vtable lies outside of the file", where) from None
        return plan

    def _read_plan(self, name: str, vtable: int, *, where: str) -> _Plan:
        fields = TABLES[name].values()
        if vtable < 0:
            raise self.fail("the vtable lies outside of the file", where)
        vtable_size = _VTABLE_HEAD(self.data, vtable)[0]
        if vtable_size < 4 or vtable_size % 2 or vtable + vtable_size > self.size:
            raise self.fail(f"the vtable's size, {vtable_size}, is impossible", where)
        slots = 1 + max((field[0] for field in fields), default=-1)
        known = min(slots, (vtable_size - 4) // 2)
        offsets = struct.unpack_from(f"<{known}H", self.data, vtable + 4) + (0,) * (slots - known)

        used = sorted((offsets[field[0]], field) for field in fields if offsets[field[0]])
        layout, end = ["<"], 0
        for offset, (_, kind, type_name, _) in used:
            if offset < max(end, 4):
                raise self.fail("the vtable makes fields overlap", where)
            code = CODES[type_name] if kind == "scalar" else "I"
            layout.append(f"{offset - end}x{code}")
            end = offset + struct.calcsize(f"<{code}")
        # Values come in the order of the offsets, behind them one default per slot. Two more
        # places keep itemgetter's answer a tuple when the table has less than two slots.
        places = list(range(len(used), len(used) + slots + 2))
        defaults: list[Any] = [None] * (slots + 2)
        for slot, _, _, default in fields:
            defaults[slot] = default
        for place, (_, field) in enumerate(used):
            places[field[0]] = place
        return _Plan(
            struct.Struct("".join(layout)).unpack_from,
            itemgetter(*places),
            defaults=tuple(defaults),
            offsets=offsets,
        )


class Table:
    """One decoded table; its fields go by the schema's names.

    A field that the table lacks has the schema's default; a vector, string or table that it lacks
    is empty or None (`has` tells). Asking for a name that the schema lacks is a KeyError.

    Attributes:
        reader: the buffer.
        name: the table's type.
        pos: its first byte.
    """

    __slots__ = ("_fields", "_offsets", "_row", "name", "pos", "reader")

    def __init__(self, reader: Reader, name: str, pos: int) -> None:
        """Decode the table of type ``name`` at byte ``pos``.

        Raises:
            InvalidModelError: if it doesn't lie in the buffer.
        """
        self.reader = reader
        self.name = name
        self.pos = pos
        data = reader.data
        reader.charge(_TABLE_COST)
        try:
            vtable = pos - _I32(data, pos)[0]
            plan = reader.plan(name, vtable, pos=pos)
            self._row = plan.select(plan.unpack(data, pos) + plan.defaults)
        except struct.error:
            raise reader.fail("the table lies outside of the file", self.where) from None
        self._offsets = plan.offsets
        self._fields = TABLES[name]

    @property
    def where(self) -> str:
        """The table's place, for messages."""
        return f"{self.name} table at byte {self.pos}"

    def has(self, field: str) -> bool:
        """Tell whether the table itself has ``field``."""
        return self._offsets[self._fields[field][0]] != 0

    def scalar(self, field: str) -> Any:
        """The number or bool in ``field``."""
        return self._row[self._fields[field][0]]

    def _target(self, field: str) -> int | None:
        """Where the offset in ``field`` points to; None if the table lacks it."""
        slot = self._fields[field][0]
        offset = self._row[slot]
        return None if offset is None else self.pos + self._offsets[slot] + int(offset)

    def _vector(self, field: str, width: int) -> tuple[int, int]:
        """First byte and length of the vector in ``field``, whose items have ``width`` bytes."""
        # This runs for each vector and string of a file, hence `_target` spelt out.
        slot = self._fields[field][0]
        offset = self._row[slot]
        if offset is None:
            return 0, 0
        start = self.pos + self._offsets[slot] + int(offset)
        try:
            count = int(_U32(self.reader.data, start)[0])
        except struct.error:
            raise self._fail(field, "lies outside of the file") from None
        if start + 4 + count * width > self.reader.size:
            left = (self.reader.size - start - 4) // width
            raise self._fail(field, f"has {plural(count, 'item')}, the file has room for {left}")
        return start + 4, count

    def _fail(self, field: str, message: str) -> InvalidModelError:
        return self.reader.fail(f"{field} {message}", self.where)

    def values(self, field: str) -> tuple[Any, ...]:
        """The numbers or bools of the vector in ``field``; () if there is none."""
        type_name = self._fields[field][2]
        start, count = self._vector(field, _WIDTHS[type_name])
        if not count:
            return ()
        reader = self.reader
        reader.charge(_ITEM_COST * count)
        return struct.unpack_from(f"<{count}{CODES[type_name]}", reader.data, start)

    def array(self, field: str) -> npt.NDArray[Any]:
        """A view of the vector of numbers in ``field``; empty if there is none."""
        dtype = np.dtype(self._fields[field][2]).newbyteorder("<")
        start, count = self._vector(field, dtype.itemsize)
        if not count:
            return np.empty(0, dtype)
        return np.frombuffer(self.reader.data, dtype, count, start)

    def raw(self, field: str) -> memoryview:
        """The bytes of the vector of uint8 or of the string in ``field``; empty if there is none.

        The view is read-only and costs no copy.
        """
        start, count = self._vector(field, 1)
        return self.reader.data[start : start + count]

    def text(self, field: str) -> str:
        r"""The string in ``field``; "" if there is none.

        Bytes that aren't UTF-8 appear as ``\xNN``, so that any name can be printed and written.
        """
        raw = self.raw(field)
        self.reader.charge(len(raw))
        return str(raw, "utf-8", "backslashreplace")

    def table(self, field: str) -> Table | None:
        """The table in ``field``, if there is one."""
        target = self._target(field)
        return None if target is None else Table(self.reader, self._fields[field][2], target)

    def tables(self, field: str) -> list[Table]:
        """The tables of the vector in ``field``; [] if there is none."""
        name = self._fields[field][2]
        return [Table(self.reader, name, pos) for pos in self.positions(field)]

    def positions(self, field: str) -> list[int]:
        """Where the tables of the vector in ``field`` start, none of them decoded yet."""
        start, count = self._vector(field, 4)
        self.reader.charge(_ITEM_COST * count)
        offsets = np.frombuffer(self.reader.data, "<u4", count, start) if count else np.empty(0)
        places: list[int] = (
            offsets.astype(np.int64) + np.arange(start, start + 4 * count, 4)
        ).tolist()
        return places

    def union(self, field: str) -> Table | None:
        """The table of the union in ``field``, of the type that its tag names.

        None if there is none, or if its type is newer than the schema.
        """
        target = self._target(field)
        member = UNIONS[self._fields[field][2]].get(self.scalar(f"{field}_type"))
        return None if target is None or member is None else Table(self.reader, member, target)
