"""Random draws."""

from __future__ import annotations

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ops.random import Multinomial


def import_random_multinomial(s: Source) -> None:
    """RANDOM_MULTINOMIAL."""
    seeds = s.ints("seeds")
    op = Multinomial(samples=s.positive("samples"), seeds=seeds)
    s.emit(op, [s.operand("logits"), *([] if seeds is not None else [s.operand("seeds")])])


IMPORTERS: dict[str, Importer] = {"RANDOM_MULTINOMIAL": import_random_multinomial}
