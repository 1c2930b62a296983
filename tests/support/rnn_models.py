"""Models of one recurrent op each, for the tests of that family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from support.tflite_builder import Tensor, TfliteBuilder

BATCH, INPUTS, CELLS, OUTPUTS, AUXILIARY, UNITS = 3, 5, 7, 4, 2, 6

_numbers = count()

Build = Callable[[TfliteBuilder], None]


def normal(seed: int, *shape: int, scale: float = 0.4) -> np.ndarray:
    """Weights: normal numbers, the same for a seed."""
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def constant(b: TfliteBuilder, data: np.ndarray, storage: str = "float32") -> Tensor:
    """Weights in float32, float16 behind DEQUANTIZE, as an input, or in int8 with a scale.

    uint8 has the same bits as int8, as old files have it.
    """
    if storage == "float32":
        return b.const(data)
    if storage == "float16":
        return b.op("DEQUANTIZE", [b.const(data, dtype="float16")], [("float32", data.shape)])
    if storage == "input":
        return b.input(f"w{next(_numbers)}", "float32", data.shape)
    scale = float(np.abs(data).max() / 127)
    codes = np.rint(data / scale).astype(np.int8)
    return b.const(codes.view(storage), quant=(scale, 0))


@dataclass(frozen=True)
class LstmShape:
    """Which operands an LSTM has."""

    cifg: bool = False
    peephole: bool = False
    projection: bool = False
    projection_bias: bool = False
    norm: bool = False
    storage: str = "float32"
    projected: int = OUTPUTS

    @property
    def outputs(self) -> int:
        """Features of a result."""
        return self.projected if self.projection else CELLS

    def arrays(self, inputs: int = INPUTS, seed: int = 0) -> list[np.ndarray | None]:
        """Real values of operands 1 to 23; None where there are none, and for the states."""
        gates = [g for g in range(4) if g or not self.cifg]
        found: list[np.ndarray | None] = [None] * 23
        for gate in gates:
            found[gate] = normal(seed + gate, CELLS, inputs)
            found[4 + gate] = normal(seed + 10 + gate, CELLS, self.outputs)
            found[11 + gate] = normal(seed + 20 + gate, CELLS)
            if self.norm:
                found[19 + gate] = 1 + normal(50 + gate, CELLS)
        if self.peephole:
            for place in range(1 if self.cifg else 0, 3):
                found[8 + place] = normal(seed + 30 + place, CELLS)
        if self.projection:
            found[15] = normal(seed + 40, self.projected, CELLS)
        if self.projection_bias:
            found[16] = normal(seed + 41, self.projected)
        return found

    def weights(self, b: TfliteBuilder, inputs: int = INPUTS, seed: int = 0) -> list[Tensor | None]:
        """Operands 1 to 17."""
        return [
            None
            if array is None
            else constant(b, array, self.storage if place < 11 or place == 15 else "float32")
            for place, array in enumerate(self.arrays(inputs, seed)[:17])
        ]

    def norms(self, b: TfliteBuilder) -> list[Tensor | None]:
        """Operands 20 to 23."""
        if not self.norm:
            return []
        return [None if array is None else b.const(array) for array in self.arrays()[19:]]


def sequence_lstm(
    shape: LstmShape,
    steps: int | None = 6,
    *,
    batch: int = BATCH,
    signature: tuple[int, ...] | None = None,
    flat_states: bool = False,
    codes: str = "",
    **options: Any,
) -> Build:
    """UNIDIRECTIONAL_SEQUENCE_LSTM, perhaps of dequantized codes; LSTM if there are no steps."""

    def build(b: TfliteBuilder) -> None:
        time_major = options.get("time_major", False)
        lead = (batch,) if steps is None else (steps, batch) if time_major else (batch, steps)
        if codes:
            x = b.input("x", codes, (*lead, INPUTS), quant=(1 / 64, 3))
            x = b.op("DEQUANTIZE", [x], [("float32", (*lead, INPUTS))])
        else:
            x = b.input("x", "float32", (*lead, INPUTS), signature=signature)
        sizes = shape.outputs, CELLS
        states = [b.variable("float32", (batch * n,) if flat_states else (batch, n)) for n in sizes]
        weights = shape.weights(b)
        if options.get("diagonal_recurrent_tensors"):
            weights[4:8] = [b.const(normal(70 + gate, CELLS)) for gate in range(4)]
        operands = [x, *weights, *states, *shape.norms(b)]
        result = ("float32", (*lead, shape.outputs))
        name = "LSTM" if steps is None else "UNIDIRECTIONAL_SEQUENCE_LSTM"
        settings = {"fused_activation_function": "TANH", **options}
        b.output(b.op(name, operands, [result], options=settings))

    return build


def basic_lstm(*, quantized: bool = False, computed: bool = False) -> Build:
    """LSTM with the basic kernel: stacked weights (perhaps an input), states that go in and out."""

    def build(b: TfliteBuilder) -> None:
        if quantized:
            kind, state, data, cell = "uint8", "int16", (1 / 128, 128), (1 / 2048, 0)
        else:
            kind, state, data, cell = "float32", "float32", None, None
        x = b.input("x", kind, (BATCH, INPUTS), quant=data)
        h = b.variable(kind, (BATCH, CELLS), quant=data)
        c = b.variable(state, (BATCH, CELLS), quant=cell)
        stacked = normal(0, 4 * CELLS, INPUTS + CELLS)
        bias = normal(1, 4 * CELLS)
        if quantized:
            scale, point = 3 / 255, 128
            codes = np.clip(np.rint(stacked / scale) + point, 0, 255).astype(np.uint8)
            weights = b.const(codes, quant=(scale, point))
            offset = b.const(np.rint(bias * 128 / scale).astype(np.int32), quant=(scale / 128, 0))
        elif computed:
            weights = b.input("weights", "float32", stacked.shape)
            offset = b.input("bias", "float32", bias.shape)
        else:
            weights, offset = b.const(stacked), b.const(bias)
        width = INPUTS + CELLS
        results = [
            (kind, (BATCH, CELLS), data, "h_next"),
            (state, (BATCH, CELLS), cell, "c_next"),
            (kind, (BATCH, width), data),
            (state, (BATCH, 4 * CELLS), cell),
        ]
        options = {"kernel_type": "BASIC", "fused_activation_function": "TANH"}
        made = b.op("LSTM", [x, h, weights, offset, c], results, options=options, version=2)
        b.output(made[0])
        b.output(made[1])

    return build


def _auxiliary(b: TfliteBuilder, mode: str, lead: tuple[int, ...]) -> Tensor | None:
    if mode == "none":
        return None
    width = INPUTS if mode == "stacked" else AUXILIARY
    return b.input("aux", "float32", (*lead, width))


def _halves(sizes: tuple[int, int], lead: tuple[int, ...], *, merge: bool) -> list[Any]:
    if merge:
        return [("float32", (*lead, sum(sizes)))]
    return [("float32", (*lead, size)) for size in sizes]


def bidirectional_lstm(
    shape: LstmShape, steps: int = 6, *, auxiliary: str = "none", **options: Any
) -> Build:
    """BIDIRECTIONAL_SEQUENCE_LSTM; ``auxiliary``: none, weighted, or stacked (backward's input)."""

    def build(b: TfliteBuilder) -> None:
        lead = (steps, BATCH) if options.get("time_major", True) else (BATCH, steps)
        x = b.input("x", "float32", (*lead, INPUTS))
        aux = _auxiliary(b, auxiliary, lead)
        sizes = [shape.outputs, CELLS] * 2
        states = [b.variable("float32", (BATCH, size)) for size in sizes]
        extra: list[Tensor | None] = [None] * 8
        if auxiliary == "weighted":
            extra = [
                None if shape.cifg and not i % 4 else b.const(normal(60 + i, CELLS, AUXILIARY))
                for i in range(8)
            ]
        operands = [x, *shape.weights(b), *shape.weights(b, seed=100), *states, aux, *extra]
        merge = options.get("merge_outputs", False)
        results = _halves((shape.outputs, shape.outputs), lead, merge=merge)
        settings = {"fused_activation_function": "TANH", "time_major": True, **options}
        made = b.op("BIDIRECTIONAL_SEQUENCE_LSTM", operands, results, options=settings)
        for result in [made] if merge else made:
            b.output(result)

    return build


def rnn(
    steps: int | None, *, storage: str = "float32", batch: int = BATCH, **options: Any
) -> Build:
    """UNIDIRECTIONAL_SEQUENCE_RNN; RNN where there are no steps."""

    def build(b: TfliteBuilder) -> None:
        time_major = options.get("time_major", False)
        lead = (batch,) if steps is None else (steps, batch) if time_major else (batch, steps)
        x = b.input("x", "float32", (*lead, INPUTS))
        operands = [x, *_rnn_weights(b, 0, storage), b.variable("float32", (batch, CELLS))]
        name = "RNN" if steps is None else "UNIDIRECTIONAL_SEQUENCE_RNN"
        settings = {"fused_activation_function": "TANH", **options}
        b.output(b.op(name, operands, [("float32", (*lead, CELLS))], options=settings))

    return build


def _rnn_weights(b: TfliteBuilder, seed: int, storage: str = "float32") -> list[Tensor]:
    return [
        constant(b, normal(seed, CELLS, INPUTS), storage),
        constant(b, normal(seed + 1, CELLS, CELLS), storage),
        b.const(normal(seed + 2, CELLS)),
    ]


def bidirectional_rnn(steps: int = 6, *, auxiliary: str = "none", **options: Any) -> Build:
    """BIDIRECTIONAL_SEQUENCE_RNN; ``auxiliary`` as for `bidirectional_lstm`."""

    def build(b: TfliteBuilder) -> None:
        lead = (steps, BATCH) if options.get("time_major", True) else (BATCH, steps)
        x = b.input("x", "float32", (*lead, INPUTS))
        aux = _auxiliary(b, auxiliary, lead)
        states = [b.variable("float32", (BATCH, CELLS)) for _ in range(2)]
        extra: list[Tensor | None] = [None, None]
        if auxiliary == "weighted":
            extra = [b.const(normal(60 + i, CELLS, AUXILIARY)) for i in range(2)]
        ways = [[*_rnn_weights(b, 10 * i), states[i]] for i in range(2)]
        merge = options.get("merge_outputs", False)
        results = _halves((CELLS, CELLS), lead, merge=merge)
        settings = {"fused_activation_function": "TANH", "time_major": True, **options}
        operands = [x, *ways[0], *ways[1], aux, *extra]
        made = b.op("BIDIRECTIONAL_SEQUENCE_RNN", operands, results, options=settings)
        for result in [made] if merge else made:
            b.output(result)

    return build


def svdf(
    *,
    rank: int = 1,
    memory: int = 5,
    storage: str = "float32",
    bias: bool = True,
    batch: int = BATCH,
    activation: str = "NONE",
    **options: Any,
) -> Build:
    """SVDF with float activations."""

    def build(b: TfliteBuilder) -> None:
        filters = UNITS * rank
        x = b.input("x", "float32", (batch, INPUTS))
        state = b.variable("float32", (batch, filters * memory))
        operands = [
            x,
            constant(b, normal(0, filters, INPUTS), storage),
            constant(b, normal(1, filters, memory), storage),
            b.const(normal(2, UNITS)) if bias else None,
            state,
        ]
        settings = {"rank": rank, "fused_activation_function": activation, **options}
        b.output(b.op("SVDF", operands, [("float32", (batch, UNITS))], options=settings))

    return build


def integer_svdf(
    *, rank: int = 1, memory: int = 5, inputs: int = INPUTS, batch: int = BATCH, gain: float = 1.0
) -> Build:
    """SVDF in integers: int8 data and weights, int16 time weights and state."""

    def build(b: TfliteBuilder) -> None:
        rng = np.random.default_rng(3)
        filters = UNITS * rank
        x_scale, w_scale, t_scale, s_scale, y_scale = 0.02, 0.01, 0.003, 0.0011 / gain, 0.9
        x = b.input("x", "int8", (batch, inputs), quant=(x_scale, -7))
        w = rng.integers(-127, 128, (filters, inputs)).astype(np.int8)
        times = rng.integers(-32767, 32768, (filters, memory)).astype(np.int16) // 8
        bias = rng.integers(-4000, 4000, UNITS).astype(np.int32)
        operands = [
            x,
            b.const(w, quant=(w_scale, 0)),
            b.const(times, quant=(t_scale, 0)),
            b.const(bias, quant=(s_scale * t_scale, 0)),
            b.variable("int16", (batch, filters * memory), quant=(s_scale, 0)),
        ]
        result = ("int8", (batch, UNITS), (y_scale, -128))
        options = {"rank": rank, "fused_activation_function": "RELU"}
        b.output(b.op("SVDF", operands, [result], options=options, version=3))

    return build


def _codes(data: np.ndarray, dtype: str) -> tuple[np.ndarray, float]:
    """Symmetric codes of real numbers in an integer type, and their scale."""
    limit = np.iinfo(dtype).max
    scale = float(np.float32(np.abs(data).max() / limit))
    return np.rint(data / scale).astype(dtype), scale


def integer_lstm(
    shape: LstmShape,
    steps: int | None = 5,
    *,
    cell_power: int = -11,
    output_point: int = 3,
    **options: Any,
) -> Build:
    """UNIDIRECTIONAL_SEQUENCE_LSTM (or LSTM) in integers: int8 data and weights, int16 cells."""

    def build(b: TfliteBuilder) -> None:
        lead = (BATCH,) if steps is None else (BATCH, steps)
        data, output, hidden = (0.02, -5), (0.009, output_point), (0.0085, -4)
        x = b.input("x", "int8", (*lead, INPUTS), quant=data)
        real = dict(enumerate([None, *shape.arrays()]))
        operands: list[Tensor | None] = [x, *[None] * 23]
        scales: dict[int, float] = {}
        for index, array in real.items():
            if array is None or index in (*range(12, 16), 17):
                continue
            narrow = index < 9 or index == 16
            codes, scales[index] = _codes(array, "int8" if narrow else "int16")
            operands[index] = b.const(codes, quant=(scales[index], 0))
        for gate in range(4):
            bias = real[12 + gate]
            if bias is not None:
                norm = scales.get(20 + gate)
                scale = data[0] * scales[1 + gate] if norm is None else norm * 2.0**-10
                operands[12 + gate] = b.const(
                    np.rint(bias / scale).astype(np.int32), quant=(scale, 0)
                )
        if real[17] is not None:
            scale = scales[16] * hidden[0]
            operands[17] = b.const(np.rint(real[17] / scale).astype(np.int32), quant=(scale, 0))
        operands[18] = b.variable("int8", (BATCH, shape.outputs), quant=output)
        operands[19] = b.variable("int16", (BATCH, CELLS), quant=(2.0**cell_power, 0))
        inner = [("int16", (0,), (2.0**-11, 0))] * 4
        between = [*inner, ("int8", (0,), hidden if shape.projection else output)]
        result = ("int8", (*lead, shape.outputs), output)
        settings = {"fused_activation_function": "TANH", **options}
        name = "LSTM" if steps is None else "UNIDIRECTIONAL_SEQUENCE_LSTM"
        used = 24 if shape.norm else 20
        made = b.op(
            name, operands[:used], [result], options=settings, version=3, intermediates=between
        )
        b.output(made)

    return build
