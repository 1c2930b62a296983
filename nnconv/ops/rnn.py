"""Recurrent ops. Their state comes in as an operand and goes out as a result.

Each op runs in one direction; a bidirectional op of a format is two of them (the second with
``reverse``) and, where the format joins their results, a Concat. The input is [T,B,I] or [B,T,I] by
``time_major``; an input [B,I] is a single step, and then the result has no time dimension either.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from nnconv.ir.dtype import FLOATS, DType
from nnconv.ir.op import Activation, Op, Operand, QuantRule, Role, Types, op_class, operand_type
from nnconv.ir.types import Dim, TensorType
from nnconv.ops.conv import QUANTIZED

_DATA = FLOATS | QUANTIZED
_WEIGHT_TYPES = _DATA | {DType.INT4, DType.UINT4, DType.INT2}
_BIAS_TYPES = FLOATS | {DType.INT32, DType.INT64}

LAYER_NORM_EPSILON = 1e-8
"""What an Lstm adds to the variance when it normalizes a gate: TFLite's and NNAPI's constant."""


def _weight(name: str, *, optional: bool = False) -> Operand:
    return Operand(name, _WEIGHT_TYPES, Role.WEIGHT, optional=optional)


def _bias(name: str) -> Operand:
    return Operand(name, _BIAS_TYPES, Role.BIAS, optional=True)


def _state(name: str) -> Operand:
    return Operand(name, _DATA, Role.STATE, optional=True)


class StepTypes(NamedTuple):
    """Dtype and quantization in which a quantized Lstm keeps its values from step to step."""

    hidden: TensorType
    output: TensorType
    cell: TensorType


@op_class
class _Recurrent(Op):
    activation: Activation = Activation.TANH
    time_major: bool = True
    reverse: bool = False

    def _batch(self, x: TensorType) -> Dim:
        if x.shape is None:
            return None
        if len(x.shape) not in (2, 3):
            raise ValueError(f"input has rank {len(x.shape)}, must have 2 or 3")
        return x.shape[1] if self.time_major and len(x.shape) == 3 else x.shape[0]

    def _results(self, types: Types, size: Dim, states: dict[int, Dim]) -> tuple[TensorType, ...]:
        """The types of the sequence, of ``size`` features, and of states (operand: features)."""
        x = operand_type(types, 0)
        batch = self._batch(x)
        shape = None if x.shape is None else (*x.shape[:-1], size)
        results = [TensorType(x.dtype, shape)]
        for index, extent in states.items():
            given = types[index] if index < len(types) else None
            if given is None:
                results.append(TensorType(x.dtype, (batch, extent)))
                continue
            _check(given, (batch, extent), f"{self.operands[index].name} state")
            results.append(given)
        return tuple(results)


def _check(seen: TensorType, allowed: tuple[Dim, ...], what: str) -> None:
    if seen.shape is None:
        return
    fits = len(seen.shape) == len(allowed) and all(
        a == b or not (isinstance(a, int) and isinstance(b, int))
        for a, b in zip(seen.shape, allowed, strict=True)
    )
    if not fits:
        raise ValueError(f"{what} is {list(seen.shape)}, must be {list(allowed)}")


def _extent(types: Types, index: int, dim: int) -> Dim:
    kind = types[index] if index < len(types) else None
    if kind is None or kind.shape is None:
        return None
    return kind.shape[dim] if len(kind.shape) > dim else None


LSTM_GATES = "ifco"
"""The order of the gates of an Lstm: input, forget, cell, output."""


@op_class
class Lstm(_Recurrent):
    """Long short-term memory, in one direction.

    For each step, with h and c the output and cell state, s the logistic function, a the
    ``activation``:

        z_g = W_g x + R_g h + P_g * c + b_g    for the gates g = i, f, c, o
        i = s(z_i), f = s(z_f), o = s(z_o)     without W_i: i = 1 - f
        c = clip(f * c + i * a(z_c), cell_clip)
        h = o * a(c)                           with W_p: h = clip(W_p h + b_p, projection_clip)

    There is no P_c; P_o is multiplied by the new c.
    A clip of 0 does nothing. With layer normalization z_g, before its bias, has mean 0 and
    deviation 1 over the cells and is multiplied by L_g.

    Operands: x; W_i W_f W_c W_o [H,I]; R_i R_f R_c R_o [H,O]; P_i P_f P_o [H]; b_i b_f b_c b_o [H];
    W_p [O,H], b_p [O]; h [B,O], c [B,H] (zeros when absent); L_i L_f L_c L_o [H]. All but x and the
    weights of f, c and o may be absent. Without W_p, O is H.
    Results: the outputs [T,B,O], [B,T,O]
    or [B,O]; the last h; the last c.

    Every gate has weights of its own because TFLite and NNAPI quantize each for itself, and leave
    out those of the input gate; stacking them would lose that, while ONNX's stacked tensors (order
    i, o, f, c) come apart into views.

    Quantized: ``steps`` gives the types to which the hidden value (before the projection), h and c
    are rounded after every step; everything else is real.
    Spelled: TFLite LSTM,
    UNIDIRECTIONAL_SEQUENCE_LSTM, BIDIRECTIONAL_SEQUENCE_LSTM; NNAPI the same three and
    QUANTIZED_LSTM; ONNX LSTM (whose ``clip`` is of z_g, and whose ``input_forget`` is f = 1 - i);
    NNRt LSTM.
    """

    operands: ClassVar[tuple[Operand, ...]] = (
        Operand("x", _DATA),
        _weight("input weights i", optional=True),
        *(_weight(f"input weights {g}") for g in "fco"),
        _weight("recurrent weights i", optional=True),
        *(_weight(f"recurrent weights {g}") for g in "fco"),
        *(_weight(f"peephole {g}", optional=True) for g in "ifo"),
        *(_bias(f"bias {g}") for g in LSTM_GATES),
        _weight("projection", optional=True),
        _bias("projection bias"),
        _state("output"),
        _state("cell"),
        *(_weight(f"normalization {g}", optional=True) for g in LSTM_GATES),
    )

    cell_clip: float = 0.0
    projection_clip: float = 0.0
    steps: StepTypes | None = None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        cells = _extent(types, 2, 0)
        has_projection = len(types) > 16 and types[16] is not None
        size = _extent(types, 16, 0) if has_projection else cells
        depth = None if x.shape is None else x.shape[-1]
        expected: list[tuple[Dim, ...]] = [
            *[(cells, depth)] * 4,
            *[(cells, size)] * 4,
            *[(cells,)] * 7,
            (size, cells),
            (size,),
            (None, size),
            (None, cells),
            *[(cells,)] * 4,
        ]
        for operand, kind, shape in zip(self.operands[1:], types[1:], expected, strict=False):
            if kind is not None:
                _check(kind, shape, operand.name)
        return self._results(types, size, {18: size, 19: cells})


class Rnn(_Recurrent):
    """h = a(W x + R h + b) for each step, in one direction, with a the ``activation``.

    Operands: x; W [H,I]; R [H,H]; b [H], optional; h [B,H] (zeros when absent). Results: the
    outputs; the last h. Spelled: TFLite RNN, UNIDIRECTIONAL_SEQUENCE_RNN,
    BIDIRECTIONAL_SEQUENCE_RNN; NNAPI the same; ONNX RNN.
    """

    operands = (
        Operand("x", _DATA),
        _weight("input weights"),
        _weight("recurrent weights"),
        _bias("bias"),
        _state("output"),
    )

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        units = _extent(types, 1, 0)
        depth = None if x.shape is None else x.shape[-1]
        for index, shape in ((1, (units, depth)), (2, (units, units)), (3, (units,))):
            kind = types[index] if index < len(types) else None
            if kind is not None:
                _check(kind, shape, self.operands[index].name)
        return self._results(types, units, {4: units})


def _svdf_types(types: Types, rank: int) -> tuple[TensorType, ...]:
    x, filters = operand_type(types, 0), _extent(types, 1, 0)
    memory, state = _extent(types, 2, 1), operand_type(types, 4)
    if rank < 1 or (isinstance(filters, int) and filters % rank):
        raise ValueError(f"{filters} filters don't make units of {rank}")
    units = filters // rank if isinstance(filters, int) else None
    batch = None if x.shape is None else x.shape[0]
    depth = None if x.shape is None else x.shape[-1]
    _check(x, (batch, depth), "input")
    _check(operand_type(types, 1), (filters, depth), "feature weights")
    _check(operand_type(types, 2), (filters, memory), "time weights")
    if types[3] is not None:
        _check(types[3], (units,), "bias")
    known = isinstance(filters, int) and isinstance(memory, int)
    _check(state, (batch, filters * memory if known else None), "state")  # type: ignore[operator]
    return TensorType(x.dtype, (batch, units)), state


_SVDF_OPERANDS = (
    Operand("x", _DATA),
    _weight("feature weights"),
    _weight("time weights"),
    _bias("bias"),
    Operand("state", _DATA, Role.STATE),
)


@op_class
class Svdf(Op):
    """One step of a dense layer over features and time, by singular value decomposition.

    The state [B,F,M] drops its oldest column and takes up W x as its newest. The result is, for
    each unit, the sum over its ``rank`` filters and over time of state * time weights, plus bias,
    behind the ``activation``.

    Operands: x [B,I]; W [F,I]; time weights [F,M]; bias [F / rank], optional; state [B,F*M].
    Results: [B, F / rank]; the new state.
    Spelled: TFLite SVDF, NNAPI SVDF.
    """

    operands = _SVDF_OPERANDS

    rank: int = 1
    activation: Activation = Activation.NONE

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
    import math

    significand, exponent = math.frexp(scale)
    multiplier = math.floor(significand * 2**31 + 0.5)
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    return (0, 0) if exponent < -31 else (multiplier, exponent)
