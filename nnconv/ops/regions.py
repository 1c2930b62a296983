"""Moving regions of images, and finding points in them.

Boxes are two opposite corners (x1, y1, x2, y2).
"""

from __future__ import annotations

from typing import ClassVar

from nnconv.errors import plural
from nnconv.ir.dtype import FLOATS
from nnconv.ir.op import Op, Operand, Role, Types, op_class, operand_type, require_rank
from nnconv.ir.types import TensorType
from nnconv.ops.conv import QUANTIZED
from nnconv.ops.gather import INDEX_TYPES

_REAL = FLOATS | QUANTIZED


class BoxTransform(Op):
    """Boxes moved and scaled for each class, and cut to their image.

    With d = (x, y, width, height) a class's deltas: the centre moves by (d_x, d_y) times the box's
    size, which is multiplied by (e**d_width, e**d_height).

    Operands: boxes [R, 4]; deltas [R, C * 4]; the image that each box is of [R]; the images' sizes
    [N, 2] as (height, width). Result: boxes [R, C * 4]. NNAPI AXIS_ALIGNED_BBOX_TRANSFORM.
    """

    operands: ClassVar[tuple[Operand, ...]] = (
        Operand("boxes", _REAL),
        Operand("deltas", _REAL),
        Operand("images", INDEX_TYPES, Role.INDEX),
        Operand("sizes", _REAL),
    )

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        boxes, deltas = operand_type(types, 0), operand_type(types, 1)
        require_rank(boxes.shape, 2, "boxes")
        columns = (require_rank(deltas.shape, 2, "deltas") or (None, None))[1]
        if isinstance(columns, int) and columns % 4:
            raise ValueError(f"deltas of {plural(columns, 'column')}, must be four for each class")
        rows = boxes.shape[0] if boxes.shape is not None else None
        return (TensorType(boxes.dtype, (rows, columns)),)


@op_class
class HeatmapKeypoints(Op):
    """The place and height of the greatest element of square maps, between the elements.

    Around the first greatest element a parabola is laid through its 3 x 3 neighbours, mirrored at
    the edges; its peak is at most 1.5 elements away from the middle along either axis. Where the
    determinant of the second derivatives is below 1e-5 the peak is the element itself.

    Operands: maps [N, S, S, K], or [N, K, S, S] with ``points_first``; boxes [N, 4], which the maps
    of an image cover. Results: heights [N, K]; points [N, K, 2] as (x, y) in the boxes' own
    coordinates.
    NNAPI HEATMAP_MAX_KEYPOINT.
    """

    operands: ClassVar[tuple[Operand, ...]] = (Operand("maps", _REAL), Operand("boxes", _REAL))

    points_first: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        maps, boxes = operand_type(types, 0), operand_type(types, 1)
        shape = require_rank(maps.shape, 4, "maps") or (None,) * 4
        require_rank(boxes.shape, 2, "boxes")
        points, sides = (shape[1], shape[2:]) if self.points_first else (shape[3], shape[1:3])
        if all(isinstance(side, int) for side in sides) and sides[0] != sides[1]:
            raise ValueError(f"maps of {sides[0]} x {sides[1]}, must be square")
        return (
            TensorType(maps.dtype, (shape[0], points)),
            TensorType(boxes.dtype, (shape[0], points, 2)),
        )
