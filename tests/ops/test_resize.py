"""Resizing: kind x dtype x coordinates x extents, with every dimension different."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from support.spine import Case, check
from support.tflite_builder import TfliteBuilder

QUANT = {
    "float32": None,
    "float16": None,
    "int8": (0.05, 3),
    "uint8": (0.05, 131),
    "int16": (0.001, 0),
    "int32": None,
}
FLAGS = {"legacy": (False, False), "corners": (True, False), "half": (False, True)}
SIZES = {"up": (10, 9), "down": (2, 4), "mixed": (3, 13), "one": (1, 1)}


def _case(
    op: str,
    dtype: str,
    flags: tuple[bool, bool],
    size: tuple[int, int],
    *,
    label: str,
    run_time: bool = False,
    inside: tuple[int, int] = (5, 6),
    **more: object,
) -> Case:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", dtype, (2, *inside, 7), quant=QUANT[dtype])
        data = np.array(size, np.int32)
        extents = b.input("size", "int32", (2,)) if run_time else b.const(data)
        options = {"align_corners": flags[0], "half_pixel_centers": flags[1]}
        shape = (2, *size, 7)
        result = (dtype, (2, 1, 1, 7) if run_time else shape, QUANT[dtype])
        b.output(b.op(op, [x, extents], [result], options=options, version=3))

    inputs = (None, np.array(size, np.int32)) if run_time else None
    return Case(f"{op}-{dtype}-{label}", build, inputs=inputs, **more)  # type: ignore[arg-type]


CASES = [
    *(
        _case("RESIZE_BILINEAR", dtype, flags, size, label=f"{way}-{name}")
        for dtype in ("float32", "int8", "uint8")
        for (way, flags), (name, size) in product(FLAGS.items(), SIZES.items())
    ),
    *(
        _case("RESIZE_NEAREST_NEIGHBOR", dtype, flags, size, label=f"{way}-{name}", steps=0)
        for dtype in QUANT
        for (way, flags), (name, size) in product(FLAGS.items(), SIZES.items())
    ),
    *(
        _case(op, dtype, flags, (8, 3), label=f"{way}-run-time", run_time=True)
        for op, dtype in product(
            ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), ("float32", "int8")
        )
        for way, flags in FLAGS.items()
    ),
]


def _grid(op: str, flags: tuple[bool, bool], extent: int, *, high: int = 9, low: int = 2) -> Case:
    """One input resized to many sizes; rows and columns go to different ones."""
    count = high - low + 1
    columns = extent + 1 if extent < high else low

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (1, extent, columns, 1))
        options = {"align_corners": flags[0], "half_pixel_centers": flags[1]}
        for i in range(count):
            size = (low + i, low + (3 * i + 2) % count)
            extents = b.const(np.array(size, np.int32))
            result = ("float32", (1, *size, 1))
            b.output(b.op(op, [x, extents], [result], options=options, version=3))

    way = next(way for way, known in (*FLAGS.items(), ("both", (True, True))) if known == flags)
    return Case(f"{op}-grid-{way}-{extent}", build)


GRID = [
    *(
        _grid(op, flags, extent)
        for op in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
        for flags in FLAGS.values()
        for extent in range(2, 10)
    ),
    *(
        _grid("RESIZE_NEAREST_NEIGHBOR", flags, extent, low=1, high=70)
        for flags in (*FLAGS.values(), (True, True))
        for extent in (14, 20, 31, 49, 75, 104)
    ),
]
"""Every size to every size: the ties, and the products that rounding moves over an integer."""

CASES += [
    *(
        _case(op, dtype, (False, True), (7, 11), label="opset-13", options={"opset": 13})
        for op, dtype in product(
            ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), ("float32", "int8")
        )
    ),
    *(
        _case(
            "RESIZE_BILINEAR",
            "int16",
            flags,
            (8, 11),
            label=f"{way}-reference",
            resolver=None,
            note="LiteRT's int16 kernel is up to 127 steps off",
        )
        for way, flags in FLAGS.items()
    ),
    _case("RESIZE_NEAREST_NEIGHBOR", "float32", (True, False), (5, 6), label="same"),
    _case("RESIZE_NEAREST_NEIGHBOR", "uint8", (False, True), (10, 18), label="integer-factors"),
]


@pytest.mark.parametrize("case", [*CASES, *GRID], ids=str)
def test_resize(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_image_that_a_transpose_made(dtype: str, tmp_path: Path) -> None:
    """onnxruntime moves the Transpose behind the Resize, unless it is kept from that."""

    def build(b: TfliteBuilder) -> None:
        quant = (0.05, 3) if dtype == "int8" else None
        x = b.input("x", dtype, (1, 6, 2, 5), quant=quant, signature=(-1, 6, 2, 5))
        perm = b.const(np.array([0, 3, 1, 2], np.int32))
        turned = b.op("TRANSPOSE", [x, perm], [(dtype, (1, 5, 6, 2), quant)])
        size = b.const(np.array([4, 7], np.int32))
        options = {"align_corners": False, "half_pixel_centers": False}
        result = (dtype, (1, 4, 7, 2), quant)
        resized = b.op("RESIZE_BILINEAR", [turned, size], [result], options=options)
        window = {"filter_height": 2, "filter_width": 3, "stride_h": 1, "stride_w": 1}
        pooled = (dtype, (1, 3, 5, 2), quant)
        options = {**window, "padding": "VALID"}
        back = b.op("MAX_POOL_2D", [resized], [pooled], options=options)
        perm = b.const(np.array([0, 2, 3, 1], np.int32))
        b.output(b.op("TRANSPOSE", [back, perm], [(dtype, (1, 5, 2, 3), quant)]))

    check(Case("turned", build), tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_image_that_was_cut_from_what_a_transpose_made(dtype: str, tmp_path: Path) -> None:
    """onnxruntime joins that one and the one to channels first to one that it can't resize."""

    def build(b: TfliteBuilder) -> None:
        quant = (0.05, 3) if dtype == "int8" else None
        x = b.input("x", dtype, (3, 2, 6, 2), quant=quant)
        perm = b.const(np.array([0, 3, 1, 2], np.int32))
        turned = b.op("TRANSPOSE", [x, perm], [(dtype, (3, 2, 2, 6), quant)])
        begin, size = (b.const(np.array(v, np.int32)) for v in ((0, 0, 1, 0), (3, 2, 1, 5)))
        cut = b.op("SLICE", [turned, begin, size], [(dtype, (3, 2, 1, 5), quant)])
        options = {"align_corners": False, "half_pixel_centers": False}
        result = [(dtype, (3, 3, 7, 5), quant)]
        extents = b.const(np.array([3, 7], np.int32))
        resized = b.op("RESIZE_BILINEAR", [cut, extents], result, options=options)
        ones = np.ones((3, 1, 2, 5), np.int8 if quant else np.float32)
        bias = np.zeros(3, np.int32 if quant else np.float32)
        weights = b.const(ones, quant=quant and (0.02, 0))
        operands = [resized, weights, b.const(bias, quant=quant and (0.001, 0))]
        options = {"stride_h": 1, "stride_w": 1, "padding": "VALID"}
        maps = (dtype, (3, 3, 6, 3), quant and (0.3, 3))
        b.output(b.op("CONV_2D", operands, [maps], options=options))

    check(Case("turned", build), tmp_path)
