"""A finished model as a program reads it: for shapes of its inputs, or for what they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nnconv.formats.findings import run_order
from nnconv.formats.nnrt.reader import import_model
from nnconv.formats.nnrt.types import DataType
from nnconv.formats.nnrt.wire import Graph, Operation, Tensor
from nnconv.ir.graph import Model as IrModel
from nnconv.runtime.core.program import Shapes, Step
from nnconv.runtime.core.source import digest_of, frozen_inputs, numbers

SETTINGS = frozenset({DataType.INT32, DataType.INT64, DataType.BOOL})
"""The types of inputs that may say how an operation works, besides data."""


class ModelSource:
    """A model of NNRt as a ``core.program.Source``."""

    has_loops = False

    def __init__(self, graph: Graph, *, first: int = 0) -> None:
        """Read a graph whose first operation messages give the number ``first``."""
        self._graph = graph
        self._first = first
        self._inputs = [graph.tensors[index] for index in graph.inputs]

    def known_shapes(self) -> Shapes | None:
        """The shapes of all inputs, if the model has them."""
        if not all(tensor.is_known for tensor in self._inputs):
            return None
        return tuple(tensor.dimensions for tensor in self._inputs)

    def read(self) -> IrModel:
        """The model as it is."""
        return import_model(self._graph, first=self._first)

    def specialize(self, shapes: Shapes) -> IrModel:
        """The model for inputs of these shapes."""
        graph = self._graph
        tensors = list(graph.tensors)
        for index, shape in zip(graph.inputs, shapes, strict=True):
            if shape is not None and shape != tensors[index].dimensions:
                tensors[index] = _changed(tensors[index], shape)
        return import_model(self._with(tensors, graph.inputs), first=self._first)

    def freeze(self, arrays: Sequence[np.ndarray | None], level: int) -> IrModel:
        """The model for these inputs."""
        graph = self._graph
        frozen = self.frozen(level)
        tensors = list(graph.tensors)
        for number, (index, array) in enumerate(zip(graph.inputs, arrays, strict=True)):
            if array is not None:
                data = array if number in frozen else None
                tensors[index] = _changed(tensors[index], array.shape, data)
        rest = [index for number, index in enumerate(graph.inputs) if number not in frozen]
        return import_model(self._with(tensors, rest), first=self._first)

    def frozen(self, level: int) -> frozenset[int]:
        """Which inputs ``freeze`` makes constants."""
        return frozen_inputs([tensor.data_type in SETTINGS for tensor in self._inputs], level)

    def _with(self, tensors: Sequence[Tensor], inputs: Sequence[int]) -> Graph:
        graph = self._graph
        return Graph(
            tensors, graph.operations, inputs, graph.outputs, api=graph.api, name=graph.name
        )

    def ends(self) -> tuple[Sequence[int], Sequence[int]]:
        """The tensors that are its inputs and outputs."""
        return self._graph.inputs, self._graph.outputs

    def steps(self) -> list[Step]:
        """Its operations, in an order in which they can run."""
        return [self._step(number) for number in run_order(self._graph.operations) or ()]

    def control(self) -> None:
        """No operation of NNRt runs others."""

    def _step(self, number: int) -> Step:
        graph, operation = self._graph, self._graph.operations[number]
        inputs = [i for i in dict.fromkeys(operation.inputs) if graph.tensors[i].data is None]
        alone = ModelSource(_alone(graph, operation, inputs), first=number)
        return Step(number, alone, inputs, operation.outputs)

    def fingerprint(self) -> bytes:
        """A digest of the model and all its constants."""
        return digest_of(self._parts())

    def _parts(self) -> Iterator[bytes | np.ndarray]:
        graph = self._graph
        yield f"nnrt {graph.api} {graph.inputs} {graph.outputs}\n".encode()
        for operation in graph.operations:
            yield (
                f"{int(operation.type)} {operation.params} {operation.inputs} {operation.outputs}\n"
            ).encode()
        for tensor in graph.tensors:
            yield (
                f"{int(tensor.type)} {int(tensor.data_type)} {tensor.dimensions} "
                f"{tensor.quant is None} {tensor.data is None}\n"
            ).encode()
            if tensor.quant is not None:
                yield numbers(tensor.quant.scales)
                yield numbers(tensor.quant.zero_points)
            if tensor.data is not None:
                yield tensor.data


def _changed(tensor: Tensor, dimensions: tuple[int, ...], data: np.ndarray | None = None) -> Tensor:
    return Tensor(
        tensor.data_type,
        dimensions,
        type=tensor.type,
        quant=tensor.quant,
        data=tensor.data if data is None else data,
        name=tensor.name,
    )


def _alone(graph: Graph, operation: Operation, inputs: Sequence[int]) -> Graph:
    """The model of one operation of a model, which is fed these tensors."""
    places = list(dict.fromkeys((*operation.params, *operation.inputs, *operation.outputs)))
    numbers = {place: number for number, place in enumerate(places)}
    params, taken, given, results = (
        [numbers[place] for place in listed]
        for listed in (operation.params, operation.inputs, inputs, operation.outputs)
    )
    step = Operation(operation.type, params, taken, results)
    return Graph([graph.tensors[place] for place in places], [step], given, results, api=graph.api)
