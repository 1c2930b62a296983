"""Picking by index: op x dtype x index type x shape."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnconv
from nnconv.errors import InvalidModelError
from nnconv.ir import Builder, DType, TensorType, Value
from nnconv.ir import Quant as IrQuant
from nnconv.ops.gather import Gather, TopK
from support.onnx_spine import IrCase, check_ir
from support.operands import fed, given, one_op
from support.spine import Case, check, onnx_ops
from support.tflite_builder import Quant, Tensor, TfliteBuilder

QUANT = {"int8": (0.05, 3), "uint8": (0.05, 131), "int16": (0.001, 0)}
MOVED = ("float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool")
LOOKED_UP = (*MOVED, "uint16", "uint32", "float64")


def _gather(
    shape: Sequence[int],
    indices: Any,
    axis: int,
    *,
    dtype: str = "float32",
    quant: Any = None,
    batch: int = 0,
    index_type: str = "int32",
    run_time: bool = False,
    **settings: Any,
) -> Case:
    picks = np.asarray(indices, index_type)
    places = fed("i", index_type, picks.shape) if run_time else given(picks)
    build = one_op(
        "GATHER",
        [fed("x", dtype, shape, quant), places],
        [(dtype, (1,), quant)],
        axis=axis,
        batch_dims=batch,
    )
    kind = f"{dtype}{'q' if quant else ''}-{index_type}{'-fed' if run_time else ''}"
    label = f"{kind}-{'x'.join(map(str, shape))}-{picks.tolist()}-axis{axis}-batch{batch}"
    inputs = (None, picks) if run_time else None
    return Case(settings.pop("id", label), build, inputs, **settings)


GATHERS = [
    *(_gather((2, 3, 5), [1, 0, 2, 2], 1, dtype=dtype) for dtype in MOVED),
    *(_gather((2, 3, 5), [4, 0], 2, dtype=dtype, quant=q) for dtype, q in QUANT.items()),
    *(
        _gather((2, 3, 5), [[1, 0, 2], [2, 2, 1]], axis, run_time=True, index_type=index_type)
        for axis in (-2, 1)
        for index_type in ("int16", "int32", "int64")
    ),
    *(_gather((4, 3), 2, axis, run_time=fed_) for axis in (0, -2) for fed_ in (False, True)),
    _gather((5,), [4, 1], 0),
    *(_gather((2, 7, 3), picks, 1) for picks in ([2, 3, 4], [0, 3, 6], [1], [6, 5], [1, 2, 4])),
    _gather((2, 7, 3), [1, 2, 3], 1, dtype="int8", quant=(0.5, 3)),
    *(
        _gather((7,), picks, 0, resolver=None, id=f"from-the-end{picks}")
        for picks in ([-3, -2, -1], [-7, -4, -1], [-2, -1, 0])
    ),
    _gather((5,), 3, 0, run_time=True),
    _gather((2, 3), np.zeros(0), 1),
    _gather((2, 3, 4), [[1, 0, 0, 2], [2, 2, 1, 0]], 1, batch=1, run_time=True),
    _gather((2, 3, 4), [[1, 0, 0, 3, 2], [2, 3, 1, 1, 0]], 2, batch=1),
    _gather((2, 3, 4, 5), [[1, 0], [4, 2]], 3, batch=1, dtype="int8", quant=(0.1, 4)),
    _gather((2, 3, 4, 5), np.arange(12).reshape(2, 3, 2) % 4, 2, batch=2, index_type="int64"),
    _gather((2, 3, 4, 5), np.arange(12).reshape(2, 3, 2) % 5, 3, batch=-1, run_time=True),
    _gather(
        (4,),
        [-1, 0],
        0,
        run_time=True,
        resolver=None,
        id="negative",
        note="LiteRT refuses negative indices when it runs",
    ),
]


@pytest.mark.parametrize("case", GATHERS, ids=str)
def test_gather(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def _gather_nd(shape: Sequence[int], indices: Any, dtype: str, index_type: str, fed_: bool) -> Case:
    picks = np.asarray(indices, index_type)
    places = fed("i", index_type, picks.shape) if fed_ else given(picks)
    quant = QUANT.get(dtype)
    build = one_op("GATHER_ND", [fed("x", dtype, shape, quant), places], [(dtype, (1,), quant)])
    label = f"{dtype}-{index_type}-{len(shape)}d-{picks.shape}{'-fed' if fed_ else ''}"
    return Case(label, build, (None, picks) if fed_ else None)


GATHER_NDS = [
    *(_gather_nd((2, 3, 5), [[1, 0], [0, 2]], dtype, "int32", False) for dtype in MOVED),
    *(
        _gather_nd((2, 3, 5), [[[1], [0], [0]]], "float32", index_type, True)
        for index_type in ("int16", "int32", "int64")
    ),
    _gather_nd((2, 3, 5), [[1, 2, 4], [0, 0, 1]], "int8", "int64", True),
    _gather_nd((2, 3, 5), [1, 2], "float32", "int32", True),
]


@pytest.mark.parametrize("case", GATHER_NDS, ids=str)
def test_gather_nd(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def _embedding(dtype: str, *, shape: Sequence[int] = (4, 3), quant: Any = None) -> Case:
    rng = np.random.default_rng(1)
    low = 0 if dtype.startswith(("u", "b")) else -7
    table = rng.integers(low, 8, shape)

    def build(b: TfliteBuilder) -> None:
        rows = b.const(table, dtype=dtype, quant=quant)
        result = (dtype, (2, *shape[1:]), quant)
        b.output(b.op("EMBEDDING_LOOKUP", [b.input("i", "int32", (2,)), rows], [result]))

    label = f"{dtype}{'q' if quant else ''}-{len(shape)}d"
    return Case(label, build, (np.array([3, 0], np.int32),))


def _dequantizing(dtype: str, quant: Any, label: str, shape: Sequence[int] = (4, 3)) -> Case:
    table = np.random.default_rng(1).integers(0 if dtype == "uint8" else -7, 8, shape)

    def build(b: TfliteBuilder) -> None:
        rows = b.const(table, dtype=dtype, quant=quant)
        result = ("float32", (2, *shape[1:]))
        b.output(b.op("EMBEDDING_LOOKUP", [b.input("i", "int32", (2,)), rows], [result]))

    return Case(f"{dtype}-to-float-{label}", build, (np.array([3, 0], np.int32),))


PER_ROW = Quant([0.5, 0.25, 0.125, 2.0], 0, axis=0)

EMBEDDINGS = [
    *(_embedding(dtype) for dtype in LOOKED_UP),
    *(_embedding(dtype, quant=q) for dtype, q in QUANT.items()),
    _embedding("float32", shape=(4, 2, 3)),
    *(_dequantizing(dtype, (0.5, 0), "tensor") for dtype in ("int8", "uint8")),
    _dequantizing("int8", PER_ROW, "rows"),
    # LiteRT starts each row of an int4 table at a whole byte: only even rows are right
    _dequantizing("int4", (0.5, 0), "tensor", (4, 6)),
    _dequantizing("int4", PER_ROW, "rows", (4, 6)),
    _dequantizing("int8", PER_ROW, "rows-3d", (4, 2, 3)),
]


@pytest.mark.parametrize("case", EMBEDDINGS, ids=str)
def test_embedding_lookup(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_complex_table(tmp_path: Path) -> None:
    def build(b: TfliteBuilder) -> None:
        table = (np.arange(12) + 1j * np.arange(3, 15)).reshape(4, 3).astype(np.complex64)
        operands = [b.input("i", "int32", (2,)), b.const(table)]
        rows = b.op("EMBEDDING_LOOKUP", operands, [("complex64", (2, 3))])
        b.output(*(b.op(part, [rows], [("float32", (2, 3))]) for part in ("REAL", "IMAG")))

    check(Case("complex", build, (np.array([3, 0], np.int32),)), tmp_path)


def test_int4_table_behind_gather(tmp_path: Path) -> None:
    def build(b: TfliteBuilder) -> None:
        table = b.const(np.arange(16).reshape(4, 4) - 8, dtype="int4", quant=(0.5, 3))
        rows = b.op("GATHER", [table, b.input("i", "int32", (2,))], [("int4", (2, 4), (0.5, 3))])
        b.output(b.op("DEQUANTIZE", [rows], [("float32", (2, 4))]))

    check(Case("int4", build, (np.array([3, 0], np.int32),)), tmp_path)


def _top_k(
    dtype: str,
    k: int,
    *,
    shape: Sequence[int] = (2, 3, 7),
    k_type: str = "int32",
    k_shape: tuple[int, ...] = (),
    index_type: str = "int32",
    quant: Any = None,
    fed_: bool = False,
    feed: np.ndarray | None = None,
    label: str = "",
) -> Case:
    number = np.full(k_shape, k, k_type)
    build = one_op(
        "TOPK_V2",
        [
            fed("x", dtype, shape, quant),
            fed("k", k_type, number.shape) if fed_ else given(number),
        ],
        [(dtype, (1,), quant), (index_type, (1,))],
    )
    name = f"{dtype}{'q' if quant else ''}-{len(shape)}d-{k}{k_type}-{index_type}"
    return Case(
        f"{name}{'-fed' if fed_ else ''}{label}", build, (feed, *([number] if fed_ else []))
    )


TOP_KS = [
    *(_top_k(dtype, 4) for dtype in ("float32", "int8", "uint8", "int16", "int32", "int64")),
    *(_top_k(dtype, 3, quant=q) for dtype, q in QUANT.items()),
    _top_k("float32", 7),
    _top_k("float32", 2, shape=(9,)),
    _top_k("float32", 2, k_shape=(1,)),
    *(_top_k("float32", 2, fed_=fed_, k_type="int16") for fed_ in (False, True)),
    _top_k("float32", 3, fed_=True),
    _top_k("int16", 3, index_type="int16", k_type="int16"),
    _top_k(
        "float32",
        4,
        shape=(2, 6),
        feed=np.array([[1, 2, 3, 3, 3, 2], [0, -0.0, 0, -1, 0, np.inf]], np.float32),
        label="-ties",
    ),
]


@pytest.mark.parametrize("case", TOP_KS, ids=str)
def test_top_k(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def _where(dtype: str, values: Any, quant: Any = None, **settings: Any) -> Case:
    array = np.asarray(values, dtype)
    build = one_op("WHERE", [fed("x", dtype, array.shape, quant)], [("int64", (1, array.ndim))])
    label = settings.pop("id", f"{dtype}{'q' if quant else ''}-{array.ndim}d")
    return Case(label, build, (array,), **settings)


WHERES = [
    *(
        _where(dtype, [[0, 3], [1, 0], [2, 1]])
        for dtype in ("bool", "float32", "int8", "uint8", "int32", "int64", "uint32")
    ),
    _where("int8", [[0, 3], [1, 0], [2, 1]], (0.5, 1)),
    _where("uint8", [0, 1, 1, 7], (0.5, 1)),
    _where("float32", [0, np.nan, -0.0, 1]),
    _where("bool", [[[False, True, True]], [[True, False, False]]]),
    _where(
        "bool",
        [False, False],
        id="none",
        expected=[np.zeros((0, 1), np.int64)],
        note="LiteRT's Python wrapper gives no empty tensors",
    ),
]


@pytest.mark.parametrize("case", WHERES, ids=str)
def test_where(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def _unique(dtype: str, index_type: str, quant: Any = None) -> Case:
    array = np.asarray([3, 1, 3, 100, 1, 2], dtype)
    build = one_op(
        "UNIQUE",
        [fed("x", dtype, array.shape, quant)],
        [(dtype, (1,), quant), (index_type, array.shape)],
        idx_out_type=index_type.upper(),
    )
    return Case(f"{dtype}{'q' if quant else ''}-{index_type}", build, (array,))


UNIQUES = [
    *(
        _unique(dtype, index_type)
        for dtype in ("float32", "int8", "uint8", "int16", "int32", "int64")
        for index_type in ("int32", "int64")
    ),
    *(_unique(dtype, "int32", q) for dtype, q in QUANT.items()),
]


@pytest.mark.parametrize("case", UNIQUES, ids=str)
def test_unique(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


# -------------------------------------------------------------------- layout

PERM = (0, 3, 1, 2)


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("indices", [2, [1, 0, 1]], ids=["scalar", "vector"])
def test_gather_follows_a_transpose(axis: int, indices: int | list[int]) -> None:
    picks = np.asarray(indices) % 2
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    types = [TensorType(DType.FLOAT32, x.shape), TensorType(DType.INT64, picks.shape)]
    permuted = Gather(axis=axis).permute(PERM, types)
    assert permuted is not None
    assert isinstance(permuted.op, Gather)
    assert permuted.operands == (PERM, None)
    wanted = np.take(x, picks, axis)
    moved = np.take(x.transpose(PERM), picks, permuted.op.axis)
    order = permuted.results[0] or tuple(range(wanted.ndim))
    np.testing.assert_array_equal(moved, wanted.transpose(order))


def _conv(b: TfliteBuilder, x: Tensor, weights: np.ndarray, shape: Sequence[int]) -> Tensor:
    made: Tensor = b.op(
        "CONV_2D",
        [x, b.const(weights), b.const(np.zeros(len(weights), np.float32))],
        [("float32", shape)],
        options={"padding": "SAME", "stride_h": 1, "stride_w": 1},
    )
    return made


@pytest.mark.parametrize(("axis", "picks"), [(1, [4, 0, 2]), (2, [3, 3]), (3, [2, 0, 3, 1])])
def test_gather_between_convolutions_takes_no_transpose(
    axis: int, picks: list[int], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    shape = [1, 5, 6, 4]
    shape[axis] = len(picks)

    def build(b: TfliteBuilder) -> None:
        weights = rng.standard_normal((4, 3, 3, 5)).astype(np.float32)
        first = _conv(b, b.input("x", "float32", (1, 5, 6, 5)), weights, (1, 5, 6, 4))
        index = b.const(np.array(picks, np.int32))
        picked = b.op("GATHER", [first, index], [("float32", shape)], options={"axis": axis})
        weights = rng.standard_normal((2, 3, 3, shape[3])).astype(np.float32)
        b.output(_conv(b, picked, weights, (*shape[:3], 2)))

    check(Case("convolutions", build), tmp_path)
    assert onnx_ops(tmp_path / "model.onnx") == {"Transpose": 2, "Conv": 2, "Gather": 1}


@pytest.mark.parametrize(
    ("picks", "node"), [([2, 3, 4], "Slice"), ([0, 3, 6], "Slice"), ([2, 1], "Gather")]
)
def test_even_steps_become_a_slice(picks: list[int], node: str, tmp_path: Path) -> None:
    check(_gather((2, 7, 3), picks, 1), tmp_path)
    assert onnx_ops(tmp_path / "model.onnx") == {node: 1}


def test_gather_of_many_indices_stays() -> None:
    types = [TensorType(DType.FLOAT32, (2, 3, 4, 5)), TensorType(DType.INT64, (2, 2))]
    assert Gather(axis=1).permute(PERM, types) is None


def test_top_k_follows_a_transpose() -> None:
    permuted = TopK(axis=3, k=2).permute(PERM, [TensorType(DType.FLOAT32, (2, 3, 4, 5)), None])
    assert permuted is not None
    assert permuted.op == TopK(axis=1, k=2)
    assert permuted.results == (PERM, PERM)


def sorted_by_hand(x: np.ndarray, k: int, *, largest: bool, last_first: bool) -> list[np.ndarray]:
    """The first ``k`` of each row and their places, ordered by number and then by place."""
    rows = x.astype(np.float64).reshape(-1, x.shape[-1]).tolist()
    orders = [
        sorted(
            range(len(row)),
            key=lambda i: (-row[i] if largest else row[i], -i if last_first else i),
        )[:k]
        for row in rows
    ]
    shape = (*x.shape[:-1], k)
    found = [[row[i] for i in order] for row, order in zip(rows, orders, strict=True)]
    return [np.asarray(found, x.dtype).reshape(shape), np.asarray(orders).reshape(shape)]


@pytest.mark.parametrize("last_first", [False, True])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT8, DType.INT32], ids=str)
@pytest.mark.parametrize("rows", [2, "n"])
def test_the_first_or_the_last_of_equals_comes_first(
    last_first: bool, largest: bool, dtype: DType, rows: int | str, tmp_path: Path
) -> None:
    x = np.random.default_rng(4).integers(0, 4, (2, 3, 9)).astype(dtype.numpy)
    quant = IrQuant.per_tensor(0.5, 1) if dtype is DType.INT8 else None
    op = TopK(axis=2, k=5, largest=largest, last_first=last_first)

    def build(b: Builder) -> list[Value]:
        return b.add_many(op, [b.input("x", dtype, (rows, 3, 9), quant=quant)])

    expected = sorted_by_hand(x, 5, largest=largest, last_first=last_first)
    case = IrCase("ties", build, [x], expected, opsets=(13, 21), evaluated=quant is None)
    check_ir(case, tmp_path)


# -------------------------------------------------------------------- refusals


def _types(*shapes: Sequence[int]) -> list[TensorType]:
    return [TensorType(DType.INT64 if i else DType.FLOAT32, tuple(s)) for i, s in enumerate(shapes)]


def test_wrong_axes_and_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="axis 2 is out of range for rank 2"):
        Gather(axis=2).infer(_types((2, 3), (1,)))
    with pytest.raises(ValueError, match="batch_dims 1 doesn't fit axis 0"):
        Gather(axis=0, batch_dims=1).infer(_types((2, 3), (2, 1)))
    with pytest.raises(ValueError, match="k is 4, must be 0"):
        TopK(axis=1, k=4).infer(_types((2, 3)))


@pytest.mark.parametrize("indices", [[[0, 1, 0]], [[4, 0]]], ids=["too many", "out of range"])
def test_wrong_constant_places_are_refused(indices: list[list[int]], tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", "float32", (4, 3))
    b.output(b.op("GATHER_ND", [x, b.const(np.array(indices, np.int32))], [("float32", (1,))]))
    path = tmp_path / "model.tflite"
    path.write_bytes(bytes(b.build()))
    with pytest.raises(InvalidModelError):
        nnconv.load(path)
