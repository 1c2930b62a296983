"""From the wire to the IR: the context that the op importers work in.

An importer (``nnconv.formats.onnx.imports.<family>``) gets one ``Source``, decodes the node once
and binds IR nodes to its outputs:

    def import_softmax(s: Source) -> None:
        x = s.operand(0)
        s.emit(Softmax(axis=s.axis(s.int("axis", -1), s.rank(x))), [x])

    IMPORTERS = {"Softmax": import_softmax}

What an op meant in older opsets is settled here and nowhere else: ``Source.version`` is the version
of the operator set that the node belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import zip_longest
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

import nnconv.formats.onnx.imports as op_package
from nnconv.errors import GraphError, InvalidModelError, Reason, UnsupportedItem
from nnconv.formats.onnx import wire
from nnconv.formats.onnx.asread import as_read
from nnconv.formats.onnx.types import DTYPES
from nnconv.ir.builder import Builder, infer
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Origin, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, TensorType, static_shape
from nnconv.ops.elements import elements

if TYPE_CHECKING:
    from nnconv.formats.onnx.graph import GraphImport

Importer: TypeAlias = "Callable[[Source], None]"

Built = TypeVar("Built")

Integer: TypeAlias = int
Number: TypeAlias = float
"""What ``Source``, whose methods have those names, can't call so."""

MOST_EXTENT = (1 << 40) - 1
"""Beyond what any machine holds: such an extent is a broken file's."""

STANDARD = ""
"""The domain of the standard operator set."""


class NotConvertible(Exception):  # noqa: N818 - a refusal that the driver collects, not an error
    """Raised by an importer for a node that can't be imported; the driver collects them all."""

    def __init__(self, *items: UnsupportedItem) -> None:
        super().__init__("; ".join(map(str, items)))
        self.items = items


@cache
def importers() -> dict[str, Importer]:
    """Every importer by op type; this loads all of their files.

    Ops of other domains are listed as ``domain:op type``.
    """
    table: dict[str, Importer] = {}
    for module in iter_modules(op_package.__path__):
        family = import_module(f"{op_package.__name__}.{module.name}")
        for name, importer in getattr(family, "IMPORTERS", {}).items():
            assert name not in table, f"two importers of {name}"
            table[name] = importer
    return table


def importer_of(op: str) -> Importer | None:
    """The importer of an op, named as in ``importers``; its file is loaded when it is asked for."""
    stem = op_package.FAMILIES.get(op)
    if stem is None:
        return importers().get(op)
    found: Importer = import_module(f"{op_package.__name__}.{stem}").IMPORTERS[op]
    return found


class Source:
    """One node being imported: its operands, attributes, and where its results go.

    Attributes:
        node: the wire node.
        version: the version of the node's operator set.
        scope: the graph being imported.
        builder: adds IR nodes to the graph under construction; its origin is this node's.
    """

    __slots__ = ("builder", "node", "scope", "version", "where")

    def __init__(self, node: wire.Node, scope: GraphImport, *, index: int, version: int) -> None:
        self.node = node
        self.scope = scope
        self.version = version
        name = node.name or next((n for n in node.outputs if n), "")
        self.where = f"{scope.label}node #{index}" + (f" (`{name}`)" if name else "")
        origin = Origin(scope.file.source, node.op_type, index, scope.label.rstrip(" ,"))
        self.builder = Builder(scope.graph, origin=origin)

    # ---------------------------------------------------------------- operands

    @property
    def operand_count(self) -> int:
        """How many operands the node lists, absent ones included."""
        return len(self.node.inputs)

    def optional(self, index: int) -> Value | None:
        """An operand, or None where it is left out."""
        if index >= len(self.node.inputs) or not self.node.inputs[index]:
            return None
        return self.scope.value(self.node.inputs[index], self)

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
        return [self.operand(i) for i in range(len(self.node.inputs))]

    def constant(self, index: int) -> np.ndarray | None:
        """The elements of an operand if it is a constant, else None (also when it is left out)."""
        value = self.optional(index)
        return None if value is None else value.data

    def required_constant(self, index: int, what: str) -> np.ndarray:
        """The elements of an operand that must be a constant.

        Raises:
            NotConvertible: when it is computed at run time.
        """
        data = self.constant(index)
        if data is None:
            self.operand(index)
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
        known = None if value is None else elements(value, self.scope.known)
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

    def rank(self, value: Value) -> int:
        """The rank of a value.

        Raises:
            NotConvertible: when it isn't known.
        """
        if value.shape is None:
            raise self.unsupported(
                f"the rank of `{value.name}` isn't known",
                hint="Give the shapes of the inputs (--input-shape).",
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

    # ---------------------------------------------------------------- attributes

    def has(self, name: str) -> bool:
        """Whether the node has an attribute of this name."""
        return name in self.node.attributes

    def _attribute(self, name: str, *kinds: type) -> Any:
        value = self.node.attributes.get(name)
        if isinstance(value, wire.Attribute):
            value = value.value
        if value is not None and not isinstance(value, kinds):
            raise self.fail(f"attribute {name} is a {type(value).__name__}")
        return value

    def int(self, name: str, default: Integer | None = None) -> Integer:
        """An integer attribute; without a default it is required."""
        value = self._attribute(name, Integer)
        return int(self._given(name, default if value is None else value))

    def float(self, name: str, default: float | None = None) -> float:
        """A float attribute; without a default it is required."""
        value = self._attribute(name, float, Integer)
        return float(self._given(name, default if value is None else value))

    def text(self, name: str, default: str | None = None) -> str:
        """A string attribute; without a default it is required."""
        value = self._attribute(name, str, bytes)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        return str(self._given(name, default if value is None else value))

    def int_list(self, name: str) -> tuple[Integer, ...] | None:
        """An attribute of integers; None where it is left out."""
        value = self._attribute(name, list, tuple, np.ndarray)
        return None if value is None else tuple(int(i) for i in value)

    def float_list(self, name: str) -> tuple[Number, ...] | None:
        """An attribute of floats; None where it is left out."""
        value = self._attribute(name, list, tuple, np.ndarray)
        return None if value is None else tuple(float(i) for i in value)

    def text_list(self, name: str) -> tuple[str, ...] | None:
        """An attribute of strings; None where it is left out."""
        value = self._attribute(name, list, tuple)
        if value is None:
            return None
        return tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value)

    def tensor(self, name: str) -> wire.Tensor | None:
        """A tensor attribute; None where it is left out."""
        found: wire.Tensor | None = self._attribute(name, wire.Tensor)
        return found

    def graph(self, name: str) -> wire.Graph:
        """A required graph attribute."""
        found: wire.Graph = self._given(name, self._attribute(name, wire.Graph))
        return found

    def dtype(self, name: str, default: DType | None = None) -> DType:
        """An attribute that is an element type's number; without a default it is required."""
        if default is not None and not self.has(name):
            return default
        number = self.int(name)
        found = DTYPES.get(wire.DataType(number)) if number in _DATA_TYPES else None
        if found is None:
            raise self.unsupported(f"attribute {name}: element type {number} isn't supported")
        return found

    def _given(self, name: str, value: Any) -> Any:
        if value is None:
            raise self.fail(f"attribute {name} is missing")
        return value

    # ---------------------------------------------------------------- results

    def wants(self, index: Integer) -> bool:
        """Whether the node gives result number ``index`` a name."""
        return index < len(self.node.outputs) and bool(self.node.outputs[index])

    def add(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        *,
        quant: Quant | None = None,
        dtype: DType | None = None,
    ) -> Value:
        """Add an IR node of one result that isn't the node's own."""
        self._demand(op, inputs)
        inputs, quant = as_read(self.scope, op, inputs, quant)
        name = self._inner(op)
        return self._checked(
            lambda: self.builder.add(op, inputs, name=name, quant=quant, dtype=dtype)
        )

    def add_many(
        self, op: Op, inputs: Sequence[Value | None], *, bodies: Sequence[Graph] = ()
    ) -> tuple[Value, ...]:
        """Add an IR node of several results that aren't the node's own."""
        self._demand(op, inputs)
        if not bodies:
            inputs, _ = as_read(self.scope, op, inputs)
        types = self._infer(op, inputs, bodies)
        return self.builder.add_typed(op, inputs, types, bodies=bodies)

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

    def emit(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        *,
        bodies: Sequence[Graph] = (),
        quants: Sequence[Quant | None] = (),
    ) -> tuple[Value, ...]:
        """Add the IR node whose results are the node's results, in order.

        ``quants`` gives results their quantization parameters.

        Raises:
            InvalidModelError: when the op refuses its operands.
            NotConvertible: when an operand has a type that the IR's op doesn't take.
        """
        self._demand(op, inputs)
        if not bodies and not quants:
            inputs, quant = as_read(self.scope, op, inputs)
            quants = () if quant is None else (quant,)
        types = self._infer(op, inputs, bodies)
        types = [
            kind if quant is None else TensorType(kind.dtype, kind.shape, quant)
            for kind, quant in zip_longest(types, quants[: len(types)])
        ]
        if len(types) < len(self.node.outputs):
            extra = [n for n in self.node.outputs[len(types) :] if n]
            if extra:
                raise self.fail(f"{len(self.node.outputs)} results, allowed are {len(types)}")
        names = [self.node.outputs[i] if self.wants(i) else "" for i in range(len(types))]
        values = self.builder.add_typed(op, inputs, types, names=names, bodies=bodies)
        for index, value in enumerate(values):
            if self.wants(index):
                self.bind(index, value)
        return values

    def standard(
        self,
        op_type: str,
        operands: Sequence[Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        results: Integer = 1,
    ) -> list[Value]:
        """Import a node of the standard operator set that isn't in the file; gives its results."""
        base = f"{next((n for n in self.node.outputs if n), '')}/{op_type}"
        names = [f"{base}/{i}" if v is not None else "" for i, v in enumerate(operands)]
        outputs = [f"{base}:{i}" if i else base for i in range(results)]
        node = wire.Node(op_type, names, outputs, attributes, name=self.node.name)
        values = self.scope.values
        hidden = {name: values.pop(name) for name in (*names, *outputs) if name in values}
        values.update((n, v) for n, v in zip(names, operands, strict=True) if v is not None)
        inner = Source(node, self.scope, index=-1, version=self.scope.opsets.get(STANDARD, 21))
        inner.where, inner.builder = self.where, self.builder
        importer = importer_of(op_type)
        assert importer is not None, f"there is no importer of {op_type}"
        importer(inner)
        found = [values.pop(name) for name in outputs]
        for name in names:
            values.pop(name, None)
        values.update(hidden)
        return found

    def bind(self, index: Integer, value: Value) -> None:
        """Let ``value`` be result number ``index``; nothing happens if the node doesn't want it."""
        if not self.wants(index):
            return
        name = self.node.outputs[index]
        if value.producer is not None and value.producer.origin is self.builder.origin:
            value.name = name
        self.scope.define(name, value, self)

    def _infer(
        self, op: Op, inputs: Sequence[Value | None], bodies: Sequence[Graph]
    ) -> list[TensorType]:
        kinds = [None if v is None else v.type for v in inputs]
        types = self._checked(lambda: infer(op, kinds, bodies))
        for kind in types:
            extents = [dim for dim in kind.shape or () if isinstance(dim, Integer)]
            if not all(0 <= dim <= MOST_EXTENT for dim in extents):
                raise self.fail(f"its result would have the shape {list(kind.shape or ())}")
        return list(types)

    def _inner(self, op: Op) -> str:
        base = next((n for n in self.node.outputs if n), "")
        return f"{base}/{op.name}" if base else ""

    def _demand(self, op: Op, inputs: Sequence[Value | None]) -> None:
        """See that an op has all the operands that it can't do without, of types that it takes."""
        for formal, value in zip_longest(op.operands, inputs[: len(op.operands)]):
            if value is None:
                if not formal.optional and not formal.variadic:
                    raise self.fail(f"operand {formal.name} is missing")
            elif value.dtype not in formal.types:
                raise self.unsupported(f"operand {formal.name} is {value.dtype}")

    def _checked(self, action: Callable[[], Built]) -> Built:
        try:
            return action()
        except (GraphError, ValueError) as error:
            raise self.fail(getattr(error, "message", str(error))) from error
        except (ArithmeticError, LookupError) as error:
            raise self.misfit(error) from error

    # ---------------------------------------------------------------- refusals

    def fail(self, message: str) -> InvalidModelError:
        """The exception to raise for a node that breaks a rule of the format."""
        return InvalidModelError(
            message, path=self.scope.path, where=f"{self.node.op_type} at {self.where}"
        )

    def misfit(self, error: Exception) -> InvalidModelError:
        """The exception to raise where the file's numbers can't be computed with."""
        return self.fail(f"its numbers don't fit together ({type(error).__name__}: {error})")

    def unsupported(
        self, why: str, *, reason: Reason = Reason.NOT_IMPLEMENTED, hint: str = ""
    ) -> NotConvertible:
        """The exception to raise for a node that can't be imported."""
        domain = self.node.domain
        name = f"{domain}:{self.node.op_type}" if domain else self.node.op_type
        return NotConvertible(
            UnsupportedItem(op=name, where=self.where, why=why, reason=reason, hint=hint)
        )


_DATA_TYPES = frozenset(int(code) for code in wire.DataType)
