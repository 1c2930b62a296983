"""Weights, biases and parameters for tests of convolutions and products of matrices, by kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from support.tflite_builder import Quant, Tensor, TfliteBuilder

X_QUANT: dict[str, tuple[float, int] | None] = {
    "float32": None,
    "float16": None,
    "int8": (0.05, 11),
    "uint8": (0.05, 131),
    "int16": (0.002, 0),
}
"""Parameters of the data, by type."""

Y_QUANT: dict[str, tuple[float, int] | None] = {
    "float32": None,
    "float16": None,
    "int8": (0.25, -4),
    "uint8": (0.25, 120),
    "int16": (0.004, 0),
}
"""Parameters of the result, by type."""

_BITS = {"int2": 2, "int4": 4, "int8": 8}


@dataclass(frozen=True)
class Kind:
    """What data and weights are.

    Attributes:
        x: type of the data and the result.
        w: type of the weights.
        channels: whether each filter has its own scale.
        bias: type of the bias.
        zero_point: of the weights.
        tolerance: of float results, where LiteRT itself quantizes the data.
    """

    x: str
    w: str
    channels: bool = False
    bias: str = "float32"
    zero_point: int = 0
    tolerance: float = 1e-5

    def __str__(self) -> str:
        return f"{self.x}-{self.w}{'-channels' if self.channels else ''}"


HYBRID = 2e-2
"""LiteRT quantizes the data of float ops with integer weights."""

KINDS = [
    Kind("float32", "float32"),
    Kind("int8", "int8", bias="int32"),
    Kind("int8", "int8", channels=True, bias="int32"),
    Kind("uint8", "uint8", bias="int32", zero_point=121),
    Kind("int16", "int8", bias="int64"),
    Kind("int16", "int8", channels=True, bias="int64"),
]
"""What all weighted ops take."""


def weights(
    b: TfliteBuilder, kind: Kind, shape: tuple[int, ...], *, axis: int = 0, seed: int = 1
) -> tuple[Tensor, np.ndarray]:
    """Random weights of a kind, filters along ``axis``, and their scales."""
    rng = np.random.default_rng(seed)
    if kind.w.startswith("float"):
        return b.const(rng.standard_normal(shape).astype(kind.w)), np.ones(1)
    if kind.w == "uint8":
        codes = rng.integers(1, 255, shape, endpoint=True).astype(np.uint8)
        return b.const(codes, quant=(0.02, kind.zero_point)), np.asarray([0.02])
    limit = (1 << (_BITS[kind.w] - 1)) - 1
    codes = rng.integers(-limit, limit, shape, endpoint=True).astype(np.int8)
    unit = 0.02 * 127 / limit
    scales = unit * rng.uniform(0.2, 1, shape[axis]) if kind.channels else np.asarray([unit])
    quant = Quant(scales, kind.zero_point, axis=axis)
    return b.const(codes, dtype=kind.w, quant=quant), scales


def bias(b: TfliteBuilder, kind: Kind, count: int, scales: np.ndarray, *, seed: int = 2) -> Tensor:
    """A random bias; an integer one has the scales that the data's and the weights' make."""
    rng = np.random.default_rng(seed)
    if kind.bias.startswith("float"):
        return b.const(rng.standard_normal(count).astype(kind.bias))
    x_quant = X_QUANT[kind.x]
    assert isinstance(x_quant, tuple)
    codes = rng.integers(-300, 300, count).astype(kind.bias)
    return b.const(codes, quant=Quant(scales * x_quant[0], 0))
