"""What reading and writing recurrent operations share: names of operands, activations, scales."""

from __future__ import annotations

from nnconv.ir.graph import Value
from nnconv.ir.op import Activation

ACTIVATIONS = {
    0: Activation.NONE,
    1: Activation.RELU,
    3: Activation.RELU6,
    4: Activation.TANH,
    6: Activation.SIGMOID,
}
"""By number; other operations have other numbers for theirs."""

GATES = ("input", "forget", "cell", "output")
"""The gates in the order of an Lstm."""

INPUT_WEIGHTS = tuple(f"input_to_{gate}_weights" for gate in GATES)
LSTM_OPERANDS = (
    "input",
    *INPUT_WEIGHTS,
    *(f"recurrent_to_{gate}_weights" for gate in GATES),
    *(f"cell_to_{gate}_weights" for gate in ("input", "forget", "output")),
    *(f"{gate}_gate_bias" for gate in GATES),
    "projection_weights",
    "projection_bias",
    "output_state_in",
    "cell_state_in",
    *(f"{gate}_layer_norm_weights" for gate in GATES),
)
"""What an Lstm of the IR takes, in order, under the names of LSTM."""


def scale_of(value: Value | None) -> float:
    """The one scale of a value's codes; 1 for what has none."""
    return 1.0 if value is None or value.quant is None else value.quant.scale[0]
