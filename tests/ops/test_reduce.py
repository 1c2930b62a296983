"""Reductions, running sums and indices of extremes: op x dtype x quantization x axes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from support.spine import Case, check
from support.tflite_builder import TfliteBuilder

SHAPE = (2, 3, 4, 5)
QUANT = {"int8": (0.05, 3), "uint8": (0.05, 131), "int16": (0.001, 0)}
OTHER = {"int8": (0.11, -4), "uint8": (0.11, 120), "int16": (0.003, 0)}
ARITHMETIC = ("MEAN", "SUM", "REDUCE_PROD")
COMPARING = ("REDUCE_MAX", "REDUCE_MIN")
AXES: dict[str, object] = {
    "last": [3],
    "first": [0],
    "spatial": [1, 2],
    "all": [0, 1, 2, 3],
    "negative": [-1, 1],
    "repeated": [1, -3, 1],
    "none": [],
    "scalar": 2,
}


def _shape(axes: object, keep_dims: bool, shape: Sequence[int]) -> tuple[int, ...]:
    chosen = {int(axis) % len(shape) for axis in np.atleast_1d(np.asarray(axes, int))}
    dims = [1 if i in chosen else d for i, d in enumerate(shape)]
    return tuple(d for i, d in enumerate(dims) if keep_dims or i not in chosen)


def _case(
    op: str,
    dtype: str,
    axes: object,
    label: str,
    *,
    keep_dims: bool = False,
    quant: tuple[float, int] | None = None,
    result_quant: tuple[float, int] | None = None,
    shape: tuple[int, ...] = SHAPE,
    run_time: bool = False,
    **more: object,
) -> Case:
    data = np.asarray(axes, np.int32)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", dtype, shape, quant=quant)
        which = b.input("axes", "int32", data.shape) if run_time else b.const(data)
        result = (dtype, _shape(axes, keep_dims, shape), result_quant or quant)
        b.output(b.op(op, [x, which], [result], options={"keep_dims": keep_dims}))

    keep = "-keep" if keep_dims else ""
    if run_time:
        more["inputs"] = (None, data)
    return Case(f"{op}-{dtype}-{label}{keep}", build, **more)  # type: ignore[arg-type]


def _small(shape: Sequence[int], dtype: str = "int8") -> np.ndarray:
    """Codes near the zero point, so that products stay in range."""
    low, high = (0, 3) if dtype == "uint8" else (-4, 5)
    return np.random.default_rng(5).integers(low, high, shape).astype(dtype)


FLOATS = [
    _case(op, "float32", axes, label, keep_dims=keep)
    for op in (*ARITHMETIC, *COMPARING)
    for label, axes in AXES.items()
    for keep in (False, True)
]

WHOLE = [
    _case(op, dtype, axes, label, keep_dims=keep, inputs=[_small(SHAPE, dtype)])
    for op in (*ARITHMETIC, *COMPARING)
    for dtype in ("int32", "int64")
    for label, axes, keep in (("negative", [-1, 1], False), ("spatial", [1, 2], True))
] + [
    _case(op, dtype, [1, 3], "raw", inputs=[_small(SHAPE, dtype)])
    for op in (*COMPARING, "REDUCE_PROD")
    for dtype in ("int8", "uint8", "int16")
]

QUANTIZED = [
    _case(op, dtype, axes, label, keep_dims=keep, quant=QUANT[dtype], result_quant=other)
    for op in ("MEAN", "SUM")
    for dtype in QUANT
    for label, axes, keep, other in (
        ("equal", [1, 2], True, None),
        ("equal-last", [-1], False, None),
        ("other", [1, 2], False, OTHER[dtype]),
        ("other-all", [0, 1, 2, 3], False, OTHER[dtype]),
    )
] + [
    _case(op, dtype, [1, 2], "equal", keep_dims=keep, quant=QUANT[dtype], steps=0)
    for op in COMPARING
    for dtype in QUANT
    for keep in (False, True)
]

PRODUCTS = [
    _case(
        "REDUCE_PROD",
        "int8",
        [2],
        "quantized",
        quant=(0.1, 3),
        result_quant=other,
        inputs=[_small(SHAPE)],
    )
    for other in ((0.1, 3), (0.02, -9))
]

EDGES = [
    _case("SUM", "float32", [], "scalar-operand", shape=()),
    _case("MEAN", "float32", [0], "rank-1", shape=(7,)),
    _case("MEAN", "float32", [1, 3], "rank-5", shape=(2, 3, 4, 5, 6)),
    _case("SUM", "float32", [1], "empty", shape=(2, 0, 3)),
    _case("REDUCE_PROD", "int32", [1], "empty", shape=(2, 0, 3)),
    _case("REDUCE_MAX", "float32", [0], "empty-result", shape=(2, 0, 3)),
    _case("MEAN", "float32", [0], "empty-result", shape=(2, 0, 3)),
    *(
        _case(op, "float32", [0, -1], "run-time", keep_dims=keep, run_time=True)
        for op in (*ARITHMETIC, *COMPARING)
        for keep in (False, True)
    ),
    _case("MEAN", "int8", [1, 2], "run-time", quant=QUANT["int8"], run_time=True),
    _case("REDUCE_MAX", "uint8", [1, 2], "run-time", quant=QUANT["uint8"], run_time=True),
    _case("SUM", "int32", 1, "run-time-scalar", run_time=True),
    *(
        _case(op, "float32", [1, -1], "opset-13", options={"opset": 13})
        for op in (*ARITHMETIC, *COMPARING)
    ),
    _case("MEAN", "int8", [1, 2], "opset-13", quant=QUANT["int8"], options={"opset": 13}),
    _case(
        "MEAN",
        "int32",
        [1],
        "wide-sum",
        shape=(2, 4),
        inputs=[np.array([[2**31 - 1] * 4, [-(2**31)] * 4], np.int32)],
        note="the sum takes more than 32 bits",
    ),
    _case(
        "MEAN",
        "int64",
        [1],
        "toward-zero",
        shape=(3, 2),
        inputs=[np.array([[-1, -2], [1, 2], [-1, 0]], np.int64)],
    ),
    _case("MEAN", "int8", [1, 2], "kept-signs", quant=QUANT["int8"], options={"int8": "keep"}),
]

LOGICAL = [
    _case(op, "bool", axes, label, keep_dims=keep)
    for op in ("REDUCE_ANY", "REDUCE_ALL")
    for label, axes, keep in (("last", [3], False), ("spatial", [1, 2], True), ("none", [], False))
] + [
    _case(op, "bool", [1], "logical", resolver="ref")
    for op in ("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
]


def _extreme(op: str, dtype: str, axis: int, **more: object) -> Case:
    quant = QUANT.get(dtype) if dtype in ("int8", "uint8") else None
    index = str(more.pop("index", "int32"))
    shape = more.pop("shape", SHAPE)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", dtype, shape, quant=quant)
        options = {"output_type": index}
        result = (index, _shape([axis], False, shape))
        b.output(b.op(op, [x, b.const(np.int32(axis))], [result], options=options))

    return Case(f"{op}-{dtype}-{axis}-{index}-{len(shape)}", build, **more)  # type: ignore[arg-type]


INDICES = [
    *(
        _extreme(op, dtype, axis, index=index)
        for op in ("ARG_MAX", "ARG_MIN")
        for dtype in ("float32", "int8", "uint8", "int32", "bool")
        for axis, index in ((-1, "int32"), (1, "int64"), (0, "int32"))
    ),
    _extreme("ARG_MAX", "float32", 0, shape=(6,)),
    _extreme("ARG_MIN", "float32", 2, shape=(2, 3, 4, 5, 6)),
]


def _cumsum(dtype: str, axis: int, exclusive: bool, reverse: bool, **more: object) -> Case:
    run_time = bool(more.pop("run_time", False))

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", dtype, SHAPE)
        along = b.input("axis", "int32", ()) if run_time else b.const(np.int32(axis))
        options = {"exclusive": exclusive, "reverse": reverse}
        b.output(b.op("CUMSUM", [x, along], [(dtype, SHAPE)], options=options))

    if run_time:
        more["inputs"] = (None, np.full((), axis, np.int32))
    label = f"CUMSUM-{dtype}-{axis}-{exclusive}-{reverse}-{run_time}"
    return Case(label, build, **more)  # type: ignore[arg-type]


SUMS = [
    _cumsum(dtype, axis, exclusive, reverse)
    for dtype in ("float32", "int32", "int64")
    for axis in (0, -2, 3)
    for exclusive in (False, True)
    for reverse in (False, True)
] + [_cumsum("float32", 1, False, True, run_time=True)]

CASES = [*FLOATS, *WHOLE, *QUANTIZED, *PRODUCTS, *EDGES, *LOGICAL, *INDICES, *SUMS]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reduce(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
