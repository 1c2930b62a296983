"""Ops that read images at computed places. Images are channels-first: [N, C, spatial...]."""

from __future__ import annotations

import enum
from typing import ClassVar

from nnconv.errors import plural
from nnconv.ir.dtype import FLOATS
from nnconv.ir.op import (
    Op,
    Operand,
    Role,
    Types,
    index_operand,
    op_class,
    operand_type,
    require_rank,
)
from nnconv.ir.types import Dim, TensorType
from nnconv.ops.conv import QUANTIZED, check_bias
from nnconv.ops.gather import INDEX_TYPES
from nnconv.ops.spatial import Padding, window_count

_REAL = FLOATS | QUANTIZED


class Sampling(enum.Enum):
    """How an image is read between its elements."""

    NEAREST = "nearest"
    """The nearest element; half goes to the even one."""

    LINEAR = "linear"
    CUBIC = "cubic"
    """Four neighbours in each direction, by cubic convolution with -0.75."""


class Beyond(enum.Enum):
    """What stands outside of an image."""

    ZEROS = "zeros"
    BORDER = "border"
    REFLECTION = "reflection"


@op_class
class GridSample(Op):
    """x [N, C, spatial...] read at the places of ``grid`` [N, result..., rank]: [N, C, result...].

    A place counts from -1 to 1 over each extent, the last one first; these are the middles of the
    outermost elements with ``align_corners``, else their outer edges. ONNX GridSample; NNRt
    GRID_SAMPLE.
    """

    operands: ClassVar[tuple[Operand, ...]] = (Operand("x", _REAL), Operand("grid", _REAL))

    mode: Sampling = Sampling.LINEAR
    beyond: Beyond = Beyond.ZEROS
    align_corners: bool = False

    def edges(self, extent: int) -> tuple[float, float]:
        """Where -1 and 1 lie along an extent, counted in elements."""
        return (0.0, extent - 1.0) if self.align_corners else (-0.5, extent - 0.5)

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, grid = operand_type(types, 0), operand_type(types, 1)
        if x.shape is None or grid.shape is None:
            return (TensorType(x.dtype, None),)
        rank = len(x.shape)
        if rank < 3 or len(grid.shape) != rank:
            raise ValueError(f"input has rank {rank}, the grid {len(grid.shape)}")
        if isinstance(grid.shape[-1], int) and grid.shape[-1] != rank - 2:
            raise ValueError(
                f"the grid's places have {plural(grid.shape[-1], 'number')}, must be {rank - 2}"
            )
        return (TensorType(x.dtype, (x.shape[0], x.shape[1], *grid.shape[1:-1])),)


@op_class
class AffineGrid(Op):
    """The grid of GridSample that maps each place by ``theta`` [N, rank, rank + 1].

    ``size`` is the shape of the image that will be made, [N, C, spatial...]; None: operand ``size``
    gives it at run time. The result is [N, spatial..., rank]. ONNX AffineGrid.
    """

    operands = (Operand("theta", FLOATS), index_operand("size"))

    size: tuple[int, ...] | None
    align_corners: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        theta = operand_type(types, 0)
        shape = require_rank(theta.shape, 3, "theta")
        batch = None if shape is None else shape[0]
        if self.size is not None:
            if len(self.size) not in (4, 5):
                raise ValueError(f"size is {list(self.size)}, must be of 4 or 5 numbers")
            extents: tuple[Dim, ...] = self.size[2:]
            rank = len(extents)
            if shape is not None and isinstance(shape[1], int) and shape[1] != rank:
                raise ValueError(f"theta is {theta}, the size {list(self.size)}")
            return (TensorType(theta.dtype, (batch, *extents, rank)),)
        sizes = operand_type(types, 1).shape
        count = sizes[0] if sizes is not None and len(sizes) == 1 else None
        if count is None and shape is not None and isinstance(shape[1], int):
            count = shape[1] + 2
        if not isinstance(count, int):
            return (TensorType(theta.dtype, None),)
        return (TensorType(theta.dtype, (batch, *(None,) * (count - 2), count - 2)),)


@op_class
class _Regions(Op):
    """Base of pools over regions of images.

    Attributes:
        size: height and width of the result.
        scale: what regions' coordinates are multiplied by to be those of x.
    """

    size: tuple[int, int]
    scale: float

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, regions = operand_type(types, 0), operand_type(types, 1)
        shape = require_rank(x.shape, 4, "input")
        count = require_rank(regions.shape, 2, "regions")
        result = (
            None if count is None else count[0],
            None if shape is None else shape[1],
            *self.size,
        )
        return (TensorType(x.dtype, result),)


@op_class
class RoiAlign(_Regions):
    """The mean, or the greatest, of points read in each bin of regions [R, (x1, y1, x2, y2)].

    ``images`` [R] says which image each is of. Points are ``samples`` in each direction of a bin,
    or ``across`` along the width where that isn't None (0: as many as a bin has elements, rounded
    up), read by linear interpolation; they are 0 from one element outside on. With ``half_pixel``
    coordinates are of elements' edges; without, regions have an extent of at least 1.
    ONNX RoiAlign; NNAPI ROI_ALIGN (mean).
    """

    operands = (
        Operand("x", _REAL),
        Operand("regions", _REAL),
        Operand("images", INDEX_TYPES, Role.INDEX),
    )

    samples: int = 0
    across: int | None = None
    greatest: bool = False
    half_pixel: bool = True

    @property
    def is_square(self) -> bool:
        """Whether both directions of a bin have as many points."""
        return self.across in (None, self.samples)


class MaxRoiPool(_Regions):
    """The greatest element in each bin of regions [R, (image, x1, y1, x2, y2)].

    Coordinates are rounded to elements, both of which belong to the region; bins without any are 0.
    ONNX MaxRoiPool; NNAPI ROI_POOLING.
    """

    operands = (Operand("x", _REAL), Operand("regions", _REAL))


@op_class
class DeformConv(Op):
    """2-D convolution whose taps are moved, and weighed, by operands.

    Operands: x [N,C,H,W]; weights [O,KH,KW,C/groups]; offset [N, offset_groups * KH * KW * 2, OH,
    OW], pairs (y, x) for each tap; bias [O], optional; mask [N, offset_groups * KH * KW, OH, OW],
    optional. x is read by linear interpolation, and 0 outside. The channels are split into
    ``offset_groups``. ONNX DeformConv.
    """

    operands = (
        Operand("x", FLOATS),
        Operand("weights", FLOATS, Role.WEIGHT),
        Operand("offset", FLOATS),
        Operand("bias", FLOATS, Role.BIAS, optional=True),
        Operand("mask", FLOATS, optional=True),
    )

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: Padding
    groups: int = 1
    offset_groups: int = 1

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x, weights, offset = (operand_type(types, i) for i in range(3))
        shape = require_rank(x.shape, 4, "input")
        filters = require_rank(weights.shape, 4, "weights")
        require_rank(offset.shape, 4, "offset")
        if filters is not None:
            check_bias((x, weights, types[3] if len(types) > 3 else None), filters[0])
        if shape is None or filters is None:
            return (TensorType(x.dtype, (None,) * 4),)
        result: list[Dim] = [shape[0], filters[0]]
        for i in range(2):
            size = filters[1 + i]
            before, after = self.padding.before[i], self.padding.after[i]
            result.append(
                window_count(shape[2 + i], size, self.stride[i], self.dilation[i], before, after)
                if isinstance(size, int)
                else None
            )
        return (TensorType(x.dtype, tuple(result)),)


@op_class
class Col2Im(Op):
    """Blocks put back into images: sums where they overlap.

    x [N, C * elements of a block, blocks] becomes [N, C, *image]. Blocks lie as the windows of a
    convolution of that image do. ``image``, ``block`` None: operands of that name (rank 1) give
    them at run time. ONNX Col2Im.
    """

    operands = (Operand("x", FLOATS), index_operand("image"), index_operand("block"))

    image: tuple[int, ...] | None
    block: tuple[int, ...] | None
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: Padding

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        shape = require_rank(x.shape, 3, "input")
        channels: Dim = None
        if shape is not None and self.block is not None and isinstance(shape[1], int):
            size = 1
            for extent in self.block:
                size *= extent
            if size < 1 or shape[1] % size:
                raise ValueError(
                    f"{plural(shape[1], 'row')} can't be divided into blocks of {list(self.block)}"
                )
            channels = shape[1] // size
        rank = len(self.stride)
        image: tuple[Dim, ...] = self.image if self.image is not None else (None,) * rank
        if len(image) != rank or (self.block is not None and len(self.block) != rank):
            raise ValueError(f"image {image}, block {self.block} for {plural(rank, 'stride')}")
        return (TensorType(x.dtype, (None if shape is None else shape[0], channels, *image)),)
