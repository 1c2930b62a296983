"""Codes that int32 stands in for: from and to floats, and the numbers they are.

Next to no operation takes codes of 16 bits, and signed ones of 8 bits need level 4, while int32
holds them all, and so does float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnconv.decompositions.base import Refused
from nnconv.formats.graph_export import data_operands
from nnconv.formats.indexed import Ref
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import QuantRule, Role
from nnconv.ir.types import TensorType
from nnconv.ops.elementwise import Clip
from nnconv.ops.quantize import Dequantize, LooseCast, Quantize

if TYPE_CHECKING:
    from nnconv.formats.nnapi.exporter import Input, Target

GREATEST = (1 << 31) - 128
"""The greatest float32 that int32 holds."""


class _Steps:
    """Operations on float32, or int32, values of one shape with numbers."""

    def __init__(self, t: Target, x: Input, kind: TensorType) -> None:
        self.t, self.value, self.kind = t, x, kind

    def do(self, name: str, number: Input) -> _Steps:
        """The value with a number, or another value."""
        if isinstance(number, int | float) and not isinstance(number, Ref):
            number = self.t.const(np.full(1, number, self.kind.dtype.numpy))
        inputs = {"input0": self.value, "input1": number}
        if name in _WITH_ACTIVATION:
            inputs["activation"] = 0
        return _Steps(self.t, self.t.result(name, inputs, self.kind), self.kind)

    def clip(self, low: float, high: float) -> _Steps:
        """The value between bounds."""
        return self.do("MAXIMUM", low).do("MINIMUM", high)

    def cast(self, dtype: DType) -> _Steps:
        """The value as another type."""
        kind = TensorType(dtype, self.kind.shape)
        return _Steps(self.t, self.t.result("CAST", {"input": self.value}, kind), kind)

    def last(self, name: str, number: float, y: Value) -> None:
        """Make ``y`` of the value with a number."""
        other = self.t.const(np.full(1, number, self.kind.dtype.numpy))
        self.t.emit(name, {"input0": self.value, "input1": other, "activation": 0}, y)


_WITH_ACTIVATION = frozenset({"ADD", "SUB", "MUL", "DIV"})


def quantize(t: Target, x: Value, y: Value) -> None:
    """Codes of floats: CAST takes off fractions, so half a step is added, away from zero.

    Numbers of less than half a step are doubled at most.
    """
    quant = y.quant
    assert quant is not None, "the result has parameters"
    point, (low, high) = quant.zero_point[0], y.dtype.int_range
    steps = _Steps(t, x, TensorType(DType.FLOAT32, x.shape)).do("DIV", quant.scale[0])
    away = steps.do("ADD", steps.clip(-0.5, 0.5).value)
    codes = away.clip(low - point, min(high - point, GREATEST))
    if point:
        codes = codes.cast(DType.INT32).cast(DType.FLOAT32).do("ADD", point)
    t.emit("CAST", {"input": codes.value}, y)


def requantize(t: Target, x: Value, y: Value) -> None:
    """int32 codes of others: whole steps as integers, the rest, which float32 holds, as floats.

    Raises:
        Refused: the ratio of their scales is below 1, or too large.
    """
    old, new = x.quant, y.quant
    assert old is not None, "codes have parameters"
    assert new is not None, "codes have parameters"
    ratio = float(np.float64(old.scale[0]) / np.float64(new.scale[0]))
    count = max(map(abs, x.dtype.int_range)) + abs(old.zero_point[0])
    if x.dtype.bits > 16 or not 1 <= ratio < (1 << 31) / count or any(new.zero_point):
        raise t.refused(f"`{y.name}` is {y.type}")
    codes = _Steps(t, x, TensorType(DType.INT32, x.shape))
    if t.stored(x.dtype) is not DType.INT32:
        codes = codes.cast(DType.INT32)
    if any(old.zero_point):
        codes = codes.do("SUB", old.zero_point[0])
    rest = codes.cast(DType.FLOAT32).do("MUL", ratio % 1)
    rounded = rest.do("ADD", rest.clip(-0.5, 0.5).value).cast(DType.INT32)
    whole = codes.do("MUL", int(ratio))
    t.emit("ADD", {"input0": whole.value, "input1": rounded.value, "activation": 0}, y)


def is_other_sign(x: Value, y: Value) -> bool:
    """Whether codes are others of the same width and real values, shifted by half their range."""
    if x.quant is None or y.quant is None or x.dtype.bits != y.dtype.bits:
        return False
    return x.quant.shifted(y.dtype.int_range[0] - x.dtype.int_range[0]) == y.quant


def shift(t: Target, x: Value, y: Value) -> None:
    """Codes of the other sign."""
    distance = y.dtype.int_range[0] - x.dtype.int_range[0]
    stored = TensorType(t.stored(x.dtype), x.shape)
    shifted = _Steps(t, x, stored).cast(DType.FLOAT32).do("ADD", distance)
    t.emit("CAST", {"input": shifted.value}, y)


def dequantize(t: Target, x: Value, y: Value) -> None:
    """Floats of codes."""
    quant = x.quant
    assert quant is not None, "codes have parameters"
    codes = _Steps(t, x, TensorType(DType.INT32, x.shape)).cast(DType.FLOAT32)
    if point := quant.zero_point[0]:
        codes = codes.do("SUB", point)
    codes.last("MUL", quant.scale[0], y)


def has_int32(t: Target, kind: TensorType) -> bool:
    """Whether a type is of codes that are int32, or that it stands in for."""
    numbers = t.stored(kind.dtype) is DType.INT32
    return numbers and kind.quant is not None and kind.quant.is_per_tensor


def cast(t: Target, x: Value, y: Value) -> None:
    """Numbers as those of 16 bits: floats at the nearest end where they are beyond.

    Integers keep their low bits.

    Raises:
        Refused: CAST takes codes of 8 bits to others than these.
    """
    least, greatest = y.dtype.int_range
    known = _range_of(x)
    if known is not None and least <= known[0] and known[1] <= greatest:
        if t.stored(x.dtype) is DType.INT32:
            t.keep(x, y)
        else:
            t.emit("CAST", {"input": x}, y)
        return
    if x.dtype.is_float:
        kind = TensorType(x.dtype, x.shape)
        whole = _Steps(t, x, kind)
        if t.current is None or not isinstance(t.current.op, LooseCast):
            whole = whole.clip(least, greatest)
        t.emit("CAST", {"input": whole.value}, y)
        return
    if t.stored(x.dtype) is not DType.INT32:
        raise t.refused(f"CAST keeps the numbers of {x.dtype}, which {y.dtype} hasn't all")
    numbers = _Steps(t, x, TensorType(DType.INT32, x.shape))
    turns = numbers.do("SUB", least).do("DIV", 1 << y.dtype.bits)
    over = turns.do("MUL", 1 << y.dtype.bits)
    t.emit("SUB", {"input0": x, "input1": over.value, "activation": 0}, y)


def _range_of(x: Value) -> tuple[float, float] | None:
    """Bounds that the numbers of a value are known to keep."""
    op: Any = None if x.producer is None else x.producer.op
    if isinstance(op, Clip) and not x.type.has_codes:
        return op.low, op.high
    return x.dtype.int_range if x.dtype.is_integer and x.dtype.bits < 32 else None


def misread(node: Node, t: Target) -> Refused | None:
    """What is wrong with an op that would take int32 numbers for the codes that they are.

    Those that move or compare codes may; so may what works on the stored numbers themselves.
    """
    conversion = isinstance(node.op, Quantize | Dequantize)
    if conversion or node.bodies or node.op.quant_rule is not QuantRule.REAL:
        return None
    given = (v for i, v in enumerate(node.inputs) if node.op.role(i) is not Role.WEIGHT)
    operands = [v for v in (*given, *node.outputs) if v is not None and t.is_lacking(v.dtype)]
    if not operands:
        return None
    kind = operands[0].dtype
    if any(v.type.has_codes for v in operands):
        return t.to_floats(f"NNAPI doesn't compute with {kind} codes")
    why = f"NNAPI has no {kind}"
    return Refused(why, types=frozenset({DType.INT32}), operands=tuple(data_operands(node)))
