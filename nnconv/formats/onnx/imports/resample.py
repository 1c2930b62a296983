"""Resize and Upsample of all opsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnconv.errors import plural
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.graph import Value
from nnconv.ir.op import Layout, Op
from nnconv.ir.types import static_shape
from nnconv.ops.resample import (
    MOST_ELEMENTS,
    Axis,
    Coordinates,
    Policy,
    Resample,
    ResampleNearest,
    Rounding,
    chosen,
)
from nnconv.ops.resize import ResizeBilinear, ResizeNearest, nearest_indices

_Resampling = Resample | ResampleNearest

_FLAGS: tuple[tuple[bool, bool], ...] = ((False, False), (False, True), (True, False))
"""Align corners and half pixels of the simpler ops."""

_HALF_FURTHER = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}
"""What takes the same elements at a place half an element before."""

_LINEAR_FLAGS = {
    Coordinates.ASYMMETRIC: (False, False),
    Coordinates.HALF_PIXEL: (False, True),
    Coordinates.HALF_PIXEL_SYMMETRIC: (False, True),
    Coordinates.PYTORCH_HALF_PIXEL: (False, True),
    Coordinates.ALIGN_CORNERS: (True, False),
}


def _floats(src: Source, index: int) -> tuple[float, ...] | None:
    """The elements of a float operand; None where it is left out, or computed at run time."""
    data = src.constant(index)
    if data is None:
        return None
    return tuple(np.asarray(data, np.float32).reshape(-1).tolist())


def _is_given(src: Source, index: int) -> bool:
    """Whether an operand is there, and not empty, as old exporters leave them out."""
    value = src.optional(index)
    return value is not None and value.shape != (0,)


def _fields(src: Source) -> dict[str, Any]:
    """Attributes of Resize from opset 11 on, or of Upsample and Resize before."""
    mode = src.text("mode", "nearest")
    if mode not in ("nearest", "linear", "cubic", "bilinear"):
        raise src.fail(f"mode is {mode!r}")
    if src.version < 11:
        return {"mode": mode, "coordinates": Coordinates.ASYMMETRIC, "rounding": Rounding.FLOOR}
    given = src.text("coordinate_transformation_mode", "half_pixel")
    nearest = src.text("nearest_mode", "round_prefer_floor")
    if given == "tf_half_pixel_for_nn":
        given, nearest = "half_pixel", _HALF_FURTHER.get(nearest, "")
        if mode != "nearest" or not nearest:
            raise src.unsupported("tf_half_pixel_for_nn coordinates for that mode")
    try:
        coordinates = Coordinates(given)
        rounding = Rounding(nearest)
        policy = Policy(src.text("keep_aspect_ratio_policy", "stretch"))
    except ValueError as error:
        raise src.fail(str(error)) from error
    return {
        "mode": mode,
        "coordinates": coordinates,
        "rounding": rounding,
        "policy": policy,
        "extrapolation": src.float("extrapolation_value", 0.0),
        "cubic": src.float("cubic_coeff_a", -0.75),
        "exclude": bool(src.int("exclude_outside", 0)),
        "antialias": bool(src.int("antialias", 0)),
    }


def _op(axes: tuple[int, ...], fields: dict[str, Any]) -> _Resampling:
    shared = {
        name: fields[name] for name in ("coordinates", "policy", "extrapolation") if name in fields
    }
    if fields["mode"] == "nearest":
        return ResampleNearest(axes=axes, rounding=fields["rounding"], **shared)
    return Resample(
        axes=axes,
        cubic=fields["mode"] == "cubic",
        coefficient=fields.get("cubic", -0.75),
        exclude_outside=fields.get("exclude", False),
        antialias=fields.get("antialias", False),
        **shared,
    )


def import_resize(src: Source) -> None:
    """Resize: scales (the second operand before opset 11), or sizes."""
    x = src.operand(0)
    rank = src.rank(x)
    axes = src.int_list("axes") if src.version >= 18 else None
    places = tuple(range(rank)) if axes is None else tuple(src.axis(a, rank) for a in axes)
    op = _op(places, _fields(src))
    if src.version < 11:
        _import_old(src, x, op, _floats(src, 1), 1)
        return
    operands: list[Value | None] = [x, None, None, None]
    if op.coordinates is Coordinates.CROP:
        op = op.replace(roi=_floats(src, 1))
        if op.roi is None:
            operands[1] = src.operand(1)
    if _is_given(src, 3):
        op = _sized(src, x, op)
        if op.sizes is None:
            operands[3] = src.operand(3)
    elif _is_given(src, 2):
        op = op.replace(scales=_floats(src, 2))
        if op.scales is None:
            operands[2] = src.operand(2)
        elif len(op.scales) != len(op.axes):
            raise src.fail(
                f"{plural(len(op.scales), 'scale')} for {plural(len(op.axes), 'axis', 'axes')}"
            )
    else:
        raise src.fail("it has neither scales nor sizes")
    _emit(src, op, operands)


def _sized(src: Source, x: Value, op: _Resampling) -> _Resampling:
    """The op with the sizes that are known; axes that keep their extents are left out."""
    dims = src.dims(3)
    if dims is None or len(dims) != len(op.axes):
        return op.replace(sizes=src.ints(3))
    assert x.shape is not None
    known = static_shape(dims)
    if op.policy is not Policy.STRETCH or op.coordinates is Coordinates.CROP:
        return op.replace(sizes=known)
    kept = [i for i, a in enumerate(op.axes) if dims[i] is None or dims[i] != x.shape[a]]
    if not kept:
        return op.replace(sizes=known)
    sizes = static_shape(tuple(dims[i] for i in kept))
    if sizes is None:
        return op.replace(sizes=known)
    return op.replace(axes=tuple(op.axes[i] for i in kept), sizes=sizes)


def import_upsample(src: Source) -> None:
    """Upsample: scales as attributes before opset 9, as an operand since."""
    x = src.operand(0)
    rank = src.rank(x)
    op = _op(tuple(range(rank)), _fields(src))
    scales: tuple[float, ...] | None
    if src.version < 7:
        scales = (1.0,) * (rank - 2) + (src.float("height_scale"), src.float("width_scale"))
        if src.text("mode", "nearest") == "bilinear":
            op = _op(op.axes, {"mode": "linear", "coordinates": Coordinates.ASYMMETRIC})
    else:
        scales = src.float_list("scales") if src.version < 9 else _floats(src, 1)
    _import_old(src, x, op, scales, 1 if src.version >= 9 else 0)


def _import_old(
    src: Source, x: Value, op: _Resampling, scales: tuple[float, ...] | None, operand: int
) -> None:
    """Resize before opset 11, where the nearest element is the next one where it shrinks."""
    if scales is None:
        if not operand:
            raise src.fail("attribute scales is missing")
        _emit(src, op, [x, None, src.operand(operand), None])
        return
    if len(scales) != len(op.axes) or min(scales, default=1) <= 0:
        raise src.fail(f"scales {list(scales)} for rank {len(op.axes)}")
    op = op.replace(scales=scales)
    if not isinstance(op, ResampleNearest) or min(scales, default=1) >= 1:
        _emit(src, op, [x])
        return
    if max(scales) > 1:
        grown = op.replace(scales=tuple(max(s, 1.0) for s in scales))
        x = src.add(grown, [x])
        op = op.replace(scales=tuple(min(s, 1.0) for s in scales))
    _emit(src, op.replace(rounding=Rounding.CEIL), [x])


def _emit(src: Source, op: _Resampling, operands: Sequence[Value | None]) -> None:
    x = operands[0]
    assert x is not None
    op = _narrowed(op)
    simple = _simple(op, x) if not any(v is not None for v in operands[1:]) else None
    if simple is not None:
        src.emit(simple, [x])
        return
    last = max(i for i, v in enumerate(operands) if v is not None)
    src.emit(op, operands[: last + 1])


def _narrowed(op: _Resampling) -> _Resampling:
    """The op without axes whose scales are 1."""
    if op.scales is None or op.sizes is not None or op.policy is not Policy.STRETCH:
        return op
    kept = [i for i, scale in enumerate(op.scales) if scale != 1]
    if op.roi is not None and op.coordinates is Coordinates.CROP:
        return op
    if len(kept) in (0, len(op.axes)):
        return op
    axes, scales = tuple(op.axes[i] for i in kept), tuple(op.scales[i] for i in kept)
    return op.replace(axes=axes, scales=scales)


def _simple(op: _Resampling, x: Value) -> Op | None:
    """The op of two dimensions of images that does the same; None if there is none.

    The simpler ops go by extents alone, so that a scale must lead to a whole number.
    """
    if x.shape is None or len(x.shape) != 4 or op.coordinates is Coordinates.CROP:
        return None
    extents = [d for d in (x.shape[a] for a in op.axes) if isinstance(d, int)]
    given = op.scales if op.sizes is None else op.sizes
    if len(extents) != len(op.axes) or len(given or ()) != len(op.axes) or 0 in extents:
        return None
    found = dict(zip(op.axes, op.resized(extents), strict=True))
    changing = {dim for dim, axis in found.items() if axis.size != axis.extent or axis.scale != 1}
    exact = all(float(a.scale) * a.extent == a.size for a in found.values())
    exact = exact or all(
        a.scale == np.float32(a.size) / np.float32(a.extent) for a in found.values()
    )
    if not exact or any(not 1 <= a.size <= MOST_ELEMENTS for a in found.values()):
        return None
    layout = next((which for which, dims in _SPATIAL.items() if changing <= dims), None)
    if layout is None:
        return None
    axes = []
    for dim in sorted(_SPATIAL[layout]):
        extent = x.shape[dim]
        if not isinstance(extent, int):
            return None
        axes.append(found.get(dim) or Axis(extent, extent, np.float32(1), (0.0, 1.0)))
    size = (axes[0].size, axes[1].size)
    if isinstance(op, ResampleNearest):
        for align, half in _FLAGS:
            nearest = ResizeNearest(layout=layout, size=size, align_corners=align, half_pixel=half)
            if x.dtype in nearest.operands[0].types and all(
                np.array_equal(nearest_indices(nearest, a.extent, a.size), chosen(op, a))
                for a in axes
            ):
                return nearest
        return None
    flags = _LINEAR_FLAGS.get(op.coordinates)
    if op.cubic or op.antialias or op.exclude_outside or flags is None:
        return None
    if x.quant is None and x.dtype.is_integer:
        return None
    if op.coordinates is Coordinates.PYTORCH_HALF_PIXEL and any(a.size == 1 for a in axes):
        return None
    return ResizeBilinear(layout=layout, size=size, align_corners=flags[0], half_pixel=flags[1])


_SPATIAL = {Layout.NCHW: {2, 3}, Layout.NHWC: {1, 2}}


IMPORTERS: dict[str, Importer] = {
    "Resize": import_resize,
    "Upsample": import_upsample,
}
