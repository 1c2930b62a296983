"""Choosing boxes, one after the other, in float32 as LiteRT does."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops.detection import DetectionPostProcess, NonMaxSuppression, SelectBoxes


def overlaps(boxes: Array, index: int) -> Array:
    """The overlap of each box [n, 4] with box ``index``."""
    low = np.minimum(boxes[:, :2], boxes[:, 2:])
    high = np.maximum(boxes[:, :2], boxes[:, 2:])
    areas = (high - low).prod(axis=1)
    common = np.maximum(np.minimum(high, high[index]) - np.maximum(low, low[index]), 0).prod(axis=1)
    union = areas + areas[index] - common
    return np.where((areas > 0) & (areas[index] > 0), common / union, 0).astype(boxes.dtype)


def non_max_suppression(
    op: NonMaxSuppression,
    boxes: Array,
    scores: Array,
    limit: Array | None,
    iou_threshold: Array,
    score_threshold: Array,
    sigma: Array | None = None,
) -> list[Array]:
    """NonMaxSuppression."""
    size = op.limit if limit is None else int(limit.reshape(-1)[0])
    assert size is not None
    overlap, lowest = iou_threshold.reshape(-1)[0], score_threshold.reshape(-1)[0]
    width = np.float32(0) if sigma is None else sigma.reshape(-1)[0]
    scale = np.float32(-0.5) / width if width > 0 else np.float32(0)
    rest = np.where(scores > lowest, scores, -np.inf).astype(np.float32)
    indices, final = np.zeros(size, np.int32), np.zeros(size, np.float32)
    count = 0
    while count < size and rest.size and rest.max() > -np.inf:
        best = int(rest.argmax())
        indices[count], final[count] = best, rest[best]
        count += 1
        common = overlaps(boxes, best)
        weakened = rest * np.exp(scale * common * common)
        rest = np.where((common >= overlap) | ~(weakened > lowest), -np.inf, weakened)
        rest[best] = -np.inf
    found = [indices, final] if op.with_scores else [indices]
    return [*found, np.asarray(count, np.int32)]


def select_boxes(
    op: SelectBoxes,
    boxes: Array,
    scores: Array,
    limit: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
) -> list[Array]:
    """SelectBoxes."""
    most = 0 if limit is None else max(int(limit.reshape(-1)[0]), 0)
    overlap = np.float32(0 if iou_threshold is None else iou_threshold.reshape(-1)[0])
    lowest = -np.inf if score_threshold is None else score_threshold.reshape(-1)[0]
    corners = boxes.astype(np.float32)
    if op.centred:
        centre, half = corners[..., :2], corners[..., 2:] / 2
        corners = np.concatenate([centre - half, centre + half], axis=-1)
    taken = []
    for batch, kind in np.ndindex(*scores.shape[:2]):
        values = scores[batch, kind]
        left = np.where(values > lowest, values, -np.inf).astype(np.float32)
        for _ in range(min(most, left.size)):
            best = int(left.argmax())
            if left[best] == -np.inf:
                break
            taken.append((batch, kind, best))
            left[overlaps(corners[batch], best) > overlap] = -np.inf
            left[best] = -np.inf
    return [np.asarray(taken, op.dtype.numpy).reshape(-1, 3)]


def decode(op: DetectionPostProcess, encodings: Array, anchors: Array) -> Array:
    """The boxes [n, 4]: top, left, bottom, right."""
    scales = np.asarray(op.scales, np.float32)
    scaled = encodings[0, :, :4].astype(np.float32) / scales
    anchors = anchors.astype(np.float32)
    centre = scaled[:, :2] * anchors[:, 2:4] + anchors[:, :2]
    half = np.float32(0.5) * np.exp(scaled[:, 2:]) * anchors[:, 2:4]
    return np.concatenate([centre - half, centre + half], axis=1)


def _chosen(op: DetectionPostProcess, boxes: Array, scores: Array, limit: int) -> list[int]:
    """Indices of the boxes that stay, best first."""
    order = np.argsort(-scores, kind="stable")
    alive = scores[order] >= np.float32(op.score_threshold)
    taken: list[int] = []
    for place, index in enumerate(order.tolist()):
        if len(taken) >= limit:
            break
        if alive[place]:
            taken.append(index)
            alive &= overlaps(boxes, index)[order] <= np.float32(op.iou_threshold)
    return taken


def post_process(
    op: DetectionPostProcess, encodings: Array, scores: Array, anchors: Array
) -> list[Array]:
    """DetectionPostProcess."""
    boxes = decode(op, encodings, anchors)
    background = op.background(scores.shape[2])
    table = scores[0, :, background:].astype(np.float32)
    found = (_each_class if op.regular else _all_classes)(op, boxes, table)
    size = op.max_detections * op.max_classes
    out_boxes, out_classes, out_scores = (
        np.zeros((1, size, *shape), np.float32) for shape in ((4,), (), ())
    )
    for place, box, kind in found:
        out_boxes[0, place], out_classes[0, place] = boxes[box], kind
        out_scores[0, place] = table[box, kind]
    count = len(found) if op.regular else len({box for _, box, _ in found})
    return [out_boxes, out_classes, out_scores, np.full(1, count, np.float32)]


Found = list[tuple[int, int, int]]
"""Detections: place in the result, box, class."""


def _all_classes(op: DetectionPostProcess, boxes: Array, table: Array) -> Found:
    chosen = _chosen(op, boxes, table.max(axis=1), op.max_detections)
    best = np.argsort(-table, axis=1, kind="stable")[:, : op.max_classes]
    return [
        (op.max_classes * place + rank, box, kind)
        for place, box in enumerate(chosen)
        for rank, kind in enumerate(best[box].tolist())
    ]


def _each_class(op: DetectionPostProcess, boxes: Array, table: Array) -> Found:
    found = [
        (box, kind)
        for kind in range(op.classes)
        for box in _chosen(op, boxes, table[:, kind], op.per_class)
    ]
    found.sort(key=lambda pair: -table[pair])
    return [(place, *pair) for place, pair in enumerate(found[: op.max_detections])]


KERNELS: dict[type[Op], Kernel] = {
    NonMaxSuppression: non_max_suppression,
    SelectBoxes: select_boxes,
    DetectionPostProcess: post_process,
}
