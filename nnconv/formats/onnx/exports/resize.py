"""Resizing of images, in either layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnconv.formats.onnx.bounds import bounded_elements
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ops.conv import Conv2D, ConvTranspose2D
from nnconv.ops.resize import ResizeBilinear, ResizeNearest, nearest_indices
from nnconv.ops.shape import Transpose
from nnconv.ops.spatial import spatial_dims

_Mode = tuple[str, str]
"""A coordinate transformation mode and a nearest mode."""

_FLOOR: _Mode = ("asymmetric", "floor")

_NEAREST: dict[tuple[bool, bool], tuple[_Mode, ...]] = {
    (False, False): (_FLOOR,),
    (True, False): (("align_corners", "round_prefer_ceil"), _FLOOR),
    (False, True): (_FLOOR, ("half_pixel", "round_prefer_ceil")),
    (True, True): (_FLOOR, ("half_pixel", "round_prefer_ceil")),
}
"""The modes to try by (align_corners, half_pixel): asymmetric floor is the fastest by far."""

_MEANT: dict[tuple[bool, bool], _Mode] = {
    (False, False): _FLOOR,
    (True, False): ("align_corners", "round_prefer_ceil"),
    (False, True): ("half_pixel", "round_prefer_ceil"),
}
"""The mode that has the op's definition, for extents that aren't known."""

_MOVED_AS = {
    DType.INT16: DType.INT32,
    DType.UINT16: DType.INT32,
    DType.UINT32: DType.INT32,
    DType.BOOL: DType.UINT8,
}
"""For types that onnxruntime doesn't resize: one that it does."""

_BARRIERS = (Conv2D, ConvTranspose2D)
"""Ops that onnxruntime carries no Transpose past."""

_MOST_LOOKED_AT = 32
"""How many values before a resize are looked at for Transposes; behind more there may be some."""


def _places(extent: int, size: int, coordinates: str) -> list[np.ndarray]:
    """Where result elements lie by ONNX's definition, as differing roundings of it may have it."""
    scale = np.float32(size) / np.float32(extent)
    if coordinates == "asymmetric":
        return [np.arange(size, dtype=np.float32) / scale]
    results: list[np.ndarray] = []
    kinds: tuple[Any, Any] = (np.float32, np.float64)
    for kind in kinds:
        steps = np.arange(size, dtype=kind)
        if coordinates == "align_corners":
            before, after = kind(extent - 1), kind(max(size - 1, 1))
            results += [steps * before / after, steps * (before / after)]
        else:
            middles, factor = steps + kind(0.5), kind(scale)
            results += [middles / factor - kind(0.5), middles * (1 / factor) - kind(0.5)]
    return results


def _maps_alike(op: ResizeNearest, extent: int, size: int, mode: _Mode) -> bool:
    """Whether a mode certainly takes the elements that the op takes, along one dimension."""
    if 0 in (extent, size):
        return True  # nothing is taken
    if extent == size:  # the scale is 1 and every mode the identity
        return bool(np.array_equal(nearest_indices(op, extent, size), np.arange(size)))
    wanted = nearest_indices(op, extent, size)
    for places in _places(extent, size, mode[0]):
        chosen = np.floor(places) if mode[1] == "floor" else np.floor(places + 0.5)
        if not np.array_equal(np.clip(chosen, 0, extent - 1), wanted):
            return False
    return True


def _known(op: ResizeBilinear | ResizeNearest, x: Value) -> list[tuple[int, int]] | None:
    """Extent before and after for height and width; None where one isn't known."""
    if x.shape is None or op.size is None:
        return None
    before = [x.shape[dim] for dim in spatial_dims(4, op.layout)]
    return [(b, a) for b, a in zip(before, op.size, strict=True) if isinstance(b, int)]


def _extents(node: Node, op: ResizeBilinear | ResizeNearest, t: Target) -> tuple[str, str]:
    """The inputs ``scales`` and ``sizes`` of Resize, one of them absent.

    Constant and without ``axes`` they let onnxruntime keep a Resize among blocked convolutions.
    """
    x = node.operand(0)
    dims = list(spatial_dims(4, op.layout))
    pairs = _known(op, x)
    if pairs is not None and len(pairs) == 2 and all(b > 0 for b, _ in pairs):
        scales = np.ones(4, np.float32)
        scales[dims] = [np.float32(after) / np.float32(before) for before, after in pairs]
        exact = all(
            int(np.float32(before) * s) == after == int(before * float(s))
            for (before, after), s in zip(pairs, scales[dims], strict=True)
        )
        if exact:
            return t.const(scales), ""
    others = [d for d in range(4) if d not in dims]
    if op.size is not None and x.shape is not None:
        full: list[object] = list(x.shape)
        full[dims[0] : dims[1] + 1] = op.size
        numbers = [d for d in full if isinstance(d, int)]
        if len(numbers) == 4:
            return "", t.const(numbers)
    size = t.const(list(op.size)) if op.size is not None else t.int64(node.inputs[1])
    shape = t.node("Shape", [t.codes(x)])
    kept = [t.node("Gather", [shape, t.const([d])], axis=0) for d in others]
    parts = [kept[0], size, kept[1]] if dims == [1, 2] else [*kept, size]
    return "", t.node("Concat", parts, axis=0)


def _is_turned(x: Value, op: ResizeBilinear) -> bool:
    """Whether Transposes made x that onnxruntime would move behind the Resize, to no good.

    Its optimizer carries any permutation as far as it can, joining those that it meets, and its
    kernel then refuses images that are neither NHWC nor NCHW. A Reshape to the same shape on either
    side stops it: before the Resize alone, or behind it alone, it doesn't always. One Transpose
    between the two layouts is fine.
    """
    found: Transpose | None = None
    pending, seen = [x], {x}
    while pending:
        before = pending.pop().producer
        if before is None or isinstance(before.op, _BARRIERS):
            continue
        if isinstance(before.op, Transpose):
            perm = before.op.perm
            if found is not None or perm is None or len(perm) != 4:
                return True
            found = before.op
            if {perm[dim] for dim in spatial_dims(4, op.layout)} not in ({1, 2}, {2, 3}):
                return True
        for value in before.inputs:
            if value is not None and value.data is None and value not in seen:
                seen.add(value)
                pending.append(value)
        if len(seen) > _MOST_LOOKED_AT:
            return True
    return False


def export_bilinear(node: Node, t: Target) -> None:
    """ResizeBilinear: on real values, since onnxruntime truncates integers."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, ResizeBilinear)
    coordinates = "asymmetric"
    if op.align_corners:
        coordinates = "align_corners"
    elif op.half_pixel:
        coordinates = "half_pixel"
    whole = x.quant is None and x.dtype.is_integer
    turned = not t.plain and _is_turned(x, op)
    if whole:
        name = t.cast(t.codes(x), DType.FLOAT32)
    elif turned:
        name = t.node("Reshape", [t.codes(x), t.const([0, 0, 0, 0])])
        if t.is_quantized(x):
            name = t.dequantize(name, t.inner_quant(x), t.inner_type(x))
    else:
        name = t.real(x)
    scales, sizes = _extents(node, op, t)
    inputs = [name, "", scales, sizes] if sizes else [name, "", scales]
    result = t.node("Resize", inputs, mode="linear", coordinate_transformation_mode=coordinates)
    if turned:
        result = t.node("Reshape", [result, t.const([0, 0, 0, 0])])
    if whole:
        t.set_codes(y, t.cast(result, y.dtype))
    else:
        t.set_real(y, result)


def export_nearest(node: Node, t: Target) -> None:
    """ResizeNearest, on codes: the fastest mode that takes the same elements, else Gathers."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, ResizeNearest)
    flags = (op.align_corners, op.half_pixel)
    pairs = _known(op, x)
    mode = _MEANT.get(flags)
    if pairs is not None and len(pairs) == 2:
        bounded_elements(t, max(max(pair) for pair in pairs))
        mode = next(
            (m for m in _NEAREST[flags] if all(_maps_alike(op, b, a, m) for b, a in pairs)),
            None,
        )
        if mode is None:
            t.set_codes(y, _gathered(op, t.codes(x), pairs, t))
            return
    if mode is None:
        raise t.unsupported("align_corners and half_pixel_centers for extents that aren't known")
    dtype = t.inner_type(x)
    wider = _MOVED_AS.get(dtype, dtype)
    name = t.codes(x) if wider is dtype else t.cast(t.codes(x), wider)
    scales, sizes = _extents(node, op, t)
    inputs = [name, "", scales, sizes] if sizes else [name, "", scales]
    coordinates, rounding = mode
    result = t.node(
        "Resize",
        inputs,
        mode="nearest",
        coordinate_transformation_mode=coordinates,
        nearest_mode=rounding,
    )
    t.set_codes(y, result if wider is dtype else t.cast(result, dtype))


def _gathered(op: ResizeNearest, name: str, pairs: list[tuple[int, int]], t: Target) -> str:
    for dim, (before, after) in zip(spatial_dims(4, op.layout), pairs, strict=True):
        indices = nearest_indices(op, before, after)
        if not np.array_equal(indices, np.arange(before)):
            name = t.node("Gather", [name, t.const(indices)], axis=dim)
    return name


EXPORTERS: dict[type[Op], Exporter] = {
    ResizeBilinear: export_bilinear,
    ResizeNearest: export_nearest,
}
