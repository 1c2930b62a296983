"""Whole recurrent layers: one direction or both, with the weights of all gates stacked.

These are ONNX's. ``nnconv.ops.rnn`` has TFLite's, whose gates are apart.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from nnconv.errors import plural
from nnconv.ir.dtype import FLOATS, DType
from nnconv.ir.op import Op, Operand, Role, Types, op_class, operand_type
from nnconv.ir.types import Dim, TensorType
from nnconv.ops.rnn import check_shape, extent_of


class Function(NamedTuple):
    """An activation: one of ``FUNCTIONS``, with its parameters (0 where it has none)."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


FUNCTIONS: dict[str, tuple[float, ...]] = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "Affine": (1.0, 0.0),
    "LeakyRelu": (0.01,),
    "ThresholdedRelu": (1.0,),
    "ScaledTanh": (1.0, 1.0),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0,),
    "Softsign": (),
    "Softplus": (),
}
"""The activations there are, with the defaults of alpha and beta, as far as they have these.

max(x, 0); tanh(x); 1 / (1 + e**-x); alpha x + beta; x if x >= 0 else alpha x; x if x >= alpha else
0; alpha tanh(beta x); min(max(alpha x + beta, 0), 1); x if x >= 0 else alpha (e**x - 1);
x / (1 + |x|); log(1 + e**x).
"""

_LENGTHS = frozenset({DType.INT32, DType.INT64})


def _operands(*more: Operand) -> tuple[Operand, ...]:
    return (
        Operand("x", FLOATS),
        Operand("weights", FLOATS, Role.WEIGHT),
        Operand("recurrent weights", FLOATS, Role.WEIGHT),
        Operand("bias", FLOATS, Role.BIAS, optional=True),
        Operand("lengths", _LENGTHS, optional=True),
        Operand("output", FLOATS, Role.STATE, optional=True),
        *more,
    )


@op_class
class Layer(Op):
    """Base of the layers.

    x is [T,B,I], weights are [D,G*H,I] and [D,G*H,H], the bias is [D,2*G*H]: that of the input
    product, then that of the recurrent one. ``lengths`` [B] say how many steps of each sequence
    count; the states stay as they are in the others, and the results are zeros there. States are
    [D,B,H] (absent: zeros). Results: the outputs [T,D,B,H], and the last states.

    Attributes:
        directions: for each of D directions whether it goes from the last step to the first;
            (False, True) is a layer of both.
        functions: the activations, those of the first direction first.
        clip: bounds what goes into each gate's activation; 0: nothing does.
    """

    gates: ClassVar[int]
    functions_each: ClassVar[int]
    operands: ClassVar[tuple[Operand, ...]] = _operands()

    directions: tuple[bool, ...] = (False,)
    functions: tuple[Function, ...]
    clip: float = 0.0

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is not None and len(x.shape) != 3:
            raise ValueError(f"input has rank {len(x.shape)}, must have 3")
        steps, batch, depth = x.shape if x.shape is not None else (None, None, None)
        count, gates = len(self.directions), self.gates
        if len(self.functions) != count * self.functions_each:
            raise ValueError(
                f"{plural(len(self.functions), 'activation')}, must be "
                f"{count * self.functions_each}"
            )
        size = extent_of(types, 2, 2)
        if not isinstance(size, int):
            rows = extent_of(types, 1, 1)
            size = rows // gates if isinstance(rows, int) else None
        rows = size * gates if isinstance(size, int) else None
        both = 2 * rows if isinstance(rows, int) else None
        peepholes = 3 * size if isinstance(size, int) else None
        expected: list[tuple[Dim, ...]] = [
            (count, rows, depth),
            (count, rows, size),
            (count, both),
            (batch,),
            (count, batch, size),
            (count, batch, size),
            (count, peepholes),
        ]
        for operand, kind, shape in zip(self.operands[1:], types[1:], expected, strict=False):
            if kind is not None:
                check_shape(kind, shape, operand.name)
        state = TensorType(x.dtype, (count, batch, size))
        return (TensorType(x.dtype, (steps, count, batch, size)), *self._states(state))

    def _states(self, state: TensorType) -> tuple[TensorType, ...]:
        return (state,)


class RnnLayer(Layer):
    """h = f(W x + R h + b) for each step. Operands and results: see ``Layer``. ONNX RNN."""

    gates = 1
    functions_each = 1


@op_class
class GruLayer(Layer):
    """Gated recurrent units.

    Operands and results: see ``Layer``. For each step, with the gates z, r, h stacked in this
    order, biases Wb and Rb, activations f and g:

        z = f(W_z x + R_z h + Wb_z + Rb_z)
        r = f(W_r x + R_r h + Wb_r + Rb_r)
        n = g(W_h x + R_h (r * h) + Rb_h + Wb_h)    with ``reset_after`` the product is multiplied:
        n = g(W_h x + r * (R_h h + Rb_h) + Wb_h)
        h = (1 - z) * n + z * h

    ONNX GRU.
    """

    gates = 3
    functions_each = 2

    reset_after: bool = False


LAYER_GATES = "iofc"
"""The order of the gates of an LstmLayer: input, output, forget, cell."""


@op_class
class LstmLayer(Layer):
    """Long short-term memory.

    Operands: see ``Layer``; then the cell state [D,B,H] and peepholes [D,3*H] (i, o, f). Results:
    the outputs, the last output state, the last cell state. For each step, with the gates i, o, f,
    c stacked in this order, activations f, g and h:

        i = f(W_i x + R_i h + P_i * c + b_i)
        f = f(W_f x + R_f h + P_f * c + b_f)    with ``coupled``: f = 1 - i
        c = f * c + i * g(W_c x + R_c h + b_c)
        o = f(W_o x + R_o h + P_o * c + b_o)
        h = o * h(c)

    ONNX LSTM.
    """

    gates = 4
    functions_each = 3
    operands = _operands(
        Operand("cell", FLOATS, Role.STATE, optional=True),
        Operand("peepholes", FLOATS, Role.WEIGHT, optional=True),
    )

    coupled: bool = False

    def _states(self, state: TensorType) -> tuple[TensorType, ...]:
        return state, state
