"""Ops that cut, pad, turn round or overwrite stretches of a tensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnconv.errors import plural
from nnconv.formats.tflite._gen.schema import MirrorPadMode
from nnconv.formats.tflite.importer import Importer, Source
from nnconv.formats.tflite.imports.shape import index_const, vector
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import dequantize, quantize
from nnconv.ir.types import Dim, Shape
from nnconv.ops import elementwise as e
from nnconv.ops import shape as o
from nnconv.ops.quantize import Cast
from nnconv.ops.slices import (
    DynamicUpdateSlice,
    Pad,
    PadMode,
    Reverse,
    ReverseSequence,
    Slice,
    slice_extent,
)

_FAR = int(np.iinfo(np.int32).max)
"""Behind every end."""


def import_slice(s: Source) -> None:
    """SLICE: begin and size; a size of -1 is all the rest."""
    x, begin, size = s.operand(0), s.ints(1), s.ints(2)
    rank = s.rank(x)
    strides = (1,) * rank
    if begin is not None and size is not None:
        if len(begin) != rank or len(size) != rank:
            raise s.fail(
                f"{plural(len(begin), 'begin')} and {plural(len(size), 'size')} for rank {rank}"
            )
        if min(begin, default=0) < 0 or min(size, default=0) < -1:
            raise s.fail(f"begin {list(begin)} and size {list(size)} reach before the start")
        ends = tuple(None if n < 0 else b + n for b, n in zip(begin, size, strict=True))
        s.emit(Slice(starts=begin, ends=ends, strides=strides), [x])
        return
    starts = vector(s, s.operand(1), rank)
    sizes = vector(s, s.operand(2), rank)
    if sizes.dtype is not starts.dtype:
        sizes = s.add(Cast(dtype=starts.dtype), [sizes])
    ends_value = s.add(e.Add(), [starts, sizes])
    known: Shape = s.dims(2)
    if known is None or any(not isinstance(n, int) or n < 0 for n in known):
        open_end = s.add(e.Less(), [sizes, index_const(s, [0] * rank, starts)])
        far = index_const(s, [_FAR] * rank, starts)
        ends_value = s.add(e.Select(), [open_end, far, ends_value])
    known = (None,) * rank if known is None else tuple(None if n == -1 else n for n in known)
    inputs = [x, starts, ends_value]
    s.emit(Slice(starts=None, ends=None, strides=strides), inputs, shape=known)


@dataclass(frozen=True)
class _Bound:
    """What STRIDED_SLICE does to one dimension of its operand.

    Attributes:
        entry: which entry of begin, end and strides tells it; None where the ellipsis stands.
        begin, end: whether these count (they aren't masked).
        shrink: whether one element is taken and the dimension goes.
    """

    entry: int | None
    begin: bool
    end: bool
    shrink: bool


def _expand_masks(s: Source, count: int, rank: int) -> tuple[list[_Bound], list[int], list[int]]:
    """All five masks of STRIDED_SLICE spelled out once for every dimension of the operand.

    Returns what happens to each dimension, the dimensions that go, and the places of the result
    (with those gone) where new ones of extent 1 stand.
    """
    masks = {
        name: s.options.int(f"{name}_mask")
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }

    def bit(name: str, entry: int) -> bool:
        return bool(masks[name] >> entry & 1)

    ellipses = [i for i in range(count) if bit("ellipsis", i)]
    if len(ellipses) > 1:
        raise s.fail("more than one ellipsis")
    new = [i for i in range(count) if bit("new_axis", i) and i not in ellipses]
    named = count - len(new) - len(ellipses)
    if named > rank:
        raise s.fail(f"{plural(named, 'bound')} for rank {rank}")
    bounds: list[_Bound] = []
    gone: list[int] = []
    added: list[int] = []
    place = 0  # in the result
    rest = _Bound(None, begin=False, end=False, shrink=False)
    for entry in range(count):
        if entry in ellipses:
            bounds += [rest] * (rank - named)
            place += rank - named
        elif entry in new:
            added.append(place)
            place += 1
        else:
            shrink = bit("shrink_axis", entry)
            if shrink:
                gone.append(len(bounds))
            begin = shrink or not bit("begin", entry)
            bounds.append(_Bound(entry, begin, shrink or not bit("end", entry), shrink))
            place += not shrink
    bounds += [rest] * (rank - len(bounds))
    return bounds, gone, added


def import_strided_slice(s: Source) -> None:
    """STRIDED_SLICE: a Slice of full rank, then the dimensions that go, then the new ones."""
    x = s.operand(0)
    rank = s.rank(x)
    lengths = [v.shape for v in (s.operand(1), s.operand(2), s.operand(3))]
    count = next((n[0] for n in lengths if n and isinstance(n[0], int)), None)
    if count is None:
        raise s.unsupported("the number of bounds isn't known")
    if count > 32:
        raise s.fail(f"{plural(count, 'bound')}, the masks have 32 bits")
    bounds, gone, added = _expand_masks(s, count, rank)
    known = [_entries(s.dims(i), count) for i in (1, 2, 3)]
    starts = [_start(b, known[0]) for b in bounds]
    strides = [_stride(b, known[2]) for b in bounds]
    offset = s.options.bool("offset")
    ends = [_end(b, known[0], known[1], offset=offset) for b in bounds]
    if 0 in strides:
        raise s.fail("a stride of 0")
    if "?" not in (*starts, *ends, *strides):
        op = Slice(starts=_plain(starts), ends=_plain(ends), strides=_numbers(strides))
        inputs: list[Value | None] = [x]
    else:
        op, inputs = _at_run_time(s, bounds, strides, offset=offset)
    triples = zip(starts, ends, strides, strict=True)
    dims: list[Dim] = [
        1 if bound.shrink else _extent(dim, *triple)
        for dim, bound, triple in zip(x.shape or (), bounds, triples, strict=True)
    ]
    if not gone and not added:
        s.emit(op, inputs, shape=tuple(dims))
        return
    value = s.add(op, inputs)
    value.type = value.type.with_shape(tuple(dims))
    if gone and added:
        value = s.add(o.Squeeze(axes=tuple(gone)), [value])
        s.emit(o.Unsqueeze(axes=tuple(added)), [value])
    elif gone:
        s.emit(o.Squeeze(axes=tuple(gone)), [value])
    else:
        s.emit(o.Unsqueeze(axes=tuple(added)), [value])


Entry = int | str | None
"""A bound: a number, "?" (told at run time), or None (masked)."""


def _entries(dims: Shape, count: int) -> list[Entry]:
    if dims is None:
        return ["?"] * count
    return [d if isinstance(d, int) else "?" for d in dims]


def _plain(entries: list[Entry]) -> tuple[int | None, ...]:
    return tuple(n for n in entries if not isinstance(n, str))


def _numbers(entries: list[Entry]) -> tuple[int, ...]:
    return tuple(n for n in entries if isinstance(n, int))


def _start(bound: _Bound, begins: list[Entry]) -> Entry:
    return begins[bound.entry] if bound.begin and bound.entry is not None else None


def _stride(bound: _Bound, strides: list[Entry]) -> Entry:
    if bound.entry is None or bound.shrink:
        return 1
    return strides[bound.entry]


def _end(bound: _Bound, begins: list[Entry], ends: list[Entry], *, offset: bool) -> Entry:
    if not bound.end or bound.entry is None:
        return None
    begin, end = begins[bound.entry], ends[bound.entry]
    if bound.shrink:
        if isinstance(begin, int):
            return None if begin == -1 else begin + 1
        return "?"
    if offset:
        return begin + end if isinstance(begin, int) and isinstance(end, int) else "?"
    return end


def _extent(dim: Dim, start: Entry, end: Entry, stride: Entry) -> Dim:
    if isinstance(start, str) or isinstance(end, str) or not isinstance(stride, int):
        return None
    return slice_extent(dim, start, end, stride)


def _at_run_time(
    s: Source, bounds: list[_Bound], strides: list[Entry], *, offset: bool
) -> tuple[Slice, list[Value | None]]:
    """The Slice whose bounds are put together at run time from the operator's operands."""
    begin, end, step = s.operand(1), s.operand(2), s.operand(3)
    fixed = all(isinstance(stride, int) for stride in strides)
    ones = index_const(s, [1] * len(bounds), begin)
    steps = ones if fixed else _spread(s, step, bounds, ones)
    if fixed:
        backward = s.const(np.asarray([isinstance(n, int) and n < 0 for n in strides]))
    else:
        backward = s.add(e.Less(), [steps, index_const(s, [0] * len(bounds), begin)])
    first = s.add(
        e.Select(),
        [
            backward,
            index_const(s, [_FAR] * len(bounds), begin),
            index_const(s, [0] * len(bounds), begin),
        ],
    )
    last = s.add(
        e.Select(),
        [
            backward,
            index_const(s, [-_FAR] * len(bounds), begin),
            index_const(s, [_FAR] * len(bounds), begin),
        ],
    )
    starts = _spread(s, begin, bounds, first, [b.begin for b in bounds])
    stop = s.add(e.Add(), [begin, end]) if offset else end
    ends = _spread(s, stop, bounds, last, [b.end for b in bounds])
    if any(b.shrink for b in bounds):
        behind = s.add(e.Add(), [starts, ones])
        wraps = s.add(e.Equal(), [behind, index_const(s, [0] * len(bounds), begin)])
        behind = s.add(e.Select(), [wraps, index_const(s, [_FAR] * len(bounds), begin), behind])
        chosen = s.const(np.asarray([b.shrink for b in bounds]))
        ends = s.add(e.Select(), [chosen, behind, ends])
    if fixed:
        op = Slice(starts=None, ends=None, strides=_numbers(strides))
        return op, [s.operand(0), starts, ends]
    return Slice(starts=None, ends=None, strides=None), [s.operand(0), starts, ends, steps]


def _spread(
    s: Source, entries: Value, bounds: list[_Bound], rest: Value, counts: list[bool] | None = None
) -> Value:
    """One entry for each dimension: the operand's where it counts, else that of ``rest``."""
    parts: list[Value] = []
    whole = [
        b.entry is not None and (counts is None or counts[i]) and not (counts is None and b.shrink)
        for i, b in enumerate(bounds)
    ]
    if all(whole) and [b.entry for b in bounds] == list(range(len(bounds))):
        return entries if entries.shape == (len(bounds),) else vector(s, entries, len(bounds))
    for i, bound in enumerate(bounds):
        at = bound.entry if whole[i] else None
        source, place = (rest, i) if at is None else (entries, at)
        parts.append(s.add(Slice(starts=(place,), ends=(place + 1,), strides=(1,)), [source]))
    return parts[0] if len(parts) == 1 else s.add(o.Concat(axis=0), parts)


# -------------------------------------------------------------------- padding


def import_pad(s: Source) -> None:
    """PAD, PADV2: with the value of operand 2, else with real zero."""
    x = s.operand(0)
    value, real = s.optional(2), 0.0
    if value is not None:
        value = _in_terms_of(s, value, x)
        if value.data is not None and x.quant is not None and value.dtype.bits <= 16:
            real = float(dequantize(value.data.reshape(-1)[:1], x.quant, np.float64)[0])
            value = None
        elif value.data is not None and value.dtype in (DType.FLOAT32, DType.FLOAT16):
            real = float(value.data.reshape(-1)[0])
            value = None
    _pad(s, PadMode.CONSTANT, value, real)


def _in_terms_of(s: Source, value: Value, x: Value) -> Value:
    """A pad value in x's parameters."""
    if value.quant == x.quant or x.quant is None or value.quant is None or value.data is None:
        return value
    codes = quantize(dequantize(value.data, value.quant, np.float64), x.quant, x.dtype)
    return s.const(codes, value.name, quant=x.quant)


def import_mirror_pad(s: Source) -> None:
    """MIRROR_PAD."""
    mode = s.options.int("mode")
    if mode not in (MirrorPadMode.REFLECT, MirrorPadMode.SYMMETRIC):
        raise s.fail(f"mode {mode} is unknown")
    _pad(s, PadMode.REFLECT if mode == MirrorPadMode.REFLECT else PadMode.SYMMETRIC, None, 0.0)


def _pad(s: Source, mode: PadMode, value: Value | None, real: float) -> None:
    x, pads = s.operand(0), s.ints(1)
    tail = [] if value is None else [value]
    if pads is not None:
        _check_pads(s, x.shape, pads, mode)
        op = Pad(before=pads[0::2], after=pads[1::2], mode=mode, value=real)
        s.emit(op, [x, None, *tail] if tail else [x])
        return
    op = Pad(before=None, after=None, mode=mode, value=real)
    s.emit(op, [x, s.operand(1), *tail])


def _check_pads(s: Source, shape: Shape, pads: tuple[int, ...], mode: PadMode) -> None:
    """See that no padding cuts, and no mirror shows more than there is; LiteRT refuses both."""
    if min(pads, default=0) < 0:
        raise s.fail(f"pads {list(pads)}, allowed are 0 and more")
    if mode is PadMode.CONSTANT or shape is None:
        return
    edge = mode is PadMode.REFLECT  # the outermost element isn't repeated
    for dim, before, after in zip(shape, pads[0::2], pads[1::2], strict=False):
        if isinstance(dim, int) and max(before, after) > dim - edge:
            raise s.fail(f"pads {list(pads)} mirror more than {list(shape)} has")


# -------------------------------------------------------------------- turning round, overwriting


def import_reverse(s: Source) -> None:
    """REVERSE_V2; with axes known at run time a Slice whose strides are."""
    x, axes = s.operand(0), s.ints(1)
    rank = s.rank(x)
    if axes is not None:
        s.emit(Reverse(axes=tuple(s.axis(axis, rank) for axis in axes)), [x])
        return
    operand = s.operand(1)
    count = operand.shape[0] if operand.shape else 1
    if not isinstance(count, int):
        raise s.unsupported("the number of axes isn't known")
    named = vector(s, operand, count)
    places = np.arange(rank)
    turned: Value | None = None
    for i in range(count):
        axis = s.add(Slice(starts=(i,), ends=(i + 1,), strides=(1,)), [named])
        for offset in (0, rank):  # from the front, from the end
            here = s.add(e.Equal(), [index_const(s, (places - offset).tolist(), named), axis])
            turned = here if turned is None else s.add(e.LogicalOr(), [turned, here])
    if turned is None:
        s.emit(Reverse(axes=()), [x])
        return
    starts, ends, strides = (
        s.add(
            e.Select(),
            [
                turned,
                index_const(s, [backward] * rank, named),
                index_const(s, [forward] * rank, named),
            ],
        )
        for backward, forward in ((_FAR, 0), (-_FAR, _FAR), (-1, 1))
    )
    op = Slice(starts=None, ends=None, strides=None)
    s.emit(op, [x, starts, ends, strides], shape=x.shape)


def import_reverse_sequence(s: Source) -> None:
    """REVERSE_SEQUENCE."""
    x, lengths = s.operand(0), s.operand(1)
    rank = s.rank(x)
    op = ReverseSequence(
        axis=s.axis(s.options.int("seq_dim"), rank),
        batch_axis=s.axis(s.options.int("batch_dim"), rank),
    )
    s.emit(op, [x, lengths])


def import_dynamic_update_slice(s: Source) -> None:
    """DYNAMIC_UPDATE_SLICE."""
    s.emit(DynamicUpdateSlice(), [s.operand(0), s.operand(1), s.operand(2)])


IMPORTERS: dict[str, Importer] = {
    "SLICE": import_slice,
    "STRIDED_SLICE": import_strided_slice,
    "PAD": import_pad,
    "PADV2": import_pad,
    "MIRROR_PAD": import_mirror_pad,
    "REVERSE_V2": import_reverse,
    "REVERSE_SEQUENCE": import_reverse_sequence,
    "DYNAMIC_UPDATE_SLICE": import_dynamic_update_slice,
}
