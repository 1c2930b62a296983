"""What a writer did that a user should know, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Written:
    """What a writer did that a user should know.

    Attributes:
        inputs, outputs: names of the interface as written, states included.
        renamed: (kind, old name, new name) of inputs and outputs whose name had to change.
        counts: how many operators of each type.
        opset: the ONNX opset written; None for other formats.
        notes: what else there is to say.
    """

    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    renamed: list[tuple[str, str, str]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    opset: int | None = None
    notes: list[str] = field(default_factory=list)
