"""NNAPI models as plain objects: what the API's calls build, in its own terms.

The classes know nothing of the IR and check nothing when made: :mod:`nnconv.formats.nnapi.check`
tells whether a model keeps the rules of NNAPI.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

import numpy as np

from nnconv.formats.nnapi.types import NUMPY, SCALARS, OperandCode, OperationCode


class Lifetime(Enum):
    """Where an operand's content comes from. The values are what the file format calls them."""

    TEMPORARY = "temporary"
    """An operation writes it."""

    INPUT = "input"
    OUTPUT = "output"

    CONSTANT = "constant"
    """It has a value."""

    NO_VALUE = "no_value"
    """An optional operand that is left out."""

    MODEL = "model"
    """It is a referenced model."""


class ChannelQuant:
    """A scale per index of one dimension.

    Attributes:
        dim: the dimension.
        scales: float32 numbers, one per index.
    """

    __slots__ = ("dim", "scales")

    def __init__(self, dim: int, scales: Sequence[float]) -> None:
        self.dim = dim
        self.scales = tuple(scales)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChannelQuant):
            return NotImplemented
        return self.dim == other.dim and self.scales == other.scales

    def __hash__(self) -> int:
        return hash((self.dim, self.scales))

    def __repr__(self) -> str:
        return f"ChannelQuant({self.dim}, {len(self.scales)} scales)"


class Operand:
    """An operand of a graph.

    Attributes:
        type: its type.
        dimensions: the extents, 0 where one isn't known; ``()`` for a scalar, and for a tensor
            whose rank isn't known.
        scale, zero_point: how its numbers stand for real ones; the scale is a float32 number.
        lifetime: where its content comes from.
        channel_quant: the scales of a per-channel type.
        value: the elements of a constant (the type's numpy type, ``dimensions`` as shape), never to
            be changed in place: one constant may serve several operations. For a referenced model,
            its index. Else None.
        name: what a file calls it; may be empty.
    """

    __slots__ = (
        "channel_quant", "dimensions", "lifetime", "name", "scale", "type", "value", "zero_point",
    )  # fmt: skip

    def __init__(
        self,
        type: OperandCode,
        dimensions: Sequence[int] = (),
        *,
        scale: float = 0.0,
        zero_point: int = 0,
        lifetime: Lifetime = Lifetime.TEMPORARY,
        channel_quant: ChannelQuant | None = None,
        value: np.ndarray | int | None = None,
        name: str = "",
    ) -> None:
        self.type = type
        self.dimensions = tuple(dimensions)
        self.scale = scale
        self.zero_point = zero_point
        self.lifetime = lifetime
        self.channel_quant = channel_quant
        self.value = value
        self.name = name

    @property
    def is_scalar(self) -> bool:
        """Whether its type has no dimensions."""
        return self.type in SCALARS

    @property
    def rank(self) -> int | None:
        """How many dimensions; None where that isn't known."""
        if self.is_scalar:
            return 0
        return len(self.dimensions) or None

    @property
    def is_known(self) -> bool:
        """Whether every extent is known."""
        return self.is_scalar or (bool(self.dimensions) and 0 not in self.dimensions)

    @property
    def data(self) -> np.ndarray | None:
        """The elements of a constant; None for any other operand."""
        return self.value if isinstance(self.value, np.ndarray) else None

    @property
    def body(self) -> int | None:
        """The number of the graph that it names; None for any other operand."""
        if self.lifetime is Lifetime.MODEL and isinstance(self.value, int):
            return self.value
        return None

    @property
    def nbytes(self) -> int:
        """How many bytes the elements take; 0 where an extent isn't known."""
        if self.type is OperandCode.MODEL or not self.is_known:
            return 0
        count = 1
        for extent in self.dimensions:
            count *= extent
        return count * NUMPY[self.type].itemsize

    def __repr__(self) -> str:
        shape = list(self.dimensions)
        return f"<Operand {self.type.name} {shape} {self.lifetime.value} {self.name}>"


class Operation:
    """An operation of a graph.

    Attributes:
        code: what it does.
        inputs, outputs: indices of operands.
    """

    __slots__ = ("code", "inputs", "outputs")

    def __init__(self, code: OperationCode, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self.code = code
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)

    def __repr__(self) -> str:
        return f"<Operation {self.code.name} {self.inputs} -> {self.outputs}>"


class Graph:
    """Operands and operations.

    Attributes:
        operands: all operands; what refers to one gives its index.
        operations: in any order; ``findings.run_order`` gives one to run them in.
        inputs, outputs: indices of operands.
        name: for people.
    """

    __slots__ = ("inputs", "name", "operands", "operations", "outputs")

    def __init__(
        self,
        operands: Sequence[Operand] = (),
        operations: Sequence[Operation] = (),
        inputs: Sequence[int] = (),
        outputs: Sequence[int] = (),
        *,
        name: str = "",
    ) -> None:
        self.operands = list(operands)
        self.operations = list(operations)
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.name = name

    def calls(self) -> Iterator[int]:
        """The numbers of the graphs that its operands name."""
        return (operand.body for operand in self.operands if operand.body is not None)

    def __repr__(self) -> str:
        return f"<Graph {self.name} {len(self.operations)} operations>"


class Model:
    """A graph and the graphs that its IF and WHILE run.

    Attributes:
        main: what the model runs.
        referenced: the graphs that operands of the lifetime MODEL name, by number.
        relaxed: whether float32 may be computed as coarsely as float16.
    """

    __slots__ = ("main", "referenced", "relaxed")

    def __init__(
        self,
        main: Graph,
        referenced: Sequence[Graph] | Mapping[int, Graph] = (),
        *,
        relaxed: bool = False,
    ) -> None:
        """Make a model; graphs without numbers have theirs by their order."""
        numbered = referenced if isinstance(referenced, Mapping) else enumerate(referenced)
        self.main = main
        self.referenced = dict(numbered)
        self.relaxed = relaxed

    def graphs(self) -> Iterator[tuple[str, Graph]]:
        """Every graph with what messages call it, the main one first."""
        yield "main", self.main
        for number, graph in self.referenced.items():
            yield f"model {number}", graph

    def part(self, main: Graph) -> Model:
        """The model of another main graph, with the referenced ones alone that it comes to."""
        found: dict[int, Graph] = {}
        rest = [main]
        while rest:
            for number in rest.pop().calls():
                if number in self.referenced and number not in found:
                    found[number] = self.referenced[number]
                    rest.append(found[number])
        return Model(main, found, relaxed=self.relaxed)

    def __repr__(self) -> str:
        return f"<Model {self.main!r}, {len(self.referenced)} referenced>"
