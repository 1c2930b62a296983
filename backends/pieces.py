"""A model cut into pieces for several devices, and run piece by piece.

Each node goes to the first device of the list that takes it. What a device takes is told by
exporting and compiling whole pieces: the nodes that are refused go to the next device, and the rest
is cut anew. IF and WHILE that no device takes as they are run here, with bodies that are cut in
turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeAlias

import numpy as np
from nnconv.backends.base import (
    REFERENCE,
    SERIAL,
    UNINTERRUPTIBLE,
    Compile,
    Cuts,
    Executable,
    NoDeviceError,
    StateInfo,
    aliases,
    infos_of,
)
from nnconv.backends.limits import DeadlineError, current_limits, limited
from nnconv.backends.partition import cut, extract, live_nodes

from nnconv.errors import BackendError, NnconvError, UnsupportedError
from nnconv.ir.graph import Graph, Model, Node, Signature, Value
from nnconv.ir.op import Op
from nnconv.lowering import choose_signature
from nnconv.ops.control import If, While

Arrays: TypeAlias = "Sequence[np.ndarray]"

Part: TypeAlias = "tuple[Callable[[Arrays], Arrays], Sequence[Value], Sequence[Value]]"
"""A part of a graph, what it reads and what it writes."""

MOST_ROUNDS = 16
"""How often a graph is cut anew, before a piece with a refused node goes to the next device."""


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
        return (then if _truth(arrays[0]) else otherwise)(arrays[1:])

    return run


def _loop(bodies: Sequence[Flow]) -> Callable[[Arrays], Arrays]:
    """WHILE."""
    condition, turn = bodies

    def run(arrays: Arrays) -> Arrays:
        carried = list(arrays)
        with limited(current_limits().in_loop()):
            while _truth(condition(carried)[0]):
                current_limits().check()
                carried = turn(carried)
        return carried

    return run


def _truth(condition: np.ndarray) -> bool:
    if condition.size != 1:
        raise BackendError(f"a condition has shape {list(condition.shape)}, must have one element")
    return bool(condition.reshape(-1)[0])


CONTROLS: dict[type[Op], Callable[[Sequence[Flow]], Callable[[Arrays], Arrays]]] = {
    If: _choice,
    While: _loop,
}


class _Planner:
    """A graph on its way to a flow.

    Attributes:
        cuts: how it was cut, once there is a flow.
    """

    def __init__(
        self, graph: Graph, model: Model, devices: Sequence[str], run: Compile, path: str = ""
    ) -> None:
        """Start with every node on the first device.

        Args:
            graph: the graph, or a body of one.
            model: what it belongs to.
            devices: where nodes may run.
            run: makes a piece ready for a device.
            path: tells the graph from others of the model.
        """
        self.cuts: Cuts = {}
        self._path = path
        self._graph = graph
        self._model = model
        self._devices = devices
        self._compile_model = run
        self._nodes = live_nodes(graph)
        self._numbers = {node: number for number, node in enumerate(self._nodes)}
        self._outputs = graph.output_set()
        self._homes = dict.fromkeys(self._nodes, 0)
        self._bodies: dict[Node, list[Flow]] = {}
        self._body_cuts: dict[Node, list[Cuts]] = {}
        self._made: dict[tuple[str, tuple[int, ...]], Piece] = {}
        self._reasons: dict[str, None] = {}

    def flow(self) -> Flow:
        """The graph as steps; what devices take is tried out.

        Raises:
            NoDeviceError: no device takes some node.
        """
        for node in self._nodes:
            self._settle(node)
        rounds = 0
        while True:
            groups = cut(self._nodes, {node: self._where(node) for node in self._nodes})
            done = [self._prepare(nodes, thorough=rounds < MOST_ROUNDS) for nodes in groups]
            if all(done):
                break
            rounds += 1
        self.cuts = {
            "homes": [self._homes[node] for node in self._nodes],
            "bodies": {str(self._numbers[n]): self._body_cuts[n] for n in self._bodies},
        }
        return self._joined(groups)

    def flow_of(self, cuts: Cuts) -> Flow:
        """The graph as steps, cut as it was before.

        Raises:
            NnconvError: a piece can't be made ready.
        """
        self.cuts = cuts
        self._homes = dict(zip(self._nodes, cuts["homes"], strict=True))
        for number, body_cuts in cuts["bodies"].items():
            node = self._nodes[int(number)]
            planners = self._body_planners(node)
            self._bodies[node] = [p.flow_of(c) for p, c in zip(planners, body_cuts, strict=True)]
        groups = cut(self._nodes, {node: self._where(node) for node in self._nodes})
        for nodes in groups:
            if nodes[0] not in self._bodies:
                self._compile(nodes)
        return self._joined(groups)

    def _joined(self, groups: Sequence[Sequence[Node]]) -> Flow:
        """What was made of groups of nodes, as steps."""
        parts: list[Part] = []
        pieces: list[Piece] = []
        for nodes in groups:
            if nodes[0] in self._bodies:
                (node,) = nodes
                bodies = self._bodies[node]
                pieces += [piece for body in bodies for piece in body.pieces]
                reads = [value for value in node.inputs if value is not None]
                parts.append((CONTROLS[type(node.op)](bodies), reads, node.outputs))
                continue
            _, reads, writes = extract(nodes, self._numbers, self._outputs)
            piece = self._made[self._key(nodes)]
            pieces.append(piece)
            parts.append((piece, reads, writes))
        used = set(pieces)
        for piece in self._made.values():
            if piece not in used:
                piece.executable.close()
        return Flow(self._graph, parts, pieces)

    def _where(self, node: Node) -> int:
        """The device, by number; each node that is run here has a number of its own."""
        if node in self._bodies:
            return len(self._devices) + self._numbers[node]
        return self._homes[node]

    def _key(self, nodes: Sequence[Node]) -> tuple[str, tuple[int, ...]]:
        return self._devices[self._homes[nodes[0]]], tuple(self._numbers[node] for node in nodes)

    def _settle(self, node: Node) -> None:
        """See that a node's device may have it, else try the next.

        Raises:
            NoDeviceError: there is none.
        """
        while self._homes[node] < len(self._devices):
            device = self._devices[self._homes[node]]
            if device == REFERENCE and node.bodies:
                break
            if not (device in UNINTERRUPTIBLE and turns(node)):
                return
            self._homes[node] += 1
        if not node.bodies:
            raise NoDeviceError("; ".join(self._reasons))
        planners = self._body_planners(node)
        bodies = [planner.flow() for planner in planners]
        pieces = [piece for body in bodies for piece in body.pieces]
        if REFERENCE in self._devices and all(piece.device == REFERENCE for piece in pieces):
            self._homes[node] = self._devices.index(REFERENCE)
        else:
            self._bodies[node] = bodies
            self._body_cuts[node] = [planner.cuts for planner in planners]

    def _body_planners(self, node: Node) -> list[_Planner]:
        number = self._numbers[node]
        return [
            _Planner(
                body, self._model, self._devices, self._compile_model, f"{self._path}{number}.{i}/"
            )
            for i, body in enumerate(node.bodies)
        ]

    def _prepare(self, nodes: Sequence[Node], *, thorough: bool) -> bool:
        """Compile a piece; if that fails, send the nodes that are to blame on to other devices."""
        if nodes[0] in self._bodies or self._key(nodes) in self._made:
            return True
        refused = self._refused(nodes, thorough=thorough)
        for node in refused:
            self._homes[node] += 1
            self._settle(node)
        return not refused

    def _compile(self, nodes: Sequence[Node]) -> None:
        """Make a piece of nodes.

        Raises:
            NnconvError: its device doesn't take it.
        """
        device, numbers = self._key(nodes)
        graph, _, _ = extract(nodes, self._numbers, self._outputs)
        model = Model([Signature("", graph)], format=self._model.format, source=self._model.source)
        name = sha256(f"{self._path}{numbers}".encode()).hexdigest()[:16]
        executable = self._compile_model(model, device, name)
        can_stand_in = REFERENCE in self._devices
        self._made[device, numbers] = Piece(executable, model, can_stand_in=can_stand_in)

    def _refused(self, nodes: Sequence[Node], *, thorough: bool) -> Sequence[Node]:
        """Make a piece of nodes; gives those that are to blame if that fails."""
        device, _ = self._key(nodes)
        named: set[int] = set()
        try:
            self._compile(nodes)
        except UnsupportedError as error:
            named = {item.node for item in error.items}
            self._reasons[f"{device}: {error}"] = None
        except NnconvError as error:
            self._reasons[f"{device}: {error}"] = None
        else:
            return ()
        if len(nodes) == 1 or not thorough:
            return nodes
        if blamed := [node for node in nodes if self._numbers[node] in named]:
            return blamed
        return self._searched(nodes) or nodes

    def _searched(self, nodes: Sequence[Node]) -> list[Node]:
        """Which of a piece's nodes their device refuses even alone; of nodes alike one is asked."""
        answers: list[tuple[Node, bool]] = []
        blamed = []
        for node in nodes:
            known = next((answer for other, answer in answers if _are_alike(node, other)), None)
            if known is None:
                known = bool(self._refused([node], thorough=False))
                answers.append((node, known))
            if known:
                blamed.append(node)
        return blamed


def _are_alike(one: Node, other: Node) -> bool:
    """Whether a device that takes one node takes the other as well."""
    return (
        type(one.op) is type(other.op)
        and one.op == other.op
        and one.input_types == other.input_types
        and not one.bodies
        and [v is not None and v.is_const for v in one.inputs]
        == [v is not None and v.is_const for v in other.inputs]
        and [v.type for v in one.outputs] == [v.type for v in other.outputs]
    )


def turns(node: Node) -> bool:
    """Whether a node's run may take for ever."""
    return isinstance(node.op, While) or any(turns(n) for body in node.bodies for n in body.nodes)


class PiecesExecutable(Executable):
    """A model in pieces.

    Attributes:
        devices: where pieces run, each device once, in the order of the list.
    """

    def __init__(
        self,
        model: Model,
        devices: Sequence[str],
        compile_model: Compile,
        *,
        signature: str | None = None,
        cuts: Cuts | None = None,
    ) -> None:
        """Cut an entry point of ``model``, which must not be changed as long as this is in use.

        Args:
            model: the model.
            devices: where nodes may run, in the order in which that is tried.
            compile_model: makes a model ready for one device.
            signature: the entry point; the first when None.
            cuts: where to cut; tried out when None.

        Raises:
            NoDeviceError: no device takes some node.
            NnconvError: a device doesn't take a piece of ``cuts``.
        """
        entry = choose_signature(model, signature)
        graph = entry.graph
        if REFERENCE in devices:
            devices = devices[: devices.index(REFERENCE) + 1]
        planner = _Planner(graph, model, devices, compile_model)
        self._flow = planner.flow() if cuts is None else planner.flow_of(cuts)
        self.cuts = planner.cuts
        used = {piece.device for piece in self._flow.pieces}
        self.devices = tuple(device for device in devices if device in used)
        super().__init__("+".join(self.devices) or devices[0])
        inputs, outputs = infos_of(graph.inputs, "input"), infos_of(graph.outputs, "output")
        self._fed = [info.name for info in inputs]
        self._results = [info.name for info in outputs]
        plain_in, plain_out = len(entry.inputs), len(entry.outputs)
        self.inputs, self.outputs = inputs[:plain_in], outputs[:plain_out]
        self.states = tuple(
            StateInfo(inputs[plain_in + i], outputs[plain_out + i].name, state.initial)
            for i, state in enumerate(entry.states)
        )
        names = (info.name for info in self.inputs)
        self._aliases = aliases(list(zip(entry.input_names, names, strict=False)), self.inputs)

    @property
    def piece_count(self) -> int:
        """How many pieces there are, those of bodies included."""
        return len(self._flow.pieces)

    @property
    def parts(self) -> tuple[Executable, ...]:
        """The executable of each piece."""
        return tuple(piece.executable for piece in self._flow.pieces)

    def _execute(self, feeds: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        results = self._flow([feeds[name] for name in self._fed])
        return dict(zip(self._results, results, strict=True))

    def _close(self) -> None:
        for piece in self._flow.pieces:
            piece.executable.close()
