"""Elementwise operations: most are told by a table."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.op import Op
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import Cast

UNARY: dict[str, Op] = {
    "ABS": e.Abs(),
    "EXP": e.Exp(),
    "FLOOR": e.Floor(),
    "HARD_SWISH": e.HardSwish(),
    "LOG": e.Log(),
    "LOGICAL_NOT": e.LogicalNot(),
    "LOGISTIC": e.Sigmoid(),
    "NEG": e.Neg(),
    "RELU": e.Clip(low=0.0, high=float("inf")),
    "RELU1": e.Clip(low=-1.0, high=1.0),
    "RELU6": e.Clip(low=0.0, high=6.0),
    "RSQRT": e.Rsqrt(),
    "SIN": e.Sin(),
    "SQRT": e.Sqrt(),
    "TANH": e.Tanh(),
}

BINARY: dict[str, Op] = {
    "EQUAL": e.Equal(),
    "LOGICAL_AND": e.LogicalAnd(),
    "LOGICAL_OR": e.LogicalOr(),
    "MAXIMUM": e.Maximum(),
    "MINIMUM": e.Minimum(),
    "NOT_EQUAL": e.NotEqual(),
    "POW": e.Pow(),
    "PRELU": e.PRelu(),
}

ORDER: dict[str, Op] = {
    "GREATER": e.Greater(),
    "GREATER_EQUAL": e.GreaterEqual(),
    "LESS": e.Less(),
    "LESS_EQUAL": e.LessEqual(),
}

ARITHMETIC: dict[str, type[e.Add | e.Sub | e.Mul | e.Div]] = {
    "ADD": e.Add,
    "DIV": e.Div,
    "MUL": e.Mul,
    "SUB": e.Sub,
}


def _plain(op: Op) -> Importer:
    def importer(s: Source) -> None:
        s.emit(op, [s.operand(formal.name) for formal in s.match.inputs])

    return importer


def import_arithmetic(s: Source) -> None:
    """ADD, SUB, MUL, DIV."""
    a, b, activation = s.operand("input0"), s.operand("input1"), s.activation()
    if s.name == "DIV" and a.dtype is DType.INT32:
        _whole_division(s)
        return
    s.emit(ARITHMETIC[s.name](activation=activation), [a, b])


def _whole_division(s: Source) -> None:
    """DIV of integers: rounded down; what is divided by 0 gives 0."""
    a, b = s.operand("input0"), s.operand("input1")
    if b.data is not None and b.data.all():
        s.emit(e.FloorDiv(), [a, b])
        return
    zero, one = s.const(np.zeros(1, np.int32)), s.const(np.ones(1, np.int32))
    by_zero = s.add(e.Equal(), [b, zero])
    quotient = s.add(e.FloorDiv(), [a, s.add(e.Select(), [by_zero, one, b])])
    s.emit(e.Select(), [by_zero, zero, quotient])


def import_order(s: Source) -> None:
    """GREATER, GREATER_EQUAL, LESS, LESS_EQUAL: of truth values, false comes before true."""
    sides = [s.operand("input0"), s.operand("input1")]
    if sides[0].dtype is DType.BOOL:
        sides = [s.add(Cast(dtype=DType.INT32), [side]) for side in sides]
    s.emit(ORDER[s.name], sides)


def import_elu(s: Source) -> None:
    """ELU: max(0, x) + min(0, alpha * (e**x - 1)), which is another function for alphas below 0."""
    x, alpha = s.operand("input"), s.float("alpha")
    if alpha >= 0:
        s.emit(e.Elu(alpha=alpha), [x])
        return
    kind = x.dtype.numpy
    one, factor, zero = (s.const(np.array([number], kind)) for number in (1, alpha, 0))
    curve = s.add(e.Mul(), [s.add(e.Sub(), [s.add(e.Exp(), [x]), one]), factor])
    low = s.add(e.Minimum(), [curve, zero])
    s.emit(e.Add(), [s.add(e.Clip(low=0.0, high=float("inf")), [x]), low])


def import_select(s: Source) -> None:
    """SELECT: three tensors of one shape."""
    s.emit(e.Select(), [s.operand("condition"), s.operand("input0"), s.operand("input1")])


IMPORTERS: dict[str, Importer] = {
    **{name: _plain(op) for name, op in (UNARY | BINARY).items()},
    **dict.fromkeys(ARITHMETIC, import_arithmetic),
    **dict.fromkeys(ORDER, import_order),
    "ELU": import_elu,
    "SELECT": import_select,
}
