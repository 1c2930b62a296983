"""Resizing along any dimensions: Resize, by its parts where onnxruntime or the opset lacks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnconv.formats.onnx.bounds import bounded_elements
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.floats import narrowed, widened
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op
from nnconv.ir.types import static_shape
from nnconv.ops.resample import (
    MOST_ELEMENTS,
    Axis,
    Coordinates,
    Policy,
    Resample,
    ResampleNearest,
    chosen,
    known_axes,
    outside,
    tap_count,
    taps,
)

_AXES_OPSET = 18
"""The first opset with axes, antialiasing and policies; half_pixel_symmetric came with the next."""

_SYMMETRIC_OPSET = 19

_PICKED = frozenset(
    {DType.FLOAT16, DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT32},
)
"""Types that onnxruntime's Resize takes."""

_PICKED_AS = {
    DType.INT16: DType.INT32,
    DType.UINT16: DType.INT32,
    DType.BFLOAT16: DType.FLOAT32,
    DType.BOOL: DType.UINT8,
}
"""For other types: one of those that holds their numbers."""

_Resampling = Resample | ResampleNearest


def _known(op: _Resampling, x: Value) -> list[Axis] | None:
    """The axes, if all is known of them and what they read can be listed."""
    axes = known_axes(op, x.shape)
    if axes is None or not isinstance(op, Resample):
        return axes
    few = all(tap_count(op, axis) * max(axis.size, 1) <= MOST_ELEMENTS for axis in axes)
    return axes if few else None


def _runs(op: _Resampling, x: Value) -> bool:
    """Whether onnxruntime's kernel takes the dimensions that are resized.

    It interpolates along the last two, or two before a last one, or the last three of five.
    """
    if isinstance(op, ResampleNearest):
        return True
    rank = x.type.rank
    axes = _changing(op, x)
    if rank is None:
        return True
    last = set(range(rank - 2, rank)) if rank in (2, 4) else set()
    middle = {1, 2} if rank == 4 and not op.cubic else set()
    deep = (
        set(range(rank - 3, rank)) if rank in (3, 5) and not (op.cubic or op.antialias) else set()
    )
    return any(axes <= group for group in (last, middle, deep) if group)


def _changing(op: _Resampling, x: Value) -> set[int]:
    """The axes along which there is something to do."""
    known = _known(op, x)
    if known is None:
        return set(op.axes)
    same = {
        dim
        for dim, axis in zip(op.axes, known, strict=True)
        if axis.size == axis.extent and axis.scale == 1 and axis.roi == (0.0, 1.0)
    }
    return set(op.axes) - same


def _attributes(op: _Resampling, t: Target, *, with_axes: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"coordinate_transformation_mode": op.coordinates.value}
    if op.coordinates is Coordinates.CROP and op.extrapolation:
        fields["extrapolation_value"] = op.extrapolation
    if op.coordinates is Coordinates.HALF_PIXEL_SYMMETRIC:
        t.require_opset(_SYMMETRIC_OPSET, "half_pixel_symmetric coordinates")
    if with_axes:
        fields["axes"] = op.axes
    if op.policy is not Policy.STRETCH:
        t.require_opset(_AXES_OPSET, "keep_aspect_ratio_policy")
        fields["keep_aspect_ratio_policy"] = op.policy.value
    if isinstance(op, ResampleNearest):
        return {"mode": "nearest", "nearest_mode": op.rounding.value} | fields
    fields["mode"] = "cubic" if op.cubic else "linear"
    if op.cubic:
        fields["cubic_coeff_a"] = op.coefficient
    if op.exclude_outside:
        fields["exclude_outside"] = 1
    if op.antialias:
        t.require_opset(_AXES_OPSET, "antialiasing")
        fields["antialias"] = 1
    return fields


def _operands(op: _Resampling, node: Node, t: Target) -> tuple[list[str], bool]:
    """The operands behind the data, and whether they are of some axes only."""
    x = node.operand(0)
    roi, scales, sizes = (*node.inputs[1:], None, None, None)[:3]
    rank = x.type.rank
    whole = rank is not None and op.axes == tuple(range(rank))
    place: list[str] = [""]
    if op.coordinates is Coordinates.CROP:
        given = None if op.roi is None else np.asarray(op.roi, np.float32)
        place = [t.const(given) if given is not None else narrowed(t, roi)]
    named = not whole and t.opset >= _AXES_OPSET
    if not whole and not named:
        if rank is None:
            raise t.unsupported("the rank isn't known")
        return _of_all(op, node, t, place[0]), False
    if op.scales is not None and op.sizes is None:
        return [*place, t.const(np.asarray(op.scales, np.float32))], named
    if op.sizes is not None:
        return [*place, "", t.const(list(op.sizes))], named
    if scales is not None:
        name = t.real(scales)
        wanted = t.real_type(scales) is DType.FLOAT32
        return [*place, name if wanted else t.cast(name, DType.FLOAT32)], named
    return [*place, "", t.int64(sizes)], named


def _of_all(op: _Resampling, node: Node, t: Target, roi: str) -> list[str]:
    """Operands for all dimensions, where the opset knows none for some."""
    x = node.operand(0)
    assert x.shape is not None
    rank, count = len(x.shape), len(op.axes)
    places = [op.axes.index(i) if i in op.axes else count for i in range(rank)]

    def spread(name: str, rest: np.ndarray) -> str:
        """Numbers of the axes, and what stands for the other dimensions."""
        joined = t.node("Concat", [name, t.const(rest)], axis=0)
        return t.node("Gather", [joined, t.const(places)])

    if roi:
        halves = [*places, *(p + count + 1 for p in places)]
        starts = t.node("Slice", [roi, t.const([0]), t.const([count])])
        ends = t.node("Slice", [roi, t.const([count]), t.const([2 * count])])
        rest = [t.const(np.asarray([n], np.float32)) for n in (0, 1)]
        joined = t.node("Concat", [starts, rest[0], ends, rest[1]], axis=0)
        roi = t.node("Gather", [joined, t.const(halves)])
    one = np.ones(1, np.float32)
    if op.scales is not None and op.sizes is None:
        full = np.ones(rank, np.float32)
        full[list(op.axes)] = op.scales
        return [roi, t.const(full)]
    if op.sizes is None and len(node.inputs) > 2 and node.inputs[2] is not None:
        return [roi, spread(narrowed(t, node.inputs[2]), one)]
    if op.sizes is not None:
        dims = list(x.shape)
        for axis, size in zip(op.axes, op.sizes, strict=True):
            dims[axis] = size
        known = static_shape(tuple(dims))
        if known is not None:
            return [roi, "", t.const(list(known))]
        sizes = t.const(list(op.sizes))
    else:
        sizes = t.int64(node.inputs[3])
    own = t.node("Shape", [t.codes(x)])
    joined = t.node("Concat", [sizes, own], axis=0)
    order = [op.axes.index(i) if i in op.axes else count + i for i in range(rank)]
    return [roi, "", t.node("Gather", [joined, t.const(order)])]


def export_nearest(node: Node, t: Target) -> None:
    """ResampleNearest: Resize of codes, or Gathers of types that onnxruntime doesn't resize."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, ResampleNearest)
    known = _known(op, x)
    dtype = t.inner_type(x)
    wider = _PICKED_AS.get(dtype)
    if (dtype not in _PICKED and wider is None) or (known and _lacks(op, t)):
        if known is None or any(outside(op, axis) is not None for axis in known):
            raise t.unsupported(f"{dtype} elements resized to extents that aren't known")
        name = t.codes(x)
        for dim, axis in zip(op.axes, known, strict=True):
            name = t.node("Gather", [name, t.const(chosen(op, axis))], axis=dim)
        t.set_codes(y, name)
        return
    operands, named = _operands(op, node, t)
    name = t.codes(x) if wider is None else t.cast(t.codes(x), wider)
    result = t.node("Resize", [name, *operands], **_attributes(op, t, with_axes=named))
    t.set_codes(y, result if wider is None else t.cast(result, dtype))


def _lacks(op: _Resampling, t: Target) -> bool:
    """Whether the opset lacks what an op of known extents can do without."""
    if op.coordinates is Coordinates.HALF_PIXEL_SYMMETRIC and t.opset < _SYMMETRIC_OPSET:
        return True
    new = op.policy is not Policy.STRETCH or (isinstance(op, Resample) and op.antialias)
    return new and t.opset < _AXES_OPSET


def export_resample(node: Node, t: Target) -> None:
    """Resample: Resize; along dimensions that onnxruntime doesn't resize, sums of Gathers."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, Resample)
    known = _known(op, x)
    whole = x.quant is None and x.dtype.is_integer
    direct = x.dtype in (DType.INT8, DType.UINT8, DType.INT32) and t.plain
    lacking = _lacks(op, t) or not _runs(op, x)
    if known is not None and lacking:
        name = t.cast(t.codes(x), DType.FLOAT32) if whole else narrowed(t, x)
        result = _summed(op, x, known, name, t)
    else:
        if whole:
            name = t.codes(x) if direct else t.cast(t.codes(x), DType.FLOAT32)
        else:
            name = narrowed(t, x)
        operands, named = _operands(op, node, t)
        result = t.node("Resize", [name, *operands], **_attributes(op, t, with_axes=named))
        if whole and direct:
            t.set_codes(y, result)
            return
    if whole:
        t.set_codes(y, t.cast(result, y.dtype))
    else:
        t.set_real(y, widened(t, result, y))


def _summed(op: Resample, x: Value, axes: Sequence[Axis], name: str, t: Target) -> str:
    """Each dimension by itself: a product with the weights of its taps."""
    assert x.shape is not None
    rank = len(x.shape)
    away = np.zeros((), bool)
    kind = np.float16 if t.real_type(x) is DType.FLOAT16 else np.float32
    for dim, axis in zip(op.axes, axes, strict=True):
        if dim not in _changing(op, x):
            continue
        bounded_elements(t, axis.size * axis.extent)
        indices, weights = taps(op, axis)
        matrix = np.zeros((axis.size, axis.extent))
        np.add.at(matrix, (np.arange(axis.size)[:, None], indices), weights)
        there = (*(i for i in range(rank) if i != dim), dim)
        if dim != rank - 1:
            name = t.node("Transpose", [name], perm=there)
        name = t.node("MatMul", [name, t.const(matrix.T.astype(kind))])
        if dim != rank - 1:
            back = tuple(there.index(i) for i in range(rank))
            name = t.node("Transpose", [name], perm=back)
        beside = outside(op, axis)
        if beside is not None:
            away = away | beside.reshape([-1 if i == dim else 1 for i in range(rank)])
    if not away.any():
        return name
    return t.node("Where", [t.const(away), t.const(kind(op.extrapolation)), name])


EXPORTERS: dict[type[Op], Exporter] = {
    Resample: export_resample,
    ResampleNearest: export_nearest,
}
