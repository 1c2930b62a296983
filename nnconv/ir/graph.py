"""Value, Node, Graph and Model: a small mutable container with use lists.

Change a graph only through the methods here: they keep uses, producers and the node order right.
Passing over ``graph.nodes`` while inserting or removing nodes is safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.op import Op
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, TensorType


class Origin(NamedTuple):
    """Where a node or value came from, for messages and layer matching."""

    format: str = ""
    op: str = ""
    index: int = -1  # type: ignore[assignment] # nobody wants tuple.index of it
    scope: str = ""

    def __str__(self) -> str:
        place = f"op #{self.index}" if self.index >= 0 else ""
        return " ".join(part for part in (self.scope, place, self.op) if part)


NOWHERE = Origin()

HYBRID_MARK = "hybrid"
"""``Origin.op`` of constants that TFLite's kernels take as codes beside floats."""


class Use(NamedTuple):
    """One reading of a value: input number ``index`` of ``node``."""

    node: Node
    index: int  # type: ignore[assignment] # nobody wants tuple.index of it


class Value:
    """A tensor in a graph: a graph input, a constant, or the result of a node.

    Attributes:
        name: as the source format calls it; unique in a graph only if the source has it so.
        type: dtype, shape and quantization.
        data: the constant's elements (``type.dtype.numpy``, ``type.shape``), else None. Read only.
        producer: the node that makes it, else None.
        index: which of the producer's outputs it is.
        origin: where it came from.
    """

    __slots__ = ("_uses", "data", "index", "name", "origin", "producer", "type")

    def __init__(
        self,
        name: str,
        type: TensorType,
        *,
        data: np.ndarray | None = None,
        origin: Origin = NOWHERE,
    ) -> None:
        """Make a free value: give it to a graph as an input, or let a node produce it."""
        self.name = name
        self.type = type
        self.data = data
        self.origin = origin
        self.producer: Node | None = None
        self.index = 0
        self._uses: dict[tuple[Node, int], None] = {}  # plain tuples: most are never asked for

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.type.dtype

    @property
    def shape(self) -> Shape:
        """Extents."""
        return self.type.shape

    @property
    def quant(self) -> Quant | None:
        """Quantization parameters, if any."""
        return self.type.quant

    @property
    def is_const(self) -> bool:
        """Whether it is a constant."""
        return self.data is not None

    @property
    def uses(self) -> tuple[Use, ...]:
        """Every reading of it by a node, in the order in which they came about."""
        return tuple(map(Use._make, self._uses))

    @property
    def use_count(self) -> int:
        """How many readings there are."""
        return len(self._uses)

    @property
    def goes_out(self) -> bool:
        """Whether it is a node's result that the node's graph gives."""
        graph = None if self.producer is None else self.producer.graph
        return graph is not None and self in graph.outputs

    @property
    def is_wanted(self) -> bool:
        """Whether a node reads it, or it goes out."""
        return bool(self._uses) or self.goes_out

    def replace_all_uses_with(self, other: Value) -> None:
        """Let every reader read ``other`` instead. Graph outputs are the graph's to change."""
        for node, index in self.uses:
            node.replace_input_with(index, other)

    def __repr__(self) -> str:
        kind = "const " if self.is_const else ""
        return f"<Value {kind}{self.name}: {self.type}>"


class Node:
    """An op applied to values.

    Attributes:
        op: what it does.
        outputs: its results, in order.
        bodies: the graphs of a control-flow op, in its docstring's order. They are closed: what a
            body reads comes in through its own inputs.
        origin: where it came from.
        graph: the graph that holds it, else None.
    """

    __slots__ = ("_inputs", "_next", "_previous", "bodies", "graph", "op", "origin", "outputs")

    def __init__(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        *,
        bodies: Sequence[Graph] = (),
        origin: Origin = NOWHERE,
    ) -> None:
        """Make a node that no graph holds yet; its outputs must have no other producer."""
        self.op = op
        self.outputs = tuple(outputs)
        self.bodies = tuple(bodies)
        self.origin = origin
        self.graph: Graph | None = None
        self._inputs: tuple[Value | None, ...] = ()
        self._previous: Node | None = None
        self._next: Node | None = None
        for index, output in enumerate(self.outputs):
            assert output.producer is None, f"{output!r} already has a producer"
            output.producer, output.index = self, index
        self.set_inputs(inputs)

    @property
    def inputs(self) -> tuple[Value | None, ...]:
        """What it reads, None for an absent optional operand."""
        return self._inputs

    def operand(self, index: int) -> Value:
        """An input that the op requires, so that the verifier has seen to its being there."""
        value = self._inputs[index]
        assert value is not None, f"operand {index} of {self.op.name} is required"
        return value

    def optional(self, index: int) -> Value | None:
        """An input that may be absent: None where it is, or beyond the last."""
        return self._inputs[index] if index < len(self._inputs) else None

    def operands(self) -> list[Value | None]:
        """What the op reads, by its formal operands; None for each that is absent.

        Of an op whose last operand stands for any number of them only the first of those.
        """
        return [self.optional(index) for index in range(len(self.op.operands))]

    def set_inputs(self, inputs: Sequence[Value | None]) -> None:
        """Read other values, of any number."""
        for index, value in enumerate(self._inputs):
            if value is not None:
                del value._uses[self, index]
        self._inputs = tuple(inputs)
        for index, value in enumerate(self._inputs):
            if value is not None:
                value._uses[self, index] = None

    def replace_input_with(self, index: int, value: Value | None) -> None:
        """Read ``value`` as input number ``index``."""
        old = self._inputs[index]
        if old is not None:
            del old._uses[self, index]
        self._inputs = (*self._inputs[:index], value, *self._inputs[index + 1 :])
        if value is not None:
            value._uses[self, index] = None

    @property
    def input_types(self) -> tuple[TensorType | None, ...]:
        """Types of the inputs, None for absent ones."""
        return tuple(None if v is None else v.type for v in self._inputs)

    def __repr__(self) -> str:
        return f"<Node {self.op!r} ({', '.join(v.name for v in self.outputs)})>"


class Graph:
    """Nodes in an order in which every value is produced before it is read.

    Attributes:
        name: for people.
        inputs: values that come from outside, in order.
        outputs: values that go out, in order; any value may stand here, and more than once.
    """

    def __init__(self, name: str = "") -> None:
        """Make an empty graph."""
        self.name = name
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self._first: Node | None = None
        self._last: Node | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes in order. A node put behind the current one is met, one put before it isn't."""
        node = self._first
        while node is not None:
            if node.graph is self:  # else it was removed meanwhile; it still knows what followed
                yield node
            node = node._next

    @property
    def nodes_reversed(self) -> Iterator[Node]:
        """The nodes, last first."""
        node = self._last
        while node is not None:
            if node.graph is self:
                yield node
            node = node._previous

    def append(self, node: Node) -> Node:
        """Put a node at the end."""
        self._link(node, self._last, None)
        return node

    def insert_before(self, anchor: Node, node: Node) -> Node:
        """Put a node right before ``anchor``."""
        assert anchor.graph is self, "the anchor is in another graph"
        self._link(node, anchor._previous, anchor)
        return node

    def insert_after(self, anchor: Node, node: Node) -> Node:
        """Put a node right behind ``anchor``."""
        assert anchor.graph is self, "the anchor is in another graph"
        self._link(node, anchor, anchor._next)
        return node

    def prepend(self, node: Node) -> Node:
        """Put a node at the start."""
        self._link(node, None, self._first)
        return node

    def _link(self, node: Node, previous: Node | None, following: Node | None) -> None:
        assert node.graph is None, "the node is in a graph already"
        node.graph, node._previous, node._next = self, previous, following
        if previous is None:
            self._first = node
        else:
            previous._next = node
        if following is None:
            self._last = node
        else:
            following._previous = node
        self._count += 1

    def remove(self, node: Node, *, safe: bool = True) -> None:
        """Take a node out; it stops reading its inputs.

        With ``safe``, its outputs must be unread and not be graph outputs (the caller checks the
        latter in one place: ``output_set``); else the caller is about to give the readers other
        values.
        """
        assert node.graph is self, "the node is in another graph"
        if safe:
            assert not any(v.use_count for v in node.outputs), f"{node!r} is still read"
        node.set_inputs(())
        if node._previous is None:
            self._first = node._next
        else:
            node._previous._next = node._next
        if node._next is None:
            self._last = node._previous
        else:
            node._next._previous = node._previous
        node.graph = None
        self._count -= 1

    def replace_output(self, old: Value, new: Value) -> None:
        """Let ``new`` go out wherever ``old`` did."""
        self.outputs = [new if v is old else v for v in self.outputs]

    def output_set(self) -> set[Value]:
        """The values that go out."""
        return set(self.outputs)

    def constants(self) -> Iterator[Value]:
        """Constants that a node reads or that go out, each once, in order of first meeting."""
        seen: set[Value] = set()
        read = (v for node in self.nodes for v in node.inputs)
        for value in (*read, *self.outputs):
            if value is not None and value.data is not None and value not in seen:
                seen.add(value)
                yield value

    def __repr__(self) -> str:
        return f"<Graph {self.name} ({len(self)} nodes)>"


@dataclass(frozen=True)
class State:
    """A variable made explicit: read as an input of the graph, written as an output.

    Attributes:
        input: the graph input that carries the value in.
        output: the graph output that carries the next value out.
        initial: what the first run gets (the input's dtype and shape).
        name: the variable's name in the source.
    """

    input: Value
    output: Value
    initial: np.ndarray
    name: str


@dataclass
class Signature:
    """An entry point of a model.

    Attributes:
        key: its name, such as ``serving_default``; empty where the source has none.
        graph: what it runs. Its inputs and outputs are first those of the signature, then the
            states'.
        input_names: what the signature calls each input (states left out).
        output_names: what the signature calls each output (states left out).
        states: the variables, at most one entry each; their values close ``graph.inputs`` and
            ``graph.outputs``.
    """

    key: str
    graph: Graph
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    states: tuple[State, ...] = ()

    @property
    def inputs(self) -> Sequence[Value]:
        """Inputs without the states'."""
        return self.graph.inputs[: len(self.graph.inputs) - len(self.states)]

    @property
    def outputs(self) -> Sequence[Value]:
        """Outputs without the states'."""
        return self.graph.outputs[: len(self.graph.outputs) - len(self.states)]


@dataclass
class Model:
    """One or more entry points, and what the file says of itself.

    Attributes:
        signatures: the entry points, at least one.
        format: the format that it was read from.
        source: the file that it was read from, for messages; empty when there is none.
        metadata: named texts or blobs of the source file, for writers of its own format.
        description: the source file's description.
    """

    signatures: list[Signature]
    format: str = ""
    source: str = ""
    metadata: dict[str, bytes] = field(default_factory=dict)
    description: str = ""

    @property
    def main(self) -> Signature:
        """The first entry point."""
        return self.signatures[0]

    @property
    def graph(self) -> Graph:
        """The first entry point's graph."""
        return self.main.graph

    @property
    def inputs(self) -> Sequence[Value]:
        """The first entry point's inputs, states left out.

        Values with .name .dtype .shape .quant.
        """
        return self.main.inputs

    @property
    def outputs(self) -> Sequence[Value]:
        """The first entry point's outputs, states left out."""
        return self.main.outputs

    @property
    def states(self) -> tuple[State, ...]:
        """The first entry point's states."""
        return self.main.states

    def graphs(self) -> Iterator[Graph]:
        """Every graph of every entry point, bodies included, outer ones first."""
        seen: set[Graph] = set()
        stack: list[Graph] = [s.graph for s in reversed(self.signatures)]
        while stack:
            graph = stack.pop()
            if graph in seen:
                continue
            seen.add(graph)
            yield graph
            for node in graph.nodes:
                if node.bodies:
                    stack.extend(node.bodies)


def unique_names(wanted: Iterable[str], *, taken: Iterable[str] = ()) -> list[str]:
    """Each wanted name, or, where it is empty or already used, one made from it that is free."""
    used = set(taken)
    counters: dict[str, int] = {}
    result = []
    for name in wanted:
        free = name
        while not free or free in used:
            number = counters[name] = counters.get(name, 0) + 1
            free = f"{name or 'tensor'}_{number}"
        used.add(free)
        result.append(free)
    return result
