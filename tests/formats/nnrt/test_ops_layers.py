"""Layers of NNRt against loops and numpy, worked from the documents' formulas."""

from __future__ import annotations

import numpy as np
import pytest

import nnconv
from nnconv.formats.nnrt.reader import import_model
from nnconv.formats.nnrt.wire import QuantParams
from support.nnrt_ops import Given, check_op, codes, const, graph_of, quantized, real

rng = np.random.default_rng(11)

FLOATS = (np.float32, np.float16)


def some(shape, dtype=np.float32):
    return rng.uniform(-1, 1, shape).astype(dtype)


def activated(x, activation):
    return np.clip(x, 0, {1: np.inf, 2: 6}[activation]) if activation else x


def sides_of(params, extents, window, stride, dilation=(1, 1)):
    """Padding before and behind each dimension, from the mode or the list."""
    if params.get("padMode") == 0:
        totals = [
            max((-(-n // step) - 1) * step + (k - 1) * d + 1 - n, 0)
            for n, k, step, d in zip(extents, window, stride, dilation, strict=True)
        ]
        return [(total // 2, total - total // 2) for total in totals]
    if "padMode" in params:
        return [(0, 0), (0, 0)]
    top, bottom, left, right = params.get("padList", (0, 0, 0, 0))
    return [(top, bottom), (left, right)]


def windows(x, window, stride, dilation, sides, *, up=False):
    """For each place of the result, the rows and columns of x that its window covers."""
    counts = []
    for n, k, step, d, (before, after) in zip(
        x.shape[1:3], window, stride, dilation, sides, strict=True
    ):
        room = n + before + after - (k - 1) * d - 1
        count = (-(-room // step) if up else room // step) + 1
        counts.append(count - (up and (count - 1) * step >= n + before))
    for i in range(counts[0]):
        for j in range(counts[1]):
            rows = [i * stride[0] - sides[0][0] + r * dilation[0] for r in range(window[0])]
            columns = [j * stride[1] - sides[1][0] + c * dilation[1] for c in range(window[1])]
            yield i, j, rows, columns, counts


def conv(x, w, bias, params, groups):
    x, w = x.astype(np.float64), w.astype(np.float64)
    stride, dilation = params["stride"], params["dilation"]
    sides = sides_of(params, x.shape[1:3], w.shape[1:3], stride, dilation)
    result = None
    depth, filters = w.shape[3], w.shape[0] // groups
    for i, j, rows, columns, counts in windows(x, w.shape[1:3], stride, dilation, sides):
        if result is None:
            result = np.zeros((x.shape[0], *counts, w.shape[0]))
        for r, row in enumerate(rows):
            for c, column in enumerate(columns):
                if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]:
                    for o in range(w.shape[0]):
                        first = o // filters * depth
                        seen = x[:, row, column, first : first + depth]
                        result[:, i, j, o] += seen @ w[o, r, c]
    return result + bias.astype(np.float64)


PADDINGS = ({}, {"padMode": 0}, {"padMode": 1}, {"padMode": 2}, {"padList": (1, 0, 2, 1)})
STEPS = ({"stride": (1, 1), "dilation": (1, 1)}, {"stride": (2, 1), "dilation": (1, 2)})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("padding", PADDINGS, ids=str)
@pytest.mark.parametrize("steps", STEPS, ids=str)
@pytest.mark.parametrize(("groups", "activation"), [(1, 0), (2, 1), (1, 2)])
def test_conv2d(groups, activation, steps, padding, dtype):
    x, w, bias = some((2, 7, 6, 4), dtype), some((6, 3, 2, 4 // groups), dtype), some(6, dtype)
    params = steps | padding | {"activationType": activation}
    wanted = activated(conv(x, w, bias, params, groups), activation).astype(dtype)
    if groups > 1:
        params["group"] = groups
    given = {"input": x, "weight": const(w), "bias": const(bias)}
    check_op("CONV2D", given, params, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("padding", PADDINGS, ids=str)
@pytest.mark.parametrize(("multiplier", "activation"), [(1, 0), (2, 1), (1, 2)])
def test_depthwise_conv2d(multiplier, activation, padding, dtype):
    outputs = 3 * multiplier
    x, w, bias = some((2, 7, 6, 3), dtype), some((outputs, 3, 2, 1), dtype), some(outputs, dtype)
    params = STEPS[0] | padding | {"activationType": activation}
    wanted = activated(conv(x, w, bias, params, 3), activation).astype(dtype)
    given = {"input": x, "weight": const(w), "bias": const(bias)}
    check_op("DEPTHWISE_CONV2D_NATIVE", given, params, wanted, rtol=1e-4, atol=1e-5)


def some_codes(shape, scale, point=0, *, constant=False):
    return codes(rng.integers(-100, 100, shape), scale, point, constant=constant)


def channel_codes(shape):
    """Weights with a scale for each index of the first dimension, and their real numbers."""
    scales = [0.01 * (1 + i) for i in range(shape[0])]
    array = rng.integers(-100, 100, shape).astype(np.int8)
    wide = np.reshape(scales, (-1, *[1] * (len(shape) - 1)))
    return Given(array, QuantParams(scales, [0] * len(scales)), constant=True), array * wide


@pytest.mark.parametrize("activation", [0, 1, 2])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("op", ["CONV2D", "DEPTHWISE_CONV2D_NATIVE", "FULL_CONNECTION"])
def test_layers_of_codes_take_a_bias_without_parameters(op, per_channel, activation):
    shape = {"CONV2D": (3, 2, 2, 3), "DEPTHWISE_CONV2D_NATIVE": (3, 2, 2, 1)}.get(op, (3, 5))
    x = some_codes((2, 5) if op == "FULL_CONNECTION" else (1, 4, 5, 3), 0.05, 3)
    if per_channel:
        w, weights = channel_codes(shape)
    else:
        w = some_codes(shape, 0.02, constant=True)
        weights = real(w)
    bias = np.array([500, -300, 100], np.int32)
    added = bias * 0.05 * np.asarray(w.quant.scales)
    given = {"input": x, "weight": w, "bias": const(bias)}
    if op == "FULL_CONNECTION":
        params = {"hasBias": True}
        wanted = real(x) @ weights.T + added
    else:
        params = dict(STEPS[0])
        wanted = conv(real(x), weights, added, params, 1 if op == "CONV2D" else 3)
    params["activationType"] = activation
    check_op(op, given, params, quantized(activated(wanted, activation), 0.1, -4), steps=1)


# ------------------------------------------------------------------------ transposed convolution


def conv_transpose(x, w, bias, params, groups):
    x, w = x.astype(np.float64), w.astype(np.float64)
    (sh, sw), (dh, dw) = params["stride"], params["dilation"]
    outputs, kh, kw, depth = w.shape
    eh, ew = (kh - 1) * dh + 1, (kw - 1) * dw + 1
    n, h, width, _ = x.shape
    more = params.get("outputPads", (0, 0))
    full = np.zeros((n, (h - 1) * sh + eh + sh + 2, (width - 1) * sw + ew + sw + 2, outputs))
    for i in range(h):
        for j in range(width):
            for r in range(kh):
                for c in range(kw):
                    for o in range(outputs):
                        first = o // (outputs // groups) * depth
                        seen = x[:, i, j, first : first + depth]
                        full[:, i * sh + r * dh, j * sw + c * dw, o] += seen @ w[o, r, c]
    size = [(h - 1) * sh + eh, (width - 1) * sw + ew]
    start = [0, 0]
    if params.get("padMode") == 0:
        start = [max(eh - sh, 0) // 2, max(ew - sw, 0) // 2]
        size = [h * sh, width * sw]
    elif "padMode" not in params:
        top, bottom, left, right = params.get("padList", (0, 0, 0, 0))
        start = [top, left]
        size = [size[0] - top - bottom + more[0], size[1] - left - right + more[1]]
    cut = full[:, start[0] : start[0] + size[0], start[1] : start[1] + size[1]]
    return cut + bias.astype(np.float64)


TRANSPOSED = (*PADDINGS, {"outputPads": (1, 0)}, {"padList": (1, 1, 0, 1), "outputPads": (1, 1)})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("padding", TRANSPOSED, ids=str)
@pytest.mark.parametrize(("groups", "activation"), [(1, 0), (2, 1), (1, 2)])
def test_conv2d_transpose(groups, activation, padding, dtype):
    x, w, bias = some((2, 3, 4, 4), dtype), some((6, 3, 2, 4 // groups), dtype), some(6, dtype)
    params = {"stride": (2, 2), "dilation": (1, 1)} | padding | {"activationType": activation}
    wanted = activated(conv_transpose(x, w, bias, params, groups), activation).astype(dtype)
    if groups > 1:
        params["group"] = groups
    given = {"input": x, "weight": const(w), "bias": const(bias)}
    check_op("CONV2D_TRANSPOSE", given, params, wanted, rtol=1e-4, atol=1e-5)


def test_conv2d_transpose_of_codes():
    x, w = some_codes((1, 3, 4, 2), 0.05, 3), some_codes((3, 2, 2, 2), 0.02, constant=True)
    bias, params = np.array([500, -300, 100], np.int32), {"stride": (2, 2), "dilation": (1, 1)}
    wanted = quantized(conv_transpose(real(x), real(w), bias * 0.001, params, 1), 0.1, -4)
    given = {"input": x, "weight": w, "bias": const(bias)}
    check_op("CONV2D_TRANSPOSE", given, params, wanted, steps=1)


def test_conv2d_transpose_of_codes_with_scales_for_each_filter_of_each_group():
    x, w = some_codes((1, 3, 4, 4), 0.05, 3), some_codes((6, 2, 2, 2), 0.02, constant=True)
    scales = np.float32([0.02, 0.01, 0.05, 0.03, 0.04, 0.015])
    filters = Given(w.array, QuantParams(tuple(scales.tolist()), (0,) * 6), constant=True)
    weights = w.array * scales.reshape(-1, 1, 1, 1)
    bias = np.array([500, -300, 100, 50, -70, 900], np.int32)
    params = {"stride": (2, 2), "dilation": (1, 1)}
    found = conv_transpose(real(x), weights, bias * scales * 0.05, params, 2)
    given = {"input": x, "weight": filters, "bias": const(bias)}
    check_op("CONV2D_TRANSPOSE", given, params | {"group": 2}, quantized(found, 0.1, -4), steps=1)


# ------------------------------------------------------------------------ pools


def pool(x, params, kind, *, up=False):
    sides = sides_of(params, x.shape[1:3], params["kernelSize"], params["strides"])
    result = None
    size, step = params["kernelSize"], params["strides"]
    for i, j, rows, columns, counts in windows(x, size, step, (1, 1), sides, up=up):
        if result is None:
            result = np.zeros((x.shape[0], *counts, x.shape[3]))
        down = [row for row in rows if 0 <= row < x.shape[1]]
        across = [column for column in columns if 0 <= column < x.shape[2]]
        result[:, i, j] = kind(x.astype(np.float64)[:, down][:, :, across], axis=(1, 2))
    return result


POOLS = {"AVG_POOL": np.mean, "MAX_POOL": np.max}
POOL_PADDINGS = (*PADDINGS[:4], {"padList": (1, 0, 1, 1)})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("padding", POOL_PADDINGS, ids=str)
@pytest.mark.parametrize("activation", [0, 1, 2])
@pytest.mark.parametrize("op", POOLS)
def test_pools(op, activation, padding, dtype):
    x = some((2, 7, 6, 3), dtype) * 9
    params = {"kernelSize": (3, 2), "strides": (2, 1)} | padding
    wanted = activated(pool(x, params, POOLS[op]), activation).astype(dtype)
    check_op(op, {"input": x}, params | {"activationType": activation}, wanted)


@pytest.mark.parametrize(("scale", "point"), [(0.05, 3), (0.03, -20)])
@pytest.mark.parametrize("op", POOLS)
def test_pools_of_codes(op, scale, point):
    x, params = some_codes((1, 5, 4, 2), 0.05, 3), {"kernelSize": (2, 2), "strides": (2, 2)}
    wanted = quantized(pool(real(x), params, POOLS[op]), scale, point)
    check_op(op, {"input": x}, params, wanted, steps=1)


@pytest.mark.parametrize("op", POOLS)
def test_the_size_of_average_pools_alone_is_rounded_up(op):
    x, params = some((1, 6, 6, 2)), {"kernelSize": (3, 3), "strides": (2, 2), "roundMode": 1}
    wanted = pool(x, params, POOLS[op], up=op == "AVG_POOL").astype(np.float32)
    assert wanted.shape[1] == (3 if op == "AVG_POOL" else 2)
    check_op(op, {"input": x}, params, wanted)


@pytest.mark.parametrize("op", POOLS)
def test_global_pools(op):
    x = some((2, 4, 3, 5))
    wanted = POOLS[op](x.astype(np.float64), axis=(1, 2), keepdims=True).astype(np.float32)
    params = {"kernelSize": (1, 1), "strides": (1, 1), "global": True}
    check_op(op, {"input": x}, params, wanted)


# ------------------------------------------------------------------------ products


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("a", "b"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("activation", [0, 1, 2])
def test_matmul(activation, a, b, dtype):
    x, y = some((2, 1, 3, 4), dtype) * 3, some((5, 4, 6), dtype)
    wanted = activated(x.astype(np.float64) @ y.astype(np.float64), activation).astype(dtype)
    x = np.swapaxes(x, -1, -2).copy() if a else x
    y = np.swapaxes(y, -1, -2).copy() if b else y
    params = {"TransposeX": a, "TransposeY": b, "activationType": activation}
    check_op("MATMUL", {"input1": x, "input2": y}, params, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", [0, 1, 2])
def test_matmul_of_codes(activation):
    x, y = some_codes((3, 4), 0.05, 3), some_codes((4, 5), 0.03, -2)
    wanted = quantized(activated(real(x) @ real(y), activation), 0.1, 5)
    params = {"activationType": activation}
    check_op("MATMUL", {"input1": x, "input2": y}, params, wanted, steps=1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("shape", "params"),
    [
        ((3, 8), {}),
        ((3, 2, 8), {}),
        ((3, 2, 4), {"axis": 1}),
        ((3, 2, 4), {"axis": 1, "useAxis": True}),
    ],
)
def test_full_connection(shape, params, bias, dtype):
    x, w, added = some(shape, dtype), some((5, 8), dtype), some(5, dtype)
    wanted = x.reshape(-1, 8).astype(np.float64) @ w.T.astype(np.float64)
    given = {"input": x, "weight": const(w)}
    if bias:
        given["bias"], params = const(added), params | {"hasBias": True}
        wanted = wanted + added
    check_op("FULL_CONNECTION", given, params, wanted.astype(dtype), rtol=1e-4, atol=1e-5)


def test_version_1_takes_the_bias_unasked():
    x, w, bias = some((3, 8)), some((5, 8)), some(5)
    given = {"input": x, "weight": const(w), "bias": const(bias)}
    wanted = (x.astype(np.float64) @ w.T + bias).astype(np.float32)
    check_op("FULL_CONNECTION", given, {"activationType": 0}, wanted, api=1, rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------------ norms


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("api", "params", "epsilon"),
    [(2, {}, 1e-4), (1, {}, 1e-7), (2, {"epsilon": 0.01}, 0.01)],
)
@pytest.mark.parametrize("shape", [(2, 3), (2, 4, 5, 3)])
def test_batch_norm(shape, api, params, epsilon, dtype):
    x, scale, offset, mean = some(shape, dtype), some(3, dtype), some(3, dtype), some(3, dtype)
    variance = np.array([1e-4, 0.5, 2], dtype)
    wide = [v.astype(np.float64) for v in (x, mean, variance, scale, offset)]
    wanted = (wide[0] - wide[1]) / np.sqrt(wide[2] + epsilon) * wide[3] + wide[4]
    names = ("scale", "offset", "mean", "variance")
    given = {"input": x} | dict(
        zip(names, map(const, (scale, offset, mean, variance)), strict=True)
    )
    loose = 1e-4 if dtype is np.float32 else 5e-3
    check_op("BATCH_NORM", given, params, wanted.astype(dtype), api=api, rtol=loose, atol=loose)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("api", [1, 2])
@pytest.mark.parametrize(("axis", "epsilon"), [(None, None), (1, 0.01), (2, 1e-5)])
def test_layer_norm(axis, epsilon, api, dtype):
    x, first = some((2, 3, 4), dtype), axis or 1
    gamma, beta = some(x.shape[first:], dtype), some(x.shape[first:], dtype)
    wide, axes = x.astype(np.float64), tuple(range(first, 3))
    mean, variance = (f(wide, axis=axes, keepdims=True) for f in (np.mean, np.var))
    params = (
        {} if axis is None else {"beginAxis": axis, "epsilon": epsilon, "beginParamsAxis": axis}
    )
    wanted = (wide - mean) / np.sqrt(variance + (epsilon or 1e-7)) * gamma + beta
    given = {"input": x, "gamma": const(gamma), "beta": const(beta)}
    check_op("LAYER_NORM", given, params, wanted.astype(dtype), api=api, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("params", [{}, {"epsilon": 0.01}], ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 7)])
def test_instance_norm(shape, params, dtype):
    x, scale, bias = some(shape, dtype), some(3, dtype), some(3, dtype)
    wide, axes = x.astype(np.float64), tuple(range(2, len(shape)))
    mean, variance = (f(wide, axis=axes, keepdims=True) for f in (np.mean, np.var))
    column = (1, 3, *[1] * len(axes))
    wanted = (wide - mean) / np.sqrt(variance + params.get("epsilon", 0))
    wanted = wanted * scale.reshape(column) + bias.reshape(column)
    given = {"input": x, "scale": const(scale), "bias": const(bias)}
    check_op("INSTANCE_NORM", given, params, wanted.astype(dtype), rtol=1e-4, atol=1e-4)


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("op", ["SOFTMAX", "LOG_SOFTMAX"])
def test_softmax(op, axis, dtype):
    x = some((2, 3, 5), dtype) * 3
    wanted = softmax(x.astype(np.float64), axis)
    wanted = np.log(wanted) if op == "LOG_SOFTMAX" else wanted
    check_op(op, {"input": x}, {"axis": axis}, wanted.astype(dtype), rtol=1e-4, atol=1e-5)


def test_log_softmax_is_along_the_first_axis_by_itself():
    x = some((4, 3))
    wanted = np.log(softmax(x.astype(np.float64), 0)).astype(np.float32)
    check_op("LOG_SOFTMAX", {"input": x}, {}, wanted, rtol=1e-4, atol=1e-5)


def test_softmax_of_codes():
    x = some_codes((3, 5), 0.05, 3)
    wanted = quantized(softmax(real(x), 1), 1 / 256, -128)
    check_op("SOFTMAX", {"input": x}, {"axis": 1}, wanted, steps=1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axes", [(), (0,), (-1,), (0, 2)], ids=str)
@pytest.mark.parametrize(("epsilon", "activation"), [(None, 0), (0.5, 1), (1e-3, 2)])
def test_l2_normalize(epsilon, activation, axes, dtype):
    x = some((2, 3, 4), dtype)
    total = (x.astype(np.float64) ** 2).sum(axis=axes or None, keepdims=True)
    wanted = x / np.sqrt(np.maximum(total, epsilon or 1e-6))
    params = {"activationType": activation}
    if axes:
        params["axis"] = axes
    if epsilon:
        params["epsilon"] = epsilon
    wanted = activated(wanted, activation).astype(dtype)
    check_op("L2_NORMALIZE", {"input": x}, params, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [(1,), (0, 1)], ids=str)
def test_l2_normalize_of_codes(axes):
    x = some_codes((3, 5), 0.05, 3)
    wanted = real(x) / np.sqrt((real(x) ** 2).sum(axis=axes, keepdims=True))
    check_op("L2_NORMALIZE", {"input": x}, {"axis": axes}, quantized(wanted, 1 / 128, 0), steps=1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("radius", [0, 1, 3])
def test_lrn(radius, dtype):
    x, bias, alpha, beta = some((1, 2, 3, 6), dtype), 1.5, 0.25, 0.75
    wide = x.astype(np.float64)
    sums = np.stack(
        [(wide[..., max(c - radius, 0) : c + radius + 1] ** 2).sum(axis=-1) for c in range(6)], -1
    )
    params = {"depthRadius": radius, "bias": bias, "alpha": alpha, "beta": beta, "normRegion": 0}
    wanted = (wide / (bias + alpha * sums) ** beta).astype(dtype)
    check_op("LRN", {"input": x}, params, wanted, rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------------ number types

TYPES = [
    np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64,
    np.float16, np.float32, np.float64,
]  # fmt: skip

TYPE_CODES = dict(zip(TYPES, (1, 2, 6, 3, 7, 4, 8, 5, 9, 10, 11, 12), strict=True))


@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("source", TYPES)
def test_cast(source, target):
    x = np.array([[0, 1, 2.5], [3, 100, 7]]).astype(source)
    given = {"input": x, "type": const([TYPE_CODES[target]], np.int32)}
    check_op("CAST", given, {}, x.astype(target))


@pytest.mark.parametrize("axis", [None, 0])
def test_quantize_and_dequantize(axis):
    x = some((2, 5)) * 5
    params = {} if axis is None else {"axis": axis}
    wanted = quantized(x.astype(np.float64), 0.05, 3)
    check_op("QUANT_DTYPE_CAST", {"input": x}, params | {"srcT": 11, "dstT": 2}, wanted, steps=1)
    back = (real(wanted)).astype(np.float32)
    check_op("QUANT_DTYPE_CAST", {"input": wanted}, params | {"srcT": 2, "dstT": 11}, back)


def test_requantize():
    x = some_codes((2, 5), 0.05, 3)
    wanted = quantized(real(x), 0.08, -7)
    check_op("QUANT_DTYPE_CAST", {"input": x}, {"srcT": 2, "dstT": 2}, wanted, steps=1)


@pytest.mark.parametrize("axis", [0, 1])
def test_dequantize_by_channel(axis):
    array, scales, points = (
        rng.integers(-99, 99, (3, 3)).astype(np.int8),
        [0.1, 0.2, 0.3],
        [1, 0, -2],
    )
    wide = [np.reshape(v, (-1, 1) if axis == 0 else (1, -1)) for v in (scales, points)]
    wanted = ((array - wide[1].astype(float)) * wide[0]).astype(np.float32)
    given = Given(array, QuantParams(scales, points))
    params = {"srcT": 32, "dstT": 43, "axis": axis}  # as drivers call the types
    check_channels(given, params, wanted)


def check_channels(given, params, wanted):
    graph = graph_of("QUANT_DTYPE_CAST", {"input": given}, params, [Given(wanted)])
    results = nnconv.compile(import_model(graph), "reference").run({"input": given.array})
    np.testing.assert_allclose(results["output0"], wanted, rtol=1e-6)
