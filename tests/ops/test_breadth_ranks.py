"""Ops on tensors of every rank that LiteRT's CPU kernels take: up to 8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.breadth import Recipe, Values, ints, number, of, with_litert, x, y
from support.breadth_values import BINARY_KINDS, COMPARISONS, EQUAL_SETS
from support.spine import Case, check

EXTENTS = (2, 3, 1, 2, 1, 3, 2, 3)
HIGHEST = 8

BROADCASTING = {
    **{op: kinds for op, kinds in BINARY_KINDS.items() if op != "LOGICAL_OR"},
    "DIV": "float32 int32",
    "POW": "float32 int32",
    "FLOOR_DIV": "float32 int32",
    "FLOOR_MOD": "float32 int64",
}
FEW = frozenset({"float32", "int8", "int16", "int32", "bool"})
"""Kinds that stand for the others."""


def _defined(shape: tuple[int, ...]) -> Values:
    """Elements that every op is defined for."""
    return lambda _kind, rng: rng.integers(1, 5, shape)


def _shapes(rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of a rank, each with an extent of 1 wherever the other may have more."""
    whole = EXTENTS[:rank]
    first = tuple(1 if i % 3 == 1 else n for i, n in enumerate(whole))
    return first, tuple(1 if i % 3 == 0 else n for i, n in enumerate(whole))


def _pair(op: str, kinds: str, rank: int) -> Recipe:
    first, second = _shapes(rank)
    shape = np.broadcast_shapes(first, second)
    chosen = " ".join(kind for kind in kinds.split() if kind in FEW)
    small = op in ("DIV", "POW", "FLOOR_DIV", "FLOOR_MOD")
    operands = [
        x(*first, values=_defined(first) if small else None),
        x(
            *second,
            quant="x" if op in EQUAL_SETS else "second",
            values=_defined(second) if small else None,
        ),
    ]
    result = x(*shape) if op in EQUAL_SETS else y(*shape)
    if op in COMPARISONS:
        result = of("bool", *shape)
    return Recipe(op, operands, [result], chosen, label=f"rank{rank}")


def _selection(rank: int) -> Recipe:
    first, second = _shapes(rank)
    shape = np.broadcast_shapes(first, second)
    operands = [of("bool", *first), x(*second), x()]
    return Recipe("SELECT_V2", operands, [x(*shape)], "float32 int8", label=f"rank{rank}")


def _slopes(rank: int) -> Recipe:
    shape = EXTENTS[:rank]
    operands = [x(*shape), x(*_shapes(rank)[0], quant="second", const=True)]
    return Recipe("PRELU", operands, [y(*shape)], "float32 int8", label=f"rank{rank}")


def _along(rank: int) -> list[Recipe]:
    """Ops that have an entry or an axis for each dimension."""
    last, kinds, label = rank - 1, "float32 int8", f"rank{rank}"
    shape = (*EXTENTS[:last], 4)
    first, whole = _shapes(rank)[0], EXTENTS[:rank]
    every = list(range(rank))
    ones, twos = [1] * rank, [2] * rank
    rest = shape[:last]

    def moved(op: str, result: tuple[int, ...], *more: Any, **options: Any) -> Recipe:
        operands = [x(*shape), *more]
        return Recipe(op, operands, [x(*result)], kinds, options=options, label=label)

    pads = [[0, 0]] * last + [[1, 2]]
    padded = (*rest, shape[last] + 3)
    borders = [[1, 0]] * rank
    bordered = tuple(n + 1 for n in shape)
    begin, size = [0] * last + [1], [*rest, 1]
    recipes = [
        moved("TRANSPOSE", shape[::-1], ints(every[::-1])),
        moved("MIRROR_PAD", padded, ints(pads), mode="SYMMETRIC"),
        moved("SLICE", (*rest, 1), ints(begin), ints(size)),
        moved(
            "STRIDED_SLICE",
            tuple(-(-n // 2) for n in shape),
            *(ints(part) for part in ([0] * rank, list(shape), twos)),
        ),
        moved("TILE", (*rest, 2 * shape[last]), ints([*ones[1:], 2])),
        moved("GATHER", (*rest, 4), ints([0, 1, 1, 0], const=False), axis=last),
        moved("REVERSE_V2", shape, ints([last])),
        moved("CONCATENATION", (*rest, 2 * shape[last]), x(*shape), axis=last),
        moved("MEAN", rest, ints([last])),
        moved("SUM", rest, ints([last])),
        moved("REDUCE_MAX", rest, ints([last])),
        Recipe("BROADCAST_TO", [x(*first), ints(whole)], [x(*whole)], kinds, label=label),
        Recipe(
            "ARG_MAX",
            [x(*shape), ints(last)],
            [of("int32", *rest)],
            kinds,
            options={"output_type": "int32"},
            label=label,
        ),
        Recipe("CUMSUM", [x(*shape), ints(last)], [x(*shape)], "float32", label=label),
    ]
    if rank > 1:
        recipes.append(
            Recipe(
                "SOFTMAX",
                [x(*shape)],
                [y(*shape, quant="unit")],
                kinds,
                options={"beta": 1.0},
                label=label,
            )
        )
    if rank < HIGHEST:
        options = {"axis": last, "values_count": 2}
        packed = x(*rest, 2, shape[last])
        recipes.append(
            Recipe("PACK", [x(*shape)] * 2, [packed], kinds, options=options, label=label)
        )
    if rank <= 5:  # as many as LiteRT pads
        recipes.append(moved("PAD", bordered, ints(borders)))
        recipes.append(moved("PADV2", bordered, ints(borders), number(1)))
    return recipes


RECIPES = [
    *(_pair(op, kinds, rank) for op, kinds in BROADCASTING.items() for rank in range(HIGHEST + 1)),
    *(recipe for rank in range(1, HIGHEST + 1) for recipe in _along(rank)),
    *(_selection(rank) for rank in range(HIGHEST + 1)),
    *(_slopes(rank) for rank in range(HIGHEST + 1)),
    *(
        Recipe("RELU", [x(*EXTENTS[:rank])], [y(*EXTENTS[:rank])], "float32 int8", label=str(rank))
        for rank in range(HIGHEST + 1)
    ),
]


@pytest.mark.parametrize("case", [c for recipe in RECIPES for c in recipe.cases()], ids=str)
def test_rank(case: Case, tmp_path: Path) -> None:
    check(with_litert(case), tmp_path)
