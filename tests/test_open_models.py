"""Models of open extents convert as they are, and with shapes given: the results are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import nnconv
from nnconv.errors import UnsupportedError
from support.onnx_routes import run_onnxruntime
from support.open_models import MODELS, feeds_of

TARGETS = {
    "tflite": ("litert:cpu", {}),
    "onnx": ("onnxruntime:cpu", {}),
    "nnapi": ("reference", {}),
    "nnapi on LiteRT": ("litert:cpu", {}),
    "nnrt": ("reference", {}),
    "nnrt on onnxruntime": ("onnxruntime:cpu", {}),
    "nnrt 1": ("reference", {"api": 1}),
}

LOOPS = {
    *((name, target) for name in ("GRU", "RNN") for target in TARGETS if "nnrt" in target),
    ("LSTM", "nnrt 1"),
}
"""What needs a loop that the format lacks, as long as the number of steps is open."""

CHOICES = {("nearest pixels", "nnrt 1"), ("pixels between", "nnrt 1")}
"""What needs to choose elements, which the format can't."""


def _results(path: Path, device: str, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    executable = nnconv.compile(path, device)
    given = {i.name: feeds[i.name].astype(i.dtype.numpy) for i in executable.inputs}
    return list(executable.run(given).values())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_open_model_gives_its_source_results(name: str, target: str, tmp_path: Path) -> None:
    model, several = MODELS[name]
    source, result = tmp_path / "source.onnx", tmp_path / f"m.{target.split(maxsplit=1)[0]}"
    onnx.save(model, source)
    device, options = TARGETS[target]
    if (name, target) in LOOPS | CHOICES:
        with pytest.raises(UnsupportedError) as caught:
            nnconv.convert(source, result, **options)
        assert any("`x` (--input-shape)" in item.hint for item in caught.value.items)
    else:
        nnconv.convert(source, result, **options)
        _compare(model, source, result, device, several)
    for shapes in several:
        nnconv.convert(source, result, input_shapes=shapes, **options)
        _compare(model, source, result, device, [shapes])


def _compare(model, source, result, device, several) -> None:
    for seed, shapes in enumerate(several):
        feeds = feeds_of(model, shapes, seed)
        wanted = run_onnxruntime(str(source), feeds)
        for got, want in zip(_results(result, device, feeds), wanted, strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
