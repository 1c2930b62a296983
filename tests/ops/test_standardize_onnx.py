"""Normalizations that begin as ONNX nodes, on every route."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.onnx_routes import OnnxCase, check_routes, node

SHAPES = {2: (3, 6), 3: (2, 6, 5), 4: (2, 6, 5, 4), 5: (2, 6, 3, 4, 2)}


def random(shape: Sequence[int], seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def parameters(count: int, names: Sequence[str], dtype: Any = np.float32) -> dict[str, np.ndarray]:
    found = {name: random((count,), 10 + i, dtype) for i, name in enumerate(names)}
    if "var" in found:
        found["var"] = np.abs(found["var"]) + dtype(0.25)
    return found


def batch(
    what: str, rank: int = 4, *, opset: int = 15, dtype: Any = np.float32, **more: Any
) -> OnnxCase:
    constant = more.pop("constant", True)
    open_ = more.pop("open_", ())
    names = ["scale", "offset", "mean", "var"]
    found = parameters(6, names, dtype)
    feeds = {"x": random(SHAPES[rank], 1, dtype)}
    return OnnxCase(
        f"batch {what}",
        node("BatchNormalization", ["x", *names], ["y"], **more),
        feeds if constant else feeds | found,
        constants=found if constant else {},
        open={"x": open_},
        more=[{"x": random((5, *SHAPES[rank][1:]), 2, dtype)}] if open_ else (),
        opset=opset,
        tolerance=1e-5 if dtype is not np.float16 else 5e-3,
    )


def elementwise_batch() -> OnnxCase:
    """With spatial = 0 there are parameters for each element of a sample; onnxruntime has none."""
    shape = SHAPES[4]
    names = ["scale", "offset", "mean", "var"]
    found = {name: random(shape[1:], 10 + i) for i, name in enumerate(names)}
    found["var"] = np.abs(found["var"]) + 0.25
    x = random(shape, 1)
    wanted = (x - found["mean"]) / np.sqrt(found["var"] + 1e-5) * found["scale"] + found["offset"]
    return OnnxCase(
        "batch by element",
        node("BatchNormalization", ["x", *names], ["y"], spatial=0),
        {"x": x},
        constants=found,
        expected=[wanted],
        opset=7,
        same_nodes=False,
    )


BATCH = [
    batch("2-D", 2),
    batch("3-D", 3),
    batch("4-D", 4, epsilon=0.01),
    batch("5-D", 5),
    batch("at run time", constant=False),
    batch("open", open_=[0]),
    batch("float16", dtype=np.float16),
    batch("float64", dtype=np.float64),
    batch("opset 7", opset=7),
    batch("opset 9", opset=9),
    batch("opset 14", opset=14),
    elementwise_batch(),
]


def instance(what: str, rank: int, **attributes: Any) -> OnnxCase:
    return OnnxCase(
        f"instance {what}",
        node("InstanceNormalization", ["x", "scale", "offset"], ["y"], **attributes),
        {"x": random(SHAPES[rank], 1)},
        constants=parameters(6, ["scale", "offset"]),
    )


def group(what: str, rank: int, groups: int, *, opset: int = 21, **more: Any) -> OnnxCase:
    count = 6 if opset >= 21 else groups
    constant = more.pop("constant", True)
    found = parameters(count, ["scale", "offset"])
    feeds = {"x": random(SHAPES[rank], 1)}
    return OnnxCase(
        f"group {what}",
        node("GroupNormalization", ["x", "scale", "offset"], ["y"], num_groups=groups, **more),
        feeds if constant else feeds | found,
        constants=found if constant else {},
        results=[np.float32],
        opset=opset,
        same_nodes=opset >= 21,
    )


def layer(
    what: str, axis: int, *, offset: bool = True, outputs: int = 1, dtype: Any = np.float32
) -> OnnxCase:
    shape = SHAPES[4][axis:]
    found = {"scale": random(shape, 5, dtype)}
    if offset:
        found["offset"] = random(shape, 6, dtype)
    names = ["y", "mean", "inverse"][:outputs]
    kinds = [dtype, np.float32, np.float32][:outputs]
    return OnnxCase(
        f"layer {what}",
        node("LayerNormalization", ["x", *found], names, axis=axis, epsilon=1e-3),
        {"x": random(SHAPES[4], 1, dtype)},
        constants=found,
        results=kinds,
        opset=17,
        tolerance=1e-5 if dtype is not np.float16 else 5e-3,
    )


def rms(what: str, axis: int, dtype: Any = np.float32) -> OnnxCase:
    return OnnxCase(
        f"rms {what}",
        node("RMSNormalization", ["x", "scale"], ["y"], axis=axis, epsilon=1e-3),
        {"x": random(SHAPES[4], 1, dtype)},
        constants={"scale": random(SHAPES[4][axis:], 5, dtype)},
        opset=23,
        tolerance=1e-5 if dtype is not np.float16 else 5e-3,
    )


def simple(what: str, op: str, rank: int = 4, **attributes: Any) -> OnnxCase:
    x = random(SHAPES[rank], 1)
    if op == "LpNormalization":
        x[0] = 0  # whose norm is 0
    return OnnxCase(what, node(op, ["x"], ["y"], **attributes), {"x": x})


CASES = [
    *BATCH,
    *(instance(f"{rank}-D", rank) for rank in (3, 4, 5)),
    instance("epsilon", 4, epsilon=0.1),
    *(group(f"{rank}-D", rank, 2) for rank in (3, 4, 5)),
    group("of one channel", 4, 6),
    group("of all channels", 4, 1, epsilon=0.1),
    group("by group", 4, 3, opset=18),
    group("at run time", 4, 3, constant=False),
    group("by group at run time", 4, 3, opset=18, constant=False),
    layer("last", -1),
    layer("last two", 2),
    layer("but the first", 1),
    layer("without offset", -1, offset=False),
    layer("with statistics", 2, outputs=3),
    layer("with mean", -1, outputs=2),
    layer("float16", -1, dtype=np.float16),
    rms("last", -1),
    rms("but the first", 1),
    rms("float16", -1, np.float16),
    simple("mean and variance", "MeanVarianceNormalization"),
    simple("mean and variance over rows", "MeanVarianceNormalization", axes=[-1]),
    *(
        simple(f"norm {p} along {axis}", "LpNormalization", p=p, axis=axis)
        for p in (1, 2)
        for axis in (0, 1, -1)
    ),
    simple("local response", "LRN", size=3),
    simple("local response, wide", "LRN", size=5, alpha=0.5, beta=0.5, bias=2.0),
    simple("local response, power 1", "LRN", size=3, alpha=0.5, beta=1.0),
    simple("local response, another power", "LRN", size=3, alpha=0.5, beta=0.6),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_route(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


def test_even_local_response(tmp_path: Path) -> None:
    """onnxruntime takes odd windows alone; ours has the odd element behind."""
    x = random(SHAPES[4], 1)
    squares = np.pad(np.square(x), [(0, 0), (1, 2), (0, 0), (0, 0)])
    total = sum(squares[:, i : i + 6] for i in range(4))
    wanted = x / (1 + 0.5 / 4 * total) ** 0.75
    case = OnnxCase(
        "even",
        node("LRN", ["x"], ["y"], size=4, alpha=0.5, beta=0.75, bias=1.0),
        {"x": x},
        expected=[wanted],
        same_nodes=False,
    )
    check_routes(case, tmp_path)
