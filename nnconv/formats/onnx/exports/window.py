"""Windows and grids over every dimension."""

from __future__ import annotations

from nnconv.formats.onnx.bounds import bounded_nodes
from nnconv.formats.onnx.exact import extreme
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.exports.shape import Extent, combine
from nnconv.formats.onnx.scatter import FAR, cut, rank_of, shape_of, vector
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.gather import Reduction
from nnconv.ops.window import Dilate, ReduceWindow

_COMBINERS = {
    Reduction.ADD: "Add",
    Reduction.MUL: "Mul",
    Reduction.MIN: "Min",
    Reduction.MAX: "Max",
    Reduction.AND: "And",
    Reduction.OR: "Or",
}

_NO_PAD = {DType.INT16: DType.INT32, DType.UINT16: DType.INT32, DType.INT4: DType.INT8}
"""Types without a kernel of Pad, and the type to go through."""


def _combined(t: Target, reduction: Reduction, a: str, b: str, dtype: DType) -> str:
    if reduction in (Reduction.MIN, Reduction.MAX):
        return extreme(t, _COMBINERS[reduction], [a, b], dtype)
    return t.node(_COMBINERS[reduction], [a, b])


def export_reduce_window(node: Node, t: Target) -> None:
    """ReduceWindow: dimension by dimension, a Slice for each place in the window."""
    op, y = node.op, node.outputs[0]
    x, init = (node.operand(i) for i in range(2))
    assert isinstance(op, ReduceWindow)
    name = t.stored(x)
    spans = zip(op.window, op.stride, op.dilation, strict=True)
    for axis, (window, stride, dilation) in enumerate(spans):
        if (window, stride) == (1, 1):
            continue
        parts = []
        for place in range(bounded_nodes(t, window)):
            behind = (window - 1 - place) * dilation
            bounds = [[place * dilation], [-behind if behind else FAR], [axis], [stride]]
            parts.append(t.node("Slice", [name, *(t.const(b) for b in bounds)]))
        name = parts[0]
        for part in parts[1:]:
            name = _combined(t, op.reduction, name, part, x.dtype)
    start = t.stored(init) if init.shape == () else t.reshape(t.stored(init), [])
    t.set_stored(y, _combined(t, op.reduction, start, name, x.dtype))


def export_dilate(node: Node, t: Target) -> None:
    """Dilate."""
    y = node.outputs[0]
    x, value = node.inputs[:2]
    assert x is not None
    t.set_stored(y, _dilated(node, t, x, t.stored(x), t.stored(value)))


def _dilated(node: Node, t: Target, x: Value, name: str, fill: str) -> str:
    """Each dimension split off a new one, which is padded; the last piece is cut off."""
    op, run_time = node.op, node.optional(2)
    assert isinstance(op, Dilate)
    rank = rank_of(t, x)
    factors: list[Extent]
    if op.dilations is not None:
        factors = list(op.dilations)
    else:
        given = t.int64(run_time)
        factors = [cut(t, given, axis, axis + 1) for axis in range(rank)]
    sizes = shape_of(t, x)
    added = [combine(t, "Sub", factor, 1) for factor in factors]
    pads = vector(t, [0] * (2 * rank) + [p for extra in added for p in (0, extra)])
    spread = t.node("Unsqueeze", [name, t.const([2 * i + 1 for i in range(rank)])])
    padded = _padded(t, spread, pads, t.reshape(fill, []), x.dtype)
    grown = [combine(t, "Mul", n, f) for n, f in zip(sizes, factors, strict=True)]
    whole = t.node("Reshape", [padded, vector(t, grown)], allowzero=_allow_zero(t, grown))
    ends = [combine(t, "Sub", n, extra) for n, extra in zip(grown, added, strict=True)]
    bounds = [t.const([0] * rank), vector(t, ends)]
    return t.node("Slice", [whole, *bounds])


def _allow_zero(t: Target, sizes: list[Extent]) -> int | None:
    return (
        1 if t.opset >= 14 and any(size == 0 or isinstance(size, str) for size in sizes) else None
    )


def _padded(t: Target, name: str, pads: str, fill: str, dtype: DType) -> str:
    wide = _NO_PAD.get(dtype)
    if wide is None:
        return t.node("Pad", [name, pads, fill])
    return t.cast(t.node("Pad", [t.cast(name, wide), pads, t.cast(fill, wide)]), dtype)


EXPORTERS: dict[type[Op], Exporter] = {
    ReduceWindow: export_reduce_window,
    Dilate: export_dilate,
}
