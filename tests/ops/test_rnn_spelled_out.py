"""TFLite's recurrent ops where the states are the caller's: steps, and loops, as TFLite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnconv
from nnconv.ir import Builder, DType, Graph, Model, Quant, Signature, TensorType, Value
from nnconv.ir.op import Activation
from nnconv.ops.rnn import Lstm, Rnn, StepTypes
from nnconv.ops.svdf import Svdf
from support.spine import onnx_session
from support.tflite_spine import TfliteCase, check_tflite

BATCH, DEPTH, CELLS, SIZE = 2, 4, 5, 3
FLOAT = DType.FLOAT32


def weights(b: Builder, *shape: int, seed: int) -> Value:
    """Random constants."""
    data = 0.5 * np.random.default_rng(seed).standard_normal(shape)
    return b.const(data.astype(np.float32))


def sequence(steps: int | None, depth: int, *, time_major: bool) -> tuple[int, ...]:
    """The shape of an input; without steps it has no time."""
    if steps is None:
        return (BATCH, depth)
    return (steps, BATCH, depth) if time_major else (BATCH, steps, depth)


def lstm(
    steps: int | None,
    *,
    coupled: bool = False,
    peepholes: bool = False,
    projected: bool = False,
    normalized: bool = False,
    rounds: bool = False,
    states: bool = True,
    **fields: Any,
) -> Callable[[Builder], list[Value]]:
    """An Lstm that is given its states and gives them back."""

    def build(b: Builder) -> list[Value]:
        size = SIZE if projected else CELLS
        time_major = fields.get("time_major", True)
        x = b.input("x", FLOAT, sequence(steps, DEPTH, time_major=time_major))
        operands: list[Value | None] = [None] * 24
        operands[0] = x
        for gate in range(4):
            if coupled and not gate:
                continue
            operands[1 + gate] = weights(b, CELLS, DEPTH, seed=gate)
            operands[5 + gate] = weights(b, CELLS, size, seed=10 + gate)
            operands[12 + gate] = weights(b, CELLS, seed=20 + gate)
            if normalized:
                operands[20 + gate] = weights(b, CELLS, seed=30 + gate)
        if peepholes:
            for place in (9, 10, 11)[coupled:]:
                operands[place] = weights(b, CELLS, seed=40 + place)
        if projected:
            operands[16], operands[17] = weights(b, SIZE, CELLS, seed=50), weights(b, SIZE, seed=51)
        if states:
            operands[18] = b.input("h", FLOAT, (BATCH, size))
            operands[19] = b.input("c", FLOAT, (BATCH, CELLS))
        kinds = [
            TensorType(dtype, None, Quant.per_tensor(scale))
            for dtype, scale in ((DType.INT8, 2**-7), (DType.INT8, 2**-6), (DType.INT16, 2**-11))
        ]
        op = Lstm(steps=StepTypes(*kinds) if rounds else None, **fields)
        return list(b.add_many(op, operands))

    return build


def rnn(steps: int | None, **fields: Any) -> Callable[[Builder], list[Value]]:
    """An Rnn that is given its state and gives it back."""

    def build(b: Builder) -> list[Value]:
        time_major = fields.get("time_major", True)
        x = b.input("x", FLOAT, sequence(steps, DEPTH, time_major=time_major))
        operands = [
            x,
            weights(b, CELLS, DEPTH, seed=0),
            weights(b, CELLS, CELLS, seed=1),
            weights(b, CELLS, seed=2),
            b.input("h", FLOAT, (BATCH, CELLS)),
        ]
        return list(b.add_many(Rnn(**fields), operands))

    return build


def svdf(memory: int, rank: int, **fields: Any) -> Callable[[Builder], list[Value]]:
    """An Svdf that is given its state and gives it back."""

    def build(b: Builder) -> list[Value]:
        filters = 3 * rank
        operands = [
            b.input("x", FLOAT, (BATCH, DEPTH)),
            weights(b, filters, DEPTH, seed=0),
            weights(b, filters, memory, seed=1),
            weights(b, 3, seed=2),
            b.input("state", FLOAT, (BATCH, filters * memory)),
        ]
        return list(b.add_many(Svdf(rank=rank, **fields), operands))

    return build


STEPS = (None, 1, 3, 20, 70)

CASES = [
    *(TfliteCase(f"lstm, {n} steps", lstm(n)) for n in STEPS),
    *(TfliteCase(f"backward, {n} steps", lstm(n, reverse=True)) for n in (3, 70)),
    *(TfliteCase(f"batch first, {n} steps", lstm(n, time_major=False)) for n in (3, 70)),
    *(TfliteCase(f"from zeros, {n} steps", lstm(n, states=False)) for n in (3, 70)),
    *(
        TfliteCase(f"{name}, {n} steps", lstm(n, **fields))
        for n in (3, 70)
        for name, fields in {
            "coupled": {"coupled": True},
            "peepholes": {"peepholes": True},
            "coupled peepholes": {"coupled": True, "peepholes": True},
            "projected": {"projected": True},
            "normalized": {"normalized": True},
            "clipped": {"cell_clip": 0.3},
            "clipped projection": {"projected": True, "projection_clip": 0.2},
            "relu": {"activation": Activation.RELU6},
            "sigmoid": {"activation": Activation.SIGMOID},
        }.items()
    ),
    TfliteCase(
        "everything, backward",
        lstm(
            20,
            coupled=True,
            peepholes=True,
            projected=True,
            normalized=True,
            cell_clip=0.5,
            reverse=True,
            time_major=False,
        ),
    ),
    TfliteCase(
        "rounds at each step",
        lstm(3, rounds=True, projected=True),
        tolerance=0.02,
        note="a step is 2**-6",
    ),
    *(TfliteCase(f"rnn, {n} steps", rnn(n)) for n in STEPS),
    TfliteCase("rnn, backward", rnn(20, reverse=True, time_major=False)),
    TfliteCase("rnn, relu", rnn(20, activation=Activation.RELU_N1_TO_1)),
    *(TfliteCase(f"svdf, {m}, {r}", svdf(m, r)) for m in (1, 4) for r in (1, 2)),
    TfliteCase("svdf, relu", svdf(3, 2, activation=Activation.RELU)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_steps(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize(("known", "runs"), [(3, (0, 2)), (0, (0,))], ids=["steps", "batch"])
@pytest.mark.parametrize("make", [lstm, rnn])
def test_states_stay_where_there_are_no_steps(
    make: Callable[..., Callable[[Builder], list[Value]]],
    known: int,
    runs: Sequence[int],
    time_major: bool,
    tmp_path: Path,
) -> None:
    """onnxruntime's own nodes would give zeros for them."""
    b = Builder(Graph("open"))
    b.graph.outputs = make(known, time_major=time_major)(b)
    x, *states = b.graph.inputs
    name, extent = ("steps", known) if known else ("batch", BATCH)
    for value in (*b.graph.inputs, *b.graph.outputs):
        dims = tuple(name if dim == extent else dim for dim in value.shape or ())
        value.type = value.type.with_shape(dims)
    nnconv.save(Model([Signature("", b.graph)]), tmp_path / "open.onnx")
    session = onnx_session(tmp_path / "open.onnx")
    given = {v.name: np.full((BATCH, CELLS), 0.25, np.float32) for v in states}
    for steps in runs:
        data = np.ones(sequence(steps, DEPTH, time_major=time_major), np.float32)
        results, *last = session.run(None, {x.name: data, **given})
        assert results.shape == sequence(steps, CELLS, time_major=time_major)
        stayed = [np.array_equal(a, b) for a, b in zip(last, given.values(), strict=True)]
        assert stayed == [steps == 0] * len(states)
