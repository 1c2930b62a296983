"""LSTMs on integers in Android's fixed point."""

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph
from nnconv.backends.reference.quantized_rnn import _inverse_root

import nnconv
from nnconv.errors import GraphError
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph
from nnconv.ops.fixed_point import logistic, tanh
from nnconv.ops.quantized_rnn import QuantizedLstm
from support.onnx_spine import IrCase, check_ir

CODES = np.arange(-32768, 32768, dtype=np.int64)


@pytest.mark.parametrize("bits", [0, 3, 4])
def test_functions_are_near_those_of_real_numbers(bits):
    x = CODES / 2.0 ** (15 - bits)
    assert np.abs(tanh(CODES, bits) / 32768 - np.tanh(x)).max() < 4e-4
    assert np.abs(logistic(CODES, bits) / 32768 - 1 / (1 + np.exp(-x))).max() < 2e-4
    assert np.array_equal(tanh(-CODES[1:], bits), -tanh(CODES[1:], bits))


@pytest.mark.parametrize("value", [2, 3, 10, 12345, 1 << 20, (1 << 29) + 5, (1 << 31) - 1])
def test_inverse_roots(value):
    multiplier, shift = _inverse_root(value)
    assert multiplier / 2.0**31 * 2.0**shift == pytest.approx(value**-0.5, rel=3e-6)


SCALE, HIDDEN, OUT = 2.0**-7, 2.0**-7, 2.0**-6
"""Of data, weights and h; of the value before a projection; of what a projection gives."""


def arrays(*, coupled=False, norm=True, projection=True, seed=0):
    """Operands of a step of 2 batches, 5 inputs, 4 cells, and 3 or 4 outputs."""
    random = np.random.default_rng(seed)
    size = 3 if projection else 4
    result = [random.integers(-90, 90, (2, 5), np.int8)]
    result += [random.integers(-90, 90, (4, 5), np.int8) for _ in range(4)]
    result += [random.integers(-90, 90, (4, size), np.int8) for _ in range(4)]
    result += [random.integers(-9000, 9000, 4, np.int16) for _ in range(3)]
    result += [random.integers(-(1 << 22), 1 << 22, 4, np.int32) for _ in range(4)]
    result += [random.integers(-90, 90, (3, 4), np.int8), random.integers(-99, 99, 3, np.int32)]
    result += [random.integers(-90, 90, (2, size), np.int8)]
    result += [random.integers(-9000, 9000, (2, 4), np.int16)]
    result += [random.integers(9000, 30000, 4, np.int16) for _ in range(4)]
    for index in (1, 5, 9, 12, 20) if coupled else ():
        result[index] = None
    if not norm:
        result[12:16] = result[20:24] = [None] * 4
    if not projection:
        result[16] = result[17] = None
    return result


def op(**changes):
    """The op with the scales above; gates have 2**-12, as they need without normalization."""
    options = {
        "input_scales": (SCALE * SCALE * 2.0**12,) * 4,
        "recurrent_scales": (SCALE * SCALE * 2.0**12,) * 4,
        "peephole_scales": (2.0**-15 * 2.0**-13 * 2.0**12,) * 3,
        "norm_scales": (2.0**-14,) * 4,
        "x_zero_point": 3,
        "h_zero_point": 0,
        "hidden_zero_point": -2,
        "cell_power": -13,
        "hidden_scale": 2.0**-30 / HIDDEN,
        "projection_scale": SCALE * HIDDEN / OUT,
    }
    return QuantizedLstm(**(options | changes))


def run(step, operands):
    """What the op gives."""
    graph = Graph()
    builder = Builder(graph)
    values = [
        None if a is None else builder.input(f"x{i}", DType.of(a), a.shape)
        for i, a in enumerate(operands)
    ]
    graph.outputs = list(builder.add_many(step, values))
    return run_graph(graph, [a for a in operands if a is not None])


def real(step, operands):
    """The same step on real numbers: h and c."""
    x, h, c = ((operands[i].astype(float)) for i in (0, 18, 19))
    x, h, c = (x - step.x_zero_point) * SCALE, h * SCALE, c * 2.0**-13

    def gate(index, peephole, cell):
        z = x @ operands[1 + index].T * SCALE + h @ operands[5 + index].T * SCALE
        if peephole is not None and operands[peephole] is not None:
            z = z + operands[peephole] * 2.0**-15 * cell
        if operands[20 + index] is not None:
            z = z - z.mean(axis=1, keepdims=True)
            z = z / z.std(axis=1, keepdims=True) * operands[20 + index] * 2.0**-14
            z = z + operands[12 + index] * 2.0**-24
        return z

    forget = 1 / (1 + np.exp(-gate(1, 10, c)))
    take = 1 - forget if operands[1] is None else 1 / (1 + np.exp(-gate(0, 9, c)))
    c = forget * c + take * np.tanh(gate(2, None, c))
    h = np.tanh(c) / (1 + np.exp(-gate(3, 11, c)))
    if operands[16] is not None:
        h = h @ operands[16].T * SCALE + operands[17] * SCALE * HIDDEN
    return h, c


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("projection", [False, True])
def test_a_step_is_near_that_of_real_numbers(coupled, norm, projection):
    step = op() if projection else op(hidden_scale=2.0**-30 / SCALE, hidden_zero_point=0)
    for seed in range(5):
        operands = arrays(coupled=coupled, norm=norm, projection=projection, seed=seed)
        h, c = run(step, operands)
        wanted_h, wanted_c = real(step, operands)
        assert np.abs(c * 2.0**-13 - wanted_c).max() < 3e-3
        scale = OUT if projection else SCALE
        assert np.abs(h * scale - np.clip(wanted_h, -128 * scale, 127 * scale)).max() < 1.6 * scale


def test_clips_are_of_codes():
    operands = arrays()
    h, c = run(op(cell_clip=500, projection_clip=2), operands)
    assert np.abs(c).max() == 500
    assert np.abs(h).max() == 2


def test_sizes_must_fit():
    operands = arrays()
    operands[19] = operands[19][:, :3]
    with pytest.raises(GraphError, match="c is \\[2, 3\\], must be \\[2, 4\\]"):
        run(op(), operands)


def step_case(name, step, operands, **options):
    """Weights are constants, data and states inputs; codes at their greatest are among them."""

    def build(b):
        values = [
            None
            if a is None
            else b.input(f"x{i}", DType.of(a), a.shape)
            if i in DATA
            else b.const(a)
            for i, a in enumerate(operands)
        ]
        return b.add_many(step, values)

    feeds = [operands[i] for i in DATA]
    return IrCase(name, build, feeds, evaluated=False, tolerance=0.0, **options)


DATA = (0, 18, 19)
PLAIN = {"hidden_scale": 2.0**-30 / SCALE, "hidden_zero_point": 0}


def wide(operands):
    """Operands with the greatest and least codes in them."""
    for index in (0, 4, 8, 18, 19):
        limits = np.iinfo(operands[index].dtype)
        operands[index].reshape(-1)[:2] = limits.min, limits.max
    return operands


IR_CASES = [
    *(
        step_case(
            f"{coupled=} {norm=} {projection=}",
            op() if projection else op(**PLAIN),
            wide(arrays(coupled=coupled, norm=norm, projection=projection)),
        )
        for coupled in (False, True)
        for norm in (False, True)
        for projection in (False, True)
    ),
    step_case("clips", op(cell_clip=500, projection_clip=2), arrays()),
    step_case("small_cell", op(cell_power=-15), arrays()),
    step_case("alike", op(), [None if a is None else np.full_like(a, 3) for a in arrays()]),
    step_case("zero", op(), [None if a is None else np.zeros_like(a) for a in arrays()]),
]


@pytest.mark.parametrize("case", IR_CASES, ids=str)
def test_onnx(case, tmp_path):
    check_ir(case, tmp_path)


MOST_OFF = 8
"""Codes of the cell by which a tie that falls the other way may change it: tanh is that steep."""


@pytest.mark.parametrize("case", IR_CASES, ids=str)
def test_tflite_rounds_alike_but_for_ties(case, tmp_path):
    model = case.model()
    wanted = run_graph(model.graph, case.feeds)
    path = tmp_path / "x.tflite"
    nnconv.save(model, path)
    ran = nnconv.compile(path, "litert:cpu")
    names = [info.name for info in ran.inputs]
    results = ran.run(dict(zip(names, case.feeds, strict=True)))
    ran.close()
    off = [
        np.abs(want.astype(np.int64) - results[info.name].astype(np.int64))
        for want, info in zip(wanted, ran.outputs, strict=True)
    ]
    assert off[0].max() <= 1
    assert off[1].max() <= MOST_OFF
    assert np.mean(off[1] > 0) <= 0.5
