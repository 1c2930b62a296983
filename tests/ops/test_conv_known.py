"""Convolutions: known answers, unknown extents, weights of other sources."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nnconv
from nnconv.errors import InvalidModelError
from nnconv.formats.tflite.reader import read
from ops.test_conv import Form, add_conv, build_conv
from support.litert import run_litert
from support.spine import Case, check, model_bytes, onnx_ops, onnx_session
from support.tflite_builder import Quant, TfliteBuilder
from support.weighted import KINDS, Kind


def one_conv(x: np.ndarray, w: np.ndarray, y: np.ndarray, **options: object) -> Case:
    """A float CONV_2D without bias values, with its known answer."""

    def build(b: TfliteBuilder) -> None:
        data = b.input("x", "float32", x.shape)
        offset = b.const(np.zeros(w.shape[0], np.float32))
        b.output(
            b.op("CONV_2D", [data, b.const(w), offset], [("float32", y.shape)], options=options)
        )

    return Case("known", build, inputs=(x,), expected=(y,))


def test_same_pads_the_end(tmp_path: Path) -> None:
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 4, 4, 1)
    w = np.ones((1, 3, 3, 1), np.float32)
    y = np.asarray([54, 45, 72, 54], np.float32).reshape(1, 2, 2, 1)
    check(one_conv(x, w, y, padding="SAME", stride_h=2, stride_w=2), tmp_path)


@pytest.mark.parametrize("shape", [(1, 4, 4, 4), (2, 4, 4, 4), (1, 4, 5, 4), (1, 5, 4, 4)])
def test_layout_is_no_matter_of_extents(shape: tuple[int, ...], tmp_path: Path) -> None:
    added = np.asarray([0, 100, 200, 300], np.float32)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)

    def build(b: TfliteBuilder) -> None:
        data = b.input("x", "float32", shape)
        w = b.const(np.eye(4, dtype=np.float32).reshape(4, 1, 1, 4))
        options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
        y = b.op(
            "CONV_2D",
            [data, w, b.const(np.zeros(4, np.float32))],
            [("float32", shape)],
            options=options,
        )
        b.output(b.op("ADD", [y, b.const(added)], [("float32", shape)]))

    check(Case("extents", build, inputs=(x,), expected=(x + added,), tolerance=0.0), tmp_path)


def test_weights_follow_a_flattened_map(tmp_path: Path) -> None:
    x = np.asarray([1, 3, 2, 4], np.float32).reshape(1, 1, 2, 2)

    def build(b: TfliteBuilder) -> None:
        data = b.input("x", "float32", x.shape)
        w = b.const(np.eye(2, dtype=np.float32).reshape(2, 1, 1, 2))
        options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
        y = b.op(
            "CONV_2D",
            [data, w, b.const(np.zeros(2, np.float32))],
            [("float32", x.shape)],
            options=options,
        )
        flat = b.op("RESHAPE", [y, b.const(np.asarray([1, 4], np.int32))], [("float32", (1, 4))])
        row = b.const(np.asarray([[1, 100, 10, 1000]], np.float32))
        b.output(b.op("FULLY_CONNECTED", [flat, row, None], [("float32", (1, 1))]))

    expected = (np.asarray([[4321]], np.float32),)
    case = Case("flatten", build, inputs=(x,), expected=expected, tolerance=0.0)
    check(case, tmp_path)
    assert onnx_ops(tmp_path / "model.onnx").get("Transpose", 0) <= 1, "at most the input's"


@pytest.mark.parametrize("kind", KINDS[:3], ids=str)
def test_flattened_maps_feed_layers(kind: Kind, tmp_path: Path) -> None:
    form = Form("front", x=(2, 4, 3, 9), filter=(5, 3, 2, 9))

    def build(b: TfliteBuilder) -> None:
        conv = add_conv(b, form, kind)
        flat = b.op(
            "RESHAPE",
            [conv, b.const(np.asarray([2, 60], np.int32))],
            [(kind.x, (2, 60), None if kind.x == "float32" else (0.25, -4))],
        )
        rng = np.random.default_rng(9)
        if kind.x == "float32":
            w, offset, out = b.const(rng.standard_normal((3, 60)).astype(np.float32)), None, None
        else:
            scales = np.asarray([0.01, 0.02, 0.005])
            codes = rng.integers(-127, 127, (3, 60)).astype(np.int8)
            w, out = b.const(codes, quant=Quant(scales, 0, axis=0)), (0.5, 3)
            offset = b.const(np.asarray([100, -50, 7], np.int32), quant=Quant(scales * 0.25, 0))
        b.output(b.op("FULLY_CONNECTED", [flat, w, offset], [(kind.x, (2, 3), out)]))

    check(Case("flattened", build), tmp_path)
    # integer kernels work in NHWC: the runtime takes both transposes around them out again
    assert onnx_ops(tmp_path / "model.onnx")["Transpose"] == (1 if kind.x == "float32" else 2)


def test_depthwise_channels_have_their_scales(tmp_path: Path) -> None:
    n, h, w, c = np.indices((1, 4, 5, 3))
    x = ((17 * h + 29 * w + 41 * c + 0 * n) % 256 - 128).astype(np.int8)
    _, kh, kw, kc = np.indices((1, 2, 3, 6))
    codes = ((37 * kh + 53 * kw + 71 * kc) % 255 - 127).astype(np.int8)
    scales = np.asarray([0.01, 0.02, 0.04, 0.005, 0.03, 0.015])

    def build(b: TfliteBuilder) -> None:
        data = b.input("x", "int8", x.shape, quant=(0.05, 11))
        filters = b.const(codes, quant=Quant(scales, 0, axis=3))
        numbers = np.asarray([100, -200, 300, -400, 500, -600], np.int32)
        offset = b.const(numbers, quant=Quant(scales * 0.05, 0))
        options = {"padding": "SAME", "stride_h": 1, "stride_w": 2, "depth_multiplier": 2}
        b.output(
            b.op(
                "DEPTHWISE_CONV_2D",
                [data, filters, offset],
                [("int8", (1, 4, 3, 6), (0.4, -4))],
                options=options,
            )
        )

    case = Case("depthwise", build, inputs=(x,))
    check(case, tmp_path)
    session = onnx_session(tmp_path / "model.onnx")
    y = session.run(None, {"x": x})[0].astype(int)
    assert y.sum() == -322
    assert y[0, 0, 0].tolist() == [16, -48, -95, 10, 6, -19]
    assert y[0, 3, 2].tolist() == [-6, -5, 24, -7, -50, -4]


def test_zero_points_of_channels_count(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(-100, 100, (5, 3, 3, 4)).astype(np.int8)
    scales, points = np.asarray([0.01, 0.02, 0.03, 0.04, 0.05]), [5, -3, 0, 7, 1]

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "int8", (1, 6, 5, 4), quant=(0.05, 11))
        w = b.const(codes, quant=Quant(scales, points, axis=0))
        offset = b.const(np.arange(5, dtype=np.int32), quant=Quant(scales * 0.05, 0))
        options = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
        b.output(
            b.op("CONV_2D", [x, w, offset], [("int8", (1, 4, 3, 5), (0.5, 0))], options=options)
        )

    note = "LiteRT refuses such weights"
    check(Case("points", build, resolver=None, note=note), tmp_path)


@pytest.mark.parametrize("edge", [0, 255])
def test_extreme_codes(edge: int, tmp_path: Path) -> None:
    case = Case("edge", lambda b: build_conv(b, Form("edge"), KINDS[3]))
    check(replace(case, inputs=(np.full((2, 7, 6, 4), edge, np.uint8),)), tmp_path)


def test_depth_that_does_not_divide_is_refused() -> None:
    def build(b: TfliteBuilder) -> None:
        build_conv(b, Form("odd", x=(1, 6, 5, 4), filter=(6, 3, 3, 3)), KINDS[0])

    with pytest.raises(InvalidModelError, match="groups"):
        read(model_bytes(Case("odd", build)), name="odd")


# -------------------------------------------------------------------- unknown extents


@pytest.mark.parametrize("stride", [(1, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[2]], ids=str)
@pytest.mark.parametrize("depthwise", [False, True])
def test_unknown_extents(
    kind: Kind, stride: tuple[int, int], depthwise: bool, tmp_path: Path
) -> None:
    filters = (1, 3, 2, 4) if depthwise else (5, 3, 2, 4)
    form = Form("unknown", x=(1, 7, 6, 4), filter=filters, stride=stride, depthwise=depthwise)

    def build(b: TfliteBuilder) -> None:
        b.output(add_conv(b, form, kind, signature=(-1, -1, -1, 4)))

    content = model_bytes(Case("unknown", build))
    path = tmp_path / "model.onnx"
    nnconv.save(read(content, name="unknown"), path)
    session = onnx_session(path)
    rng = np.random.default_rng(0)
    for shape in ((1, 7, 6, 4), (3, 8, 5, 4), (2, 4, 9, 4)):
        x = (
            rng.standard_normal(shape) if kind.x == "float32" else rng.integers(-128, 128, shape)
        ).astype(kind.x)
        y, wanted = session.run(None, {"x": x})[0], run_litert(content, [x], "opt")[0]
        assert y.shape == wanted.shape
        bound = 1e-4 if kind.x == "float32" else 1
        assert np.abs(y.astype(float) - wanted.astype(float)).max() <= bound


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[1]], ids=str)
def test_no_batch(kind: Kind, tmp_path: Path) -> None:
    check(Case("none", lambda b: build_conv(b, Form("none", x=(0, 7, 6, 4)), kind)), tmp_path)


# -------------------------------------------------------------------- other weights


def test_half_throughout(tmp_path: Path) -> None:
    kind = Kind("float16", "float16", bias="float16")
    case = Case("half", lambda b: build_conv(b, Form("half"), kind), resolver="xnn", tolerance=3e-3)
    check(case, tmp_path)


@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_half_weights_stay_half(op: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shape = (5, 3, 2, 4) if op == "CONV_2D" else (1, 3, 2, 4)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (2, 7, 6, 4))
        count = shape[0] if op == "CONV_2D" else shape[3]
        halves = (rng.standard_normal(shape), rng.standard_normal(count))
        wide = [
            b.op("DEQUANTIZE", [b.const(half.astype(np.float16))], [("float32", half.shape)])
            for half in halves
        ]
        options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "depth_multiplier": 1}
        if op == "CONV_2D":
            del options["depth_multiplier"]
        b.output(b.op(op, [x, *wide], [("float32", (2, 7, 6, count))], options=options))

    check(Case("half", build), tmp_path)
    assert onnx_ops(tmp_path / "model.onnx")["Cast"] == 2


def test_weights_at_run_time(tmp_path: Path) -> None:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (2, 7, 6, 4))
        w = b.input("w", "float32", (5, 3, 2, 4))
        offset = b.input("b", "float32", (5,))
        options = {"padding": "SAME", "stride_h": 2, "stride_w": 1}
        b.output(b.op("CONV_2D", [x, w, offset], [("float32", (2, 4, 6, 5))], options=options))

    check(Case("run-time", build), tmp_path)


def test_sparse_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((4, 1, 1, 8)).astype(np.float32)
    dense[rng.random(dense.shape) < 0.6] = 0

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (1, 3, 4, 8))
        w = b.sparse_const(dense, ["dense", "dense", "dense", "csr"])
        w = b.op("DENSIFY", [w], [("float32", dense.shape)])
        options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
        b.output(
            b.op(
                "CONV_2D",
                [x, w, b.const(np.zeros(4, np.float32))],
                [("float32", (1, 3, 4, 4))],
                options=options,
            )
        )

    check(Case("sparse", build), tmp_path)


def test_no_bias(tmp_path: Path) -> None:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "int8", (1, 4, 5, 4), quant=(0.05, 3))
        w = b.const(np.arange(-8, 8, dtype=np.int8).reshape(4, 1, 1, 4), quant=(0.02, 0))
        options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
        result = ("int8", (1, 4, 5, 4), (0.25, 0))
        b.output(b.op("CONV_2D", [x, w], [result], options=options))

    check(Case("no bias", build, resolver=None, note="LiteRT wants one"), tmp_path)


def test_one_weight_for_two_ops(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (2, 3, 4, 8))
        z = b.input("z", "float32", (3, 8))
        rows = b.const(rng.standard_normal((5, 8)).astype(np.float32))
        filters = b.const(np.zeros((5, 1, 1, 8), np.float32), share=rows)
        options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
        operands = [x, filters, b.const(np.zeros(5, np.float32))]
        b.output(b.op("CONV_2D", operands, [("float32", (2, 3, 4, 5))], options=options))
        b.output(b.op("FULLY_CONNECTED", [z, rows, None], [("float32", (3, 5))]))

    check(Case("shared", build), tmp_path)


def test_half_weights_from_outside(tmp_path: Path) -> None:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (1, 4, 5, 2))
        w = b.input("w", "float16", (3, 1, 1, 2))
        options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
        operands = [x, w, b.const(np.ones(3, np.float32))]
        b.output(b.op("CONV_2D", operands, [("float32", (1, 4, 5, 3))], options=options))

    note = "LiteRT reads the halves' bytes as float32"
    check(Case("half weights", build, resolver=None, note=note), tmp_path)
