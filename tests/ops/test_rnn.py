"""Recurrent ops: kind x gates x extras x activation x steps, with every dimension different."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.spine import Case, check
from support.tflite_builder import Tensor, TfliteBuilder

BATCH, INPUTS, CELLS, OUTPUTS = 3, 5, 7, 4

Build = Callable[[TfliteBuilder], None]


def normal(seed: int, *shape: int, scale: float = 0.4) -> np.ndarray:
    """Weights: normal numbers, the same for a seed."""
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def constant(b: TfliteBuilder, data: np.ndarray, storage: str = "float32") -> Tensor:
    """Weights in float32, or in int8 (or uint8 with the same bits) with a scale."""
    if storage == "float32":
        return b.const(data)
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

    @property
    def outputs(self) -> int:
        """Features of a result."""
        return OUTPUTS if self.projection else CELLS

    def weights(self, b: TfliteBuilder, inputs: int = INPUTS, seed: int = 0) -> list[Tensor | None]:
        """Operands 1 to 17."""
        gates = [g for g in range(4) if g or not self.cifg]
        found: list[Tensor | None] = [None] * 17
        for gate in gates:
            found[gate] = constant(b, normal(seed + gate, CELLS, inputs), self.storage)
            recurrent = normal(seed + 10 + gate, CELLS, self.outputs)
            found[4 + gate] = constant(b, recurrent, self.storage)
            found[11 + gate] = b.const(normal(seed + 20 + gate, CELLS))
        if self.peephole:
            for place in range(1 if self.cifg else 0, 3):
                peephole = normal(seed + 30 + place, CELLS)
                found[8 + place] = constant(b, peephole, self.storage)
        if self.projection:
            found[15] = constant(b, normal(seed + 40, OUTPUTS, CELLS), self.storage)
        if self.projection_bias:
            found[16] = b.const(normal(seed + 41, OUTPUTS))
        return found

    def norms(self, b: TfliteBuilder) -> list[Tensor | None]:
        """Operands 20 to 23."""
        if not self.norm:
            return []
        return [
            None if self.cifg and not gate else b.const(1 + normal(50 + gate, CELLS))
            for gate in range(4)
        ]


def sequence_lstm(
    shape: LstmShape, steps: int | None = 6, *, batch: int = BATCH, **options: Any
) -> Build:
    """UNIDIRECTIONAL_SEQUENCE_LSTM; LSTM where there are no steps."""

    def build(b: TfliteBuilder) -> None:
        time_major = options.get("time_major", False)
        lead = (batch,) if steps is None else (steps, batch) if time_major else (batch, steps)
        x = b.input("x", "float32", (*lead, INPUTS))
        states = [b.variable("float32", (batch, n)) for n in (shape.outputs, CELLS)]
        operands = [x, *shape.weights(b), *states, *shape.norms(b)]
        result = ("float32", (*lead, shape.outputs))
        name = "LSTM" if steps is None else "UNIDIRECTIONAL_SEQUENCE_LSTM"
        settings = {"fused_activation_function": "TANH", **options}
        b.output(b.op(name, operands, [result], options=settings))

    return build


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
