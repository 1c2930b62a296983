"""What ranks and extents the inputs of an operation must have, and which of them must be equal.

Android's kernels look at them when the operation runs, so only what is known by then counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nnconv.formats.nnapi.table import Match, OperandSpec
from nnconv.ir.types import Shape

CHANNELS_FIRST = (0, 3, 1, 2)
"""The order of the extents of an image that has its channels first, of those of the table."""

SCALAR = (0, 0)


def extent_faults(
    match: Match, shape_of: Callable[[int], Shape], *, nchw: bool = False
) -> Iterator[str]:
    """What is wrong with the extents of an operation's inputs.

    Args:
        match: what its operands are.
        shape_of: the shape of the input at a position, as far as it is known.
        nchw: whether images have their channels first.
    """
    seen: dict[str, tuple[int, str]] = {}
    for position, formal in enumerate(match.inputs):
        if formal.rank == SCALAR:
            continue
        shape = shape_of(position)
        if shape is None:
            continue
        if fault := _rank_fault(formal, len(shape)):
            yield fault
        elif formal.dims is not None and len(formal.dims) == len(shape):
            dims: Sequence[int | str] = formal.dims
            if nchw and formal.image:
                dims = [dims[place] for place in CHANNELS_FIRST]
            yield from _extent_faults(formal, dims, shape, seen)


def _rank_fault(formal: OperandSpec, rank: int) -> str:
    if formal.rank is None:
        return ""
    least, most = formal.rank
    if least <= rank <= (rank if most is None else most):
        return ""
    allowed = f"{least} or more" if most is None else f"{least} to {most}"
    return f"{formal.name} has rank {rank}, must have {least if least == most else allowed}"


def _extent_faults(
    formal: OperandSpec,
    dims: Sequence[int | str],
    shape: Sequence[int | str | None],
    seen: dict[str, tuple[int, str]],
) -> Iterator[str]:
    """Extents of an input that aren't what they must be; ``seen`` has those before it, by name."""
    for axis, (wanted, extent) in enumerate(zip(dims, shape, strict=True)):
        if not isinstance(extent, int):
            continue
        like = ""
        if isinstance(wanted, str):
            number, other = seen.setdefault(wanted, (extent, formal.name))
            like = f", as {other} has"
        else:
            number = wanted
        if extent != number:
            given = list(shape)
            yield f"{formal.name} has the dimensions {given}, number {axis} must be {number}{like}"
