"""Pad; and ops that exchange space with depth."""

from __future__ import annotations

import numpy as np

from nnconv.errors import plural
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.op import Layout
from nnconv.ir.types import static_shape
from nnconv.ops import elementwise as e
from nnconv.ops.blocks import DepthToSpace, SpaceToDepth
from nnconv.ops.gather import Gather, ScatterNd
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Concat, ShapeOf, Split, Unsqueeze
from nnconv.ops.slices import Pad, PadMode, Slice

_MODES = {
    "constant": PadMode.CONSTANT,
    "reflect": PadMode.REFLECT,
    "edge": PadMode.EDGE,
    "wrap": PadMode.WRAP,
}


def import_pad(src: Source) -> None:
    """Pad: counts and value as attributes before opset 11, as operands since."""
    x = src.operand(0)
    name = src.text("mode", "constant")
    mode = _MODES.get(name)
    if mode is None:
        raise src.fail(f"mode is {name!r}")
    if src.version < 11:
        pads = src.int_list("paddings" if src.version < 2 else "pads")
        if pads is None:
            raise src.fail("attribute pads is missing")
        value = src.float("value", 0.0)
        op = _fixed(src, x, pads, None, mode).replace(value=value)
        src.emit(op, [x if x.quant is None else src.scope.reread(x, None)])
        return
    if src.version >= 18 and src.optional(3) is not None and src.ints(3) is None:
        _pad_somewhere(src, x, mode)
        return
    axes = _axes(src, x)
    known, fill, operands = src.ints(1), 0.0, [x]
    if mode is PadMode.CONSTANT and src.optional(2) is not None:
        constant = src.constant(2)
        if constant is not None and constant.size == 1 and _is_exact(constant):
            fill = float(constant.reshape(-1)[0])
        else:
            operands = [x, src.operand(2)]
    if x.quant is not None and mode is PadMode.CONSTANT and len(operands) == 1:
        # what it puts in is a code, not what that stands for
        operands = [x, src.const(np.asarray(fill, x.dtype.numpy), dtype=x.dtype)]
        fill = 0.0
    if known is None:
        op = Pad(before=None, after=None, mode=mode, value=fill, flat=True, axes=axes)
        src.emit(op, [x, src.operand(1), *operands[1:]])
        return
    op = _fixed(src, x, known, axes, mode).replace(value=fill)
    src.emit(op, [x, None, operands[1]] if len(operands) > 1 else [x])


def _pad_somewhere(src: Source, x: Value, mode: PadMode) -> None:
    """Counts for dimensions that are only known at run time: zeros for all the others."""
    axes, pads = src.operand(3), src.operand(1)
    rank = src.rank(x)
    count = axes.shape[0] if axes.shape is not None and len(axes.shape) == 1 else None
    if not isinstance(count, int):
        raise src.unsupported("how many axes it pads isn't known")
    if axes.dtype is not DType.INT64:
        axes = src.add(Cast(dtype=DType.INT64), [axes])
    size = src.const(np.asarray(rank, np.int64))
    places = src.add(Unsqueeze(axes=(1,)), [src.add(e.FloorMod(), [axes, size])])
    zeros = src.const(np.zeros(rank, np.int64))
    halves = src.add_many(Split(axis=0, sizes=(count, count)), [pads])
    sides = [src.add(ScatterNd(), [zeros, places, half]) for half in halves]
    op = Pad(before=None, after=None, mode=mode, flat=True)
    value = src.optional(2) if mode is PadMode.CONSTANT else None
    operands = [x, src.add(Concat(axis=0), sides)]
    src.emit(op, operands if value is None else [*operands, value])


def _is_exact(constant: np.ndarray) -> bool:
    """Whether a float holds a number as it is."""
    if constant.dtype.kind not in "fiub" and constant.dtype.name != "bfloat16":
        return False
    number = constant.reshape(-1)[0]
    return bool(np.isnan(number)) or float(number) == number


def _axes(src: Source, x: Value) -> tuple[int, ...] | None:
    """Which dimensions the counts are about; None for all."""
    if src.version < 18 or src.optional(3) is None:
        return None
    given = src.required_ints(3, "which axes it pads")
    rank = src.rank(x)
    axes = tuple(src.axis(a, rank) for a in given)
    if len(set(axes)) != len(axes):
        raise src.fail(f"axes {list(given)} name a dimension twice")
    return axes


def _fixed(
    src: Source, x: Value, pads: tuple[int, ...], axes: tuple[int, ...] | None, mode: PadMode
) -> Pad:
    """The op for counts that are known."""
    if len(pads) % 2:
        raise src.fail(f"{plural(len(pads), 'pad')}, must be an even number")
    open_ = Pad(before=None, after=None, mode=mode, flat=True, axes=axes)
    pairs = open_.pairs(pads, None if axes is None else src.rank(x))
    if pairs is None or (x.shape is not None and len(pairs) != len(x.shape)):
        raise src.fail(f"{plural(len(pads), 'pad')} for {x.type}")
    before, after = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    _check(src, x, pairs, mode)
    return Pad(before=before, after=after, mode=mode)


def _check(src: Source, x: Value, pairs: list[tuple[int, int]], mode: PadMode) -> None:
    """See that there is something to put in the new places."""
    for extent, pair in zip(x.shape or (), pairs, strict=False):
        if isinstance(extent, int) and extent + sum(pair) < 0:
            raise src.fail(f"pads {list(pair)} cut off more than an extent of {extent}")
        if mode is not PadMode.CONSTANT and extent == 0 and max(pair) > 0:
            raise src.fail(f"mode {mode.value} has nothing to repeat in an extent of 0")


def import_depth_space(src: Source) -> None:
    """DepthToSpace, SpaceToDepth."""
    x = src.operand(0)
    block = src.int("blocksize")
    if block < 1:
        raise src.fail(f"blocksize is {block}, must be positive")
    mode = src.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise src.fail(f"mode is {mode!r}")
    kind = DepthToSpace if src.node.op_type == "DepthToSpace" else SpaceToDepth
    src.emit(kind(layout=Layout.NCHW, block=block, column_row_depth=mode == "CRD"), [x])


def import_center_crop_pad(src: Source) -> None:
    """CenterCropPad: a Slice of what is too much, a Pad of what is too little; both round down."""
    x, wanted = src.operand(0), src.ints(1)
    rank = src.rank(x)
    axes = src.int_list("axes")
    places = tuple(range(rank)) if axes is None else tuple(src.axis(a, rank) for a in axes)
    assert x.shape is not None
    extents = static_shape(tuple(x.shape[i] for i in places))
    if wanted is None or extents is None:
        _center_at_run_time(src, x, places)
        return
    if len(wanted) != len(places) or min(wanted, default=0) < 0:
        raise src.fail(f"shape {list(wanted)} for {plural(len(places), 'axis', 'axes')}")
    starts, ends = [0] * rank, [*x.shape]
    before, after = [0] * rank, [0] * rank
    for axis, size, extent in zip(places, wanted, extents, strict=True):
        starts[axis] = max(extent - size, 0) // 2
        ends[axis] = starts[axis] + min(extent, size)
        missing = max(size - extent, 0)
        before[axis], after[axis] = missing // 2, missing - missing // 2
    limits = tuple(e if i in places and isinstance(e, int) else None for i, e in enumerate(ends))
    cut = Slice(starts=tuple(starts), ends=limits, strides=(1,) * rank)
    if not any((*before, *after)):
        src.emit(cut, [x])
        return
    if any(extent > size for extent, size in zip(extents, wanted, strict=True)):
        x = src.add(cut, [x])
    src.emit(Pad(before=tuple(before), after=tuple(after)), [x])


def _center_at_run_time(src: Source, x: Value, axes: tuple[int, ...]) -> None:
    zero, two = (src.const(np.asarray([n], np.int32)) for n in (0, 2))
    wanted = src.operand(1)
    if wanted.dtype is not DType.INT32:
        wanted = src.add(Cast(dtype=DType.INT32), [wanted])
    sizes = src.add(ShapeOf(dtype=DType.INT32, dims=axes), [x])
    excess = src.add(e.Maximum(), [src.add(e.Sub(), [sizes, wanted]), zero])
    first = src.add(e.FloorDiv(), [excess, two])
    last = src.add(e.Add(), [first, src.add(e.Minimum(), [sizes, wanted])])
    rank = src.rank(x)
    starts, ends = (_scattered(src, part, axes, rank) for part in (first, last))
    if len(axes) != rank:
        whole = src.add(ShapeOf(dtype=DType.INT32), [x])
        rest = np.asarray([i not in axes for i in range(rank)])
        ends = src.add(e.Select(), [src.const(rest), whole, ends])
    cut = src.add(Slice(starts=None, ends=None, strides=(1,) * rank), [x, starts, ends])
    missing = src.add(e.Maximum(), [src.add(e.Sub(), [wanted, sizes]), zero])
    before = src.add(e.FloorDiv(), [missing, two])
    pads = src.add(Concat(axis=0), [before, src.add(e.Sub(), [missing, before])])
    src.emit(Pad(before=None, after=None, flat=True, axes=axes), [cut, pads])


def _scattered(src: Source, values: Value, axes: tuple[int, ...], rank: int) -> Value:
    """A number for each of ``rank`` dimensions: those of ``axes``, 0 for the others."""
    if axes == tuple(range(rank)):
        return values
    places = [axes.index(i) if i in axes else len(axes) for i in range(rank)]
    with_zero = src.add(Concat(axis=0), [values, src.const(np.asarray([0], np.int32))])
    return src.add(Gather(axis=0), [with_zero, src.const(np.asarray(places, np.int32))])


IMPORTERS: dict[str, Importer] = {
    "Pad": import_pad,
    "CenterCropPad": import_center_crop_pad,
    "DepthToSpace": import_depth_space,
    "SpaceToDepth": import_depth_space,
}
