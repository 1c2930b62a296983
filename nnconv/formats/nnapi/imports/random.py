"""Random draws."""

from __future__ import annotations

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ops.random import Multinomial


def import_random_multinomial(s: Source) -> None:
    """RANDOM_MULTINOMIAL: two seeds of 0 are none."""
    seeds = s.ints("seeds")
    inputs = [s.operand("logits"), *([] if seeds is not None else [s.operand("seeds")])]
    chosen = seeds if seeds is not None and any(seeds) else None
    s.emit(Multinomial(samples=s.positive("samples"), seeds=chosen), inputs)


IMPORTERS: dict[str, Importer] = {"RANDOM_MULTINOMIAL": import_random_multinomial}
