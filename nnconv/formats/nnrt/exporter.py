"""From the IR to NNRt operations: the context that the op exporters work in.

An exporter (``nnconv.formats.nnrt.exports.<family>``) gets the node and one ``Target``. It names
inputs and parameters as schemas/nnrt does; the table puts the inputs in order, and drops parameters
that say what leaving them out says:

    def export_softmax(node: Node, t: Target) -> None:
        t.emit("SOFTMAX", {"input": node.operand(0)}, node.outputs, {"axis": node.op.axis})

    EXPORTERS = {Softmax: export_softmax}

``emit`` sees that a device takes the operation in the version of the API that is written for. What
it doesn't take is refused; the driver then does the op in other types or decomposes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from nnconv.decompositions.base import Refused, decompositions_of
from nnconv.errors import Reason, UnsupportedItem, plural
from nnconv.formats.graph_export import FileExport, data_operands, own_outputs
from nnconv.formats.hints import shapes_hint
from nnconv.formats.indexed import IndexedExport, Ref
from nnconv.formats.nnrt.check import (
    MOST_BYTES,
    MOST_EXTENT,
    MOST_TENSORS,
    finish_faults,
    operation_faults,
)
from nnconv.formats.nnrt.device import device_faults
from nnconv.formats.nnrt.table import OperationSpec, spec_of
from nnconv.formats.nnrt.types import DTYPES, FROM_DTYPE, NEWEST, NUMPY, OperationType
from nnconv.formats.nnrt.wire import Graph as WireGraph
from nnconv.formats.nnrt.wire import Operation, QuantParams, Tensor
from nnconv.ir.builder import Means
from nnconv.ir.dtype import DType
from nnconv.ir.families import entry_of
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation, Op, QuantRule, Role
from nnconv.ir.types import Shape, TensorType
from nnconv.ops.quantize import Dequantize, Quantize

Exporter: TypeAlias = "Callable[[Node, Target], None]"

Input: TypeAlias = "Value | Ref | Sequence[Value | Ref] | None"
"""What an input of an operation is given as; None leaves it off."""

CODES = frozenset({DType.INT8, DType.UINT8})
"""The types of codes."""

ACTIVATION_NUMBERS = {Activation.NONE: 0, Activation.RELU: 1, Activation.RELU6: 2}

_LAYERS_API = 2
"""The first version that has LSTM."""


def exporter_of(op: type[Op]) -> Exporter | None:
    """The exporter of an op: it stands in the file of the op's own stem."""
    found: Exporter | None = entry_of(op, "nnconv.formats.nnrt.exports", "EXPORTERS")
    return found


@dataclass
class FileTarget(FileExport):
    """The model under construction.

    Attributes:
        api: the version of the API that is written for.
    """

    api: int = NEWEST

    def graph(self, graph: Graph) -> tuple[WireGraph | None, list[UnsupportedItem]]:
        """Export a graph; None with what couldn't be exported."""
        own_outputs(graph, inputs=True)
        target = Target(self)
        refused = [
            _item("input", value, fault)
            for value in graph.inputs
            if (fault := _misfit(value.type) or _unread_scales(value)) is not None
        ]
        if refused:
            return None, refused
        for value in graph.inputs:
            target.declare(value)
        refused = target.run(graph)
        return (None if refused else target.finish(graph)), refused


class Target(IndexedExport):
    """An NNRt model under construction, as exporters see it.

    Attributes:
        file: the model that it belongs to.
        tensors, operations: what there is so far.
    """

    format_name = "NNRt"
    activation_numbers = ACTIVATION_NUMBERS

    def __init__(self, file: FileTarget) -> None:
        super().__init__()
        self.file: FileTarget = file
        self.tensors: list[Tensor] = []
        self.operations: list[Operation] = []
        self.current: Node | None = None

    @property
    def api(self) -> int:
        """The version of the API that is written for."""
        return self.file.api

    @property
    def means(self) -> Means:
        """What NNRt has for decompositions."""
        layers = self.api >= _LAYERS_API
        return Means(bodies=False, bitcasts=False, layers=layers, sizes=False)

    # ---------------------------------------------------------------- tensors

    def tensor(self, value: Value) -> Ref:
        """The tensor of a value.

        Raises:
            Refused: NNRt can't hold a constant.
        """
        return self.place(value)

    def _add(self, kind: TensorType, name: str, data: np.ndarray | None = None) -> int:
        fault = _misfit(kind)
        if fault is not None:
            known = f"`{name}` " if name else "a tensor "
            floats = frozenset({DType.FLOAT32}) if kind.dtype not in FROM_DTYPE else None
            raise Refused(f"{known}{fault}", types=floats)
        code = FROM_DTYPE[kind.dtype]
        if data is not None:
            data = np.ascontiguousarray(data).view(NUMPY[code]).reshape(data.shape)
        assert kind.shape is not None, "its rank is known"
        dims = [extent if isinstance(extent, int) else -1 for extent in kind.shape]
        return self._append(Tensor(code, dims, quant=params_of(kind), data=data, name=name))

    def _append(self, tensor: Tensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    # ---------------------------------------------------------------- operations

    def emit(
        self,
        name: str,
        inputs: Mapping[str, Input],
        values: Value | Sequence[Value],
        params: Mapping[str, Any] | None = None,
    ) -> None:
        """Add the operation that makes ``values``.

        Raises:
            Refused: a device doesn't take it; types that it takes go with it.
        """
        outputs = [values] if isinstance(values, Value) else list(values)
        self.operate(name, inputs, [self.declare(value) for value in outputs], params or {})

    def result(
        self,
        name: str,
        inputs: Mapping[str, Input],
        kind: TensorType,
        params: Mapping[str, Any] | None = None,
    ) -> Ref:
        """Add an operation of one result in between; gives its tensor."""
        made = self.temp(kind)
        self.operate(name, inputs, [made], params or {})
        return made

    def operate(
        self,
        name: str,
        inputs: Mapping[str, Input],
        outputs: Sequence[int],
        params: Mapping[str, Any],
    ) -> None:
        """Add an operation between tensors.

        Raises:
            Refused: a device doesn't take it; types that it takes go with it.
        """
        spec = spec_of(OperationType[name])
        if spec.since > self.api:
            raise Refused(f"version {self.api} has no {name}")
        given = [self._given(inputs.get(formal.name)) for formal in spec.inputs]
        assert set(inputs) <= {formal.name for formal in spec.inputs}, f"{name}: {list(inputs)}"
        taken = [index for several in given for index in several]
        most = min(spec.input_counts[1], MOST_TENSORS)
        if len(taken) > most:
            raise Refused(f"{name} takes {plural(most, 'input')} at most, there are {len(taken)}")
        stated = [self._param(spec, key, value) for key, value in params.items()]
        places = [place for place in stated if place is not None]
        operation = Operation(spec.code, places, taken, outputs)
        self._vet(spec, operation)
        self.operations.append(operation)

    def _given(self, entry: Input) -> list[int]:
        if entry is None:
            return []
        several = [entry] if isinstance(entry, Value | int) else entry
        return [self.tensor(e) if isinstance(e, Value) else e for e in several]

    def _param(self, spec: OperationSpec, name: str, value: Any) -> int | None:
        """The tensor of a parameter; None where leaving it out says the same.

        Raises:
            Refused: this version of the API doesn't know it.
        """
        formal = spec.params[name]
        default = formal.default(self.api)
        counted = any(rule["rule"] == "param_count" for rule in spec.rules_at(self.api))
        if value == default and not counted:
            return None
        if formal.since > self.api:
            raise Refused(f"version {self.api} has no parameter {name} of {spec.name}")
        kind = formal.dtype(self.api)
        data = np.asarray(value).astype(NUMPY[kind])
        if formal.elements is not None and data.size == formal.elements:
            data = data.reshape([int(extent) for extent in formal.shape])
        tensor = Tensor(kind, data.shape, type=formal.type, data=data)
        key = (formal.type, data.shape, data.tobytes())
        return self.once(key, lambda: self._append(tensor))

    def _vet(self, spec: OperationSpec, operation: Operation) -> None:
        """See that a device takes an operation."""
        graph = WireGraph(self.tensors, api=self.api)
        node = self.node
        operands = tuple(data_operands(node))
        converts = isinstance(node.op, Quantize | Dequantize)
        if (node.op.quant_rule is QuantRule.REAL and not converts) and (
            _has_wide_codes(node) or (_has_codes(node) and not spec.quantized)
        ):
            raise self.to_floats(f"{spec.name} takes such codes as integers")
        for formal, index in zip(
            spec.input_specs(len(operation.inputs)), operation.inputs, strict=False
        ):
            if self.tensors[index].data_type not in formal.types:
                types = frozenset(DTYPES[kind] for kind in formal.types) - self._codes_alone(spec)
                seen = self.tensors[index].data_type
                raise Refused(
                    f"{spec.name}: {formal.name} is {seen.name}",
                    types=None if _is_of_index(node, DTYPES[seen]) else types,
                    operands=operands,
                )
        for fault in (
            *operation_faults(operation, graph, self.api),
            *finish_faults(operation, graph),
            *device_faults(operation, graph, self.api),
        ):
            coded = "quantization" in fault or "scales" in fault
            raise Refused(
                f"{spec.name}: {fault}",
                types=frozenset({DType.FLOAT32}) if coded else None,
                operands=operands if coded else (),
            )

    def _codes_alone(self, spec: OperationSpec) -> frozenset[DType]:
        """The integer types that an operation takes as codes alone."""
        kinds = {DTYPES[kind] for kind in spec.inputs[0].types}
        return CODES if DType.UINT8 not in kinds else frozenset()

    # ---------------------------------------------------------------- what exporters ask for

    def shape(self, value: Value) -> tuple[int | None, ...]:
        """The extents of a value, whose rank must be known.

        Raises:
            Refused: it isn't.
        """
        if value.shape is None:
            raise self.refused(f"the rank of `{value.name}` isn't known")
        return tuple(extent if isinstance(extent, int) else None for extent in value.shape)

    def keep(self, x: Value, y: Value) -> None:
        """Let ``y`` be a copy of ``x``, an output that needs a tensor of its own, or ``x``."""
        if y.goes_out:
            self._copy(self.tensor(x), y)
        else:
            self.alias(y, self.tensor(x))

    def _copy(self, tensor: int, y: Value) -> None:
        rank = max(len(self.tensors[tensor].dimensions), 1)
        times = [1] * rank
        self.emit("TILE", {"input": Ref(tensor), "multiples": self.ints(times)}, y)

    def constant(self, value: Value, data: np.ndarray) -> None:
        """Let a value be a constant; a copy of it where it is an output."""
        self.keep(Value(value.name, value.type.with_shape(data.shape), data=data), value)

    def finish(self, graph: Graph) -> WireGraph:
        """The model, once every node is exported."""
        inputs = [self.tensor(value) for value in graph.inputs]
        outputs = [self._output(value) for value in graph.outputs]
        return without_unread(
            WireGraph(self.tensors, self.operations, inputs, outputs, api=self.api, name=graph.name)
        )

    def _output(self, value: Value) -> int:
        """The tensor of an output: one of rank 0, which can't be bound, gets a dimension."""
        index = self.tensor(value)
        if self.tensors[index].dimensions:
            return index
        self.note("outputs without dimensions have the dimensions [1]: NNRt can't bind others")
        kind = value.type.with_shape((1,))
        inner = self.tensors[index]
        made = self._add(kind, inner.name)
        inner.name = ""
        shape = self.ints([1])
        self.operations.append(Operation(OperationType.RESHAPE, (), [index, shape], [made]))
        return made

    def exporter_of(self, op: type[Op]) -> Exporter:
        """The exporter of an op; what has none is decomposed."""
        return exporter_of(op) or export_lacking

    def growing(self) -> tuple[list[Any] | dict[Any, Any], ...]:
        """Everything that an exporter adds to."""
        return self.tensors, self.operations, self._index, self._consts

    def stand_in(self, value: Value) -> None:
        """Give a tensor to a result of a node that failed."""
        if value not in self._index:
            dtype = value.dtype if value.dtype in FROM_DTYPE else DType.FLOAT32
            if dtype is not value.dtype:
                self.strangers.add(value)
            kind = TensorType(dtype, value.shape or (1,))
            fits = _misfit(kind) is None
            self._index[value] = self._add(kind if fits else TensorType(dtype, (1,)), value.name)


def export_lacking(node: Node, t: Target) -> None:
    """What NNRt has no operation for: it is decomposed, what computes with codes in floats."""
    if node.op.quant_rule is QuantRule.REAL and _has_codes(node):
        raise t.to_floats(f"NNRt has no {node.op.name}")
    reason = Reason.IMPOSSIBLE if decompositions_of(type(node.op)) else Reason.NOT_IMPLEMENTED
    hint = " ".join(filter(None, (_BODIES_HINT, t.open_hint(node)))) if node.bodies else ""
    raise t.refused(f"NNRt has no {node.op.name}", reason=reason, hint=hint)


_BODIES_HINT = (
    "NNRt has no loops and no branches. Loops of a known number of turns are written out, of "
    "branches both are computed where the results' extents are known and nothing in them can fail."
)


def _has_codes(node: Node) -> bool:
    return any(v is not None and v.type.has_codes for v in (*node.inputs, *node.outputs))


def _has_wide_codes(node: Node) -> bool:
    """Whether data have codes whose parameters can't be stated."""
    data = [node.inputs[i] for i in data_operands(node)]
    return any(
        v is not None and v.type.has_codes and v.dtype not in CODES for v in (*data, *node.outputs)
    )


def params_of(kind: TensorType) -> QuantParams | None:
    """The parameters of a tensor of a type; those of wide codes can't be stated."""
    if kind.quant is None or kind.dtype not in CODES:
        return None
    count = len(kind.quant.scale)
    zero_points = kind.quant.zero_point
    return QuantParams(
        kind.quant.scale, zero_points * count if len(zero_points) < count else zero_points
    )


def _misfit(kind: TensorType) -> str | None:
    """Why NNRt has no tensor of a type; None if it has."""
    if kind.dtype not in FROM_DTYPE:
        return f"is {kind.dtype}, NNRt has no such type"
    quant = kind.quant if kind.has_codes else None
    if quant is not None and quant.block:
        return f"is {kind}, whose scales are those of blocks"
    if kind.shape is None:
        return "has an unknown rank"
    if 0 in kind.shape:
        return f"has the shape {list(kind.shape)}, NNRt has no empty tensors"
    known = [extent for extent in kind.shape if isinstance(extent, int)]
    size = math.prod(known) * kind.dtype.numpy.itemsize
    if size > MOST_BYTES or max(known, default=0) > MOST_EXTENT:
        return f"has the shape {list(kind.shape)}, beyond the {MOST_BYTES} bytes of NNRt's tensors"
    return None


def _unread_scales(value: Value) -> str | None:
    """Why an input can't have scales for channels: no operation tells which dimension they are."""
    quant = value.type.quant
    if value.uses or quant is None or quant.is_per_tensor or not quant.axis:
        return None
    return f"is {value.type}, whose scales aren't those of the first dimension"


def _item(op: str, value: Value, fault: str) -> UnsupportedItem:
    return UnsupportedItem(
        op=op, where=f"`{value.name}`", why=f"it {fault}", reason=Reason.IMPOSSIBLE,
        hint=shapes_hint([value.name]) if "rank" in fault else "",
    )  # fmt: skip


def without_unread(graph: WireGraph) -> WireGraph:
    """The graph without operations and tensors that nothing reads."""
    read = {*graph.inputs, *graph.outputs}
    kept = []
    for operation in reversed(graph.operations):
        if not read.isdisjoint(operation.outputs):
            kept.append(operation)
            read.update(operation.inputs, operation.outputs, operation.params)
    places = {old: new for new, old in enumerate(sorted(read))}

    def moved(indices: Shape | Sequence[int]) -> list[int]:
        return [places[index] for index in indices or ()]  # type: ignore[index]

    return WireGraph(
        [graph.tensors[index] for index in sorted(read)],
        [
            Operation(o.type, moved(o.params), moved(o.inputs), moved(o.outputs))
            for o in reversed(kept)
        ],
        moved(graph.inputs),
        moved(graph.outputs),
        api=graph.api,
        name=graph.name,
    )


def _is_of_index(node: Node, dtype: DType) -> bool:
    """Whether it is index operands of a node that have a type, not its data."""
    kinds: dict[Role, set[DType]] = {role: set() for role in Role}
    for i, value in enumerate(node.inputs):
        if value is not None:
            kinds[node.op.role(i)].add(value.dtype)
    return dtype in kinds[Role.INDEX] - kinds[Role.DATA]
