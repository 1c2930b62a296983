"""SVDF, a dense layer over features and time, whose state is what it has seen lately."""

from __future__ import annotations

import math

from nnconv.errors import plural
from nnconv.ir.dtype import FLOATS
from nnconv.ir.op import Activation, Op, Operand, QuantRule, Role, Types, op_class, operand_type
from nnconv.ir.types import TensorType
from nnconv.ops.conv import QUANTIZED
from nnconv.ops.rnn import bias_operand, check_shape, extent_of, weight_operand

_DATA = FLOATS | QUANTIZED


def _svdf_types(types: Types, rank: int) -> tuple[TensorType, ...]:
    x, filters = operand_type(types, 0), extent_of(types, 1, 0)
    memory, state = extent_of(types, 2, 1), operand_type(types, 4)
    if rank < 1 or (isinstance(filters, int) and filters % rank):
        raise ValueError(f"{plural(filters, 'filter')} can't make units of {rank}")
    units = filters // rank if isinstance(filters, int) else None
    batch = x.shape[0] if x.shape else None
    depth = x.shape[-1] if x.shape else None
    check_shape(x, (batch, depth), "input")
    check_shape(operand_type(types, 1), (filters, depth), "feature weights")
    check_shape(operand_type(types, 2), (filters, memory), "time weights")
    if types[3] is not None:
        check_shape(types[3], (units,), "bias")
    known = isinstance(filters, int) and isinstance(memory, int)
    check_shape(state, (batch, filters * memory if known else None), "state")  # type: ignore[operator]
    return TensorType(x.dtype, (batch, units)), state


_SVDF_OPERANDS = (
    Operand("x", _DATA),
    weight_operand("feature weights"),
    weight_operand("time weights"),
    bias_operand("bias"),
    Operand("state", _DATA, Role.STATE),
)


@op_class
class Svdf(Op):
    """One step of a dense layer over features and time, by singular value decomposition.

    The state [B,F,M] drops its oldest column and takes up W x as its newest. The result is, for
    each unit, the sum over its ``rank`` filters and over time of state * time weights, plus bias,
    behind the ``activation``.

    Operands: x [B,I]; W [F,I]; time weights [F,M]; bias [F / rank], optional; state [B,F*M].
    Results: [B, F / rank]; the new state. ``asymmetric``: as an Rnn's.
    Spelled: TFLite SVDF, NNAPI SVDF.
    """

    operands = _SVDF_OPERANDS

    rank: int = 1
    activation: Activation = Activation.NONE
    asymmetric: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return _svdf_types(types, self.rank)


@op_class
class QuantizedSvdf(Op):
    """Svdf on integers, exactly as TFLite computes it.

    With ``*`` TFLite's multiplication by a fixed-point number (``fixed_point``), everything
    saturating:

        newest = state_zero_point + state_scale * sum(W (x - x_zero_point))
        result = zero_point + output_scale * (sum(time weights (state - state_zero_point)) + bias)

    Both scales are ratios: of input times weight scale to state scale, of state times time weight
    scale to result scale. The activation is the one that the result's range implies (RELU at the
    least code). Operands as Svdf's: x, W int8; time weights and state int16 (or both int8); bias
    int32.
    """

    operands = _SVDF_OPERANDS
    quant_rule = QuantRule.EXACT

    rank: int = 1
    x_zero_point: int = 0
    state_zero_point: int = 0
    zero_point: int = 0
    state_scale: float
    output_scale: float

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return _svdf_types(types, self.rank)


def fixed_point(scale: float) -> tuple[int, int]:
    """A positive scale, TFLite's way, as multiplier * 2 ** (exponent - 31).

    The multiplier is in [2**30, 2**31), or 0 for a scale below 2**-31.
    """
    significand, exponent = math.frexp(scale)
    multiplier = math.floor(significand * 2**31 + 0.5)
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    return (0, 0) if exponent < -31 else (multiplier, exponent)
