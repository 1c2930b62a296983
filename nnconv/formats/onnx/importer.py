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
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import nnconv.formats.onnx.imports as op_package
from nnconv.errors import InvalidModelError, plural
from nnconv.formats.onnx import wire
from nnconv.formats.onnx.as_read import as_read
from nnconv.formats.onnx.types import DTYPES
from nnconv.formats.source import Importers, Integer, ListedOperands, NotConvertible, Number
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Origin, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType

if TYPE_CHECKING:
    from nnconv.formats.onnx.graph import GraphImport

__all__ = ["Importer", "NotConvertible", "Source", "importers"]

Importer: TypeAlias = "Callable[[Source], None]"

MOST_EXTENT = (1 << 40) - 1
"""Beyond what any machine holds: such an extent is a broken file's."""

STANDARD = ""
"""The domain of the standard operator set."""


@cache
def importers() -> Importers:
    """Every importer by op type.

    Ops of other domains are listed as ``domain:op type``.
    """
    return Importers(op_package)


class Source(ListedOperands):
    """One node being imported: its operands, attributes, and where its results go.

    Attributes:
        node: the wire node.
        version: the version of the node's operator set.
        scope: the graph being imported.
    """

    __slots__ = ("node", "scope", "version")

    def __init__(self, node: wire.Node, scope: GraphImport, *, index: int, version: int) -> None:
        self.node = node
        self.scope = scope
        self.version = version
        name = node.name or self.first_name()
        where = f"{scope.label}node #{index}" + (f" (`{name}`)" if name else "")
        origin = Origin(scope.file.source, node.op_type, index, scope.label.rstrip(" ,"))
        op = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
        super().__init__(op, where, Builder(scope.graph, origin=origin))

    def fail(self, message: str) -> InvalidModelError:
        """The exception to raise for a node that breaks a rule of the format."""
        return InvalidModelError(
            message, path=self.scope.path, where=f"{self.node.op_type} at {self.where}"
        )

    def first_name(self) -> str:
        """What the node's first named result is called; empty if there is none."""
        return next((n for n in self.node.outputs if n), "")

    # ---------------------------------------------------------------- operands

    @property
    def operand_count(self) -> int:
        """How many operands the node lists, absent ones included."""
        return len(self.node.inputs)

    @property
    def known(self) -> dict[Value, np.ndarray | None]:
        """What was found out of the elements of small integer tensors."""
        return self.scope.known

    def optional(self, index: int) -> Value | None:
        """An operand, or None where it is left out."""
        if index >= len(self.node.inputs) or not self.node.inputs[index]:
            return None
        return self.scope.value(self.node.inputs[index], self)

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
        inputs, quant = as_read(self.scope, op, inputs, quant)
        return super().add(op, inputs, quant=quant, dtype=dtype)

    def add_many(
        self, op: Op, inputs: Sequence[Value | None], *, bodies: Sequence[Graph] = ()
    ) -> tuple[Value, ...]:
        """Add an IR node of several results that aren't the node's own."""
        if not bodies:
            inputs, _ = as_read(self.scope, op, inputs)
        return super().add_many(op, inputs, bodies=bodies)

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
                raise self.fail(
                    f"{plural(len(self.node.outputs), 'result')}, allowed are {len(types)}"
                )
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
        version: Integer | None = None,
    ) -> list[Value]:
        """Import a node of the standard operator set that isn't in the file; gives its results.

        It means what it means in the model's version of that set, or in ``version``.

        Raises:
            NotConvertible: when it can't be imported.
        """
        base = f"{self.first_name()}/{op_type}"
        names = [f"{base}/{i}" if v is not None else "" for i, v in enumerate(operands)]
        outputs = [f"{base}:{i}" if i else base for i in range(results)]
        node = wire.Node(op_type, names, outputs, attributes, name=self.node.name)
        values = self.scope.values
        hidden = {name: values.pop(name) for name in (*names, *outputs) if name in values}
        values.update((n, v) for n, v in zip(names, operands, strict=True) if v is not None)
        version = version or self.scope.opsets.get(STANDARD, 21)
        inner = Source(node, self.scope, index=-1, version=version)
        inner.where, inner.builder = self.where, self.builder
        importer = importers().get(op_type)
        if importer is None:
            from nnconv.formats.onnx.functions import expansion

            importer = expansion(inner)
        importer(inner)
        if outputs[0] not in values:  # what its definition is made of has been refused
            raise NotConvertible
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
        self, op: Op, inputs: Sequence[Value | None], bodies: Sequence[Graph] = ()
    ) -> list[TensorType]:
        types = super()._infer(op, inputs, bodies)
        for kind in types:
            extents = [dim for dim in kind.shape or () if isinstance(dim, Integer)]
            if not all(0 <= dim <= MOST_EXTENT for dim in extents):
                raise self.fail(f"its result would have the shape {list(kind.shape or ())}")
        return types


_DATA_TYPES = frozenset(int(code) for code in wire.DataType)
