"""ONNX's NonMaxSuppression on every route, against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from support.onnx_routes import OnnxCase, check_routes, node


def boxes_and_scores(
    pictures: int, classes: int, count: int, seed: int, *, centred: bool
) -> list[np.ndarray]:
    """Random boxes, some of them about the same place, and different scores."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 1, (pictures, max(count // 3, 1), 2))
    centre = places[:, rng.integers(0, places.shape[1], count)] + rng.normal(
        0, 0.03, (pictures, count, 2)
    )
    size = rng.uniform(0.1, 0.3, (pictures, count, 2))
    if centred:
        boxes = np.concatenate([centre, size], axis=-1)
    else:
        boxes = np.concatenate([centre - size / 2, centre + size / 2], axis=-1)
    scores = rng.permuted(
        np.linspace(0.02, 0.98, pictures * classes * count).reshape(pictures, classes, count),
        axis=None,
    )
    return [boxes.astype(np.float32), scores.astype(np.float32)]


def suppression(
    id: str,
    pictures: int = 1,
    classes: int = 1,
    count: int = 30,
    *,
    limit: int | None = 8,
    overlap: float | None = 0.4,
    lowest: float | None = 0.3,
    at_run_time: Sequence[str] = (),
    centred: bool = False,
    open_count: bool = False,
    open_pictures: bool = False,
    seed: int = 0,
) -> OnnxCase:
    """A NonMaxSuppression whose numbers are constants or, those ``at_run_time``, inputs."""
    first = boxes_and_scores(pictures, classes, count, seed, centred=centred)
    later = pictures + 2 if open_pictures else pictures
    second = boxes_and_scores(later, classes, count, seed + 1, centred=centred)
    numbers = {
        "limit": None if limit is None else np.asarray([limit], np.int64),
        "overlap": None if overlap is None else np.asarray([overlap], np.float32),
        "lowest": None if lowest is None else np.asarray([lowest], np.float32),
    }
    names = [*"bs", *(name if value is not None else "" for name, value in numbers.items())]
    while not names[-1]:
        names.pop()
    given = {k: v for k, v in numbers.items() if v is not None}
    constants = {k: v for k, v in given.items() if k not in at_run_time}
    feeds = {k: v for k, v in given.items() if k in at_run_time}
    return OnnxCase(
        id,
        node("NonMaxSuppression", names, ["y"], center_point_box=1 if centred else None),
        {**dict(zip("bs", first, strict=True)), **feeds},
        [{**dict(zip("bs", second, strict=True)), **feeds}],
        constants,
        open={
            name: [*[0] * open_pictures, *[axis] * open_count]
            for name, axis in (("b", 1), ("s", 2))
            if open_count or open_pictures
        },
    )


CASES = [
    suppression("plain"),
    suppression("pictures and classes", 2, 3),
    suppression("centred", 2, 2, centred=True),
    suppression("all that are left", limit=1000),
    suppression("as many as int64 has", limit=2**63 - 1),
    suppression("few", limit=2),
    suppression("none", limit=0),
    suppression("without a limit", limit=None),
    suppression("any score", lowest=None),
    suppression("no overlap", overlap=None),
    suppression("every overlap", overlap=1.0),
    suppression("no score is enough", lowest=2.0),
    suppression("one box", count=1),
    suppression("run-time limit", at_run_time=["limit"]),
    suppression("great run-time limit", limit=2**40, at_run_time=["limit"]),
    suppression("run-time thresholds", 1, 2, at_run_time=["overlap", "lowest"]),
    suppression("any number of boxes", 1, 2, open_count=True),
    suppression("any number, great limit", limit=2**40, open_count=True),
    suppression("any number of pictures", 2, 3, open_pictures=True),
    suppression("any number of pictures, centred", 1, 2, centred=True, open_pictures=True),
    suppression(
        "all at run time",
        2,
        3,
        open_pictures=True,
        open_count=True,
        at_run_time=["limit", "overlap", "lowest"],
    ),
    suppression("no score is enough in any", 1, 2, lowest=2.0, open_pictures=True),
    *(suppression(f"seed {seed}", 1, 2, 60, limit=20, seed=seed) for seed in range(2, 8)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_suppression(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)
