"""Choosing regions of images."""

from __future__ import annotations

from nnconv.formats.nnapi.importer import Importer, Source
from nnconv.ir.op import Layout
from nnconv.ops.proposals import Decay, LimitedBoxes, Proposals
from nnconv.ops.rewrite import transposed

DECAYS = (Decay.HARD, Decay.LINEAR, Decay.GAUSSIAN)


def import_box_with_nms_limit(s: Source) -> None:
    """BOX_WITH_NMS_LIMIT."""
    op = LimitedBoxes(
        score_threshold=s.float("score_threshold"),
        limit=s.int("max_detections"),
        decay=DECAYS[s.int("nms_kernel")],
        iou_threshold=s.float("iou_threshold"),
        sigma=s.float("sigma"),
        least_score=s.float("nms_score_threshold"),
    )
    s.emit(op, [s.operand(name) for name in ("scores", "rois", "batches")])


def import_generate_proposals(s: Source) -> None:
    """GENERATE_PROPOSALS."""
    scores, deltas = (s.of_rank(s.operand(name), 4) for name in ("scores", "deltas"))
    if s.layout() is Layout.NCHW:
        scores, deltas = (transposed(s.builder, v, (0, 2, 3, 1)) for v in (scores, deltas))
    stride = s.float("height_stride"), s.float("width_stride")
    if min(stride) <= 0:
        raise s.fail(f"strides {list(stride)}, must be above 0")
    op = Proposals(
        stride=stride,
        before=s.int("pre_nms_limit"),
        after=s.int("post_nms_limit"),
        iou_threshold=s.float("iou_threshold"),
        least_size=s.float("min_size"),
    )
    s.emit(op, [scores, deltas, s.operand("anchors"), s.operand("image_info")])


IMPORTERS: dict[str, Importer] = {
    "BOX_WITH_NMS_LIMIT": import_box_with_nms_limit,
    "GENERATE_PROPOSALS": import_generate_proposals,
}
