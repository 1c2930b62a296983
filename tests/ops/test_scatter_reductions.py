"""What meets in one place is combined, in each type, and wraps as in its own."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from support.onnx_routes import OnnxCase, check_routes, feeding, node

TYPES = ["float32", "float64", "int8", "uint8", "int32", "uint32", "int64", "uint64"]
PLACES = np.int64([[0, 0, 1, 1, 1, 3], [3, 2, 2, 1, 1, 1]])
ROWS = np.int64([[0], [0], [1], [1], [1], [3]])


def numbers(shape: tuple[int, int], dtype: str) -> np.ndarray:
    """Whole numbers of which products leave an integer type, but no float one."""
    kind = np.dtype(dtype)
    rng = np.random.default_rng(len(shape) + shape[1])
    if kind.kind == "f":
        return rng.integers(-9, 9, shape).astype(kind)
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)


def elements(reduction: str, dtype: str) -> OnnxCase:
    made = node("ScatterElements", ["x", "i", "z"], ["y"], reduction=reduction, axis=1)
    arrays = numbers((2, 4), dtype), numbers((2, 6), dtype)
    return feeding(f"elements {reduction} {dtype}", made, *arrays, constants={"i": PLACES})


def rows(reduction: str, dtype: str) -> OnnxCase:
    made = node("ScatterND", ["x", "i", "z"], ["y"], reduction=reduction)
    arrays = numbers((4, 2), dtype), numbers((6, 2), dtype)
    return feeding(f"rows {reduction} {dtype}", made, *arrays, constants={"i": ROWS})


CASES = [
    make(reduction, dtype)
    for make, reduction, dtype in product((elements, rows), ("add", "mul", "min", "max"), TYPES)
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_scatter_that_combines(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)
