"""Cases of ops that move elements: one tensor, index operands, and what numpy makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from support.spine import Case
from support.tflite_builder import TfliteBuilder

QUANT = {"int8": (0.05, 3), "uint8": (0.05, 131), "int16": (0.001, 0)}
PLAIN = ("float32", "float16", "float64", "int32", "int64", "uint32", "uint16", "bool")
ALL = ("int8", "uint8", "int16", *PLAIN)


def move(
    op: str,
    shape: Sequence[int],
    result: Callable[[np.ndarray], Any] | tuple[int, ...],
    *,
    dtype: str = "float32",
    quant: Any = "default",
    first: Sequence[Any] = (),
    rest: Sequence[Any] = (),
    run_time: bool = False,
    label: str = "",
    options: dict[str, Any] | None = None,
    values: Sequence[np.ndarray] | None = None,
    **case: Any,
) -> Case:
    """A case of one op on one tensor.

    ``first`` and ``rest`` are its index operands before and behind the tensor; with ``run_time``
    they come in as inputs. ``result`` is what numpy makes of the tensor
    (or the shape of that): the result's shape.
    """
    parameters = QUANT.get(dtype) if quant == "default" else quant
    indices = [np.asarray(index) for index in (*first, *rest)]

    def build(b: TfliteBuilder) -> None:
        def index(i: int, value: Any) -> Any:
            array = np.asarray(value)
            if run_time:
                return b.input(f"index{i}", array.dtype.name, array.shape)
            return b.const(array)

        before = [index(i, value) for i, value in enumerate(first)]
        x = b.input("x", dtype, shape, quant=parameters)
        after = [index(len(before) + i, value) for i, value in enumerate(rest)]
        out = np.zeros(result) if isinstance(result, tuple) else result(np.zeros(shape))
        outs = out if isinstance(out, list) else [out]
        kinds = [(dtype, part.shape, parameters) for part in outs]
        made = b.op(op, [*before, x, *after], kinds, options=options or {})
        b.output(*(made if isinstance(made, list) else [made]))

    if run_time:
        count = len(first)
        data = None if values is None else values[0]
        case["inputs"] = [*indices[:count], data, *indices[count:]]
    parts = [op, dtype, label or "x".join(map(str, shape)), "run" if run_time else ""]
    return Case("-".join(part for part in parts if part), build, **case)


def ints(*values: int) -> np.ndarray:
    """An int32 index operand."""
    return np.asarray(values, np.int32)


def wide(*values: int) -> np.ndarray:
    """An int64 index operand."""
    return np.asarray(values, np.int64)
