"""Ops that cut, pad or turn round stretches of a tensor."""

from __future__ import annotations

from typing import Literal

import numpy as np

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import quantize
from nnconv.ir.types import TensorType
from nnconv.ops.elementwise import Add, Less, Select
from nnconv.ops.slices import Pad, PadMode, Reverse, Slice

_FAR = (1 << 31) - 1


def export_slice(node: Node, t: Target) -> None:
    """SLICE of known extents with strides of 1, at level 3; else STRIDED_SLICE."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, Slice)
    if op.starts is None or op.ends is None or op.strides is None:
        _slice_open(node, t, op)
        return
    if all(stride == 1 for stride in op.strides) and t.level >= _SLICES:
        bounds = [
            slice(start, end).indices(extent)[:2] if isinstance(extent, int) else None
            for extent, start, end in zip(x.shape or (), op.starts, op.ends, strict=True)
        ]
        begins, sizes = [], []
        for bound, start, end in zip(bounds, op.starts, op.ends, strict=True):
            if bound is not None:
                begins.append(bound[0])
                sizes.append(max(bound[1] - bound[0], 0))
            elif end is None and (start or 0) >= 0:
                begins.append(start or 0)
                sizes.append(-1)
            else:
                break
        if len(begins) == len(op.starts):
            t.emit("SLICE", {"input": x, "begin": t.ints(begins), "size": t.ints(sizes)}, y)
            return
    masks = [sum(1 << i for i, b in enumerate(side) if b is None) for side in (op.starts, op.ends)]
    inputs = {
        "input": x,
        "begin": t.ints(_limited(start) for start in op.starts),
        "end": t.ints(_limited(end) for end in op.ends),
        "strides": t.ints(op.strides),
        "begin_mask": masks[0],
        "end_mask": masks[1],
        "shrink_axis_mask": 0,
    }
    t.emit("STRIDED_SLICE", inputs, y)


_SLICES = 3


def _limited(bound: int | None) -> int:
    return max(-_FAR, min(bound or 0, _FAR))


def _slice_open(node: Node, t: Target, op: Slice) -> None:
    """STRIDED_SLICE with bounds that are computed at run time, or constant as far as known.

    SLICE where the ends were made of sizes.
    """
    x, y = node.operand(0), node.outputs[0]
    if t.level >= _SLICES and op.starts is None and set(op.strides or (0,)) == {1}:
        sizes = _sizes_behind(node)
        if sizes is not None:
            begin = t.index(node.operand(1))
            t.emit("SLICE", {"input": x, "begin": begin, "size": t.index(sizes)}, y)
            return
    sides = []
    masks = [0, 0]
    for place, known in enumerate((op.starts, op.ends, op.strides)):
        if known is None:
            sides.append(t.index(node.operand(place + 1)))
            continue
        if place < 2:
            masks[place] = sum(1 << i for i, bound in enumerate(known) if bound is None)
        sides.append(t.ints(_limited(bound) for bound in known))
    inputs = {
        "input": x,
        "begin": sides[0],
        "end": sides[1],
        "strides": sides[2],
        "begin_mask": masks[0],
        "end_mask": masks[1],
        "shrink_axis_mask": 0,
    }
    t.emit("STRIDED_SLICE", inputs, y)


def _sizes_behind(node: Node) -> Value | None:
    """The sizes that a slice's ends are made of: negative ones go to the end, others are added."""
    ends = node.optional(2)
    choice = None if ends is None else ends.producer
    if choice is None or not isinstance(choice.op, Select):
        return None
    negative, far, total = (choice.operand(i) for i in range(3))
    below, added = negative.producer, total.producer
    if below is None or not isinstance(below.op, Less):
        return None
    if added is None or not isinstance(added.op, Add) or added.operand(0) is not node.inputs[1]:
        return None
    zero, bound, sizes = below.operand(1).data, far.data, added.operand(1)
    if zero is None or zero.any() or bound is None or bound.min() < _FAR:
        return None
    return sizes if below.operand(0) is sizes else None


def export_pad(node: Node, t: Target) -> None:
    """PAD of zeros, PAD_V2 of another number, MIRROR_PAD at level 7."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, Pad)
    given = node.optional(2)
    if op.before is None or op.after is None:
        if op.flat or op.axes is not None:
            raise t.refused("its paddings are computed at run time, not as pairs")
        pads = t.index(node.operand(1))
    else:
        if min(*op.before, *op.after, 0) < 0:
            raise t.refused("it cuts off")
        pads = t.const(np.asarray(list(zip(op.before, op.after, strict=True)), np.int32))
    inputs: dict[str, object] = {"input": x, "paddings": pads}
    if op.mode in (PadMode.REFLECT, PadMode.SYMMETRIC) and t.level >= _MIRRORS:
        t.emit("MIRROR_PAD", {**inputs, "mode": int(op.mode is PadMode.SYMMETRIC)}, y)
        return
    if op.mode is not PadMode.CONSTANT:
        _pad_by_gather(node, t, op)
        return
    if given is not None and given.data is None:
        raise t.refused("the number to pad with is computed at run time")
    if given is not None and given.data is not None:
        number = given.data.reshape(-1)[0].item()
        if x.quant is not None and given.quant != x.quant:
            raise t.to_floats("the number to pad with has other parameters")
    elif x.quant is not None:
        number = quantize(np.asarray(op.value, np.float64), x.quant, x.dtype).item()
    else:
        number = op.value
    zero = 0 if x.quant is None else x.quant.zero_point[0]
    if number == zero:
        t.emit("PAD", inputs, y)
    else:
        t.emit("PAD_V2", {**inputs, "pad_value": number}, y)


_MIRRORS = 7

_NUMPY_MODES: dict[PadMode, Literal["reflect", "symmetric", "edge", "wrap"]] = {
    PadMode.REFLECT: "reflect",
    PadMode.SYMMETRIC: "symmetric",
    PadMode.EDGE: "edge",
    PadMode.WRAP: "wrap",
}


def _pad_by_gather(node: Node, t: Target, op: Pad) -> None:
    """A GATHER along each dimension that is padded."""
    x, y = node.operand(0), node.outputs[0]
    shape = list(t.static(x))
    if op.before is None or op.after is None:
        raise t.refused("its paddings are computed at run time")
    sides = zip(op.before, op.after, strict=True)
    padded = [(axis, pair) for axis, pair in enumerate(sides) if any(pair)]
    if not padded or 0 in shape:
        raise t.refused("it has nothing to repeat, or nothing to do")
    source = t.operand(x)
    for number, (axis, pair) in enumerate(padded):
        places = np.pad(np.arange(shape[axis], dtype=np.int32), pair, _NUMPY_MODES[op.mode])
        inputs = {"input": source, "axis": axis, "indices": t.const(places)}
        shape[axis] = len(places)
        if number == len(padded) - 1:
            t.emit("GATHER", inputs, y)
        else:
            source = t.result("GATHER", inputs, TensorType(x.dtype, tuple(shape), x.quant))


def export_reverse(node: Node, t: Target) -> None:
    """REVERSE along one axis after the other, at level 7; else a STRIDED_SLICE backward."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, Reverse)
    if not op.axes:
        t.keep(x, y)
        return
    if t.level < _REVERSES:
        rank = t.rank(x)
        both = sum(1 << axis for axis in range(rank))
        inputs = {
            "input": x,
            "begin": t.ints([0] * rank),
            "end": t.ints([0] * rank),
            "strides": t.ints(-1 if axis in op.axes else 1 for axis in range(rank)),
            "begin_mask": both,
            "end_mask": both,
            "shrink_axis_mask": 0,
        }
        t.emit("STRIDED_SLICE", inputs, y)
        return
    source = t.operand(x)
    for axis in op.axes[:-1]:
        kind = TensorType(x.dtype, x.shape, x.quant)
        source = t.result("REVERSE", {"input": source, "axis": t.ints([axis])}, kind)
    t.emit("REVERSE", {"input": source, "axis": t.ints([op.axes[-1]])}, y)


_REVERSES = 7

EXPORTERS: dict[type[Op], Exporter] = {
    Slice: export_slice,
    Pad: export_pad,
    Reverse: export_reverse,
}
