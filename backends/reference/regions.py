"""Moving regions of images, and finding points in them."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops.regions import BoxTransform, HeatmapKeypoints


def box_transform(
    op: BoxTransform, boxes: Array, deltas: Array, images: Array, sizes: Array
) -> list[Array]:
    """BoxTransform."""
    corners = boxes.astype(np.float64)
    moves = deltas.astype(np.float64).reshape(len(boxes), deltas.shape[1] // 4, 4)
    extent = (corners[:, 2:] - corners[:, :2])[:, None]
    centre = corners[:, None, :2] + extent / 2 + moves[..., :2] * extent
    half = np.exp(moves[..., 2:]) * extent / 2
    most = sizes.astype(np.float64)[images.astype(np.int64), None, ::-1]
    low, high = (np.clip(edge, 0, most) for edge in (centre - half, centre + half))
    return [np.concatenate([low, high], axis=-1).reshape(deltas.shape)]


_LEAST_DETERMINANT = 1e-5
_LONGEST_STEP = 1.5


def _peak(cells: Array) -> tuple[Array, float]:
    """How far the peak is from the middle of 3 x 3 elements as (x, y), and its height."""
    slope = np.asarray([cells[1, 2] - cells[1, 0], cells[2, 1] - cells[0, 1]]) / 2
    xx = cells[1, 2] + cells[1, 0] - 2 * cells[1, 1]
    yy = cells[2, 1] + cells[0, 1] - 2 * cells[1, 1]
    xy = (cells[2, 2] + cells[0, 0] - cells[0, 2] - cells[2, 0]) / 4
    bend = np.asarray([[xx, xy], [xy, yy]])
    if abs(xx * yy - xy * xy) < _LEAST_DETERMINANT:
        return np.zeros(2), float(cells[1, 1])
    step = -np.linalg.solve(bend, slope)
    step *= _LONGEST_STEP / max(np.abs(step).max(), _LONGEST_STEP)
    return step, float(cells[1, 1] + slope @ step + step @ bend @ step / 2)


def heatmap_keypoints(op: HeatmapKeypoints, maps: Array, boxes: Array) -> list[Array]:
    """HeatmapKeypoints."""
    if not op.points_first:
        maps = maps.transpose(0, 3, 1, 2)
    count, points, side, _ = maps.shape
    heights, places = np.zeros((count, points)), np.zeros((count, points, 2))
    for at in np.ndindex(count, points):
        cells = maps[at].astype(np.float64)
        row, column = divmod(int(np.argmax(cells)), side)
        around = np.pad(cells, 1, mode="reflect")[row : row + 3, column : column + 3]
        step, heights[at] = _peak(around)
        low, high = boxes[at[0]].astype(np.float64).reshape(2, 2)
        places[at] = low + (np.asarray([column, row]) + step + 0.5) / side * (high - low)
    return [heights, places]


KERNELS: dict[type[Op], Kernel] = {
    BoxTransform: box_transform,
    HeatmapKeypoints: heatmap_keypoints,
}
