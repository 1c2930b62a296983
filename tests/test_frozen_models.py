"""Reference models with open inputs become NNAPI and NNRt models once their shapes are given.

``frozen_shapes.json`` has a shape for each open input. A sample of the models; with
``NNCONV_ALL_TRIPS=1`` all of them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import nnconv
from nnconv.errors import InvalidModelError, UnsupportedError
from nnconv.ir.types import static_shape
from support.places import find_shared_dir

SHAPES: dict[str, dict[str, list[int]]] = json.loads(
    Path(__file__).with_name("frozen_shapes.json").read_text(encoding="utf-8")
)
EACH = 1 if os.environ.get("NNCONV_ALL_TRIPS") == "1" else 4
TARGETS = ("nnapi", "nnrt")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", list(SHAPES)[::EACH])
def test_an_open_model_of_given_shapes_converts_and_agrees(
    path: str, target: str, shared_dir: Path, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    shapes = {name: tuple(shape) for name, shape in SHAPES[path].items()}
    result = tmp_path / f"model.{target}"
    report = nnconv.convert(shared_dir / "models" / path, result, input_shapes=shapes, verify=True)
    assert not nnconv.check(result, target).obstacles
    assert {name: tuple(shape or ()) for name, _, shape in report.inputs}.items() >= shapes.items()
    verification = report.verification
    assert verification is not None
    assert verification.passed
    assert verification.outputs or not nnconv.load(result).outputs


def test_each_model_with_an_open_input_has_shapes() -> None:
    folder = find_shared_dir()
    if folder is None:
        pytest.skip("no reference models here")
    models = folder / "models"
    for record in json.loads((models / "index.json").read_text(encoding="utf-8")):
        try:
            model = nnconv.load(models / record["path"])
        except (InvalidModelError, UnsupportedError):
            continue
        if any(static_shape(value.shape) is None for value in model.inputs):
            assert record["path"] in SHAPES
