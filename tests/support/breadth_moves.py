"""Ops that move and pick elements, with the kinds that LiteRT's CPU kernels take right."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.breadth import Recipe, Slot, ints, number, of, x, y
from support.breadth_values import FLOATS, QUANTIZED, RAW, SHAPE

MOST = f"{FLOATS} {QUANTIZED} {RAW} int32 int64 bool"
ALL = f"{MOST} float64 uint32 uint16 complex64"
BYTES = "int8 int8r uint8 uint8r"
SPLIT = f"{FLOATS} {QUANTIZED} {RAW} int32 int64"

INDEX_TYPES = tuple((dtype, const) for dtype in ("int32", "int64") for const in (True, False))


def moved(
    op: str,
    kinds: str,
    shape: tuple[int, ...],
    result: tuple[int, ...],
    *rest: Slot,
    **more: Any,
) -> Recipe:
    """An op on one tensor whose elements go elsewhere."""
    return Recipe(op, [x(*shape), *rest], [x(*result)], kinds, **more)


def _how(dtype: str, const: bool) -> str:
    return f"{dtype}{'' if const else '-fed'}"


def _zeros_and_ones(_kind: str, rng: np.random.Generator) -> Any:
    return rng.permutation([0, 1] * 6)


def _table(_kind: str, rng: np.random.Generator) -> Any:
    """Codes below 128: LiteRT takes uint8 ones for int8."""
    return rng.integers(0, 127, (5, 3))


def _by_index(dtype: str, const: bool) -> list[Recipe]:
    """Ops whose index operands may be of either type, constant or not."""
    label = _how(dtype, const)

    def index(values: Any) -> Slot:
        return ints(values, dtype, const=const)

    pads = index([[1, 0], [2, 1], [0, 0]])
    starts, sizes = index([1, 0, 0, 2]), index([1, 2, 4, 3])
    return [
        moved("PAD", MOST, (2, 3, 4), (3, 6, 4), pads, label=label),
        moved("PADV2", MOST, (2, 3, 4), (3, 6, 4), pads, number(1, const=const), label=label),
        moved("SLICE", ALL, SHAPE, (1, 2, 4, 3), starts, sizes, label=label),
        moved("TILE", ALL, (2, 3, 4), (4, 3, 12), index([2, 1, 3]), label=label),
        moved("BROADCAST_TO", ALL, (3, 1, 5), SHAPE, index(SHAPE), label=label),
        Recipe("FILL", [index([2, 3, 4]), x()], [x(2, 3, 4)], ALL, label=label),
    ]


def _picks(dtype: str) -> list[Recipe]:
    """Ops whose indices may be of that type."""
    rows = ints([3, 0, 2], dtype, const=False)
    places = ints([[1, 2], [0, 0]], dtype, const=False)
    return [
        Recipe(
            "GATHER", [x(*SHAPE), rows], [x(2, 3, 3, 5)], MOST, options={"axis": 2}, label=dtype
        ),
        Recipe("GATHER_ND", [x(*SHAPE), places], [x(2, 4, 5)], MOST, label=dtype),
    ]


def _typed(dtype: str) -> list[Recipe]:
    """Ops of which an index operand or result may be int32 or int64."""
    classes = ints([[1, 4, -1], [0, 2, 9]], dtype, const=False)
    values = [3, 1, 3, 2, 2, 7, 1, 0, 0]
    places = ints([[1, 2], [2, 0], [3, 1]], dtype, const=False)
    return [
        Recipe(
            "ONE_HOT",
            [classes, ints(5), number(1), number(0)],
            [x(2, 3, 5)],
            f"float32 {BYTES} int32 int64 bool",
            options={"axis": -1},
            label=dtype,
        ),
        Recipe("SHAPE", [x(*SHAPE)], [of(dtype, 4)], ALL, options={"out_type": dtype}, label=dtype),
        Recipe(
            "UNIQUE",
            [x(9, values=values)],
            [x(5), of(dtype, 9)],
            f"float32 {QUANTIZED} {RAW} int32 int64",
            options={"idx_out_type": dtype},
            label=dtype,
        ),
        Recipe(
            "SPARSE_TO_DENSE",
            [places, ints([5, 3], dtype), x(3), number(1)],
            [x(5, 3)],
            f"float32 {BYTES} int32 int64",
            label=dtype,
        ),
        Recipe(
            "SPLIT_V",
            [x(2, 6, 4), ints([1, -1, 2], dtype), ints(1)],
            [x(2, 1, 4), x(2, 3, 4), x(2, 2, 4)],
            f"float32 {QUANTIZED} {RAW} int32 int64",
            options={"num_splits": 3},
            label=dtype,
        ),
        Recipe(
            "BROADCAST_ARGS",
            [ints([3, 1, 5], dtype, const=False), ints([4, 1], dtype, const=False)],
            [of(dtype, 3)],
            dtype,
        ),
        moved(
            "REVERSE_SEQUENCE",
            "float32 uint8 uint8r int16 int16r int32 int64",
            (3, 5, 2),
            (3, 5, 2),
            ints([5, 1, 3], dtype, const=False),
            options={"seq_dim": 1, "batch_dim": 0},
            label=dtype,
        ),
        Recipe(
            "DYNAMIC_UPDATE_SLICE",
            [x(4, 5, 6), x(2, 3, 4), ints([3, -1, 2], dtype, const=False)],
            [x(4, 5, 6)],
            ALL,
            label=dtype,
        ),
    ]


def _largest(k: str, places: str, const: bool) -> Recipe:
    return Recipe(
        "TOPK_V2",
        [x(2, 3, 7), ints(3, k, const=const)],
        [x(2, 3, 3), of(places, 2, 3, 3)],
        f"float32 {QUANTIZED} {RAW} int32 int64",
        label=f"{_how(k, const)}-{places}",
    )


BLOCKS = [
    moved(
        "DEPTH_TO_SPACE",
        f"{FLOATS} {BYTES} int32 int64",
        (2, 3, 4, 8),
        (2, 6, 8, 2),
        options={"block_size": 2},
    ),
    moved(
        "SPACE_TO_DEPTH",
        f"float32 {BYTES} int32 int64",
        (2, 4, 6, 3),
        (2, 2, 3, 12),
        options={"block_size": 2},
    ),
    *(
        moved(
            op,
            ALL,
            shape,
            result,
            ints([2, 3], const=const),
            ints(border, const=const),
            label=f"{border}{'' if const else '-fed'}",
        )
        for const in (True, False)
        for op, shape, result, border in (
            ("BATCH_TO_SPACE_ND", (12, 2, 4, 5), (2, 3, 12, 5), [[1, 0], [0, 0]]),
            ("SPACE_TO_BATCH_ND", (2, 4, 6, 5), (12, 2, 2, 5), [[0, 0], [0, 0]]),
            ("SPACE_TO_BATCH_ND", (2, 3, 4, 5), (12, 2, 2, 5), [[0, 1], [1, 1]]),
        )
    ),
]

_STRIDES: tuple[tuple[str, list[Any], tuple[int, ...], dict[str, int]], ...] = (
    ("steps", [[0, 2, 0, 1], [2, 0, 4, 5], [1, -1, 1, 2]], (2, 2, 4, 2), {}),
    (
        "masks",
        [[1, 0, 0, 0], [2, 3, 0, 0], [1, 2, 1, 1]],
        (2, 4, 5),
        {"end_mask": 12, "shrink_axis_mask": 1},
    ),
    ("new-axis", [[0, 0], [1, 2], [1, 1]], (1, 2, 3, 4, 5), {"new_axis_mask": 1}),
    ("ellipsis", [[0, 1], [0, 4], [1, 2]], (2, 3, 4, 2), {"ellipsis_mask": 1}),
)
STRIDED = [
    moved(
        "STRIDED_SLICE",
        ALL,
        SHAPE,
        result,
        *(ints(part, const=const) for part in parts),
        options=masks,
        label=f"{label}{'' if const else '-fed'}",
    )
    for label, parts, result, masks in _STRIDES
    for const in ((True, False) if label == "steps" else (True,))
]

MOVES = [
    *(
        Recipe(
            "CONCATENATION",
            [x(2, 1, 4), x(2, 3, 4), x(2, 2, 4, const=True)],
            [x(2, 6, 4)],
            f"{MOST} uint32",
            options={"axis": axis},
            label=f"{axis}",
        )
        for axis in (1, -2)
    ),
    Recipe(
        "CONCATENATION",
        [x(2, 0, 4), x(2, 3, 4)],
        [x(2, 3, 4)],
        f"{MOST} uint32",
        options={"axis": 1},
        label="empty",
    ),
    Recipe(
        "CONCATENATION",
        [x(2, 1, 4), x(2, 3, 4, quant="second")],
        [y(2, 4, 4)],
        "uint8",
        options={"axis": 1},
        label="unequal",
    ),
    moved("DILATE", ALL, (2, 4), (3, 10), ints([2, 3]), number(1)),
    moved("EXPAND_DIMS", ALL, (2, 3, 4), (2, 3, 1, 4), ints(2)),
    moved("EXPAND_DIMS", ALL, (2, 3, 4), (2, 3, 4, 1), ints(-1, const=False), label="fed"),
    moved("SQUEEZE", ALL, (2, 1, 3, 1), (2, 3), options={"squeeze_dims": [1, 3]}),
    moved("RESHAPE", ALL, SHAPE, (6, 20), ints([6, -1])),
    moved("RESHAPE", ALL, SHAPE, (6, 20), options={"new_shape": [6, 20]}, label="option"),
    moved("RESHAPE", ALL, SHAPE, (6, 20), ints([6, 20], const=False), label="fed"),
    moved("TRANSPOSE", ALL, SHAPE, (4, 2, 5, 3), ints([2, 0, 3, 1])),
    moved("TRANSPOSE", ALL, SHAPE, (4, 2, 5, 3), ints([2, 0, 3, 1], const=False), label="fed"),
    moved("REVERSE_V2", MOST, SHAPE, SHAPE, ints([1, 2])),
    *(
        moved(
            "MIRROR_PAD",
            ALL,
            (3, 4, 5),
            (6, 6, 5),
            ints([[1, 2], [2, 0], [0, 0]]),
            options={"mode": mode},
            label=mode,
        )
        for mode in ("REFLECT", "SYMMETRIC")
    ),
    Recipe(
        "PACK",
        [x(2, 3), x(2, 3), x(2, 3)],
        [x(2, 3, 3)],
        f"float32 {QUANTIZED} {RAW} int32 int64 uint32",
        options={"axis": -1, "values_count": 3},
    ),
    Recipe(
        "UNPACK",
        [x(2, 3, 4)],
        [x(2, 4)] * 3,
        f"{FLOATS} {QUANTIZED} {RAW} int32 bool",
        options={"num": 3, "axis": 1},
    ),
    Recipe(
        "SPLIT",
        [ints(2), x(2, 3, 4)],
        [x(2, 3, 2), x(2, 3, 2)],
        SPLIT,
        options={"num_splits": 2},
    ),
    Recipe("RANK", [x(*SHAPE)], [of("int32")], ALL),
    Recipe("RANGE", [number(1), number(10), number(3)], [x(3)], "float32 int32 int64"),
    Recipe(
        "RANGE",
        [number(n, const=False) for n in (1, 10, 3)],
        [x(3)],
        "float32 int32 int64",
        label="fed",
    ),
    Recipe("MATRIX_DIAG", [x(2, 3)], [x(2, 3, 3)], f"float32 {QUANTIZED} {RAW} int32 int64 uint32"),
    Recipe(
        "MATRIX_SET_DIAG",
        [x(2, 3, 4), x(2, 3)],
        [x(2, 3, 4)],
        f"float32 {QUANTIZED} {RAW} int32 int64 uint32",
    ),
]

PICKS = [
    Recipe("GATHER", [x(*SHAPE), ints([3, 0, 2])], [x(2, 3, 3, 5)], MOST, options={"axis": 2}),
    Recipe(
        "GATHER",
        [x(*SHAPE), ints(2, const=False)],
        [x(2, 3, 5)],
        MOST,
        options={"axis": -2},
        label="scalar",
    ),
    Recipe(
        "GATHER",
        [x(*SHAPE), ints([[3, 0], [1, 1]], const=False)],
        [x(2, 3, 2, 5)],
        MOST,
        options={"axis": 2, "batch_dims": 1},
        label="batch",
    ),
    *(recipe for dtype in ("int16", "int32", "int64") for recipe in _picks(dtype)),
    Recipe("EMBEDDING_LOOKUP", [ints([4, 0, 4], const=False), x(5, 3, 2)], [x(3, 3, 2)], ALL),
    Recipe(
        "EMBEDDING_LOOKUP",
        [ints([4, 0, 4], const=False), x(5, 3, const=True, quant=(0.05, 0), values=_table)],
        [of("float32", 3, 3)],
        "int8 uint8",
        label="float",
    ),
    Recipe(
        "ONE_HOT",
        [
            ints([[1, 4, -1], [0, 2, 9]], const=False),
            ints(5, const=False),
            number(1, const=False),
            number(0, const=False),
        ],
        [x(2, 5, 3)],
        f"float32 {BYTES} int32 int64 bool",
        options={"axis": 1},
        label="fed",
    ),
    *(
        _largest(k, places, const)
        for k, places in (("int32", "int32"), ("int16", "int32"), ("int32", "int16"))
        for const in (True, False)
    ),
    Recipe(
        "WHERE",
        [x(3, 4, values=_zeros_and_ones)],
        [of("int64", 6, 2)],
        f"float32 {BYTES} int32 int64 uint32 bool",
    ),
    *(
        Recipe(
            "SCATTER_ND",
            [ints([[1, 2], [0, 0], [3, 1]], const=const), x(3, 4), ints([5, 3, 4])],
            [x(5, 3, 4)],
            f"float32 {BYTES} int32 int64 bool",
            label=_how("int32", const),
        )
        for const in (True, False)
    ),
    *(
        Recipe(
            "REDUCE_WINDOW",
            [
                x(5, 7),
                number(2),
                *(ints(part, "int64") for part in ([2, 3], [2, 1], [1, 2])),
            ],
            [x(2, 3)],
            f"float32 float64 {QUANTIZED} {RAW} int32 int64 bool",
            options={"reduce_function": function},
            label=function,
        )
        for function in ("ADD", "MUL", "MINIMUM", "MAXIMUM", "ALL", "ANY")
    ),
    Recipe(
        "SEGMENT_SUM",
        [x(5, 2, 3), ints([0, 0, 1, 2, 2], const=False)],
        [x(3, 2, 3)],
        "float32 int32",
    ),
    *(
        Recipe(
            f"UNSORTED_SEGMENT_{kind}",
            [x(5, 2, 3), ints([3, 0, 3, 5, 0], const=False), ints(6)],
            [x(6, 2, 3)],
            "float32 int32",
        )
        for kind in ("SUM", "PROD", "MIN", "MAX")
    ),
]

MOVING = [
    *(recipe for dtype, const in INDEX_TYPES for recipe in _by_index(dtype, const)),
    *(recipe for dtype in ("int32", "int64") for recipe in _typed(dtype)),
    *BLOCKS,
    *STRIDED,
    *MOVES,
    *PICKS,
]
