"""Packed constants: the ops that LiteRT runs on them, and every pair that it quantizes between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.breadth import with_litert
from support.spine import Case, check
from support.tflite_builder import Quant, Tensor, TfliteBuilder

SHAPE = (2, 3, 4)
STEP: tuple[float, int] = (0.4, 0)
PARAMETERS: dict[str, tuple[float, int]] = {
    "int2": (0.5, 0),
    "int4": STEP,
    "uint4": (0.4, 7),
    "int8": (0.05, 3),
    "uint8": (0.05, 131),
    "int16": (0.001, 0),
}
LIMITS = {
    "int2": (-2, 1),
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int8": (-128, 127),
    "uint8": (0, 255),
}


def _codes(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    low, high = LIMITS[dtype]
    kind = np.uint8 if dtype.startswith("u") else np.int8
    return np.random.default_rng(seed).integers(low, high, shape, endpoint=True).astype(kind)


# Operands of an op on int4: shapes are of constants, arrays are indices, a dict has fed ones.
MOVES: dict[str, tuple[Sequence[Any], tuple[int, ...], dict[str, Any]]] = {
    "RESHAPE": ([(2, 6), np.array([3, 4])], (3, 4), {}),
    "SLICE": ([(3, 6), np.array([1, 0]), np.array([2, 4])], (2, 4), {}),
    "SQUEEZE": ([(3, 1, 4)], (3, 4), {"squeeze_dims": [1]}),
    "EXPAND_DIMS": ([(3, 4), np.array(1)], (3, 1, 4), {}),
    "TRANSPOSE": ([(3, 4), np.array([1, 0])], (4, 3), {}),
    "CONCATENATION": ([(2, 4), (1, 4)], (3, 4), {"axis": 0}),
    "GATHER": ([(5, 4), {"places": [3, 0, 2]}], (3, 4), {"axis": 0}),
    "EMBEDDING_LOOKUP": ([{"places": [3, 0, 2]}, (5, 4)], (3, 4), {}),
    "DYNAMIC_UPDATE_SLICE": ([(3, 4), (1, 2), {"start": [1, 2]}], (3, 4), {}),
}


def _operand(b: TfliteBuilder, spec: Any, seed: int) -> Tensor:
    if isinstance(spec, tuple):
        return b.const(_codes("int4", spec, seed), dtype="int4", quant=STEP)
    if isinstance(spec, dict):
        ((name, values),) = spec.items()
        return b.input(name, "int32", (len(values),))
    return b.const(spec.astype(np.int32))


def _move(op: str, *, to_float: bool = False) -> Case:
    specs, shape, options = MOVES[op]

    def build(b: TfliteBuilder) -> None:
        operands = [_operand(b, spec, seed) for seed, spec in enumerate(specs)]
        if to_float:
            b.output(b.op(op, operands, [("float32", shape)], options=options))
            return
        moved = b.op(op, operands, [("int4", shape, STEP)], options=options)
        b.output(b.op("DEQUANTIZE", [moved], [("float32", shape)]))

    fed = [np.asarray(v, np.int32) for s in specs if isinstance(s, dict) for v in s.values()]
    return Case(f"{op}{'-float' if to_float else ''}", build, fed, resolver=None)


def _dequantized(dtype: str, target: str, axis: int | None = None) -> Case:
    """A constant behind a DEQUANTIZE."""
    quant: Any = PARAMETERS[dtype]
    if axis is not None:
        quant = Quant([0.1 * (i + 1) for i in range(SHAPE[axis])], quant[1], axis=axis)

    def build(b: TfliteBuilder) -> None:
        codes = b.const(_codes(dtype, SHAPE), dtype=dtype, quant=quant)
        real = b.op("DEQUANTIZE", [codes], [(target, SHAPE)])
        b.output(b.op("ADD", [real, b.input("x", target, SHAPE)], [(target, SHAPE)]))

    tolerance = 2e-3 if target == "float16" else 1e-5
    name = f"DEQUANTIZE-{dtype}-{target}-{axis}"
    return Case(name, build, resolver=None, tolerance=tolerance)


def _halves(target: str) -> Case:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float16", SHAPE)
        b.output(b.op("QUANTIZE", [x], [(target, SHAPE, PARAMETERS[target])]))

    return Case(f"QUANTIZE-float16-{target}", build, resolver=None)


def _to_half() -> Case:
    def build(b: TfliteBuilder) -> None:
        b.output(b.op("QUANTIZE", [b.input("x", "float32", SHAPE)], [("float16", SHAPE)]))

    return Case("QUANTIZE-float32-float16", build, resolver=None, tolerance=2e-3)


CASES = [
    *(_move(op) for op in MOVES),
    _move("EMBEDDING_LOOKUP", to_float=True),
    *(_dequantized(dtype, "float32") for dtype in LIMITS),
    *(_dequantized(dtype, "float16") for dtype in ("int8", "uint8")),
    *(_dequantized(dtype, "float32", axis) for dtype in ("int8", "uint8") for axis in range(3)),
    *(_halves(target) for target in ("int8", "uint8")),
    _to_half(),
]


@pytest.mark.parametrize("opset", [21, 24])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_narrow(case: Case, opset: int, tmp_path: Path) -> None:
    check(replace(with_litert(case), options={"opset": opset}), tmp_path)
