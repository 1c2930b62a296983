"""The digits fixtures: a network trained on real data, in several forms, and held-out images."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from support.litert import LiteRtRunner
from support.places import FIXTURES

DIGITS = FIXTURES / "digits"
"""The folder with the files; its README says what they are."""


def heldout() -> tuple[np.ndarray, np.ndarray]:
    """Give the images that training never saw, float32 (n, 8, 8, 1) in [0, 1], and their digits."""
    with np.load(DIGITS / "heldout.npz") as arrays:
        images = arrays["images"].astype(np.float32) / np.float32(16)
        return images[..., np.newaxis], arrays["labels"].astype(np.int64)


def stated_accuracy() -> dict[str, float]:
    """Give the share of held-out images that each .tflite file gets right, by file name."""
    shares: dict[str, float] = json.loads((DIGITS / "accuracy.json").read_text())["accuracy"]
    return shares


def quantize_images(
    images: np.ndarray, dtype: np.dtype, scale: float, zero_point: int
) -> np.ndarray:
    """Give the images as a model's input wants them; a ``scale`` of 0 leaves them float."""
    if not scale:
        return images.astype(dtype)
    steps = np.floor(images.astype(np.float64) / scale + 0.5) + zero_point
    info = np.iinfo(dtype)
    return steps.clip(info.min, info.max).astype(dtype)


def share_right(
    run: Callable[[np.ndarray], np.ndarray],
    images: np.ndarray,
    labels: np.ndarray,
    *,
    batch: int,
) -> float:
    """Give the share of ``images`` that ``run`` gets right, called with ``batch`` of them at once.

    ``run`` maps images to scores of shape (batch, 10).
    """
    right = 0
    for start in range(0, len(images), batch):
        scores = run(images[start : start + batch])
        right += int((scores.argmax(axis=1) == labels[start : start + batch]).sum())
    return right / len(labels)


def accuracy(path: Path, images: np.ndarray, labels: np.ndarray, resolver: str) -> float:
    """Give the share of ``images`` that a .tflite file gets right in LiteRT."""
    runner = LiteRtRunner(path, resolver)
    (detail,) = runner.interpreter.get_input_details()
    scale, zero_point = detail["quantization"]
    inputs = quantize_images(images, np.dtype(detail["dtype"]), scale, zero_point)
    batch = len(images) if detail["shape_signature"][0] == -1 else 1
    return share_right(lambda some: runner.run([some])[0], inputs, labels, batch=batch)
