"""Arithmetic on values, written shortly."""

from __future__ import annotations

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.op import Op
from nnconv.ops import elementwise as e
from nnconv.ops.gather import Gather
from nnconv.ops.quantize import Cast


class Arithmetic:
    """Short names for ops on float32 values."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def number(self, value: float) -> Value:
        """A constant of float32."""
        return self.b.const(np.asarray(value, np.float32))

    def do(self, op: Op, *operands: Value | float) -> Value:
        """An op on values and numbers."""
        values = [v if isinstance(v, Value) else self.number(v) for v in operands]
        return self.b.add(op, values)

    def cast(self, value: Value, dtype: DType) -> Value:
        """``value`` in another type."""
        return value if value.dtype is dtype else self.b.add(Cast(dtype=dtype), [value])

    def entry(self, vector: Value, index: int) -> Value:
        """One element of a vector, as a scalar."""
        place = self.b.const(np.asarray(index, np.int32))
        return self.b.add(Gather(axis=0), [vector, place])

    def bounded(self, value: Value, low: float, high: Value) -> Value:
        """``value`` from ``low`` to ``high``."""
        return self.do(e.Minimum(), self.do(e.Maximum(), value, low), high)

    def add(self, first: Value | float, *others: Value | float) -> Value:
        """The sum."""
        return self._each(e.Add(), first, others)

    def sub(self, first: Value | float, second: Value | float) -> Value:
        """The difference."""
        return self.do(e.Sub(), first, second)

    def mul(self, first: Value | float, *others: Value | float) -> Value:
        """The product."""
        return self._each(e.Mul(), first, others)

    def _each(self, op: Op, first: Value | float, others: tuple[Value | float, ...]) -> Value:
        total = first
        for other in others:
            total = self.do(op, total, other)
        return total if isinstance(total, Value) else self.number(total)

    def ints(self, data: np.ndarray | int) -> Value:
        """A constant of int32."""
        return self.b.const(np.asarray(data, np.int32))

    def within(self, value: Value, low: float, high: float) -> Value:
        """``value`` from ``low`` to ``high``."""
        return self.bounded(value, low, self.number(high))
