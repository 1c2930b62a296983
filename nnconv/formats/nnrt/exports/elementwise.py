"""Elementwise ops: most are told by a table."""

from __future__ import annotations

import math

import numpy as np

from nnconv.errors import plural
from nnconv.formats.indexed import Ref
from nnconv.formats.nnrt.exporter import Exporter, Target
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.quant import quantize
from nnconv.ops import elementwise as e

UNARY: dict[type[Op], str] = {
    e.Abs: "ABS",
    e.Ceil: "CEIL",
    e.Cos: "COS",
    e.Floor: "FLOOR",
    e.HardSwish: "HSWISH",
    e.Log: "LOG",
    e.LogicalNot: "LOGICAL_NOT",
    e.Neg: "NEG",
    e.Round: "ROUND",
    e.Rsqrt: "RSQRT",
    e.Sigmoid: "SIGMOID",
    e.Sin: "SIN",
    e.Sqrt: "SQRT",
    e.Square: "SQUARE",
    e.Tanh: "TANH",
    e.Exp: "EXP",
}

BINARY: dict[type[Op], str] = {
    e.Add: "ADD",
    e.Div: "DIV",
    e.Equal: "EQUAL",
    e.Greater: "GREATER",
    e.GreaterEqual: "GREATER_EQUAL",
    e.Less: "LESS",
    e.LessEqual: "LESS_EQUAL",
    e.LogicalAnd: "LOGICAL_AND",
    e.LogicalOr: "LOGICAL_OR",
    e.Maximum: "MAXIMUM",
    e.Minimum: "MINIMUM",
    e.Mul: "MUL",
    e.NotEqual: "NOT_EQUAL",
    e.SquaredDifference: "SQUARED_DIFFERENCE",
    e.Sub: "SUB",
}

INF = math.inf


def export_unary(node: Node, t: Target) -> None:
    """The operation of the op's own name."""
    t.emit(UNARY[type(node.op)], {"input": node.operand(0)}, node.outputs)


def export_binary(node: Node, t: Target) -> None:
    """The operation of the op's own name; both operands have one type and broadcast."""
    op, a, b, y = node.op, node.operand(0), node.operand(1), node.outputs[0]
    params = {}
    activation = getattr(op, "activation", Activation.NONE)
    if activation is not Activation.NONE:
        params["activationType"] = t.activation(activation)
    if isinstance(op, e.Comparison) and (a.type.has_codes or b.type.has_codes):
        raise t.to_floats("a comparison of codes has truth values with parameters")
    codes = [value.type.has_codes for value in (a, b, y)]
    if any(codes) and not all(codes):
        raise t.to_floats("some of its operands are codes, others aren't")
    t.emit(BINARY[type(op)], {"input1": a, "input2": b}, y, params)


def export_pow(node: Node, t: Target) -> None:
    """POW."""
    t.emit("POW", {"input": node.operand(0), "y": node.operand(1)}, node.outputs)


def export_clip(node: Node, t: Target) -> None:
    """RELU, RELU6; else CLIP, of codes and other integers MAXIMUM and MINIMUM."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, e.Clip)
    name = {(0.0, INF): "RELU", (0.0, 6.0): "RELU6"}.get((op.low, op.high))
    if name is not None and (x.dtype.is_float or x.type.has_codes):
        t.emit(name, {"input": x}, y)
        return
    if x.dtype.is_float and t.api > 1:
        low = min(op.low, op.high)  # the upper one wins, and NNRt demands the order
        bounds = [float(np.clip(bound, *_FLOAT32)) for bound in (low, op.high)]
        t.emit("CLIP", {"input": x}, y, {"min": bounds[0], "max": bounds[1]})
        return
    if x.quant != y.quant:
        raise t.to_floats("its operand and result have different parameters")
    sides = [("MAXIMUM", _bound(t, x, op.low)), ("MINIMUM", _bound(t, x, op.high))]
    steps = [(name, bound) for name, bound in sides if bound is not None]
    if not steps:
        t.keep(x, y)
        return
    source = t.tensor(x)
    for name, bound in steps[:-1]:
        source = t.result(name, {"input1": source, "input2": bound}, x.type)
    name, bound = steps[-1]
    t.emit(name, {"input1": source, "input2": bound}, y)


_FLOAT32 = (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))


def _bound(t: Target, x: Value, bound: float) -> Ref | None:
    """A bound as a constant of x's type; None if no number is beyond it."""
    if not math.isfinite(bound):
        return None
    if x.quant is not None:
        data = quantize(np.asarray(bound, np.float64), x.quant, x.dtype)
    elif x.dtype.is_float:
        data = np.asarray(bound, x.dtype.numpy)
    else:
        low, high = x.dtype.int_range
        data = np.asarray(min(max(int(bound), low), high), x.dtype.numpy)
    return t.const(data, quant=x.quant)


def export_gelu(node: Node, t: Target) -> None:
    """GELU."""
    op = node.op
    assert isinstance(op, e.Gelu)
    t.emit("GELU", {"input": node.operand(0)}, node.outputs, {"approximate": op.approximate})


def export_leaky_relu(node: Node, t: Target) -> None:
    """LEAKY_RELU."""
    op = node.op
    assert isinstance(op, e.LeakyRelu)
    t.emit("LEAKY_RELU", {"input": node.operand(0)}, node.outputs, {"negativeSlope": op.alpha})


def export_prelu(node: Node, t: Target) -> None:
    """PRELU: one slope, or one for each index of the last dimension."""
    x, slope = node.operand(0), node.operand(1)
    shape = t.static(slope)
    count = math.prod(shape)
    if slope.data is None or any(extent != 1 for extent in shape[:-1]):
        raise t.refused("PRELU has one slope, or one for each channel")
    if count not in (1, t.shape(x)[-1]):
        raise t.refused(f"{plural(count, 'slope')} for {plural(t.shape(x)[-1], 'channel')}")
    flat = t.const(slope.data.reshape(-1), quant=slope.quant, name=slope.name)
    t.emit("PRELU", {"input": x, "weight": flat}, node.outputs)


def export_select(node: Node, t: Target) -> None:
    """WHERE, which broadcasts; SELECT in version 1 has no like."""
    condition, first, second = (node.operand(i) for i in range(3))
    y = node.outputs[0]
    if not (first.quant == second.quant == y.quant):
        raise t.to_floats("its operands and result have different parameters")
    t.emit("WHERE", {"condition": condition, "input1": first, "input2": second}, y)


def export_add_n(node: Node, t: Target) -> None:
    """ADD, again and again."""
    y = node.outputs[0]
    values = [node.operand(i) for i in range(len(node.inputs))]
    if len(values) == 1:
        t.keep(values[0], y)
        return
    if any(value.type.has_codes for value in values):
        raise t.to_floats("a sum of several codes")
    total = t.tensor(values[0])
    for value in values[1:-1]:
        total = t.result("ADD", {"input1": total, "input2": value}, y.type)
    t.emit("ADD", {"input1": total, "input2": values[-1]}, y)


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(UNARY, export_unary),
    **dict.fromkeys(BINARY, export_binary),
    e.AddN: export_add_n,
    e.Clip: export_clip,
    e.Gelu: export_gelu,
    e.LeakyRelu: export_leaky_relu,
    e.Pow: export_pow,
    e.PRelu: export_prelu,
    e.Select: export_select,
}
