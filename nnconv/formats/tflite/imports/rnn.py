"""Recurrent ops. Left-out operands have index -1; the states are variable tensors.

Weights of 8 bits under float activations ("hybrid") stand for their real values: LiteRT quantizes
the activations for each product as well, which is a matter of its speed and not of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnconv.errors import Reason, plural
from nnconv.formats.tflite.importer import Importer, Source
from nnconv.formats.tflite.types import quant_of
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.quant import Quant, dequantize
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops.rewrite import reshaped
from nnconv.ops.rnn import Lstm, Rnn, StepTypes, check_sides
from nnconv.ops.shape import Concat
from nnconv.ops.slices import Slice
from nnconv.ops.svdf import QuantizedSvdf, Svdf

_ACTIVATIONS = (
    Activation.NONE,
    Activation.RELU,
    Activation.RELU_N1_TO_1,
    Activation.RELU6,
    Activation.TANH,
)
"""By number: these kernels apply TANH too, which the others ignore."""

_GREATEST_RATIO = 2.0**30
"""Of scales, as multiplying by a fixed-point number takes them."""

_OPERANDS = 24
"""How many operands an Lstm has."""


def _activation(s: Source) -> Activation:
    number = s.options.int("fused_activation_function")
    if not 0 <= number <= 5:
        raise s.fail(f"fused activation {number} is unknown")
    if number == 5:
        raise s.unsupported("fused activation SIGN_BIT")
    return _ACTIVATIONS[number]


def _weights(s: Source, index: int) -> Value | None:
    """An optional weight operand. Under float inputs what old files call uint8 is int8."""
    value, data = s.optional(index), s.constant(index)
    if value is None or value.dtype is not DType.UINT8 or data is None or value.quant is None:
        return value
    if not s.operand(0).dtype.is_float:
        return value
    quant = Quant(
        scale=value.quant.scale, zero_point=(0,) * len(value.quant.scale), axis=value.quant.axis
    )
    kind = TensorType(DType.INT8, value.shape, quant)
    return Value(value.name, kind, data=data.view(np.int8), origin=value.origin)


def _batch(s: Source, x: Value, *, time_major: bool) -> object:
    if s.rank(x) not in (2, 3):
        raise s.fail(f"`{x.name}` has rank {s.rank(x)}, must have 2 or 3")
    assert x.shape is not None
    return x.shape[1] if time_major and len(x.shape) == 3 else x.shape[0]


def _state(s: Source, index: int, features: Value) -> Value:
    """A state as [batch, rows of ``features``]; files may have it flat."""
    value = s.state(index)
    shape = static_shape(value.shape)
    rows = features.shape[0] if features.shape is not None else None
    if shape is None or not isinstance(rows, int) or len(shape) == 2:
        return value
    return reshaped(s.builder, value, (-1, rows))


def _keep_state(s: Source, index: int, value: Value) -> None:
    """Make ``value`` the next content of a variable, in the variable's shape."""
    shape = static_shape(s.state(index).shape)
    s.set_state(index, value if shape is None else reshaped(s.builder, value, shape))


# -------------------------------------------------------------------- LSTM


def import_sequence_lstm(s: Source) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM, and LSTM, which is one step of it (or the basic kernel)."""
    if s.op.name == "LSTM" and s.options.int("kernel_type") == 1:
        _import_basic_lstm(s)
        return
    operands: list[Value | None] = [_weights(s, i) for i in range(18)]
    operands += [None, None, *(_weights(s, i) for i in range(20, _OPERANDS))]
    sequence = s.op.name != "LSTM"
    if sequence and s.options.bool("diagonal_recurrent_tensors"):
        operands[5:9] = [_diagonal(s, v) for v in operands[5:9]]
    x, forget, projection = s.operand(0), s.operand(2), operands[16]
    operands[18] = _state(s, 18, projection if projection is not None else forget)
    operands[19] = _state(s, 19, forget)
    steps = None
    if not x.dtype.is_float:
        steps = _integer_form(s, operands)
    op = Lstm(
        activation=_activation(s),
        asymmetric=s.options.bool("asymmetric_quantize_inputs"),
        time_major=sequence and s.options.bool("time_major"),
        cell_clip=s.options.float("cell_clip"),
        projection_clip=s.options.float("proj_clip"),
        steps=steps,
    )
    _, output, cell = s.emit(op, operands)
    _keep_state(s, 18, output)
    _keep_state(s, 19, cell)


def _diagonal(s: Source, value: Value | None) -> Value | None:
    """Recurrent weights of which the file has only the diagonal."""
    if value is None or value.shape is None or len(value.shape) != 1:
        return value
    if value.data is None:
        raise s.unsupported(f"diagonal weights `{value.name}` that are computed at run time")
    if value.quant is not None and not value.quant.is_symmetric:
        raise s.unsupported(f"diagonal weights `{value.name}` with a zero point")
    return s.const(np.diag(value.data), value.name, quant=value.quant)


def _integer_form(s: Source, operands: list[Value | None]) -> StepTypes:
    """The types of an int8 LSTM's steps; its biases get the scales that the kernel uses."""
    x, cell, output = operands[0], operands[19], operands[18]
    assert x is not None
    assert cell is not None
    assert output is not None
    found = [
        quant_of(s.scope.file, s.scope.subgraph, s.scope.tensors[i]) if i >= 0 else None
        for i in s.op.intermediates
    ]
    if x.dtype is not DType.INT8 or len(found) != 5:
        raise s.unsupported(
            f"{x.dtype} input with {plural(len(found), 'inner scale')}",
            hint="LiteRT's integer LSTM has int8 input, an int16 cell state and 5 inner scales.",
        )
    if cell.quant is None or output.quant is None or x.quant is None:
        raise s.fail("a quantized LSTM without the scales of its input or states")
    hidden = found[4] or output.quant
    for gate in range(4):
        norm, weights = operands[20 + gate], operands[1 + gate]
        if norm is not None and norm.quant is not None:
            scale = norm.quant.scale[0] * 2.0**-10
        elif weights is not None and weights.quant is not None:
            scale = x.quant.scale[0] * weights.quant.scale[0]
        else:
            continue
        operands[12 + gate] = _with_scale(operands[12 + gate], scale)
    projection = operands[16]
    if projection is not None and projection.quant is not None:
        scale = hidden.scale[0] * projection.quant.scale[0]
        operands[17] = _with_scale(operands[17], scale)
    else:
        hidden = output.quant
    return StepTypes(
        TensorType(DType.INT8, None, hidden),
        TensorType(output.dtype, None, output.quant),
        TensorType(cell.dtype, None, cell.quant),
        tuple(found[:4]),
    )


def _with_scale(bias: Value | None, scale: float) -> Value | None:
    """An integer bias whose scale is the one that the kernel computes with."""
    if bias is None or bias.data is None or bias.dtype.is_float:
        return bias
    # kept in float64: a scale is a product of two float32 numbers
    kind = replace(bias.type, quant=Quant(scale=(scale,), zero_point=(0,)))
    return Value(bias.name, kind, data=bias.data, origin=bias.origin)


def _import_basic_lstm(s: Source) -> None:
    """The basic kernel: x, h, weights [4H, I+H] of gates i, c, f, o, bias [4H], c to h, c."""
    x, weights, bias = s.operand(0), s.operand(2), s.operand(3)
    shape = static_shape(weights.shape)
    if shape is None or len(shape) != 2 or shape[0] % 4 or shape[1] <= shape[0] // 4:
        raise s.fail(f"weights are {weights.type}, must be [4 * cells, inputs + cells]")
    cells, depth = shape[0] // 4, shape[1] - shape[0] // 4
    if not x.dtype.is_float and x.quant is not None and weights.quant is not None:
        scaled = _with_scale(bias, x.quant.scale[0] * weights.quant.scale[0])
        bias = scaled if scaled is not None else bias
    previous = [s.state(i) if _is_variable(s, i) else s.operand(i) for i in (1, 4)]
    inputs: list[Value | None] = [None] * _OPERANDS
    inputs[0], inputs[18], inputs[19] = x, previous[0], previous[1]
    for place, gate in enumerate((0, 2, 1, 3)):  # the gates i, c, f, o among i, f, c, o
        rows = place * cells, cells
        inputs[1 + gate] = _cut(s, weights, (rows, (0, depth)))
        inputs[5 + gate] = _cut(s, weights, (rows, (depth, cells)))
        inputs[12 + gate] = _cut(s, bias, (rows,))
    steps = None
    if not x.dtype.is_float:
        kinds = [replace(s.output_type(i), shape=None) for i in (0, 1)]
        steps = StepTypes(kinds[0], kinds[0], kinds[1])
    op = Lstm(time_major=False, steps=steps)
    types = list(s.builder.infer(op, inputs))
    types[0] = TensorType(s.output_type(0).dtype, types[0].shape, s.output_type(0).quant)
    names = [s.output_tensor(0).name, "", s.output_tensor(1).name]
    output, last, cell = s.builder.add_typed(op, inputs, types, names=names)
    s.bind(0, output)
    s.bind(1, cell)
    for index, value in ((1, last), (4, cell)):
        if _is_variable(s, index):
            s.set_state(index, value)


def _is_variable(s: Source, index: int) -> bool:
    tensor = s.tensor(index)
    return tensor is not None and tensor.is_variable


def _cut(s: Source, value: Value, cuts: Sequence[tuple[int, int]]) -> Value:
    """A part of ``value``: (start, extent) for each dimension; of a constant a view."""
    if value.data is None:
        starts, ends = zip(*((a, a + n) for a, n in cuts), strict=True)
        return s.add(Slice(starts=starts, ends=ends, strides=(1,) * len(cuts)), [value])
    data = value.data[tuple(slice(start, start + extent) for start, extent in cuts)]
    kind = TensorType(value.dtype, data.shape, value.quant)
    return Value(value.name, kind, data=data, origin=value.origin)


# -------------------------------------------------------------------- both directions


def import_bidirectional_lstm(s: Source) -> None:
    """BIDIRECTIONAL_SEQUENCE_LSTM: an LSTM each way, perhaps with an auxiliary input."""
    if not s.operand(0).dtype.is_float:
        raise s.unsupported(
            f"{s.operand(0).dtype} input", reason=Reason.OUT_OF_SCOPE, hint="LiteRT has no kernel."
        )
    options = s.options
    op = Lstm(
        activation=_activation(s),
        asymmetric=s.options.bool("asymmetric_quantize_inputs"),
        time_major=options.bool("time_major"),
        cell_clip=options.float("cell_clip"),
        projection_clip=options.float("proj_clip"),
    )
    inputs = _auxiliary(s, 39, range(40, 48))
    halves = []
    for reverse, first, states, aux in ((False, 1, (35, 36), 40), (True, 18, (37, 38), 44)):
        operands: list[Value | None] = [None] * _OPERANDS
        operands[0] = inputs[reverse]
        operands[1:18] = [_weights(s, first + i) for i in range(17)]
        for gate in range(4):
            operands[1 + gate] = _joined(s, operands[1 + gate], _weights(s, aux + gate))
        forget, projection = s.operand(first + 1), operands[16]
        operands[18] = _state(s, states[0], projection if projection is not None else forget)
        operands[19] = _state(s, states[1], forget)
        results = s.add_many(op.replace(reverse=reverse), operands)
        halves.append(results[0])
        for index, value in zip(states, results[1:], strict=True):
            _keep_state(s, index, value)
    _bind_halves(s, halves)


def import_bidirectional_rnn(s: Source) -> None:
    """BIDIRECTIONAL_SEQUENCE_RNN: an RNN each way, perhaps with an auxiliary input."""
    op = Rnn(
        activation=_activation(s),
        time_major=s.options.bool("time_major"),
        asymmetric=s.options.bool("asymmetric_quantize_inputs"),
    )
    inputs = _auxiliary(s, 9, range(10, 12))
    halves = []
    for reverse, first, aux in ((False, 1, 10), (True, 5, 11)):
        weights = _joined(s, _weights(s, first), _weights(s, aux))
        operands = [inputs[reverse], weights, _weights(s, first + 1), s.operand(first + 2)]
        state = _state(s, first + 3, s.operand(first))
        output, last = s.add_many(op.replace(reverse=reverse), [*operands, state])
        halves.append(output)
        _keep_state(s, first + 3, last)
    _bind_halves(s, halves)


def _auxiliary(s: Source, index: int, weights: range) -> tuple[Value, Value]:
    """The inputs forward and backward.

    An auxiliary input with weights is joined to the input; without them it is the backward one's
    input.
    """
    x, auxiliary = s.operand(0), s.optional(index)
    if auxiliary is None:
        return x, x
    if all(s.optional(i) is None for i in weights):
        return x, auxiliary
    both = s.add(Concat(axis=s.rank(x) - 1), [x, auxiliary])
    return both, both


def _joined(s: Source, weights: Value | None, more: Value | None) -> Value | None:
    """Weights [H,I] and those of the auxiliary input [H,A] side by side."""
    if weights is None or more is None:
        return weights
    parts = [weights, more]
    if all(v.data is not None for v in parts):
        check_sides(parts)
        arrays = [
            v.data if v.quant is None else dequantize(v.data, v.quant)
            for v in parts
            if v.data is not None
        ]
        return s.const(np.concatenate(arrays, axis=1), weights.name)
    return s.add(Concat(axis=1), parts)


def _bind_halves(s: Source, halves: Sequence[Value]) -> None:
    if s.options.bool("merge_outputs"):
        s.emit(Concat(axis=s.rank(halves[0]) - 1), halves)
        return
    for index, value in enumerate(halves):
        value.name = s.output_tensor(index).name
        s.bind(index, value)


# -------------------------------------------------------------------- RNN, SVDF


def import_rnn(s: Source) -> None:
    """RNN (one step) and UNIDIRECTIONAL_SEQUENCE_RNN."""
    sequence = s.op.name != "RNN"
    op = Rnn(
        activation=_activation(s),
        time_major=sequence and s.options.bool("time_major"),
        asymmetric=s.options.bool("asymmetric_quantize_inputs"),
    )
    operands = [s.operand(0), _weights(s, 1), _weights(s, 2), s.operand(3)]
    _, last = s.emit(op, [*operands, _state(s, 4, s.operand(1))])
    _keep_state(s, 4, last)


def import_svdf(s: Source) -> None:
    """SVDF: float, hybrid, or integer."""
    x, features, times = s.operand(0), _weights(s, 1), _weights(s, 2)
    if features is None or times is None:
        raise s.fail("weights are missing")
    operands = [x, features, times, s.optional(3), s.state(4)]
    op: Op
    if x.dtype.is_float:
        op = Svdf(
            rank=s.options.int("rank"),
            activation=_activation(s),
            asymmetric=s.options.bool("asymmetric_quantize_inputs"),
        )
    else:
        op = _quantized_svdf(s, operands)
    _, state = s.emit(op, operands)
    s.set_state(4, state)


def _quantized_svdf(s: Source, operands: Sequence[Value | None]) -> QuantizedSvdf:
    if _activation(s) is not Activation.RELU:
        raise s.unsupported("quantized SVDF without RELU, which LiteRT refuses")
    quants = [v.quant if v is not None else None for v in operands]
    x, features, times, _, state = quants
    result = s.output_type().quant
    if x is None or features is None or times is None or state is None or result is None:
        raise s.fail("a quantized SVDF without the scales of its operands")
    if any(v is not None and not v.dtype.is_integer for v in operands):
        raise s.fail("a quantized SVDF with float operands")
    state_scale = x.scale[0] * features.scale[0] / state.scale[0]
    output_scale = state.scale[0] * times.scale[0] / result.scale[0]
    if not 0 < max(state_scale, output_scale) < _GREATEST_RATIO:
        raise s.fail(f"its scales have ratios of {state_scale:g} and {output_scale:g}")
    return QuantizedSvdf(
        rank=s.options.int("rank"),
        x_zero_point=x.zero_point[0],
        state_zero_point=state.zero_point[0],
        zero_point=result.zero_point[0],
        state_scale=state_scale,
        output_scale=output_scale,
    )


IMPORTERS: dict[str, Importer] = {
    "LSTM": import_sequence_lstm,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": import_sequence_lstm,
    "BIDIRECTIONAL_SEQUENCE_LSTM": import_bidirectional_lstm,
    "RNN": import_rnn,
    "UNIDIRECTIONAL_SEQUENCE_RNN": import_rnn,
    "BIDIRECTIONAL_SEQUENCE_RNN": import_bidirectional_rnn,
    "SVDF": import_svdf,
}
