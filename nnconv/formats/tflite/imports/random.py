"""Random draws."""

from __future__ import annotations

from nnconv.errors import plural
from nnconv.formats.tflite.importer import Importer, Source
from nnconv.ops.random import Multinomial, RandomNormal, RandomUniform, Seeds


def _seeds(s: Source) -> Seeds:
    """Two numbers; where both are 0, every run draws others."""
    seeds = s.options.int("seed"), s.options.int("seed2")
    return seeds if any(seeds) else None


def _import_filled(s: Source, kind: type[RandomUniform | RandomNormal]) -> None:
    shape, dtype = s.ints(0), s.output_type().dtype
    op = kind(shape=shape, dtype=dtype, seeds=_seeds(s))
    if shape is not None:
        s.emit(op, [])
    else:
        s.emit(op, [s.operand(0)], shape=s.dims(0))


def import_random_uniform(s: Source) -> None:
    """RANDOM_UNIFORM: from 0 to 1."""
    _import_filled(s, RandomUniform)


def import_random_standard_normal(s: Source) -> None:
    """RANDOM_STANDARD_NORMAL."""
    _import_filled(s, RandomNormal)


def import_multinomial(s: Source) -> None:
    """MULTINOMIAL: operand 1 is the number of samples."""
    samples = s.required_ints(1, "the number of samples")
    if len(samples) != 1:
        raise s.fail(f"{plural(len(samples), 'number')} of samples, must be 1")
    op = Multinomial(samples=samples[0], dtype=s.output_type().dtype, seeds=_seeds(s))
    s.emit(op, [s.operand(0)])


IMPORTERS: dict[str, Importer] = {
    "RANDOM_UNIFORM": import_random_uniform,
    "RANDOM_STANDARD_NORMAL": import_random_standard_normal,
    "MULTINOMIAL": import_multinomial,
}
