"""What every format's importers work with: one op of a file, the nodes that it becomes, refusals.

A format's own ``Source`` (``formats/<format>/importer.py``) adds how operands, attributes and
results are found.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import zip_longest
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

import numpy as np

from nnconv.errors import (
    GraphError,
    InvalidModelError,
    Reason,
    UnsupportedError,
    UnsupportedItem,
)
from nnconv.formats.hints import GIVE_SHAPES
from nnconv.ir.builder import Builder, infer
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, TensorType, static_shape
from nnconv.ops.elements import elements
from nnconv.ops.quantize import Cast

Built = TypeVar("Built")

Integer: TypeAlias = int
Number: TypeAlias = float
"""What sources, whose methods have those names, can't call so."""


class NotConvertible(Exception):  # noqa: N818 - a refusal that the driver collects, not an error
    """Raised by an importer for an op that can't be imported; the driver collects them all."""

    def __init__(self, *items: UnsupportedItem) -> None:
        super().__init__("; ".join(map(str, items)))
        self.items = items


class Importers(Mapping[str, Callable[[Any], None]]):
    """A format's importers by the op's name; a family's file is loaded when one of its ops is.

    The package has the files, each with a table ``IMPORTERS``, and says in ``OPS`` which ops are in
    which.
    """

    def __init__(self, package: ModuleType) -> None:
        """Load none of them."""
        self._package = package.__name__
        self._families = {op: stem for stem, ops in package.OPS.items() for op in ops.split()}
        self._found: dict[str, Callable[[Any], None]] = {}

    def __getitem__(self, op: str) -> Callable[[Any], None]:
        found = self._found.get(op)
        if found is None:
            family = import_module(f"{self._package}.{self._families[op]}")
            found = self._found[op] = family.IMPORTERS[op]
        return found

    def __contains__(self, op: object) -> bool:
        return op in self._families

    def __iter__(self) -> Iterator[str]:
        return iter(self._families)

    def __len__(self) -> int:
        return len(self._families)


class OpSource(ABC):
    """One op of a file being imported.

    Attributes:
        name: what messages call the op.
        where: its place, for messages.
        builder: adds nodes to the graph under construction; its origin is this op's.
    """

    __slots__ = ("builder", "name", "where")

    def __init__(self, name: str, where: str, builder: Builder) -> None:
        self.name = name
        self.where = where
        self.builder = builder

    # ---------------------------------------------------------------- what a format says

    @abstractmethod
    def fail(self, message: str) -> InvalidModelError:
        """The exception to raise for an op that breaks a rule of the format."""

    @abstractmethod
    def first_name(self) -> str:
        """What the op's first named result is called; empty if there is none."""

    # ---------------------------------------------------------------- axes

    def rank(self, value: Value) -> int:
        """The rank of a value.

        Raises:
            NotConvertible: when it isn't known.
        """
        if value.shape is None:
            raise self.unsupported(
                f"the rank of `{value.name}` isn't known",
                hint=GIVE_SHAPES,
            )
        return len(value.shape)

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front.

        Raises:
            InvalidModelError: when it is out of range.
        """
        if not -rank <= axis < rank:
            raise self.fail(f"axis {axis} is out of range for rank {rank}")
        return axis % rank

    def check_indices(self, indices: Value, extents: Shape, *, from_end: bool = True) -> None:
        """See that constant indices lie within the extents that they count along.

        There is one extent for all of them, or one for each place along their last axis. With
        ``from_end`` a negative one counts from the end.

        Raises:
            InvalidModelError: when one doesn't. Runtimes fail on it when they run, or read what
                isn't theirs.
        """
        data = indices.data
        if data is None or not data.size or not extents:
            return
        if len(extents) > 1 and data.shape[-1] != len(extents):
            return  # of which the op says what is wrong
        columns = data.reshape(-1, len(extents))
        for column, extent in enumerate(extents):
            if not isinstance(extent, int):
                continue
            least = -extent if from_end else 0
            for index in (columns[:, column].min(), columns[:, column].max()):
                if not least <= index < extent:
                    raise self.fail(f"index {index} is out of range for an extent of {extent}")

    # ---------------------------------------------------------------- nodes

    def const(
        self,
        data: np.ndarray,
        name: str = "",
        *,
        quant: Quant | None = None,
        dtype: DType | None = None,
    ) -> Value:
        """Make a constant."""
        return self.builder.const(data, name, quant=quant, dtype=dtype)

    def add(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        *,
        quant: Quant | None = None,
        dtype: DType | None = None,
    ) -> Value:
        """Add a node of one result that isn't the op's own."""
        self._demand(op, inputs)
        base = self.first_name()
        name = f"{base}/{op.name}" if base else ""
        return self._checked(
            lambda: self.builder.add(op, inputs, name=name, quant=quant, dtype=dtype)
        )

    def add_many(
        self, op: Op, inputs: Sequence[Value | None], *, bodies: Sequence[Graph] = ()
    ) -> tuple[Value, ...]:
        """Add a node of several results that aren't the op's own."""
        self._demand(op, inputs)
        types = self._infer(op, inputs, bodies)
        return self.builder.add_typed(op, inputs, types, bodies=bodies)

    def _infer(
        self, op: Op, inputs: Sequence[Value | None], bodies: Sequence[Graph] = ()
    ) -> list[TensorType]:
        kinds = [None if v is None else v.type for v in inputs]
        return list(self._checked(lambda: infer(op, kinds, bodies)))

    def _demand(self, op: Op, inputs: Sequence[Value | None]) -> None:
        """See that an op has all the operands that it can't do without, of types that it takes.

        Raises:
            InvalidModelError: when one is missing.
            NotConvertible: when one has another type.
        """
        for formal, value in zip_longest(op.operands, inputs[: len(op.operands)]):
            if value is None:
                if not formal.optional and not formal.variadic:
                    raise self.fail(f"operand {formal.name} is missing")
            elif value.dtype not in formal.types:
                raise self.unsupported(f"operand {formal.name} is {value.dtype}")

    def _checked(self, action: Callable[[], Built]) -> Built:
        try:
            return action()
        except GraphError as error:
            raise self.fail(error.message) from error
        except ValueError as error:
            raise self.fail(str(error)) from error
        except (ArithmeticError, LookupError) as error:
            raise self.misfit(error) from error

    # ---------------------------------------------------------------- refusals

    def attempt(self, action: Callable[[], None]) -> Sequence[UnsupportedItem]:
        """Import the op; gives what can't be imported.

        Raises:
            InvalidModelError: when the op breaks a rule of the format.
        """
        try:
            action()
        except (NotConvertible, UnsupportedError) as refusal:
            return refusal.items
        except GraphError as error:  # of a node that the importer added by the builder alone
            raise self.fail(error.message) from error
        except (ArithmeticError, LookupError, ValueError) as error:
            # numbers of the file, which may be any, that the importer couldn't compute with
            raise self.misfit(error) from error
        return ()

    def misfit(self, error: Exception) -> InvalidModelError:
        """The exception to raise where the file's numbers can't be computed with."""
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        return self.fail(f"its numbers don't fit together ({kind}{error})")

    def unsupported(
        self, why: str, *, reason: Reason = Reason.NOT_IMPLEMENTED, hint: str = ""
    ) -> NotConvertible:
        """The exception to raise for an op that can't be imported."""
        return NotConvertible(
            UnsupportedItem(op=self.name, where=self.where, why=why, reason=reason, hint=hint)
        )


class ListedOperands(OpSource):
    """An op whose operands go by their place in a list, where some may be left out."""

    __slots__ = ()

    @property
    @abstractmethod
    def operand_count(self) -> int:
        """How many operands the op lists, absent ones included."""

    @property
    @abstractmethod
    def known(self) -> dict[Value, np.ndarray | None]:
        """What was found out of the elements of small integer tensors."""

    @abstractmethod
    def optional(self, index: int) -> Value | None:
        """An operand, or None where it is left out."""

    def operand(self, index: int) -> Value:
        """A required operand.

        Raises:
            InvalidModelError: when it is left out.
        """
        value = self.optional(index)
        if value is None:
            raise self.fail(f"operand {index} is missing")
        return value

    def all_operands(self) -> list[Value]:
        """Every operand; all are required."""
        return [self.operand(i) for i in range(self.operand_count)]

    def constant(self, index: int) -> np.ndarray | None:
        """The elements of an operand if it is a constant, else None (also when it is left out).

        A few floats of 16 bits that are widened count as one: converters to halves leave them so.
        """
        value = self.optional(index)
        return None if value is None else _known_elements(value)

    def required_constant(self, index: int, what: str) -> np.ndarray:
        """The elements of an operand that must be a constant.

        Raises:
            NotConvertible: when it is computed at run time.
        """
        data = _known_elements(self.operand(index))
        if data is None:
            raise self.unsupported(f"{what} is computed at run time")
        return data

    def ints(self, index: int) -> tuple[int, ...] | None:
        """The elements of an integer operand, flat; None when they aren't known beforehand.

        They are known when it is a constant, or computed from constants and known extents.
        """
        data = self.constant(index)
        if data is not None:
            if data.dtype.kind not in "iub":
                raise self.fail(f"operand {index} is {data.dtype}, must be integers")
            return tuple(int(i) for i in data.reshape(-1))
        return static_shape(self.dims(index))

    def dims(self, index: int) -> Shape:
        """What is known of the elements of a small integer operand; None: not even their number."""
        value = self.optional(index)
        known = None if value is None else elements(value, self.known)
        return None if known is None else tuple(known.reshape(-1).tolist())

    def required_ints(self, index: int, what: str) -> tuple[int, ...]:
        """The elements of an integer operand that must be known beforehand.

        Raises:
            NotConvertible: when it is computed at run time.
        """
        values = self.ints(index)
        if values is None:
            self.operand(index)
            raise self.unsupported(f"{what} is computed at run time")
        return values


_MOST_WIDENED = 64
"""So many elements are parameters; more may be weights, which stay small in a file."""


def _known_elements(value: Value) -> np.ndarray | None:
    """The elements of a constant, or of a few halves that are widened."""
    node = value.producer
    if value.data is not None or node is None or not isinstance(node.op, Cast):
        return value.data
    halves, dtype = node.operand(0), value.dtype
    if halves.data is None or halves.dtype is not DType.FLOAT16 or not dtype.is_float:
        return None
    return halves.data.astype(dtype.numpy) if halves.data.size <= _MOST_WIDENED else None
