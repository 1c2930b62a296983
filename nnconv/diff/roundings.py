"""What rounds on the way to each value of a graph, found in one walk over it.

Two runtimes agree on integers that are made of integers, to the last bit. Where a real number is
rounded to one, each may take the other of two that are as near: quantized values (codes) are made
so, and integers that stand for them where a format lacks their type. So what they become counts.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import HYBRID_MARK, Graph, Node, Value
from nnconv.ir.op import Op, QuantRule, Role
from nnconv.ops.control import Control, If
from nnconv.ops.detection import NonMaxSuppression, SelectBoxes
from nnconv.ops.elementwise import (
    Abs,
    Add,
    AddN,
    Ceil,
    Clip,
    Comparison,
    Div,
    Floor,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Round,
    Select,
    Sigmoid,
    Sign,
    Sub,
    ZerosLike,
)
from nnconv.ops.gather import NonZero, TopK, Unique, UniqueSlices
from nnconv.ops.norm import LogSoftmax, Softmax
from nnconv.ops.numeric import ClipBetween, MaxOf, MinOf, PlainSign
from nnconv.ops.pool import MaxPoolIndices
from nnconv.ops.quantize import Bitcast, Cast, Dequantize, DynamicQuantize, FakeQuant
from nnconv.ops.reduce import ArgExtreme, ReduceMax, ReduceMin
from nnconv.ops.resize import ResizeBilinear
from nnconv.ops.segment import Bucketize
from nnconv.ops.shape import Concat, Rank, ShapeOf, Size

HALVES = frozenset({DType.FLOAT16, DType.BFLOAT16})

_ROUNDING = "DynamicQuantizeLSTM"
"""An operator that alone rounds data in the middle; what others of the kind do stands in nodes."""


class Mark(enum.IntFlag):
    """What lies on the way to a value."""

    NONE = 0
    DRAWS = enum.auto()
    """Random numbers."""
    TIES = enum.auto()
    """A choice of boxes by scores that were codes, of which many are equal."""
    ROUNDING_LSTM = enum.auto()
    """An operator of onnxruntime that rounds its data to 8 bits."""
    DYNAMIC = enum.auto()
    """Float data beside quantized constant weights."""
    HYBRID = enum.auto()
    """Weights that are noted as what TFLite's kernels read beside floats."""
    BLOCKS = enum.auto()
    """Constant codes that have scales for blocks of them."""
    HALVES = enum.auto()
    """Numbers of 11 bits or fewer."""
    RESIZED = enum.auto()
    """Images of 16-bit codes that are resized."""
    INEXACT = enum.auto()
    """Real numbers that runtimes compute to other last bits, or codes that were rounded."""
    WHOLE = enum.auto()
    """The value itself has whole numbers alone, of which ``Trace.unit`` tells."""


class Trace(NamedTuple):
    """What lies on the way to a value.

    Attributes:
        marks: of what kinds that is.
        halves: how many results in a row are halves that were computed.
        wide: how many are 16-bit codes.
        codes: how many are codes, or integers that real numbers were rounded to.
        step: the largest scale of the codes that floats came from; the later ones tell.
        unit: what the numbers themselves are off by where a rounding goes the other way; 0 where
            they come from none, or it is no longer known.
        coarse: how many steps a single one before a Softmax, or a curve like it, may become.
    """

    marks: Mark = Mark.NONE
    halves: int = 0
    wide: int = 0
    codes: int = 0
    step: float = 0.0
    unit: float = 0.0
    coarse: float = 0.0


Traces: TypeAlias = Mapping[Value, Trace]

_NOTHING = Trace()

_EXACTLY: tuple[type[Op], ...] = (
    *(Abs, Add, Bitcast, Cast, Ceil, Clip, ClipBetween, Concat, Control, Dequantize, Floor),
    *(MaxOf, Maximum, MinOf, Minimum, Mul, Neg, PlainSign, ReduceMax, ReduceMin, Round, Select),
    *(Sign, Sub, ZerosLike),
)
"""Ops whose floats are the same on all runtimes, beside those that move them."""

_HANDING_ON: tuple[type[Op], ...] = (
    *(Abs, Add, AddN, Cast, Ceil, Clip, ClipBetween, Concat, Floor, MaxOf, Maximum, MinOf),
    *(Minimum, Neg, ReduceMax, ReduceMin, Round, Select, Sub),
)
"""Ops of floats whose results are off by what their operands are, beside those that move them."""

_SLOPES: dict[type[Op], float] = {LogSoftmax: 2.0, Sigmoid: 0.25, Softmax: 0.5}
"""By how much a result changes, at most, for each operand's changes; of those whose results often
have finer steps. The largest element may go up while the others go down."""

_ADDING = (Add, AddN, Sub)

_PLACES: tuple[type[Op], ...] = (
    *(ArgExtreme, Bucketize, Comparison, NonMaxSuppression, NonZero, Rank, SelectBoxes),
    *(ShapeOf, Size),
)
"""Ops that choose or count: their integers are another choice, or the same."""

_PLACES_BEHIND: tuple[type[Op], ...] = (MaxPoolIndices, TopK, Unique, UniqueSlices)
"""Ops that do so in all results but the first."""


def has_wide_codes(value: Value) -> bool:
    """Whether a value has codes of 16 bits."""
    return value.type.has_codes and value.dtype is DType.INT16


def traces_of(graph: Graph, given: Traces | None = None, *, turns: int = 2) -> dict[Value, Trace]:
    """The trace of each value that a node of the graph gives.

    Args:
        graph: the graph.
        given: those of its inputs, where they have any.
        turns: how many of a loop count. Loops within loops have those of the outer one.
    """
    traces = dict(given or {})
    for node in graph.nodes:
        before = [
            (v, traces.get(v, _NOTHING)) for v in node.inputs if v is not None and not v.is_const
        ]
        joined = _joined(trace for _, trace in before)
        marks = (joined.marks & ~Mark.WHOLE) | _marks(node)
        step = max((_step(v, trace) for v, trace in before), default=0.0)
        inner = _of_bodies(node, traces, turns) if node.bodies else ()
        for value in node.outputs:
            found = _behind(node, value, joined._replace(marks=marks, step=step), traces)
            traces[value] = _joined((found, inner[value.index])) if inner else found
    return traces


def _joined(traces: Iterable[Trace]) -> Trace:
    """What lies on the way to one of several values."""
    marks, *numbers = Trace()
    for trace in traces:
        marks |= trace.marks
        numbers = [max(pair) for pair in zip(numbers, trace[1:], strict=True)]
    return Trace(marks, *numbers)  # type: ignore[arg-type] # each is of its own field


def _of_bodies(node: Node, traces: Traces, turns: int) -> list[Trace]:
    """What lies in the bodies on the way to each result."""
    operands = node.inputs[1:] if isinstance(node.op, If) else node.inputs
    given = [_NOTHING if v is None else traces.get(v, _NOTHING) for v in operands]
    if isinstance(node.op, If):
        ends = (_of_body(body, given, turns) for body in node.bodies)
        return [_joined(pair) for pair in zip(*ends, strict=True)]
    turn = node.bodies[-1]
    for _ in range(turns):
        given = [_joined(pair) for pair in zip(given, _of_body(turn, given, 1), strict=True)]
    return given


def _of_body(body: Graph, given: Sequence[Trace], turns: int) -> list[Trace]:
    traces = traces_of(body, dict(zip(body.inputs, given, strict=True)), turns=turns)
    return [traces.get(value, _NOTHING) for value in body.outputs]


def _behind(node: Node, value: Value, before: Trace, traces: Traces) -> Trace:
    """The trace of a node's result, of which marks and step are found."""
    computes = node.op.quant_rule is QuantRule.REAL
    rounds = _rounds(node, value, before, traces)
    unit, is_whole = _unit(node, value, traces)
    if rounds:
        unit, is_whole = max(unit, 1.0), True
    marks = before.marks | (Mark.WHOLE if is_whole else Mark.NONE)
    if _is_inexact(node, value):
        marks |= Mark.INEXACT
    step = before.step
    if isinstance(node.op, FakeQuant) and Mark.INEXACT in before.marks:
        step, rounds = node.op.grid()[0], True
    return Trace(
        marks,
        before.halves + (computes and value.dtype in HALVES),
        before.wide + (computes and has_wide_codes(value)),
        before.codes + ((computes and value.type.has_codes) or rounds),
        step,
        unit,
        _coarse(node, value, before, moves=unit > 0),
    )


def _coarse(node: Node, value: Value, before: Trace, *, moves: bool) -> float:
    op = node.op
    slope = _SLOPES.get(type(op), 0.0) * (op.beta if isinstance(op, Softmax) else 1.0)
    x = node.operand(0) if slope else value
    if slope and x.quant is not None and value.quant is not None:
        return slope * max(x.quant.scale) / min(value.quant.scale)
    moves |= op.quant_rule is QuantRule.CODES or isinstance(op, Dequantize)
    return before.coarse if moves else 0.0


def _is_inexact(node: Node, value: Value) -> bool:
    """Whether runtimes may compute other numbers from the same ones."""
    op = node.op
    if op.quant_rule is QuantRule.CODES:
        return False
    if value.type.has_codes or value.dtype in HALVES:
        return op.quant_rule is QuantRule.REAL or not isinstance(op, _EXACTLY)
    return value.dtype.is_float and not isinstance(op, _EXACTLY)


def _rounds(node: Node, value: Value, before: Trace, traces: Traces) -> bool:
    """Whether real numbers that may differ become whole ones that have no scale."""
    op = node.op
    if isinstance(op, DynamicQuantize):
        return value.dtype.is_integer
    if value.type.has_codes or not isinstance(op, Cast | Round | Floor | Ceil):
        return False
    x = node.operand(0)
    if not x.dtype.is_float or value.dtype is DType.BOOL or Mark.INEXACT not in before.marks:
        return False
    is_whole = Mark.WHOLE in traces.get(x, _NOTHING).marks
    return not is_whole and (value.dtype.is_integer or not isinstance(op, Cast))


def _unit(node: Node, value: Value, traces: Traces) -> tuple[float, bool]:
    """What a result's numbers are off by for those of the operands, and whether all are whole."""
    op = node.op
    data = [v for v in _data(node) if not v.is_const]
    units = [_unit_of(v, traces, stored=op.quant_rule is not QuantRule.REAL) for v in data]
    unit = sum(units) if isinstance(op, _ADDING) else max(units, default=0.0)
    if not unit or value.type.has_codes or value.dtype is DType.BOOL or _is_place(node, value):
        return 0.0, False
    gain = _gain(node)
    if gain is not None:
        return unit * gain, value.dtype.is_integer
    if _hands_on(node, value):
        return unit, value.dtype.is_integer or all(_is_whole(v, traces) for v in _data(node))
    return 0.0, False


def _is_place(node: Node, value: Value) -> bool:
    """Whether a result is what was chosen or counted."""
    op = node.op
    return isinstance(op, _PLACES) or (isinstance(op, _PLACES_BEHIND) and value.index > 0)


def _hands_on(node: Node, value: Value) -> bool:
    """Whether a result is off by what the operands are, be it moved or made of integers."""
    op = node.op
    if isinstance(op, Bitcast):
        return node.operand(0).dtype.is_integer and value.dtype.is_integer
    return value.dtype.is_integer or op.quant_rule is QuantRule.CODES or isinstance(op, _HANDING_ON)


def _unit_of(value: Value, traces: Traces, *, stored: bool) -> float:
    trace = traces.get(value, _NOTHING)
    if value.type.has_codes:
        return float(stored and Mark.INEXACT in trace.marks)
    return trace.unit


def _is_whole(value: Value, traces: Traces) -> bool:
    if value.data is not None and value.dtype.is_float:
        numbers = np.asarray(value.data, np.float64)
        return bool((numbers == np.rint(numbers)).all())
    return value.dtype.is_integer or Mark.WHOLE in traces.get(value, _NOTHING).marks


def _data(node: Node) -> list[Value]:
    """What a node reads, but for indices and conditions."""
    formal = node.op.operands
    last = len(formal) - 1
    return [
        v
        for i, v in enumerate(node.inputs)
        if v is not None
        and v.dtype is not DType.BOOL
        and (not formal or formal[min(i, last)].role is not Role.INDEX)
    ]


def _gain(node: Node) -> float | None:
    """By what a product with a constant, or its quotient, is larger; None where that is open.

    Other ops have no such gain.
    """
    if not isinstance(node.op, Mul | Div):
        return None
    constants = [v.data for v in node.inputs if v is not None and v.data is not None]
    if len(constants) != 1 or (isinstance(node.op, Div) and not node.operand(1).is_const):
        return None
    sizes = np.abs(np.asarray(constants[0], np.float64))
    if isinstance(node.op, Mul):
        return float(sizes.max(initial=0.0))
    least = float(sizes.min(initial=np.inf))
    return 1.0 / least if least else None


def _step(value: Value, trace: Trace) -> float:
    """The step of an operand: of its own codes, of whole numbers with a factor, or further back."""
    if value.dtype.is_integer and value.quant is not None:
        return max(value.quant.scale)
    scaled = value.dtype.is_float and trace.unit and Mark.WHOLE not in trace.marks
    return trace.unit if scaled else trace.step


# ------------------------------------------------------------------------ marks


def _marks(node: Node) -> Mark:
    """What a node itself puts on the way to its results."""
    found = {
        Mark.DRAWS: _draws(node),
        Mark.TIES: _chooses_among_ties(node),
        Mark.ROUNDING_LSTM: node.origin.op == _ROUNDING,
        Mark.DYNAMIC: _is_dynamic(node),
        Mark.HYBRID: _is_hybrid(node),
        Mark.BLOCKS: _reads_blocks(node),
        Mark.HALVES: any(v.dtype in HALVES for v in node.outputs),
        Mark.RESIZED: isinstance(node.op, ResizeBilinear) and has_wide_codes(node.outputs[0]),
    }
    marks = Mark.NONE
    for mark, is_there in found.items():
        if is_there:
            marks |= mark
    return marks


def _draws(node: Node) -> bool:
    """Whether a node, or one in its bodies, draws random numbers."""
    return node.op.draws or any(_draws(inner) for body in node.bodies for inner in body.nodes)


def _chooses_among_ties(node: Node) -> bool:
    """Whether a node chooses boxes by scores that were codes, of which many are equal."""
    if not isinstance(node.op, NonMaxSuppression):
        return False
    scores = node.operand(1)
    while scores.producer is not None and scores.producer.op.quant_rule is QuantRule.CODES:
        scores = scores.producer.operand(0)
    return scores.producer is not None and isinstance(scores.producer.op, Dequantize)


def _is_dynamic(node: Node) -> bool:
    """Whether an op has float data and quantized constant weights."""
    if node.op.quant_rule is not QuantRule.REAL or len(node.inputs) < 2 or not node.outputs:
        return False
    x = node.inputs[0]
    weights = (v for v in node.inputs[1:] if v is not None and v.is_const)
    return (
        x is not None
        and x.dtype.is_float
        and node.outputs[0].dtype.is_float
        and any(v.type.has_codes for v in weights)
    )


def _is_hybrid(node: Node) -> bool:
    """Whether a node reads weights that are noted as what TFLite's kernels read beside floats."""
    constants = (v for v in node.inputs if v is not None and v.is_const)
    return any(v.origin.op == HYBRID_MARK for v in constants)


def _reads_blocks(node: Node) -> bool:
    """Whether a node makes floats of constant codes that have scales for blocks of them."""
    codes = node.inputs[0] if isinstance(node.op, Dequantize) else None
    return (
        codes is not None and codes.is_const and codes.quant is not None and codes.quant.block > 0
    )
