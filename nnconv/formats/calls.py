"""Importing models that are built by calls: what NNAPI and NNRt have in common.

Their operations refer to operands by index, and what is said of a result counts where it is an
output of the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from nnconv.errors import (
    InvalidModelError,
    UnsupportedError,
    UnsupportedItem,
    UsageError,
    plural,
)
from nnconv.formats.findings import BrokenModelError, Finding, Step, run_order
from nnconv.formats.hints import naming
from nnconv.formats.source import Integer, Number, OpSource
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model, Origin, Signature, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import Quant
from nnconv.ir.types import Dim, Shape, TensorType, merge_shapes


class StepImport(ABC):
    """One graph of such a model being imported.

    Attributes:
        path: the file, for messages.
        label: what messages call the graph, with a comma behind; empty for the main one.
        place: the same without the comma.
        graph: what is being built.
        values: IR value of each operand that has one, by index.
        unsupported: what can't be imported.
        faults: what operations break of the format's rules.
        number: which of the model's graphs it is; -1 for the main one.
        first: the number of its first operation, for messages.
    """

    format: str
    """The format's name."""

    def __init__(
        self, name: str, *, path: str, label: str, number: int = -1, first: int = 0
    ) -> None:
        self.path = path
        self.first = first
        self.number = number
        self.label = f"{label}, " if label else ""
        self.place = label
        self.graph = Graph(name or label)
        self.values: dict[int, Value] = {}
        self.unsupported: list[UnsupportedItem] = []
        self.faults: list[Finding] = []
        self._types: dict[int, TensorType] = {}
        self._doubtful: set[int] = set()

    # What a format says of its models.

    @abstractmethod
    def name_of(self, index: int) -> str:
        """What the value of an operand is called."""

    @abstractmethod
    def type_of(self, index: int) -> TensorType:
        """What the model says of an operand: dtype, shape, quantization; asked once."""

    @abstractmethod
    def is_binding(self, index: int) -> bool:
        """Whether the extents that the model states of a result must be right."""

    @abstractmethod
    def data_of(self, index: int) -> np.ndarray | None:
        """The elements of a constant; None for any other operand."""

    @abstractmethod
    def source_of(self, operation: Any, index: int) -> StepSource:
        """The context of importing an operation.

        Raises:
            InvalidModelError: it has a form that the format doesn't know.
        """

    # What is common.

    def run_steps(
        self, operations: Sequence[Step], outputs: Sequence[int], table: Mapping[str, Any]
    ) -> Graph:
        """Import every operation; ``unsupported`` and ``faults`` collect what keeps it from that.

        Raises:
            InvalidModelError: when the operations form a circle.
        """
        order = run_order(operations)
        if order is None:
            raise InvalidModelError("its operations form a circle", path=self.path)
        for index in order:
            self._import(operations[index], self.first + index, table)
        if not self.unsupported and not self.faults:
            self.graph.outputs = [self.value(index) for index in outputs]
        return self.graph

    def _import(self, operation: Step, index: int, table: Mapping[str, Any]) -> None:
        source = self.source_of(operation, index)
        before = len(self.faults)

        def read() -> None:
            source.demand()
            importer = table.get(source.name)
            if importer is None:
                raise source.unsupported("nnconv can't read this operation yet")
            importer(source)

        try:
            self.unsupported.extend(source.attempt(read))
        except BrokenModelError as error:
            self.faults += error.findings
        is_doubtful = not self._doubtful.isdisjoint(operation.inputs)
        if is_doubtful:
            del self.faults[before:]  # they may be due to what stands in for its inputs
        if self.unsupported or self.faults:
            self._stand_in(operation, is_doubtful=is_doubtful)

    def _stand_in(self, operation: Step, *, is_doubtful: bool) -> None:
        """Give results to an operation that failed, so that the rest can be looked at as well."""
        for place in operation.outputs:
            if place not in self.values:
                self.values[place] = Value(self.name_of(place), self.stated(place))
                self._doubtful.add(place)
            elif is_doubtful:
                self._doubtful.add(place)

    def stated(self, index: int) -> TensorType:
        """What the model says of an operand: dtype, shape, quantization."""
        found = self._types.get(index)
        if found is None:
            found = self._types[index] = self.type_of(index)
        return found

    def value(self, index: int, reader: StepSource | None = None) -> Value:
        """The IR value of an operand: what produced it, an input, or a constant.

        Raises:
            InvalidModelError: when nothing gives it content.
        """
        found = self.values.get(index)
        if found is None:
            data = self.data_of(index)
            if data is None:
                message = f"operand {index} is read, but nothing gives it content"
                raise reader.fail(message) if reader else InvalidModelError(message, path=self.path)
            kind = self.stated(index)
            if kind.dtype is DType.BOOL:
                data = data != 0
            kind = kind.with_shape(data.shape)
            found = Value(self.name_of(index), kind, data=data, origin=self._origin(index))
            self.values[index] = found
        return found

    def add_input(self, index: int, kind: TensorType) -> None:
        """Let an operand be an input of the graph."""
        value = Value(self.name_of(index), kind, origin=self._origin(index))
        self.graph.inputs.append(value)
        self.values[index] = value

    def _origin(self, index: int) -> Origin:
        return Origin(self.format, "", index, self.place)


def shapes_by_index(
    names: Mapping[str, int], input_shapes: Mapping[str, Shape] | None
) -> dict[int, Shape]:
    """Shapes that take the place of inputs', by operand.

    Raises:
        UsageError: there is no such input.
    """
    given = input_shapes or {}
    if wrong := [name for name in given if name not in names]:
        raise UsageError(
            f"input_shapes: there is no input {', '.join(map(repr, wrong))}; "
            f"the model's inputs are {', '.join(map(repr, names))}"
        )
    return {names[name]: shape for name, shape in given.items()}


def imported(scope: StepImport, outputs: Sequence[int]) -> Model:
    """The model whose graph was imported.

    Raises:
        InvalidModelError: operations break rules of the format; all that do are listed.
        UnsupportedError: it has operations that can't be imported; all of them are listed.
    """
    if scope.faults:
        raise BrokenModelError(list(dict.fromkeys(scope.faults)), path=scope.path)
    if scope.unsupported:
        items = naming(scope.unsupported, scope.graph.inputs)
        raise UnsupportedError(dict.fromkeys(items), path=scope.path)
    entry = Signature(
        "",
        scope.graph,
        input_names=tuple(value.name for value in scope.graph.inputs),
        output_names=tuple(scope.name_of(index) for index in outputs),
    )
    return Model(signatures=[entry], format=scope.format, source=scope.path)


class StepSource(OpSource):
    """One operation being imported: what adds nodes for it, and where its results go.

    Attributes:
        op: the operation.
        outputs: indices of its results.
        match: what its operands are.
        scope: the graph being imported.
    """

    __slots__ = ("_index", "match", "op", "outputs", "scope")

    op: Step
    match: Any
    scope: StepImport

    def __init__(self, op: Step, index: Integer, match: Any, scope: StepImport) -> None:
        name = match.spec.name
        origin = Origin(scope.format, name, index, scope.place)
        builder = Builder(scope.graph, origin=origin)
        super().__init__(name, f"{scope.label}operation {index}", builder)
        self.op = op
        self.outputs = op.outputs
        self.match = match
        self.scope = scope
        self._index = index

    def fail(self, message: str) -> BrokenModelError:
        """The exception to raise for an operation that breaks a rule of the format."""
        where = f"{self.where} ({self.name})"
        found = Finding(where, message, operation=self._index, graph=self.scope.number)
        return BrokenModelError([found], path=self.scope.path)

    def demand(self) -> None:
        """See that the operands are what the format's tables say, before they are read.

        Raises:
            InvalidModelError: they aren't.
        """

    def first_name(self) -> str:
        """What the operation's first result is called."""
        return self.scope.name_of(self.outputs[0])

    # ---------------------------------------------------------------- operands

    @abstractmethod
    def operand(self, name: str) -> Value:
        """A required input."""

    def ints(self, name: str) -> tuple[Integer, ...] | None:
        """The elements of an integer tensor, flat; None where they are computed at run time."""
        data = self.operand(name).data
        return None if data is None else tuple(Integer(i) for i in data.reshape(-1))

    def required_ints(self, name: str) -> tuple[Integer, ...]:
        """The elements of an integer tensor that must be known.

        Raises:
            NotConvertible: when they are computed at run time.
        """
        values = self.ints(name)
        if values is None:
            raise self.unsupported(
                f"{name} is computed at run time", hint="Make it a constant of the model."
            )
        return values

    def of_rank(self, value: Value, rank: Integer) -> Value:
        """The value, if it has this rank, as far as that is known.

        Raises:
            InvalidModelError: when it has another one.
        """
        if value.shape is not None and len(value.shape) != rank:
            raise self.fail(f"`{value.name}` has rank {len(value.shape)}, must have {rank}")
        return value

    def check_groups(self, channels: Dim, filters: Sequence[Integer], groups: Integer) -> None:
        """See that an image's channels and filters OHWI fall into so many groups.

        Raises:
            InvalidModelError: they don't.
        """
        if isinstance(channels, Integer) and channels != filters[3] * groups:
            raise self.fail(
                f"{plural(channels, 'channel')} for a filter of {filters[3]} in "
                f"{plural(groups, 'group')}"
            )
        if filters[0] % groups:
            raise self.fail(f"{plural(filters[0], 'filter')} for {plural(groups, 'group')}")

    # ---------------------------------------------------------------- parameters

    @abstractmethod
    def single(self, name: str) -> Any:
        """The only element of a parameter, or its default."""

    def int(self, name: str) -> Integer:
        """An integer parameter, or its default."""
        return Integer(self.single(name))

    def positive(self, name: str) -> Integer:
        """An integer parameter above 0."""
        number = self.int(name)
        if number < 1:
            raise self.fail(f"{name} is {number}, must be above 0")
        return number

    def float(self, name: str) -> Number:
        """A float parameter, or its default; float32."""
        return Number(np.float32(self.single(name)))

    def bool(self, name: str) -> bool:
        """A truth value, or its default."""
        return self.single(name) not in (0, False)

    # ---------------------------------------------------------------- results

    @abstractmethod
    def result_quant(self, index: Integer = 0) -> Quant | None:
        """The parameters that a result gets."""

    def emit(
        self, op: Op, inputs: Sequence[Value | None], *, bodies: Sequence[Graph] = ()
    ) -> tuple[Value, ...]:
        """Add the node whose results are the operation's, in order; further ones stay its own."""
        self._demand(op, inputs)
        inferred = self._infer(op, inputs, bodies)
        for index in range(min(len(inferred), len(self.outputs))):
            kind = inferred[index]
            quant = kind.quant if bodies else self.result_quant(index)
            if quant != kind.quant:
                inferred[index] = TensorType(kind.dtype, kind.shape, quant)
        values = self.builder.add_typed(op, inputs, inferred, bodies=bodies)
        for index, value in enumerate(values[: len(self.outputs)]):
            self.bind(index, value)
        return values

    def bind(self, index: Integer, value: Value) -> None:
        """Let ``value`` be result number ``index``.

        Raises:
            InvalidModelError: when the model states another type, or other extents of an output.
        """
        place = self.outputs[index]
        kind = self.scope.stated(place)
        if kind.dtype is not value.dtype:
            raise self.fail(f"output {index} is {kind.dtype}, the operation gives {value.dtype}")
        if self.scope.is_binding(place):
            self._check_extents(index, kind.shape, value.shape)
        if value.shape is None or None in value.shape:
            value.type = value.type.with_shape(merge_shapes(value.shape, kind.shape))
        value.name = self.scope.name_of(place)
        self.scope.values[place] = value

    def _check_extents(self, index: Integer, stated: Shape, given: Shape) -> None:
        if stated is None or given is None:
            return
        pairs = zip_longest(stated, given)
        if any(isinstance(a, Integer) and isinstance(b, Integer) and a != b for a, b in pairs):
            fits = False
        else:
            fits = len(stated) == len(given)
        if not fits:
            raise self.fail(
                f"output {index} states the dimensions {list(stated)}, "
                f"the operation gives {list(given)}"
            )
