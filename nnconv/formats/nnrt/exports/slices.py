"""Ops that cut, pad or turn round stretches of a tensor."""

from __future__ import annotations

import numpy as np

from nnconv.decompositions.base import Refused
from nnconv.formats.nnrt.exporter import Exporter, Input, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops import slices as o

MODES = {o.PadMode.CONSTANT: 0, o.PadMode.REFLECT: 1, o.PadMode.SYMMETRIC: 2}

_FAR = int(np.iinfo(np.int32).max)


def export_slice(node: Node, t: Target) -> None:
    """SLICE where it goes forward by single elements of known extents, else STRIDED_SLICE."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, o.Slice)
    if op.starts is None or op.ends is None or op.strides is None:
        _open_slice(node, t)
        return
    extents, sizes = static_shape(x.shape), static_shape(y.shape)
    if all(step == 1 for step in op.strides) and extents is not None and sizes is not None:
        begin = [_start(start, extent) for start, extent in zip(op.starts, extents, strict=True)]
        cut: dict[str, Input] = {"input": x, "begin": t.ints(begin), "size": t.ints(sizes)}
        t.emit("SLICE", cut, y)
        return
    masks = {"beginMask": 0, "endMask": 0}
    begin, end = [], []
    for axis, (start, last) in enumerate(zip(op.starts, op.ends, strict=True)):
        masks["beginMask"] |= (start is None) << axis
        masks["endMask"] |= (last is None) << axis
        begin.append(0 if start is None else max(min(start, _FAR), -_FAR))
        end.append(0 if last is None else max(min(last, _FAR), -_FAR))
    inputs: dict[str, Input] = {
        "input": x, "begin": t.ints(begin), "end": t.ints(end), "strides": t.ints(op.strides),
    }  # fmt: skip
    t.emit("STRIDED_SLICE", inputs, y, masks)


def _start(start: int | None, extent: int) -> int:
    if start is None:
        return 0
    return min(max(start + extent, 0) if start < 0 else start, extent)


def _open_slice(node: Node, t: Target) -> None:
    """STRIDED_SLICE of bounds that are computed at run time."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, o.Slice)
    operands = [value for value in node.inputs[1:] if value is not None]
    given = [
        operands.pop(0) if known is None else known for known in (op.starts, op.ends, op.strides)
    ]
    masks = {}
    inputs: dict[str, Input] = {"input": x}
    for name, bound in zip(("begin", "end", "strides"), given, strict=True):
        if isinstance(bound, Value):
            inputs[name] = bound
            continue
        if name != "strides":
            masks[f"{name}Mask"] = sum((entry is None) << axis for axis, entry in enumerate(bound))
        inputs[name] = t.ints(0 if entry is None else entry for entry in bound)
    t.emit("STRIDED_SLICE", inputs, node.outputs, masks)


def export_pad(node: Node, t: Target) -> None:
    """PAD."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, o.Pad)
    mode = MODES.get(op.mode)
    if mode is None or (len(node.inputs) > 2 and node.inputs[2] is not None):
        raise t.refused(f"PAD has no mode {op.mode.value}, and a value that is known")
    if x.quant != y.quant:
        raise t.to_floats("PAD keeps the parameters of its codes")
    if x.dtype.is_integer and not x.type.has_codes:
        open_pads = op.before is None  # else constants are put around it
        floats = frozenset({DType.FLOAT32}) if open_pads else None
        raise Refused("PAD takes no integers", types=floats, operands=(0,))
    if op.before is None or op.after is None:
        rows: Input = node.operand(1)
        if op.flat or op.axes is not None:
            raise t.refused("its paddings are computed at run time, in another order")
    elif min(*op.before, *op.after, 0) < 0:
        raise t.refused("PAD cuts nothing off")
    else:
        pairs = np.asarray([op.before, op.after], np.int32).T
        rows = t.const(np.ascontiguousarray(pairs))
    params = {"constantValue": op.value, "paddingMode": mode}
    t.emit("PAD", {"inputX": x, "paddings": rows}, y, params)


def export_reverse(node: Node, t: Target) -> None:
    """STRIDED_SLICE by steps of -1, between bounds that are left out."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, o.Reverse)
    rank = len(t.shape(x))
    bounds, whole = t.ints([0] * rank), (1 << rank) - 1
    steps = t.ints([-1 if axis in op.axes else 1 for axis in range(rank)])
    inputs: dict[str, Input] = {
        "input": x, "begin": bounds, "end": bounds, "strides": steps,
    }  # fmt: skip
    t.emit("STRIDED_SLICE", inputs, node.outputs, {"beginMask": whole, "endMask": whole})


EXPORTERS: dict[type[Op], Exporter] = {
    o.Pad: export_pad,
    o.Reverse: export_reverse,
    o.Slice: export_slice,
}
