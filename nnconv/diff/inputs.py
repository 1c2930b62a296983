"""Random inputs of the right kind: what a model's inputs mean decides what is drawn for them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from nnconv.diff.meanings import WIDE_INTEGERS_BELOW, Meaning, meanings
from nnconv.errors import NnconvError, UsageError
from nnconv.formats import read_model
from nnconv.ir.dtype import DType
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape
from nnconv.lowering import choose_signature

MOST_ELEMENTS = 1 << 31
"""Elements of the largest input that is drawn: beyond it memory ends, on most machines."""


class Described(Protocol):
    """An input as far as drawing for it goes: a value of a graph, or a device's description."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def dtype(self) -> DType:
        """Element type."""

    @property
    def shape(self) -> Shape:
        """Extents."""

    @property
    def quant(self) -> Quant | None:
        """Quantization parameters, if any."""


def random_inputs(
    values: Sequence[Described],
    *,
    seed: int,
    known: Mapping[str, Meaning] | None = None,
    extent: int = 1,
) -> dict[str, np.ndarray]:
    """Draw an array for each input, by name.

    Floats are standard normal, codes take the full range of their type, and other wide integers are
    small and not negative.

    Args:
        values: the inputs.
        seed: the same seed and inputs give the same arrays.
        known: what inputs mean, by name, as ``meanings`` finds it.
        extent: what open extents become.

    Raises:
        UsageError: for an input of strings, or one that is too large, or a negative seed.
    """
    check_seed(seed)
    rng = np.random.default_rng(seed)
    found = known or {}
    return {
        value.name: random_array(value, rng, meaning=found.get(value.name), extent=extent)
        for value in values
    }


def check_seed(seed: object) -> None:
    """See that a seed is a whole number that is not negative.

    Raises:
        UsageError: it isn't.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UsageError(f"seed is {seed!r}, must be 0 or a positive number")


def random_array(
    value: Described,
    rng: np.random.Generator,
    *,
    meaning: Meaning | None = None,
    below: int = WIDE_INTEGERS_BELOW,
    extent: int = 1,
) -> np.ndarray:
    """Draw one input; see ``random_inputs``."""
    shape = tuple(d if isinstance(d, int) else extent for d in value.shape or ())
    if math.prod(shape) > MOST_ELEMENTS:
        raise UsageError(f"input {value.name!r} of shape {list(shape)} is too large to be drawn")
    dtype = value.dtype
    if dtype is DType.STRING:
        raise UsageError(
            f"nothing can be drawn for the strings of input `{value.name}`",
            hint=f"`nnconv run` and `nnconv diff` take them: --input {value.name}=FILE.npy.",
        )
    if meaning is not None:
        return meaning.draw(shape, rng).astype(dtype.numpy)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    if not dtype.is_integer:
        drawn = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        return drawn.astype(dtype.numpy)
    if dtype.bits <= 16:
        low, high = dtype.int_range
        return rng.integers(low, high, shape, endpoint=True).astype(dtype.numpy)
    return rng.integers(0, below, shape).astype(dtype.numpy)


def meanings_of(
    path: str | os.PathLike[str],
    *,
    signature: str | None = None,
    input_shapes: Mapping[str, Shape] | None = None,
) -> dict[str, Meaning]:
    """The ``meanings`` of a file's entry point; none where nnconv can't read it."""
    try:
        model = read_model(path, input_shapes=input_shapes)
        return meanings(choose_signature(model, signature).graph)
    except NnconvError:
        return {}
