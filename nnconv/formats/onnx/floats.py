"""Floats that onnxruntime's kernels lack, in those that they have.

float16 needs nothing of this: onnxruntime itself goes through float32 where a kernel lacks it.
"""

from __future__ import annotations

from nnconv.formats.onnx.exporter import Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value

_LACKING = frozenset({DType.BFLOAT16, DType.FLOAT64})

WITH_DOUBLE = frozenset({DType.FLOAT64})
"""For kernels that take float64 besides float32."""


def _is_lacking(t: Target, value: Value, kernels: frozenset[DType]) -> bool:
    kind = t.real_type(value)
    return kind in _LACKING and kind not in kernels


def narrowed(
    t: Target, value: Value | None, kernels: frozenset[DType] = frozenset(), *, name: str = ""
) -> str:
    """The real values of ``value`` (or ``name``, which has them) in a type that a kernel takes.

    ``kernels`` are the types that it takes besides float16 and float32. "" for an absent operand.
    """
    if value is None:
        return ""
    found = name or t.real(value)
    return t.cast(found, DType.FLOAT32) if _is_lacking(t, value, kernels) else found


def widened(t: Target, name: str, y: Value, kernels: frozenset[DType] = frozenset()) -> str:
    """What such a kernel gives, in the type of the real values of ``y``."""
    return t.cast(name, t.real_type(y)) if _is_lacking(t, y, kernels) else name
