"""A model cut into pieces for several devices, and run piece by piece.

Each node goes to the first device of the list that takes it. What a device takes is told by
exporting and compiling whole pieces: the nodes that are refused go to the next device, and the rest
is cut anew. IF and WHILE that no device takes as they are run here, with bodies that are cut in
turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

import numpy as np
from nnconv.backends.base import (
    REFERENCE,
    UNINTERRUPTIBLE,
    Compile,
    Cuts,
    Executable,
    GraphExecutable,
    NoDeviceError,
)
from nnconv.backends.flow import CONTROLS, Flow, Part, Piece, turns
from nnconv.backends.partition import cut, extract, live_nodes

from nnconv.errors import NnconvError, UnsupportedError, on_one_line
from nnconv.ir.graph import Graph, Model, Node, Signature
from nnconv.lowering import choose_signature

MOST_ROUNDS = 16
"""How often a graph is cut anew, before a piece with a refused node goes to the next device."""


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
        except NnconvError as error:
            if isinstance(error, UnsupportedError):
                named = {item.node for item in error.items}
            self._reasons[f"{device}: {on_one_line(str(error))}"] = None
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


class PiecesExecutable(GraphExecutable):
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
        self._describe(entry)

    @property
    def piece_count(self) -> int:
        """How many pieces there are, those of bodies included."""
        return len(self._flow.pieces)

    @property
    def parts(self) -> tuple[Executable, ...]:
        """The executable of each piece."""
        return tuple(piece.executable for piece in self._flow.pieces)

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> Callable[[], None] | None:
        """Have pieces write where those behind them read."""
        return None if self.states else self._flow.bind(inputs, outputs)

    def _execute(self, feeds: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        results = self._flow([feeds[name] for name in self._fed])
        return dict(zip(self._results, results, strict=True))

    def _close(self) -> None:
        for piece in self._flow.pieces:
            piece.executable.close()
