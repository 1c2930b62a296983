"""Kinds of fault in ONNX's pools, shuffled depth and resizing on the way to TFLite."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.onnx_routes import OnnxCase, check_routes, node
from support.onnx_windows import SIXTEEN, square, whole_numbers, window
from support.whole import floats

# ---------------------------------------------------------------- pools

INCLUDED = [1.5555556, 3.3333333, 2, 6.3333333, 11, 6, 4.5, 7.5, 4]
EXCLUDED = [3.5, 5, 6, 9.5, 11, 12, 13.5, 15, 16]
CEILED: dict[str, Any] = {
    "kernel_shape": [3, 3],
    "strides": [2, 2],
    "pads": [1, 1, 1, 1],
    "ceil_mode": 1,
}

POOLED = [
    window(
        "include",
        "AveragePool",
        SIXTEEN,
        **CEILED,
        count_include_pad=1,
        expected=square(*INCLUDED),
        opset=19,
    ),
    window("exclude", "AveragePool", SIXTEEN, **CEILED, expected=square(*EXCLUDED), opset=19),
    window(
        "highest",
        "MaxPool",
        -SIXTEEN,
        **CEILED,
        expected=square(-1, -2, -4, -5, -6, -8, -13, -14, -16),
    ),
    window(
        "same",
        "AveragePool",
        SIXTEEN[:, :, :2, :2],
        kernel_shape=[2, 2],
        auto_pad="SAME_UPPER",
        expected=square(3.5, 4, 5.5, 6),
        ops={"AVERAGE_POOL_2D": 1, "RESHAPE": 2},
    ),
    window(
        "same lower",
        "AveragePool",
        SIXTEEN,
        kernel_shape=[2, 3],
        strides=[2, 2],
        auto_pad="SAME_LOWER",
    ),
    window(
        "include same",
        "AveragePool",
        SIXTEEN,
        kernel_shape=[2, 2],
        auto_pad="SAME_UPPER",
        count_include_pad=1,
    ),
    window(
        "include uneven",
        "AveragePool",
        whole_numbers(2, 3, 5, 6),
        kernel_shape=[3, 2],
        pads=[0, 1, 1, 0],
        count_include_pad=1,
        strides=[2, 1],
    ),
    window(
        "exclude uneven",
        "AveragePool",
        whole_numbers(2, 3, 5, 6),
        kernel_shape=[3, 2],
        pads=[0, 1, 1, 0],
        strides=[2, 1],
    ),
    window(
        "ceiling",
        "AveragePool",
        whole_numbers(1, 2, 6, 5),
        kernel_shape=[2, 2],
        strides=[2, 2],
        ceil_mode=1,
        opset=19,
    ),
    window(
        "dilated",
        "AveragePool",
        whole_numbers(1, 2, 7, 8),
        kernel_shape=[2, 3],
        dilations=[2, 3],
        opset=19,
    ),
    window(
        "dilated highest",
        "MaxPool",
        whole_numbers(1, 2, 7, 8),
        kernel_shape=[2, 3],
        dilations=[2, 3],
    ),
    window(
        "dilated padded",
        "MaxPool",
        whole_numbers(1, 2, 7, 8),
        kernel_shape=[3, 3],
        dilations=[2, 1],
        pads=[2, 1, 0, 1],
    ),
    window(
        "highest lower",
        "MaxPool",
        -1 - np.abs(whole_numbers(1, 2, 6, 7)),
        kernel_shape=[3, 2],
        strides=[2, 2],
        auto_pad="SAME_LOWER",
    ),
    window(
        "highest uneven",
        "MaxPool",
        -1 - np.abs(whole_numbers(1, 2, 6, 7)),
        kernel_shape=[3, 3],
        pads=[0, 2, 1, 0],
    ),
    window(
        "highest ceiling",
        "MaxPool",
        whole_numbers(1, 2, 6, 7),
        kernel_shape=[3, 3],
        strides=[2, 2],
        ceil_mode=1,
    ),
    window("1-D", "MaxPool", whole_numbers(2, 3, 9), kernel_shape=[3], strides=[2], pads=[1, 1]),
    window(
        "1-D ceiling",
        "AveragePool",
        whole_numbers(2, 3, 8),
        kernel_shape=[3],
        strides=[2],
        ceil_mode=1,
        opset=19,
    ),
    window(
        "1-D include",
        "AveragePool",
        whole_numbers(2, 3, 8),
        kernel_shape=[3],
        pads=[1, 1],
        count_include_pad=1,
    ),
    window(
        "3-D",
        "MaxPool",
        whole_numbers(1, 2, 5, 4, 6),
        kernel_shape=[2, 3, 2],
        strides=[2, 1, 2],
        pads=[0, 1, 1, 1, 1, 0],
    ),
    window(
        "3-D mean",
        "AveragePool",
        whole_numbers(1, 2, 5, 4, 6),
        kernel_shape=[2, 3, 2],
        strides=[2, 1, 2],
    ),
    window(
        "power", "LpPool", np.abs(whole_numbers(1, 2, 5, 4)), kernel_shape=[2, 2], p=2, opset=18
    ),
    window("global", "GlobalAveragePool", whole_numbers(2, 3, 5, 4)),
    window("global highest", "GlobalMaxPool", whole_numbers(2, 3, 5, 4), same_nodes=False),
    window("global 1-D", "GlobalAveragePool", whole_numbers(2, 3, 5), same_nodes=False),
    window("global 3-D", "GlobalMaxPool", whole_numbers(2, 3, 5, 4, 2), same_nodes=False),
]


@pytest.mark.parametrize("case", POOLED, ids=str)
def test_pools_count_what_onnx_counts(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


def test_places_of_the_highest(tmp_path: Path) -> None:
    """Counted over the whole tensor, in ONNX's order of dimensions."""
    made = node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], strides=[2, 2])
    check_routes(
        OnnxCase("places", made, {"x": whole_numbers(2, 3, 4, 6) + floats(2, 3, 4, 6)}), tmp_path
    )


# ---------------------------------------------------------------- depth and space


@pytest.mark.parametrize(
    ("mode", "first"), [("DCR", [0, 12, 24, 1, 13, 25]), ("CRD", [0, 6, 12, 1, 7, 13])]
)
@pytest.mark.parametrize("behind_conv", [False, True])
def test_both_orders_of_depth_go_to_space(
    mode: str, first: list[int], behind_conv: bool, tmp_path: Path
) -> None:
    x = floats(1, 18, 3, 2)
    nodes = [
        node("Conv" if behind_conv else "Identity", ["x", "w"][: 1 + behind_conv], ["z"]),
        node("DepthToSpace", ["z"], ["y"], blocksize=3, mode=mode),
    ]
    blocks = (1, 3, 3, 2, 3, 2) if mode == "DCR" else (1, 2, 3, 3, 3, 2)
    order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    wanted = x.reshape(blocks).transpose(order).reshape(1, 2, 9, 6)
    assert wanted[0, 0, 0].tolist() == first
    constants = {"w": np.eye(18, dtype=np.float32).reshape(18, 18, 1, 1)}
    case = OnnxCase(mode, nodes, {"x": x}, constants=constants, expected=[wanted], same_nodes=False)
    check_routes(case, tmp_path)


def test_space_goes_back_to_depth_in_its_order(tmp_path: Path) -> None:
    x = floats(1, 3, 4, 6)
    case = OnnxCase("back", node("SpaceToDepth", ["x"], ["y"], blocksize=2), {"x": x})
    check_routes(case, tmp_path)


# ---------------------------------------------------------------- resizing

LINEAR = {
    "asymmetric": [0, 2, 4, 4],
    "half_pixel": [0, 1, 3, 4],
    "pytorch_half_pixel": [0, 1, 3, 4],
    "align_corners": [0, 4 / 3, 8 / 3, 4],
}
NEAREST = {
    ("asymmetric", "floor"): [0, 3, 6, 10, 13, 16],
    ("align_corners", "round_prefer_ceil"): [0, 4, 8, 11, 15, 19],
    ("half_pixel", "round_prefer_ceil"): [1, 5, 8, 11, 15, 18],
    ("half_pixel", "round_prefer_floor"): [1, 4, 8, 11, 14, 18],
    ("half_pixel", "ceil"): [2, 5, 8, 12, 15, 18],
    ("half_pixel", "floor"): [1, 4, 7, 11, 14, 17],
    ("asymmetric", "ceil"): [0, 4, 7, 10, 14, 17],
    ("asymmetric", "round_prefer_floor"): [0, 3, 7, 10, 13, 17],
    ("align_corners", "floor"): [0, 3, 7, 11, 15, 19],
}


def resized(x: np.ndarray, width: int, wanted: Any, **attributes: Any) -> OnnxCase:
    sizes = np.int64([*x.shape[:3], width])
    made = node("Resize", ["x", "", "", "s"], ["y"], **attributes)
    expected = [np.float32(wanted).reshape(*x.shape[:3], width)]
    constants = {"s": sizes}
    return OnnxCase(
        "resized", made, {"x": x}, constants=constants, expected=expected, same_nodes=False
    )


@pytest.mark.parametrize("way", LINEAR)
def test_linear_resizing_takes_the_coordinates_of_its_mode(way: str, tmp_path: Path) -> None:
    x = np.float32([0, 4]).reshape(1, 1, 1, 2)
    case = resized(x, 4, LINEAR[way], mode="linear", coordinate_transformation_mode=way)
    check_routes(case, tmp_path)


@pytest.mark.parametrize(("way", "rounding"), NEAREST)
def test_nearest_resizing_rounds_as_its_mode_says(way: str, rounding: str, tmp_path: Path) -> None:
    attributes = {"coordinate_transformation_mode": way, "nearest_mode": rounding}
    case = resized(floats(1, 1, 1, 20), 6, NEAREST[way, rounding], mode="nearest", **attributes)
    check_routes(case, tmp_path)


def resizes() -> Iterator[OnnxCase]:
    x = whole_numbers(2, 3, 5, 4)
    ways = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
    sizes = [(10, 8), (15, 12), (3, 2), (1, 1), (7, 9), (5, 4), (1, 8), (11, 4)]
    for mode, way, size in product(("nearest", "linear", "cubic"), ways, sizes):
        made = node(
            "Resize", ["x", "", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=way
        )
        constants = {"s": np.int64([2, 3, *size])}
        yield OnnxCase(
            f"{mode} {way} {size}", made, {"x": x}, constants=constants, same_nodes=False
        )
    for mode in ("nearest", "linear"):
        for scales in ([1, 1, 0.6, 1.7], [1, 1, 2.5, 2.5], [1, 1, 0.3, 0.3]):
            made = node("Resize", ["x", "", "s"], ["y"], mode=mode)
            yield OnnxCase(
                f"{mode} by {scales}", made, {"x": x}, constants={"s": np.float32(scales)}
            )
        made = node("Resize", ["x", "", "", "s"], ["y"], mode=mode)
        constants = {"s": np.int64([2, 3, 8])}
        yield OnnxCase(f"{mode} 1-D", made, {"x": x[..., 0]}, constants=constants)
        made = node("Resize", ["x", "", "", "s"], ["y"], mode=mode, axes=[1])
        yield OnnxCase(f"{mode} channels", made, {"x": x}, constants={"s": np.int64([5])})
        made = node("Resize", ["x", "", "", "s"], ["y"], mode=mode, antialias=1)
        if mode == "linear":
            constants = {"s": np.int64([2, 3, 2, 3])}
            yield OnnxCase("antialias", made, {"x": x}, constants=constants)


@pytest.mark.parametrize("case", list(resizes()), ids=str)
def test_resizing_in_all_ways(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)
