"""Ops that read images at computed places, on every route."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.ir import Builder, DType, Graph, Model, Signature
from nnconv.ops.sampling import RoiAlign
from support.onnx_routes import OnnxCase, check_routes, node


def random(shape: Sequence[int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def grid(mode: str, padding: str, align: int, rank: int = 2, opset: int = 20) -> OnnxCase:
    extents, result = ((5, 4), (3, 6)) if rank == 2 else ((3, 4, 5), (2, 3, 2))
    places = np.random.default_rng(1).uniform(-1.6, 1.6, (2, *result, rank)).astype(np.float32)
    modes = {"linear": "bilinear", "cubic": "bicubic"} if opset < 20 else {}
    return OnnxCase(
        f"grid {rank}-D {mode} {padding}{' aligned' * align} {opset}",
        node(
            "GridSample",
            ["x", "grid"],
            ["y"],
            mode=modes.get(mode, mode),
            padding_mode=padding,
            align_corners=align,
        ),
        {"x": random((2, 3, *extents), 2), "grid": places},
        opset=opset,
    )


def open_grid() -> OnnxCase:
    one = grid("linear", "zeros", 0)
    feeds = {name: random((5, *a.shape[1:]), 11) for name, a in one.feeds.items()}
    batch = {name: [0] for name in one.feeds}
    return replace(one, id="grid of an open batch", open=batch, more=[feeds])


def grids() -> list[OnnxCase]:
    cases = [
        grid(mode, padding, align)
        for mode in ("linear", "nearest", "cubic")
        for padding in ("zeros", "border", "reflection")
        for align in (0, 1)
    ]
    cases += [
        grid(mode, padding, align, 3)
        for mode in ("linear", "nearest")
        for padding in ("zeros", "border", "reflection")
        for align in (0, 1)
    ]
    return cases + [grid(mode, "zeros", 0, opset=16) for mode in ("linear", "cubic")]


def affine(rank: int, align: int, *, constant: bool = True) -> OnnxCase:
    size = np.asarray([2, 3, 4, 5, 3][: rank + 2], np.int64)
    feeds = {"theta": random((2, rank, rank + 1), 3)}
    return OnnxCase(
        f"affine {rank}-D{' aligned' * align}{'' if constant else ' at run time'}",
        node("AffineGrid", ["theta", "size"], ["y"], align_corners=align),
        feeds if constant else feeds | {"size": size},
        constants={"size": size} if constant else {},
        results=[np.float32],
        opset=20,
    )


REGIONS = np.asarray(
    [[0, 0, 9, 9], [1.5, 2.25, 6, 8], [3, 3, 3.2, 3.4], [-3, 1, 4, 14], [7, 0, 12, 5]], np.float32
)
IMAGES = np.asarray([0, 1, 1, 0, 1], np.int64)


def align(what: str, *, opset: int = 16, **attributes: Any) -> OnnxCase:
    fields = {"output_height": 3, "output_width": 2, "spatial_scale": 0.75}
    adapts = attributes.get("mode") == "max" and not attributes.get("sampling_ratio")
    return OnnxCase(
        f"align {what}",
        node("RoiAlign", ["x", "regions", "images"], ["y"], **(fields | attributes)),
        {"x": random((2, 3, 8, 9), 4), "regions": REGIONS, "images": IMAGES},
        routes=("reference", "onnx") if adapts else ("reference", "onnx", "tflite"),
        opset=opset,
        note="the greatest of points whose number depends on the regions is nothing TFLite has",
    )


REGION_CASES = [
    align("two points", sampling_ratio=2),
    align(
        "three points, whole pixels",
        sampling_ratio=3,
        coordinate_transformation_mode="output_half_pixel",
    ),
    align("adaptive"),
    align("adaptive, whole pixels", coordinate_transformation_mode="output_half_pixel"),
    align("adaptive, large", spatial_scale=9.5),
    align("adaptive, small", spatial_scale=0.05),
    align("greatest, adaptive", mode="max"),
    align("greatest", sampling_ratio=2, mode="max"),
    align("opset 10", opset=10, sampling_ratio=2),
    OnnxCase(
        "region pool",
        node("MaxRoiPool", ["x", "regions"], ["y"], pooled_shape=[3, 2], spatial_scale=0.75),
        {
            "x": random((2, 3, 8, 9), 4),
            "regions": np.concatenate([IMAGES[:, None].astype(np.float32), REGIONS], axis=1),
        },
    ),
]


def moved(
    what: str,
    *,
    mask: bool = False,
    bias: bool = False,
    group: int = 1,
    parts: int = 1,
    **more: Any,
) -> OnnxCase:
    window = (3, 2)
    count = window[0] * window[1]
    steps = more.get("strides", [1, 1])
    spread = more.get("dilations", [1, 1])
    pads = more.get("pads", [0, 0, 0, 0])
    out = [
        (n + pads[i] + pads[2 + i] - (window[i] - 1) * spread[i] - 1) // steps[i] + 1
        for i, n in enumerate((7, 6))
    ]
    feeds = {
        "x": random((2, 4, 7, 6), 5),
        "offset": random((2, parts * count * 2, *out), 6),
    }
    constants = {"w": random((6, 4 // group, *window), 7)}
    names = ["x", "w", "offset", "", ""]
    if bias:
        constants["b"] = random((6,), 8)
        names[3] = "b"
    if mask:
        feeds["mask"] = (
            np.random.default_rng(9).uniform(0, 1, (2, parts * count, *out)).astype(np.float32)
        )
        names[4] = "mask"
    while not names[-1]:
        names.pop()
    return OnnxCase(
        f"moved {what}",
        node("DeformConv", names, ["y"], group=group, offset_group=parts, **more),
        feeds,
        constants=constants,
        opset=19,
    )


MOVED = [
    moved("plain"),
    moved("padded", pads=[1, 0, 1, 1], strides=[2, 1], bias=True),
    moved("dilated", dilations=[2, 1], mask=True),
    moved("groups", group=2, parts=2, mask=True, bias=True, pads=[1, 1, 1, 1]),
]


def columns(
    what: str,
    image: Sequence[int],
    block: Sequence[int],
    *,
    constant: bool = True,
    **more: Any,
) -> OnnxCase:
    rank = len(image)
    steps, spread = more.get("strides", [1] * rank), more.get("dilations", [1] * rank)
    pads = more.get("pads", [0] * 2 * rank)
    count = 1
    for i in range(rank):
        full = image[i] + pads[i] + pads[rank + i]
        count *= (full - (block[i] - 1) * spread[i] - 1) // steps[i] + 1
    sizes = {"image": np.asarray(image, np.int64), "block": np.asarray(block, np.int64)}
    feeds = {"x": random((2, 3 * int(np.prod(block)), count), 10)}
    return OnnxCase(
        f"columns {what}",
        node("Col2Im", ["x", "image", "block"], ["y"], **more),
        feeds if constant else feeds | sizes,
        constants=sizes if constant else {},
        results=[np.float32],
        opset=18,
    )


COLUMNS = [
    columns("plain", [6, 7], [3, 2]),
    columns("strides", [7, 8], [3, 2], strides=[2, 3]),
    columns("dilated, padded", [6, 7], [3, 2], dilations=[2, 1], pads=[1, 0, 2, 1]),
    columns("3-D", [4, 5, 3], [2, 2, 1]),
    columns(
        "at run time",
        [6, 7],
        [3, 2],
        constant=False,
        dilations=[2, 1],
        pads=[1, 0, 2, 1],
        strides=[1, 2],
    ),
]

CASES = [
    *grids(),
    open_grid(),
    *(affine(rank, corners) for rank in (2, 3) for corners in (0, 1)),
    affine(2, 0, constant=False),
    *REGION_CASES,
    *MOVED,
    *COLUMNS,
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_route(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


@pytest.mark.parametrize("count", [3, 5, 6, 7, 10])
def test_bins_of_any_number_end_where_their_region_does(count: int, tmp_path: Path) -> None:
    """The element behind a region is greater than all in it."""
    ends = np.arange(30)
    x = np.tile(np.arange(32, dtype=np.float32), (1, 1, 32, 1))
    regions = np.stack([np.zeros(30), np.zeros(30), np.zeros(30), ends, ends], axis=1)
    made = node("MaxRoiPool", ["x", "regions"], ["y"], pooled_shape=[1, count], spatial_scale=1.0)
    check_routes(OnnxCase("bins", made, {"x": x, "regions": np.float32(regions)}), tmp_path)


def test_the_greatest_of_adaptive_regions_is_refused_by_tflite(tmp_path: Path) -> None:
    source = tmp_path / "x.onnx"
    source.write_bytes(align("adaptive", mode="max").model().SerializeToString())
    with pytest.raises(nnconv.errors.UnsupportedError, match="depends on the regions"):
        nnconv.convert(source, tmp_path / "x.tflite")


@pytest.mark.parametrize("device", ["onnxruntime:cpu", "litert:cpu"])
@pytest.mark.parametrize(("down", "across"), [(0, 4), (3, 0), (2, 5)])
def test_points_may_be_more_along_one_side(down: int, across: int, device: str) -> None:
    """As NNAPI has it, and neither ONNX nor TFLite."""
    op = RoiAlign(size=(3, 2), scale=0.75, samples=down, across=across, half_pixel=False)
    builder = Builder(graph := Graph("main"))
    x = random((2, 3, 8, 9), 4)
    feeds = [x, REGIONS, IMAGES.astype(np.int32)]
    inputs = [
        builder.input(name, DType.of(array), array.shape)
        for name, array in zip(("x", "regions", "images"), feeds, strict=True)
    ]
    graph.outputs = [builder.add(op, inputs)]
    (wanted,) = run_graph(graph, feeds)
    executable = nnconv.compile(Model([Signature("", graph)]), device=device)
    names = [info.name for info in executable.inputs]
    (found,) = executable.run(dict(zip(names, feeds, strict=True))).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
