"""What ops share of extents: padding, windows, layouts, orders, reshapes and joins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from nnconv.errors import plural
from nnconv.ir.op import Layout, Perm
from nnconv.ir.types import Dim, Shape, element_count, merge_dim

IMAGE_RANK = 4
"""The least dimensions of images whose layout an interface may change, the batch included."""


@dataclass(frozen=True)
class Padding:
    """How many elements are put before and behind each spatial dimension.

    Attributes:
        before: counts at the start, one a spatial dimension.
        after: counts at the end.
        same: the extents aren't known yet: pad so that the result has ceil(extent / stride)
            elements, the odd one at the end. ``before`` and ``after`` are then 0.
        lower: with ``same``: the odd one is put at the start.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    same: bool = False
    lower: bool = False

    @classmethod
    def none(cls, rank: int = 2) -> Padding:
        """No padding."""
        return cls((0,) * rank, (0,) * rank)

    @classmethod
    def same_for(
        cls,
        extents: tuple[Dim, ...],
        window: tuple[int, ...],
        stride: tuple[int, ...],
        dilation: tuple[int, ...],
        *,
        lower: bool = False,
    ) -> Padding:
        """SAME padding: the result has ceil(extent / stride) elements.

        The odd one is at the end, as TFLite, NNAPI and NNRt have it; with ``lower`` at the start.
        Where an extent isn't known and matters, the padding stays ``same``. It doesn't with a
        stride of 1, nor if all padding is at the end: what no window covers may be one more.
        """
        return _same_padding(extents, window, stride, dilation, lower=lower)

    @property
    def is_zero(self) -> bool:
        """Whether nothing is padded."""
        return not self.same and not any(self.before) and not any(self.after)


@lru_cache(maxsize=1000)  # layers are alike
def _same_padding(
    extents: tuple[Dim, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    *,
    lower: bool,
) -> Padding:
    totals = []
    for extent, size, step, spread in zip(extents, window, stride, dilation, strict=True):
        reach = (size - 1) * spread + 1
        if isinstance(extent, int):
            count = -(-extent // step)
            totals.append(max((count - 1) * step + reach - extent, 0))
        elif step == 1 or (reach - 1 + lower) // 2 == 0:
            totals.append(reach - 1)
        else:
            return Padding((0,) * len(window), (0,) * len(window), same=True, lower=lower)
    before = tuple((total + lower) // 2 for total in totals)
    return Padding(before, tuple(t - b for t, b in zip(totals, before, strict=True)))


def window_count(
    extent: Dim,
    window: int,
    stride: int,
    dilation: int,
    before: int,
    after: int,
    *,
    ceil: bool = False,
) -> Dim:
    """How many windows fit into a padded extent; None when it isn't known.

    With ``ceil`` the last one may reach beyond it, if it starts before the padding at the end.

    Raises:
        ValueError: when not even one fits into a known extent that isn't empty.
    """
    if not isinstance(extent, int):
        total = before + after - (window - 1) * dilation
        return extent if stride == 1 and total == 0 else None
    reach = (window - 1) * dilation + 1
    padded = extent + before + after
    if padded < reach:
        raise ValueError(
            f"window reaches over {plural(reach, 'element')}, the padded extent is {padded}"
        )
    if not ceil:
        return (padded - reach) // stride + 1
    count = -(-(padded - reach) // stride) + 1
    return count - 1 if (count - 1) * stride >= extent + before else count


def spatial_dims(rank: int, layout: Layout) -> range:
    """Which dimensions of a tensor of ``rank`` are spatial."""
    return range(1, rank - 1) if layout is Layout.NHWC else range(2, rank)


def channel_dim(rank: int, layout: Layout) -> int:
    """Which dimension of a tensor of ``rank`` holds the channels."""
    return rank - 1 if layout is Layout.NHWC else 1


def to_layout(layout: Layout, rank: int) -> Perm:
    """The transpose that brings a tensor of the other layout into ``layout``."""
    if layout is Layout.NCHW:
        return (0, rank - 1, *range(1, rank - 1))
    return (0, *range(2, rank), 1)


def other(layout: Layout) -> Layout:
    """The other layout."""
    return Layout.NCHW if layout is Layout.NHWC else Layout.NHWC


def window_shape(
    shape: Shape,
    layout: Layout,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    padding: Padding,
    channels: Dim,
    ceil: bool = False,
) -> Shape:
    """Result shape of an op that slides a window over ``shape`` and gives ``channels`` channels.

    Raises:
        ValueError: when the rank doesn't fit the window, or a window doesn't fit.
    """
    if shape is None:
        return None
    rank = len(window) + 2
    if len(shape) != rank:
        raise ValueError(f"input has rank {len(shape)}, must have {rank}")
    result: list[Dim] = [shape[0]] * rank
    result[channel_dim(rank, layout)] = channels
    for i, dim in enumerate(spatial_dims(rank, layout)):
        extent = shape[dim]
        if padding.same:
            known = isinstance(extent, int)
            result[dim] = -(-extent // stride[i]) if known else None  # type: ignore[operator]
        else:
            before, after = padding.before[i], padding.after[i]
            result[dim] = window_count(
                extent, window[i], stride[i], dilation[i], before, after, ceil=ceil
            )
    return tuple(result)


def is_sorted(perm: Perm) -> bool:
    """Whether a transpose leaves everything in its place."""
    return perm == tuple(range(len(perm)))


def perm_between(source: tuple[Dim, ...], perm: Perm, target: tuple[Dim, ...]) -> Perm | None:
    """The transpose of a reshape's result that needs no more than a reshape of the moved operand.

    There is one if every dimension, or run of dimensions, that the reshape splits or merges stays
    together and in order in ``perm``. Extents of 1 are put where a layout has them.
    """
    kept = [p for p in perm if source[p] != 1]
    order: list[int] = []
    groups = _regrouped(source, target)
    if groups is None:
        return None
    by_first = {before[0]: (before, after) for before, after in groups}
    at = 0
    while at < len(kept):
        before, after = by_first.get(kept[at], ((), ()))
        if not before or tuple(kept[at : at + len(before)]) != before:
            return None
        order += after
        at += len(before)
    return _placed(order, len(target))


def regroups(source: tuple[Dim, ...], target: tuple[Dim, ...]) -> bool:
    """Whether a reshape does more than put in and take out extents of 1."""
    return [d for d in source if d != 1] != [d for d in target if d != 1]


_Group: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""A run of dimensions before a reshape, and the one that holds the same elements behind it."""


def _regrouped(source: tuple[Dim, ...], target: tuple[Dim, ...]) -> list[_Group] | None:
    """The least runs that hold the same elements before and behind a reshape, in order.

    Without extents of 1. None where extents are unknown in more than one place, or don't match up.
    """
    befores = [i for i, d in enumerate(source) if d != 1]
    afters = [i for i, d in enumerate(target) if d != 1]
    groups = _matching(source, target, befores, afters)
    if not any(_left(groups, befores, afters)):
        return groups
    if 0 in source or 0 in target:
        return None
    # What is equal at both ends leaves equal counts in between: an open extent is the rest.
    behind = _matching(source, target, befores[::-1], afters[::-1])
    tail = [(before[::-1], after[::-1]) for before, after in reversed(behind)]
    middle = _left(groups + tail, befores, afters)
    if min(map(len, middle)) != 1 or all(isinstance(target[i], int) for i in middle[1]):
        return None
    joined = [*groups, (tuple(middle[0]), tuple(middle[1])), *tail]
    return joined if sum(len(a) for _, a in joined) == len(afters) else None


def _left(
    groups: list[_Group], befores: list[int], afters: list[int]
) -> tuple[list[int], list[int]]:
    done = {i for before, _ in groups for i in before}, {i for _, after in groups for i in after}
    return [i for i in befores if i not in done[0]], [i for i in afters if i not in done[1]]


def _matching(
    source: tuple[Dim, ...], target: tuple[Dim, ...], befores: list[int], afters: list[int]
) -> list[_Group]:
    """Groups from the start on, up to where extents aren't known to match."""
    groups: list[_Group] = []
    i = j = 0
    while i < len(befores) and j < len(afters):
        start, a, b = (i, j), source[befores[i]], target[afters[j]]
        i, j = i + 1, j + 1
        while a != b and isinstance(a, int) and isinstance(b, int):
            if a < b and i < len(befores):
                more, i = source[befores[i]], i + 1
                a = a * more if isinstance(more, int) else None
            elif b < a and j < len(afters):
                more, j = target[afters[j]], j + 1
                b = b * more if isinstance(more, int) else None
            else:
                return groups
        if a != b or a is None:
            return groups
        groups.append((tuple(befores[start[0] : i]), tuple(afters[start[1] : j])))
    return groups


def _placed(order: list[int], rank: int) -> Perm:
    """The transpose with ``order`` among its dimensions; the others have extent 1.

    Those go where a layout has them, if one has that order, else in front or behind the dimension
    that they follow.
    """
    usual = usual_perms(rank)
    known = set(order)
    found = next((c for c in usual if [p for p in c if p in known] == order), None)
    if found is not None:
        return found
    front = [d for d in range(rank) if d < min(order, default=rank)]
    result = [*front]
    for dim in order:
        result.append(dim)
        following = dim + 1
        while following < rank and following not in known:
            result.append(following)
            following += 1
    return tuple(result)


def usual_perms(rank: int) -> list[Perm]:
    """No transpose, channels first, channels last."""
    perms: list[Perm] = [tuple(range(rank))]
    if rank > 2:
        perms += [(0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)]
    return perms


def reshaped_dims(source: Shape, target: tuple[int, ...]) -> Shape:
    """The extents that a tensor gets under another shape, one of which may be -1.

    Raises:
        ValueError: it hasn't as many elements, or more than one is -1.
    """
    if min(target, default=0) < -1:
        raise ValueError(f"shape {list(target)} has an extent below -1")
    holes = [i for i, d in enumerate(target) if d < 0]
    if len(holes) > 1:
        raise ValueError(f"shape {list(target)} leaves more than one extent open")
    count, rest = element_count(source), math.prod(d for d in target if d >= 0)
    if not holes:
        if count is not None and count != rest:
            raise ValueError(f"{plural(count, 'element')} can't have the shape {list(target)}")
        return target
    if count is not None:
        if rest == 0:
            return tuple(max(d, 0) for d in target)
        if count % rest:
            raise ValueError(
                f"{plural(count, 'element')} can't be divided into shape {list(target)}"
            )
        return tuple(count // rest if d < 0 else d for d in target)
    return tuple(_open_extent(source, rest) if d < 0 else d for d in target)


def _open_extent(source: Shape, rest: int) -> Dim:
    """The one open extent of the target: the source's one unknown, if all the others cancel out."""
    if source is None:
        return None
    unknown = [d for d in source if not isinstance(d, int)]
    known = math.prod(d for d in source if isinstance(d, int))
    return unknown[0] if len(unknown) == 1 and known == rest else None


def joined_dims(shapes: Sequence[tuple[Dim, ...]], axis: int) -> tuple[Dim, ...]:
    """The extents of tensors joined along an axis.

    Raises:
        ValueError: they differ in rank, or in other extents.
    """
    rank = len(shapes[0])
    if not 0 <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for rank {rank}")
    if any(len(shape) != rank for shape in shapes):
        raise ValueError(f"operands have ranks {[len(s) for s in shapes]}, must be equal")
    result: list[Dim] = list(shapes[0])
    for shape in shapes[1:]:
        for i, (a, b) in enumerate(zip(result, shape, strict=True)):
            if i == axis:
                both = isinstance(a, int) and isinstance(b, int)
                result[i] = a + b if both else None  # type: ignore[operator]
            elif isinstance(a, int) and isinstance(b, int) and a != b:
                raise ValueError(f"extents {a} and {b} of dimension {i} must be equal")
            else:
                result[i] = merge_dim(a, b)
    return tuple(result)
