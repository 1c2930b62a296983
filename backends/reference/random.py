"""Random draws, by numpy's generator."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel, flat

from nnconv.ir.op import Op
from nnconv.ops.random import Bernoulli, Multinomial, RandomNormal, RandomUniform, Seeds


def _generator(seeds: Seeds) -> np.random.Generator:
    if seeds is None:
        return np.random.default_rng()
    return np.random.default_rng(np.asarray(seeds, np.float64).view(np.uint32))


def _shape(op: RandomUniform | RandomNormal, shape: Array | None, like: Array | None) -> list[int]:
    if like is not None:
        return list(like.shape)
    return flat(shape) if op.shape is None else list(op.shape)


def random_uniform(
    op: RandomUniform, shape: Array | None = None, like: Array | None = None
) -> list[Array]:
    """RandomUniform."""
    places = _generator(op.seeds).random(_shape(op, shape, like))
    return [op.low + places * (op.high - op.low)]


def random_normal(
    op: RandomNormal, shape: Array | None = None, like: Array | None = None
) -> list[Array]:
    """RandomNormal."""
    draws = _generator(op.seeds).standard_normal(_shape(op, shape, like))
    return [op.mean + draws * op.deviation]


def bernoulli(op: Bernoulli, x: Array) -> list[Array]:
    """Bernoulli."""
    return [_generator(op.seeds).random(x.shape) < x.astype(np.float64)]


def multinomial(op: Multinomial, logits: Array, seeds: Array | None = None) -> list[Array]:
    """Multinomial."""
    given = op.seeds if seeds is None else tuple(flat(seeds))
    draw = _generator(given if given is not None and any(given) else None)
    wide = logits.astype(np.float64)
    chances = np.exp(wide - wide.max(axis=1, keepdims=True))
    ends = np.cumsum(chances / chances.sum(axis=1, keepdims=True), axis=1)
    places = draw.random((len(wide), op.samples))
    found = [
        np.searchsorted(row[:-1], place, side="right")
        for row, place in zip(ends, places, strict=True)
    ]
    return [np.asarray(found, np.int64).reshape(len(wide), op.samples)]


KERNELS: dict[type[Op], Kernel] = {
    RandomUniform: random_uniform,
    RandomNormal: random_normal,
    Bernoulli: bernoulli,
    Multinomial: multinomial,
}
