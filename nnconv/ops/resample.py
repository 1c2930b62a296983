"""Resizing along any dimensions, in all the ways of ONNX."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from nnconv.ir.dtype import ANY, FLOATS, INTEGERS
from nnconv.ir.op import (
    Layout,
    LayoutKind,
    Op,
    Operand,
    Perm,
    Permuted,
    QuantRule,
    Types,
    index_operand,
    op_class,
    operand_type,
)
from nnconv.ir.types import Dim, Shape, TensorType
from nnconv.ops.moves import moved
from nnconv.ops.spatial import spatial_dims


class Coordinates(enum.Enum):
    """Where in the input an element of the result lies (ONNX coordinate_transformation_mode)."""

    HALF_PIXEL = "half_pixel"
    HALF_PIXEL_SYMMETRIC = "half_pixel_symmetric"
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"
    ALIGN_CORNERS = "align_corners"
    ASYMMETRIC = "asymmetric"
    CROP = "tf_crop_and_resize"


class Rounding(enum.Enum):
    """Which element a place between two takes (ONNX nearest_mode)."""

    PREFER_FLOOR = "round_prefer_floor"
    PREFER_CEIL = "round_prefer_ceil"
    FLOOR = "floor"
    CEIL = "ceil"


class Policy(enum.Enum):
    """What given sizes mean (ONNX keep_aspect_ratio_policy)."""

    STRETCH = "stretch"
    NOT_LARGER = "not_larger"
    NOT_SMALLER = "not_smaller"


class Axis(NamedTuple):
    """One dimension that is resized.

    Attributes:
        extent, size: elements before and after.
        scale: by which it is resized; not exactly size / extent where it was given.
        roi: start and end of what is resized, as parts of the extent, for Coordinates.CROP.
    """

    extent: int
    size: int
    scale: np.float32
    roi: tuple[float, float]


@op_class
class _Resampling(Op):
    """What both ops share.

    Attributes:
        axes: the dimensions that are resized (from the front).
        scales, sizes: by which, or to which, one number for each of these; None: operands of that
            name, of which there is one.
        coordinates: where in the input an element of the result lies.
        policy: what sizes mean.
        roi: starts and then ends for each axis, for Coordinates.CROP; None: operand ``roi``.
        extrapolation: what stands outside of the input, for Coordinates.CROP.
    """

    layout_kind: ClassVar[LayoutKind] = LayoutKind.ATTRIBUTE

    axes: tuple[int, ...]
    scales: tuple[float, ...] | None = None
    sizes: tuple[int, ...] | None = None
    coordinates: Coordinates = Coordinates.HALF_PIXEL
    policy: Policy = Policy.STRETCH
    roi: tuple[float, ...] | None = None
    extrapolation: float = 0.0

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return moved(x, None)
        for given in (self.scales, self.sizes):
            if given is not None and (
                len(given) != len(self.axes)
                or not all(0 <= entry <= _MOST_EXTENT for entry in given)
            ):
                raise ValueError(f"sizes or scales {list(given)} for axes {list(self.axes)}")
        if len(set(self.axes)) != len(self.axes) or not all(
            0 <= axis < len(x.shape) for axis in self.axes
        ):
            raise ValueError(f"axes {list(self.axes)} for rank {len(x.shape)}")
        result: list[Dim] = list(x.shape)
        dims = [x.shape[axis] for axis in self.axes]
        known = [d for d in dims if isinstance(d, int)]
        found: Sequence[Dim] = (None,) * len(dims)
        if self.sizes is not None and self.policy is Policy.STRETCH:
            found = self.sizes
        elif self.scales is not None and self.sizes is None:
            scales = zip(dims, self.scales, strict=True)
            found = [_scaled(d, s) if isinstance(d, int) else None for d, s in scales]
        elif self.sizes is not None and len(known) == len(dims):
            found = [part.size for part in self.resized(known)]
        for axis, dim in zip(self.axes, found, strict=True):
            result[axis] = dim
        return moved(x, tuple(result))

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        if operand_type(types, 0).rank != len(perm):
            return None
        op = self.replace(axes=tuple(perm.index(axis) for axis in self.axes))
        return Permuted(op, (perm, *(None,) * (len(types) - 1)), (perm,))

    def resized(
        self,
        extents: Sequence[int],
        *,
        scales: Sequence[float] | None = None,
        sizes: Sequence[int] | None = None,
        roi: Sequence[float] | None = None,
    ) -> list[Axis]:
        """Each of ``axes`` for known extents; arguments stand for operands."""
        scales = self.scales if scales is None else scales
        sizes = self.sizes if sizes is None else sizes
        roi = self.roi if roi is None else roi
        count = len(self.axes)
        parts = [(0.0, 1.0)] * count
        if roi is not None and len(roi) == 2 * count:
            parts = list(zip(roi[:count], roi[count:], strict=True))
        if sizes is None:
            assert scales is not None, "the verifier wants scales or sizes"
            factors = [np.float32(s) for s in scales]
            sizes = [_scaled(n, s) for n, s in zip(extents, scales, strict=True)]
        else:
            factors = [
                np.float32(size) / np.float32(max(n, 1))
                for n, size in zip(extents, sizes, strict=True)
            ]
            if self.policy is not Policy.STRETCH and factors:
                choose = min if self.policy is Policy.NOT_LARGER else max
                factors = [choose(factors)] * count
                sizes = [
                    int(np.floor(np.float32(n) * s + np.float32(0.5)))
                    for n, s in zip(extents, factors, strict=True)
                ]
        return [Axis(*entry) for entry in zip(extents, sizes, factors, parts, strict=True)]


MOST_ELEMENTS = 1 << 22
"""Along one dimension, for which places are worked out beforehand."""

_MOST_EXTENT = (1 << 31) - 1


def _scaled(extent: int, scale: float) -> int:
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.floor(np.float32(extent) * np.float32(scale))
    if not 0 <= size <= _MOST_EXTENT:
        raise ValueError(f"extent {extent} times {scale} is {size}")
    return int(size)


def _more_operands() -> tuple[Operand, ...]:
    return (
        Operand("roi", FLOATS, optional=True),
        Operand("scales", FLOATS, optional=True),
        index_operand("sizes"),
    )


@op_class
class Resample(_Resampling):
    """Linear or cubic interpolation along ``axes``; beyond the edge, the edge goes on.

    Attributes:
        cubic: whether four neighbours count, by a cubic with ``coefficient``; else two.
        exclude_outside: whether what lies outside counts nothing instead.
        antialias: whether more neighbours count where the result is smaller.

    Integers that aren't quantized round toward zero. ONNX Resize (linear, cubic).
    """

    operands = (Operand("x", FLOATS | INTEGERS), *_more_operands())

    cubic: bool = False
    coefficient: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


@op_class
class ResampleNearest(_Resampling):
    """The nearest element, as ``rounding`` says. Quantized: codes. ONNX Resize (nearest)."""

    operands = (Operand("x", ANY), *_more_operands())
    quant_rule = QuantRule.CODES

    rounding: Rounding = Rounding.PREFER_FLOOR

    @property
    def repeats(self) -> bool:
        """Whether whole scales of at least 1 repeat each element: i takes element i // scale."""
        if self.coordinates is Coordinates.ASYMMETRIC:
            return self.rounding is Rounding.FLOOR
        nearest = self.rounding in (Rounding.PREFER_FLOOR, Rounding.PREFER_CEIL)
        return nearest and self.coordinates in _MIDDLES


_MIDDLES = (
    Coordinates.HALF_PIXEL, Coordinates.HALF_PIXEL_SYMMETRIC, Coordinates.PYTORCH_HALF_PIXEL,
)  # fmt: skip

RESIZE_FLAGS = {
    Coordinates.ASYMMETRIC: (False, False),
    Coordinates.HALF_PIXEL: (False, True),
    Coordinates.ALIGN_CORNERS: (True, False),
}
"""Aligned corners and half pixels of a ResizeBilinear that does the same."""


def whole_factors(op: _Resampling, rank: int | None) -> tuple[Layout, tuple[int, int]] | None:
    """Where an image's height and width are, and the whole factors that they grow by.

    None if it isn't an image, or the op does something else.
    """
    if rank != 4 or op.scales is None or op.sizes is not None or op.policy is not Policy.STRETCH:
        return None
    if not all(scale >= 1 and scale == int(scale) for scale in op.scales):
        return None
    times = dict(zip(op.axes, map(int, op.scales), strict=True))
    for layout in Layout:
        height, width = spatial_dims(4, layout)
        if {height, width} >= set(op.axes):
            return layout, (times.get(height, 1), times.get(width, 1))
    return None


def known_axes(op: _Resampling, shape: Shape) -> list[Axis] | None:
    """The axes that are resized, if their extents, scales or sizes and roi are known.

    None too where an extent is 0, or a result has more than ``MOST_ELEMENTS`` along one.
    """
    if shape is None or (op.scales is None and op.sizes is None):
        return None
    if op.coordinates is Coordinates.CROP and op.roi is None:
        return None
    extents = [d for d in (shape[axis] for axis in op.axes) if isinstance(d, int)]
    if len(extents) != len(op.axes) or 0 in extents:
        return None
    axes = op.resized(extents)
    return axes if all(axis.size <= MOST_ELEMENTS for axis in axes) else None


TIE = 1e-6
"""How far from a half a place still is one: float32 scales are off. onnxruntime has this rule."""


def places(op: _Resampling, axis: Axis) -> np.ndarray:
    """Where in the input the elements of the result lie: float32 [size], not clamped."""
    one, half = np.float32(1), np.float32(0.5)
    steps = np.arange(axis.size, dtype=np.float32)
    extent, scale = np.float32(axis.extent), axis.scale
    length = np.float32(axis.size)
    if abs(float(scale) * axis.extent - axis.size) > 1e-3:
        length = scale * extent  # a scale was given that doesn't lead to a whole number
    mode = op.coordinates
    if mode is Coordinates.ASYMMETRIC:
        return np.asarray(steps / scale)
    if mode is Coordinates.ALIGN_CORNERS:
        return np.asarray(steps * (extent - one) / (length - one)) if length != 1 else steps * 0
    if mode is Coordinates.CROP:
        start, end = (np.float32(r) for r in axis.roi)
        if length == 1:
            return np.full(axis.size, half * (start + end) * (extent - one), np.float32)
        return np.asarray(
            start * (extent - one) + steps * (end - start) * (extent - one) / (length - one)
        )
    middles = (steps + half) / scale - half
    if mode is Coordinates.PYTORCH_HALF_PIXEL and axis.size == 1:
        return np.zeros(1, np.float32)
    if mode is Coordinates.HALF_PIXEL_SYMMETRIC:
        return np.asarray(extent / 2 * (one - np.float32(axis.size) / (scale * extent)) + middles)
    return np.asarray(middles)


def outside(op: _Resampling, axis: Axis) -> np.ndarray | None:
    """Which elements of the result lie outside of the input: bool [size]; None where none count."""
    if op.coordinates is not Coordinates.CROP:
        return None
    found = places(op, axis)
    return np.asarray((found < 0) | (found > axis.extent - 1))


def chosen(op: ResampleNearest, axis: Axis) -> np.ndarray:
    """Which element of the input each of the result takes: int64 [size]."""
    found = places(op, axis).astype(np.float64)
    if op.rounding is Rounding.FLOOR:
        index = np.floor(found)
    elif op.rounding is Rounding.CEIL:
        index = np.ceil(found)
    elif op.rounding is Rounding.PREFER_FLOOR:
        index = np.ceil(found - 0.5 - TIE)
    else:
        index = np.floor(found + 0.5 + TIE)
    return np.asarray(np.clip(index.astype(np.int64), 0, axis.extent - 1))


def tap_count(op: Resample, axis: Axis) -> int:
    """How many elements of the input each of the result is a weighted sum of."""
    return 2 * int(np.ceil(_reach(op, axis)))


def _reach(op: Resample, axis: Axis) -> float:
    spread = min(max(float(axis.scale), 1e-9), 1.0) if op.antialias else 1.0
    return (2 if op.cubic else 1) / spread


def taps(op: Resample, axis: Axis) -> tuple[np.ndarray, np.ndarray]:
    """Which elements of the input each of the result is a weighted sum of.

    Returns:
        Indices, int64 [size, count], and weights, float64 of that shape.
    """
    found = places(op, axis).astype(np.float64)
    reach = _reach(op, axis)
    spread = (2 if op.cubic else 1) / reach
    offsets = np.arange(-int(np.ceil(reach)) + 1, int(np.ceil(reach)) + 1)
    indices = np.floor(found)[:, None].astype(np.int64) + offsets
    distance = np.abs(indices - found[:, None]) * spread
    weights = _cubic(distance, op.coefficient) if op.cubic else np.maximum(1 - distance, 0)
    inside = (indices >= 0) & (indices < axis.extent)
    if op.exclude_outside:
        weights = np.where(inside, weights, 0)
    if op.exclude_outside or op.antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return np.clip(indices, 0, axis.extent - 1), weights


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """The kernel of cubic convolution at distances from 0 on."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))
