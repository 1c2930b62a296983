"""Exporting graphs node by node: what the exporters of all formats with decompositions share.

A node goes to the exporter of its op. What that refuses (``Refused``) is done in other types or
decomposed (``nnconv.decompositions``), and what came of it is exported in turn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from nnconv.decompositions.base import Evaluate, Refused, replace
from nnconv.errors import Reason, UnsupportedError, UnsupportedItem, plural
from nnconv.formats.hints import open_names, shapes_hint
from nnconv.formats.refusals import NotExportable, item_of, one_each
from nnconv.formats.written import Written
from nnconv.ir.builder import Builder, Means
from nnconv.ir.dtype import DType, overflow_notes
from nnconv.ir.graph import Graph, Node, Value, unique_names
from nnconv.ir.op import Activation, Op, Role
from nnconv.ir.types import static_shape
from nnconv.ops.quantize import Cast, Dequantize, Quantize
from nnconv.ops.shape import Identity

FLOAT32 = frozenset({DType.FLOAT32})
NO_TYPES: frozenset[DType] = frozenset()

MOST_STEPS = 24
"""How often what a node was replaced by may itself be replaced."""

_MOST_ROUNDS = 2
"""How often the like of a node may come of it."""


@dataclass
class FileExport:
    """The file under construction.

    Attributes:
        evaluate: runs one node on constants.
        open_inputs: the model's inputs whose shape isn't known; None until its graph is exported.
        notes: what a user should know of how nodes were carried over.
        islands: by op, the results of nodes on codes that compute with floats, and why they do.
    """

    evaluate: Evaluate
    open_inputs: list[str] | None = None
    notes: dict[str, None] = field(default_factory=dict)
    islands: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def told(self, format_name: str) -> list[str]:
        """The notes, islands among them."""
        return [
            *self.notes,
            *(
                f"{op} computes with floats between quantized values in {format_name} "
                f"({len(found)}, first `{found[0][0]}`: {found[0][1]})"
                for op, found in self.islands.items()
            ),
        ]


class GraphExport(ABC):
    """A graph being exported, as exporters see it.

    Attributes:
        format_name: what messages call the format.
        activation_numbers: the fused activations that the format knows.
        file: the file that it belongs to.
        current: the IR node being exported.
        strangers: values of nodes that failed for which something of another type stands in.
    """

    format_name: ClassVar[str]
    activation_numbers: ClassVar[Mapping[Activation, int]]
    file: FileExport
    current: Node | None

    def __init__(self) -> None:
        """Start where nothing has failed."""
        self.strangers: set[Value] = set()
        self._stood_in: dict[Value, Node] = {}

    @property
    def node(self) -> Node:
        """The node being exported."""
        assert self.current is not None, "nothing is being exported"
        return self.current

    # ---------------------------------------------------------------- what a format says

    @property
    def means(self) -> Means:
        """What the format has for decompositions."""
        return Builder.means

    @abstractmethod
    def exporter_of(self, op: type[Op]) -> Callable[[Node, Any], None] | None:
        """The exporter of an op."""

    def unfit(self, node: Node) -> list[UnsupportedItem]:
        """What keeps a node from being exported in whatever form."""
        return []

    def vet(self, node: Node) -> None:  # noqa: B027 - most formats have nothing to see to
        """See to a node before its exporter does.

        Raises:
            Refused: it must become something else.
        """

    @abstractmethod
    def growing(self) -> tuple[list[Any] | dict[Any, Any], ...]:
        """Everything that an exporter adds to: a refused node's additions are taken out again."""

    @abstractmethod
    def stand_in(self, value: Value) -> None:
        """Let a value of a node that failed have something, so that the rest is looked at too."""

    # ---------------------------------------------------------------- refusals

    def require(
        self,
        node: Node,
        *,
        plain: frozenset[DType],
        codes: frozenset[DType] = NO_TYPES,
        operands: Sequence[int] | None = None,
    ) -> None:
        """See that operands (the data ones when None) have types that the operator takes.

        ``plain`` are those of numbers as such, ``codes`` those of codes.

        Raises:
            Refused: one has another; the node will be done in one of ``plain`` instead.
        """
        places = tuple(data_operands(node) if operands is None else operands)
        for place in places:
            value = node.inputs[place]
            if value is None:
                continue
            if value.dtype not in (codes if value.type.has_codes else plain):
                raise Refused(
                    f"operand `{value.name}` is {value.type}", types=plain, operands=places
                )

    def refused(self, why: str, *, reason: Reason = Reason.IMPOSSIBLE, hint: str = "") -> Refused:
        """The exception to raise for a node that the format doesn't take as it is."""
        return Refused(why, reason=reason, hint=hint)

    def to_floats(self, why: str) -> Refused:
        """The exception to raise for codes that the operator doesn't take: floats will do."""
        return Refused(why, types=NO_TYPES)

    def activation(self, activation: Activation) -> int:
        """The number of a fused activation.

        Raises:
            Refused: kernels don't apply it; it will be a node of its own instead.
        """
        number = self.activation_numbers.get(activation)
        if number is None:
            raise Refused(f"fused activation {activation.value}", activation=True)
        return number

    def note(self, text: str) -> None:
        """Tell the user something, once."""
        self.file.notes[text] = None

    # ---------------------------------------------------------------- whole graphs

    def run(self, graph: Graph) -> list[UnsupportedItem]:
        """Export every node of a graph whose inputs are declared.

        Returns what couldn't be exported.
        """
        if self.file.open_inputs is None:  # bodies come later
            self.file.open_inputs = open_names(graph.inputs)
        refused: list[UnsupportedItem] = []
        for node in graph.nodes:
            refused += self._export(node, node, ())
        self.current = None
        return one_each(refused)

    def _export(self, node: Node, source: Node, came: tuple[object, ...]) -> list[UnsupportedItem]:
        """Export one node, or what takes its place.

        ``source`` is the graph's own node that this one is a part of. ``came`` are the nodes that
        this one took the place of, one of the other: what goes round in circles leads nowhere, and
        would grow with each.
        """
        mark = [len(things) for things in self.growing()]
        self.current = node
        if beyond := self.unfit(node):
            self._stand_in(node, source)
            return beyond
        try:
            self.vet(node)
            (self.exporter_of(type(node.op)) or _no_form)(node, self)
        except NotExportable as refusal:
            self._stand_in(node, source)
            return list(refusal.items)
        except Refused as refusal:
            self._back_to(mark)
            reason = refusal
        else:
            return []
        return self._export_instead(node, reason, source, came)

    def _export_instead(
        self, node: Node, refusal: Refused, source: Node, came: tuple[object, ...]
    ) -> list[UnsupportedItem]:
        """Export what takes the place of a refused node; the rest is as for ``_export``."""
        of_form = refusal.types is not None or refusal.rank > 0  # whatever the extents
        item = _item_of(node, source, refusal, "" if of_form else self.open_hint(node))
        coded = _reads_codes(node)
        parts = None
        likeness = _likeness(node)
        if len(came) < MOST_STEPS and came.count(likeness) < _MOST_ROUNDS:
            parts = replace(node, refusal, self._worked_out, self.means)
        if parts is None:
            self._stand_in(node, source)
            return [] if self._is_dragged(node, source) else [item]
        if coded and any(isinstance(part.op, Dequantize) for part in parts):
            name = node.outputs[0].name if node.outputs else ""
            self.file.islands.setdefault(node.op.name, []).append((name, refusal.why))
        came = (*came, likeness)
        below = [again for part in parts for again in self._export(part, source, came)]
        is_reason = node is source and not (of_form or refusal.activation)  # those are got around
        return [item, *below] if below and is_reason else below

    def _worked_out(self, node: Node, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """What a node on constants gives; tells of those whose numbers a narrower type lacks."""
        results = self.file.evaluate(node, arrays)
        if isinstance(node.op, Cast) and node.op.dtype.is_float:
            (before,), (after,) = arrays, results
            if before is not None:
                name = node.operand(0).name
                for text in overflow_notes(name, before, after, self.format_name):
                    self.note(text)
        return results

    def open_hint(self, node: Node) -> str:
        """Which inputs to give a shape to, where a node has to do with extents that aren't known.

        Empty if there are none such: then those extents depend on what the inputs hold.
        """
        names = self.file.open_inputs
        ends = (value for value in (*node.inputs, *node.outputs) if value is not None)
        if not names or all(static_shape(value.shape) is not None for value in ends):
            return ""
        return shapes_hint(names)

    def _is_dragged(self, node: Node, source: Node) -> bool:
        """Whether a node may fail only for what it reads, of which it has been told why it failed.

        That is another part of the same node, or what has a type of its own in the meantime.
        """
        return any(
            value in self.strangers or (node is not source and self._stood_in.get(value) is source)
            for value in node.inputs
            if value is not None
        )

    def _stand_in(self, node: Node, source: Node) -> None:
        for value in node.outputs:
            self._stood_in[value] = source
            self.stand_in(value)

    def _back_to(self, mark: Sequence[int]) -> None:
        """Forget what a refused node has added."""
        for things, size in zip(self.growing(), mark, strict=True):
            if isinstance(things, list):
                del things[size:]
            else:
                while len(things) > size:
                    things.popitem()


def _item_of(node: Node, source: Node, refusal: Refused, hint: str) -> UnsupportedItem:
    """What is told of a refused node, a part of the graph's own node ``source``."""
    why = refusal.why.replace("``", "a value on the way")  # parts give some that have no name
    if node is not source and node.op.name.lower() not in why.lower().replace("_", ""):
        why = f"{node.op.name}: {why}"
    return item_of(source, why, reason=refusal.reason, hint=refusal.hint or hint)


def _no_form(_node: Node, target: GraphExport) -> None:
    why = f"no {target.format_name} form is known"
    raise Refused(why, reason=Reason.NOT_IMPLEMENTED)


def _likeness(node: Node) -> object:
    """What tells whether a node is like another: its op, the types of its operands and results."""
    operands = (None if v is None else (v.type, v.is_const) for v in node.inputs)
    return repr(node.op), *operands, *(v.type for v in node.outputs)


def own_outputs(graph: Graph, *, inputs: bool = False, widened: bool = False) -> None:
    """Let no output be a constant, nor stand among the outputs twice; nor, at will, be an input.

    With ``widened`` neither be a conversion of a constant alone.
    """
    seen = set()
    builder = Builder(graph)
    for place, value in enumerate(graph.outputs):
        free = value.producer is not None or (value.data is None and not inputs)
        if free and value not in seen and not (widened and _is_widened_constant(value)):
            seen.add(value)
            continue
        copies = builder.add_typed(Identity(), [value], [value.type], names=[value.name])
        graph.outputs[place] = copies[0]


def _is_widened_constant(value: Value) -> bool:
    if value.producer is None or not isinstance(value.producer.op, Cast | Dequantize):
        return False
    operand = value.producer.inputs[0]
    return operand is not None and operand.data is not None


def _reads_codes(node: Node) -> bool:
    """Whether a node works on codes that are no constants, and is no conversion itself."""
    return not isinstance(node.op, Quantize | Dequantize) and any(
        v is not None and v.type.has_codes and v.data is None for v in node.inputs
    )


def data_operands(node: Node) -> list[int]:
    """The numbers of a node's data operands."""
    return [i for i in range(len(node.inputs)) if node.op.role(i) is Role.DATA]


class Named(Protocol):
    """Something with a name that may be changed."""

    name: str


def distinguish(kind: str, ends: Sequence[Named]) -> list[tuple[str, str, str]]:
    """Give inputs or outputs names of their own; tells kind, old and new name of each change.

    What has no name gets one, which is no change.
    """
    renamed = []
    names = unique_names([end.name or f"{kind}{number}" for number, end in enumerate(ends)])
    for end, name in zip(ends, names, strict=True):
        if end.name and end.name != name:
            renamed.append((kind, end.name, name))
        end.name = name
    return renamed


def report_of(
    inputs: Sequence[Named], outputs: Sequence[Named], operations: Iterable[str]
) -> Written:
    """What is to be told of a model that is built by calls; its ends get names of their own."""
    renamed = [*distinguish("input", inputs), *distinguish("output", outputs)]
    return Written(
        inputs=[end.name for end in inputs],
        outputs=[end.name for end in outputs],
        renamed=renamed,
        counts=dict(Counter(operations)),
    )


def give_dimension(ends: Iterable[Value]) -> list[str]:
    """Let inputs or outputs without dimensions have the one that they are written with.

    Gives their names, for the report.
    """
    found = [value for value in ends if value.shape == ()]
    for value in found:
        value.type = value.type.with_shape((1,))
    return [value.name for value in found]


def check_ends(
    graph: Graph, format_name: str, path: str, *, most: int | None = None, hint: str = ""
) -> None:
    """See that a graph has inputs and outputs, as models that are built by calls have.

    ``most`` is how many of each there may be, ``hint`` what helps where there are more.

    Raises:
        UnsupportedError: it hasn't, or has too many.
    """
    counts = len(graph.inputs), len(graph.outputs)
    if min(counts) < 1:
        why, hint = f"{format_name}'s models have inputs and outputs, at least one of each", ""
    elif most is not None and max(counts) > most:
        why = (
            f"it has {plural(counts[0], 'input')} and {plural(counts[1], 'output')}, "
            f"{format_name} takes up to {most}"
        )
    else:
        return
    where = graph.name or "graph"
    item = UnsupportedItem(op="graph", where=where, why=why, reason=Reason.IMPOSSIBLE, hint=hint)
    raise UnsupportedError([item], path=path)
