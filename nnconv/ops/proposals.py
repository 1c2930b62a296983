"""Choosing regions of images: how many there are depends on the data.

Boxes are two opposite corners (x1, y1, x2, y2). The overlap of two boxes is the area of their
intersection by that of their union.
"""

from __future__ import annotations

import enum
from typing import ClassVar

from nnconv.errors import plural
from nnconv.ir.dtype import FLOATS, DType
from nnconv.ir.op import Op, Operand, Role, Types, op_class, operand_type, require_rank
from nnconv.ir.types import TensorType
from nnconv.ops.conv import QUANTIZED
from nnconv.ops.gather import INDEX_TYPES

_REAL = FLOATS | QUANTIZED


class Decay(enum.Enum):
    """What a box's score is multiplied by because of its overlap with one that is taken."""

    HARD = "hard"
    """0 where the overlap is at least the threshold, else 1."""

    LINEAR = "linear"
    """1 - overlap where that is at least the threshold, else 1."""

    GAUSSIAN = "gaussian"
    """exp(-overlap**2 / sigma)."""


@op_class
class LimitedBoxes(Op):
    """Non-maximum suppression for each class of each image, and the best of all classes.

    Per image and class (but the first, the background) boxes whose scores are above
    ``score_threshold`` compete: the best is taken again and again, the scores of the others fall by
    their overlap with it (``decay``), and those below ``least_score`` drop out. Of all that an
    image gives the ``limit`` best stay (negative: all), by class and then from the best score.

    Operands: scores [R, C]; boxes [R, C * 4]; the image that each region is of [R], equal ones side
    by side. Results: scores [n]; boxes [n, 4]; classes, int32 [n]; images, int32 [n].
    NNAPI BOX_WITH_NMS_LIMIT.
    """

    operands: ClassVar[tuple[Operand, ...]] = (
        Operand("scores", _REAL),
        Operand("boxes", _REAL),
        Operand("images", INDEX_TYPES, Role.INDEX),
    )

    score_threshold: float
    limit: int
    decay: Decay
    iou_threshold: float
    sigma: float
    least_score: float

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        scores, boxes = operand_type(types, 0), operand_type(types, 1)
        extents = require_rank(scores.shape, 2, "scores"), require_rank(boxes.shape, 2, "boxes")
        if extents[0] is not None and extents[1] is not None:
            classes, columns = extents[0][1], extents[1][1]
            if isinstance(classes, int) and isinstance(columns, int) and columns != classes * 4:
                raise ValueError(
                    f"boxes of {plural(columns, 'column')} for "
                    f"{plural(classes, 'class', 'classes')}"
                )
        return (
            TensorType(scores.dtype, (None,)),
            TensorType(boxes.dtype, (None, 4)),
            TensorType(DType.INT32, (None,)),
            TensorType(DType.INT32, (None,)),
        )


@op_class
class Proposals(Op):
    """Boxes around anchors in each cell of a map, the best of them that don't overlap.

    Anchors are moved to each cell, by its place times ``stride`` (height, width), then moved and
    scaled by the deltas (of centre, relative to the anchor's size; of size, as logarithms) and cut
    to the image. Of each image the ``before`` best by score (0 and less: all) compete; those not
    larger than ``least_size``, or centred outside of the image, don't. The best is taken again and
    again, and those whose overlap with it is at least ``iou_threshold`` drop out, until there are
    ``after`` (negative: no limit).

    Operands: scores [N, H, W, A]; deltas [N, H, W, A * 4] as (x, y, width, height); anchors [A, 4];
    images' sizes [N, 2] as (height, width). Results: scores [n]; boxes [n, 4]; images, int32 [n].
    NNAPI GENERATE_PROPOSALS.
    """

    operands: ClassVar[tuple[Operand, ...]] = (
        Operand("scores", _REAL),
        Operand("deltas", _REAL),
        Operand("anchors", _REAL),
        Operand("sizes", _REAL),
    )

    stride: tuple[float, float]
    before: int
    after: int
    iou_threshold: float
    least_size: float

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        scores, deltas = operand_type(types, 0), operand_type(types, 1)
        sizes = operand_type(types, 3)
        extents = require_rank(scores.shape, 4, "scores"), require_rank(deltas.shape, 4, "deltas")
        if extents[0] is not None and extents[1] is not None:
            anchors, columns = extents[0][3], extents[1][3]
            if isinstance(anchors, int) and isinstance(columns, int) and columns != anchors * 4:
                raise ValueError(
                    f"deltas of {plural(columns, 'column')} for {plural(anchors, 'anchor')}"
                )
        return (
            TensorType(scores.dtype, (None,)),
            TensorType(sizes.dtype, (None, 4)),
            TensorType(DType.INT32, (None,)),
        )
