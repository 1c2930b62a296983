"""Elementwise ops. Which types each kernel set takes: the tables.

Quantized forms that go through floats on purpose: XNNPACK turns DEQUANTIZE, op, QUANTIZE into a
table, 3 to 500 times faster than LiteRT's own kernels of HARD_SWISH, ABS, EXP, GELU, SQRT, RSQRT,
PRELU; quantized DIV is wrong for small quotients.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nnconv.formats.clamps import clamp_steps
from nnconv.formats.tflite.exporter import (
    ACTIVATION_CODES,
    CODES8,
    FLOAT32,
    NO_TYPES,
    Exporter,
    Target,
    export_in_floats,
)
from nnconv.formats.tflite.types import USUAL_TYPES
from nnconv.ir.dtype import BOOLS, DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType, element_count
from nnconv.ops import elementwise as e
from nnconv.ops.rewrite import constant_behind

_F32_I32 = FLOAT32 | {DType.INT32}
_ARITHMETIC = _F32_I32 | {DType.INT64}
_STRING = frozenset({DType.STRING})
_RAW = frozenset({DType.INT8, DType.INT16})
"""Codes of which the numbers as such count."""

_BITS = frozenset({DType.INT32, DType.UINT32, DType.INT16, DType.UINT16, DType.INT8, DType.UINT8})


class Form(NamedTuple):
    """The operator that does an op.

    Attributes:
        name: the builtin.
        plain: types of numbers that it takes.
        codes: types of codes that it takes.
        table: its options' table; empty where it has none worth writing.
        same: whether codes must have the result's parameters.
    """

    name: str
    plain: frozenset[DType]
    codes: frozenset[DType] = NO_TYPES
    table: str = ""
    same: bool = False


FORMS: dict[type[Op], Form] = {
    e.Abs: Form("ABS", _F32_I32),
    e.Neg: Form("NEG", _ARITHMETIC),
    e.Sign: Form("SIGN", _F32_I32 | {DType.FLOAT64}),
    e.Square: Form("SQUARE", FLOAT32),
    e.Sqrt: Form("SQRT", FLOAT32),
    e.Rsqrt: Form("RSQRT", FLOAT32),
    e.Exp: Form("EXP", FLOAT32),
    e.Log: Form("LOG", FLOAT32),
    e.Sin: Form("SIN", FLOAT32),
    e.Cos: Form("COS", FLOAT32),
    e.Floor: Form("FLOOR", FLOAT32),
    e.HardSwish: Form("HARD_SWISH", FLOAT32),
    e.LogicalNot: Form("LOGICAL_NOT", BOOLS),
    e.ZerosLike: Form("ZEROS_LIKE", _ARITHMETIC),
    e.Maximum: Form("MAXIMUM", _ARITHMETIC, ACTIVATION_CODES, same=True),
    e.Minimum: Form("MINIMUM", _ARITHMETIC, ACTIVATION_CODES, same=True),
    e.FloorDiv: Form("FLOOR_DIV", _F32_I32 | _RAW, _RAW),
    e.FloorMod: Form("FLOOR_MOD", _ARITHMETIC | _RAW, _RAW),
    e.SquaredDifference: Form("SQUARED_DIFFERENCE", _F32_I32, frozenset({DType.INT8})),
    e.BitwiseXor: Form("BITWISE_XOR", _BITS, _BITS),
    e.RightShift: Form("RIGHT_SHIFT", _BITS, _BITS),
    e.Equal: Form("EQUAL", _ARITHMETIC | BOOLS | _STRING, ACTIVATION_CODES),
    e.NotEqual: Form("NOT_EQUAL", _ARITHMETIC | BOOLS | _STRING, ACTIVATION_CODES),
    e.Less: Form("LESS", _ARITHMETIC, ACTIVATION_CODES),
    e.LessEqual: Form("LESS_EQUAL", _ARITHMETIC, ACTIVATION_CODES),
    e.Greater: Form("GREATER", _ARITHMETIC, ACTIVATION_CODES),
    e.GreaterEqual: Form("GREATER_EQUAL", _ARITHMETIC, ACTIVATION_CODES),
    e.LogicalAnd: Form("LOGICAL_AND", BOOLS),
    e.LogicalOr: Form("LOGICAL_OR", BOOLS),
    e.AddN: Form("ADD_N", _F32_I32),
    e.Atan2: Form("ATAN2", FLOAT32 | {DType.FLOAT64}),
    e.ComplexAbs: Form("COMPLEX_ABS", frozenset({DType.COMPLEX64})),
    e.Real: Form("REAL", frozenset({DType.COMPLEX64})),
    e.Imag: Form("IMAG", frozenset({DType.COMPLEX64})),
}
"""Ops that one operator without options does."""

ARITHMETIC: dict[type[Op], Form] = {
    e.Add: Form("ADD", _ARITHMETIC, ACTIVATION_CODES, "AddOptions"),
    e.Sub: Form("SUB", _ARITHMETIC, ACTIVATION_CODES, "SubOptions"),
    e.Mul: Form("MUL", _ARITHMETIC, ACTIVATION_CODES, "MulOptions"),
    e.Div: Form("DIV", _F32_I32, NO_TYPES, "DivOptions"),
}
"""Ops that may have an activation."""


def _check_types(node: Node, t: Target) -> None:
    """See that codes become codes of their own type: kernels know no others."""
    y = node.outputs[0]
    if any(v is not None and v.type.has_codes and v.dtype is not y.dtype for v in node.inputs):
        raise t.to_floats(f"`{y.name}` is {y.type}, of another type than what it is made of")


def _check_ranks(node: Node, t: Target) -> None:
    """See that no operand of one element has more dimensions than the data beside it.

    XNNPACK makes tables of ops on codes that follow one another where such an operand is constant,
    and these keep the shape of the data.
    """
    for x, other in (node.inputs, node.inputs[::-1]):
        if x is None or x.data is not None or other is None or other.shape is None:
            continue
        if x.type.rank in range(len(other.shape)) and element_count(other.shape) == 1:
            raise t.refused(f"`{other.name}` has one element, but more dimensions than `{x.name}`")


_TABLED = (e.Maximum, e.Minimum, e.SquaredDifference)
"""Operators without options that XNNPACK makes such tables of."""


def export_plain(node: Node, t: Target) -> None:
    """An operator without options."""
    form = FORMS[type(node.op)]
    t.require(node, plain=form.plain, codes=form.codes)
    y = node.outputs[0]
    for value in (*node.inputs, y):
        _check_zero_point(value, t)
    if form.name in _COMPARISONS:
        _check_compared(node, t)
    if isinstance(node.op, _TABLED):
        _check_ranks(node, t)
    if isinstance(node.op, e.Atan2 | e.AddN) and any(
        v is None or v.shape != y.shape for v in node.inputs
    ):
        raise t.refused(f"{form.name} doesn't broadcast")
    if isinstance(node.op, e.AddN) and len(node.inputs) == 1:
        raise t.refused(f"{form.name} takes two operands or more")
    if form.same and y.quant is not None:
        inputs = [t.requantized(v, y.quant, y.dtype) for v in node.inputs if v is not None]
    else:
        inputs = [t.tensor(v) for v in node.inputs]
    t.emit(form.name, inputs, y)


_COMPARISONS = frozenset({"EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"})


def _check_compared(node: Node, t: Target) -> None:
    """See that a kernel compares codes as it should.

    It compares multiples of 1/256 of the real numbers, so smaller steps and different ones are
    taken for equal; at scales of 1 and more it ends the process.
    """
    quants = {v.quant for v in node.inputs if v is not None and v.type.has_codes}
    for quant in quants:
        if quant is None or not all(1 / 256 <= scale < 1 for scale in quant.scale):
            raise t.to_floats("codes are compared right at scales from 1/256 up to 1")
    if len(quants) > 1:
        raise t.to_floats("codes of different scales aren't compared exactly")


def _check_zero_point(value: Value | None, t: Target) -> None:
    """int16 kernels take zero point 0 alone."""
    quant = None if value is None or value.dtype is not DType.INT16 else value.quant
    if value is not None and quant is not None and any(quant.zero_point):
        raise t.to_floats(f"`{value.name}` is int16 with another zero point than 0")


def export_arithmetic(node: Node, t: Target) -> None:
    """ADD, SUB, MUL, DIV."""
    form, op, y = ARITHMETIC[type(node.op)], node.op, node.outputs[0]
    assert isinstance(op, e.Add | e.Sub | e.Mul | e.Div)
    t.require(node, plain=form.plain, codes=form.codes)
    dtypes = {v.dtype for v in (*node.inputs, y) if v is not None}
    if len(dtypes) > 1:
        raise t.to_floats(f"{form.name} takes operands of one type")
    for value in (*node.inputs, y):
        _check_zero_point(value, t)
    t.check_speed(node)
    _check_ranks(node, t)
    fields: dict[str, Any] = {"fused_activation_function": t.activation(op.activation)}
    if y.type.has_codes and y.dtype is DType.INT16 and not isinstance(op, e.Mul):
        fields["pot_scale_int16"] = False
    t.emit(form.name, [t.tensor(v) for v in node.inputs], y, (form.table, fields))


_LOGISTIC: dict[DType, Quant] = {
    DType.INT8: Quant.per_tensor(1 / 256, -128),
    DType.UINT8: Quant.per_tensor(1 / 256),
    DType.INT16: Quant.per_tensor(1 / 32768),
}
"""The parameters of what LOGISTIC gives."""


POWERS: dict[float, tuple[str, ...]] = {
    2.0: ("SQUARE",),
    3.0: ("SQUARE", "MUL"),
    4.0: ("SQUARE", "SQUARE"),
    0.5: ("SQRT",),
    -1.0: ("DIV",),
}
"""Exponents for which there are operators that take down to a seventh of POW's time.

Those of two operands take the base, or 1 by it.
"""


def export_pow(node: Node, t: Target) -> None:
    """POW, or what is quicker for a known exponent."""
    y = node.outputs[0]
    x, exponent = node.operand(0), node.operand(1)
    t.require(node, plain=FLOAT32)
    _check_ranks(node, t)
    source = constant_behind(exponent)  # halves are widened
    known = None if source is None or source.type.has_codes else source.data
    steps: tuple[str, ...] = ()
    if known is not None and known.size and x.shape == y.shape:
        first = float(known.flat[0])
        steps = POWERS.get(first, ()) if bool((known == first).all()) else ()
    if not steps:
        t.emit("POW", [t.tensor(x), t.tensor(exponent)], y)
        return
    tensor = t.tensor(x)
    for name in steps[:-1]:
        tensor = t.result(name, [tensor], y.type)
    last = steps[-1]
    if last in ("MUL", "DIV"):
        others = [t.tensor(x)] if last == "MUL" else [t.const(np.asarray(1, np.float32))]
        operands = [tensor, *others] if last == "MUL" else [*others, tensor]
        t.emit(last, operands, y, (f"{last.capitalize()}Options", {}))
    else:
        t.emit(last, [tensor], y)


def export_sigmoid(node: Node, t: Target) -> None:
    """LOGISTIC: quantized results have the parameters of the range 0 to 1."""
    t.require(node, plain=FLOAT32, codes=ACTIVATION_CODES)
    _check_types(node, t)
    y = node.outputs[0]
    quant = t.given(y, _LOGISTIC)
    _check_zero_point(node.inputs[0], t)
    t.emit("LOGISTIC", [t.tensor(node.inputs[0])], y, quant=quant)


def export_tanh(node: Node, t: Target) -> None:
    """TANH: 8-bit kernels give any parameters."""
    t.require(node, plain=FLOAT32, codes=CODES8)
    _check_types(node, t)
    t.emit("TANH", [t.tensor(node.inputs[0])], node.outputs[0])


def export_leaky_relu(node: Node, t: Target) -> None:
    """LEAKY_RELU."""
    op = node.op
    assert isinstance(op, e.LeakyRelu)
    t.require(node, plain=FLOAT32, codes=ACTIVATION_CODES)
    _check_types(node, t)
    _check_zero_point(node.inputs[0], t)
    options = ("LeakyReluOptions", {"alpha": op.alpha})
    t.emit("LEAKY_RELU", [t.tensor(node.inputs[0])], node.outputs[0], options)


def export_gelu(node: Node, t: Target) -> None:
    """GELU."""
    op = node.op
    assert isinstance(op, e.Gelu)
    t.require(node, plain=FLOAT32)
    options = ("GeluOptions", {"approximate": op.approximate})
    t.emit("GELU", [t.tensor(node.inputs[0])], node.outputs[0], options)


def export_prelu(node: Node, t: Target) -> None:
    """PRELU."""
    t.require(node, plain=FLOAT32)
    x, slope = node.inputs
    if x is None or slope is None or x.type.rank is None or x.shape != node.outputs[0].shape:
        raise t.refused("PRELU keeps the shape of its operand")
    t.emit("PRELU", [t.tensor(x), t.tensor(slope)], node.outputs[0])


def export_select(node: Node, t: Target) -> None:
    """SELECT_V2; codes have the result's parameters."""
    condition, then, otherwise = (node.operand(i) for i in range(3))
    t.require(node, plain=USUAL_TYPES, codes=ACTIVATION_CODES, operands=(1, 2))
    y = node.outputs[0]
    chosen = [
        t.tensor(v) if y.quant is None else t.requantized(v, y.quant, y.dtype)
        for v in (then, otherwise)
    ]
    t.emit("SELECT_V2", [t.tensor(condition), *chosen], y)


_CLIPS = {
    (0.0, math.inf): "RELU",
    (0.0, 6.0): "RELU6",
    (-1.0, 1.0): "RELU_N1_TO_1",
    (0.0, 1.0): "RELU_0_TO_1",
}


def export_clip(node: Node, t: Target) -> None:
    """RELU and its kind on floats; MAXIMUM and MINIMUM else, also on codes, where they are faster.

    On codes RELU takes 400 times as long as MAXIMUM. Where the result's range implies the bounds,
    nothing is left but a QUANTIZE.
    """
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, e.Clip)
    t.require(node, plain=_ARITHMETIC, codes=ACTIVATION_CODES)
    name = _CLIPS.get((op.low, op.high))
    if name is not None and x.dtype is DType.FLOAT32:
        t.emit(name, [t.tensor(x)], y)
        return
    kind = TensorType(y.dtype, y.shape, y.quant)
    tensor = t.tensor(x) if y.quant is None else t.requantized(x, y.quant, y.dtype)
    steps = clamp_steps(op, y)
    if not steps:
        if tensor == t.tensor(x):
            raise t.refused("a Clip that changes nothing")
        t.alias(y, tensor)
        return
    for which, bound in steps[:-1]:
        tensor = t.result(which, [tensor, t.const(bound, quant=y.quant)], kind)
    which, bound = steps[-1]
    t.emit(which, [tensor, t.const(bound, quant=y.quant)], y)


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(FORMS, export_plain),
    **dict.fromkeys(ARITHMETIC, export_arithmetic),
    e.Pow: export_pow,
    e.Sigmoid: export_sigmoid,
    e.Tanh: export_tanh,
    e.LeakyRelu: export_leaky_relu,
    e.Gelu: export_gelu,
    e.PRelu: export_prelu,
    e.Select: export_select,
    e.Clip: export_clip,
    **dict.fromkeys((e.Ceil, e.Round, e.Elu), export_in_floats),
}
