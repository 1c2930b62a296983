"""ONNX's Fourier transforms, windows and mel bands on every route."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.onnx_routes import OnnxCase, check_routes, node


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Random floats."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def expected_dft(
    x: np.ndarray, axis: int, length: int | None, *, inverse: int, onesided: int
) -> np.ndarray:
    """What numpy gives."""
    wide = x.astype(np.float64)
    z = wide[..., 0] if x.shape[-1] == 1 else wide[..., 0] + 1j * wide[..., 1]
    if inverse and onesided:
        return np.fft.irfft(z, length, axis=axis)[..., np.newaxis].astype(np.float32)
    found = (np.fft.ifft if inverse else np.fft.fft)(z, length, axis=axis)
    if onesided:
        found = np.take(found, range(found.shape[axis] // 2 + 1), axis=axis)
    return np.stack([found.real, found.imag], axis=-1).astype(np.float32)


def dft(
    id: str,
    *shape: int,
    axis: int = 1,
    length: int | None = None,
    inverse: int = 0,
    onesided: int = 0,
    opset: int = 20,
    at_run_time: Sequence[str] = (),
    **options: Any,
) -> OnnxCase:
    """A DFT; length and axis are constants, or inputs, those ``at_run_time``."""
    x = normal(*shape)
    constants = {} if length is None else {"length": np.asarray(length, np.int64)}
    names = ["x", "" if length is None else "length"]
    attributes: dict[str, int | None] = {
        "inverse": inverse or None,
        "onesided": onesided or None,
    }
    if opset >= 20:
        constants["axis"] = np.asarray(axis, np.int64)
        names.append("axis")
    else:
        attributes["axis"] = axis
    while not names[-1]:
        names.pop()
    along = axis % len(shape)
    wanted = expected_dft(x, along, length, inverse=inverse, onesided=onesided)
    made = node("DFT", names, ["y"], **attributes)
    feeds = {"x": x, **{k: v for k, v in constants.items() if k in at_run_time}}
    constants = {k: v for k, v in constants.items() if k not in at_run_time}
    # onnxruntime refuses the onesided inverse, and is off by 3e-4 where the length is great
    plain = inverse * onesided == 0 and shape[along] < 500
    routes = ("reference", "onnx", "tflite") if plain else ("reference", "tflite")
    return OnnxCase(
        id,
        made,
        feeds,
        constants=constants,
        expected=[wanted],
        opset=opset,
        routes=routes,
        tolerance=1e-5,
        **options,
    )


DFTS = [
    dft("real", 2, 12, 1),
    dft("complex", 2, 12, 2),
    dft("odd", 2, 7, 2),
    dft("one", 2, 1, 2),
    dft("inverse", 2, 12, 2, inverse=1),
    dft("inverse of reals", 2, 12, 1, inverse=1),
    dft("onesided", 2, 12, 1, onesided=1),
    dft("onesided odd", 2, 9, 1, onesided=1),
    dft("onesided inverse", 2, 7, 2, inverse=1, onesided=1),
    dft("onesided inverse odd", 2, 7, 2, inverse=1, onesided=1, length=13),
    dft("longer", 2, 12, 1, length=16),
    dft("shorter", 2, 12, 1, length=8),
    dft("longer inverse", 2, 12, 2, length=15, inverse=1),
    dft("first axis", 6, 5, 3, 2, axis=0),
    dft("middle axis", 2, 6, 5, 2, axis=1),
    dft("axis from the end", 2, 3, 8, 2, axis=-2),
    dft("longer along a middle axis", 2, 6, 5, 2, axis=1, length=8, onesided=0),
    dft("opset 17", 2, 12, 2, opset=17),
    dft("opset 17, another axis", 2, 3, 12, 1, axis=2, opset=17, onesided=1),
    dft("rank 2", 12, 1, axis=0),
    dft("in two", 2, 1200, 2),
    dft("in two, real, onesided", 1, 2000, 1, onesided=1),
    dft("in two, inverse", 1, 1024, 2, inverse=1),
    dft("a long prime", 1, 769, 2),
    dft("any batch", 2, 12, 2, open={"x": [0]}),
    dft("any extent", 2, 12, 2, open={"x": [1]}),
    dft("any extent of reals", 2, 12, 1, open={"x": [0, 1]}, onesided=1),
    dft("any extents, first axis", 6, 5, 3, 2, axis=0, open={"x": [0, 1, 2]}),
    dft("run-time axis", 6, 5, 3, 2, axis=1, at_run_time=["axis"]),
    dft("run-time axis from the end", 6, 5, 3, 2, axis=-4, at_run_time=["axis"]),
    dft("run-time length", 6, 5, 3, 2, axis=1, length=4, at_run_time=["length"]),
    dft("longer at run time", 6, 5, 3, 1, axis=0, length=9, at_run_time=["length", "axis"]),
    dft("inverse at run time", 2, 7, 2, axis=1, inverse=1, at_run_time=["axis"]),
    dft("onesided inverse at run time", 2, 7, 2, inverse=1, onesided=1, at_run_time=["axis"]),
    dft(
        "onesided inverse of any length",
        *(2, 7, 2),
        inverse=1,
        onesided=1,
        length=13,
        at_run_time=["axis", "length"],
    ),
]


def stft(
    id: str,
    *shape: int,
    step: int = 4,
    length: int | None = 16,
    window: Sequence[float] | None = None,
    at_run_time: Sequence[str] = (),
    onesided: int = 1,
    **options: Any,
) -> OnnxCase:
    """An STFT."""
    feeds = {"x": normal(*shape)}
    constants = {"step": np.asarray(step, np.int64)}
    if length is not None:
        constants["length"] = np.asarray(length, np.int64)
    if window is not None:
        constants["window"] = np.asarray(window, np.float32)
    for name in at_run_time:
        feeds[name] = constants.pop(name)
    names = [
        "x",
        "step",
        "" if window is None else "window",
        "" if length is None else "length",
    ]
    while not names[-1]:
        names.pop()
    made = node("STFT", names, ["y"], onesided=onesided)
    return OnnxCase(id, made, feeds, constants=constants, **options)


HANN = np.hanning(16)

STFTS = [
    stft("plain", 2, 40, 1),
    stft("window", 2, 40, 1, window=HANN),
    stft("window alone", 2, 40, 1, window=HANN, length=None),
    stft("run-time window", 2, 40, 1, window=HANN, at_run_time=["window"]),
    stft("both sides", 2, 40, 1, window=HANN, onesided=0),
    stft("complex", 2, 40, 2, onesided=0),
    stft("odd length", 1, 50, 1, length=15, step=7),
    stft("one window", 1, 16, 1),
    stft("any batch", 2, 40, 1, window=HANN, open={"x": [0]}),
    stft("any length", 1, 40, 1, window=HANN, open={"x": [1]}),
    stft("any extents", 2, 40, 1, window=HANN, open={"x": [0, 1]}),
    stft("run-time step", 2, 40, 1, window=HANN, at_run_time=["step"]),
    stft("run-time length", 2, 40, 1, window=HANN, at_run_time=["length"]),
    stft("all at run time", 2, 40, 1, window=HANN, at_run_time=["length", "step", "window"]),
    stft("complex at run time", 2, 40, 2, onesided=0, at_run_time=["length", "step"]),
]


def chain(id: str, window: str, **attributes: Any) -> OnnxCase:
    """A window of constant size, times a signal: it is worked out beforehand."""
    nodes = [node(window, ["size"], ["w"], **attributes), node("Mul", ["x", "w"], ["y"])]
    constants = {"size": np.asarray(10, np.int64)}
    return OnnxCase(
        id,
        nodes,
        {"x": normal(3, 10)},
        constants=constants,
        same_nodes=False,
        ops={"MUL": 1},
    )


WINDOWS = [
    chain(f"{window} {periodic}", window, periodic=periodic)
    for window in ("HannWindow", "HammingWindow", "BlackmanWindow")
    for periodic in (0, 1)
]


def mel(
    id: str, bands: int, length: int, rate: int, low: float, high: float, *, run_time: bool = False
) -> OnnxCase:
    """A MelWeightMatrix, times a spectrum."""
    numbers = {
        "bands": np.asarray(bands, np.int64),
        "length": np.asarray(length, np.int64),
        "rate": np.asarray(rate, np.int64),
        "low": np.asarray(low, np.float32),
        "high": np.asarray(high, np.float32),
    }
    feeds = {"x": normal(3, length // 2 + 1)}
    nodes = [
        node("MelWeightMatrix", list(numbers), ["w"]),
        node("MatMul", ["x", "w"], ["y"]),
    ]
    if run_time:
        return OnnxCase(id, nodes, {**feeds, **numbers})
    return OnnxCase(id, nodes, feeds, constants=numbers, same_nodes=False)


MELS = [
    mel("mel", 8, 64, 16000, 80.0, 7600.0),
    mel("narrow mel", 20, 64, 16000, 0.0, 8000.0),
    mel("mel at run time", 8, 64, 16000, 80.0, 7600.0, run_time=True),
    mel("narrow mel at run time", 20, 64, 16000, 0.0, 8000.0, run_time=True),
]


@pytest.mark.parametrize("case", [*DFTS, *STFTS, *WINDOWS, *MELS], ids=str)
def test_signal(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)
