"""Recurrent ops besides the LSTM in one direction: both directions, RNN, the basic kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.rnn_models import (
    LstmShape,
    basic_lstm,
    bidirectional_lstm,
    bidirectional_rnn,
    rnn,
)
from support.spine import Case, check

TOLERANCE = 2e-5
HYBRID_TOLERANCE = 0.05
ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1", "TANH")
HYBRID_NOTE = "LiteRT quantizes the activations for each product, anew at each step"

LITERT_WRONG = {("stacked", False), ("weighted", True)}
"""Uses of the auxiliary input in an RNN, by layout, where LiteRT reads the wrong elements."""

BIDIRECTIONAL = [
    *(
        Case(
            f"lstm-{name}-{auxiliary}-{merge}-{time_major}",
            bidirectional_lstm(
                shape, auxiliary=auxiliary, merge_outputs=merge, time_major=time_major
            ),
            resolver=None if merge and not time_major else "opt",
            tolerance=TOLERANCE,
            note="merging batch-major results, LiteRT overruns: its last batch differs run by run",
        )
        for name, shape in (
            ("plain", LstmShape()),
            ("cifg", LstmShape(cifg=True)),
            ("projection", LstmShape(projection=True, peephole=True)),
        )
        for auxiliary in ("none", "weighted", "stacked")
        for merge in (False, True)
        for time_major in (False, True)
    ),
    *(
        Case(
            f"lstm-clip-{steps}",
            bidirectional_lstm(LstmShape(), steps, cell_clip=0.3),
            tolerance=TOLERANCE,
        )
        for steps in (1, 3, 7)
    ),
    *(
        Case(
            f"lstm-guarded-{major}",
            bidirectional_lstm(LstmShape(), 7, cell_clip=10.0, time_major=major),
            tolerance=TOLERANCE,
        )
        for major in (False, True)
    ),
    *(
        Case(
            f"lstm-{storage}",
            bidirectional_lstm(LstmShape(storage=storage), merge_outputs=True),
            tolerance=HYBRID_TOLERANCE,
            note=HYBRID_NOTE,
        )
        for storage in ("int8", "uint8")
    ),
    *(
        Case(
            f"rnn-{auxiliary}-{merge}-{time_major}",
            bidirectional_rnn(auxiliary=auxiliary, merge_outputs=merge, time_major=time_major),
            resolver=None if (auxiliary, time_major) in LITERT_WRONG else "opt",
            tolerance=TOLERANCE,
            note="LiteRT steps through the auxiliary input with the other input's strides",
        )
        for auxiliary in ("none", "weighted", "stacked")
        for merge in (False, True)
        for time_major in (False, True)
    ),
    *(
        Case(
            f"rnn-{activation}-{steps}",
            bidirectional_rnn(steps, fused_activation_function=activation),
            tolerance=TOLERANCE,
        )
        for activation in ACTIVATIONS
        for steps in (1, 3, 7)
    ),
]

RNN = [
    *(
        Case(
            f"{activation}-{steps}-{time_major}",
            rnn(steps, fused_activation_function=activation, **options),
            tolerance=TOLERANCE,
        )
        for activation in ACTIVATIONS
        for steps, time_major, options in (
            (None, "", {}),
            *((n, m, {"time_major": m}) for n in (1, 3, 7) for m in (False, True)),
        )
    ),
    *(
        Case(f"batch-{batch}-{steps}", rnn(steps, batch=batch), tolerance=TOLERANCE)
        for batch in (1, 2)
        for steps in (None, 1, 7)
    ),
    *(
        Case(
            f"{storage}-{steps}",
            rnn(steps, storage=storage),
            tolerance=HYBRID_TOLERANCE,
            note=HYBRID_NOTE,
        )
        for storage in ("int8", "uint8")
        for steps in (None, 5)
    ),
]

EMPTY = [
    Case("rnn-steps", rnn(0)),
    Case("rnn-batch", rnn(5, batch=0)),
    Case("rnn-spelled-out-steps", rnn(0, fused_activation_function="RELU6")),
    Case("bidirectional-lstm", bidirectional_lstm(LstmShape(), 0)),
]

BASIC = [
    Case("float", basic_lstm(), tolerance=TOLERANCE),
    Case("computed-weights", basic_lstm(computed=True), tolerance=TOLERANCE),
    Case("uint8", basic_lstm(quantized=True)),
]


@pytest.mark.parametrize("case", BIDIRECTIONAL, ids=str)
def test_bidirectional(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", RNN, ids=str)
def test_rnn(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", BASIC, ids=str)
def test_basic_lstm(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", EMPTY, ids=str)
def test_without_steps_or_batch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
