"""Convolutions and pools that begin as ONNX nodes, on every route."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.onnx_routes import OnnxCase, check_routes, node

SPATIAL = {1: (11,), 2: (9, 8), 3: (5, 7, 4)}


def random(shape: Sequence[int], seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.issubdtype(np.dtype(dtype), np.integer):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


def conv(
    what: str,
    rank: int,
    *,
    channels: int = 4,
    filters: int = 6,
    window: Sequence[int] = (3, 2, 3),
    open_: Sequence[int] = (),
    constant: bool = True,
    op: str = "Conv",
    dtype: Any = np.float32,
    ops: dict[str, int] | None = None,
    more: bool = False,
    **attributes: Any,
) -> OnnxCase:
    groups = attributes.get("group", 1)
    shape = (2, channels, *SPATIAL[rank])
    outer = (
        (channels, filters // groups) if op == "ConvTranspose" else (filters, channels // groups)
    )
    weights = random((*outer, *window[:rank]), 1, dtype)
    bias = random((filters,), 2, dtype)
    x = random(shape, 3, dtype)
    constants, feeds = {"w": weights, "b": bias}, {"x": x}
    if not constant:
        constants, feeds = {"b": bias}, {"x": x, "w": weights}
    others = []
    if more:
        larger = [d + 3 * (i in open_) for i, d in enumerate(shape)]
        others = [{"x": random(larger, 4, dtype)}]
    return OnnxCase(
        what,
        node(op, ["x", "w", "b"], ["y"], **attributes),
        feeds,
        constants=constants,
        open={"x": open_},
        more=others,
        ops=ops,
        tolerance=1e-5 if dtype == np.float32 else 1e-2,
    )


def direct() -> list[OnnxCase]:
    cases = [
        conv("conv 1-D", 1, pads=[1, 0], strides=[2]),
        conv(
            "conv 2-D, padding as SAME",
            2,
            pads=[1, 0, 1, 1],
            strides=[2, 1],
            ops={"TRANSPOSE": 2, "CONV_2D": 1},
        ),
        conv(
            "conv 2-D, padding of its own",
            2,
            pads=[2, 0, 1, 1],
            strides=[2, 1],
            ops={"TRANSPOSE": 2, "PAD": 1, "CONV_2D": 1},
        ),
        conv("conv 3-D", 3, pads=[1, 0, 1, 1, 1, 0], strides=[2, 1, 1]),
        conv("conv 3-D groups", 3, group=2, dilations=[2, 1, 1]),
        conv("conv 3-D groups, open batch", 3, group=2, open_=[0], more=True),
        conv("conv 2-D groups", 2, group=2, dilations=[2, 1]),
        conv("conv depthwise", 2, group=4, filters=4),
        conv("conv depthwise, two filters each", 2, group=4, filters=8),
        conv("conv weights at run time", 2, constant=False),
        conv("conv depthwise, weights at run time", 2, group=4, filters=8, constant=False),
        conv("conv float16", 2, dtype=np.float16),
        conv("conv open batch", 2, open_=[0], more=True, pads=[1, 1, 1, 1]),
        conv("conv open extents", 2, open_=[0, 2, 3], more=True, pads=[1, 1, 1, 1], strides=[2, 2]),
        conv("conv 1-D open", 1, open_=[0, 2], more=True, pads=[1, 1]),
    ]
    for mode in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        strides = {1: [2], 2: [2, 3], 3: [2, 1, 2]}
        cases += [
            conv(f"conv {rank}-D {mode}", rank, auto_pad=mode, strides=strides[rank])
            for rank in SPATIAL
        ]
        open_ = conv(f"conv {mode} open", 2, auto_pad=mode, open_=[2, 3], more=True, strides=[2, 2])
        cases.append(open_)
    return cases


def transposed() -> list[OnnxCase]:
    def case(what: str, rank: int, **attributes: Any) -> OnnxCase:
        return conv(f"transposed {what}", rank, op="ConvTranspose", **attributes)

    steps = {1: [2], 2: [2, 3], 3: [2, 1, 2]}
    cases = [case(f"{rank}-D", rank, strides=steps[rank]) for rank in SPATIAL]
    cases += [
        case("padded", 2, strides=[2, 2], pads=[1, 0, 1, 1], output_padding=[1, 0]),
        case("padded 3-D", 3, strides=[2, 1, 2], pads=[1, 0, 1, 1, 1, 0]),
        case("groups", 2, strides=[2, 1], group=2, pads=[1, 1, 0, 0]),
        case("depthwise", 2, strides=[2, 2], group=4, filters=4),
        case("dilated", 2, strides=[2, 1], dilations=[2, 3], pads=[1, 0, 2, 1]),
        case("dilated 3-D", 3, dilations=[2, 1, 1]),
        case("to a shape", 2, strides=[2, 2], output_shape=[17, 15]),
        case(
            "to a shape, more at the end",
            2,
            strides=[2, 2],
            output_shape=[17, 16],
            auto_pad="SAME_UPPER",
        ),
        case("open, to a shape", 2, strides=[2, 2], open_=[0, 2, 3], output_shape=[17, 15]),
        case("weights at run time", 2, strides=[2, 2], constant=False),
        case("open", 2, strides=[2, 2], open_=[0, 2, 3], more=True, pads=[1, 0, 1, 0]),
        case("float16", 2, strides=[2, 2], dtype=np.float16),
    ]
    for mode in ("SAME_UPPER", "SAME_LOWER"):
        cases += [
            case(f"{rank}-D {mode}", rank, strides=steps[rank], auto_pad=mode) for rank in SPATIAL
        ]
    return cases


def integer(what: str, points: str, **attributes: Any) -> OnnxCase:
    constants = {"w": random((6, 4 // attributes.get("group", 1), 3, 2), 1, np.uint8)}
    names = ["x", "w"]
    if points:
        names.append("zx")
        constants["zx"] = np.asarray(100, np.uint8)
    if points == "both":
        names.append("zw")
        constants["zw"] = np.asarray(120, np.uint8)
    feeds = {"x": random((2, 4, 9, 8), 2, np.uint8)}
    return OnnxCase(
        f"integers {what}",
        node("ConvInteger", names, ["y"], **attributes),
        feeds,
        constants=constants,
    )


INTEGERS = [
    integer("plain", ""),
    integer("padded", "x", pads=[1, 1, 0, 1]),
    integer("groups", "both", group=2, strides=[2, 1]),
]


def pool(
    op: str, rank: int, what: str, *, outputs: int = 1, open_: Sequence[int] = (), **attributes: Any
) -> OnnxCase:
    shape = (2, 3, *SPATIAL[rank])
    given = {"kernel_shape": [3, 2, 3][:rank]} | attributes
    more = []
    if open_:
        more = [{"x": random([d + 2 * (i in open_) for i, d in enumerate(shape)], 5)}]
    opset = 22
    return OnnxCase(
        f"{op} {rank}-D {what}",
        node(op, ["x"], ["y", "where"][:outputs], **given),
        {"x": random(shape, 4)},
        open={"x": open_},
        more=more,
        opset=opset,
    )


def pools() -> list[OnnxCase]:
    cases = []
    for op in ("MaxPool", "AveragePool", "LpPool"):
        for rank in SPATIAL:
            steps = [2, 3, 2][:rank]
            uneven = [1, 0, 1][:rank] + [1, 1, 0][:rank]
            cases += [
                pool(op, rank, "plain", strides=steps),
                pool(op, rank, "padded", strides=steps, pads=uneven),
                pool(op, rank, "ceil", strides=steps, ceil_mode=1),
                pool(op, rank, "padded ceil", strides=steps, pads=uneven, ceil_mode=1),
                pool(op, rank, "dilated", dilations=[2, 1, 1][:rank]),
                pool(op, rank, "same", strides=steps, auto_pad="SAME_UPPER"),
                pool(op, rank, "same lower", strides=steps, auto_pad="SAME_LOWER"),
            ]
        uneven = [1, 0, 1, 1, 1, 0]
        for mode in ("SAME_UPPER", "SAME_LOWER"):
            cases.append(pool(op, 2, f"open {mode}", open_=[2, 3], strides=[2, 2], auto_pad=mode))
        if op != "LpPool":
            cases.append(pool(op, 2, "open, padded", open_=[2, 3], pads=[1, 1, 1, 0]))
        if op == "MaxPool":
            cases.append(pool(op, 2, "open, dilated", open_=[2, 3], dilations=[2, 1]))
        cases.append(pool(op, 3, "open batch", open_=[0], pads=uneven))
        cases.append(pool(op, 2, "open", open_=[0, 2, 3], strides=[2, 2], pads=[0, 0, 0, 0]))
    for rank in SPATIAL:
        uneven = [1, 0, 1][:rank] + [1, 1, 0][:rank]
        cases += [
            pool("AveragePool", rank, "counted", pads=uneven, count_include_pad=1),
            pool(
                "AveragePool",
                rank,
                "counted ceil",
                pads=uneven,
                count_include_pad=1,
                ceil_mode=1,
                strides=[2, 3, 2][:rank],
            ),
            pool("MaxPool", rank, "places", outputs=2, pads=uneven, strides=[2, 3, 2][:rank]),
            pool("MaxPool", rank, "places, first fastest", outputs=2, storage_order=1),
        ]
    return cases


def whole() -> list[OnnxCase]:
    """Pools over all there is, and the inverse of a pool."""
    cases = []
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        for rank, extents in SPATIAL.items():
            same = rank == 2 or op == "GlobalLpPool"  # the others are reductions
            cases.append(
                OnnxCase(
                    f"{op} {rank}-D",
                    node(op, ["x"], ["y"]),
                    {"x": random((2, 3, *extents), 6)},
                    same_nodes=same and op != "GlobalMaxPool",
                )
            )
    places = np.random.default_rng(0).permutation(2 * 3 * 8 * 6)[:72].reshape(2, 3, 4, 3)
    feeds = {"x": random((2, 3, 4, 3), 7), "places": places}
    unpool = node("MaxUnpool", ["x", "places"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    cases.append(OnnxCase("MaxUnpool", unpool, feeds))
    return cases


CASES = [*direct(), *transposed(), *INTEGERS, *pools(), *whole()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_route(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)
