"""One-op models for tables of cases: operands are told by what makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from support.tflite_builder import Tensor, TfliteBuilder

Operand = Callable[[TfliteBuilder], Tensor]


def given(value: Any, dtype: str | None = None, quant: Any = None) -> Operand:
    """A constant operand."""
    return lambda b: b.const(np.asarray(value, dtype), quant=quant)


def fed(name: str, dtype: str, shape: Sequence[int], quant: Any = None) -> Operand:
    """An operand from outside."""
    return lambda b: b.input(name, dtype, shape, quant=quant)


def one_op(
    op: str, operands: Sequence[Operand], results: Sequence[Any], **options: Any
) -> Callable[[TfliteBuilder], None]:
    """A model of one op."""

    def build(b: TfliteBuilder) -> None:
        made = b.op(op, [operand(b) for operand in operands], results, options=options)
        b.output(*(made if isinstance(made, list) else [made]))

    return build
