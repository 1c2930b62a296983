"""Sequences of tensors, as far as they are known while a file is read: no runtime gets them.

PyTorch writes lists so, that a loop fills or that a tensor is split into. What they are made of is
followed here, and what is taken from them becomes nodes on tensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, TypeAlias

from nnconv.formats.onnx import wire
from nnconv.ir.graph import Value


class Listed(NamedTuple):
    """A sequence of tensors, each known.

    Attributes:
        values: the tensors.
    """

    values: tuple[Value, ...]

    def through(self, move: Callable[[Value], Value]) -> Listed:
        """The same with other values for its own."""
        return Listed(tuple(move(value) for value in self.values))


class Parts(NamedTuple):
    """A sequence of the parts of a tensor, of which there may be any number.

    Attributes:
        x: the tensor.
        axis: along which it is cut, from the front.
        size: how long each part is, the last one maybe less.
        squeezed: whether parts, which are of size 1, lack that dimension.
    """

    x: Value
    axis: int
    size: int
    squeezed: bool

    def through(self, move: Callable[[Value], Value]) -> Parts:
        """The same with another value for its own."""
        return self._replace(x=move(self.x))


TensorList: TypeAlias = "Listed | Parts"


def collected_instead(body: wire.Graph, places: Collection[int]) -> wire.Graph | None:
    """A Loop's body that gives what it put at the end of sequences as scan outputs, the last ones.

    ``places`` are those of the sequences among what is carried. None where it does more with one.
    """
    makers = {name: node for node in body.nodes for name in node.outputs}
    reads = Counter(_read(body))
    taken, items, named = [], [], []
    for place in places:
        before, after = body.inputs[2 + place].name, body.outputs[1 + place].name
        maker = makers.get(after)
        if maker is None or maker.op_type != "SequenceInsert" or len(maker.inputs) != 2:
            return None
        if maker.inputs[0] != before or reads[before] > 1 or reads[after]:
            return None
        item = f"{after}/item"
        taken.append(maker)
        items.append(wire.Node("Identity", [maker.inputs[1]], [item], name=maker.name))
        named.append(wire.ValueInfo(item, None, None))
    kept = [info for i, info in enumerate(body.inputs) if i - 2 not in places]
    given = [info for i, info in enumerate(body.outputs) if i - 1 not in places]
    return wire.Graph(
        body.name,
        [*(node for node in body.nodes if node not in taken), *items],
        kept,
        [*given, *named],
        body.initializers,
        value_info=body.value_info,
    )


def _read(graph: wire.Graph) -> Iterator[str]:
    """Every name that a node of a graph, or of one inside it, reads, as often as it does."""
    for node in graph.nodes:
        yield from node.inputs
        for value in node.attributes.values():
            inner = value.value if isinstance(value, wire.Attribute) else value
            if isinstance(inner, wire.Graph):
                yield from _read(inner)
                yield from (info.name for info in inner.outputs)
