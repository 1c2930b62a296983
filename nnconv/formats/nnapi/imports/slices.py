"""Operations that cut, pad or turn round stretches of a tensor."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ir.quant import dequantize
from nnconv.ops import elementwise as e
from nnconv.ops.shape import Reshape, Squeeze
from nnconv.ops.slices import Pad, PadMode, Reverse, Slice

_FAR = np.iinfo(np.int32).max


def import_slice(s: Source) -> None:
    """SLICE: a size of -1 goes to the end."""
    x = s.operand("input")
    rank = s.rank(x)
    begin, size = s.ints("begin"), s.ints("size")
    if begin is None or size is None:
        starts, sizes = s.operand("begin"), s.operand("size")
        ends = s.add(e.Add(), [starts, sizes])
        zero, far = s.const(np.zeros(1, np.int32)), s.const(np.full(1, _FAR, np.int32))
        ends = s.add(e.Select(), [s.add(e.Less(), [sizes, zero]), far, ends])
        s.emit(Slice(starts=None, ends=None, strides=(1,) * rank), [x, starts, ends])
        return
    if len(begin) != rank or len(size) != rank:
        raise s.fail(f"{len(begin)} starts and {len(size)} sizes for rank {rank}")
    for extent, start, count in zip(x.shape or (), begin, size, strict=True):
        if isinstance(extent, int) and not 0 <= start <= start + max(count, 0) <= extent:
            raise s.fail(f"{count} elements from {start} on of {extent}")
    ends_known = tuple(
        None if count < 0 else start + count for start, count in zip(begin, size, strict=True)
    )
    s.emit(Slice(starts=begin, ends=ends_known, strides=(1,) * rank), [x])


def import_strided_slice(s: Source) -> None:
    """STRIDED_SLICE: masks leave bounds out, or take one element and its dimension."""
    x = s.operand("input")
    rank = s.rank(x)
    begin, end, strides = s.ints("begin"), s.ints("end"), s.ints("strides")
    masks = [s.int(f"{name}_mask") for name in ("begin", "end", "shrink_axis")]
    if begin is None or end is None or strides is None:
        if any(masks):
            raise s.unsupported("its bounds are computed at run time, and it has masks")
        bounds = [s.operand(name) for name in ("begin", "end", "strides")]
        s.emit(Slice(starts=None, ends=None, strides=None), [x, *bounds])
        return
    if not len(begin) == len(end) == len(strides) == rank:
        raise s.fail(f"{len(begin)}, {len(end)}, {len(strides)} bounds for rank {rank}")
    starts, ends, steps, gone = [], [], [], []
    for axis in range(rank):
        no_begin, no_end, shrink = (bool(mask >> axis & 1) for mask in masks)
        if not strides[axis] or (shrink and strides[axis] < 0):
            raise s.fail(f"stride {strides[axis]} along axis {axis}")
        start = None if no_begin else begin[axis]
        stop = None if no_end else end[axis]
        if shrink:
            gone.append(axis)
            start = begin[axis]
            stop = None if start == -1 else start + 1
        starts.append(start)
        ends.append(stop)
        steps.append(1 if shrink else strides[axis])
    op = Slice(starts=tuple(starts), ends=tuple(ends), strides=tuple(steps))
    if not gone:
        s.emit(op, [x])
        return
    _check_picked(s, x, starts, gone)
    piece = s.add(op, [x], quant=s.result_quant())
    if len(gone) == rank:
        s.emit(Reshape(shape=(1,)), [piece])
    else:
        s.emit(Squeeze(axes=tuple(gone)), [piece])


def _check_picked(s: Source, x: Value, starts: list[int | None], gone: list[int]) -> None:
    for axis in gone:
        extent, start = (x.shape or ())[axis], starts[axis]
        if isinstance(extent, int) and start is not None and not -extent <= start < extent:
            raise s.fail(f"element {start} of {extent} along axis {axis}")


def import_pad(s: Source) -> None:
    """PAD, with real 0; PAD_V2, with a value that quantized data have as a code."""
    x = s.operand("input")
    real = 0.0
    if s.name == "PAD_V2":
        if x.quant is None:
            real = s.float("pad_value")
        else:
            code = np.asarray(s.int("pad_value"), np.int64).astype(x.dtype.numpy)
            real = float(dequantize(code, x.quant, np.float64))
    _pad(s, PadMode.CONSTANT, real)


def import_mirror_pad(s: Source) -> None:
    """MIRROR_PAD."""
    _pad(s, PadMode.SYMMETRIC if s.int("mode") else PadMode.REFLECT, 0.0)


def _pad(s: Source, mode: PadMode, real: float) -> None:
    x, pads = s.operand("input"), s.ints("paddings")
    if pads is None:
        s.emit(Pad(before=None, after=None, mode=mode, value=real), [x, s.operand("paddings")])
        return
    if min(pads, default=0) < 0:
        raise s.fail(f"paddings {list(pads)}, allowed are 0 and more")
    before, after = pads[0::2], pads[1::2]
    if mode is not PadMode.CONSTANT and x.shape is not None:
        edge = mode is PadMode.REFLECT  # the outermost element isn't repeated
        for extent, sides in zip(x.shape, zip(before, after, strict=True), strict=False):
            if isinstance(extent, int) and max(sides) > extent - edge:
                raise s.fail(f"paddings {list(pads)} mirror more than {list(x.shape)} has")
    s.emit(Pad(before=before, after=after, mode=mode, value=real), [x])


def import_reverse(s: Source) -> None:
    """REVERSE: along one axis from the front."""
    x = s.operand("input")
    (axis,) = s.required_ints("axis")
    if not 0 <= axis < s.rank(x):
        raise s.fail(f"axis {axis} is out of range for rank {s.rank(x)}")
    s.emit(Reverse(axes=(axis,)), [x])


IMPORTERS: dict[str, Importer] = {
    "MIRROR_PAD": import_mirror_pad,
    "PAD": import_pad,
    "PAD_V2": import_pad,
    "REVERSE": import_reverse,
    "SLICE": import_slice,
    "STRIDED_SLICE": import_strided_slice,
}
