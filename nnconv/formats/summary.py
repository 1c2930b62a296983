"""What a model file holds, told from the file alone, whatever its format."""

from __future__ import annotations

from typing import NamedTuple

from nnconv.ir.dtype import DType
from nnconv.ir.quant import Quant


class TensorSummary(NamedTuple):
    """A value of the interface.

    Attributes:
        name: its name.
        dtype: its element type, or what the format calls a type that the IR lacks.
        shape: its extents, with names or None for those that each run may choose; None where not
            even the rank is known.
        quant: how its numbers stand for real ones.
    """

    name: str
    dtype: DType | str
    shape: tuple[int | str | None, ...] | None
    quant: Quant | None


class EntrySummary(NamedTuple):
    """An entry point.

    Attributes:
        key: the signature's name; empty for the main subgraph of a file without signatures.
        inputs, outputs: what goes in and out, under the tensors' names.
        called: the signature's own names of inputs and outputs, by tensor name, where they differ.
        variables: tensors of its subgraph whose content survives from run to run.
    """

    key: str
    inputs: list[TensorSummary]
    outputs: list[TensorSummary]
    called: dict[str, str]
    variables: list[TensorSummary]


class Summary(NamedTuple):
    """What a file holds.

    Attributes:
        format: its format.
        description: what its converter wrote about it.
        entries: the entry points, the one that is converted by default first.
        ops: how many operators of each kind, bodies included, the most frequent first.
        constants: how many buffers have content.
        constant_bytes: of all of those.
        metadata: the size in bytes of each entry.
    """

    format: str
    description: str
    entries: list[EntrySummary]
    ops: dict[str, int]
    constants: int
    constant_bytes: int
    metadata: dict[str, int]
