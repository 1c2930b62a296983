"""One-op models for the tests of elementwise ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from support.spine import Case
from support.tflite_builder import QuantLike, TfliteBuilder

TensorSpec = tuple[str, Sequence[int]] | tuple[str, Sequence[int], QuantLike]
"""dtype, shape and quantization. Extents of -1 are open; the file then says 1."""

QUANTS: dict[str, tuple[float, int]] = {
    "int8": (0.05, 3),
    "uint8": (0.05, 131),
    "int16": (0.001, 0),
}
"""Parameters of an operand, where nothing else is wanted."""

WIDER: dict[str, tuple[float, int]] = {
    "int8": (0.07, -5),
    "uint8": (0.07, 120),
    "int16": (0.0015, 0),
}
"""Other parameters, of a result."""


def one_op(
    name: str,
    op: str,
    operands: Sequence[TensorSpec | np.ndarray | tuple[np.ndarray, QuantLike]],
    result: TensorSpec,
    *,
    op_options: Mapping[str, Any] | None = None,
    **case: Any,
) -> Case:
    """A case of one op.

    Operands are inputs by their type, or constants by their elements (and quantization).
    """

    def build(b: TfliteBuilder) -> None:
        handles = []
        for index, operand in enumerate(operands):
            if isinstance(operand, np.ndarray):
                handles.append(b.const(operand))
            elif isinstance(operand[0], np.ndarray):
                handles.append(b.const(operand[0], quant=operand[1]))
            else:
                dtype, shape, *rest = operand
                handles.append(
                    b.input(
                        f"x{index}",
                        dtype,
                        [max(d, 1) if d < 0 else d for d in shape],
                        quant=rest[0] if rest else None,
                        signature=list(shape) if min(shape, default=0) < 0 else None,
                    )
                )
        dtype, shape, *rest = result
        fixed = [1 if d < 0 else d for d in shape]
        options = dict(op_options or {})
        b.output(b.op(op, handles, [(dtype, fixed, rest[0] if rest else None)], options=options))

    return Case(name, build, **case)
