"""Resize and Upsample of all opsets, on every route."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.onnx_routes import OnnxCase, check_routes, node

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")

IMAGE = (2, 3, 6, 5)


def random(shape: Sequence[int], seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.issubdtype(np.dtype(dtype), np.integer):
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def resize(
    what: str,
    *,
    shape: Sequence[int] = IMAGE,
    scales: Sequence[float] | None = None,
    sizes: Sequence[int] | None = None,
    roi: Sequence[float] | None = None,
    at_run_time: bool = False,
    open_: Sequence[int] = (),
    dtype: Any = np.float32,
    opset: int = 19,
    **attributes: Any,
) -> OnnxCase:
    given: dict[str, np.ndarray] = {}
    if roi is not None:
        given["roi"] = np.asarray(roi, np.float32)
    if scales is not None:
        given["scales"] = np.asarray(scales, np.float32)
    if sizes is not None:
        given["sizes"] = np.asarray(sizes, np.int64)
    names = ["x", *(name if name in given else "" for name in ("roi", "scales", "sizes"))]
    while not names[-1]:
        names.pop()
    feeds = {"x": random(shape, 1, dtype)}
    more = [{"x": random([d + 2 * (i in open_) for i, d in enumerate(shape)], 2, dtype)}]
    return OnnxCase(
        what,
        node("Resize", names, ["y"], **attributes),
        feeds | given if at_run_time else feeds,
        constants={} if at_run_time else given,
        open={"x": open_},
        more=more if open_ else (),
        opset=opset,
        tolerance=1e-5 if dtype is not np.float16 else 5e-3,
    )


def nearest() -> list[OnnxCase]:
    cases = []
    for coordinates in COORDINATES:
        for rounding in ROUNDINGS:
            fields = {"coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
            name = f"nearest {coordinates} {rounding}"
            cases += [
                resize(f"{name} up", scales=[1, 1, 2, 3], **fields),
                resize(f"{name} to", sizes=[2, 3, 9, 4], **fields),
            ]
    cases += [
        resize(f"nearest of {np.dtype(d)}", scales=[1, 1, 2, 2], dtype=d)
        for d in (np.uint8, np.int8, np.int32, np.float16)
    ]
    return cases


def interpolated() -> list[OnnxCase]:
    cases = []
    for mode in ("linear", "cubic"):
        for coordinates in COORDINATES:
            fields = {"coordinate_transformation_mode": coordinates, "mode": mode}
            # onnx takes the corners of 12.5 elements there, onnxruntime those of 12
            part = 3 if coordinates == "align_corners" else 2.5
            cases += [
                resize(f"{mode} {coordinates} up", scales=[1, 1, 2, part], **fields),
                resize(f"{mode} {coordinates} to", sizes=[2, 3, 9, 4], **fields),
                resize(f"{mode} {coordinates} to 1", sizes=[2, 3, 1, 8], **fields),
                resize(
                    f"{mode} {coordinates} at run time",
                    sizes=[2, 3, 9, 4],
                    at_run_time=True,
                    **fields,
                ),
            ]
        cases += [
            resize(f"{mode} antialias", sizes=[2, 3, 3, 2], mode=mode, antialias=1),
            resize(
                f"{mode} antialias excluded",
                sizes=[2, 3, 3, 2],
                mode=mode,
                antialias=1,
                exclude_outside=1,
            ),
            resize(f"{mode} axes", sizes=[9, 8], axes=[2, 3], mode=mode),
            resize(f"{mode} axes turned", scales=[2, 3], axes=[3, 2], mode=mode),
            resize(f"{mode} of float16", scales=[1, 1, 2, 2], mode=mode, dtype=np.float16),
        ]
    cases += [
        resize("cubic excluded", scales=[1, 1, 2, 2], mode="cubic", exclude_outside=1),
        resize("cubic coefficient", scales=[1, 1, 2, 2], mode="cubic", cubic_coeff_a=-0.5),
        resize("linear of a matrix", shape=(6, 5), scales=[2, 1.5], mode="linear"),
        resize("linear of volumes", shape=(2, 3, 4, 5, 3), scales=[1, 1, 2, 2, 2], mode="linear"),
        resize("linear channels last", shape=(2, 6, 5, 3), scales=[1, 2, 2, 1], mode="linear"),
        resize("linear of one axis", scales=[1, 1, 1, 2], mode="linear"),
    ]
    return cases


def others() -> list[OnnxCase]:
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    roi = [0, 0, 0.2, -0.1, 1, 1, 0.9, 1.2]
    cases = [
        resize(
            f"{mode} crop",
            sizes=[2, 3, 5, 7],
            roi=roi,
            mode=mode,
            extrapolation_value=7.0,
            **crop,
        )
        for mode in ("nearest", "linear", "cubic")
    ]
    for policy in ("not_larger", "not_smaller"):
        fields = {"keep_aspect_ratio_policy": policy, "axes": [2, 3]}
        cases += [
            resize(f"nearest {policy}", sizes=[13, 8], **fields),
            resize(f"linear {policy}", sizes=[13, 8], mode="linear", **fields),
        ]
    cases += [
        resize("linear open", scales=[1, 1, 2, 2], open_=[0, 2, 3], mode="linear"),
        resize("linear open batch", scales=[1, 1, 2, 2], open_=[0], mode="linear"),
        resize("nearest open", scales=[1, 1, 2, 2], open_=[0, 2, 3]),
        resize(
            "nearest open by a fraction",
            scales=[1, 1, 1.5, 2],
            open_=[0, 2, 3],
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        resize("cubic open", scales=[1, 1, 2, 2], open_=[0, 2, 3], mode="cubic"),
        resize("scales at run time", scales=[1, 1, 2, 1.5], at_run_time=True, mode="linear"),
        resize("nearest at run time", scales=[1, 1, 2, 1.5], at_run_time=True),
    ]
    cases += [
        resize(
            f"opset {opset}",
            scales=[1, 1, 2, 2],
            roi=np.zeros(0),
            mode=mode,
            opset=opset,
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
        for opset in (11, 13, 18)
        for mode in ("linear", "nearest")
    ]
    cases += [
        resize(
            f"half pixels of TensorFlow {rounding}",
            scales=[1, 1, 1.5, 0.5],
            roi=np.zeros(0),
            opset=11,
            coordinate_transformation_mode="tf_half_pixel_for_nn",
            nearest_mode=rounding,
        )
        for rounding in ("floor", "round_prefer_floor")
    ]
    return cases


def old() -> list[OnnxCase]:
    """Before opset 11; what shrinks takes the next element there."""
    x = random(IMAGE, 1)
    cases = []
    for mode in ("nearest", "linear"):
        for scales in ([1, 1, 2, 2], [1, 1, 0.6, 0.5], [1, 1, 2, 0.5]):
            factors = {"scales": np.asarray(scales, np.float32)}
            text = "x".join(map(str, scales[2:]))
            both = mode == "nearest" and max(scales) > 1 > min(scales)
            resize_10 = node("Resize", ["x", "scales"], ["y"], mode=mode)
            cases.append(
                OnnxCase(
                    f"Resize 10 {mode} {text}",
                    resize_10,
                    {"x": x},
                    constants=factors,
                    opset=10,
                    same_nodes=not both,
                )
            )
        up = np.asarray([1, 1, 2, 3], np.float32)
        upsample_9 = node("Upsample", ["x", "scales"], ["y"], mode=mode)
        upsample_7 = node("Upsample", ["x"], ["y"], mode=mode, scales=up.tolist())
        cases += [
            OnnxCase(
                f"Upsample 9 {mode}",
                upsample_9,
                {"x": x},
                constants={"scales": up},
                opset=9,
                same_nodes=False,
            ),
            OnnxCase(f"Upsample 7 {mode}", upsample_7, {"x": x}, opset=7, same_nodes=False),
        ]
    return cases


CASES = [*nearest(), *interpolated(), *others(), *old()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_route(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)
