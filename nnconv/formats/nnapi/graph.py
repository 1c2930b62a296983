"""Importing one NNAPI graph: what stands for its operands, and its operations in running order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from nnconv.errors import GraphError, InvalidModelError, UnsupportedItem
from nnconv.formats.findings import run_order
from nnconv.formats.nnapi.importer import Importer, NotConvertible, Source, importers
from nnconv.formats.nnapi.table import MismatchError, match
from nnconv.formats.nnapi.types import DTYPES, PER_CHANNEL, ZERO_POINTS
from nnconv.formats.nnapi.wire import Graph as WireGraph
from nnconv.formats.nnapi.wire import Lifetime, Model, Operand, Operation
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Origin, Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, TensorType


class GraphImport:
    """One graph being imported.

    Attributes:
        model: the model that it belongs to.
        source: the graph as the model has it.
        path: the file, for messages.
        label: what messages call the graph; empty for the main one.
        graph: what is being built.
        values: IR value of each operand that has one.
        unsupported: what can't be imported.
    """

    def __init__(
        self,
        model: Model,
        source: WireGraph,
        *,
        path: str = "",
        label: str = "",
        omitted: Collection[int] = (),
        shapes: Mapping[int, Shape] | None = None,
    ) -> None:
        """Prepare the import of a graph.

        ``omitted`` are inputs that a run gives nothing for; they are no inputs of what is built.
        ``shapes`` take the place of inputs' dimensions.
        """
        self.model = model
        self.source = source
        self.path = path
        self.label = f"{label}, " if label else ""
        self.graph = Graph(source.name or label)
        self.values: dict[int, Value] = {}
        self.unsupported: list[UnsupportedItem] = []
        self._omitted = frozenset(omitted)
        self._shapes = shapes or {}
        places = [*source.inputs, *source.outputs]
        kinds = ["input"] * len(source.inputs) + ["output"] * len(source.outputs)
        counters = [*range(len(source.inputs)), *range(len(source.outputs))]
        self._names = {
            place: source.operands[place].name or f"{kind}{count}"
            for place, kind, count in zip(places, kinds, counters, strict=True)
        }

    def run(self, given: Sequence[TensorType] | None = None) -> Graph:
        """Import every operation; what can't be imported is collected in ``unsupported``.

        ``given`` says what the inputs are, where the model doesn't.

        Raises:
            InvalidModelError: when an operation breaks a rule of NNAPI.
        """
        for number, index in enumerate(self.source.inputs):
            if index not in self._omitted:
                self._add_input(index, None if given is None else given[number])
        order = run_order(self.source.operations)
        if order is None:
            raise InvalidModelError("its operations form a circle", path=self.path)
        table = importers()
        for index in order:
            self._import(self.source.operations[index], index, table)
        if not self.unsupported:
            self.graph.outputs = [self.value(index) for index in self.source.outputs]
        return self.graph

    def _import(self, op: Operation, index: int, table: Mapping[str, Importer]) -> None:
        try:
            found = match(op, self.source)
        except MismatchError as error:
            where = f"{self.label}operation {index} ({op.code.name})"
            raise InvalidModelError(str(error), path=self.path, where=where) from error
        source = Source(op, index, found, self)
        try:
            importer = table.get(source.name)
            if importer is None:
                raise source.unsupported("nnconv can't read this operation yet")
            importer(source)
        except NotConvertible as refusal:
            self.unsupported.append(refusal.item)
        except GraphError as error:
            raise source.fail(error.message) from error
        except (ArithmeticError, LookupError, ValueError) as error:
            raise source.misfit(error) from error
        if self.unsupported:
            self._stand_in(op)

    def _stand_in(self, op: Operation) -> None:
        """Give results to an operation that failed, so that the rest can be looked at as well."""
        for index in op.outputs:
            if index not in self.values:
                kind = self.type_of(self.source.operands[index])
                self.values[index] = Value(self.name_of(index), kind)

    # ---------------------------------------------------------------- values

    def name_of(self, index: int) -> str:
        """What the value of an operand is called."""
        known = self._names.get(index)
        return known or self.source.operands[index].name or f"operand{index}"

    def is_omitted(self, index: int) -> bool:
        """Whether an operand has no value."""
        operand = self.source.operands[index]
        return operand.lifetime is Lifetime.NO_VALUE or index in self._omitted

    @staticmethod
    def type_of(operand: Operand) -> TensorType:
        """What the model says of an operand: dtype, shape, quantization."""
        shape: Shape = tuple(extent or None for extent in operand.dimensions)
        if not operand.is_scalar and not operand.dimensions:
            shape = None
        quant = None
        if operand.type is PER_CHANNEL and operand.channel_quant is not None:
            channels = operand.channel_quant
            quant = Quant.per_channel(channels.scales, axis=channels.dim)
        elif operand.type in ZERO_POINTS:
            quant = Quant.per_tensor(operand.scale, operand.zero_point)
        return TensorType(DTYPES[operand.type], shape, quant)

    def value(self, index: int, reader: Source | None = None) -> Value:
        """The IR value of an operand: what produced it, an input, or a constant.

        Raises:
            InvalidModelError: when nothing gives it content.
        """
        found = self.values.get(index)
        if found is None:
            data = self.source.operands[index].data
            if data is None:
                message = f"operand {index} is read, but nothing gives it content"
                raise reader.fail(message) if reader else InvalidModelError(message, path=self.path)
            found = self.values[index] = self._constant(index, data)
        return found

    def _constant(self, index: int, data: np.ndarray) -> Value:
        kind = self.type_of(self.source.operands[index])
        if kind.dtype is DType.BOOL:
            data = data != 0
        origin = Origin("nnapi", "", index, self.label.rstrip(" ,"))
        return Value(self.name_of(index), kind.with_shape(data.shape), data=data, origin=origin)

    def _add_input(self, index: int, given: TensorType | None) -> None:
        kind = self.type_of(self.source.operands[index])
        if given is not None:
            kind = TensorType(kind.dtype, given.shape, kind.quant)
        if index in self._shapes:
            kind = kind.with_shape(self._shapes[index])
        origin = Origin("nnapi", "", index, self.label.rstrip(" ,"))
        value = Value(self.name_of(index), kind, origin=origin)
        self.graph.inputs.append(value)
        self.values[index] = value
