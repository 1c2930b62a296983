"""The variables of a file: variable tensors, and resources reached through handles.

The IR has no variables: each becomes a state, a graph input that carries its value in and a graph
output that carries the next one out. A body that uses a variable gets it through an input and an
output of its own, which its node passes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

import numpy as np

from nnconv.errors import InvalidModelError, NnconvError
from nnconv.ir.graph import Graph, Origin, State, Value
from nnconv.ir.types import Shape, TensorType, join_shapes, static_shape

Key: TypeAlias = tuple[str | int, ...]
"""Tells variables apart: ("resource", container, name) or ("tensor", subgraph, index)."""

MOST_BODIES = 10_000
"""How many subgraphs an import may go into, each call counted: a few subgraphs that call each other
twice could else ask for more work than any real file does."""

DEEPEST = 40
"""How deep subgraphs may be inside each other."""

_MOST_BYTES = 1 << 31


class Variable(NamedTuple):
    """What is known of a variable.

    Attributes:
        key: tells it apart.
        name: for people, and for the state's input.
        kind: type of its value; extents that change from run to run are open.
        initial: what it holds before the first run.
    """

    key: Key
    name: str
    kind: TensorType
    initial: np.ndarray

    def start(self) -> Value:
        """What it holds before the first run, as a constant."""
        return Value(self.name, self.kind.with_shape(self.initial.shape), data=self.initial)


class FileVariables:
    """What all imports of one file share.

    Attributes:
        known: the variables met so far.
        initial: types and values that resources get from the subgraphs that CALL_ONCE runs; None
            until asked for.
        widened: whether an extent had to be opened since this was last reset; what was imported
            before must then be imported again.
    """

    def __init__(self) -> None:
        self.known: dict[Key, Variable] = {}
        self.initial: dict[Key, tuple[TensorType, np.ndarray]] | None = None
        self.widened = False
        self._bodies = 0

    def enter(self, depth: int, fail: Callable[[str], InvalidModelError]) -> None:
        """Count a subgraph that is gone into, ``depth`` levels inside the entry point.

        Raises:
            InvalidModelError: made by ``fail``, when there are too many, or they are too deep.
        """
        self._bodies += 1
        if self._bodies > MOST_BODIES:
            raise fail("the calls between subgraphs branch out without end")
        if depth > DEEPEST:
            raise fail(f"subgraphs are more than {DEEPEST} deep inside each other")

    def widen(self, key: Key, shape: Shape) -> None:
        """Open the extents of a variable that aren't always those of ``shape``."""
        variable = self.known[key]
        joined = join_shapes(variable.kind.shape, shape)
        if joined != variable.kind.shape:
            self.known[key] = variable._replace(kind=variable.kind.with_shape(joined))
            self.widened = True


class Variables:
    """The variables of one graph under construction.

    Attributes:
        file: what all graphs of the file share.
        current: the present value of each variable met.
        inputs: the graph input of each variable met, in order of first meeting.
    """

    def __init__(self, file: FileVariables, label: str) -> None:
        self.file = file
        self.current: dict[Key, Value] = {}
        self.inputs: dict[Key, Value] = {}
        self._label = label

    def present(self, key: Key) -> Value:
        """The present value of a known variable."""
        self.meet([key])
        return self.current[key]

    def meet(self, keys: Iterable[Key]) -> None:
        """Give an input to each known variable that has none yet."""
        for key in keys:
            if key not in self.inputs:
                variable = self.file.known[key]
                value = Value(
                    variable.name, variable.kind, origin=Origin("tflite", "", -1, self._label)
                )
                self.inputs[key] = value
                self.current.setdefault(key, value)

    def assign(self, key: Key, value: Value) -> None:
        """Give the next value to a known variable."""
        self.meet([key])
        self.current[key] = value
        if key[0] == "resource":  # a variable tensor keeps its shape
            self.file.widen(key, value.shape)

    def close(self, graph: Graph, keys: Iterable[Key] | None = None) -> None:
        """Append inputs and outputs for ``keys`` (all that were met when None) to the graph."""
        order = tuple(self.inputs if keys is None else keys)
        self.meet(order)
        graph.inputs += [self.inputs[key] for key in order]
        graph.outputs += [self.current[key] for key in order]

    def states(self) -> list[State]:
        """The states that they make, in the order of ``close``."""
        return [
            State(value, self.current[key], self.file.known[key].initial, value.name)
            for key, value in self.inputs.items()
        ]


def blank(kind: TensorType, fill: int) -> np.ndarray:
    """A variable of a type whose every element is ``fill``: a read-only view that takes no memory.

    Raises:
        ValueError: when the shape isn't known, it would be beyond all measure, or ``fill`` is no
            value of the dtype.
    """
    shape = static_shape(kind.shape)
    if shape is None:
        raise ValueError("a variable of unknown shape")
    if math.prod(shape) * kind.dtype.numpy.itemsize > _MOST_BYTES:
        raise ValueError(f"a variable of shape {list(shape)}")
    low, high = kind.dtype.int_range if fill else (0, 0)
    if not low <= fill <= high:
        raise ValueError(f"a variable of {kind.dtype} has zero point {fill}")
    return np.broadcast_to(np.asarray(fill, kind.dtype.numpy), shape)


def evaluated(graph: Graph) -> list[np.ndarray] | None:
    """The outputs of a graph without inputs, or None where they can't be computed beforehand.

    Graphs with loops aren't run: nothing says that they end.
    """
    if all(value.data is not None for value in graph.outputs):
        return [value.data for value in graph.outputs if value.data is not None]
    from importlib import import_module

    size = 0
    for node in graph.nodes:
        if node.bodies:
            return None
        for value in node.outputs:
            if not value.type.is_static:
                return None
            extents = [int(d) for d in value.shape or () if d is not None]
            size += int(np.prod(extents, dtype=np.float64)) * value.dtype.numpy.itemsize
    if size > _MOST_BYTES:
        return None
    run_graph = import_module("nnconv.backends.reference.executor").run_graph
    try:
        return list(run_graph(graph, []))
    except NnconvError:
        return None
