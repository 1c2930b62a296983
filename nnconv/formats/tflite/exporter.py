"""From the IR to TFLite operators: the context that the op exporters work in.

An exporter (``nnconv.formats.tflite.exports.<family>``) gets the node and one ``Target``; it takes
operands as tensors and adds operators that make the results' tensors:

    def export_max_pool(node: Node, t: Target) -> None:
        t.require(node, plain=FLOAT32, codes=ACTIVATION_CODES)
        t.emit("MAX_POOL_2D", [t.tensor(node.inputs[0])], node.outputs[0],
               ("Pool2DOptions", {"padding": ..., "stride_h": ...}))

    EXPORTERS = {MaxPool2D: export_max_pool}

A value and a tensor have the same type: dtype, shape, quantization. What TFLite doesn't take as it
is, an exporter refuses (``Target.require``, ``Target.refused``); the driver then does the op in
other types or decomposes it (``nnconv.decompositions``), and exports what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from nnconv.decompositions.base import Refused
from nnconv.errors import Reason, UnsupportedItem
from nnconv.formats.graph_export import (
    FLOAT32,
    NO_TYPES,
    FileExport,
    data_operands,
    own_outputs,
)
from nnconv.formats.indexed import IndexedExport, Ref
from nnconv.formats.refusals import STRINGS, NotExportable, item_of
from nnconv.formats.tflite import build
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR
from nnconv.formats.tflite.scales import check_gain, lost_gain, unfit_scales
from nnconv.formats.tflite.types import CODES, quantization_of
from nnconv.formats.tflite.unread import without_unread
from nnconv.ir.dtype import DType
from nnconv.ir.families import entry_of
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, TensorType

__all__ = [
    "ACTIVATION_CODES",
    "CODES8",
    "FLOAT32",
    "NO_TYPES",
    "Exporter",
    "FileTarget",
    "Target",
    "data_operands",
]

Exporter: TypeAlias = "Callable[[Node, Target], None]"

Options: TypeAlias = "tuple[str, Mapping[str, Any]] | None"
"""A table's name in the schema, and its fields; those left out have the schema's defaults."""

CODES8 = frozenset({DType.INT8, DType.UINT8})
ACTIVATION_CODES = CODES8 | {DType.INT16}
"""Types of quantized activations that most kernels take."""

MOST_BROADCAST = 8
"""Up to this rank kernels transpose, and take operands of different shapes."""

_WIDE_FIELDS = frozenset({"seed", "seed2"})
"""Fields of options that are int64."""

_OF_FEW_DIMENSIONS = {
    "TRANSPOSE": 1,
    "SELECT_V2": 3,
    **dict.fromkeys(
        (
            *("ADD", "SUB", "MUL", "DIV", "FLOOR_DIV", "FLOOR_MOD", "POW", "ATAN2", "PRELU"),
            *("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "LOGICAL_AND", "LOGICAL_OR"),
            *("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"),
            *("BITWISE_XOR", "RIGHT_SHIFT"),
        ),
        2,
    ),
}
"""How many operands of each operator are data that are broadcast, or transposed."""


def exporter_of(op: type[Op]) -> Exporter | None:
    """The exporter of an op: it stands in the file of the op's own stem."""
    found: Exporter | None = entry_of(op, "nnconv.formats.tflite.exports", "EXPORTERS")
    return found


@dataclass
class FileTarget(FileExport):
    """The file under construction.

    Attributes:
        subgraphs: the finished subgraphs; an entry is None while its graph is being exported.
        own_states: states that an operator may keep in a variable tensor: before and after a run.
        kept: those of them that one does keep, as they are before a run.
        slow_kernels: whether LiteRT's kernels of codes are used where floats are faster.
    """

    subgraphs: list[build.Subgraph | None] = field(default_factory=list)
    own_states: Mapping[Value, Value] = field(default_factory=dict)
    kept: set[Value] = field(default_factory=set)
    slow_kernels: bool = False

    def subgraph(self, graph: Graph) -> tuple[int, list[UnsupportedItem]]:
        """Export a graph as a subgraph; gives its index and what couldn't be exported."""
        own_outputs(graph, widened=True)  # XNNPACK's DEQUANTIZE doesn't give outputs then
        index = len(self.subgraphs)
        self.subgraphs.append(None)
        target = Target(self)
        refused = [_too_large(value) for value in graph.inputs if not _fits(value.shape)]
        refused += unfit_scales(graph.inputs)
        if refused:
            return index, refused
        for value in graph.inputs:
            target.declare(value)
        refused = target.run(graph)
        if not refused:
            self.subgraphs[index] = target.finish(graph)
        return index, refused


ACTIVATION_NUMBERS = {
    Activation.NONE: 0,
    Activation.RELU: 1,
    Activation.RELU_N1_TO_1: 2,
    Activation.RELU6: 3,
}
"""Fused activations that kernels apply; the others stand as ops of their own."""


_OF_CODES = frozenset({"tflite", "nnapi", "nnrt"})
"""Formats whose operations take codes themselves."""


class Target(IndexedExport):
    """A TFLite subgraph under construction, as exporters see it.

    Attributes:
        file: the file that it belongs to.
        tensors: its tensors so far.
        operators: its operators so far.
    """

    format_name = "TFLite"
    activation_numbers = ACTIVATION_NUMBERS

    def __init__(self, file: FileTarget) -> None:
        super().__init__()
        self.file: FileTarget = file
        self.tensors: list[build.Tensor] = []
        self.operators: list[build.Operator] = []
        self.current: Node | None = None

    def check_speed(self, node: Node) -> None:
        """Have 16-bit codes computed with as floats, where the source isn't TFLite itself.

        Raises:
            Refused: they are; LiteRT's kernel takes ten times as long as both conversions and the
                float one.
        """
        if self.file.slow_kernels or node.origin.format == "tflite":
            return
        if node.outputs[0].type.has_codes and node.outputs[0].dtype is DType.INT16:
            raise self.to_floats("LiteRT's kernel of 16-bit codes is slow")

    def keeps_codes(self, node: Node) -> bool:
        """Whether codes stay where LiteRT computes faster with floats between them.

        They do where the source computed with them; ONNX says floats between.
        """
        return self.file.slow_kernels or node.origin.format in _OF_CODES

    # ---------------------------------------------------------------- tensors

    def tensor(self, value: Value | None) -> Ref:
        """The tensor of a value; -1 for an absent operand."""
        return Ref(-1) if value is None else self.place(value)

    def variables(self, pairs: Sequence[tuple[Value | None, Value]]) -> list[Ref]:
        """The variable tensors of states that the operator being made reads and replaces.

        ``pairs`` are the states before and after it. Nothing may be refused behind this.

        Raises:
            Refused: a state isn't this operator's alone.
        """
        tensors = []
        for before, after in pairs:
            if before is None or self.file.own_states.get(before) is not after:
                raise Refused("its states aren't this operator's alone from run to run")
            tensors.append(self.tensor(before))
        for (before, after), tensor in zip(pairs, tensors, strict=True):
            assert before is not None
            self.tensors[tensor].is_variable = True
            self.file.kept.add(before)
            self.alias(after, tensor)
        return tensors

    def scalar(self, number: int, dtype: DType = DType.INT32) -> Ref:
        """A constant integer of rank 0.

        Raises:
            Refused: it is beyond ``dtype``.
        """
        return self.const(self._integers(number, dtype))

    def index(self, value: Value) -> Ref:
        """An index operand as int32, whatever integer type it has; constants saturate."""
        if value.dtype is DType.INT32:
            return self.tensor(value)
        kind = TensorType(DType.INT32, value.shape)
        if value.data is not None:
            return Ref(self._add(kind, value.name, self.saturated(value.data)))
        return self.cast(self.tensor(value), value.dtype, kind)

    def cast(self, tensor: int, old: DType, kind: TensorType) -> Ref:
        """A tensor's numbers in another type."""
        options = ("CastOptions", {"in_data_type": CODES[old], "out_data_type": CODES[kind.dtype]})
        return self.result("CAST", [tensor], kind, options)

    def requantized(self, value: Value, quant: Quant, dtype: DType | None = None) -> Ref:
        """A quantized value's tensor under other parameters."""
        target = dtype or value.dtype
        if value.quant == quant and value.dtype is target:
            return self.tensor(value)
        if any(has_wide_point(k, q) for k, q in ((value.dtype, value.quant), (target, quant))):
            raise self.to_floats(f"`{value.name}` has 16 bits and a zero point")
        kind = TensorType(target, value.shape, quant)
        return self.result("QUANTIZE", [self.tensor(value)], kind, ("QuantizeOptions", {}))

    def _add(self, kind: TensorType, name: str, data: np.ndarray | None = None) -> int:
        if kind.dtype is DType.STRING and data is not None:
            why, hint = STRINGS
            raise NotExportable(item_of(self.node, why, reason=Reason.OUT_OF_SCOPE, hint=hint))
        if not _fits(kind.shape):
            raise Refused(f"`{name}` has the shape {list(kind.shape or ())}, {_LIMIT}")
        shape, signature = file_shape(kind.shape, kind.quant)
        self.tensors.append(
            build.Tensor(
                name,
                CODES[kind.dtype],
                shape,
                shape_signature=signature,
                data=stored(data, kind.dtype),
                quant=None if kind.quant is None else quantization_of(kind.quant),
                has_rank=kind.shape is not None,
            )
        )
        return len(self.tensors) - 1

    def inner_name(self) -> str:
        """What to call a tensor that has no name: it belongs to a result of the node."""
        base = self.current.outputs[0].name if self.current and self.current.outputs else ""
        return f"{base}/{len(self.tensors)}"

    # ---------------------------------------------------------------- operators

    def operator(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: Options = None,
        *,
        version: int = 1,
        **more: Any,
    ) -> None:
        """Add an operator between tensors; ``more`` goes to ``build.Operator``.

        A name that no builtin has is a custom op's.

        Raises:
            Refused: numbers of the options are beyond int32, or the operands' rank beyond what the
                kernel has room for: LiteRT would end the process.
        """
        if options is not None:
            for key, number in options[1].items():
                if not isinstance(number, int) or key in _WIDE_FIELDS:
                    continue
                if not -_GREATEST - 1 <= number <= _GREATEST:
                    raise Refused(f"{key} is {number}, numbers of .tflite files are int32")
        if name in _OF_FEW_DIMENSIONS:
            data = [self.tensors[i] for i in inputs[: _OF_FEW_DIMENSIONS[name]]]
            shapes = {tuple(tensor.shape) for tensor in data}
            rank = max(map(len, shapes), default=0)
            differ = len(shapes) > 1 or any(tensor.shape_signature for tensor in data)
            if rank > MOST_BROADCAST and (differ or name == "TRANSPOSE"):
                why = f"{name} takes up to {MOST_BROADCAST} dimensions, there are {rank}"
                raise Refused(why, rank=MOST_BROADCAST)
        code = BUILTIN_OPERATOR.get(name, name)
        self.operators.append(
            build.Operator(code, inputs, outputs, options, version=version, **more)
        )

    def result(
        self,
        name: str,
        inputs: Sequence[int],
        kind: TensorType,
        options: Options = None,
        *,
        version: int = 1,
        **more: Any,
    ) -> Ref:
        """Add an operator of one result in between; gives its tensor."""
        tensor = self.temp(kind)
        self.operator(name, inputs, [tensor], options, version=version, **more)
        return tensor

    def emit(
        self,
        name: str,
        inputs: Sequence[int],
        value: Value,
        options: Options = None,
        *,
        version: int = 1,
        quant: Quant | None = None,
        **more: Any,
    ) -> None:
        """Add the operator that makes ``value``.

        ``quant`` are the parameters that the operator gives where it leaves no choice: a QUANTIZE
        follows where the value has others.
        """
        if quant is None or value.quant is None or value.quant == quant:
            self.operator(name, inputs, [self.declare(value)], options, version=version, **more)
            return
        if has_wide_point(value.dtype, value.quant):
            raise self.to_floats(f"`{value.name}` has 16 bits and a zero point")
        kind = TensorType(value.dtype, value.shape, quant)
        made = self.result(name, inputs, kind, options, version=version, **more)
        self.operator("QUANTIZE", [made], [self.declare(value)], ("QuantizeOptions", {}))

    def given(self, value: Value, table: Mapping[DType, Quant]) -> Quant | None:
        """The parameters, by type, that an operator gives to codes whatever the file says.

        None for a value without codes.

        Raises:
            Refused: the value's steps are finer, and would be lost: floats have them.
        """
        if value.quant is None:
            return None
        quant = table[value.dtype]
        if value.quant.scale[0] < _FINEST * quant.scale[0]:
            raise self.to_floats(f"the operator's steps are coarser than those of `{value.name}`")
        return quant

    # ---------------------------------------------------------------- whole graphs

    def exporter_of(self, op: type[Op]) -> Exporter | None:
        """The exporter of an op."""
        return exporter_of(op)

    def unfit(self, node: Node) -> list[UnsupportedItem]:
        """Scales that no file holds."""
        return unfit_scales((*node.inputs, *node.outputs)) or lost_gain(node)

    def vet(self, node: Node) -> None:
        """See that kernels can multiply by the ratio of its scales."""
        check_gain(node)

    def growing(self) -> tuple[list[Any] | dict[Any, Any], ...]:
        """Everything that an exporter adds to."""
        return self.tensors, self.operators, self._index, self._consts, self.file.subgraphs

    def stand_in(self, value: Value) -> None:
        """Give a tensor to a result of a node that failed."""
        self._index.setdefault(value, 0)

    def finish(self, graph: Graph) -> build.Subgraph:
        """The subgraph, once every node is exported."""
        inputs = [self.tensor(v) for v in graph.inputs]
        outputs = [self.tensor(v) for v in graph.outputs]
        whole = build.Subgraph(graph.name, self.tensors, inputs, outputs, self.operators)
        return without_unread(whole)


def has_wide_point(dtype: DType, quant: Quant | None) -> bool:
    """Whether codes have 16 bits and a zero point, which no kernel knows."""
    return dtype is DType.INT16 and quant is not None and not quant.is_symmetric


_FINEST = 0.9
"""A result's steps may be so much finer than those that an operator gives."""


def export_in_floats(node: Node, t: Target) -> None:
    """An op of real numbers that TFLite lacks: it is decomposed once its data are float32."""
    t.require(node, plain=FLOAT32)
    raise t.refused(f"TFLite has no {node.op.name}")


def export_lacking(node: Node, t: Target) -> None:
    """What is decomposed in whatever type it has, codes in floats."""
    if any(v is not None and v.type.has_codes for v in (*node.inputs, *node.outputs)):
        raise t.to_floats(f"TFLite has no {node.op.name}")
    raise t.refused(f"TFLite has no {node.op.name}")


_GREATEST = DType.INT32.int_range[1]
_LIMIT = "extents of .tflite files are int32"


def _fits(shape: Shape) -> bool:
    """Whether a file can hold the extents."""
    return all(not isinstance(dim, int) or dim <= _GREATEST for dim in shape or ())


def _too_large(value: Value) -> UnsupportedItem:
    return UnsupportedItem(
        op="input",
        where=f"`{value.name}`",
        why=f"it has the shape {list(value.shape or ())}, {_LIMIT}",
        reason=Reason.IMPOSSIBLE,
        hint="",
    )


def file_shape(
    shape: Shape, quant: Quant | None = None
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """A shape as the file has it: open extents are 1, and -1 in the signature, None without any.

    The extent that has scales of its own for each index is known by them.
    """
    if shape is None:
        return (), None
    if quant is not None and not quant.is_per_tensor and not quant.block:
        count = len(quant.scale)
        shape = tuple(count if i == quant.axis else dim for i, dim in enumerate(shape))
    if all(isinstance(dim, int) for dim in shape):
        return tuple(int(dim) for dim in shape), None  # type: ignore[arg-type]
    fixed = tuple(dim if isinstance(dim, int) else 1 for dim in shape)
    return fixed, tuple(dim if isinstance(dim, int) else -1 for dim in shape)


def stored(data: np.ndarray | None, dtype: DType) -> np.ndarray | None:
    """A constant's elements as ``build.Tensor`` takes them."""
    if data is not None and dtype is DType.BFLOAT16:
        return data.view(np.uint16)
    return data
