"""Choosing boxes: non-maximum suppression, and the detector's last step around it.

Boxes are two opposite corners (y, x, y, x). The overlap of two boxes is the area of their
intersection by that of their union, and 0 where one has no area. Among equal scores the lower index
comes first (LiteRT's NON_MAX_SUPPRESSION takes them in the order of its heap). A box without area
is taken once (LiteRT's takes it again and again).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nnconv.errors import plural
from nnconv.ir.dtype import DType
from nnconv.ir.op import Op, Operand, QuantRule, Types, op_class, operand_type, require_rank
from nnconv.ir.types import TensorType, element_count

_FLOAT = frozenset({DType.FLOAT32})
_REAL = frozenset({DType.FLOAT32, DType.UINT8, DType.INT8})
_COUNT = frozenset({DType.INT32, DType.INT64})


@op_class
class NonMaxSuppression(Op):
    """Takes the box of the highest score again and again; what overlaps it loses by that.

    Boxes whose scores are above ``score_threshold`` compete. When one is taken, those whose overlap
    with it is at least ``iou_threshold`` drop out, and with ``sigma`` > 0 the scores of the others
    are multiplied by exp(-overlap**2 / (2 * sigma)) and must still be above ``score_threshold``.

    Operands: boxes [n, 4], scores [n]; ``limit`` (absent where the attribute says it), thresholds
    and ``sigma`` (absent: 0) have one element. Results: indices of the boxes taken, int32 [limit],
    zeros behind them; with ``with_scores`` their final scores [limit], zeros behind them; their
    number, an int32 scalar. TFLite NON_MAX_SUPPRESSION_V4, V5; ONNX NonMaxSuppression suppresses
    above the threshold only, and pads nothing.
    """

    operands: ClassVar[tuple[Operand, ...]] = (
        Operand("boxes", _FLOAT),
        Operand("scores", _FLOAT),
        Operand("limit", _COUNT, optional=True),
        Operand("iou_threshold", _FLOAT),
        Operand("score_threshold", _FLOAT),
        Operand("sigma", _FLOAT, optional=True),
    )

    limit: int | None
    with_scores: bool

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        boxes = require_rank(operand_type(types, 0).shape, 2, "boxes")
        scores = require_rank(operand_type(types, 1).shape, 1, "scores")
        if boxes is not None and boxes[1] not in (4, None):
            raise ValueError(f"boxes have {plural(boxes[1], 'coordinate')}, must have 4")
        counts = {d for s in (boxes, scores) if s is not None for d in s[:1] if isinstance(d, int)}
        if len(counts) > 1:
            raise ValueError(f"{plural(boxes, 'box', 'boxes')} with {plural(scores, 'score')}")
        if self.limit is not None and self.limit < 0:
            raise ValueError(f"{plural(self.limit, 'box', 'boxes')} are wanted")
        indices = TensorType(DType.INT32, (self.limit,))
        count = TensorType(DType.INT32, ())
        if self.with_scores:
            return indices, TensorType(DType.FLOAT32, (self.limit,)), count
        return indices, count


@op_class
class SelectBoxes(Op):
    """Non-maximum suppression for each class of each picture; gives a list of what was taken.

    Per class the box of the highest score (above ``score threshold``; absent: any) is taken again
    and again, at most ``limit`` times (absent: never); boxes whose overlap with it is above
    ``iou threshold`` (absent: 0) drop out.

    Operands: boxes [B, N, 4], two opposite corners (y, x, y, x), or with ``centred`` (x, y, width,
    height) about their centres; scores [B, C, N]; three numbers of one element each. Result:
    [taken, 3] of ``dtype``: picture, class, box; by picture, by class, by score from the highest.
    ONNX NonMaxSuppression, of int64.
    """

    operands: ClassVar[tuple[Operand, ...]] = (
        Operand("boxes", _FLOAT),
        Operand("scores", _FLOAT),
        Operand("limit", _COUNT, optional=True),
        Operand("iou threshold", _FLOAT, optional=True),
        Operand("score threshold", _FLOAT, optional=True),
    )

    centred: bool = False
    dtype: DType = DType.INT64

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        boxes = require_rank(operand_type(types, 0).shape, 3, "boxes")
        scores = require_rank(operand_type(types, 1).shape, 3, "scores")
        if boxes is not None and scores is not None:
            pairs = ((boxes[0], scores[0]), (boxes[1], scores[2]), (boxes[2], 4))
            if any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
                raise ValueError(f"boxes are {list(boxes)}, scores {list(scores)}")
        for operand, kind in zip(self.operands[2:], types[2:], strict=False):
            if kind is not None and element_count(kind.shape) not in (1, None):
                raise ValueError(f"the {operand.name} is {kind}, must have one element")
        return (TensorType(self.dtype, (None, 3)),)


MOST_ROWS = 1 << 24
"""Nothing is made for more rows of detections: a file may ask for any number."""


@op_class
class DetectionPostProcess(Op):
    """Decodes boxes and chooses the detections.

    Operands: ``encodings`` [1, n, 4 or more] are (y, x, h, w, ...) in terms of ``anchors`` [n, 4],
    which are (y, x, h, w): the centre is anchor centre + encoding / scale * anchor size, the size
    anchor size * exp(encoding / scale). ``scores`` [1, n, classes or classes + 1]; of one class
    more, the first is the background.

    Boxes of scores not below ``score_threshold`` compete; who overlaps a taken one by more than
    ``iou_threshold`` drops out. With ``regular`` this is done for each class by itself, at most
    ``per_class`` boxes each, and the best ``max_detections`` are kept. Else it is done once, with
    each box's highest score, and each box taken gives its ``max_classes`` best classes.

    Attributes:
        classes: how many, without the background.
        scales: of y, x, h and w.

    Results, float32: boxes [1, m, 4] (top, left, bottom, right), classes [1, m], scores [1, m] with
    m = max_detections * max_classes, zeros where there is no detection (LiteRT leaves old content
    there); the number of detections [1] (of boxes, where each has several classes).
    TFLite custom op TFLite_Detection_PostProcess.
    """

    operands: ClassVar[tuple[Operand, ...]] = (
        Operand("encodings", _REAL),
        Operand("scores", _REAL),
        Operand("anchors", _REAL),
    )
    quant_rule = QuantRule.REAL

    max_detections: int
    max_classes: int
    per_class: int
    regular: bool
    score_threshold: float
    iou_threshold: float
    classes: int
    scales: tuple[float, float, float, float]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        encodings = require_rank(operand_type(types, 0).shape, 3, "encodings")
        scores = require_rank(operand_type(types, 1).shape, 3, "scores")
        require_rank(operand_type(types, 2).shape, 2, "anchors")
        for shape in (encodings, scores):
            if shape is not None and shape[0] not in (1, None):
                raise ValueError(f"a batch of {shape[0]}, must be 1")
        if scores is not None and isinstance(scores[2], int):
            self.background(scores[2])
        count = self.max_detections * self.max_classes
        return (
            TensorType(DType.FLOAT32, (1, count, 4)),
            TensorType(DType.FLOAT32, (1, count)),
            TensorType(DType.FLOAT32, (1, count)),
            TensorType(DType.FLOAT32, (1,)),
        )

    @property
    def places(self) -> np.ndarray:
        """Which of the detections that the last result counts a row is of [m]; infinity: of none.

        A row holds a detection where this is below that number.
        """
        rows = np.arange(self.max_detections * self.max_classes)
        if self.regular:
            return rows.astype(np.float32)
        boxes, ranks = np.divmod(rows, self.max_classes)
        return np.where(ranks < self.classes, boxes, np.inf).astype(np.float32)

    def background(self, columns: int) -> int:
        """How many of the scores' columns stand for the background: 0 or 1.

        Raises:
            ValueError: when it would be another number.
        """
        extra = columns - self.classes
        if extra not in (0, 1):
            raise ValueError(
                f"scores of {plural(columns, 'column')} don't fit "
                f"{plural(self.classes, 'class', 'classes')}"
            )
        return extra
