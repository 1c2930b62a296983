"""Lets a quantized graph compute in floats: codes are left at its edges alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation, Op, QuantRule, Role
from nnconv.ir.quant import dequantize
from nnconv.ir.types import TensorType
from nnconv.ops.activation import HardSigmoid
from nnconv.ops.elementwise import (
    Abs,
    Add,
    Clip,
    Div,
    Exp,
    Floor,
    Mul,
    Sigmoid,
    Sqrt,
    Square,
)
from nnconv.ops.norm import Softmax
from nnconv.ops.pool import AveragePool2D
from nnconv.ops.quantize import Cast, Dequantize, Quantize
from nnconv.ops.reduce import ReduceMax, ReduceMean, ReduceSum
from nnconv.ops.resize import ResizeBilinear
from nnconv.ops.shape import Concat, Identity
from nnconv.passes.base import Pass
from nnconv.passes.bounds import ANY, Bounds, bounds_of
from nnconv.passes.ranges import range_of, step_of

WIDE = frozenset({DType.INT16, DType.UINT16})

_RELUS = (Activation.RELU, Activation.RELU6, Activation.RELU_0_TO_1, Activation.SIGMOID)

_POSITIVE = (Abs, Clip, Exp, HardSigmoid, Sigmoid, Softmax, Sqrt, Square)
"""Ops whose results aren't negative."""

_KEEPING = (Add, AveragePool2D, Concat, Mul, ReduceMax, ReduceMean, ReduceSum, ResizeBilinear)
"""Ops whose results aren't negative if no operand is."""


_Step: TypeAlias = tuple[Op, tuple[int | float, ...]]
"""An op on numbers (floats) and on results of those before it (indices)."""

_LAST = -1


class ToFloatsPass(Pass):
    """Makes every quantized value inside a graph a float one, and drops the rounding between.

    The interface keeps its types: a Dequantize stands behind a quantized input, a Quantize before a
    quantized output, and both around an op that works on the codes themselves. Weights keep their
    codes. What saturated does so no longer, but for a range from 0 on: quantizers leave out a ReLU,
    or a ReLU6, whose range the codes have, so it comes back where nothing else keeps numbers
    positive.

    Attributes:
        wide: do so with 16-bit codes alone, of which the rounding stays, spelled in floats; where
            an op has others beside them, these stay.
    """

    name: ClassVar[str] = "to_floats"

    def __init__(self, *, wide: bool = False) -> None:
        """Say whether 16-bit codes alone become floats."""
        self.wide = wide

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph; what nothing reads any more is left to prune."""
        walk = _Walk(graph, wide=self.wide)
        for value in graph.inputs:
            if walk.turns(value.type):
                walk.floats[value] = walk.dequantized(value, None)
                if _clamp_of(value.type) is not None:
                    walk.positive.add(walk.floats[value])
        for node in graph.nodes:
            if node not in walk.added:
                walk.visit(node)
        graph.outputs = [walk.as_codes(value, None) for value in graph.outputs]
        return walk.modified


class _Walk:
    """The rewrite of one graph.

    Attributes:
        wide: whether 16-bit codes alone become floats.
        floats: for a value that had codes, the float one in its place.
        codes: for a value that is a float one now, the type that it had.
        added: the nodes that the rewrite put in.
        positive: floats that are known not to be negative.
        bounds: between which numbers floats lie, where that is known; only for 16-bit codes.
        modified: whether anything changed.
    """

    def __init__(self, graph: Graph, *, wide: bool) -> None:
        self.graph = graph
        self.wide = wide
        self.floats: dict[Value, Value] = {}
        self.codes: dict[Value, TensorType] = {}
        self.added: set[Node] = set()
        self.positive: set[Value] = set()
        self.bounds: dict[Value, Bounds] = {}
        self.modified = False
        self._requantized: dict[Value, Value] = {}
        self._beside: dict[Value, Value] = {}

    def turns(self, kind: TensorType) -> bool:
        """Whether values of a type become floats."""
        return kind.has_codes and (not self.wide or kind.dtype in WIDE)

    def visit(self, node: Node) -> None:
        """Let one node work on floats, if it takes them."""
        if node.op.quant_rule is QuantRule.EXACT or node.bodies:
            for index, value in enumerate(node.inputs):
                if value is not None and value in self.codes:
                    node.replace_input_with(index, self.as_codes(value, node))
            for value in node.outputs:
                if self.turns(value.type):
                    self.floats[value] = self.dequantized(value, node)
            return
        inside = (v in self.floats or v in self.codes for v in node.inputs)
        if not any(inside) and not any(self.turns(v.type) for v in node.outputs) and self.wide:
            return
        for index, value in enumerate(node.inputs):
            if value is not None:
                node.replace_input_with(index, self._operand(node, index, value))
        if isinstance(node.op, Quantize) and not self.turns(node.outputs[0].type):
            return
        if isinstance(node.op, Quantize | Dequantize) and self._drop(node):
            return
        clamp = None if isinstance(node.op, Clip) or self.wide else self._clamp(node)
        for value in node.outputs:
            if value.type.has_codes:
                kind, value.type = value.type, TensorType(DType.FLOAT32, value.shape)
                self.modified = True
                if self.turns(kind):
                    self.codes[value] = kind
                    self._round(node, value, kind)
                else:
                    self._quantize(node, value, kind)
        if clamp is not None:
            self._add_clamp(node, clamp)

    def _round(self, node: Node, value: Value, kind: TensorType) -> None:
        """Let what reads a result of 16-bit codes find the number that a code stands for.

        That is the nearest; of two the one farther from 0. What moves codes has such numbers
        already.
        """
        if not self.wide or kind.quant is None or not kind.quant.is_per_tensor:
            return
        bounds = bounds_of(node, self.bounds)
        self._bound(value, kind)
        if node.op.quant_rule is QuantRule.CODES and not isinstance(node.op, Identity):
            return
        scale = kind.quant.scale[0]
        nearest: list[_Step] = [(Add(), (_LAST, 0.5)), (Floor(), (_LAST,))]
        if bounds[0] < 0:  # Casts take off fractions of either sign
            nearest = [(Clip(low=-0.5, high=0.5), (_LAST,)), (Add(), (_LAST - 1, _LAST))]
            nearest += [(Cast(dtype=d), (_LAST,)) for d in (DType.INT32, DType.FLOAT32)]
        clip = _clip_of_steps(bounds, kind)
        clips: list[_Step] = [] if clip is None else [(clip, (_LAST,))]
        steps: list[_Step] = [(Div(), (_LAST, scale)), *clips, *nearest, (Mul(), (_LAST, scale))]
        self._insert(node, value, steps)

    def _clamp(self, node: Node) -> Activation | None:
        """The clamp that a node's quantized result implies and that nothing else does."""
        op, result = node.op, node.outputs[0]
        operands = [v for v in node.inputs if v is not None]
        if op.quant_rule is QuantRule.CODES:
            self.positive.update(node.outputs if operands[0] in self.positive else ())
            return None
        clamp = _clamp_of(result.type)
        if clamp is None or not self.turns(result.type):
            return None
        self.positive.add(result)
        if isinstance(op, _POSITIVE) or getattr(op, "activation", None) in _RELUS:
            return None
        kept = isinstance(op, _KEEPING) and all(v in self.positive for v in operands)
        return None if kept else clamp

    def _add_clamp(self, node: Node, clamp: Activation) -> None:
        """Clamp a node's result, by itself if it can."""
        if getattr(node.op, "activation", None) is Activation.NONE:
            node.op = node.op.replace(activation=clamp)
            return
        assert clamp.bounds is not None
        clip = Clip(low=clamp.bounds[0], high=clamp.bounds[1])
        self.positive.add(self._insert(node, node.outputs[0], [(clip, (_LAST,))]))

    def _insert(self, node: Node, result: Value, steps: Sequence[_Step]) -> Value:
        """Let what reads a result find what ops make of it."""
        values = [result]
        for op, given in steps:
            operands = [values[g] if isinstance(g, int) else _number(g) for g in given]
            dtype = op.dtype if isinstance(op, Cast) else DType.FLOAT32
            kind = TensorType(dtype, result.shape)
            values.append(Value(result.name, kind, origin=result.origin))
            made = Node(op, operands, values[-1:], origin=node.origin)
            self.graph.insert_after(node, made)
            self._note(values[-1])
            node = made
        last = values[-1]
        self.floats[result] = last
        if result in self.bounds:
            self.bounds[last] = self.bounds[result]
        return last

    def _operand(self, node: Node, index: int, value: Value) -> Value:
        found = self.floats.get(value, value)
        if not found.type.has_codes:
            return found
        if found.data is None:
            return self._narrow(found, node)
        if node.op.role(index) is Role.WEIGHT:
            return found  # weights keep their codes beside float data
        assert found.quant is not None
        real = dequantize(found.data, found.quant)
        self.modified = True
        return Value(found.name, TensorType(DType.FLOAT32, found.shape), data=real)

    def _narrow(self, value: Value, before: Node) -> Value:
        """The floats of codes that stay, for an op that has others beside them."""
        found = self._beside.get(value)
        if found is None:
            builder = Builder(self.graph, before=before, origin=value.origin)
            found = builder.add(Dequantize(dtype=DType.FLOAT32), [value])
            self._beside[value] = found
            self._note(found)
            self._bound(found, value.type)
        return found

    def _quantize(self, node: Node, value: Value, kind: TensorType) -> None:
        """Let all that reads a result of floats have the codes that it was, and that stay."""
        codes = Value(value.name, kind, origin=value.origin)
        value.replace_all_uses_with(codes)
        self.graph.replace_output(value, codes)
        value.name = f"{value.name}/real"
        self.graph.insert_after(
            node, Node(Quantize(dtype=kind.dtype), [value], [codes], origin=node.origin)
        )
        self._note(codes)

    def _drop(self, node: Node) -> bool:
        """Let readers of a conversion read what it would convert, where that is a float now.

        It stays for a graph output that is its result, and becomes a Cast to or from other floats.
        """
        x, result = node.operand(0), node.outputs[0]
        wanted = DType.FLOAT32 if isinstance(node.op, Quantize) else result.dtype
        if x.type.has_codes or not x.dtype.is_float:
            return False
        if x.dtype is not wanted:
            node.op = Cast(dtype=wanted)
            self.modified = True
            return False
        if self.wide and isinstance(node.op, Quantize):
            node.op = Identity()  # what it does stands behind it
            return False
        clamp = _clamp_of(result.type) if isinstance(node.op, Quantize) else None
        if clamp is not None and clamp.bounds is not None and x not in self.positive:
            node.op = Clip(low=clamp.bounds[0], high=clamp.bounds[1])
            self.positive.add(result)
            return False
        self.floats[result] = x
        if isinstance(node.op, Dequantize):
            node.op = Identity()
            self.modified = True
        return True

    def dequantized(self, value: Value, after: Node | None) -> Value:
        """A Dequantize of codes, behind ``after`` or at the start."""
        result = Value(f"{value.name}/real", TensorType(DType.FLOAT32, value.shape))
        node = Node(Dequantize(dtype=DType.FLOAT32), [value], [result], origin=value.origin)
        if after is None:
            self.graph.prepend(node)
        else:
            self.graph.insert_after(after, node)
        self._note(result)
        self._bound(result, value.type)
        return result

    def _bound(self, value: Value, kind: TensorType) -> None:
        """Remember that floats lie where codes of a type do."""
        if self.wide and kind.quant is not None and kind.quant.is_per_tensor:
            self.bounds[value] = range_of(kind)

    def as_codes(self, value: Value, before: Node | None) -> Value:
        """The codes that a value had, made from its floats; itself if it has them still."""
        kind = self.codes.get(value)
        if kind is None:
            return value
        found = self._requantized.get(value)
        if found is None:
            builder = Builder(self.graph, before=before, origin=value.origin)
            op = Quantize(dtype=kind.dtype)
            found = builder.add_typed(op, [value], [kind], names=[value.name])[0]
            value.name = f"{value.name}/real"
            self._requantized[value] = found
            self._note(found)
        return found

    def _note(self, result: Value) -> None:
        assert result.producer is not None
        self.added.add(result.producer)
        self.modified = True


def _number(number: float) -> Value:
    """A constant."""
    return Value("", TensorType(DType.FLOAT32, ()), data=np.asarray(number, np.float32))


def _clip_of_steps(bounds: Bounds, kind: TensorType) -> Clip | None:
    """The Clip of steps that keeps numbers in the range of codes, if bounds leave them more."""
    assert kind.quant is not None
    (low, high), (least, greatest), reach = bounds, range_of(kind), step_of(kind) / 2
    first, last = (code - kind.quant.zero_point[0] for code in kind.dtype.int_range)
    op = Clip(
        low=-math.inf if low >= least - reach else first,
        high=math.inf if high <= greatest + reach else last,
    )
    return None if (op.low, op.high) == ANY else op


def _clamp_of(kind: TensorType) -> Activation | None:
    """The clamp that the range of a type's codes amounts to, if that begins at 0."""
    if not kind.has_codes or kind.quant is None or not kind.quant.is_per_tensor:
        return None
    low, high = range_of(kind)
    if low != 0:
        return None
    return Activation.RELU6 if abs(high - 6) <= step_of(kind) else Activation.RELU


def computes_wide_codes(graph: Graph) -> bool:
    """Whether a graph computes with 16-bit codes, instead of moving or converting them alone."""
    return any(map(_computes_wide, graph.nodes))


def _computes_wide(node: Node) -> bool:
    if isinstance(node.op, Quantize) or node.op.quant_rule is not QuantRule.REAL:
        return False
    if isinstance(node.op, Dequantize) and not node.outputs[0].use_count:
        return False
    values = (*node.inputs, *node.outputs)
    return any(v is not None and v.dtype in WIDE and v.type.has_codes for v in values)
