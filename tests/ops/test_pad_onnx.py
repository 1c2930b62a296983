"""Pads, crops and exchanges of space with depth that begin as ONNX nodes, on every route."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.onnx_routes import OnnxCase, check_routes, node

SHAPE = (2, 3, 5, 4)
PADS = [0, 1, 2, 1, 0, 0, 1, 3]


def random(shape: Sequence[int], seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype) == bool:
        return rng.integers(0, 2, shape).astype(bool)
    if np.issubdtype(np.dtype(dtype), np.integer):
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def pad(
    what: str,
    pads: Sequence[int] = PADS,
    *,
    shape: Sequence[int] = SHAPE,
    value: Any = None,
    axes: Sequence[int] | None = None,
    at_run_time: Sequence[str] = (),
    open_: Sequence[int] = (),
    dtype: Any = np.float32,
    same: bool = True,
    **attributes: Any,
) -> OnnxCase:
    given = {"pads": np.asarray(pads, np.int64)}
    if value is not None:
        given["value"] = np.asarray(value, dtype)
    if axes is not None:
        given["axes"] = np.asarray(axes, np.int64)
    names = ["x", *(name if name in given else "" for name in ("pads", "value", "axes"))]
    while not names[-1]:
        names.pop()
    feeds = {"x": random(shape, 1, dtype)}
    feeds |= {name: given.pop(name) for name in at_run_time}
    larger = [d + 2 * (i in open_) for i, d in enumerate(shape)]
    return OnnxCase(
        f"pad {what}",
        node("Pad", names, ["y"], **attributes),
        feeds,
        constants=given,
        open={"x": open_},
        more=[{"x": random(larger, 2, dtype)}] if open_ else (),
        opset=21,
        same_nodes=same,
    )


def pads() -> list[OnnxCase]:
    cases = [
        pad("zeros"),
        pad("value", value=1.5),
        pad("value at run time", value=1.5, at_run_time=["value"]),
        pad("cut", [0, 1, -2, 1, 0, -1, 1, -1]),
        pad("cut alone", [0, 0, -2, -1, 0, -1, 0, 0]),
        pad("axes", [1, 2, 0, 1], axes=[1, -1]),
        pad("counts at run time", at_run_time=["pads"]),
        pad("counts of axes at run time", [1, 2, 0, 1], axes=[1, -1], at_run_time=["pads"]),
        pad(
            "axes at run time",
            [1, 2, 0, 1],
            axes=[1, -1],
            at_run_time=["pads", "axes"],
            same=False,
        ),
        pad("6-D", [0, 1, 0, 2, 1, 0, 1, 0, 0, 0, 0, 2], shape=(2, 1, 2, 3, 2, 2)),
        pad("open", open_=[0, 2, 3]),
    ]
    cases += [
        pad(f"of {np.dtype(d)}", value=1, dtype=d)
        for d in (np.float16, np.float64, np.int32, np.int64, np.uint8, np.int8, bool)
    ]
    for mode in ("reflect", "edge", "wrap"):
        cases += [
            pad(mode, mode=mode),
            pad(f"{mode} open", mode=mode, open_=[2, 3]),
            pad(f"{mode} at run time", mode=mode, at_run_time=["pads"]),
        ]
    return cases


def old_pad(opset: int) -> OnnxCase:
    return OnnxCase(
        f"pad {opset}",
        node("Pad", ["x"], ["y"], pads=PADS, value=0.5),
        {"x": random(SHAPE, 1)},
        opset=opset,
    )


def crop(what: str, wanted: Sequence[int], *, constant: bool = True, **more: Any) -> OnnxCase:
    sizes = np.asarray(wanted, np.int64)
    x = random((5, 8, 7), 3)
    return OnnxCase(
        f"crop {what}",
        node("CenterCropPad", ["x", "shape"], ["y"], **more),
        {"x": x} if constant else {"x": x, "shape": sizes},
        constants={"shape": sizes} if constant else {},
        results=[np.float32],
        same_nodes=False,
        opset=18,
    )


def blocks(op: str, shape: Sequence[int], block: int, dtype: Any = np.float32, **more: Any) -> Any:
    mode = more.get("mode", "")
    return OnnxCase(
        f"{op} {mode} {np.dtype(dtype)}",
        node(op, ["x"], ["y"], blocksize=block, **more),
        {"x": random(shape, 4, dtype)},
    )


CASES = [
    *pads(),
    old_pad(7),
    old_pad(10),
    crop("smaller", [3, 5, 2]),
    crop("larger", [6, 11, 9]),
    crop("both", [3, 11, 7]),
    crop("axes", [3, 10], axes=[-1, 1]),
    crop("at run time", [3, 11, 7], constant=False),
    crop("axes at run time", [3, 10], axes=[2, 1], constant=False),
    *(
        blocks("DepthToSpace", (2, 12, 3, 4), 2, d, mode=mode)
        for mode in ("DCR", "CRD")
        for d in (np.float32, np.uint8, np.int8, np.float16)
    ),
    *(blocks("SpaceToDepth", (2, 3, 4, 6), 2, d) for d in (np.float32, np.uint8, np.float16)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_route(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


_FURTHER = np.int64([0, 7, 0, 0, 8, 1])


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("mode", ["wrap", "edge"])
def test_counts_beyond_an_open_extent(mode: str, dims: tuple[int, ...], tmp_path: Path) -> None:
    """More than once around where the extent turns out to be less than the counts."""
    shapes = [(2, 3, 2), (2, 9, 2), (2, 1, 2)] if 1 in dims else [(2, 3, 2), (5, 3, 2), (1, 3, 2)]
    first, *more = ({"x": random(shape)} for shape in shapes)
    made = node("Pad", ["x", "p"], ["y"], mode=mode)
    case = OnnxCase(
        mode, made, first, more=more, constants={"p": _FURTHER}, open={"x": dims}, same_nodes=False
    )
    check_routes(case, tmp_path)
