"""Pieces of a graph put in a row: what runs them, one after the other, and hands arrays on.

IF and WHILE that no device takes as they are run here, with flows of their own as bodies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from nnconv.backends.base import REFERENCE, SERIAL, Executable
from nnconv.backends.control import is_true, run_while
from nnconv.backends.limits import DeadlineError, current_limits, limited

from nnconv.errors import BackendError
from nnconv.ir.graph import Graph, Model, Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops.control import If, While

Arrays: TypeAlias = "Sequence[np.ndarray]"

Part: TypeAlias = "tuple[Callable[[Arrays], Arrays], Sequence[Value], Sequence[Value]]"
"""A part of a graph, what it reads and what it writes."""


class Step(NamedTuple):
    """Something to do in a run.

    Attributes:
        work: what it does.
        reads, writes: the places of what it takes and gives.
        drops: the places of what nothing reads any more.
    """

    work: Callable[[Arrays], Arrays]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    drops: tuple[int, ...]


class Piece:
    """A part of a graph on one device.

    Attributes:
        executable: the part, compiled.
        device: where.
    """

    def __init__(self, executable: Executable, model: Model, *, can_stand_in: bool) -> None:
        """Take a compiled model; the reference stands in for its device if it may."""
        self.executable = executable
        self.device = executable.device
        self._lock = threading.Lock() if self.device in SERIAL else None
        self._has_loops = any(map(turns, model.graph.nodes))
        self._model = model if can_stand_in and self.device != REFERENCE else None
        self._stand_in: Executable | None = None

    def __call__(self, arrays: Arrays) -> Arrays:
        """Run once.

        The reference stands in where there is nothing to compute with (runtimes die of that, or
        refuse it), and where the device fails.
        """
        if self._model is not None and not all(array.size for array in arrays):
            return _run(self._standing_in(self._model), arrays)
        try:
            if self._lock is None:
                return self._run_within(arrays)
            with self._lock:
                return self._run_within(arrays)
        except DeadlineError:
            raise
        except BackendError:
            if self._model is None:
                raise
            return _run(self._standing_in(self._model), arrays)

    def bind(self, arrays: Arrays, targets: Arrays) -> Callable[[], None]:
        """What runs again and again from arrays into others."""
        bound = None if self._lock is not None else self.executable.bind(arrays, targets)

        def run() -> None:
            if bound is not None:
                try:
                    bound()
                except BackendError:
                    if self._model is None:
                        raise
                else:
                    return
            for target, result in zip(targets, self(arrays), strict=True):
                if result.shape != target.shape:
                    what = f"gave the shape {list(result.shape)}, not {list(target.shape)}"
                    raise BackendError(f"{self.device} {what}")
                np.copyto(target, result)

        return run

    def _run_within(self, arrays: Arrays) -> Arrays:
        limits = current_limits()
        if limits.loop_seconds is None or self._has_loops:
            return _run(self.executable, arrays)
        with limited(limits._replace(loop_seconds=None)):
            return _run(self.executable, arrays)

    def _standing_in(self, model: Model) -> Executable:
        if self._stand_in is None:
            from nnconv.backends.reference.executable import ReferenceExecutable

            self._stand_in = ReferenceExecutable(model, REFERENCE)
        return self._stand_in


def _run(executable: Executable, arrays: Arrays) -> Arrays:
    names = (info.name for info in executable.inputs)
    return list(executable.run(dict(zip(names, arrays, strict=True))).values())


class Flow:
    """A graph as steps.

    Attributes:
        pieces: what runs on devices, those of bodies included.
    """

    def __init__(
        self,
        graph: Graph,
        parts: Sequence[Part],
        pieces: Sequence[Piece],
    ) -> None:
        """Put parts of a graph, each with what it reads and writes, in a row."""
        self.pieces = list(pieces)
        self._places: dict[Value, int] = {}
        self._start: list[np.ndarray | None] = []
        for value in graph.inputs:
            self._place(value)
        self._count = len(graph.inputs)
        ends = tuple(self._place(value) for value in graph.outputs)
        edges = [
            (tuple(map(self._place, reads)), tuple(map(self._place, writes)))
            for _, reads, writes in parts
        ]
        kept = set(ends)
        last = {place: number for number, (reads, _) in enumerate(edges) for place in reads}
        for place, constant in enumerate(self._start):
            if place in kept or constant is not None:
                last.pop(place, None)
        self._ends = ends
        self._steps = [
            Step(part[0], reads, writes, tuple(p for p in set(reads) if last.get(p) == number))
            for number, (part, (reads, writes)) in enumerate(zip(parts, edges, strict=True))
        ]

    def bind(self, arrays: Arrays, targets: Arrays) -> Callable[[], None] | None:
        """What runs again and again from arrays into others, by way of rooms made beforehand.

        None where a shape isn't known or is another, something else than a piece runs, or an array
        would only be handed on.
        """
        memory = self._start.copy()
        memory[: self._count] = arrays
        for place, target in zip(self._ends, targets, strict=True):
            if memory[place] is not None:
                return None
            memory[place] = target
        for value, place in self._places.items():
            shape, kind = static_shape(value.shape), value.dtype.numpy
            held = memory[place]
            if shape is None or (held is not None and (held.shape, held.dtype) != (shape, kind)):
                return None
            if held is None:
                memory[place] = np.empty(shape, kind)
        work = []
        for step in self._steps:
            if not isinstance(step.work, Piece):
                return None
            ends = ([memory[place] for place in places] for places in (step.reads, step.writes))
            work.append(step.work.bind(*ends))  # type: ignore[arg-type]

        def run() -> None:
            for piece in work:
                piece()

        return run

    def _place(self, value: Value) -> int:
        place = self._places.get(value)
        if place is None:
            place = self._places[value] = len(self._start)
            self._start.append(value.data)
        return place

    def __call__(self, arrays: Arrays) -> list[np.ndarray]:
        """Run once."""
        limits = current_limits()
        memory = self._start.copy()
        memory[: self._count] = arrays
        for work, reads, writes, drops in self._steps:
            limits.check()
            results = work([memory[place] for place in reads])  # type: ignore[misc]
            for place, result in zip(writes, results, strict=True):
                memory[place] = result
            for place in drops:
                memory[place] = None
        return [memory[place] for place in self._ends]  # type: ignore[misc]


def _choice(bodies: Sequence[Flow]) -> Callable[[Arrays], Arrays]:
    """IF."""
    then, otherwise = bodies

    def run(arrays: Arrays) -> Arrays:
        return (then if is_true(arrays[0]) else otherwise)(arrays[1:])

    return run


def _loop(bodies: Sequence[Flow]) -> Callable[[Arrays], Arrays]:
    """WHILE."""
    condition, turn = bodies
    return partial(run_while, condition, turn)


CONTROLS: dict[type[Op], Callable[[Sequence[Flow]], Callable[[Arrays], Arrays]]] = {
    If: _choice,
    While: _loop,
}


def turns(node: Node) -> bool:
    """Whether a node's run may take for ever."""
    return isinstance(node.op, While) or any(turns(n) for body in node.bodies for n in body.nodes)
