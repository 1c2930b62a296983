"""Affine quantization parameters: part of a tensor's type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nnconv.errors import plural
from nnconv.ir.dtype import DType


@dataclass(frozen=True, kw_only=True)
class Quant:
    """``real = scale * (code - zero_point)``, per tensor, per channel or per block.

    Attributes:
        scale: one value per tensor, per index of ``axis``, or per block; float32 values.
        zero_point: as many as there are scales.
        axis: the dimension whose indices have their own parameters; None per tensor.
        block: with ``axis``: how many neighbours along ``axis`` share parameters; the scales then
            are those of the tensor with ``axis`` divided by ``block`` (rounded up), in row-major
            order. 0 means one set per index of ``axis``, shared by all other dimensions.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None
    block: int = 0

    def __post_init__(self) -> None:
        """Check that the counts agree and the scales are usable.

        Raises:
            ValueError: on unequal counts, or more than one scale without an axis.
        """
        if len(self.scale) != len(self.zero_point) or not self.scale:
            raise ValueError(
                f"{plural(len(self.scale), 'scale')} and "
                f"{plural(len(self.zero_point), 'zero point')}; want as many",
            )
        if self.axis is None and (len(self.scale) != 1 or self.block):
            raise ValueError("several scales need an axis")

    def __hash__(self) -> int:
        found: int | None = self.__dict__.get("_hash")
        if found is None:
            found = hash((self.scale, self.zero_point, self.axis, self.block))
            self.__dict__["_hash"] = found
        return found

    @classmethod
    def per_tensor(cls, scale: float, zero_point: int = 0) -> Quant:
        """Parameters that all elements share."""
        return cls(scale=(float(np.float32(scale)),), zero_point=(int(zero_point),))

    @classmethod
    def per_channel(
        cls,
        scale: Sequence[float] | np.ndarray,
        zero_point: Sequence[int] | int = 0,
        *,
        axis: int,
    ) -> Quant:
        """Parameters per index of ``axis``; one zero point may serve all."""
        scales = np.array(scale, np.float32)
        points = (zero_point,) * len(scales) if isinstance(zero_point, int) else tuple(zero_point)
        made = cls(scale=tuple(scales.tolist()), zero_point=points, axis=axis)
        made.__dict__["scales"] = _fixed(scales)
        return made

    @cached_property
    def scales(self) -> np.ndarray:
        """``scale`` as a float32 array, which can't be changed."""
        return _fixed(np.asarray(self.scale, np.float32))

    @cached_property
    def zero_points(self) -> np.ndarray:
        """``zero_point`` as an int64 array, which can't be changed."""
        return _fixed(np.asarray(self.zero_point, np.int64))

    @property
    def is_per_tensor(self) -> bool:
        """Whether all elements share one set of parameters."""
        return self.axis is None

    @property
    def is_symmetric(self) -> bool:
        """Whether every zero point is 0."""
        return not any(self.zero_point)

    def with_axis(self, axis: int | None) -> Quant:
        """The same parameters along another axis."""
        made = Quant(scale=self.scale, zero_point=self.zero_point, axis=axis, block=self.block)
        for name in ("scales", "zero_points"):
            if name in self.__dict__:
                made.__dict__[name] = self.__dict__[name]
        return made

    def shifted(self, offset: int) -> Quant:
        """The parameters of the tensor whose codes all had ``offset`` added (re-signing)."""
        points = tuple(point + offset for point in self.zero_point)
        return Quant(scale=self.scale, zero_point=points, axis=self.axis, block=self.block)

    def permuted(self, perm: Sequence[int], shape: Sequence[object] | None = None) -> Quant:
        """The parameters after a transpose in which new dimension i is old dimension perm[i].

        ``shape`` is the tensor's before it.

        Raises:
            ValueError: for blockwise parameters, whose order is tied to the shape, if that isn't
                known.
        """
        if self.axis is None:
            return self
        axis = tuple(perm).index(self.axis)
        if not self.block:
            return self.with_axis(axis)
        grid = [extent for extent in shape or () if isinstance(extent, int)]
        if len(grid) != len(perm):
            raise ValueError("blockwise parameters of an unknown shape can't be transposed")
        grid[self.axis] = -(-grid[self.axis] // self.block)
        order = np.arange(len(self.scale)).reshape(grid).transpose(perm).reshape(-1).tolist()
        return Quant(
            scale=tuple(self.scale[i] for i in order),
            zero_point=tuple(self.zero_point[i] for i in order),
            axis=axis,
            block=self.block,
        )

    def grid(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The extents of the parameters of a tensor of ``shape``, as ONNX has them."""
        if self.axis is None or not self.block:
            return () if self.axis is None else (len(self.scale),)
        blocks = -(-shape[self.axis] // self.block)
        return *shape[: self.axis], blocks, *shape[self.axis + 1 :]

    def broadcast(self, shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Scale (float32) and zero point (int32) arrays that broadcast against ``shape``."""
        scale, zero_point = self.scales, self.zero_points.astype(np.int32)
        if self.axis is None:
            return scale[0], zero_point[0]
        if self.block:
            grid = self.grid(shape)
            each = min(self.block, shape[self.axis])  # a block may reach beyond the tensor
            expand = [np.repeat(a.reshape(grid), each, self.axis) for a in (scale, zero_point)]
            cut = tuple(slice(extent) for extent in shape)
            return expand[0][cut], expand[1][cut]
        dims = [1] * len(shape)
        dims[self.axis] = -1
        return scale.reshape(dims), zero_point.reshape(dims)

    def __str__(self) -> str:
        if self.axis is None:
            return f"{self.scale[0]:g}*(q{-self.zero_point[0]:+d})"
        kind = f"axis {self.axis}" + (f" block {self.block}" if self.block else "")
        points = set(self.zero_point)
        zero = f"zp {points.pop()}" if len(points) == 1 else f"{len(points)} zps"
        return f"{len(self.scale)} scales {kind} {zero}"


def _fixed(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def dequantize(
    codes: np.ndarray, quant: Quant, dtype: type[np.floating] = np.float32
) -> np.ndarray:
    """Real values of ``codes`` (any shape), in ``dtype``; infinite beyond that, as in kernels."""
    scale, zero_point = quant.broadcast(codes.shape)
    with np.errstate(over="ignore"):
        return (codes.astype(dtype) - zero_point.astype(dtype)) * scale.astype(dtype)


def real_values(
    codes: np.ndarray, quant: Quant, dtype: DType, *, wide: type[np.floating] = np.float32
) -> np.ndarray:
    """Real values of ``codes`` as numbers of a float type, computed in a ``wide`` one."""
    found = dequantize(codes, quant, wide)
    with np.errstate(over="ignore"):
        return found.astype(dtype.numpy)


def round_half_away(values: np.ndarray) -> np.ndarray:
    """Nearest integers, ties away from zero: TFLite's and NNAPI's rule for quantization."""
    return np.asarray(np.trunc(values + np.copysign(0.5, values)))


_FEW_BITS = 16


def quantize(values: np.ndarray, quant: Quant, dtype: DType) -> np.ndarray:
    """Codes of real ``values`` (any shape): rounded half away from zero, clamped to ``dtype``.

    The quotient is taken as a float32 number where the codes have 16 bits or fewer, as runtimes do:
    3 by 6 / 255 is halfway between two codes, though no scale is exactly 6 / 255.
    """
    scale, zero_point = quant.broadcast(values.shape)
    low, high = dtype.int_range
    steps = values.astype(np.float64) / scale
    if dtype.bits <= _FEW_BITS:
        with np.errstate(over="ignore"):  # of scales near 0: infinities saturate
            steps = steps.astype(np.float32).astype(np.float64)
    codes = round_half_away(steps) + zero_point
    bounded = np.fmin(np.fmax(codes, low), high)  # what is no number becomes the lowest
    return np.asarray(bounded).astype(dtype.numpy)
