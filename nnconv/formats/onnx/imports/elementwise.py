"""Elementwise ops: arithmetic, functions, activations, comparisons, bits."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nnconv.errors import Reason
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.dtype import EIGHT_BITS, DType
from nnconv.ir.graph import Value
from nnconv.ir.op import Op
from nnconv.ir.quant import quantize
from nnconv.ir.types import static_shape
from nnconv.ops import activation as a
from nnconv.ops import elementwise as e
from nnconv.ops import numeric as n
from nnconv.ops.shape import Fill, ShapeOf

PLAIN: dict[str, Op] = {
    "Abs": e.Abs(),
    "Neg": e.Neg(),
    "Sign": n.PlainSign(),
    "Sqrt": e.Sqrt(),
    "Exp": e.Exp(),
    "Log": e.Log(),
    "Sin": e.Sin(),
    "Cos": e.Cos(),
    "Tan": n.Tan(),
    "Asin": n.Asin(),
    "Acos": n.Acos(),
    "Atan": n.Atan(),
    "Sinh": n.Sinh(),
    "Cosh": n.Cosh(),
    "Asinh": n.Asinh(),
    "Acosh": n.Acosh(),
    "Atanh": n.Atanh(),
    "Erf": n.Erf(),
    "Reciprocal": n.Reciprocal(),
    "Floor": e.Floor(),
    "Ceil": e.Ceil(),
    "Round": e.Round(),
    "Tanh": e.Tanh(),
    "Sigmoid": e.Sigmoid(),
    "HardSwish": e.HardSwish(),
    "Relu": e.Clip(low=0.0, high=math.inf),
    "Softplus": a.Softplus(),
    "Softsign": a.Softsign(),
    "Mish": a.Mish(),
    "IsNaN": n.IsNan(),
    "Not": e.LogicalNot(),
    "BitwiseNot": n.BitwiseNot(),
}
"""Ops of one operand without attributes."""

BINARY: dict[str, Op] = {
    "Add": e.Add(),
    "Sub": e.Sub(),
    "Mul": e.Mul(),
    "Div": e.Div(),
    "Pow": e.Pow(),
    "PRelu": e.PRelu(),
    "And": e.LogicalAnd(),
    "Or": e.LogicalOr(),
    "Xor": e.BitwiseXor(),
    "BitwiseAnd": n.BitwiseAnd(),
    "BitwiseOr": n.BitwiseOr(),
    "BitwiseXor": e.BitwiseXor(),
    "Equal": e.Equal(),
    "Less": e.Less(),
    "LessOrEqual": e.LessEqual(),
    "Greater": e.Greater(),
    "GreaterOrEqual": e.GreaterEqual(),
}
"""Ops of two operands, which broadcast, without attributes."""

WITH_ATTRIBUTES: dict[str, Callable[[Source], Op]] = {
    "Elu": lambda s: e.Elu(alpha=s.float("alpha", 1.0)),
    "LeakyRelu": lambda s: e.LeakyRelu(alpha=s.float("alpha", 0.01)),
    "Celu": lambda s: a.Celu(alpha=s.float("alpha", 1.0)),
    "Swish": lambda s: a.Swish(alpha=s.float("alpha", 1.0)),
    "ThresholdedRelu": lambda s: a.ThresholdedRelu(alpha=s.float("alpha", 1.0)),
    "Selu": lambda s: a.Selu(
        alpha=s.float("alpha", a.Selu.alpha), gamma=s.float("gamma", a.Selu.gamma)
    ),
    "HardSigmoid": lambda s: a.HardSigmoid(alpha=s.float("alpha", 0.2), beta=s.float("beta", 0.5)),
    "Shrink": lambda s: a.Shrink(bias=s.float("bias", 0.0), lambd=s.float("lambd", 0.5)),
    "Gelu": lambda s: e.Gelu(approximate=_is_approximate(s)),
    "IsInf": lambda s: n.IsInf(
        positive=bool(s.int("detect_positive", 1)), negative=bool(s.int("detect_negative", 1))
    ),
}
"""Ops of one operand."""


def _is_approximate(s: Source) -> bool:
    kind = s.text("approximate", "none")
    if kind not in ("none", "tanh"):
        raise s.fail(f"approximate is {kind!r}, allowed are none and tanh")
    return kind == "tanh"


def import_plain(s: Source) -> None:
    """An op of one operand."""
    s.emit(PLAIN[s.node.op_type], [s.operand(0)])


def import_with_attributes(s: Source) -> None:
    """An op of one operand with attributes."""
    s.emit(WITH_ATTRIBUTES[s.node.op_type](s), [s.operand(0)])


def import_binary(s: Source) -> None:
    """An op of two operands; before opset 7 the second one broadcast by rules of its own."""
    if s.version < 7 and s.has("broadcast") and s.int("broadcast"):
        raise s.unsupported(
            f"it broadcasts by the rules of opset {s.version}",
            hint="Bring the model to opset 7 or newer.",
        )
    s.emit(BINARY[s.node.op_type], [s.operand(0), s.operand(1)])


def import_clip(s: Source) -> None:
    """Clip: bounds are attributes before opset 11, then operands."""
    x = s.operand(0)
    if s.version < 11:
        s.emit(e.Clip(low=s.float("min", -math.inf), high=s.float("max", math.inf)), [x])
        return
    bounds = [s.optional(1), s.optional(2)]
    if all(b is None or (b.data is not None and b.data.size == 1) for b in bounds):
        low, high = (_number(s, b) for b in bounds)
        least, greatest = -math.inf if low is None else low, math.inf if high is None else high
        if _fit(least, greatest):
            bounds_of_reals = _real_bounds(x, float(least), float(greatest))
            if bounds_of_reals is not None:
                least, greatest = bounds_of_reals
                s.emit(e.Clip(low=least, high=greatest), [x], quants=[x.quant])
                return
            s.emit(e.Clip(low=float(least), high=float(greatest)), [x])
            return
    s.emit(n.ClipBetween(), [x, *bounds])


def _number(s: Source, bound: Value | None) -> float | int | None:
    if bound is None or bound.data is None:
        return None
    kind = bound.data.dtype.kind
    if kind not in "iufV":
        raise s.fail(f"a bound is {bound.dtype}")
    number = bound.data.reshape(-1)[0]
    return int(number) if kind in "iu" else float(number)


_USUAL_BOUNDS = (0.0, 6.0, 1.0, -1.0)
"""Those of activations."""


def _real_bounds(x: Value, low: float, high: float) -> tuple[float, float] | None:
    """What 8-bit codes between these bounds stand for; None where they are no such codes.

    Bounds that codes have anyway are none; others are those of an activation, if it has these.
    """
    quant = x.quant
    if quant is None or not quant.is_per_tensor or x.dtype not in EIGHT_BITS:
        return None
    least, greatest = x.dtype.int_range
    if low > greatest or high < least:
        return None
    known = {int(quantize(np.asarray(b), quant, x.dtype)): b for b in _USUAL_BOUNDS[::-1]}

    def real(code: float) -> float:
        found = known.get(int(code))
        return (int(code) - quant.zero_point[0]) * quant.scale[0] if found is None else found

    return (
        -math.inf if low <= least else real(math.ceil(low)),
        math.inf if high >= greatest else real(math.floor(high)),
    )


def _fit(low: float, high: float) -> bool:
    """Whether bounds are what ``Clip`` has: in order, numbers, and exact as floats."""
    if math.isnan(low) or math.isnan(high) or low > high:
        return False
    return all(math.isinf(b) or float(b) == b for b in (low, high))


def import_mod(s: Source) -> None:
    """Mod: with the sign of the divisor, or with ``fmod`` of the dividend."""
    fmod = s.int("fmod", 0)
    s.emit(n.TruncatedMod() if fmod else e.FloorMod(), [s.operand(0), s.operand(1)])


def import_bit_shift(s: Source) -> None:
    """BitShift."""
    direction = s.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise s.fail(f"direction is {direction!r}, allowed are LEFT and RIGHT")
    op = n.ShiftLeft() if direction == "LEFT" else n.ShiftRight()
    s.emit(op, [s.operand(0), s.operand(1)])


def import_where(s: Source) -> None:
    """Where."""
    s.emit(e.Select(), [s.operand(i) for i in range(3)])


VARIADIC: dict[str, tuple[Op | None, Op]] = {
    "Sum": (e.Add(), e.AddN()),
    "Max": (e.Maximum(), n.MaxOf()),
    "Min": (e.Minimum(), n.MinOf()),
    "Mean": (None, n.MeanOf()),
}
"""Ops of any number of operands: the one for two, and the one for more."""


def import_variadic(s: Source) -> None:
    """Sum, Max, Min, Mean: of one operand it is that itself."""
    operands = s.all_operands()
    if not operands:
        raise s.fail("operand 0 is missing")
    of_two, of_many = VARIADIC[s.node.op_type]
    if len(operands) == 1:
        s.bind(0, operands[0])
    elif len(operands) == 2 and of_two is not None:
        s.emit(of_two, operands)
    else:
        s.emit(of_many, operands)


def import_dropout(s: Source) -> None:
    """Dropout, which drops nothing at inference; its mask is true everywhere."""
    x = s.operand(0)
    if s.version >= 12 and s.optional(2) is not None:
        training, ratio = s.constant(2), s.constant(1)
        drops = s.optional(1) is None or ratio is None or bool(np.any(ratio != 0))
        if training is None or (drops and bool(np.any(training))):
            raise s.unsupported(
                "it drops elements at random, as in training",
                reason=Reason.OUT_OF_SCOPE,
                hint="Export the model for inference.",
            )
    s.bind(0, x)
    if not s.wants(1):
        return
    dtype = DType.BOOL if s.version >= 10 else x.dtype
    one, shape = s.const(np.ones((), dtype.numpy)), static_shape(x.shape)
    if shape is not None:
        s.bind(1, s.add(Fill(shape=shape), [one]))
        return
    s.bind(1, s.add(Fill(shape=None), [one, s.add(ShapeOf(dtype=DType.INT64), [x])]))


IMPORTERS: dict[str, Importer] = {
    **dict.fromkeys(PLAIN, import_plain),
    **dict.fromkeys(BINARY, import_binary),
    **dict.fromkeys(WITH_ATTRIBUTES, import_with_attributes),
    **dict.fromkeys(VARIADIC, import_variadic),
    "Clip": import_clip,
    "Mod": import_mod,
    "BitShift": import_bit_shift,
    "Where": import_where,
    "Dropout": import_dropout,
}
