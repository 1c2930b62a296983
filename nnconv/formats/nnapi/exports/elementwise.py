"""Elementwise ops: most are told by a table. Types are the table's of NNAPI."""

from __future__ import annotations

import math

from nnconv.formats.clamps import clamp_steps
from nnconv.formats.nnapi import alike
from nnconv.formats.nnapi.exporter import Exporter, Input, Target
from nnconv.formats.nnapi.table import spec_of
from nnconv.formats.nnapi.types import OperationCode
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops import elementwise as e

PLAIN: dict[type[Op], str] = {
    e.Abs: "ABS",
    e.Neg: "NEG",
    e.Sqrt: "SQRT",
    e.Rsqrt: "RSQRT",
    e.Exp: "EXP",
    e.Log: "LOG",
    e.Sin: "SIN",
    e.Floor: "FLOOR",
    e.LogicalNot: "LOGICAL_NOT",
    e.Sigmoid: "LOGISTIC",
    e.Tanh: "TANH",
    e.HardSwish: "HARD_SWISH",
    e.Equal: "EQUAL",
    e.NotEqual: "NOT_EQUAL",
    e.Less: "LESS",
    e.LessEqual: "LESS_EQUAL",
    e.Greater: "GREATER",
    e.GreaterEqual: "GREATER_EQUAL",
    e.LogicalAnd: "LOGICAL_AND",
    e.LogicalOr: "LOGICAL_OR",
    e.Maximum: "MAXIMUM",
    e.Minimum: "MINIMUM",
    e.Pow: "POW",
    e.PRelu: "PRELU",
}
"""Ops whose operands are the operation's inputs, in order."""

ARITHMETIC: dict[type[Op], str] = {e.Add: "ADD", e.Sub: "SUB", e.Mul: "MUL", e.Div: "DIV"}

_COARSE = 0.9
"""A result's steps may be so much finer than those that an operation gives."""


def _inputs(node: Node, name: str) -> dict[str, Input]:
    formals = spec_of(OperationCode[name]).variants[0].inputs
    return {formal.name: value for formal, value in zip(formals, node.inputs, strict=False)}


def export_plain(node: Node, t: Target) -> None:
    """An operation without options."""
    name, y = PLAIN[type(node.op)], node.outputs[0]
    fixed = t.fixed_quant(name, y)
    if fixed is not None and y.quant is not None and y.quant.scale[0] < _COARSE * fixed.scale[0]:
        raise t.to_floats(f"the steps of {name} are coarser than those of `{y.name}`")
    t.emit(name, _inputs(node, name), y)


def export_arithmetic(node: Node, t: Target) -> None:
    """ADD, SUB, MUL, DIV. Integers take no activation; DIV of them rounds down, ours to zero."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, e.Add | e.Sub | e.Mul | e.Div)
    name = ARITHMETIC[type(op)]
    activation = t.activation(op.activation)
    if y.dtype.is_integer and y.dtype.bits == 8 and not y.type.has_codes:
        t.require(node, plain=t.types_of(name))  # they wrap around, codes don't
    if y.dtype is DType.INT32 and op.activation is not Activation.NONE:
        raise t.split_activation(op.activation)
    if y.dtype is DType.INT32 and isinstance(op, e.Div):
        raise t.refused("DIV of integers rounds down")
    t.emit(name, {**_inputs(node, name), "activation": activation}, y)


def export_floor_div(node: Node, t: Target) -> None:
    """DIV of integers, at level 4; of floats rounded down behind it. Not of codes."""
    a, b, y = node.operand(0), node.operand(1), node.outputs[0]
    if y.type.has_codes or a.type.has_codes:
        raise t.refused("FloorDiv divides the codes themselves")
    inputs = {"input0": a, "input1": b, "activation": 0}
    if y.dtype is DType.INT32:
        t.emit("DIV", inputs, y)
        return
    t.emit("FLOOR", {"input": t.result("DIV", inputs, y.type)}, y)


def export_select(node: Node, t: Target) -> None:
    """SELECT: three tensors of one shape; codes have the result's parameters."""
    y = node.outputs[0]
    shape = static_shape(y.shape)
    condition, then, otherwise = (node.operand(i) for i in range(3))
    if shape is None:
        _select_open(t, [condition, then, otherwise], y)
        return
    chosen = [t.broadcast(v, shape or (1,)) for v in (then, otherwise)]
    whole = t.broadcast(condition, shape or (1,))
    t.emit("SELECT", {"condition": whole, "input0": chosen[0], "input1": chosen[1]}, y)


def _select_open(t: Target, operands: list[Value], y: Value) -> None:
    """SELECT of open extents: what has another shape is added to zeros of the result's."""
    names = ("condition", "input0", "input1")
    if operands[0].shape == operands[1].shape == operands[2].shape:
        t.emit("SELECT", dict(zip(names, operands, strict=True)), y)
        return
    found = [alike.numbers_of(value) for value in operands]
    numbers = [value for several in found for value in several or ()]
    if None in found or y.type.has_codes or y.dtype is DType.BOOL:
        raise t.refused("SELECT takes tensors of one shape, some extents aren't known")
    zeros, kind = alike.zeros(t, numbers)
    false = alike.false(t, zeros, kind)
    truths = TensorType(DType.BOOL, kind.shape)
    either = {"input0": operands[0], "input1": false}
    inputs: dict[str, Input] = {"condition": t.result("LOGICAL_OR", either, truths)}
    data = TensorType(y.dtype, kind.shape)
    added = zeros if y.dtype is DType.FLOAT32 else t.result("CAST", {"input": zeros}, data)
    for name, value in zip(names[1:], operands[1:], strict=True):
        terms: dict[str, Input] = {"input0": value, "input1": added, "activation": 0}
        inputs[name] = t.result("ADD", terms, data)
    t.emit("SELECT", inputs, y)


_CLIPS = {(0.0, math.inf): "RELU", (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU1"}


def export_clip(node: Node, t: Target) -> None:
    """RELU, RELU1, RELU6; else MAXIMUM and MINIMUM with constants."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, e.Clip)
    name = _CLIPS.get((op.low, op.high))
    if name is not None and (x.dtype.is_float or x.quant == y.quant) and x.dtype is not DType.INT32:
        t.emit(name, {"input": x}, y)
        return
    source = t.operand(x) if y.quant is None else t.requantized(x, y.quant, y.dtype)
    steps = [(step, t.const(bound.reshape(1), quant=y.quant)) for step, bound in clamp_steps(op, y)]
    if not steps:
        if source == t.operand(x):
            t.keep(x, y)
        else:
            t.alias(y, source)
        return
    for step, bound in steps[:-1]:
        source = t.result(step, {"input0": source, "input1": bound}, y.type)
    step, bound = steps[-1]
    t.emit(step, {"input0": source, "input1": bound}, y)


def export_elu(node: Node, t: Target) -> None:
    """ELU."""
    op = node.op
    assert isinstance(op, e.Elu)
    t.emit("ELU", {"input": node.operand(0), "alpha": op.alpha}, node.outputs[0])


def export_square(node: Node, t: Target) -> None:
    """MUL of a value with itself."""
    x = node.operand(0)
    t.emit("MUL", {"input0": x, "input1": x, "activation": 0}, node.outputs[0])


EXPORTERS: dict[type[Op], Exporter] = {
    **dict.fromkeys(PLAIN, export_plain),
    **dict.fromkeys(ARITHMETIC, export_arithmetic),
    e.FloorDiv: export_floor_div,
    e.Select: export_select,
    e.Clip: export_clip,
    e.Elu: export_elu,
    e.Square: export_square,
}
