"""From the IR to NNAPI operations: the context that the op exporters work in.

An exporter (``nnconv.formats.nnapi.exports.<family>``) gets the node and one ``Target``. It names
the inputs as schemas/nnapi does; the table puts them in order, says which scalar type a number has,
and drops what is the default:

    def export_softmax(node: Node, t: Target) -> None:
        x = node.operand(0)
        axis = t.axis(x, node.op.axis)
        t.emit("SOFTMAX", {"input": x, "beta": node.op.beta, "axis": axis}, node.outputs)

    EXPORTERS = {Softmax: export_softmax}

``emit`` sees that NNAPI takes the operation at the feature level that is written for. What it
doesn't take is refused; the driver then does the op in other types or decomposes it.

A value of rank 0 is a tensor of one element: NNAPI's tensors have dimensions. Integers that stand
for themselves are codes of scale 1, where NNAPI has no plain type of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from nnconv.decompositions.base import Refused, decompositions_of
from nnconv.decompositions.ranks import could_be_fewer
from nnconv.errors import Reason, UnsupportedItem, plural
from nnconv.formats.graph_export import FileExport, own_outputs
from nnconv.formats.indexed import Ref
from nnconv.formats.nnapi.operands import CODED, operand_dimensions
from nnconv.formats.nnapi.operations import OperationMaker
from nnconv.formats.nnapi.types import NEWEST_LEVEL, OperationCode
from nnconv.formats.nnapi.wide import misread
from nnconv.formats.nnapi.wire import Graph as WireGraph
from nnconv.formats.nnapi.wire import Lifetime, Operation
from nnconv.ir.builder import Means
from nnconv.ir.dtype import DType
from nnconv.ir.families import entry_of
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation, Layout, Op, QuantRule
from nnconv.ir.quant import Quant
from nnconv.ir.types import MOST_DIMENSIONS, TensorType
from nnconv.ops.quantize import Cast

Exporter: TypeAlias = "Callable[[Node, Target], None]"

Input: TypeAlias = "Value | Ref | int | float | bool | Sequence[Value | Ref] | None"
"""What an input of an operation is given as: numbers become scalars, None has no value."""

_RECURRENCES_LEVEL = 3
"""The first feature level that has recurrences of any number of steps."""

_EXTREMES_LEVEL = 3
"""The first feature level that has MAXIMUM."""

_BODIES_LEVEL = 4
"""The first feature level that has IF and WHILE."""

_SUMS_LEVEL = 4
"""Where integers begin to be added up."""

MOST_RANK = 4
"""No more dimensions have the operands of most operations."""

ACTIVATION_NUMBERS = {
    Activation.NONE: 0,
    Activation.RELU: 1,
    Activation.RELU_N1_TO_1: 2,
    Activation.RELU6: 3,
}


def exporter_of(op: type[Op]) -> Exporter | None:
    """The exporter of an op: it stands in the file of the op's own stem."""
    found: Exporter | None = entry_of(op, "nnconv.formats.nnapi.exports", "EXPORTERS")
    return found


@dataclass
class FileTarget(FileExport):
    """The model under construction.

    Attributes:
        level: the feature level that is written for.
        keeps_wide: whether 16-bit codes have operands of their own types.
        referenced: the finished graphs of bodies; None while one is being exported.
        depth: of how many bodies the graph that is being exported is inside.
    """

    level: int = NEWEST_LEVEL
    keeps_wide: bool = False
    depth: int = 0
    referenced: list[WireGraph | None] = field(default_factory=list)

    def body(self, graph: Graph) -> tuple[int, list[UnsupportedItem]]:
        """Export a body as a referenced graph; gives its index and what couldn't be exported."""
        index = len(self.referenced)
        self.referenced.append(None)
        self.depth += 1
        try:
            made, refused = self.graph(graph)
        finally:
            self.depth -= 1
        self.referenced[index] = made
        return index, refused

    def graph(self, graph: Graph) -> tuple[WireGraph | None, list[UnsupportedItem]]:
        """Export a graph; None with what couldn't be exported."""
        own_outputs(graph, inputs=True)
        target = Target(self)
        refused = []
        for value in graph.inputs:
            try:
                target.operands[target.declare(value)].lifetime = Lifetime.INPUT
            except Refused as refusal:
                refused.append(_misfit(value, refusal.why))
        if refused:
            return None, refused
        refused = target.run(graph) or target.missing(graph)
        return (None if refused else target.finish(graph)), refused


class Target(OperationMaker):
    """An NNAPI graph under construction, as exporters see it.

    Attributes:
        file: the model that it belongs to.
        current: the IR node being exported.
    """

    format_name = "NNAPI"
    activation_numbers = ACTIVATION_NUMBERS

    def __init__(self, file: FileTarget) -> None:
        super().__init__()
        self.file: FileTarget = file
        self.current: Node | None = None
        self._missing: dict[int, UnsupportedItem] = {}

    @property
    def level(self) -> int:
        """The feature level that is written for."""
        return self.file.level

    @property
    def means(self) -> Means:
        """What NNAPI has for decompositions."""
        bodies, sums = self.level >= _BODIES_LEVEL, self.level >= _SUMS_LEVEL
        return Means(
            bodies=bodies,
            bitcasts=False,
            int64=False,
            sums=sums,
            extremes=self.level >= _EXTREMES_LEVEL,
            recurrences=self.level >= _RECURRENCES_LEVEL,
            steps=True,
            last_first=True,
            sizes=False,
        )

    @property
    def keeps_wide(self) -> bool:
        """Whether 16-bit codes have operands of their own types."""
        return self.file.keeps_wide

    @property
    def models(self) -> Sequence[WireGraph | None]:
        """The referenced graphs; None for one that is being made."""
        return self.file.referenced

    def vet(self, node: Node) -> None:
        """See that no op takes the numbers that stand in for codes for what these stand for.

        Nor that it has many dimensions where fewer will do.

        Raises:
            Refused: it would, or has.
        """
        if refusal := misread(node, self):
            raise refusal
        if could_be_fewer(node, MOST_RANK):
            raise Refused(f"it has more than {MOST_RANK} dimensions", rank=MOST_RANK)

    def defer(self, value: Value, item: UnsupportedItem) -> None:
        """Leave a value without an operation: what reads it may look at what it is made of.

        ``item`` is what is wrong if something reads it all the same.
        """
        self._missing[self.declare(value)] = item

    def missing(self, graph: Graph) -> list[UnsupportedItem]:
        """What is wrong with values that were left without an operation, and are read."""
        outputs: set[int] = {self.operand(v) for v in graph.outputs}
        read = outputs.union(*(operation.inputs for operation in self._read_by(outputs)))
        return [item for index, item in self._missing.items() if index in read]

    def _read_by(self, outputs: set[int]) -> list[Operation]:
        """The operations that some of these results need, the last one first."""
        read, found = set(outputs), []
        for operation in reversed(self.operations):
            if not read.isdisjoint(operation.outputs):
                found.append(operation)
                read.update(operation.inputs, operation.outputs)
        return found

    def requantized(self, value: Value, quant: Quant, dtype: DType | None = None) -> Ref:
        """A quantized value's operand under other parameters.

        By a product with 1, whose result may have any. Constants are worked out.

        Raises:
            Refused: codes of different types, or wide ones.
        """
        target = dtype or value.dtype
        if value.quant == quant and value.dtype is target:
            return self.operand(value)
        other = value.dtype is not target or target.bits > 8 or self.is_lacking(target)
        if value.quant is None or other:
            raise self.to_floats(f"`{value.name}` is {value.type}")
        kind = TensorType(target, value.shape, quant)
        return self.rescaled(self.operand(value), kind)

    def bias(self, value: Value, kind: TensorType) -> Ref:
        """The operand of a bias that is computed at run time, under the parameters that it needs.

        An input of the graph just gets them: its numbers are the same.

        Raises:
            Refused: it is computed, and has others.
        """
        index = self.operand(value)
        operand = self.operands[index]
        scale = 0.0 if kind.quant is None else kind.quant.scale[0]
        if operand.scale not in (0.0, scale):
            raise self.to_floats(f"`{value.name}` is {value.type}")
        operand.scale = scale
        return index

    def split_activation(self, activation: Activation) -> Refused:
        """The exception to raise for an activation that the operation doesn't have here."""
        return Refused(f"fused activation {activation.value}", activation=True)

    def keep(self, x: Value, y: Value) -> None:
        """Let ``y`` be a copy of ``x``, an output that needs an operand of its own, or ``x``."""
        graph = self.node.graph
        if graph is None or not y.goes_out:
            self.alias(y, self.operand(x))
            return
        if self._hand_over(x, y, graph):
            return
        if x.dtype is DType.BOOL:
            self.emit("LOGICAL_OR", {"input0": x, "input1": x}, y)
        elif self.stored(x.dtype) is DType.INT32 or len(x.shape or ()) > MOST_RANK:
            ones = self.ints([1] * self.rank(x, MOST_DIMENSIONS))
            self.emit("TILE", {"input": x, "multiples": ones}, y)
        else:
            self.emit("CONCATENATION", {"inputs": [x], "axis": 0}, y)

    def _hand_over(self, x: Value, y: Value, graph: Graph) -> bool:
        """Let an output have the operand of a result that is none itself, if it may."""
        index = self.operand(x)
        taken = (self._index.get(v) == index for v in (*graph.inputs, *graph.outputs))
        operand = self.operands[index]
        made = x.producer is not None and x.data is None and not operand.is_scalar
        if not made or operand.dimensions != operand_dimensions(y.shape) or any(taken):
            return False
        operand.name = y.name
        self.alias(y, index)
        return True

    def take_out(self, operand: Ref, axis: int, value: Value) -> None:
        """Make ``value`` of an operand by taking out a dimension of extent 1."""
        dims = self.operands[operand].dimensions
        rest = [*dims[:axis], *dims[axis + 1 :]] or [1]
        if rest.count(0) > 1:
            self.emit("SQUEEZE", {"input": operand, "axes": self.ints([axis])}, value)
            return
        inputs = {"input": operand, "shape": self.ints(d or -1 for d in rest)}
        self.emit("RESHAPE", inputs, value)

    def constant(self, value: Value, data: np.ndarray) -> None:
        """Let a value be a constant; a copy of it where it is an output."""
        known = Value(value.name, value.type.with_shape(data.shape), data=data)
        self.keep(known, value)

    def rescale(self, operand: Ref, value: Value) -> None:
        """Make ``value`` of codes under other parameters."""
        self.emit("ADD", self.rescaling(operand), value)

    def reinterpret(self, x: Value, y: Value) -> None:
        """Let ``y`` be the numbers of ``x`` under other parameters.

        int32 numbers have parameters as biases alone, where the operand gets them; what is read as
        numbers alone may have any, and what CAST gives may get those of ``y``: it takes codes for
        the numbers that they are. So one of codes to codes of the same type does it.

        Raises:
            Refused: ``x`` has parameters, and ``y`` others that count.
        """
        index = self.operand(x)
        if x.dtype is y.dtype and not y.goes_out:
            if all(isinstance(u.node.op, Cast) for u in y.uses):
                self.alias(y, index)
                return
            maker = self.operations[-1] if self.operations else None
            free = x.quant is None and x.use_count == 1 and x.producer is not None
            is_cast = maker is not None and maker.code is OperationCode.CAST
            own = maker is not None and maker.outputs == (index,)
            if free and is_cast and own and y.quant is not None and y.quant.is_per_tensor:
                operand = self.operands[index]
                operand.scale, operand.zero_point = y.quant.scale[0], y.quant.zero_point[0]
                self.alias(y, index)
                return
        if x.dtype is y.dtype and x.dtype in CODED and (y.quant is None or y.quant.is_per_tensor):
            self.emit("CAST", {"input": x}, y)
            return
        raise self.refused(f"NNAPI can't take {x.type} for {y.type}")

    def activation_alone(self, activation: Activation) -> None:
        """See that there is no activation.

        Raises:
            Refused: there is one; it will be a node of its own.
        """
        if activation is not Activation.NONE:
            raise self.split_activation(activation)

    def rescaled(self, operand: Ref, kind: TensorType) -> Ref:
        """Codes under the parameters of ``kind``: an ADD of zero, which rounds once."""
        return self.result("ADD", self.rescaling(operand), kind)

    def rank(self, value: Value, most: int = MOST_RANK) -> int:
        """The rank of a value as NNAPI has it.

        Raises:
            Refused: it isn't known, or above ``most``.
        """
        if value.shape is None:
            raise self.refused(f"the rank of `{value.name}` isn't known")
        if len(value.shape) > most:
            given = value.producer is None and value.data is None
            raise Refused(
                f"`{value.name}` has rank {len(value.shape)}, NNAPI takes {most} at most",
                hint=(
                    f"Give `{value.name}` {plural(most, 'dimension')}: no operation takes "
                    "more to fewer."
                )
                if given
                else "",
                rank=most,
            )
        return max(len(value.shape), 1)

    def nchw(self, layout: Layout) -> bool:
        """The flag of a layout."""
        return layout is Layout.NCHW

    def finish(self, graph: Graph) -> WireGraph:
        """The graph, once every node is exported."""
        inputs = [self.operand(v) for v in graph.inputs]
        outputs = [self.operand(v) for v in graph.outputs]
        for index in outputs:
            self.operands[index].lifetime = Lifetime.OUTPUT
        kept = self._read_by({*inputs, *outputs})[::-1]
        return _without_unread(WireGraph(self.operands, kept, inputs, outputs, name=graph.name))

    def broadcast(self, value: Value, shape: tuple[int, ...]) -> Ref:
        """A value's operand repeated up to a shape."""
        own = value.shape
        if own == shape:
            return self.operand(value)
        if value.data is not None:
            whole = np.ascontiguousarray(np.broadcast_to(value.data, shape))
            return self.const(whole, quant=value.quant, name=value.name)
        assert own is not None
        if value.dtype is DType.BOOL:  # which TILE doesn't take
            false = self.const(np.zeros(shape, np.bool_))
            kind = TensorType(DType.BOOL, shape)
            return self.result("LOGICAL_OR", {"input0": value, "input1": false}, kind)
        lead = (1,) * (len(shape) - len(own)) + own
        source = self.operand(value)
        if lead != (own or (1,)):
            kind = TensorType(value.dtype, lead, value.quant)
            sizes = [d if isinstance(d, int) else -1 for d in lead]
            source = self.result("RESHAPE", {"input": source, "shape": self.ints(sizes)}, kind)
        times = [n if d == 1 and n != 1 else 1 for d, n in zip(lead, shape, strict=True)]
        kind = TensorType(value.dtype, shape, value.quant)
        return self.result("TILE", {"input": source, "multiples": self.ints(times)}, kind)

    def exporter_of(self, op: type[Op]) -> Exporter:
        """The exporter of an op; what has none is decomposed."""
        return exporter_of(op) or export_lacking

    def growing(self) -> tuple[list[Any] | dict[Any, Any], ...]:
        """Everything that an exporter adds to."""
        made = self.operands, self.operations, self._index, self._consts, self._missing
        return *made, self.file.referenced

    def stand_in(self, value: Value) -> None:
        """Give an operand to a result of a node that failed."""
        if value in self._index:
            return
        number = DType.FLOAT32 if value.dtype.is_float else DType.INT32
        for kind in (value.type, TensorType(number, value.shape), TensorType(number, (1,))):
            with suppress(Refused):
                self._index[value] = self._add(kind, value.name)
                if kind.dtype is not value.dtype:
                    self.strangers.add(value)
                return


def export_lacking(node: Node, t: Target) -> None:
    """What NNAPI has no operation for: it is decomposed, what computes with codes in floats."""
    if node.op.quant_rule is QuantRule.REAL and any(
        v is not None and v.type.has_codes for v in (*node.inputs, *node.outputs)
    ):
        raise t.to_floats(f"NNAPI has no {node.op.name}")
    reason = Reason.IMPOSSIBLE if decompositions_of(type(node.op)) else Reason.NOT_IMPLEMENTED
    raise t.refused(f"NNAPI has no {node.op.name}", reason=reason)


def _misfit(value: Value, why: str) -> UnsupportedItem:
    return UnsupportedItem(
        op="input",
        where=f"`{value.name}`",
        why=why,
        reason=Reason.IMPOSSIBLE,
        hint="Give the input another type.",
    )


def _without_unread(graph: WireGraph) -> WireGraph:
    """The graph without operands that nothing reads or writes."""
    read = {*graph.inputs, *graph.outputs}
    for operation in graph.operations:
        read.update(operation.inputs, operation.outputs)
    places = {old: new for new, old in enumerate(sorted(read))}
    return WireGraph(
        [graph.operands[i] for i in sorted(read)],
        [
            Operation(o.code, [places[i] for i in o.inputs], [places[i] for i in o.outputs])
            for o in graph.operations
        ],
        [places[i] for i in graph.inputs],
        [places[i] for i in graph.outputs],
        name=graph.name,
    )
