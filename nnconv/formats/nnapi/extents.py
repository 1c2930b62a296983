"""What ranks and extents the inputs of an operation must have, and which of them must be equal.

Android's kernels look at them when the operation runs, so only what is known by then counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnconv.formats.nnapi.table import Match, OperandSpec
from nnconv.ir.types import Shape

CHANNELS_FIRST = (0, 3, 1, 2)
"""The order of the extents of an image that has its channels first, of those of the table."""


def extent_faults(
    match: Match, shape_of: Callable[[int], Shape], *, nchw: bool = False
) -> list[str]:
    """What is wrong with the extents of an operation's inputs.

    Args:
        match: what its operands are.
        shape_of: the shape of the input at a position, as far as it is known.
        nchw: whether images have their channels first.
    """
    faults: list[str] = []
    seen: dict[str, tuple[int, str]] = {}
    for position, formal in match.tensors:
        shape = shape_of(position)
        if shape is None:
            continue
        if formal.rank is not None and (fault := _rank_fault(formal, formal.rank, len(shape))):
            faults.append(fault)
        elif formal.dims is not None and len(formal.dims) == len(shape):
            dims: Sequence[int | str] = formal.dims
            if nchw and formal.image:
                dims = [dims[place] for place in CHANNELS_FIRST]
            faults += _extent_faults(formal, dims, shape, seen)
    return faults


def _rank_fault(formal: OperandSpec, allowed_ranks: tuple[int, int | None], rank: int) -> str:
    least, most = allowed_ranks
    if least <= rank and (most is None or rank <= most):
        return ""
    allowed = f"{least} or more" if most is None else f"{least} to {most}"
    return f"{formal.name} has rank {rank}, must have {least if least == most else allowed}"


def _extent_faults(
    formal: OperandSpec,
    dims: Sequence[int | str],
    shape: Sequence[int | str | None],
    seen: dict[str, tuple[int, str]],
) -> list[str]:
    """Extents of an input that aren't what they must be; ``seen`` has those before it, by name."""
    faults = []
    for axis, wanted in enumerate(dims):
        extent = shape[axis]
        if not isinstance(extent, int):
            continue
        other = ""
        if isinstance(wanted, int):
            number = wanted
        elif wanted in seen:
            number, other = seen[wanted]
        else:
            seen[wanted] = (extent, formal.name)
            continue
        if extent != number:
            like = f", as {other} has" if other else ""
            faults.append(
                f"{formal.name} has the dimensions {list(shape)}, "
                f"number {axis} must be {number}{like}"
            )
    return faults
