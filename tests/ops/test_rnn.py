"""Recurrent ops: kind x gates x extras x activation x steps, with every dimension different."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.rnn_models import LstmShape, sequence_lstm
from support.spine import Case, check

SHAPES = {
    "plain": LstmShape(),
    "cifg": LstmShape(cifg=True),
    "peephole": LstmShape(peephole=True),
    "projection": LstmShape(projection=True),
    "projection-bias": LstmShape(projection=True, projection_bias=True),
    "norm": LstmShape(norm=True),
    "cifg-peephole": LstmShape(cifg=True, peephole=True),
    "cifg-peephole-norm": LstmShape(cifg=True, peephole=True, norm=True),
    "all": LstmShape(peephole=True, projection=True, projection_bias=True, norm=True),
}
HYBRID = {
    f"{storage}-{name}": LstmShape(**extras, storage=storage)
    for storage in ("int8", "uint8")
    for name, extras in (
        ("plain", {}),
        ("cifg", {"cifg": True}),
        ("all", {"peephole": True, "projection": True, "norm": True}),
    )
}
FLOAT_TOLERANCE = 2e-5
"""Sums in another order, and other approximations of tanh, through some steps of feedback."""

LSTM = [
    *(
        Case(f"{name}-{steps}", sequence_lstm(shape, steps), tolerance=FLOAT_TOLERANCE)
        for name, shape in SHAPES.items()
        for steps in (None, 1, 3, 7)
    ),
    *(
        Case(
            f"{name}-time-major",
            sequence_lstm(shape, 6, time_major=True),
            tolerance=FLOAT_TOLERANCE,
        )
        for name, shape in SHAPES.items()
    ),
    *(
        Case(
            f"{name}-{activation}-{steps}",
            sequence_lstm(shape, steps, fused_activation_function=activation),
            resolver=None if activation == "NONE" else "opt",
            tolerance=FLOAT_TOLERANCE,
            note="with NONE LiteRT reads a scratch buffer that it never wrote, instead of the cell",
        )
        for name, shape in (("plain", LstmShape()), ("norm", LstmShape(norm=True)))
        for activation in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
        for steps in (None, 2, 6)
    ),
    *(
        Case(
            f"{name}-clip-{steps}",
            sequence_lstm(shape, steps, cell_clip=0.3, proj_clip=0.2),
            tolerance=FLOAT_TOLERANCE,
        )
        for name, shape in SHAPES.items()
        for steps in (None, 2, 6)
    ),
    *(
        Case(
            f"plain-batch-{batch}-{steps}",
            sequence_lstm(LstmShape(), steps, batch=batch),
            tolerance=FLOAT_TOLERANCE,
        )
        for batch in (1, 2)
        for steps in (1, 7)
    ),
    *(
        Case(
            f"{name}-opset-{opset}",
            sequence_lstm(SHAPES[name], steps),
            options={"opset": opset},
            tolerance=FLOAT_TOLERANCE,
        )
        for name in ("plain", "all")
        for steps in (2, 6)
        for opset in (13, 17, 18, 24)
    ),
    *(
        Case(
            f"{name}-{steps}",
            sequence_lstm(shape, steps, cell_clip=clip),
            tolerance=0.05,
            onnx_tolerance=0.05,
            note="LiteRT quantizes the activations for each product, anew at each step",
        )
        for name, shape in HYBRID.items()
        for steps, clip in ((None, 0.0), (6, 0.0), (6, 10.0))
    ),
]


@pytest.mark.parametrize("case", LSTM, ids=str)
def test_lstm(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
