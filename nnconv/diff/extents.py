"""What the open extents of inputs are in a run: those of one name agree, also where it is a sum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnconv.ir.types import Dim


def known_shapes(
    shapes: Sequence[Sequence[Dim]], *, batch: int, others: int
) -> list[tuple[int, ...]]:
    """Shapes without open extents.

    Models with a past state extents such as ``past + 1``: these are worked out.

    Args:
        shapes: of all inputs, for names may stand in several.
        batch: what is open in front, as a name that stands there is anywhere.
        others: what else is open.
    """
    named: dict[str, int] = {}
    for fronts, number in ((True, batch), (False, others)):
        for shape in shapes:
            for place, dim in enumerate(shape):
                if isinstance(dim, str) and (place == 0) is fronts and not _is_sum(dim):
                    named.setdefault(dim, number)

    def size(dim: Dim, place: int) -> int:
        if isinstance(dim, int):
            return dim
        number = batch if place == 0 else others
        if dim is None:
            return number
        return _sum(dim.split("+"), named) if _is_sum(dim) else named[dim]

    return [tuple(size(dim, place) for place, dim in enumerate(shape)) for shape in shapes]


def _is_sum(name: str) -> bool:
    return "+" in name


def _sum(parts: Iterable[str], named: dict[str, int]) -> int:
    """The sum of numbers and of names, of which those that are new are 1."""
    total = 0
    for part in (p.strip() for p in parts):
        total += int(part) if part.isdecimal() else named.get(part, 1)
    return total
