"""Choosing boxes from TFLite to TFLite: the same operators, the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnconv
from nnconv.formats.tflite import wire
from nnconv.formats.tflite.flexbuffer import read_map
from ops.test_detection import SUPPRESSIONS, detector, detector_inputs
from support.litert_worker import worker
from support.spine import Case, case_inputs, model_bytes
from support.tflite_builder import TfliteBuilder
from support.tflite_spine import tflite_ops


def again(content: bytes, folder: Path) -> bytes:
    """What is written of a file."""
    source, target = folder / "a.tflite", folder / "b.tflite"
    source.write_bytes(content)
    nnconv.save(nnconv.load(source), target)
    return target.read_bytes()


def check_results(before: bytes, after: bytes, inputs: list[np.ndarray]) -> None:
    """See that both files give the same."""
    _, wanted = worker().run(before, [inputs], "opt")
    _, seen = worker().run(after, [inputs], "opt")
    for ours, theirs in zip(seen[0], wanted[0], strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("case", SUPPRESSIONS, ids=str)
def test_suppression(case: Case, tmp_path: Path) -> None:
    before = model_bytes(case)
    after = again(before, tmp_path)
    assert tflite_ops(after) == tflite_ops(before)
    inputs = case_inputs(case, nnconv.load(tmp_path / "a.tflite"))
    check_results(before, after, inputs)


CHANGES: list[dict[str, Any]] = [
    {"use_regular_nms": True},
    {"nms_score_threshold": 0.0},
    {"use_regular_nms": True, "max_detections": 7, "detections_per_class": 3},
    {"nms_score_threshold": 0.0, "max_classes_per_detection": 2, "nms_iou_threshold": 0.25},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_the_detectors_custom_op(changes: dict[str, Any], tmp_path: Path) -> None:
    b = TfliteBuilder()
    detector(**changes)(b)
    before = b.build()
    after = again(before, tmp_path)
    found = [wire.read(content).subgraphs[0].operators[0] for content in (before, after)]
    theirs, ours = (read_map(bytes(op.custom_options)) for op in found)
    assert [op.name for op in found] == [found[0].name] * 2
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, rel=1e-7)  # float32
    check_results(before, after, detector_inputs(30, 5, 0))
