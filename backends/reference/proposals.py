"""Choosing regions of images."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops.proposals import Decay, LimitedBoxes, Proposals


def _overlaps(box: Array, others: Array) -> Array:
    """The overlap of a box [4] with each of others [n, 4]."""
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    areas = np.prod(others[:, 2:] - others[:, :2], axis=1)
    union = areas + np.prod(box[2:] - box[:2]) - shared
    quotients = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return np.asarray(quotients)


def _decayed(op: LimitedBoxes, overlaps: Array) -> Array:
    if op.decay is Decay.GAUSSIAN:
        return np.asarray(np.exp(-np.square(overlaps) / op.sigma))
    far = overlaps < op.iou_threshold
    return np.where(far, 1.0, 0.0 if op.decay is Decay.HARD else 1.0 - overlaps)


def _taken(op: LimitedBoxes, scores: Array, boxes: Array) -> list[tuple[int, float]]:
    """Boxes of one class that are taken, with their scores."""
    left = np.flatnonzero(scores > op.score_threshold)
    values = scores[left].astype(np.float64)
    found = []
    while left.size:
        best = int(np.argmax(values))
        number = int(left[best])
        found.append((number, float(values[best])))
        left, values = np.delete(left, best), np.delete(values, best)
        values = values * _decayed(op, _overlaps(boxes[number], boxes[left]))
        kept = values >= op.least_score
        left, values = left[kept], values[kept]
    return found


def limited_boxes(op: LimitedBoxes, scores: Array, boxes: Array, images: Array) -> list[Array]:
    """LimitedBoxes."""
    classes = scores.shape[1]
    corners = boxes.astype(np.float64).reshape(len(boxes), classes, 4)
    numbers = images.reshape(-1)
    changes = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    bounds = [0, *changes.tolist(), len(numbers)]
    rows: list[tuple[float, Array, int, int]] = []
    for start, end in pairwise(bounds):
        found = [
            (kind, score, start + number)
            for kind in range(1, classes)
            for number, score in _taken(op, scores[start:end, kind], corners[start:end, kind])
        ]
        found.sort(key=lambda entry: -entry[1])
        found = found[: op.limit] if op.limit >= 0 else found
        found.sort(key=lambda entry: (entry[0], -entry[1]))
        rows += [(score, corners[i, kind], kind, int(numbers[i])) for kind, score, i in found]
    return [
        np.asarray([row[0] for row in rows], np.float64),
        np.asarray([row[1] for row in rows], np.float64).reshape(-1, 4),
        np.asarray([row[2] for row in rows], np.int32),
        np.asarray([row[3] for row in rows], np.int32),
    ]


def _moved(boxes: Array, deltas: Array, size: Array) -> Array:
    """Boxes [n, 4] moved and scaled by deltas [n, 4] and cut to an image of (height, width)."""
    extent = boxes[:, 2:] - boxes[:, :2]
    centre = boxes[:, :2] + extent / 2 + deltas[:, :2] * extent
    half = np.exp(deltas[:, 2:]) * extent / 2
    most = size[::-1]
    low, high = (np.clip(edge, 0, most) for edge in (centre - half, centre + half))
    return np.concatenate([low, high], axis=1)


def _chosen(op: Proposals, scores: Array, boxes: Array, size: Array) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    order = order[: op.before] if op.before > 0 else order
    extent = boxes[:, 2:] - boxes[:, :2]
    centre = boxes[:, :2] + extent / 2
    large = (extent > op.least_size).all(axis=1) & (centre < size[::-1]).all(axis=1)
    left = order[large[order]]
    found: list[int] = []
    while left.size and (op.after < 0 or len(found) < op.after):
        best, left = int(left[0]), left[1:]
        found.append(best)
        left = left[_overlaps(boxes[best], boxes[left]) < op.iou_threshold]
    return found


def proposals(
    op: Proposals, scores: Array, deltas: Array, anchors: Array, sizes: Array
) -> list[Array]:
    """Proposals."""
    count, height, width, _ = scores.shape
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    places = np.stack([columns * op.stride[1], rows * op.stride[0]], axis=-1)
    moved = np.concatenate([places, places], axis=-1)[:, :, None, :] + anchors.astype(np.float64)
    cells = moved.reshape(-1, 4)
    found: list[tuple[float, Array, int]] = []
    for image in range(count):
        flat = scores[image].reshape(-1).astype(np.float64)
        size = sizes[image].astype(np.float64)
        boxes = _moved(cells, deltas[image].reshape(-1, 4).astype(np.float64), size)
        found += [(flat[i], boxes[i], image) for i in _chosen(op, flat, boxes, size)]
    return [
        np.asarray([row[0] for row in found], np.float64),
        np.asarray([row[1] for row in found], np.float64).reshape(-1, 4),
        np.asarray([row[2] for row in found], np.int32),
    ]


KERNELS: dict[type[Op], Kernel] = {LimitedBoxes: limited_boxes, Proposals: proposals}
