"""Random draws."""

from __future__ import annotations

import math

from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.dtype import FLOATS, DType
from nnconv.ir.graph import Value
from nnconv.ops.random import Bernoulli, Multinomial, RandomNormal, RandomUniform, Seeds


def _seeds(s: Source) -> Seeds:
    """The seed; one that is no number is none."""
    if not s.has("seed"):
        return None
    seed = s.float("seed")
    return (seed,) if math.isfinite(seed) else None


def _uniform(s: Source, shape: tuple[int, ...] | None, dtype: DType) -> RandomUniform:
    low, high = s.float("low", 0.0), s.float("high", 1.0)
    return RandomUniform(shape=shape, dtype=dtype, low=low, high=high, seeds=_seeds(s))


def _normal(s: Source, shape: tuple[int, ...] | None, dtype: DType) -> RandomNormal:
    mean, scale = s.float("mean", 0.0), s.float("scale", 1.0)
    return RandomNormal(shape=shape, dtype=dtype, mean=mean, deviation=scale, seeds=_seeds(s))


def _shape(s: Source) -> tuple[int, ...]:
    shape = s.int_list("shape")
    if shape is None:
        raise s.fail("attribute shape is missing")
    return shape


def _like(s: Source) -> tuple[Value, DType]:
    """The operand whose shape counts, and the type to draw: its own, if there is no other."""
    x = s.operand(0)
    dtype = s.dtype("dtype", x.dtype)
    if dtype not in FLOATS:
        raise s.fail(f"draws of {dtype}, must be floats")
    return x, dtype


def import_random_uniform(s: Source) -> None:
    """RandomUniform."""
    s.emit(_uniform(s, _shape(s), s.dtype("dtype", DType.FLOAT32)), [])


def import_random_normal(s: Source) -> None:
    """RandomNormal."""
    s.emit(_normal(s, _shape(s), s.dtype("dtype", DType.FLOAT32)), [])


def import_random_uniform_like(s: Source) -> None:
    """RandomUniformLike."""
    x, dtype = _like(s)
    s.emit(_uniform(s, None, dtype), [None, x])


def import_random_normal_like(s: Source) -> None:
    """RandomNormalLike."""
    x, dtype = _like(s)
    s.emit(_normal(s, None, dtype), [None, x])


def import_bernoulli(s: Source) -> None:
    """Bernoulli."""
    x = s.operand(0)
    s.emit(Bernoulli(dtype=s.dtype("dtype", x.dtype), seeds=_seeds(s)), [x])


def import_multinomial(s: Source) -> None:
    """Multinomial."""
    samples, dtype = s.int("sample_size", 1), s.dtype("dtype", DType.INT32)
    s.emit(Multinomial(samples=samples, dtype=dtype, seeds=_seeds(s)), [s.operand(0)])


IMPORTERS: dict[str, Importer] = {
    "RandomUniform": import_random_uniform,
    "RandomNormal": import_random_normal,
    "RandomUniformLike": import_random_uniform_like,
    "RandomNormalLike": import_random_normal_like,
    "Bernoulli": import_bernoulli,
    "Multinomial": import_multinomial,
}
