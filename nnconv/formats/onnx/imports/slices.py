"""Ops that cut, turn round or overwrite stretches of a tensor."""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ir.types import Dim
from nnconv.ops import dynamic as d
from nnconv.ops.slices import ReverseSequence


def import_slice(src: Source) -> None:
    """Slice: bounds as attributes before opset 10, then as operands."""
    x = src.operand(0)
    if src.version < 10:
        starts, ends = src.int_list("starts"), src.int_list("ends")
        axes, steps = src.int_list("axes"), None
        if starts is None or ends is None:
            raise src.fail("starts or ends are missing")
    else:
        src.operand(1), src.operand(2)
        starts, ends, axes, steps = (src.ints(i) for i in range(1, 5))
        unknown = any(src.optional(i) is not None and src.ints(i) is None for i in range(1, 5))
        if unknown:
            _at_run_time(src, x, axes)
            return
    assert starts is not None
    assert ends is not None
    if x.shape is None:
        bounds = [
            None if v is None else src.const(np.asarray(v, np.int64))
            for v in (starts, ends, axes, steps)
        ]
        src.emit(d.DynamicSlice(), [x, *bounds])
        return
    op = d.static_slice(src.rank(x), starts, ends, axes, steps)
    if op is None:
        raise src.fail(
            f"starts {list(starts)}, ends {list(ends)}, axes {axes and list(axes)} and steps"
            f" {steps and list(steps)} don't fit together or rank {src.rank(x)}"
        )
    src.emit(op, [x])


def _at_run_time(src: Source, x: Value, axes: tuple[int, ...] | None) -> None:
    """Bounds that aren't all known; dimensions that aren't cut keep their extents."""
    operands = [src.optional(i) for i in range(5)]
    while operands[-1] is None:
        operands.pop()
    value = src.emit(d.DynamicSlice(), operands)[0]
    if x.shape is None:
        return
    first = operands[1]
    count = first.shape[0] if first is not None and first.shape else None
    if src.optional(3) is None and isinstance(count, int):
        axes = tuple(range(count))
    if axes is not None:
        cut = {src.axis(axis, len(x.shape)) for axis in axes}
        dims: list[Dim] = [None if i in cut else dim for i, dim in enumerate(x.shape)]
        value.type = value.type.with_shape(tuple(dims))


def _within(numbers: np.ndarray, greatest: int) -> bool:
    return bool(((numbers >= 0) & (numbers <= greatest)).all())


def import_reverse_sequence(src: Source) -> None:
    """ReverseSequence."""
    x = src.operand(0)
    rank = src.rank(x)
    axis = src.axis(src.int("time_axis", 0), rank)
    batch = src.axis(src.int("batch_axis", 1), rank)
    lengths, dims = src.constant(1), x.shape or ()
    extent = dims[axis]
    if lengths is not None and isinstance(extent, int) and not _within(lengths, extent):
        raise src.fail(f"lengths {lengths.tolist()} for an extent of {extent}")
    src.emit(ReverseSequence(axis=axis, batch_axis=batch), [x, src.operand(1)])


IMPORTERS: dict[str, Importer] = {
    "Slice": import_slice,
    "ReverseSequence": import_reverse_sequence,
}
