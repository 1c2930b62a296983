"""Transposes that onnxruntime does element by element, in two steps that it does by rows.

It has quick kernels to exchange two neighbouring groups of dimensions: as matrices, or by copying
what lies behind them. Most other permutations are two such exchanges, which take 0.15 to 0.3 of
the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

from nnconv.formats.onnx.exporter import Target
from nnconv.ir.op import Perm

LEAST = 1024
"""Below so many elements, one more node costs more than it saves."""

MOST = 5
"""Groups of dimensions for which two exchanges are looked for."""

COPY = 16
"""Copying a block takes as long as so many elements of it."""

Swap = tuple[int, int, int]
"""Bounds of two neighbouring groups: [i, j) and [j, k)."""


def turn(t: Target, name: str, perm: Perm, shape: Sequence[int] | None) -> str:
    """``name``, of ``shape``, transposed by ``perm``."""
    steps = None if shape is None or math.prod(shape) < LEAST else _two_steps(perm, shape)
    if steps is None:
        return t.node("Transpose", [name], perm=perm)
    assert shape is not None
    dims, swaps = steps
    for number, swap in enumerate(swaps):
        if number:
            # onnxruntime makes one of two transposes again; it doesn't see behind this
            name = t.node("Flatten", [name], axis=1)
        i, j, k = swap
        parts = [math.prod(part) for part in (dims[:i], dims[i:j], dims[j:k], dims[k:])]
        name = t.node("Transpose", [t.reshape(name, parts)], perm=(0, 2, 1, 3))
        dims = _swapped(dims, swap)
    return t.reshape(name, [shape[p] for p in perm])


def _two_steps(perm: Perm, shape: Sequence[int]) -> tuple[list[int], list[Swap]] | None:
    """Extents of what moves together, and two exchanges that make ``perm``; None if one does."""
    groups: list[list[int]] = []
    for axis in (p for p in perm if shape[p] != 1):
        following = bool(groups) and all(shape[i] == 1 for i in range(groups[-1][-1] + 1, axis))
        if following and axis > groups[-1][-1]:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    order = sorted(range(len(groups)), key=lambda i: groups[i][0])
    goal = [order.index(i) for i in range(len(groups))]
    dims = [math.prod(shape[axis] for axis in groups[i]) for i in order]
    count = len(goal)
    if not 4 <= count <= MOST or goal[-1] == count - 1:
        return None
    pairs = _pairs(tuple(goal))
    if not pairs:
        return None
    first, second = min(pairs, key=lambda pair: _time(dims, *pair))
    return dims, [first, second]


@cache
def _pairs(goal: tuple[int, ...]) -> list[tuple[Swap, Swap]]:
    """All pairs of exchanges that make ``goal``; none if one exchange does."""
    start, swaps = list(range(len(goal))), list(_swaps(len(goal)))
    middles = [(swap, _swapped(start, swap)) for swap in swaps]
    if any(tuple(middle) == goal for _, middle in middles):
        return []
    return [
        (first, second)
        for first, middle in middles
        for second in swaps
        if tuple(_swapped(middle, second)) == goal
    ]


def _time(dims: list[int], first: Swap, second: Swap) -> float:
    return _cost(dims, first) + _cost(_swapped(dims, first), second)


def _swaps(count: int) -> Iterator[Swap]:
    for i in range(count - 1):
        for j in range(i + 1, count):
            for k in range(j + 1, count + 1):
                yield i, j, k


def _swapped(items: list[int], swap: Swap) -> list[int]:
    i, j, k = swap
    return [*items[:i], *items[j:k], *items[i:j], *items[k:]]


def _cost(dims: list[int], swap: Swap) -> float:
    """How long an exchange takes, by element."""
    block = math.prod(dims[swap[2] :])
    return 1 + (COPY / block if block > 1 else 0)
