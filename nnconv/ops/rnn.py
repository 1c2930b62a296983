"""Recurrent ops. Their state comes in as an operand and goes out as a result.

Each op runs in one direction; a bidirectional op of a format is two of them (the second with
``reverse``) and, where the format joins their results, a Concat. The input is [T,B,I] or [B,T,I] by
``time_major``; an input [B,I] is a single step, and then the result has no time dimension either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, NamedTuple, TypeVar

from nnconv.ir.dtype import FLOATS, DType
from nnconv.ir.graph import Value
from nnconv.ir.op import Activation, Op, Operand, Role, Types, op_class, operand_type
from nnconv.ir.quant import Quant
from nnconv.ir.types import Dim, TensorType
from nnconv.ops.conv import QUANTIZED

_DATA = FLOATS | QUANTIZED
_WEIGHT_TYPES = _DATA | {DType.INT4, DType.UINT4, DType.INT2}
_BIAS_TYPES = FLOATS | {DType.INT32, DType.INT64}

LAYER_NORM_EPSILON = 1e-8
"""What an Lstm adds to the variance when it normalizes a gate: TFLite's and NNAPI's constant."""


def weight_operand(name: str, *, optional: bool = False) -> Operand:
    """A formal operand of weights."""
    return Operand(name, _WEIGHT_TYPES, Role.WEIGHT, optional=optional)


def bias_operand(name: str) -> Operand:
    """A formal operand of biases, which may be absent."""
    return Operand(name, _BIAS_TYPES, Role.BIAS, optional=True)


def _state(name: str) -> Operand:
    return Operand(name, _DATA, Role.STATE, optional=True)


class StepTypes(NamedTuple):
    """Dtype and quantization in which a quantized Lstm keeps its values from step to step.

    ``gates`` are the parameters of z of each gate before its normalization, as a file has them:
    for the way back into such a file, nothing is rounded to them.
    """

    hidden: TensorType
    output: TensorType
    cell: TensorType
    gates: tuple[Quant | None, ...] = ()


@op_class
class _Recurrent(Op):
    """Base of the ops.

    ``asymmetric`` is for the way back into a TFLite file alone: whether its kernels, which also
    quantize the data of products with int8 weights, give that a zero point.
    """

    activation: Activation = Activation.TANH
    time_major: bool = True
    reverse: bool = False
    asymmetric: bool = False

    def _batch(self, x: TensorType) -> Dim:
        if x.shape is None:
            return None
        if len(x.shape) not in (2, 3):
            raise ValueError(f"input has rank {len(x.shape)}, must have 2 or 3")
        return x.shape[1] if self.time_major and len(x.shape) == 3 else x.shape[0]

    def _results(self, types: Types, size: Dim, *states: Dim) -> tuple[TensorType, ...]:
        """The types of the sequence, of ``size`` features, and of each state of its own."""
        x = operand_type(types, 0)
        batch = self._batch(x)
        shape = None if x.shape is None else (*x.shape[:-1], size)
        results = [TensorType(x.dtype, shape)]
        for index, extent in zip(self.places_of(Role.STATE), states, strict=True):
            given = types[index] if index < len(types) else None
            if given is None:
                results.append(TensorType(x.dtype, (batch, extent)))
                continue
            check_shape(given, (batch, extent), f"{self.operands[index].name} state")
            results.append(given)
        return tuple(results)


def check_shape(seen: TensorType, allowed: tuple[Dim, ...], what: str) -> None:
    """Check a shape as far as it is known.

    Raises:
        ValueError: naming ``what``, when rank or an extent is another.
    """
    if seen.shape is None:
        return
    fits = len(seen.shape) == len(allowed) and all(
        a == b or not (isinstance(a, int) and isinstance(b, int))
        for a, b in zip(seen.shape, allowed, strict=True)
    )
    if not fits:
        raise ValueError(f"{what} is {list(seen.shape)}, must be {list(allowed)}")


def check_sides(weights: Sequence[Value]) -> None:
    """Check that matrices can lie side by side.

    Raises:
        ValueError: one has another rank or number of rows.
    """
    shapes = [value.shape for value in weights if value.shape is not None]
    rows = {shape[0] for shape in shapes if shape and isinstance(shape[0], int)}
    if any(len(shape) != 2 for shape in shapes) or len(rows) > 1:
        listed = ", ".join(str(list(shape)) for shape in shapes)
        raise ValueError(f"weights are {listed}, must be matrices of as many rows")


def extent_of(types: Types, index: int, dim: int) -> Dim:
    """Extent ``dim`` of an operand; None when it isn't known."""
    kind = types[index] if index < len(types) else None
    if kind is None or kind.shape is None:
        return None
    return kind.shape[dim] if len(kind.shape) > dim else None


LSTM_GATES = "ifco"
"""The order of the gates of an Lstm: input, forget, cell, output."""

Given = TypeVar("Given")


def by_gate(values: Sequence[Given]) -> dict[str, Given]:
    """One value for each gate of an Lstm, by its letter."""
    return dict(zip(LSTM_GATES, values, strict=True))


class LstmOperands(Generic[Given]):
    """The operands of an Lstm, or a QuantizedLstm, by what they are; those left out are None.

    Attributes:
        x: the data.
        weights, recurrent, peepholes, biases, norms: one for each gate, in the order of
            ``LSTM_GATES``; the cell gate has no peephole.
        projection, projection_bias: what makes the output of the hidden value.
        output, cell: the states.
    """

    def __init__(self, given: Sequence[Given | None]) -> None:
        """Take the operands as the op has them, of which the last may be left off."""
        every = [*given, *[None] * (len(Lstm.operands) - len(given))]
        self.x = every[0]
        self.weights, self.recurrent = every[1:5], every[5:9]
        self.peepholes = [*every[9:11], None, every[11]]
        self.biases = every[12:16]
        self.projection, self.projection_bias, self.output, self.cell = every[16:20]
        self.norms = every[20:24]


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

    LiteRT 2.3 differs: without activation it reads a buffer that it never wrote; its integer kernel
    applies the peephole to as many cells as there are outputs, and clips a projection's codes
    without regard to their zero point; its hybrid kernels (int8 weights, float data) also quantize
    the data of every product; in both directions with merged, batch-major results it overruns.
    """

    operands: ClassVar[tuple[Operand, ...]] = (
        Operand("x", _DATA),
        weight_operand("input weights i", optional=True),
        *(weight_operand(f"input weights {g}") for g in "fco"),
        weight_operand("recurrent weights i", optional=True),
        *(weight_operand(f"recurrent weights {g}") for g in "fco"),
        *(weight_operand(f"peephole {g}", optional=True) for g in "ifo"),
        *(bias_operand(f"bias {g}") for g in LSTM_GATES),
        weight_operand("projection", optional=True),
        bias_operand("projection bias"),
        _state("output"),
        _state("cell"),
        *(weight_operand(f"normalization {g}", optional=True) for g in LSTM_GATES),
    )

    cell_clip: float = 0.0
    projection_clip: float = 0.0
    steps: StepTypes | None = None

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        cells = extent_of(types, 2, 0)
        has_projection = len(types) > 16 and types[16] is not None
        size = extent_of(types, 16, 0) if has_projection else cells
        depth = x.shape[-1] if x.shape else None
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
                check_shape(kind, shape, operand.name)
        return self._results(types, size, size, cells)


class Rnn(_Recurrent):
    """h = a(W x + R h + b) for each step, in one direction, with a the ``activation``.

    Operands: x; W [H,I]; R [H,H]; b [H], optional; h [B,H] (zeros when absent). Results: the
    outputs; the last h. Spelled: TFLite RNN, UNIDIRECTIONAL_SEQUENCE_RNN,
    BIDIRECTIONAL_SEQUENCE_RNN; NNAPI the same; ONNX RNN.

    LiteRT 2.3 differs: in both directions it reads wrong elements of an auxiliary input, with
    weights where time comes first, without them where the batch does.
    """

    operands = (
        Operand("x", _DATA),
        weight_operand("input weights"),
        weight_operand("recurrent weights"),
        bias_operand("bias"),
        _state("output"),
    )

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        units = extent_of(types, 1, 0)
        depth = x.shape[-1] if x.shape else None
        for index, shape in ((1, (units, depth)), (2, (units, units)), (3, (units,))):
            kind = types[index] if index < len(types) else None
            if kind is not None:
                check_shape(kind, shape, self.operands[index].name)
        return self._results(types, units, units)
