"""A finished model as a program reads it: for shapes of its inputs, or for what they hold."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from nnconv.formats.findings import run_order
from nnconv.formats.nnapi.reader import import_model
from nnconv.formats.nnapi.types import OperandCode
from nnconv.formats.nnapi.wire import Graph, Lifetime, Model, Operand, Operation
from nnconv.ir.graph import Model as IrModel
from nnconv.runtime.core.program import Control, Shapes, Step
from nnconv.runtime.core.source import digest_of, frozen_inputs, numbers
from nnconv.runtime.nnapi.control import CONTROL, bodies_of

LOOP = "WHILE"

SETTINGS = frozenset(
    {OperandCode.INT32, OperandCode.UINT32, OperandCode.BOOL, OperandCode.FLOAT32}
    | {OperandCode.FLOAT16, OperandCode.TENSOR_INT32, OperandCode.TENSOR_BOOL8}
)
"""The types of inputs that may say how an operation works, besides data."""


class ModelSource:
    """A model of NNAPI as a ``core.program.Source``."""

    def __init__(self, model: Model, *, first: int = 0) -> None:
        """Read a model whose first operation messages give the number ``first``."""
        self._model = model
        self._first = first
        self._inputs = [model.main.operands[index] for index in model.main.inputs]
        self.has_loops = any(
            operation.code.name == LOOP
            for _, graph in model.graphs()
            for operation in graph.operations
        )

    def known_shapes(self) -> Shapes | None:
        """The shapes of all inputs, if the model has them."""
        if not all(operand.is_known for operand in self._inputs):
            return None
        return tuple(operand.dimensions for operand in self._inputs)

    def read(self) -> IrModel:
        """The model as it is."""
        return import_model(self._model, first=self._first)

    def specialize(self, shapes: Shapes) -> IrModel:
        """The model for inputs of these shapes."""
        main = self._model.main
        omitted = {i for i, shape in zip(main.inputs, shapes, strict=True) if shape is None}
        operands = list(main.operands)
        for index, shape in zip(main.inputs, shapes, strict=True):
            operand = operands[index]
            if shape is not None and shape != operand.dimensions and 0 not in shape:
                operands[index] = _changed(operand, shape)
        # The model is a finished one: it was checked then.
        checked = all(map(operator.is_, operands, main.operands))
        model = self._with(operands, main.inputs)
        empty = _without_elements(main.inputs, shapes)
        return import_model(model, omitted=omitted, empty=empty, first=self._first, checked=checked)

    def freeze(self, arrays: Sequence[np.ndarray | None], level: int) -> IrModel:
        """The model for these inputs."""
        main = self._model.main
        frozen = self.frozen(level)
        operands = list(main.operands)
        omitted = set()
        for number, (index, array) in enumerate(zip(main.inputs, arrays, strict=True)):
            if array is None:
                omitted.add(index)
            elif number in frozen:
                constant = _changed(operands[index], array.shape)
                constant.lifetime, constant.value = Lifetime.CONSTANT, array
                operands[index] = constant
            elif 0 not in array.shape:
                operands[index] = _changed(operands[index], array.shape)
        rest = [
            index
            for number, index in enumerate(main.inputs)
            if number not in frozen or arrays[number] is None
        ]
        shapes = tuple(None if array is None else array.shape for array in arrays)
        empty = _without_elements(main.inputs, shapes)
        model = self._with(operands, rest)
        return import_model(model, omitted=omitted, empty=empty, first=self._first)

    def frozen(self, level: int) -> frozenset[int]:
        """Which inputs ``freeze`` makes constants."""
        return frozen_inputs([operand.type in SETTINGS for operand in self._inputs], level)

    def _with(self, operands: list[Operand], inputs: Sequence[int]) -> Model:
        main = self._model.main
        graph = Graph(operands, main.operations, inputs, main.outputs, name=main.name)
        return Model(graph, self._model.referenced, relaxed=self._model.relaxed)

    def ends(self) -> tuple[Sequence[int], Sequence[int]]:
        """The operands that are its inputs and outputs."""
        return self._model.main.inputs, self._model.main.outputs

    def steps(self) -> list[Step]:
        """Its operations, in an order in which they can run."""
        return [self._step(number) for number in run_order(self._model.main.operations) or ()]

    def control(self) -> Control | None:
        """How bodies make up a model of one IF or WHILE; None for any other."""
        model = self._model
        operations = model.main.operations
        run = CONTROL.get(operations[0].code.name) if len(operations) == 1 else None
        if run is None:
            return None
        bodies = bodies_of(model)
        sources = {n: ModelSource(model.part(model.referenced[n])) for n in bodies}
        return Control([sources[n] for n in bodies], partial(run, model))

    def _step(self, number: int) -> Step:
        main = self._model.main
        operation = main.operations[number]
        inputs = [i for i in dict.fromkeys(operation.inputs) if _is_fed(main.operands[i])]
        alone = _alone(self._model, operation, inputs)
        return Step(number, ModelSource(alone, first=number), inputs, operation.outputs)

    def fingerprint(self) -> bytes:
        """A digest of the model and all its constants."""
        return digest_of(self._parts())

    def _parts(self) -> Iterator[bytes | np.ndarray]:
        if self._model.relaxed:
            yield b"relaxed"
        for label, graph in self._model.graphs():
            yield f"{label} {graph.inputs} {graph.outputs}\n".encode()
            for operation in graph.operations:
                yield f"{int(operation.code)} {operation.inputs} {operation.outputs}\n".encode()
            for operand in graph.operands:
                quant = operand.channel_quant
                channels = None if quant is None else quant.dim
                value = None if operand.data is not None else operand.value
                yield (
                    f"{int(operand.type)} {operand.dimensions} {operand.scale!r} "
                    f"{operand.zero_point} {operand.lifetime.value} {channels} {value}\n"
                ).encode()
                if quant is not None:
                    yield numbers(quant.scales)
                data = operand.data
                if data is not None:
                    yield data


def _changed(operand: Operand, dimensions: tuple[int, ...]) -> Operand:
    return Operand(
        operand.type,
        dimensions,
        scale=operand.scale,
        zero_point=operand.zero_point,
        lifetime=operand.lifetime,
        channel_quant=operand.channel_quant,
        name=operand.name,
    )


def _without_elements(inputs: Sequence[int], shapes: Shapes) -> dict[int, tuple[int, ...]]:
    """The shapes of inputs without elements, which dimensions can't say: 0 is what isn't known."""
    given = zip(inputs, shapes, strict=True)
    return {index: shape for index, shape in given if shape is not None and 0 in shape}


def _is_fed(operand: Operand) -> bool:
    """Whether an operand's content comes from outside of the operation that reads it."""
    return operand.lifetime not in (Lifetime.CONSTANT, Lifetime.NO_VALUE, Lifetime.MODEL)


def _alone(model: Model, operation: Operation, inputs: Sequence[int]) -> Model:
    """The model of one operation of a model's main graph, which is fed these operands."""
    places = list(dict.fromkeys((*operation.inputs, *operation.outputs)))
    numbers = {place: number for number, place in enumerate(places)}
    operands = [model.main.operands[place] for place in places]
    for place in inputs:
        operands[numbers[place]] = _at_edge(model.main.operands[place], Lifetime.INPUT)
    for place in operation.outputs:
        operands[numbers[place]] = _at_edge(model.main.operands[place], Lifetime.OUTPUT)
    taken, given, results = (
        [numbers[place] for place in listed]
        for listed in (operation.inputs, inputs, operation.outputs)
    )
    graph = Graph(operands, [Operation(operation.code, taken, results)], given, results)
    return model.part(graph)


def _at_edge(operand: Operand, lifetime: Lifetime) -> Operand:
    found = _changed(operand, operand.dimensions)
    found.lifetime = lifetime
    return found
