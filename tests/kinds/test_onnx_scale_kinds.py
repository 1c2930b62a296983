"""Kinds of fault at the limits of scales: none that LiteRT dies of, none beyond its fixed point."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.errors import InvalidModelError, UnsupportedError
from support.litert import RESOLVERS
from support.litert_worker import worker
from support.onnx_routes import OnnxCase, feeding, node

DENORMAL = np.float32(1e-42)

BETWEEN: dict[str, list[Any]] = {
    "nothing": [],
    "Relu": [node("Relu", ["a"], ["r"])],
    "MaxPool": [node("MaxPool", ["a"], ["r"], kernel_shape=[2, 2])],
    "Add": [node("Add", ["a", "b"], ["r"])],
    "Sub": [node("Sub", ["a", "b"], ["r"])],
    "Mul": [node("Mul", ["a", "b"], ["r"])],
    "squares": [node("Sub", ["a", "b"], ["d"]), node("Mul", ["d", "d"], ["r"])],
    "MatMul": [node("MatMul", ["a", "b"], ["r"])],
    "Concat": [node("Concat", ["a", "b"], ["r"], axis=1)],
    "AveragePool": [node("AveragePool", ["a"], ["r"], kernel_shape=[2, 2])],
    "LeakyRelu": [node("LeakyRelu", ["a"], ["r"], alpha=0.5)],
    "PRelu": [node("PRelu", ["a", "b"], ["r"])],
    "Conv": [node("Conv", ["a", "w"], ["r"])],
}


def quantized(between: list[Any], scales: tuple[float, float, float], dtype: str) -> OnnxCase:
    """Two inputs, or one and weights, of two scales, and a result of a third."""
    first, second, third = (np.float32(scale) for scale in scales)
    point = np.array(128 if dtype == "uint8" else 0, dtype)
    names = {name for made in between for name in made.input}
    codes = np.random.default_rng(0).integers(-128, 128, (2, 1, 3, 4, 4)).astype(np.float32)
    constants: dict[str, Any] = {"sa": first, "so": third, "p": point}
    nodes = [
        node("QuantizeLinear", ["x", "sa", "p"], ["qa"]),
        node("DequantizeLinear", ["qa", "sa", "p"], ["a"]),
    ]
    arrays = [codes[0] * first]
    if "b" in names:
        constants["sb"] = second
        arrays.append(codes[1] * second)
        nodes.append(node("QuantizeLinear", ["z", "sb", "p"], ["qb"]))
        nodes.append(node("DequantizeLinear", ["qb", "sb", "p"], ["b"]))
    if "w" in names:
        constants |= {"sb": second}
        constants["qw"] = np.arange(-6, 6, dtype=np.int8).reshape(4, 3, 1, 1)
        nodes.append(node("DequantizeLinear", ["qw", "sb"], ["w"]))
    last = "r" if between else "a"
    nodes += [
        *between,
        node("QuantizeLinear", [last, "so", "p"], ["qo"]),
        node("DequantizeLinear", ["qo", "so", "p"], ["y"]),
    ]
    return feeding("scales", nodes, *arrays, constants=constants)


def stored(case: OnnxCase, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(case.model().SerializeToString())
    return path


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("kind", ["nothing", "Relu", "MaxPool", "Add"])
def test_a_denormal_scale_is_refused_by_name(kind: str, dtype: str, tmp_path: Path) -> None:
    """XNNPACK would end the process; ONNX keeps it."""
    case = quantized(BETWEEN[kind], (DENORMAL, DENORMAL, DENORMAL), dtype)
    source, target = stored(case, tmp_path), tmp_path / "model.tflite"
    with pytest.raises(UnsupportedError, match=r"`qa`: its scale 1\.\S*e-42"):
        nnconv.convert(source, target)
    assert not target.exists()
    nnconv.convert(source, tmp_path / "again.onnx")


@pytest.mark.parametrize("scale", [0.0, -0.5, np.inf, -np.inf, np.nan])
def test_a_scale_that_is_no_positive_number_is_refused(scale: float, tmp_path: Path) -> None:
    case = quantized([], (1.0, 1.0, 1.0), "int8")
    constants = {**case.constants, "sa": np.float32(scale)}
    source = stored(replace(case, constants=constants), tmp_path)
    with pytest.raises(InvalidModelError, match="scale"):
        nnconv.load(source)


def test_channels_of_weights_may_have_the_least_scales(tmp_path: Path) -> None:
    """Quantizers give them to filters of zeros."""
    case = quantized(BETWEEN["Conv"], (0.5, 1.0, 0.5), "int8")
    scales = np.float32([0.1, 1e-42, 1.2e-38, 0.2])
    along = node("DequantizeLinear", ["qw", "sb"], ["w"], axis=0)
    nodes = [along if made.output[0] == "w" else made for made in case.nodes]
    case = replace(case, nodes=nodes, constants={**case.constants, "sb": scales})
    assert _same_as_the_reference(case, tmp_path)


def _same_as_the_reference(case: OnnxCase, folder: Path, step: float = 0.5) -> bool:
    """Whether the model is written; the results then agree to a step."""
    model, feeds = nnconv.load(stored(case, folder)), list(case.feeds.values())
    with np.errstate(over="ignore"):
        (wanted,) = run_graph(model.graph, feeds)
    target = folder / "model.tflite"
    try:
        nnconv.save(model, target)
    except UnsupportedError as error:
        if any("scale" not in item.why for item in error.items):
            raise
        return False
    for resolver in RESOLVERS:
        (seen,) = worker().run(target.read_bytes(), [feeds], resolver)[1][0]
        gap = np.abs(seen.astype(np.float64) - wanted)
        assert gap.max() <= step * 1.01, f"{resolver}: off by {gap.max() / step} steps"
    return True


_POWERS = [(a, b, c) for a in (-60, 0, 35) for b in (-40, 0, 40) for c in (-60, -20, 0, 5, 35)]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("kind", BETWEEN)
def test_scales_far_apart_give_the_same_or_are_refused(
    kind: str, dtype: str, tmp_path: Path
) -> None:
    """Kernels' fixed point overflows where a result's steps are much finer than its operands'."""
    alone = not {"b", "w"} & {name for made in BETWEEN[kind] for name in made.input}
    powers = [p for p in _POWERS if not alone or p[1] == 0]
    written = [
        _same_as_the_reference(
            quantized(BETWEEN[kind], (2.0**a, 2.0**b, 2.0**c), dtype), tmp_path, 2.0**c
        )
        for a, b, c in powers
    ]
    assert any(written)


@pytest.mark.parametrize("gain", [1, 3, 4, 5, 8, 11, 12, 13, 20])
@pytest.mark.parametrize("kind", BETWEEN)
def test_finer_results_give_the_same_or_are_refused(kind: str, gain: int, tmp_path: Path) -> None:
    case = quantized(BETWEEN[kind], (1.0, 1.0, 2.0**-gain), "int8")
    assert _same_as_the_reference(case, tmp_path, 2.0**-gain) is (gain <= 12)
