"""Normalizations in other layouts, types and opsets than ONNX has one node for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Op, Value
from nnconv.ops import norm as n
from nnconv.ops import standardize as s
from nnconv.ops.quantize import Cast
from support.onnx_spine import IrCase, check_ir, on_litert
from support.tflite_spine import TfliteCase, check_tflite

Build = Callable[[Builder], "Value | Sequence[Value]"]

SHAPE = (2, 3, 4, 6)


def normalized(
    op: Op, names: Sequence[str], shape: Sequence[int], dtype: DType = DType.FLOAT32
) -> Build:
    """An op with constant parameters of a shape."""

    def build(b: Builder) -> Value | Sequence[Value]:
        x = b.input("x", DType.FLOAT32, SHAPE)
        rng = np.random.default_rng(1)
        numbers = [b.const(rng.uniform(0.5, 2, shape).astype(np.float32), k) for k in names]
        operands = [x, *numbers]
        if dtype is not DType.FLOAT32:
            operands = [b.add(Cast(dtype=dtype), [v]) for v in operands]
        results = b.add_many(op, operands)
        if dtype is DType.FLOAT32:
            return results
        return b.add(Cast(dtype=DType.FLOAT32), [results[0]])

    return build


BATCH = ["scale", "offset", "mean", "var"]
PAIR = ["scale", "offset"]

OLD = (13, 16, 17, 21, 22, 23, 27)
"""Around the opsets that brought a node for some of them."""


def layouts() -> list[IrCase]:
    cases = []
    for axis in (1, 2, 3):
        count = SHAPE[axis]
        batch = s.BatchNormalization(axis=axis, epsilon=1e-3)
        instance = s.InstanceNormalization(axis=axis, epsilon=1e-3)
        cases += [
            IrCase(f"batch along {axis}", normalized(batch, BATCH, (count,)), evaluated=axis == 1),
            IrCase(f"instance along {axis}", normalized(instance, PAIR, (count,))),
        ]
    for axis in (1, 3):
        for groups in (1, 3):
            for by_group in (False, True):
                op = s.GroupNormalization(axis=axis, epsilon=1e-3, groups=groups, by_group=by_group)
                count = groups if by_group else SHAPE[axis]
                name = f"{groups} groups along {axis}{', by group' * by_group}"
                # onnx's evaluator has no GroupNormalization of its own
                build = normalized(op, PAIR, (count,))
                cases.append(IrCase(name, build, opsets=(13, 18, 21, 27)))
    return cases


def opsets() -> list[IrCase]:
    cases = []
    for axis in (1, 3):
        scale = SHAPE[axis:]
        for statistics in (False, True):
            layer = s.LayerNormalization(axis=axis, epsilon=1e-3, statistics=statistics)
            name = f"layer from {axis}{' with statistics' * statistics}"
            cases.append(IrCase(name, normalized(layer, PAIR, scale), opsets=OLD))
        layer = s.LayerNormalization(axis=axis, epsilon=1e-3)
        cases.append(
            IrCase(f"layer from {axis} without offset", normalized(layer, ["scale"], scale))
        )
        rms = s.RmsNormalization(axis=axis, epsilon=1e-3)
        cases.append(IrCase(f"rms from {axis}", normalized(rms, ["scale"], scale), opsets=OLD))
    mean = s.MeanVarianceNormalization(axes=(0, 2))
    cases.append(IrCase("mean and variance", normalized(mean, [], ())))
    one, two = (normalized(n.LpNormalization(axis=2, p=p), [], ()) for p in (1, 2))
    # onnx's evaluator forgets that sizes are added, not signed numbers
    return [*cases, IrCase("norm 1", one, evaluated=False), IrCase("norm 2", two)]


def types() -> list[IrCase]:
    ops: dict[str, tuple[Op, list[str], tuple[int, ...]]] = {
        "batch": (s.BatchNormalization(axis=1, epsilon=1e-3), BATCH, (3,)),
        "instance": (s.InstanceNormalization(axis=1, epsilon=1e-3), PAIR, (3,)),
        "group": (s.GroupNormalization(axis=1, epsilon=1e-3, groups=3), PAIR, (3,)),
        "layer": (s.LayerNormalization(axis=3, epsilon=1e-3), PAIR, (6,)),
        "rms": (s.RmsNormalization(axis=3, epsilon=1e-3), ["scale"], (6,)),
        "norm": (n.LpNormalization(axis=2, p=2), [], ()),
        "mean and variance": (s.MeanVarianceNormalization(axes=(0, 2)), [], ()),
    }
    cases = []
    for what, (op, names, shape) in ops.items():
        for dtype, tolerance in (
            (DType.FLOAT16, 5e-3),
            (DType.BFLOAT16, 4e-2),
            (DType.FLOAT64, 1e-5),
        ):
            cases.append(
                IrCase(
                    f"{what} of {dtype}",
                    normalized(op, names, shape, dtype),
                    tolerance=tolerance,
                    evaluated=False,
                    not_on_litert="LiteRT has no bfloat16" if dtype is DType.BFLOAT16 else "",
                )
            )
    return cases


CASES = [*layouts(), *opsets(), *types()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_onnx(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)


@pytest.mark.parametrize("case", on_litert([*layouts(), *opsets()]), ids=str)
def test_tflite(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)
