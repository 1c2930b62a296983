"""Putting at indices: scattering, sparse to dense, one-hot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.operands import fed, given, one_op
from support.spine import Case, check

SCATTERED = ("float32", "int8", "uint8", "int32", "int64", "bool")
POINTS = [[1, 0], [1, 0], [3, 1]]


def _scatter(
    dtype: str,
    *,
    indices: Any = POINTS,
    shape: Sequence[int] = (4, 2),
    quant: Any = None,
    fed_shape: bool = False,
    **settings: Any,
) -> Case:
    places = np.asarray(indices, np.int32)
    updates = (*places.shape[:-1], *shape[places.shape[-1] :])
    sizes = np.asarray(shape, np.int32)
    build = one_op(
        "SCATTER_ND",
        [
            fed("i", "int32", places.shape),
            fed("u", dtype, updates, quant),
            fed("s", "int32", sizes.shape) if fed_shape else given(sizes),
        ],
        [(dtype, shape, quant)],
    )
    feeds = (places, None, *([sizes] if fed_shape else []))
    opset = settings.get("options", {}).get("opset", "")
    label = f"{dtype}{'q' if quant else ''}-{places.shape}{'-fed' if fed_shape else ''}-{opset}"
    return Case(label, build, feeds, **settings)


SCATTERS = [
    *(_scatter(dtype) for dtype in SCATTERED),
    *(_scatter(dtype, options={"opset": 13}) for dtype in SCATTERED),
    _scatter("int8", quant=(0.5, 3)),
    _scatter("float32", fed_shape=True),
    _scatter("float32", fed_shape=True, options={"opset": 15}),
    _scatter("float32", indices=[[2], [0]], shape=(4, 3, 5)),
    _scatter("float32", indices=[[2], [0], [2]], shape=(4, 3, 5), options={"opset": 13}),
    _scatter("int32", indices=[[[2, 0, 1]], [[0, 2, 4]]], shape=(4, 3, 5)),
    _scatter("int32", indices=[[1]], shape=(3,)),
]


@pytest.mark.parametrize("case", SCATTERS, ids=str)
def test_scatter_nd(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def _sparse(
    label: str,
    indices: Any,
    shape: Sequence[int],
    values: Sequence[int],
    *,
    dtype: str = "float32",
    index_type: str = "int32",
    fed_shape: bool = False,
    options: dict[str, Any] | None = None,
) -> Case:
    places, sizes = np.asarray(indices, index_type), np.asarray(shape, index_type)
    build = one_op(
        "SPARSE_TO_DENSE",
        [
            fed("i", index_type, places.shape),
            fed("s", index_type, sizes.shape) if fed_shape else given(sizes),
            fed("v", dtype, values),
            given(7, dtype),
        ],
        [(dtype, shape)],
    )
    feeds = (places, *([sizes] if fed_shape else []), None)
    name = f"{label}-{dtype}-{index_type}{'-fed' if fed_shape else ''}"
    return Case(name, build, feeds, options=options or {})


SPARSES = [
    *(
        _sparse("matrix", [[2, 1], [0, 2]], (3, 4), (2,), dtype=dtype, index_type=index_type)
        for dtype in ("float32", "int8", "uint8", "int32", "int64")
        for index_type in ("int32", "int64")
    ),
    _sparse("scalar", 2, (5,), ()),
    _sparse("vector", [2, 0, 4], (5,), (3,)),
    _sparse("last-wins", [2, 2, 0], (5,), (3,)),
    _sparse("one-value", [2, 0, 4], (5,), ()),
    _sparse("one-value-13", [[2, 1], [0, 2]], (3, 4), (), options={"opset": 13}),
    _sparse("4d", [[0, 0, 1, 0]], (2, 1, 3, 2), (1,)),
    _sparse("shape", [[2, 1], [0, 2]], (3, 4), (2,), fed_shape=True),
    _sparse("shape", [3, 1], (4,), (), fed_shape=True, index_type="int64"),
]


@pytest.mark.parametrize("case", SPARSES, ids=str)
def test_sparse_to_dense(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def _one_hot(
    indices: Any,
    axis: int,
    *,
    dtype: str = "float32",
    on: Any = 1,
    off: Any = 0,
    index_type: str = "int32",
    quant: Any = None,
    fed_: bool = False,
    label: str = "",
) -> Case:
    places = np.asarray(indices, index_type)
    scalars = [np.asarray(4, np.int32), np.asarray(on, dtype), np.asarray(off, dtype)]
    operands = (
        [fed(n, str(a.dtype), (), quant) for n, a in zip("dnf", scalars, strict=True)]
        if fed_
        else [given(a, quant=quant if k else None) for k, a in enumerate(scalars)]
    )
    build = one_op(
        "ONE_HOT",
        [fed("i", index_type, places.shape), *operands],
        [(dtype, (1,), quant)],
        axis=axis,
    )
    name = f"{dtype}{'q' if quant else ''}-{index_type}-{places.shape}-axis{axis}-{on}-{off}"
    return Case(f"{name}{label}", build, (places, *scalars) if fed_ else (places,))


SPOTS = [[0, 3], [-1, 5], [2, 1]]

ONE_HOTS = [
    *(_one_hot(SPOTS, axis) for axis in (-1, 0, 1, 2)),
    *(
        _one_hot(SPOTS, -1, dtype=dtype, on=on, off=off)
        for dtype in ("float32", "int8", "uint8", "int32", "int64", "bool")
        for on, off in ((1, 0), (0, 1))
    ),
    *(
        _one_hot([2, 0], -1, dtype=dtype, on=5, off=3)
        for dtype in ("float32", "int8", "uint8", "int32", "int64")
    ),
    _one_hot([2, 0], -1, dtype="int8", on=20, off=-4, quant=(0.5, 3)),
    _one_hot([2, 0], 0, dtype="uint8", on=20, off=4, quant=(0.5, 3)),
    _one_hot(SPOTS, 1, index_type="int64"),
    _one_hot(2, -1),
    _one_hot(2, 0, on=2.5, off=-1),
    _one_hot(SPOTS, 1, on=2, off=-1, fed_=True, label="-fed"),
    _one_hot(SPOTS, -1, dtype="int64", on=2, off=-1, fed_=True, label="-fed"),
    _one_hot(SPOTS, -1, dtype="bool", on=True, off=False, fed_=True, label="-fed"),
]


@pytest.mark.parametrize("case", ONE_HOTS, ids=str)
def test_one_hot(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
