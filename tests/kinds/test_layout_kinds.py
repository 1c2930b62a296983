"""Kinds of fault that come with the change of layout: where things are, not what they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnconv
from nnconv.errors import UsageError
from support.litert import run_litert
from support.spine import onnx_ops
from support.tflite_builder import Tensor, TfliteBuilder
from support.whole import conv, convert, floats, identity_conv

FLOAT = "float32"


def image(b: TfliteBuilder, *shape: int, open_batch: bool = False) -> Tensor:
    signature = (-1, *shape[1:]) if open_batch else None
    return b.input("x", FLOAT, shape, signature=signature)


# ---------------------------------------------------------------- stray transposes


def branched(b: TfliteBuilder, *, open_batch: bool = False) -> Tensor:
    """Convolution, ReLU, sum with a constant, two branches, joined, and averaged."""
    rng = np.random.default_rng(0)

    def filters(count: int, depth: int) -> list[Tensor]:
        w = rng.integers(-3, 4, (count, 3, 3, depth)).astype(np.float32)
        return [b.const(w), b.const(np.arange(count, dtype=np.float32))]

    x = image(b, 2, 5, 6, 3, open_batch=open_batch)
    y = conv(b, [x, *filters(8, 3)], (2, 5, 6, 8))
    y = b.op("RELU", [y], [(FLOAT, (2, 5, 6, 8))])
    y = b.op("ADD", [y, b.const(floats(8))], [(FLOAT, (2, 5, 6, 8))])
    left = conv(b, [y, *filters(4, 8)], (2, 5, 6, 4))
    right = conv(b, [y, *filters(7, 8)], (2, 5, 6, 7))
    both = b.op("CONCATENATION", [left, right], [(FLOAT, (2, 5, 6, 11))], options={"axis": 3})
    return b.op("MEAN", [both, b.const(np.int32([1, 2]))], [(FLOAT, (2, 11))])


@pytest.mark.parametrize("open_batch", [False, True])
@pytest.mark.parametrize(("layout", "most"), [("keep", 1), ("nchw", 0)])
def test_no_transpose_but_at_an_edge(
    layout: str, most: int, open_batch: bool, tmp_path: Path
) -> None:
    b = TfliteBuilder()
    whole = convert(b, tmp_path, branched(b, open_batch=open_batch), io_layout=layout)
    assert onnx_ops(whole.target).get("Transpose", 0) <= most
    x = np.random.default_rng(1).integers(-5, 6, (2, 5, 6, 3)).astype(np.float32)
    (got,) = whole.run(x.transpose(0, 3, 1, 2) if layout == "nchw" else x)
    np.testing.assert_allclose(got, run_litert(whole.source, [x])[0], rtol=1e-6)


# ---------------------------------------------------------------- edges


def test_each_edge_keeps_its_layout_or_changes_it_as_asked(tmp_path: Path) -> None:
    x = floats(1, 4, 5, 3)
    for layout in ("keep", "nhwc", "nchw"):
        b = TfliteBuilder()
        whole = convert(b, tmp_path, identity_conv(b, image(b, 1, 4, 5, 3)), io_layout=layout)
        moved = layout == "nchw"
        shape = [1, 3, 4, 5] if moved else [1, 4, 5, 3]
        infos = [*whole.session.get_inputs(), *whole.session.get_outputs()]
        assert [info.shape for info in infos] == [shape, shape]
        assert [row[2] for row in (*whole.report.inputs, *whole.report.outputs)] == [shape, shape]
        assert bool(whole.report.moved_io) == moved
        given = x.transpose(0, 3, 1, 2) if moved else x
        np.testing.assert_array_equal(whole.run(given)[0], given)


def test_the_other_layout_is_refused_where_shapes_tell(tmp_path: Path) -> None:
    b = TfliteBuilder()
    whole = convert(b, tmp_path, identity_conv(b, image(b, 1, 4, 5, 3)))
    executable = nnconv.compile(whole.target, "onnxruntime:cpu")
    with pytest.raises(UsageError, match=r"must be \[1, 4, 5, 3\]"):
        executable.run({"x": floats(1, 3, 4, 5)})


# ---------------------------------------------------------------- paddings


@pytest.mark.parametrize("size", [8, 7])
@pytest.mark.parametrize("stride", [3, 4])
@pytest.mark.parametrize("kernel", [1, 2])
@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D"])
def test_padding_of_a_stride_beyond_the_kernel_is_none(
    op: str, kernel: int, stride: int, size: int, tmp_path: Path
) -> None:
    """The formula gives a negative number there."""
    b = TfliteBuilder()
    x = image(b, 1, size, size, 2)
    count = -(-size // stride)
    shape = (1, count, count, 2)
    if op.endswith("POOL_2D"):
        sizes = {"filter_height": kernel, "filter_width": kernel}
        y = conv(b, [x], shape, stride=(stride, stride), op=op, **sizes)
    else:
        first = 2 if op == "CONV_2D" else 1
        w = np.arange(first * kernel * kernel * 2, dtype=np.float32)
        operands = [x, b.const(w.reshape(first, kernel, kernel, 2)), b.const(floats(2))]
        multiplier = {} if op == "CONV_2D" else {"depth_multiplier": 1}
        y = conv(b, operands, shape, stride=(stride, stride), op=op, **multiplier)
    whole = convert(b, tmp_path, y)
    data = floats(1, size, size, 2)
    np.testing.assert_array_equal(whole.run(data)[0], run_litert(whole.source, [data])[0])


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_padding_counts_the_extent_of_a_dilated_kernel(stride: int, tmp_path: Path) -> None:
    """Three taps two apart reach over five elements."""
    size = 7
    count = -(-size // stride)
    total = max((count - 1) * stride + 5 - size, 0)
    x = floats(1, size, size, 1)
    wide = np.zeros((size + 8, size + 8), np.float32)
    wide[total // 2 : total // 2 + size, total // 2 : total // 2 + size] = x[0, :, :, 0]
    w = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
    expected = [
        [(wide[i : i + 5 : 2, j : j + 5 : 2] * w).sum() for j in range(0, count * stride, stride)]
        for i in range(0, count * stride, stride)
    ]
    b = TfliteBuilder()
    operands = [
        image(b, 1, size, size, 1),
        b.const(w.reshape(1, 3, 3, 1)),
        b.const(np.zeros(1, np.float32)),
    ]
    dilation = {"dilation_h_factor": 2, "dilation_w_factor": 2}
    y = conv(b, operands, (1, count, count, 1), stride=(stride, stride), **dilation)
    (got,) = convert(b, tmp_path, y).run(x)
    np.testing.assert_array_equal(got[0, :, :, 0], expected)


def test_same_padding_stays_in_the_convolution(tmp_path: Path) -> None:
    b = TfliteBuilder()
    w = b.const(np.ones((1, 3, 3, 1), np.float32))
    operands = [image(b, 1, 4, 4, 1), w, b.const(np.zeros(1, np.float32))]
    whole = convert(b, tmp_path, conv(b, operands, (1, 2, 2, 1), stride=(2, 2)))
    assert "Pad" not in onnx_ops(whole.target)
    (node,) = [n for n in whole.graph.node if n.op_type == "Conv"]
    assert next(list(a.ints) for a in node.attribute if a.name == "pads") == [0, 0, 1, 1]
    (got,) = whole.run(1 + floats(1, 4, 4, 1))
    assert got.reshape(-1).tolist() == [54, 45, 72, 54]


# ---------------------------------------------------------------- broadcasting


@pytest.mark.parametrize(
    "shape", [(), (1,), (5,), (3, 1), (3, 5), (2, 1, 1), (2, 1, 5), (1, 2, 3, 1)], ids=str
)
@pytest.mark.parametrize("op", ["ADD", "MUL", "MAXIMUM"])
def test_constants_of_lower_rank_broadcast_where_they_did(
    op: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    x, constant = floats(1, 2, 3, 5), 7 - 3 * floats(*shape)
    b = TfliteBuilder()
    y = identity_conv(b, image(b, 1, 2, 3, 5))
    whole = convert(b, tmp_path, b.op(op, [y, b.const(constant)], [(FLOAT, (1, 2, 3, 5))]))
    function = {"ADD": np.add, "MUL": np.multiply, "MAXIMUM": np.maximum}[op]
    np.testing.assert_array_equal(whole.run(x)[0], function(x, constant))
    # Nothing grew: the filter's 25 elements are the largest constant.
    assert max(c.size for c in whole.constants) <= 25


SLOPES = {"scalar": (), "one": (1,), "channels": (1, 1, 3), "width": (2, 1), "height": (2, 1, 1)}


@pytest.mark.parametrize("kind", SLOPES)
@pytest.mark.parametrize("behind_conv", [False, True])
def test_slopes_broadcast_by_place(kind: str, behind_conv: bool, tmp_path: Path) -> None:
    slope = (0.25 + floats(*SLOPES[kind])).astype(np.float32)
    x = floats(1, 2, 2, 3) - 6
    b = TfliteBuilder()
    data = image(b, 1, 2, 2, 3)
    data = identity_conv(b, data) if behind_conv else data
    whole = convert(b, tmp_path, b.op("PRELU", [data, b.const(slope)], [(FLOAT, (1, 2, 2, 3))]))
    np.testing.assert_array_equal(whole.run(x)[0], np.where(x < 0, x * slope, x))


# ---------------------------------------------------------------- reshapes


SHAPE_OPERANDS = {
    "none": None,
    "rank 1": np.int32([1, 4]),
    "rank 2": np.int32([[1, 4]]),
    "open": np.int32([1, -1]),
    "open rows": np.int32([-1, 4]),
}


@pytest.mark.parametrize("form", SHAPE_OPERANDS)
def test_flattening_keeps_the_order_of_the_elements(form: str, tmp_path: Path) -> None:
    """Elements in channels-first order would give 4231."""
    b = TfliteBuilder()
    y = identity_conv(b, image(b, 1, 1, 2, 2))
    shape = SHAPE_OPERANDS[form]
    operands = [y] if shape is None else [y, b.const(shape)]
    flat = b.op("RESHAPE", operands, [(FLOAT, (1, 4))], options={"new_shape": np.int32([1, 4])})
    row = b.const(np.float32([[1, 100, 10, 1000]]))
    whole = convert(b, tmp_path, b.op("FULLY_CONNECTED", [flat, row, None], [(FLOAT, (1, 1))]))
    assert whole.run(np.float32([1, 3, 2, 4]).reshape(1, 1, 2, 2))[0].tolist() == [[4321]]


def test_a_layer_that_keeps_the_rank(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x, w = floats(2, 3, 4), floats(5, 4)
    data = b.input("x", FLOAT, x.shape)
    options = {"keep_num_dims": True}
    y = b.op(
        "FULLY_CONNECTED",
        [data, b.const(w), None],
        [(FLOAT, (2, 3, 5))],
        options=options,
        version=5,
    )
    np.testing.assert_array_equal(convert(b, tmp_path, y).run(x)[0], x @ w.T)


# ---------------------------------------------------------------- axes

X = floats(2, 3, 4, 5)
Build = Callable[[TfliteBuilder, Tensor], Any]


def _reduce(op: str, axis: int, keep: bool) -> Build:
    shape = np.zeros(X.shape).sum(axis, keepdims=keep).shape
    return lambda b, x: b.op(
        op, [x, b.const(np.int32([axis]))], [(FLOAT, shape)], options={"keep_dims": keep}
    )


def _extreme(op: str, axis: int) -> Build:
    shape = np.zeros(X.shape).sum(axis).shape
    options = {"output_type": "INT64"}
    return lambda b, x: b.op(op, [x, b.const(np.int32(axis))], [("int64", shape)], options=options)


def _concat(axis: int) -> Build:
    shape = np.concatenate([X, X], axis).shape
    return lambda b, x: b.op("CONCATENATION", [x, x], [(FLOAT, shape)], options={"axis": axis})


def _split(axis: int) -> Build:
    parts = np.split(X, [1], axis)
    sizes = np.int32([part.shape[axis] for part in parts])
    results = [(FLOAT, part.shape) for part in parts]
    return lambda b, x: b.op(
        "SPLIT_V",
        [x, b.const(sizes), b.const(np.int32(axis))],
        results,
        options={"num_splits": len(parts)},
    )


def _gather(axis: int) -> Build:
    picks = np.int32([1, 0, 1])
    shape = X.take(picks, axis).shape
    return lambda b, x: b.op(
        "GATHER", [x, b.const(picks)], [(FLOAT, shape)], options={"axis": axis}
    )


def _unpack(axis: int) -> Build:
    shape = X.take(0, axis).shape
    count = X.shape[axis]
    options = {"axis": axis, "num": count}
    return lambda b, x: b.op("UNPACK", [x], [(FLOAT, shape)] * count, options=options)


def _pack(axis: int) -> Build:
    shape = np.stack([X, X], axis).shape
    options = {"axis": axis, "values_count": 2}
    return lambda b, x: b.op("PACK", [x, x], [(FLOAT, shape)], options=options)


REDUCERS = {
    "MEAN": np.mean,
    "SUM": np.sum,
    "REDUCE_MAX": np.max,
    "REDUCE_MIN": np.min,
    "REDUCE_PROD": np.prod,
}
AXES = range(-4, 4)
AXIS_CASES: dict[str, tuple[Build, Any]] = {
    **{
        f"{op} {axis}{' kept' if keep else ''}": (
            _reduce(op, axis, keep),
            lambda x, f=function, a=axis, k=keep: [f(x, axis=a, keepdims=k)],
        )
        for op, function in REDUCERS.items()
        for axis in AXES
        for keep in (False, True)
    },
    **{
        f"{op} {axis}": (_extreme(op, axis), lambda x, f=function, a=axis: [f(x, axis=a)])
        for op, function in (("ARG_MAX", np.argmax), ("ARG_MIN", np.argmin))
        for axis in AXES
    },
    **{
        f"CONCATENATION {axis}": (_concat(axis), lambda x, a=axis: [np.concatenate([x, x], a)])
        for axis in AXES
    },
    **{f"SPLIT_V {axis}": (_split(axis), lambda x, a=axis: np.split(x, [1], a)) for axis in AXES},
    **{
        f"GATHER {axis}": (_gather(axis), lambda x, a=axis: [x.take([1, 0, 1], a)]) for axis in AXES
    },
    **{
        f"UNPACK {axis}": (_unpack(axis), lambda x, a=axis: list(np.moveaxis(x, a, 0)))
        for axis in AXES
    },
    **{
        f"PACK {axis}": (_pack(axis), lambda x, a=axis: [np.stack([x, x], a)])
        for axis in range(-5, 5)
    },
}


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("name", AXIS_CASES)
def test_axes_behind_a_convolution(name: str, opset: int, tmp_path: Path) -> None:
    build, wanted = AXIS_CASES[name]
    b = TfliteBuilder()
    made = build(b, identity_conv(b, image(b, *X.shape)))
    outputs = made if isinstance(made, list) else [made]
    x = np.random.default_rng(0).permutation(X.reshape(-1)).reshape(X.shape) / 32 - 1
    got = convert(b, tmp_path, *outputs, opset=opset).run(x)
    for array, expected in zip(got, wanted(x), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("open_batch", [False, True])
@pytest.mark.parametrize("op", ["SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"])
def test_the_last_axis_behind_a_convolution(
    op: str, open_batch: bool, opset: int, tmp_path: Path
) -> None:
    """Whether or not the batch is known."""
    b = TfliteBuilder()
    y = identity_conv(b, image(b, *X.shape, open_batch=open_batch))
    options = {"beta": 1.0} if op == "SOFTMAX" else {}
    y = b.op(op, [y], [(FLOAT, X.shape)], options=options)
    x = np.random.default_rng(0).standard_normal(X.shape).astype(np.float32)
    shares = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    expected = {
        "SOFTMAX": shares,
        "LOG_SOFTMAX": np.log(shares),
        "L2_NORMALIZATION": x / np.sqrt((x * x).sum(-1, keepdims=True)),
    }[op]
    (got,) = convert(b, tmp_path, y, opset=opset).run(x)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dims", [(0,), (2,), (0, 2), (-2,), (-4, -2), ()], ids=str)
def test_squeezed_axes_behind_a_convolution(dims: tuple[int, ...], tmp_path: Path) -> None:
    x = floats(1, 3, 1, 5)
    expected = x.squeeze(dims or None)
    b = TfliteBuilder()
    y = identity_conv(b, image(b, *x.shape))
    options = {"squeeze_dims": np.int32(dims)}
    y = b.op("SQUEEZE", [y], [(FLOAT, expected.shape)], options=options)
    np.testing.assert_array_equal(convert(b, tmp_path, y).run(x)[0], expected)
