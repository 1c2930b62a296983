"""Which operations each writer makes of PRelu, by the slopes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnconv
from nnconv.formats import summarize
from nnconv.ir import Builder, DType, Value
from nnconv.ops.elementwise import PRelu
from support.onnx_spine import IrCase

WRITERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ONNX": ("tflite", "onnx", {}),
    "ONNX again": ("onnx", "onnx", {}),
    "TFLite": ("onnx", "tflite", {}),
    "NNAPI": ("onnx", "nnapi", {}),
    "NNAPI 2": ("onnx", "nnapi", {"feature_level": 2}),
    "NNRt": ("onnx", "nnrt", {}),
}
"""The format that the model is of, the file's suffix, and options of nnconv.save."""

GREATER = {"Max": 1, "Mul": 1}
LEAKY = {"LeakyRelu": 1}
PARTS = {"Relu": 2, "Neg": 1, "Mul": 1, "Sub": 1}
OWN = {"PRelu": 1}
ON_LEVEL_2 = {"RELU": 2, "MUL": 3, "ADD": 1}
ON_LEVEL_2_TWICE = {"RELU": 2, "MUL": 4, "ADD": 1}  # an infinite slope is two factors

INF = np.inf

SLOPES = {
    "below 1": ([0.1, -0.25, 0.5], GREATER, ON_LEVEL_2),
    "up to 1": ([0.1, 1, 0.5], GREATER, ON_LEVEL_2),
    "with 0": ([0.1, 0, 0.5], PARTS, ON_LEVEL_2),
    "above 1": ([0.1, 2.5, 0.5], PARTS, ON_LEVEL_2),
    "equal": ([0.25] * 3, LEAKY, ON_LEVEL_2),
    "all 0": ([0] * 3, LEAKY, ON_LEVEL_2),
    "one": ([2.5], LEAKY, ON_LEVEL_2),
    "no number": ([0.1, np.nan, 0.5], OWN, ON_LEVEL_2),
    "infinite": ([0.1, INF, 0.5], OWN, ON_LEVEL_2_TWICE),
    "infinite below 0": ([0.1, -INF, 0.5], OWN, ON_LEVEL_2_TWICE),
    "all infinite": ([INF] * 3, OWN, ON_LEVEL_2_TWICE),
    "one infinite": ([-INF], OWN, ON_LEVEL_2_TWICE),
    "of a run": (None, PARTS, ON_LEVEL_2),
}
"""Slopes (None: a run gives them), and what is written where not always the same is."""


def _written(slopes: list[float] | None, writer: str, folder: Path) -> Path:
    """The file of a model of one PRelu."""
    source, suffix, options = WRITERS[writer]

    def build(b: Builder) -> Value:
        x = b.input("x", DType.FLOAT32, (2, 3))
        given = b.input("s", DType.FLOAT32, (3,)) if slopes is None else b.const(np.float32(slopes))
        return b.add(PRelu(), [x, given])

    path = folder / f"{writer}.{suffix}"
    nnconv.save(IrCase("prelu", build, format=source).model(), path, **options)
    return path


@pytest.mark.parametrize(("slopes", "quick", "early"), SLOPES.values(), ids=SLOPES)
def test_the_slopes_choose_the_form(slopes, quick, early, tmp_path):
    wanted = {
        "ONNX": quick,
        "ONNX again": OWN,
        "TFLite": {"PRELU": 1},
        "NNAPI": {"PRELU": 1},
        "NNAPI 2": early,
        "NNRt": {"PRELU": 1} if slopes else {"MINIMUM": 1, "MUL": 1, "MAXIMUM": 1, "ADD": 1},
    }
    assert {name: summarize(_written(slopes, name, tmp_path)).ops for name in wanted} == wanted


@pytest.mark.parametrize("slopes", [[INF] * 3, [-INF], [0.1, INF, 0.5]], ids=str)
@pytest.mark.parametrize("writer", WRITERS)
def test_infinite_slopes_leave_0_as_it_is(slopes, writer, tmp_path):
    model = nnconv.load(_written(slopes, writer, tmp_path))
    x = np.float32([[0, 1, 2], [3, 0, 4]])
    (found,) = nnconv.compile(model, "reference").run({model.inputs[0].name: x}).values()
    np.testing.assert_array_equal(found, x)
