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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias, cast

import numpy as np

from nnconv.decompositions.base import Refused, decompositions_of
from nnconv.errors import Reason, UnsupportedItem
from nnconv.formats.graphexport import (
    FileExport,
    GraphExport,
    data_operands,
    own_outputs,
)
from nnconv.formats.nnapi.check import operation_faults
from nnconv.formats.nnapi.forms import Form, Given, form_of
from nnconv.formats.nnapi.table import spec_of, type_levels
from nnconv.formats.nnapi.types import (
    DTYPES,
    NEWEST_LEVEL,
    NUMPY,
    PER_CHANNEL,
    SCALARS,
    ZERO_POINTS,
    OperandCode,
    OperationCode,
)
from nnconv.formats.nnapi.wire import (
    ChannelQuant,
    Lifetime,
    Model,
    Operand,
    Operation,
)
from nnconv.formats.nnapi.wire import (
    Graph as WireGraph,
)
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation, Layout, Op, QuantRule
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, TensorType, static_shape
from nnconv.ops.quantize import Cast

Exporter: TypeAlias = "Callable[[Node, Target], None]"

Input: TypeAlias = "Value | Ref | int | float | bool | Sequence[Value | Ref] | None"
"""What an input of an operation is given as: numbers become scalars, None has no value."""

PLAIN = {
    DType.FLOAT32: OperandCode.TENSOR_FLOAT32,
    DType.FLOAT16: OperandCode.TENSOR_FLOAT16,
    DType.INT32: OperandCode.TENSOR_INT32,
    DType.BOOL: OperandCode.TENSOR_BOOL8,
}
"""The types of numbers that stand for themselves."""

CODED = {
    DType.UINT8: OperandCode.TENSOR_QUANT8_ASYMM,
    DType.INT8: OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    DType.INT16: OperandCode.TENSOR_QUANT16_SYMM,
    DType.UINT16: OperandCode.TENSOR_QUANT16_ASYMM,
}
"""The types of codes; that of symmetric int8 is chosen where an operation asks for it."""

AS_THEY_ARE = Quant.per_tensor(1.0)
"""The parameters of codes that stand for themselves."""

MOST_RANK = 4
"""No more dimensions have the operands of most operations."""

ACTIVATION_NUMBERS = {
    Activation.NONE: 0,
    Activation.RELU: 1,
    Activation.RELU_N1_TO_1: 2,
    Activation.RELU6: 3,
}


class Ref(int):
    """The index of an operand, where a number would be a scalar."""


@cache
def _family(stem: str) -> dict[type[Op], Exporter]:
    name = f"nnconv.formats.nnapi.exports.{stem}"
    return import_module(name).EXPORTERS if find_spec(name) else {}


def exporter_of(op: type[Op]) -> Exporter | None:
    """The exporter of an op: it stands in the file of the op's own stem."""
    return _family(op.__module__.rpartition(".")[2]).get(op)


@dataclass
class FileTarget(FileExport):
    """The model under construction.

    Attributes:
        level: the feature level that is written for.
        referenced: the finished graphs of bodies; None while one is being exported.
    """

    level: int = NEWEST_LEVEL
    referenced: list[WireGraph | None] = field(default_factory=list)

    def body(self, graph: Graph) -> tuple[int, list[UnsupportedItem]]:
        """Export a body as a referenced graph; gives its index and what couldn't be exported."""
        index = len(self.referenced)
        self.referenced.append(None)
        made, refused = self.graph(graph)
        self.referenced[index] = made
        return index, refused

    def graph(self, graph: Graph) -> tuple[WireGraph | None, list[UnsupportedItem]]:
        """Export a graph; None with what couldn't be exported."""
        own_outputs(graph, inputs=True)
        target = Target(self)
        refused = []
        for value in graph.inputs:
            try:
                target.declare(value, Lifetime.INPUT)
            except Refused as refusal:
                refused.append(_misfit(value, refusal.why))
        if refused:
            return None, refused
        refused = target.run(graph) or target.missing(graph)
        return (None if refused else target.finish(graph)), refused


class Target(GraphExport):
    """An NNAPI graph under construction, as exporters see it.

    Attributes:
        file: the model that it belongs to.
        operands, operations: what there is so far.
    """

    format_name = "NNAPI"
    activation_numbers = ACTIVATION_NUMBERS

    def __init__(self, file: FileTarget) -> None:
        self.file: FileTarget = file
        self.operands: list[Operand] = []
        self.operations: list[Operation] = []
        self.current: Node | None = None
        self._index: dict[Value, int] = {}
        self._consts: dict[tuple[object, ...], int] = {}
        self._missing: dict[int, UnsupportedItem] = {}

    @property
    def level(self) -> int:
        """The feature level that is written for."""
        return self.file.level

    # ---------------------------------------------------------------- operands

    def operand(self, value: Value) -> Ref:
        """The operand of a value.

        Raises:
            Refused: NNAPI has no type of a constant.
        """
        found = self._index.get(value)
        if found is None:
            assert value.data is not None, f"{value!r} was never produced"
            found = self._index[value] = self._add(value.type, value.name, value.data)
        return Ref(found)

    def declare(self, value: Value, lifetime: Lifetime = Lifetime.TEMPORARY) -> Ref:
        """Make the operand of a value that an input or operation gives."""
        assert value not in self._index, f"{value!r} has an operand already"
        index = self._index[value] = self._add(value.type, value.name, lifetime=lifetime)
        return Ref(index)

    def declare_scalar(self, value: Value) -> Ref:
        """Make the operand of an int32 value that an operation gives without dimensions."""
        index = self.declare(value)
        self.operands[index] = Operand(OperandCode.INT32, name=value.name)
        return index

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

    def alias(self, value: Value, operand: int) -> None:
        """Let ``operand`` be the value's."""
        assert value not in self._index, f"{value!r} has an operand already"
        self._index[value] = operand

    def temp(self, kind: TensorType) -> Ref:
        """An operand for a result in between."""
        return Ref(self._add(kind, ""))

    def type_code(self, value: Value) -> OperandCode:
        """The type that the operand of a value has."""
        return self.operands[self.operand(value)].type

    def const(
        self,
        data: np.ndarray,
        *,
        quant: Quant | None = None,
        code: OperandCode | None = None,
        name: str = "",
    ) -> Ref:
        """A constant tensor; equal small ones are made once. ``code`` overrides its type."""
        data = np.asarray(data)
        kind = TensorType(DType.of(data), tuple(data.shape), quant)
        if data.size > _SMALL:
            return Ref(self._add(kind, name, data, code=code))
        key = (kind.dtype, kind.shape, quant, code, data.tobytes())
        found = self._consts.get(key)
        if found is None:
            found = self._consts[key] = self._add(kind, name, data, code=code)
        return Ref(found)

    def ints(self, numbers: Iterable[int]) -> Ref:
        """A constant vector of int32: axes, shapes, paddings.

        Raises:
            Refused: one is beyond int32.
        """
        entries = tuple(numbers)
        low, high = DType.INT32.int_range
        if not all(low <= entry <= high for entry in entries):
            raise Refused(f"{list(entries)} is beyond int32")
        return self.const(np.asarray(entries, np.int32))

    def index(self, value: Value) -> Ref:
        """An index operand as int32, whatever integer type it has; constants saturate."""
        if value.dtype is DType.INT32:
            return self.operand(value)
        if value.data is None:
            raise self.refused(f"the index operand `{value.name}` is {value.dtype}")
        low, high = DType.INT32.int_range
        return self.const(np.clip(value.data.astype(np.int64), low, high).astype(np.int32))

    def scalar(self, code: OperandCode, number: float) -> Ref:
        """A constant scalar; equal ones are made once."""
        data = np.asarray(number, NUMPY[code])
        key = (code, data.tobytes())
        found = self._consts.get(key)
        if found is None:
            found = self._consts[key] = len(self.operands)
            self.operands.append(Operand(code, lifetime=Lifetime.CONSTANT, value=data))
        return Ref(found)

    def omitted(self, code: OperandCode) -> Ref:
        """An operand without a value."""
        key = (code, None)
        found = self._consts.get(key)
        if found is None:
            found = self._consts[key] = len(self.operands)
            self.operands.append(Operand(code, lifetime=Lifetime.NO_VALUE))
        return Ref(found)

    def model(self, number: int) -> Ref:
        """The operand that stands for a referenced graph."""
        self.operands.append(
            Operand(OperandCode.MODEL, lifetime=Lifetime.MODEL, value=number),
        )
        return Ref(len(self.operands) - 1)

    def requantized(self, value: Value, quant: Quant, dtype: DType | None = None) -> Ref:
        """A quantized value's operand under other parameters.

        By a product with 1, whose result may have any. Constants are worked out.

        Raises:
            Refused: codes of different types, or wide ones.
        """
        target = dtype or value.dtype
        if value.quant == quant and value.dtype is target:
            return self.operand(value)
        if value.quant is None or value.dtype is not target or target.bits > 8:
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
        node = self.current
        assert node is not None
        if node.graph is None or y not in node.graph.output_set():
            self.alias(y, self.operand(x))
            return
        if x.dtype is DType.BOOL:
            self.emit("LOGICAL_OR", {"input0": x, "input1": x}, y)
        elif x.dtype is DType.INT32:
            self.emit("TILE", {"input": x, "multiples": self.ints([1] * self.rank(x))}, y)
        else:
            self.emit("CONCATENATION", {"inputs": [x], "axis": 0}, y)

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
        zero = self._zero(value.dtype, self.operands[operand])
        self.emit("ADD", {"input0": operand, "input1": zero, "activation": 0}, value)

    def reinterpret(self, x: Value, y: Value) -> None:
        """Let ``y`` be the numbers of ``x`` under other parameters.

        int32 numbers have parameters as biases alone, where the operand gets them; what is read as
        numbers alone may have any, and what CAST gives may get those of ``y``: it takes codes for
        the numbers that they are. So one of codes to codes of the same type does it.

        Raises:
            Refused: ``x`` has parameters, and ``y`` others that count.
        """
        node = self.current
        assert node is not None
        kept = node.graph is None or y not in node.graph.output_set()
        index = self.operand(x)
        if x.dtype is y.dtype and kept:
            if x.dtype is DType.INT32 or all(isinstance(u.node.op, Cast) for u in y.uses):
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

    def scalars_of(self, name: str) -> frozenset[DType]:
        """The types that an operation's scalar of its signatures may have at this level."""
        signatures = spec_of(OperationCode[name]).signatures
        return frozenset(DTYPES[s.types["S"]] for s in signatures if s.level <= self.level)

    def rescaled(self, operand: Ref, kind: TensorType) -> Ref:
        """Codes under the parameters of ``kind``: an ADD of zero, which rounds once."""
        zero = self._zero(kind.dtype, self.operands[operand])
        return self.result("ADD", {"input0": operand, "input1": zero, "activation": 0}, kind)

    def _zero(self, dtype: DType, like: Operand) -> Ref:
        quant = Quant.per_tensor(like.scale, like.zero_point)
        return self.const(np.full(1, like.zero_point, dtype.numpy), quant=quant)

    def _add(
        self,
        kind: TensorType,
        name: str,
        data: np.ndarray | None = None,
        *,
        lifetime: Lifetime = Lifetime.TEMPORARY,
        code: OperandCode | None = None,
    ) -> int:
        operand = _described(kind, code)
        if operand is None:
            raise Refused(f"`{name}` is {kind}, NNAPI has no such type", types=_PLAIN_TYPES)
        level = type_levels()[operand.type]
        if level > self.level:
            raise Refused(
                f"`{name}` is {operand.type.name}, which needs feature level {level}",
                types=_plain_types(self.level),
            )
        operand.name = name
        operand.lifetime = lifetime
        if data is not None:
            if not data.size:
                raise self.refused(f"`{name}` is a constant without elements, NNAPI has none")
            operand.lifetime = Lifetime.CONSTANT
            operand.value = data.reshape(operand.dimensions).astype(NUMPY[operand.type], copy=False)
        self.operands.append(operand)
        return len(self.operands) - 1

    # ---------------------------------------------------------------- operations

    def emit(
        self,
        name: str,
        inputs: Mapping[str, object],
        values: Value | Sequence[Value],
        *,
        quant: Quant | None = None,
        scalar: bool = False,
    ) -> None:
        """Add the operation that makes ``values``; ``scalar``: they have no dimensions.

        ``quant`` are the parameters that the operation gives where it leaves no choice: the codes
        are then brought to those of the value.

        Raises:
            Refused: NNAPI doesn't take it at this level; types that it takes go with it.
        """
        outputs = [values] if isinstance(values, Value) else list(values)
        first = outputs[0]
        fixed = quant or self.fixed_quant(name, first) or self._kept_quant(name, inputs, first)
        if fixed is None or first.quant is None or _alike(first.quant, fixed):
            made_all = [self.declare_scalar(v) if scalar else self.declare(v) for v in outputs]
            self.operation(name, inputs, made_all)
            return
        made = self.temp(TensorType(first.dtype, first.shape, fixed))
        self.operation(name, inputs, [made, *(self.declare(v) for v in outputs[1:])])
        zero = self._zero(first.dtype, self.operands[made])
        rescaling = {"input0": made, "input1": zero, "activation": 0}
        self.operation("ADD", rescaling, [self.declare(first)])

    def result(self, name: str, inputs: Mapping[str, object], kind: TensorType) -> Ref:
        """Add an operation of one result in between; gives its operand."""
        made = self.temp(kind)
        self.operation(name, inputs, [made])
        return made

    def fixed_quant(self, name: str, value: Value) -> Quant | None:
        """The parameters that an operation gives to codes of a type; None where they are free."""
        if value.quant is None or value.dtype not in CODED:
            return None
        stated = spec_of(OperationCode[name]).outputs[0].quant
        found = stated.get(CODED[value.dtype].name, stated.get("any"))
        return None if found is None else Quant.per_tensor(*found)

    def _kept_quant(self, name: str, inputs: Mapping[str, object], value: Value) -> Quant | None:
        """The parameters of the input whose parameters an operation's result has."""
        if value.quant is None:
            return None
        for rule in spec_of(OperationCode[name]).rules:
            if rule["rule"] in _KEEPING and rule.get("as") in inputs:
                source = self.operands[cast(int, self._given(inputs[rule["as"]]))]
                if source.scale:
                    return Quant.per_tensor(source.scale, source.zero_point)
        return None

    def operation(self, name: str, inputs: Mapping[str, object], outputs: Sequence[int]) -> None:
        """Add an operation whose outputs are there already.

        Raises:
            Refused: NNAPI doesn't take it at this level.
        """
        code = OperationCode[name]
        given: dict[str, Given] = {key: self._given(entry) for key, entry in inputs.items()}
        form = form_of(code, given, self.operands)
        indices: list[int] = []
        for kind, entry in form.entries:
            if isinstance(entry, Ref):
                indices.append(entry)
            elif entry is None:
                indices.append(self.omitted(kind))
            else:
                assert isinstance(entry, int | float), f"{name} is given {entry!r}"
                indices.append(self.scalar(kind, entry))
        operation = Operation(code, indices, outputs)
        self._vet(name, operation, form)
        self.operations.append(operation)

    def _given(self, entry: object) -> Given:
        if isinstance(entry, Value):
            return self.operand(entry)
        if isinstance(entry, list | tuple):
            return [self.operand(e) if isinstance(e, Value) else Ref(e) for e in entry]
        return entry  # type: ignore[return-value]

    def _vet(self, name: str, operation: Operation, form: Form) -> None:
        """See that an operation keeps NNAPI's rules at the level that is written for."""
        for formal, index in zip(form.formals, operation.inputs, strict=True):
            rank, bounds = self.operands[index].rank, formal.rank
            if rank and bounds and bounds[1] and rank > bounds[1]:
                why = f"{name}: {formal.name} has rank {rank}, at most {bounds[1]} is allowed"
                raise Refused(why, rank=bounds[1])
        graph = WireGraph(self.operands)
        model = Model(graph, [g or WireGraph() for g in self.file.referenced])
        for message, level in operation_faults(operation, graph, model):
            if level is not None and level <= self.level:
                continue
            needs = "" if level is None else f" needs feature level {level}"
            node = self.current
            assert node is not None
            raise Refused(
                f"{name}: {message}{needs}",
                types=self.types_of(name) if self._blames_types(name, operation) else None,
                operands=tuple(data_operands(node)),
            )

    def _blames_types(self, name: str, operation: Operation) -> bool:
        """Whether it is the types of an operation's data that its table lacks at this level."""
        spec = spec_of(OperationCode[name])
        main = spec.signatures[0].types.get("T") if spec.signatures else None
        if main is None:
            return False
        seen = {self.operands[i].type for i in (*operation.inputs, *operation.outputs)}
        known = {
            code for s in spec.signatures if s.level <= self.level for code in s.types.values()
        }
        tensors = {code for code in seen if code not in SCALARS and code in _OF_DATA}
        return not tensors <= known | _ALWAYS

    def types_of(self, name: str) -> frozenset[DType]:
        """The types of plain numbers that an operation's data may have at this level."""
        signatures = spec_of(OperationCode[name]).signatures
        codes = {s.types["T"] for s in signatures if s.level <= self.level and "T" in s.types}
        return frozenset(dtype for dtype, code in PLAIN.items() if code in codes)

    # ---------------------------------------------------------------- what exporters ask for

    def rank(self, value: Value, most: int = MOST_RANK) -> int:
        """The rank of a value as NNAPI has it.

        Raises:
            Refused: it isn't known, or above ``most``.
        """
        if value.shape is None:
            raise self.refused(
                f"the rank of `{value.name}` isn't known", hint="Give the inputs' shapes."
            )
        if len(value.shape) > most:
            raise Refused(
                f"`{value.name}` has rank {len(value.shape)}, NNAPI takes {most} at most", rank=most
            )
        return max(len(value.shape), 1)

    def outputs(self, node: Node) -> set[Value]:
        """The values that go out of a node's graph."""
        return set() if node.graph is None else node.graph.output_set()

    def nchw(self, layout: Layout) -> bool:
        """The flag of a layout."""
        return layout is Layout.NCHW

    def static(self, value: Value) -> tuple[int, ...]:
        """The extents of a value.

        Raises:
            Refused: one isn't known.
        """
        shape = static_shape(value.shape)
        if shape is None:
            raise self.refused(
                f"the extents of `{value.name}` aren't known", hint="Give the inputs' shapes."
            )
        return shape

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
        if lead != own and own:
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
        if value not in self._index:
            kind = TensorType(DType.FLOAT32, (1,))
            self._index[value] = self._add(kind, value.name)


def export_lacking(node: Node, t: Target) -> None:
    """What NNAPI has no operation for: it is decomposed, what computes with codes in floats."""
    if node.op.quant_rule is QuantRule.REAL and any(
        v is not None and v.type.has_codes for v in (*node.inputs, *node.outputs)
    ):
        raise t.to_floats(f"NNAPI has no {node.op.name}")
    reason = Reason.IMPOSSIBLE if decompositions_of(type(node.op)) else Reason.NOT_IMPLEMENTED
    raise t.refused(f"NNAPI has no {node.op.name}", reason=reason)


_SMALL = 64
_KEEPING = frozenset({"keeps_quant", "same_quant"})
_OF_DATA = frozenset({*PLAIN.values(), *CODED.values(), PER_CHANNEL})
_ALWAYS = frozenset({OperandCode.TENSOR_INT32, OperandCode.TENSOR_BOOL8})
_PLAIN_TYPES = frozenset(PLAIN)


def _plain_types(level: int) -> frozenset[DType]:
    return frozenset(d for d, code in PLAIN.items() if type_levels()[code] <= level)


def _alike(a: Quant, b: Quant) -> bool:
    return a == b


def _described(kind: TensorType, code: OperandCode | None = None) -> Operand | None:
    """An operand of a type; None if NNAPI has none."""
    quant = kind.quant if kind.has_codes else None
    dims = operand_dimensions(kind.shape)
    if quant is not None and not quant.is_per_tensor:
        if kind.dtype is DType.INT32:
            return Operand(OperandCode.TENSOR_INT32, dims)  # a bias: its scales follow
        if kind.dtype is not DType.INT8 or quant.block or not quant.is_symmetric:
            return None
        assert quant.axis is not None
        return Operand(PER_CHANNEL, dims, channel_quant=ChannelQuant(quant.axis, quant.scale))
    if kind.dtype in PLAIN:
        found = code or PLAIN[kind.dtype]
        scale = quant.scale[0] if quant is not None and quant.is_symmetric else 0.0
        return Operand(found, dims, scale=scale)
    if kind.dtype not in CODED:
        return None
    found = code or CODED[kind.dtype]
    quant = quant or AS_THEY_ARE
    low, high = ZERO_POINTS[found]
    if not low <= quant.zero_point[0] <= high:
        return None
    return Operand(found, dims, scale=quant.scale[0], zero_point=quant.zero_point[0])


def operand_dimensions(shape: Shape) -> tuple[int, ...]:
    """A shape as operands have it: 0 where an extent isn't known, or is 0, which runs tell."""
    if shape is None:
        return ()
    return tuple(d if isinstance(d, int) else 0 for d in shape) or (1,)


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
