"""Elementwise ops: most are told by a table, the others are spelled in the fastest form known."""

from __future__ import annotations

import math

import numpy as np

from nnconv.formats.onnx import exact, wire
from nnconv.formats.onnx.angle import angle
from nnconv.formats.onnx.broadcast import in_full
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.single import one_node
from nnconv.formats.onnx.slopes import constant_reals, sloped
from nnconv.formats.onnx.types import DATA_TYPES
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.quant import Quant
from nnconv.ops import elementwise as e

REAL: dict[type[Op], str] = {
    e.Abs: "Abs",
    e.Sqrt: "Sqrt",
    e.Exp: "Exp",
    e.Log: "Log",
    e.Sin: "Sin",
    e.Cos: "Cos",
    e.Floor: "Floor",
    e.Ceil: "Ceil",
    e.Round: "Round",
    e.Sigmoid: "Sigmoid",
}
"""Ops that ONNX has under another name, on real values."""

_BFLOAT16: dict[type[Op], int] = {e.Sin: 22, e.Cos: 22, e.Round: 22}
"""The opset from which an op takes bfloat16, if it doesn't at all of them."""

ARITHMETIC: dict[type[Op], str] = {e.Add: "Add", e.Sub: "Sub", e.Mul: "Mul", e.Div: "Div"}

COMPARISONS: dict[type[Op], str] = {
    e.Equal: "Equal",
    e.NotEqual: "Equal",
    e.Less: "Less",
    e.LessEqual: "LessOrEqual",
    e.Greater: "Greater",
    e.GreaterEqual: "GreaterOrEqual",
}

LOGICAL: dict[type[Op], str] = {e.LogicalNot: "Not", e.LogicalAnd: "And", e.LogicalOr: "Or"}

_NO_NEG = frozenset({DType.INT16, DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64})
"""Types without a kernel of Neg."""


def _operands(node: Node) -> list[Value]:
    return [v for v in node.inputs if v is not None]


def _is_plain_integer(value: Value) -> bool:
    """Whether a value is of integers that stand for themselves."""
    return value.quant is None and value.dtype.is_integer


def _alike(values: list[Value], t: Target) -> bool:
    """Whether quantized values all have the same parameters: then their codes are comparable."""
    first = values[0]
    return all(t.is_quantized(v) and v.dtype is first.dtype for v in values) and all(
        v.quant == first.quant for v in values
    )


# -------------------------------------------------------------------- one operand


def export_real(node: Node, t: Target) -> None:
    """One ONNX node on real values."""
    x, kind = _operands(node)[0], type(node.op)
    result = one_node(t, REAL[kind], x, narrow=_BFLOAT16.get(kind, 0))
    t.set_real(node.outputs[0], result)


def export_neg(node: Node, t: Target) -> None:
    """Neg."""
    x, name = _operands(node)[0], t.real(node.inputs[0])
    if _is_plain_integer(x) and x.dtype in _NO_NEG:
        zero = t.const(np.zeros((), x.dtype.numpy))
        t.set_real(node.outputs[0], exact.arithmetic(t, "Sub", [zero, name], x.dtype))
        return
    t.set_real(node.outputs[0], t.node("Neg", [name]))


def export_sign(node: Node, t: Target) -> None:
    """Sign: of NaN it is NaN, which ONNX's op (0) doesn't give."""
    x, name = _operands(node)[0], t.real(node.inputs[0])
    sign = t.node("Sign", [name])
    if x.dtype.is_float:
        sign = t.node("Where", [t.node("IsNaN", [name]), name, sign])
    t.set_real(node.outputs[0], sign)


def export_square(node: Node, t: Target) -> None:
    """Square: x * x (Pow takes twice as long)."""
    x = t.real(node.inputs[0])
    t.set_real(node.outputs[0], t.node("Mul", [x, x]))


def export_rsqrt(node: Node, t: Target) -> None:
    """Rsqrt: 1 / Sqrt(x)."""
    root = t.node("Sqrt", [t.real(node.inputs[0])])
    t.set_real(node.outputs[0], t.node("Reciprocal", [root]))


def export_tanh(node: Node, t: Target) -> None:
    """Tanh; on 8 bits with TFLite's fixed output parameters a Sigmoid of 2x: the same bits.

    (tanh(x) + 1) / 2 is sigmoid(2x), so the codes of 1/128 around the middle are those of 1/256
    from the type's least code on. onnxruntime has an integer Sigmoid, but no integer Tanh.
    """
    x, y = _operands(node)[0], node.outputs[0]
    if t.is_quantized(x) and t.is_quantized(y) and x.dtype.bits == 8 and y.dtype.bits == 8:
        source, result, dtype = t.inner_quant(x), t.inner_quant(y), t.inner_type(y)
        low, _ = dtype.int_range
        if source.is_per_tensor and result == Quant.per_tensor(1 / 128, low + 128):
            doubled = Quant.per_tensor(2 * source.scale[0], source.zero_point[0])
            name = t.node("Sigmoid", [t.dequantize(t.codes(x), doubled, t.inner_type(x))])
            t.set_codes(y, t.quantize(name, Quant.per_tensor(1 / 256, low), dtype))
            return
    t.set_real(y, t.node("Tanh", [t.real(x)]))


def export_hard_swish(node: Node, t: Target) -> None:
    """HardSwish: the op, which fuses into a Conv; before opset 14 what it stands for."""
    x = _operands(node)[0]
    if t.opset >= 14:
        t.set_real(node.outputs[0], one_node(t, "HardSwish", x, narrow=22))
        return
    gate = one_node(t, "HardSigmoid", x, narrow=22, alpha=1 / 6, beta=0.5)
    t.set_real(node.outputs[0], t.node("Mul", [t.real(x), gate]))


_RELU_INTEGERS = frozenset({DType.INT8, DType.INT32})
"""Those that onnxruntime's Relu takes in every opset."""


def export_clip(node: Node, t: Target) -> None:
    """Clip: Relu where it is one; 8-bit codes are clamped as codes (0.22 of the time)."""
    op, x, y = node.op, _operands(node)[0], node.outputs[0]
    assert isinstance(op, e.Clip)
    bounds = (op.low, op.high)
    relu = bounds == (0.0, float("inf"))
    if relu and t.plain and x.quant is None and x.dtype in _RELU_INTEGERS and t.opset >= 14:
        t.set_stored(y, t.node("Relu", [t.stored(x)]))
        return
    if _is_plain_integer(x):
        t.set_stored(y, exact.clip(t, t.stored(x), x.dtype, bounds))
        return
    if t.is_quantized(y) and y.dtype.bits == 8:
        quant, dtype = t.inner_quant(y), t.inner_type(y)
        same = x.dtype is y.dtype and x.quant == y.quant
        codes = t.codes(x) if same else t.quantize(t.real(x), quant, dtype)
        t.set_codes(y, t.clip_codes(codes, quant, dtype, bounds))
        return
    if relu:
        t.set_real(y, t.node("Relu", [t.real(x)]))
        return
    t.set_real(y, t.node("Clip", [t.real(x), t.floats(op.low, x), t.floats(op.high, x)]))


def export_elu(node: Node, t: Target) -> None:
    """Elu."""
    op = node.op
    assert isinstance(op, e.Elu)
    result = one_node(t, "Elu", _operands(node)[0], narrow=22, alpha=op.alpha)
    t.set_real(node.outputs[0], result)


def export_leaky_relu(node: Node, t: Target) -> None:
    """LeakyRelu."""
    op = node.op
    assert isinstance(op, e.LeakyRelu)
    result = one_node(t, "LeakyRelu", _operands(node)[0], narrow=16, alpha=op.alpha)
    t.set_real(node.outputs[0], result)


def export_gelu(node: Node, t: Target) -> None:
    """Gelu; before opset 20 written out, the exact one in the form that onnxruntime fuses again."""
    op, like, x = node.op, _operands(node)[0], t.real(node.inputs[0])
    assert isinstance(op, e.Gelu)
    if t.opset >= 20:
        kind = "tanh" if op.approximate else None
        t.set_real(node.outputs[0], t.node("Gelu", [x], approximate=kind))
        return
    if op.approximate:
        cube = t.node("Mul", [x, t.node("Mul", [x, x])])
        inner = t.node("Add", [x, t.node("Mul", [cube, t.floats(0.044715, like)])])
        scaled = t.node("Mul", [inner, t.floats(math.sqrt(2 / math.pi), like)])
        share = t.node("Tanh", [scaled])
    else:
        share = t.node("Erf", [t.node("Div", [x, t.floats(math.sqrt(2), like)])])
    doubled = t.node("Mul", [x, t.node("Add", [share, t.floats(1.0, like)])])
    t.set_real(node.outputs[0], t.node("Mul", [doubled, t.floats(0.5, like)]))


def export_logical(node: Node, t: Target) -> None:
    """LogicalNot, LogicalAnd, LogicalOr."""
    result = t.node(LOGICAL[type(node.op)], [t.stored(v) for v in node.inputs])
    t.set_stored(node.outputs[0], result)


def export_zeros_like(node: Node, t: Target) -> None:
    """ZerosLike: real zeros, whatever their code."""
    x, y = _operands(node)[0], node.outputs[0]
    shape = y.shape
    if shape is not None and all(isinstance(d, int) for d in shape):
        extents = t.const([d for d in shape if isinstance(d, int)])
    else:
        extents = t.node("Shape", [t.codes(x)])
    dtype = t.inner_type(y)
    zero = t.inner_quant(y).zero_point[0] if t.is_quantized(y) else 0
    fill = wire.Tensor("value", DATA_TYPES[dtype], (1,), np.full(1, zero, dtype.numpy))
    t.set_codes(y, t.node("ConstantOfShape", [extents], value=fill))


# -------------------------------------------------------------------- complex numbers


def export_part(node: Node, t: Target) -> None:
    """Real, Imag."""
    index = t.const(np.int64(isinstance(node.op, e.Imag)))
    result = t.node("Gather", [t.pairs(_operands(node)[0]), index], axis=-1)
    t.set_real(node.outputs[0], result)


def export_complex_abs(node: Node, t: Target) -> None:
    """ComplexAbs: the length of each pair."""
    pairs, axes = t.pairs(_operands(node)[0]), [-1]
    squares = t.node("Mul", [pairs, pairs])
    total = t.node("ReduceSum", [squares, t.const(axes)], keepdims=0)
    t.set_real(node.outputs[0], t.node("Sqrt", [total]))


# -------------------------------------------------------------------- two operands


def export_arithmetic(node: Node, t: Target) -> None:
    """Add, Sub, Mul, Div and their activation."""
    op, (a, b), y = node.op, _operands(node), node.outputs[0]
    assert isinstance(op, e.Add | e.Sub | e.Mul | e.Div)
    small = isinstance(op, e.Sub) and all(_is_small(v, t) for v in (a, b, y))
    if small and not t.plain:
        t.set_real(y, t.node("Add", [t.real(a), _negated(b, t)]), op.activation)
        return
    names = [t.real(a), t.real(b)] if t.plain else [in_full(a, b, t), in_full(b, a, t)]
    if not _is_plain_integer(y):
        t.set_real(y, t.node(ARITHMETIC[type(op)], names), op.activation)
        return
    if isinstance(op, e.Div) and not t.plain:
        result = exact.divide(t, *names, divisor=b)
    else:
        result = exact.arithmetic(t, ARITHMETIC[type(op)], names, y.dtype)
    if op.activation.bounds is not None:
        result = exact.clip(t, result, y.dtype, op.activation.bounds)
    elif op.activation is not Activation.NONE:
        raise t.unsupported(f"activation {op.activation.value} of integers")
    t.set_stored(y, result)


def _is_small(value: Value, t: Target) -> bool:
    """Whether a value has 8-bit codes with one set of parameters, and the opset inverts them."""
    if not t.is_quantized(value) or value.dtype.bits != 8 or t.opset < 14:
        return False
    return value.quant is not None and value.quant.is_per_tensor


def _negated(value: Value, t: Target) -> str:
    """An 8-bit value's real values, negated: its codes with all bits turned over say just that.

    onnxruntime adds codes as integers, but subtracts them as floats (in twice the time).
    """
    dtype, quant = t.inner_type(value), t.inner_quant(value)
    total = sum(dtype.int_range)  # a code and its inverse add up to this
    if value.data is None:
        inverse = t.node("Sub", [t.const(np.asarray(total, dtype.numpy)), t.codes(value)])
    else:
        stored = ~value.data
        inverse = t.const(stored.view(np.uint8) ^ np.uint8(128) if t.is_resigned(value) else stored)
    mirrored = Quant.per_tensor(quant.scale[0], total - quant.zero_point[0])
    return t.dequantize(inverse, mirrored, dtype)


def export_extreme(node: Node, t: Target) -> None:
    """Maximum, Minimum: on codes where parameters are equal."""
    kind = "Max" if isinstance(node.op, e.Maximum) else "Min"
    (a, b), y = _operands(node), node.outputs[0]
    if _alike([a, b, y], t):
        t.set_codes(y, exact.extreme(t, kind, [t.codes(a), t.codes(b)], t.inner_type(y)))
    elif _is_plain_integer(y):
        t.set_stored(y, exact.extreme(t, kind, [t.stored(a), t.stored(b)], y.dtype))
    else:
        t.set_real(y, t.node(kind, [t.real(a), t.real(b)]))


POWERS: dict[float, tuple[str, ...]] = {
    2.0: ("Mul",),
    3.0: ("Mul", "Mul"),
    0.5: ("Sqrt",),
    -0.5: ("Sqrt", "Reciprocal"),
    -1.0: ("Reciprocal",),
}
"""Exponents for which there are ops that take down to 1/16 of Pow's time; Mul is by the base."""


_POWERS_IN = {
    **dict.fromkeys((DType.INT8, DType.UINT8, DType.INT16, DType.UINT16), DType.INT32),
    DType.UINT32: DType.INT64,
}
"""What takes the place of integers that onnxruntime's Pow lacks."""


def export_pow(node: Node, t: Target) -> None:
    """Pow."""
    (base, exponent), y = _operands(node), node.outputs[0]
    known, most = constant_reals(exponent), 1 if t.plain else 2
    result = name = t.real(base)
    steps = POWERS.get(float(known.flat[0])) if known is not None and known.size == 1 else None
    if steps is None or y.shape != base.shape or not base.dtype.is_float or len(steps) > most:
        bases, powers = (_POWERS_IN.get(t.real_type(value)) for value in (base, exponent))
        other = t.real(exponent)
        if powers is not None and not t.plain:
            other = t.cast(other, powers)
        if bases is None:
            t.set_real(y, t.node("Pow", [name, other]))
        else:  # whose low bits are the same
            result = t.node("Pow", [t.cast(name, bases), other])
            t.set_real(y, t.cast(result, base.dtype))
        return
    for kind in steps:
        result = t.node(kind, [result, name] if kind == "Mul" else [result])
    t.set_real(y, result)


def export_floor_div(node: Node, t: Target) -> None:
    """FloorDiv: on the stored numbers."""
    (a, b), y = _operands(node), node.outputs[0]
    names = t.stored(a), t.stored(b)
    if a.dtype.is_float:
        t.set_stored(y, t.node("Floor", [t.node("Div", list(names))]))
    else:
        t.set_stored(y, exact.floor_divide(t, *names, dtype=a.dtype))


def export_floor_mod(node: Node, t: Target) -> None:
    """FloorMod: on the stored numbers. For floats ONNX has C's fmod, with the dividend's sign."""
    (a, b), y = _operands(node), node.outputs[0]
    names = t.stored(a), t.stored(b)
    if not a.dtype.is_float:
        single = t.node("Mod", list(names)) if t.plain else ""
        t.set_stored(y, single or exact.floor_modulus(t, *names, divisor=b))
        return
    rest = t.node("Mod", list(names), fmod=1)
    # the product of a sign and a number can't vanish unless the rest is 0
    turned = t.node("Mul", [t.node("Sign", [rest]), names[1]])
    opposed = t.node("Less", [turned, t.floats(0.0, a)])
    t.set_stored(y, t.node("Where", [opposed, t.node("Add", [rest, names[1]]), rest]))


def export_squared_difference(node: Node, t: Target) -> None:
    """SquaredDifference: d * d."""
    difference = t.node("Sub", [t.real(v) for v in node.inputs])
    t.set_real(node.outputs[0], t.node("Mul", [difference, difference]))


def export_atan2(node: Node, t: Target) -> None:
    """Atan2."""
    like, (y, x) = _operands(node)[0], (t.real(v) for v in node.inputs)
    t.set_real(node.outputs[0], angle(t, y, x, like=like))


def export_bitwise_xor(node: Node, t: Target) -> None:
    """BitwiseXor."""
    (a, b), y = _operands(node), node.outputs[0]
    t.set_stored(y, exact.bitwise(t, "Xor", t.stored(a), t.stored(b), dtype=a.dtype))


def export_right_shift(node: Node, t: Target) -> None:
    """RightShift."""
    (a, b), y = _operands(node), node.outputs[0]
    t.set_stored(y, exact.shift_right(t, t.stored(a), t.stored(b), a.dtype))


def export_comparison(node: Node, t: Target) -> None:
    """Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual: on codes of equal parameters."""
    (a, b), kind = _operands(node), COMPARISONS[type(node.op)]
    if a.dtype is DType.STRING:
        t.require_opset(19, "comparisons of strings")
    names = [t.codes(a), t.codes(b)] if _alike([a, b], t) else [t.real(a), t.real(b)]
    result = t.node(kind, names)
    if isinstance(node.op, e.NotEqual):
        result = t.node("Not", [result])
    t.set_stored(node.outputs[0], result)


# -------------------------------------------------------------------- several operands


def export_prelu(node: Node, t: Target) -> None:
    """PRelu: in the fastest form that is exact for the slopes.

    ONNX's own op takes up to 25 times as long.
    """
    (x, slope), y = _operands(node), node.outputs[0]
    if t.plain:
        t.set_real(y, t.node("PRelu", [t.real(x), t.real(slope)]))
    else:
        t.set_real(y, sloped(t, x, slope, y))


def export_select(node: Node, t: Target) -> None:
    """Select: on codes where parameters are equal."""
    condition, then, otherwise = _operands(node)
    y = node.outputs[0]
    held = t.stored(condition)
    if not any(t.is_quantized(v) for v in (then, otherwise, y)):
        chosen = exact.select(t, held, t.stored(then), t.stored(otherwise), dtype=y.dtype)
        t.set_stored(y, chosen)
    elif _alike([then, otherwise, y], t):
        names = t.codes(then), t.codes(otherwise)
        t.set_codes(y, exact.select(t, held, *names, dtype=t.inner_type(y)))
    else:
        t.set_real(y, t.node("Where", [held, t.real(then), t.real(otherwise)]))


def export_add_n(node: Node, t: Target) -> None:
    """AddN."""
    y, names = node.outputs[0], [t.real(v) for v in node.inputs]
    if _is_plain_integer(y):
        t.set_stored(y, exact.add_all(t, names))
    else:
        t.set_real(y, t.node("Sum", names))


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(REAL, export_real),
    **dict.fromkeys(ARITHMETIC, export_arithmetic),
    **dict.fromkeys(COMPARISONS, export_comparison),
    **dict.fromkeys(LOGICAL, export_logical),
    **dict.fromkeys((e.Real, e.Imag), export_part),
    **dict.fromkeys((e.Maximum, e.Minimum), export_extreme),
    e.Neg: export_neg,
    e.Sign: export_sign,
    e.Square: export_square,
    e.Rsqrt: export_rsqrt,
    e.Tanh: export_tanh,
    e.HardSwish: export_hard_swish,
    e.Clip: export_clip,
    e.Elu: export_elu,
    e.LeakyRelu: export_leaky_relu,
    e.Gelu: export_gelu,
    e.ZerosLike: export_zeros_like,
    e.ComplexAbs: export_complex_abs,
    e.Pow: export_pow,
    e.FloorDiv: export_floor_div,
    e.FloorMod: export_floor_mod,
    e.SquaredDifference: export_squared_difference,
    e.Atan2: export_atan2,
    e.BitwiseXor: export_bitwise_xor,
    e.RightShift: export_right_shift,
    e.PRelu: export_prelu,
    e.Select: export_select,
    e.AddN: export_add_n,
}
