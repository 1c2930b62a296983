"""Tensor types: dtype, shape and quantization; and arithmetic on shapes with unknowns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from nnconv.errors import plural
from nnconv.ir.dtype import DType
from nnconv.ir.quant import Quant

Dim: TypeAlias = int | str | None
"""An extent: known, a symbol (equal symbols are equal extents), or unknown."""

Shape: TypeAlias = tuple[Dim, ...] | None
"""The extents; None when even the rank is unknown. A scalar is ``()``."""

MOST_DIMENSIONS = 64
"""Far more than any runtime takes: what is beyond is a broken file's."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """What is known of a tensor before it has data."""

    dtype: DType
    shape: Shape = None
    quant: Quant | None = None

    @property
    def rank(self) -> int | None:
        """How many dimensions; None when unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every extent is a number."""
        return self.shape is not None and all(isinstance(d, int) for d in self.shape)

    @property
    def has_codes(self) -> bool:
        """Whether the elements are integers that stand for real values."""
        return self.quant is not None and self.dtype.is_integer

    def with_shape(self, shape: Shape) -> TensorType:
        """The same type with another shape."""
        return self if shape == self.shape else TensorType(self.dtype, shape, self.quant)

    def permuted(self, perm: Sequence[int]) -> TensorType:
        """The type after a transpose in which new dimension i is old dimension perm[i]."""
        shape = None if self.shape is None else tuple([self.shape[p] for p in perm])
        quant = self.quant.permuted(perm, self.shape) if self.quant else None
        return TensorType(self.dtype, shape, quant)

    def __str__(self) -> str:
        shape = (
            "?"
            if self.shape is None
            else "x".join("?" if d is None else str(d) for d in self.shape)
        )
        text = f"{self.dtype}[{shape}]"
        return f"{text}<{self.quant}>" if self.quant else text


def static_shape(shape: Shape) -> tuple[int, ...] | None:
    """The shape as plain numbers, or None when an extent isn't known."""
    if shape is None:
        return None
    for extent in shape:
        if not isinstance(extent, int):
            return None
    return cast("tuple[int, ...]", shape)


def element_count(shape: Shape) -> int | None:
    """How many elements; None when an extent isn't known."""
    dims = static_shape(shape)
    return None if dims is None else math.prod(dims)


def merge_dim(a: Dim, b: Dim) -> Dim:
    """The better known of two statements on the same extent; ``a`` wins a conflict."""
    if isinstance(a, int):
        return a
    if isinstance(b, int) or a is None:
        return b
    return a


def may_be_equal(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """Whether nothing that is known of two shapes says that they differ."""
    return len(a) == len(b) and all(
        x == y or not (isinstance(x, int) and isinstance(y, int)) for x, y in zip(a, b, strict=True)
    )


def merge_shapes(a: Shape, b: Shape) -> Shape:
    """The better known of two statements on the same shape; of two that conflict, ``a``."""
    if a is None or b is None:
        return b if a is None else a
    if not may_be_equal(a, b):
        return a
    return tuple(merge_dim(x, y) for x, y in zip(a, b, strict=True))


def join_shapes(a: Shape, b: Shape) -> Shape:
    """What two shapes have in common: of a tensor that has now one, now the other."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def shape_of_rank(rank: Dim) -> Shape:
    """A shape of unknown extents; None if its rank isn't known either.

    Raises:
        ValueError: when no tensor has so many dimensions, or so few.
    """
    if not isinstance(rank, int):
        return None
    if not 0 <= rank <= MOST_DIMENSIONS:
        raise ValueError(
            f"a tensor of {plural(rank, 'dimension')}, at most {MOST_DIMENSIONS} are possible"
        )
    return (None,) * rank


def broadcast_dims(a: Dim, b: Dim) -> Dim:
    """The extent of ``a`` and ``b`` broadcast together.

    Raises:
        ValueError: when two numbers neither agree nor are 1.
    """
    if a == b:
        return a
    if a == 1:
        return b
    if b == 1:
        return a
    if isinstance(a, int) and isinstance(b, int):
        raise ValueError(f"extents {a} and {b} don't broadcast")
    if isinstance(a, int) or isinstance(b, int):
        return a if isinstance(a, int) else b  # the unknown one must be 1 or equal to it
    return None


def broadcast_shapes(shapes: Iterable[Shape]) -> Shape:
    """The shape of tensors broadcast together, numpy's way.

    Raises:
        ValueError: when they don't broadcast.
    """
    result: tuple[Dim, ...] = ()
    for shape in shapes:
        if shape is None:
            return None
        if len(shape) > len(result):
            result = (1,) * (len(shape) - len(result)) + result
        padded = (1,) * (len(result) - len(shape)) + shape
        result = tuple(broadcast_dims(x, y) for x, y in zip(result, padded, strict=True))
    return result


def normalize_axis(axis: int, rank: int) -> int:
    """``axis`` counted from the front.

    Raises:
        ValueError: when it is out of range.
    """
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for rank {rank}")
    return axis % rank
