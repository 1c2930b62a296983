"""Graphs under construction whose values go by their places in a list: tensors, or operands."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable

import numpy as np

from nnconv.decompositions.base import Refused
from nnconv.formats.graph_export import GraphExport
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType, static_shape

SMALL = 64
"""Equal constants of up to so many elements are made once."""


class Ref(int):
    """A place in the list, where a number would be a scalar."""


class IndexedExport(GraphExport):
    """A graph that keeps its tensors in a list."""

    def __init__(self) -> None:
        super().__init__()
        self._index: dict[Value, int] = {}
        self._consts: dict[tuple[object, ...], int] = {}

    @abstractmethod
    def _add(self, kind: TensorType, name: str, data: np.ndarray | None = None) -> int:
        """Add to the list; gives the place.

        Raises:
            Refused: the format can't hold it.
        """

    def inner_name(self) -> str:
        """What to call a tensor that has no name."""
        return ""

    # ---------------------------------------------------------------- values

    def place(self, value: Value) -> Ref:
        """The place of a value; a constant gets one where it has none.

        Raises:
            Refused: the format can't hold a constant.
        """
        found = self._index.get(value)
        if found is None:
            assert value.data is not None, f"{value!r} was never produced"
            found = self._index[value] = self._add(value.type, value.name, value.data)
        return Ref(found)

    def declare(self, value: Value) -> Ref:
        """Give a place to a value that an input or operation gives."""
        assert value not in self._index, f"{value!r} has a place already"
        found = self._index[value] = self._add(value.type, value.name)
        return Ref(found)

    def alias(self, value: Value, place: int) -> None:
        """Let ``place`` be the value's."""
        assert value not in self._index, f"{value!r} has a place already"
        self._index[value] = place

    def temp(self, kind: TensorType) -> Ref:
        """A place for a result in between."""
        return Ref(self._add(kind, self.inner_name()))

    # ---------------------------------------------------------------- constants

    def const(
        self,
        data: np.ndarray,
        *,
        quant: Quant | None = None,
        dtype: DType | None = None,
        name: str = "",
    ) -> Ref:
        """A constant; equal small ones are made once."""
        data = np.asarray(data)
        kind = TensorType(dtype or DType.of(data), tuple(data.shape), quant)

        def made() -> int:
            return self._add(kind, name or self.inner_name(), data)

        if data.size > SMALL:
            return Ref(made())
        return self.once((kind.dtype, kind.shape, quant, data.tobytes()), made)

    def once(self, key: tuple[object, ...], make: Callable[[], int]) -> Ref:
        """What ``make`` gives, made the first time that something of this key is asked for."""
        found = self._consts.get(key)
        if found is None:
            found = self._consts[key] = make()
        return Ref(found)

    def ints(self, numbers: Iterable[int], dtype: DType = DType.INT32) -> Ref:
        """A constant vector of integers: axes, shapes, paddings.

        Raises:
            Refused: one is beyond ``dtype``.
        """
        return self.const(self._integers(list(numbers), dtype))

    def single(self, number: int) -> Ref:
        """A constant of one int32."""
        return self.ints([number])

    def _integers(self, numbers: int | list[int], dtype: DType) -> np.ndarray:
        low, high = dtype.int_range
        entries = [numbers] if isinstance(numbers, int) else numbers
        if not all(low <= entry <= high for entry in entries):
            raise Refused(f"{numbers} is beyond {dtype}")
        return np.asarray(numbers, dtype.numpy)

    def saturated(self, data: np.ndarray) -> np.ndarray:
        """Integers as int32."""
        low, high = DType.INT32.int_range
        return np.clip(data.astype(np.int64), low, high).astype(np.int32)

    # ---------------------------------------------------------------- extents

    def static(self, value: Value) -> tuple[int, ...]:
        """The extents of a value.

        Raises:
            Refused: one isn't known.
        """
        shape = static_shape(value.shape)
        if shape is None:
            raise self.refused(f"the extents of `{value.name}` aren't known")
        return shape
