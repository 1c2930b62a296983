"""Recurrences of the IR with what operands they may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nnconv.ir import Builder, DType, Quant, Value
from nnconv.ops.rnn import Lstm, Rnn

STEPS, BATCH, DEPTH, CELLS, SIZE = 5, 2, 3, 4, 6

WAYS = {
    "forward": {},
    "backward": {"reverse": True},
    "batch first": {"time_major": False},
    "backward, batch first": {"reverse": True, "time_major": False},
}
"""Where time lies, and in which direction it goes."""

PARTS = {
    "plain": (),
    "coupled": ("coupled",),
    "peepholes": ("peepholes",),
    "projection": ("projection",),
    "projection with bias": ("projection", "projection bias"),
    "norms": ("norms",),
    "all": ("peepholes", "projection", "projection bias", "norms", "states"),
    "coupled, all": ("coupled", "peepholes", "projection", "norms", "states"),
}
"""The operands of an Lstm beside those of the plainest."""


def numbers(b: Builder, *shape: int, dtype: DType = DType.FLOAT32, seed: int = 0) -> Value:
    """A constant of numbers below 1."""
    rng = np.random.default_rng((*shape, seed))
    return b.const(rng.uniform(-0.9, 0.9, shape).astype(dtype.numpy), dtype=dtype)


def codes(b: Builder, *shape: int, dtype: DType, seed: int = 0) -> Value:  # noqa: ARG001
    """Numbers in 8 bits, whatever the type of the data is."""
    data = np.random.default_rng((*shape, seed)).integers(-100, 100, shape)
    return b.const(data.astype(np.int8), quant=Quant.per_tensor(0.01))


def recurrence(
    op: Lstm | Rnn,
    parts: Sequence[str] = (),
    *,
    results: Sequence[int] = (0,),
    dtype: DType = DType.FLOAT32,
    shape: tuple[int, ...] | None = None,
) -> Callable[[Builder], list[Value]]:
    """An Lstm or Rnn with the operands that are named."""

    def build(b: Builder) -> list[Value]:
        default = (STEPS, BATCH, DEPTH) if op.time_major else (BATCH, STEPS, DEPTH)
        x = b.input("x", dtype, shape or default)
        states = "states" in parts
        if isinstance(op, Rnn):
            state = b.input("h", dtype, (BATCH, CELLS)) if states else None
            kind = codes if "codes" in parts else numbers
            own = [kind(b, CELLS, n, dtype=dtype) for n in (DEPTH, CELLS)]
            found = b.add_many(op, [x, *own, numbers(b, CELLS, dtype=dtype), state])
            return [found[i] for i in results]
        size = SIZE if "projection" in parts else CELLS
        first = 1 if "coupled" in parts else 0

        def each(*extents, have=True, skip=first, count=4):
            kind = codes if "codes" in parts and len(extents) == 2 else numbers
            made = [kind(b, *extents, dtype=dtype, seed=i) for i in range(count)]
            return [v if have and i >= skip else None for i, v in enumerate(made)]

        found = b.add_many(
            op,
            [
                x,
                *each(CELLS, DEPTH),
                *each(CELLS, size),
                *each(CELLS, have="peepholes" in parts, count=3),
                *each(CELLS),
                *each(size, CELLS, have="projection" in parts, skip=0, count=1),
                *each(size, have="projection bias" in parts, skip=0, count=1),
                b.input("h", dtype, (BATCH, size)) if states else None,
                b.input("c", dtype, (BATCH, CELLS)) if states else None,
                *each(CELLS, have="norms" in parts),
            ],
        )
        return [found[i] for i in results]

    return build
