"""Recurrent operations: states are ordinary inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnconv.errors import plural
from nnconv.formats.nnapi.gates import ACTIVATIONS, GATES, INPUT_WEIGHTS, LSTM_OPERANDS, scale_of
from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ir.op import Activation
from nnconv.ir.quant import Quant
from nnconv.ir.types import static_shape
from nnconv.ops.quantize import Bitcast
from nnconv.ops.quantized_rnn import QuantizedLstm
from nnconv.ops.rnn import Lstm, Rnn, StepTypes, check_sides
from nnconv.ops.shape import Concat, Reshape
from nnconv.ops.slices import Pad, Slice
from nnconv.ops.svdf import Svdf


def activation(s: Source) -> Activation:
    """The activation of a recurrent operation."""
    return ACTIVATIONS[s.int("activation")]


def _clip(s: Source, name: str) -> float:
    clip = s.float(name)
    if clip < 0:
        raise s.fail(f"{name} is {clip:g}, must be 0 or more")
    return clip


def _check_gates(s: Source, operands: Sequence[Value | None]) -> None:
    """See that what belongs together is given together.

    Raises:
        InvalidModelError: when a part of it is missing.
    """
    coupled = operands[1] is None
    peepholes = operands[9:12] if not coupled else operands[10:12]
    norms = operands[20:24] if not coupled else operands[21:24]
    if coupled and any(operands[i] is not None for i in (5, 12, 20)):
        raise s.fail("the input gate has operands beside its weights, which are left out")
    for what, group in (("peephole", peepholes), ("layer norm", norms)):
        if len({value is None for value in group}) > 1:
            raise s.fail(f"some {what} weights are left out, others not")
    if operands[17] is not None and operands[16] is None:
        raise s.fail("a projection bias without projection weights")


# -------------------------------------------------------------------- LSTM


def import_lstm(s: Source) -> None:
    """LSTM, one step, and UNIDIRECTIONAL_SEQUENCE_LSTM."""
    operands = [s.optional(name) for name in LSTM_OPERANDS]
    _check_gates(s, operands)
    sequence = s.name != "LSTM"
    op = Lstm(
        activation=activation(s),
        time_major=sequence and s.bool("time_major"),
        cell_clip=_clip(s, "cell_clip"),
        projection_clip=_clip(s, "projection_clip"),
    )
    output, state, cell = s.add_many(op, operands)
    results = [output, state, cell] if sequence else [_scratch(s), state, cell, output]
    for index, value in enumerate(results[: len(s.op.outputs)]):
        s.bind(index, value)


def _scratch(s: Source) -> Value:
    """LSTM's first output: room to work in, whose content means nothing."""
    dims: tuple[int | str | None, ...] = s.output().dimensions
    if not dims or 0 in dims:
        gates = 4 if s.has("input_to_input_weights") else 3
        batch, cells = s.operand("cell_state_in").shape or (None, None)
        dims = (batch, cells * gates if isinstance(cells, int) else None)
    known = static_shape(dims)
    if known is None:
        raise s.unsupported("the dimensions of the scratch output aren't known")
    return s.const(np.zeros(known, s.scope.stated(s.outputs[0]).dtype.numpy))


def import_bidirectional_lstm(s: Source) -> None:
    """BIDIRECTIONAL_SEQUENCE_LSTM: an LSTM each way, perhaps with an auxiliary input."""
    names = [f"{way}_aux_{name}" for way in ("fw", "bw") for name in INPUT_WEIGHTS]
    forward, backward = _ways(s, names)
    op = Lstm(
        activation=activation(s),
        time_major=s.bool("time_major"),
        cell_clip=_clip(s, "cell_clip"),
        projection_clip=_clip(s, "projection_clip"),
    )
    halves, states = [], []
    for way, x in (("fw", forward), ("bw", backward)):
        named = {"output_state_in": "activation_state", "cell_state_in": "cell_state"}
        labels = [named.get(name, name) for name in LSTM_OPERANDS[1:]]
        operands = [x, *(s.optional(f"{way}_{label}") for label in labels)]
        _check_gates(s, operands)
        for gate, name in enumerate(INPUT_WEIGHTS, 1):
            operands[gate] = _beside(s, operands[gate], s.optional(f"{way}_aux_{name}"))
        output, *last = s.add_many(op.replace(reverse=way == "bw"), operands)
        halves.append(output)
        states += last
    _bind_ways(s, halves, states)


def _biased(s: Source, name: str, scale: float) -> Value | None:
    """An integer bias at the scale that it has by its place."""
    bias = s.optional(name)
    if bias is None:
        return None
    kind = replace(bias.type, quant=Quant(scale=(scale,), zero_point=(0,)))
    if bias.data is not None:
        return Value(bias.name, kind, data=bias.data, origin=bias.origin)
    return s.builder.add_typed(Bitcast(dtype=bias.dtype), [bias], [kind], names=[bias.name])[0]


def _as_multiplied(s: Source, weights: Sequence[Value]) -> list[Value]:
    """The weights of QUANTIZED_16BIT_LSTM by what Android multiplies them with.

    Its kernel lines up the input and the last output, but the recurrent weights and then those of
    the input: columns meet data that their names don't say.
    """
    check_sides(weights)
    depth = weights[0].shape[1] if weights[0].shape is not None else None
    units = weights[4].shape[1] if weights[4].shape is not None else None
    if not isinstance(depth, int) or not isinstance(units, int):
        raise s.unsupported("the extents of the weights aren't known")
    found = []
    for start, end in ((0, depth), (depth, depth + units)):
        for gate in range(4):
            pair = weights[4 + gate], weights[gate]
            arrays = [value.data for value in pair if value.data is not None]
            if len(arrays) == 2:
                data = np.concatenate(arrays, axis=1)[:, start:end]
                found.append(s.const(data, quant=weights[0].quant))
                continue
            joined = s.add(Concat(axis=1), pair, quant=weights[0].quant)
            cut = Slice(starts=(None, start), ends=(None, end), strides=(1, 1))
            found.append(s.add(cut, [joined]))
    return found


def import_16_bit_lstm(s: Source) -> None:
    """QUANTIZED_16BIT_LSTM: 8-bit data, a 16-bit cell state, one scale for all weights."""
    x, cell, last = s.operand("input"), s.operand("cell_state_in"), s.operand("output_in")
    weights = [s.operand(name) for name in LSTM_OPERANDS[1:9]]
    if len({value.quant for value in weights}) != 1 or weights[0].quant is None:
        raise s.fail("its weights differ in scale or zero point")
    scale = weights[0].quant.scale[0] / 128
    weights = _as_multiplied(s, weights)
    biases = [_biased(s, name, scale) for name in LSTM_OPERANDS[12:16]]
    kinds = [replace(value.type, shape=None) for value in (last, cell)]
    op = Lstm(time_major=False, steps=StepTypes(kinds[0], kinds[0], kinds[1]))
    operands = [x, *weights, *[None] * 3, *biases, None, None, last, cell]
    output, _, state = s.add_many(op, operands)
    output.type = replace(output.type, quant=s.result_quant(1))
    s.bind(0, state)
    s.bind(1, output)


def import_quantized_lstm(s: Source) -> None:
    """QUANTIZED_LSTM: int8 data, a 16-bit cell state."""
    operands = [s.optional(name) for name in LSTM_OPERANDS]
    _check_gates(s, operands)
    x, last, cell = s.operand("input"), s.operand("output_state_in"), s.operand("cell_state_in")
    result = s.result_quant(0)
    if x.quant is None or last.quant is None or result is None:
        raise s.fail("data or states without scales")
    power = round(math.log2(scale_of(cell)))
    if abs(2.0**power / scale_of(cell) - 1) > _NEAR or power > -9:
        raise s.fail(
            f"the cell's scale is {scale_of(cell):g}, must be a power of two, at most 2**-9"
        )
    gates = [s.float(f"{gate}_intermediate_scale") for gate in GATES]
    has_projection = operands[16] is not None
    hidden = s.float("hidden_state_scale") if has_projection else result.scale[0]
    point = s.int("hidden_state_zero_point") if has_projection else result.zero_point[0]
    if min(*gates, hidden) <= 0:
        raise s.fail("a scale of an inner value isn't above 0")
    op = QuantizedLstm(
        input_scales=tuple(
            scale_of(operands[1 + i]) * scale_of(x) / gate for i, gate in enumerate(gates)
        ),
        recurrent_scales=tuple(
            scale_of(operands[5 + i]) * scale_of(last) / gate for i, gate in enumerate(gates)
        ),
        peephole_scales=tuple(
            scale_of(operands[9 + i]) * 2.0**power / gates[gate] for i, gate in enumerate((0, 1, 3))
        ),
        norm_scales=tuple(scale_of(operands[20 + i]) for i in range(4)),
        x_zero_point=x.quant.zero_point[0],
        h_zero_point=last.quant.zero_point[0],
        hidden_zero_point=point,
        cell_power=power,
        hidden_scale=2.0**-30 / hidden,
        projection_scale=scale_of(operands[16]) * hidden / result.scale[0],
        cell_clip=_clip_code(_clip(s, "cell_clip") / 2.0**power, 32767),
        projection_clip=_clip_code(_clip(s, "projection_clip") / result.scale[0], 127),
    )
    output, state = s.add_many(op, operands)
    s.bind(0, output)
    s.bind(1, state)
    s.bind(2, output)


def _clip_code(bound: float, most: int) -> int:
    return int(min(max(bound, 0.0), most))


_NEAR = 1e-4
"""How far a float32 scale may be from a power of two that it stands for."""


# -------------------------------------------------------------------- RNN


def import_rnn(s: Source) -> None:
    """RNN, one step."""
    names = ("input", "weights", "recurrent_weights", "bias", "hidden_state_in")
    op = Rnn(activation=activation(s), time_major=False)
    output, state = s.add_many(op, [s.operand(name) for name in names])
    s.bind(0, state)
    s.bind(1, output)


def import_sequence_rnn(s: Source) -> None:
    """UNIDIRECTIONAL_SEQUENCE_RNN."""
    names = ("input", "weights", "recurrent_weights", "bias", "hidden_state")
    time_major = s.int("time_major")
    if time_major not in (0, 1):
        raise s.fail(f"time_major is {time_major}, must be 0 or 1")
    op = Rnn(activation=activation(s), time_major=bool(time_major))
    s.emit(op, [s.operand(name) for name in names])


def import_bidirectional_rnn(s: Source) -> None:
    """BIDIRECTIONAL_SEQUENCE_RNN: an RNN each way, perhaps with an auxiliary input."""
    forward, backward = _ways(s, ["fw_aux_weights", "bw_aux_weights"])
    op = Rnn(activation=activation(s), time_major=s.bool("time_major"))
    halves, states = [], []
    for way, x in (("fw", forward), ("bw", backward)):
        weights = _beside(s, s.operand(f"{way}_weights"), s.optional(f"{way}_aux_weights"))
        rest = [s.operand(f"{way}_{n}") for n in ("recurrent_weights", "bias", "hidden_state")]
        output, state = s.add_many(op.replace(reverse=way == "bw"), [x, weights, *rest])
        halves.append(output)
        states.append(state)
    _bind_ways(s, halves, states)


# -------------------------------------------------------------------- both directions


def _ways(s: Source, weights: Sequence[str]) -> tuple[Value, Value]:
    """The inputs forward and backward.

    An auxiliary input with weights joins the input; without them it is the backward one's input.
    """
    x, auxiliary = s.operand("input"), s.optional("aux_input")
    if auxiliary is None:
        return x, x
    if not any(s.has(name) for name in weights):
        return x, auxiliary
    both = s.add(Concat(axis=s.rank(x) - 1), [x, auxiliary])
    return both, both


def _beside(s: Source, weights: Value | None, more: Value | None) -> Value | None:
    """Weights [H,I] and those of the auxiliary input [H,A] side by side."""
    if weights is None or more is None:
        return weights
    if weights.data is not None and more.data is not None:
        check_sides((weights, more))
        return s.const(np.concatenate([weights.data, more.data], axis=1), weights.name)
    return s.add(Concat(axis=1), [weights, more])


def _bind_ways(s: Source, halves: Sequence[Value], states: Sequence[Value]) -> None:
    """Outputs of both directions, or both joined, then the states if there is room for them."""
    merged = s.bool("merge_outputs")
    if merged is not (len(s.op.outputs) % 2 == 1):
        raise s.fail(f"{plural(len(s.op.outputs), 'output')} with merge_outputs {merged}")
    results = [s.add(Concat(axis=s.rank(halves[0]) - 1), halves)] if merged else list(halves)
    results += states
    for index, value in enumerate(results[: len(s.op.outputs)]):
        s.bind(index, value)


# -------------------------------------------------------------------- SVDF


def import_svdf(s: Source) -> None:
    """SVDF: its state lacks the newest column, which the IR's has, and not the oldest."""
    names = ("input", "weights_feature", "weights_time")
    operands = [s.operand(name) for name in names]
    times, state = operands[2], s.operand("state_in")
    memory = times.shape[1] if times.shape is not None and len(times.shape) == 2 else None
    filters = times.shape[0] if times.shape is not None else None
    if not isinstance(memory, int) or not isinstance(filters, int):
        raise s.unsupported("the extents of the time weights aren't known")
    seen = s.add(Reshape(shape=(-1, filters, memory)), [state])
    cut = Slice(starts=(None,) * 3, ends=(None, None, memory - 1), strides=(1,) * 3)
    seen = s.add(Pad(before=(0, 0, 1), after=(0, 0, 0)), [s.add(cut, [seen])])
    before = s.add(Reshape(shape=(-1, filters * memory)), [seen])
    op = Svdf(rank=s.positive("rank"), activation=s.activation())
    output, after = s.add_many(op, [*operands, s.optional("bias"), before])
    kept = s.add(Reshape(shape=(-1, filters, memory)), [after])
    cut = Slice(starts=(None, None, 1), ends=(None,) * 3, strides=(1,) * 3)
    kept = s.add(Pad(before=(0, 0, 0), after=(0, 0, 1)), [s.add(cut, [kept])])
    s.bind(0, s.add(Reshape(shape=(-1, filters * memory)), [kept]))
    s.bind(1, output)


IMPORTERS: dict[str, Importer] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": import_bidirectional_lstm,
    "BIDIRECTIONAL_SEQUENCE_RNN": import_bidirectional_rnn,
    "LSTM": import_lstm,
    "QUANTIZED_16BIT_LSTM": import_16_bit_lstm,
    "QUANTIZED_LSTM": import_quantized_lstm,
    "RNN": import_rnn,
    "SVDF": import_svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": import_lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": import_sequence_rnn,
}
