"""Importing one NNAPI graph: what stands for its operands, and its operations in running order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from nnconv.errors import InvalidModelError
from nnconv.formats.calls import StepImport
from nnconv.formats.nnapi.importer import Source, importers
from nnconv.formats.nnapi.table import MismatchError, match
from nnconv.formats.nnapi.types import DTYPES, PER_CHANNEL, ZERO_POINTS
from nnconv.formats.nnapi.wire import Graph as WireGraph
from nnconv.formats.nnapi.wire import Lifetime, Model, Operation
from nnconv.ir.graph import Graph
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, TensorType


class GraphImport(StepImport):
    """One graph being imported.

    Attributes:
        model: the model that it belongs to.
        source: the graph as the model has it.
    """

    format = "nnapi"

    def __init__(
        self,
        model: Model,
        source: WireGraph,
        *,
        path: str = "",
        label: str = "",
        number: int = -1,
        first: int = 0,
        omitted: Collection[int] = (),
        shapes: Mapping[int, Shape] | None = None,
    ) -> None:
        """Prepare the import of a graph.

        ``omitted`` are inputs that a run gives nothing for; they are no inputs of what is built.
        ``shapes`` take the place of inputs' dimensions.
        """
        super().__init__(source.name, path=path, label=label, number=number, first=first)
        self.model = model
        self.source = source
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
        """Import every operation; what keeps some from that is collected.

        ``given`` says what the inputs are, where the model doesn't.

        Raises:
            InvalidModelError: when an operation has a form that NNAPI doesn't know.
        """
        for number, index in enumerate(self.source.inputs):
            if index not in self._omitted:
                self._add_input(index, None if given is None else given[number])
        return self.run_steps(self.source.operations, self.source.outputs, importers())

    def source_of(self, operation: Operation, index: int) -> Source:
        """The context of importing an operation.

        Raises:
            InvalidModelError: it has a form that NNAPI doesn't know.
        """
        try:
            found = match(operation, self.source)
        except MismatchError as error:
            where = f"{self.label}operation {index} ({operation.code.name})"
            raise InvalidModelError(str(error), path=self.path, where=where) from error
        return Source(operation, index, found, self)

    # ---------------------------------------------------------------- values

    def name_of(self, index: int) -> str:
        """What the value of an operand is called."""
        known = self._names.get(index)
        return known or self.source.operands[index].name or f"operand{index}"

    def is_omitted(self, index: int) -> bool:
        """Whether an operand has no value."""
        operand = self.source.operands[index]
        return operand.lifetime is Lifetime.NO_VALUE or index in self._omitted

    def type_of(self, index: int) -> TensorType:
        """What the model says of an operand."""
        operand = self.source.operands[index]
        shape: Shape = operand.dimensions
        if 0 in operand.dimensions:
            shape = tuple(extent or None for extent in operand.dimensions)
        elif not operand.dimensions and not operand.is_scalar:
            shape = None
        quant = None
        if operand.type is PER_CHANNEL and operand.channel_quant is not None:
            channels = operand.channel_quant
            quant = Quant.per_channel(channels.scales, axis=channels.dim)
        elif operand.type in ZERO_POINTS:
            quant = Quant.per_tensor(operand.scale, operand.zero_point)
        return TensorType(DTYPES[operand.type], shape, quant)

    def is_binding(self, index: int) -> bool:
        """Whether the extents that the model states of a result must be right."""
        operand = self.source.operands[index]
        return operand.lifetime is Lifetime.OUTPUT and not operand.is_scalar

    def data_of(self, index: int) -> np.ndarray | None:
        """The elements of a constant; None for any other operand."""
        return self.source.operands[index].data

    def _add_input(self, index: int, given: TensorType | None) -> None:
        kind = self.stated(index)
        if given is not None:
            kind = TensorType(kind.dtype, given.shape, kind.quant)
        if index in self._shapes:
            kind = kind.with_shape(self._shapes[index])
        self.add_input(index, kind)
