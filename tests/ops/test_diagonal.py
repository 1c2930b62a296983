"""Diagonals: LiteRT is right for types of its own size only, numpy is the oracle for the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.spine import Case, check
from support.tflite_builder import TfliteBuilder

RIGHT = ("float32", "int8", "int16", "int32", "int64", "uint32")
"""Types that LiteRT handles."""

WRONG = ("float16", "float64", "uint16", "bool")
"""Types whose output LiteRT leaves partly unwritten, or cuts."""

SPECIAL = np.array([[np.nan, 1, np.inf], [-np.inf, 0, 2]], np.float32)


def _array(dtype: str, shape: Sequence[int], first: int = 1) -> np.ndarray:
    return (np.arange(first, first + np.prod(shape)) % 100).reshape(shape).astype(dtype)


def _diag(
    dtype: str,
    shape: Sequence[int] = (2, 3),
    *,
    quant: Any = None,
    feed: np.ndarray | None = None,
    signature: Sequence[int] | None = None,
) -> Case:
    x = _array(dtype, shape) if feed is None else feed
    expected = np.zeros((*x.shape, x.shape[-1]), x.dtype)
    expected[..., np.arange(x.shape[-1]), np.arange(x.shape[-1])] = x

    def build(b: TfliteBuilder) -> None:
        made = b.input("x", dtype, x.shape, quant=quant, signature=signature)
        b.output(b.op("MATRIX_DIAG", [made], [(dtype, expected.shape, quant)]))

    extra = "-special" if feed is not None else "-dynamic" if signature else ""
    label = f"{dtype}{'q' if quant else ''}-{len(x.shape)}d{extra}"
    wanted = [expected] if dtype in (*WRONG, "uint8") else None
    return Case(label, build, (x,), expected=wanted)


def _set_diag(
    dtype: str,
    shape: Sequence[int] = (2, 3, 4),
    *,
    quant: Any = None,
    signature: Sequence[int] | None = None,
) -> Case:
    count = min(shape[-2:])
    x, diagonal = _array(dtype, shape), _array(dtype, (*shape[:-2], count), 50)
    if x.dtype.kind == "f":
        x[..., 0, 0], diagonal[..., 0] = np.nan, np.inf
    expected = x.copy()
    expected[..., np.arange(count), np.arange(count)] = diagonal

    def build(b: TfliteBuilder) -> None:
        operands = [
            b.input("x", dtype, shape, quant=quant, signature=signature),
            b.input("d", dtype, diagonal.shape, quant=quant),
        ]
        b.output(b.op("MATRIX_SET_DIAG", operands, [(dtype, shape, quant)]))

    kind = f"{dtype}{'q' if quant else ''}-{'x'.join(map(str, shape))}"
    return Case(
        f"{kind}{'-dynamic' if signature else ''}",
        build,
        (x, diagonal),
        expected=[expected] if dtype in WRONG else None,
    )


DIAGS = [
    *(_diag(dtype) for dtype in (*RIGHT, *WRONG, "uint8")),
    *(_diag(dtype, quant=(0.5, 3)) for dtype in ("int8", "uint8")),
    _diag("float32", (4,)),
    _diag("float32", (2, 3, 4)),
    _diag("float32", feed=SPECIAL),
    _diag("float32", signature=(2, -1)),
    _diag("int16", signature=(-1, -1)),
]

SET_DIAGS = [
    *(_set_diag(dtype) for dtype in (*RIGHT, *WRONG, "uint8")),
    *(_set_diag(dtype, quant=(0.5, 3)) for dtype in ("int8", "uint8")),
    _set_diag("float32", (2, 5, 3)),
    _set_diag("int32", (4, 4)),
    _set_diag("float32", (2, 3, 2, 4)),
    *(_set_diag("float32", shape, signature=(2, -1, -1)) for shape in ((2, 5, 3), (2, 3, 5))),
]


@pytest.mark.parametrize("case", [*DIAGS, *SET_DIAGS], ids=str)
def test_diagonal(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
