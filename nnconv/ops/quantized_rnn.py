"""Recurrent ops on integers, exactly as their runtimes compute them."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.dtype import DType
from nnconv.ir.op import Op, Operand, QuantRule, Role, Types, op_class, operand_type
from nnconv.ir.types import TensorType
from nnconv.ops.rnn import LSTM_GATES, check_shape, extent_of

_CODES = frozenset({DType.INT8})
_WIDE = frozenset({DType.INT16})
_SUMS = frozenset({DType.INT32})


def _weights(name: str, kinds: frozenset[DType], *, optional: bool = True) -> Operand:
    role = Role.BIAS if kinds is _SUMS else Role.WEIGHT
    return Operand(name, kinds, role, optional=optional)


@op_class
class QuantizedLstm(Op):
    """One step of an Lstm on int8 data with an int16 cell state, in Android's fixed point.

    Every product of matrices is brought to the scale of its gate and rounded to 16 bits; there it
    is normalized, with an integer root, to 12 bits behind the point, and goes through gemmlowp's
    logistic function or hyperbolic tangent. Biases of gates count only behind a normalization.

    Operands as Lstm's, of which it takes no activation, but here all are codes: x, h int8, weights
    int8, peephole and normalization weights and c int16, biases int32. Results: h, int8; c, int16.

    Attributes, all of them ratios or places of codes:
        input_scales, recurrent_scales: for the gates i, f, c, o, of a product of codes to the
            gate's; those of a gate that is left out don't count.
        peephole_scales: likewise for i, f, o.
        norm_scales: of the normalization weights.
        x_zero_point, h_zero_point, hidden_zero_point: of x, h, and the value before a projection.
        cell_power: the cell's scale is two to this power.
        hidden_scale: of that value; without a projection it is h itself.
        projection_scale: of a product with the projection weights to h.
        cell_clip, projection_clip: in codes; 0 for none.
    NNAPI QUANTIZED_LSTM.
    """

    operands: ClassVar[tuple[Operand, ...]] = (
        Operand("x", _CODES),
        *(_weights(f"input weights {g}", _CODES, optional=g == "i") for g in LSTM_GATES),
        *(_weights(f"recurrent weights {g}", _CODES, optional=g == "i") for g in LSTM_GATES),
        *(_weights(f"peephole {g}", _WIDE) for g in "ifo"),
        *(_weights(f"bias {g}", _SUMS) for g in LSTM_GATES),
        _weights("projection", _CODES),
        _weights("projection bias", _SUMS),
        Operand("h", _CODES, Role.STATE),
        Operand("c", _WIDE, Role.STATE),
        *(_weights(f"normalization {g}", _WIDE) for g in LSTM_GATES),
    )
    quant_rule: ClassVar[QuantRule] = QuantRule.EXACT

    input_scales: tuple[float, ...]
    recurrent_scales: tuple[float, ...]
    peephole_scales: tuple[float, ...]
    norm_scales: tuple[float, ...]
    x_zero_point: int
    h_zero_point: int
    hidden_zero_point: int
    cell_power: int
    hidden_scale: float
    projection_scale: float
    cell_clip: int = 0
    projection_clip: int = 0

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, h, c = (operand_type(types, i) for i in (0, *self.places_of(Role.STATE)))
        batch = x.shape[0] if x.shape else None
        depth = x.shape[-1] if x.shape else None
        cells, size = extent_of(types, 2, 0), extent_of(types, 6, 1)
        check_shape(x, (batch, depth), "input")
        check_shape(operand_type(types, 2), (cells, depth), "input weights")
        check_shape(operand_type(types, 6), (cells, size), "recurrent weights")
        check_shape(h, (batch, size), "h")
        check_shape(c, (batch, cells), "c")
        return h, c
