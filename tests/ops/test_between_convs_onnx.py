"""Elementwise ops and reductions between convolutions of ONNX models leave no TRANSPOSE inside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import nnconv
from nnconv.formats.tflite import wire
from support.onnx_routes import OnnxCase, check_routes, node

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


CHANNELS, SCALAR = floats(8, 1, 1), np.array(-0.5, np.float32)


def between(
    name: str,
    nodes: Sequence[Any],
    *,
    run_time: bool = False,
    same_nodes: bool = True,
    **constants: np.ndarray,
) -> OnnxCase:
    """A convolution from ``x`` to ``a``, some nodes from ``a`` to ``m``, and a convolution."""
    feeds = {"x": floats(1, 3, 6, 7), **({"scalar": SCALAR} if run_time else {})}
    return OnnxCase(
        name,
        [
            node("Conv", ["x", "first"], ["a"], pads=[1] * 4),
            *nodes,
            node("Conv", ["m", "second"], ["y"], pads=[1] * 4),
        ],
        feeds,
        constants={"first": floats(8, 3, 3, 3), "second": floats(4, 8, 3, 3), **constants},
        tolerance=1e-4,
        same_nodes=same_nodes,
    )


CASES = [
    *(
        between(op, [node(op, ["a"], ["m"])])
        for op in (
            *("Mish", "Softplus", "Softsign", "Erf", "Selu", "Celu", "Elu", "HardSigmoid"),
            *("HardSwish", "ThresholdedRelu", "Shrink", "Atan", "Sinh", "Asinh", "Reciprocal"),
            *("Sign", "Floor", "Ceil", "Round", "Gelu", "LeakyRelu", "Exp", "Abs", "Neg"),
        )
    ),
    *(between(op, [node(op, ["a"], ["m"], axis=1)]) for op in ("Softmax", "LogSoftmax", "Hardmax")),
    between("clip at run time", [node("Clip", ["a", "scalar"], ["m"])], run_time=True),
    between("max of 3", [node("Max", ["a", "c", "scalar"], ["m"])], run_time=True, c=CHANNELS),
    between("mean of 3", [node("Mean", ["a", "c", "a"], ["m"])], c=CHANNELS),
    between("slopes", [node("PRelu", ["a", "c"], ["m"])], c=CHANNELS),
    between("modulus", [node("Mod", ["a", "c"], ["m"], fmod=1)], c=np.abs(CHANNELS) + 1),
    between(
        "choice",
        [node("IsNaN", ["a"], ["n"]), node("Where", ["n", "c", "a"], ["m"])],
        c=CHANNELS,
    ),
    *(
        between(
            f"{op} along {list(axes)}",
            [
                node(op, ["a", "axes"], ["r"], keepdims=1),
                node("Add", ["a", "r"], ["m"]),
            ],
            axes=np.array(axes),
            same_nodes=(op, axes) != ("ReduceMean", (2, 3)),  # that is GlobalAveragePool
        )
        for op in ("ReduceMean", "ReduceL2", "ReduceMax", "ReduceLogSumExp")
        for axes in ((1,), (2, 3), (-1,))
    ),
    *(
        between(f"{op} along {axis}", [node(op, ["a", "axis"], ["m"])], axis=np.array(axis))
        for op in ("CumSum",)
        for axis in (1, 3)
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_between_convolutions(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)
    onnx.save(case.model(), tmp_path / "a.onnx")
    nnconv.convert(tmp_path / "a.onnx", tmp_path / "a.tflite")
    (graph,) = wire.read(tmp_path / "a.tflite").subgraphs
    names = [operator.name for operator in graph.operators]
    assert names.count("TRANSPOSE") == 2, "one for the input, one for the output"
    assert (names[0], names[-1]) == ("TRANSPOSE", "TRANSPOSE")
