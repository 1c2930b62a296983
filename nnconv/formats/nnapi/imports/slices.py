"""Operations that cut, pad or turn round stretches of a tensor."""

from __future__ import annotations

import numpy as np

from nnconv.errors import plural
from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ir.quant import dequantize
from nnconv.ops import elementwise as e
from nnconv.ops.shape import Reshape, Squeeze
from nnconv.ops.slices import Pad, PadMode, Reverse, Slice, slice_extent

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
        raise s.fail(
            f"{plural(len(begin), 'start')} and {plural(len(size), 'size')} for rank {rank}"
        )
    for extent, start, count in zip(x.shape or (), begin, size, strict=True):
        if isinstance(extent, int) and not 0 <= start <= start + max(count, 0) <= extent:
            raise s.fail(f"{plural(count, 'element')} from {start} on of {extent}")
    ends_known = tuple(
        None if count < 0 else start + count for start, count in zip(begin, size, strict=True)
    )
    s.emit(Slice(starts=begin, ends=ends_known, strides=(1,) * rank), [x])


def import_strided_slice(s: Source) -> None:
    """STRIDED_SLICE: masks leave bounds out, or drop dimensions of which one element is taken."""
    x = s.operand("input")
    rank = s.rank(x)
    masks = [s.int(f"{name}_mask") for name in ("begin", "end", "shrink_axis")]
    no_begin, no_end, shrink = (
        tuple(bool(mask >> axis & 1) for axis in range(rank)) for mask in masks
    )
    gone = tuple(axis for axis in range(rank) if shrink[axis])
    begin, end, strides = s.ints("begin"), s.ints("end"), s.ints("strides")
    inputs: list[Value | None] = [x]
    if begin is None or end is None or strides is None:
        op = Slice(starts=None, ends=None, strides=None)
        steps = s.operand("strides")
        inputs += [
            _masked(s, s.operand("begin"), steps, no_begin, (0, _FAR)),
            _masked(s, s.operand("end"), steps, no_end, (_FAR, -_FAR)),
            steps,
        ]
    else:
        if not len(begin) == len(end) == len(strides) == rank:
            raise s.fail(
                f"{len(begin)}, {len(end)}, {plural(len(strides), 'bound')} for rank {rank}"
            )
        starts = tuple(None if no_begin[i] else begin[i] for i in range(rank))
        ends = tuple(None if no_end[i] else end[i] for i in range(rank))
        for axis in range(rank):
            _check_stretch(
                s, x, axis, (starts[axis], ends[axis], strides[axis]), shrinks=shrink[axis]
            )
        op = Slice(starts=starts, ends=ends, strides=strides)
    if not gone:
        s.emit(op, inputs)
        return
    piece = s.add(op, inputs, quant=s.result_quant())
    known = tuple(1 if i in gone else d for i, d in enumerate(piece.shape or ()))
    piece.type = piece.type.with_shape(known)
    if len(gone) == rank:
        s.emit(Reshape(shape=(1,)), [piece])
    else:
        s.emit(Squeeze(axes=gone), [piece])


def _check_stretch(
    s: Source, x: Value, axis: int, bounds: tuple[int | None, int | None, int], *, shrinks: bool
) -> None:
    """See that a stride isn't 0, and that a dimension that goes has one element, forward."""
    if not bounds[2] or (shrinks and bounds[2] < 0):
        raise s.fail(f"stride {bounds[2]} along axis {axis}")
    count = slice_extent((x.shape or ())[axis], *bounds)
    if shrinks and isinstance(count, int) and count != 1:
        raise s.fail(
            f"axis {axis} is dropped, but {plural(count, 'element')} would be taken along it"
        )


def _masked(
    s: Source, bounds: Value, steps: Value, mask: tuple[bool, ...], whole: tuple[int, int]
) -> Value:
    """Bounds of which some don't count: there, those of all elements forward or backward."""
    if not any(mask):
        return bounds
    forward, backward = (s.const(np.full(1, bound, np.int32)) for bound in whole)
    turned = s.add(e.Less(), [steps, s.const(np.zeros(1, np.int32))])
    edge = s.add(e.Select(), [turned, backward, forward])
    return s.add(e.Select(), [s.const(np.asarray(mask)), edge, bounds])


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
