"""Kinds of fault in ONNX's ops on images on the way to TFLite: windows and edges, groups, sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from nnconv.errors import InvalidModelError
from support.onnx_routes import OnnxCase, check_routes, node, run_onnxruntime
from support.onnx_whole import info, onnx_model, to_tflite
from support.onnx_windows import SIXTEEN, square, whole_numbers, window
from support.whole import floats

# ---------------------------------------------------------------- padding

ONES = np.ones((1, 1, 3, 3), np.float32)

PADDED = [
    window(
        "end",
        "Conv",
        SIXTEEN,
        ONES,
        strides=[2, 2],
        pads=[0, 0, 1, 1],
        expected=square(54, 45, 72, 54),
        ops={"CONV_2D": 1, "RESHAPE": 2},
    ),
    window(
        "same upper",
        "Conv",
        SIXTEEN,
        ONES,
        strides=[2, 2],
        auto_pad="SAME_UPPER",
        expected=square(54, 45, 72, 54),
        ops={"CONV_2D": 1, "RESHAPE": 2},
    ),
    window(
        "same lower",
        "Conv",
        SIXTEEN,
        ONES,
        strides=[2, 2],
        auto_pad="SAME_LOWER",
        expected=square(14, 30, 57, 99),
        ops={"PAD": 1, "CONV_2D": 1, "RESHAPE": 2},
    ),
    window(
        "around",
        "Conv",
        SIXTEEN,
        ONES,
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        expected=square(14, 30, 57, 99),
        ops={"PAD": 1, "CONV_2D": 1, "RESHAPE": 2},
    ),
    window(
        "none",
        "Conv",
        SIXTEEN,
        ONES,
        auto_pad="VALID",
        expected=square(54, 63, 90, 99),
        ops={"CONV_2D": 1, "RESHAPE": 2},
    ),
    window("dilated", "Conv", SIXTEEN, ONES, dilations=[2, 2], pads=[2, 2, 2, 2]),
    window(
        "all differ",
        "Conv",
        whole_numbers(2, 3, 7, 9),
        whole_numbers(4, 3, 3, 2),
        pads=[1, 2, 3, 0],
        strides=[2, 3],
    ),
    window(
        "beyond the kernel",
        "Conv",
        whole_numbers(1, 2, 8, 8),
        whole_numbers(3, 2, 1, 2),
        strides=[3, 4],
        auto_pad="SAME_UPPER",
    ),
    window(
        "beyond the kernel lower",
        "Conv",
        whole_numbers(1, 2, 8, 8),
        whole_numbers(3, 2, 2, 1),
        strides=[4, 3],
        auto_pad="SAME_LOWER",
    ),
    window(
        "stride and dilation",
        "Conv",
        whole_numbers(1, 2, 15, 14),
        whole_numbers(3, 2, 3, 3),
        strides=[2, 2],
        dilations=[2, 2],
        pads=[2, 2, 2, 2],
    ),
    window(
        "wider than the kernel",
        "Conv",
        whole_numbers(1, 2, 4, 4),
        whole_numbers(3, 2, 1, 1),
        pads=[2, 1, 0, 3],
    ),
    window(
        "1-D end", "Conv", whole_numbers(2, 3, 9), whole_numbers(4, 3, 3), strides=[2], pads=[0, 1]
    ),
    window(
        "1-D around",
        "Conv",
        whole_numbers(2, 3, 9),
        whole_numbers(4, 3, 3),
        dilations=[2],
        pads=[2, 2],
    ),
    window(
        "1-D lower",
        "Conv",
        whole_numbers(2, 3, 8),
        whole_numbers(4, 3, 3),
        strides=[2],
        auto_pad="SAME_LOWER",
    ),
    window(
        "1-D causal",
        "Conv",
        whole_numbers(2, 3, 9),
        whole_numbers(4, 3, 3),
        dilations=[4],
        pads=[8, 0],
    ),
    window(
        "3-D",
        "Conv",
        whole_numbers(1, 2, 5, 6, 7),
        whole_numbers(3, 2, 3, 2, 3),
        pads=[1, 0, 1, 1, 1, 0],
        strides=[2, 1, 2],
    ),
    window(
        "3-D same",
        "Conv",
        whole_numbers(1, 2, 5, 6, 7),
        whole_numbers(3, 2, 3, 2, 3),
        auto_pad="SAME_UPPER",
        strides=[2, 1, 2],
    ),
]


@pytest.mark.parametrize("case", PADDED, ids=str)
def test_padding_is_where_onnx_has_it(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


@pytest.mark.parametrize("kind", ["SAME_UPPER", "SAME_LOWER"])
def test_padding_worked_out_counts_the_dilated_kernel(kind: str, tmp_path: Path) -> None:
    """onnxruntime refuses this; kernels of 5 and 7 need 4 and 6."""
    x, w = whole_numbers(1, 2, 7, 6), whole_numbers(3, 2, 3, 3)
    told = window("told", "Conv", x, w, dilations=[2, 3], pads=[2, 3, 2, 3])
    wanted = run_onnxruntime(told.model().SerializeToString(), told.feeds)
    case = window("same", "Conv", x, w, dilations=[2, 3], auto_pad=kind, expected=wanted)
    check_routes(replace(case, routes=["reference", "tflite"]), tmp_path)


def test_padding_of_an_op_of_its_own_joins_the_convolution(tmp_path: Path) -> None:
    """As PyTorch's exporter writes it for TensorFlow's SAME."""
    nodes = [
        node("Pad", ["x", "p"], ["q"]),
        node("Conv", ["q", "w"], ["y"], strides=[2, 2]),
    ]
    constants = {"p": np.int64([0, 0, 0, 0, 0, 0, 1, 1]), "w": ONES}
    case = OnnxCase(
        "joined",
        nodes,
        {"x": SIXTEEN},
        constants=constants,
        expected=square(54, 45, 72, 54),
        ops={"CONV_2D": 1, "RESHAPE": 2},
        same_nodes=False,
    )
    check_routes(case, tmp_path)


# ---------------------------------------------------------------- groups


def grouped() -> Iterator[OnnxCase]:
    shapes = [
        # channels, filters, groups
        (4, 6, 2),
        (6, 6, 3),
        (6, 6, 6),
        (3, 6, 3),
        (3, 9, 3),
        (4, 4, 1),
        (1, 3, 1),
        (8, 4, 4),
    ]
    for (depth, count, groups), rank in product(shapes, (1, 2)):
        sizes, kernel = (7, 6)[:rank], (3, 2)[:rank]
        yield window(
            f"{depth} to {count} in {groups}, {rank}-D",
            "Conv",
            whole_numbers(2, depth, *sizes),
            whole_numbers(count, depth // groups, *kernel),
            group=groups,
        )
    yield window("3-D", "Conv", whole_numbers(1, 4, 4, 3, 5), whole_numbers(6, 2, 2, 2, 2), group=2)
    yield window(
        "depthwise with stride, dilation and pads",
        "Conv",
        whole_numbers(1, 5, 9, 9),
        whole_numbers(5, 1, 3, 3),
        group=5,
        dilations=[2, 2],
        pads=[1, 2, 2, 1],
    )
    yield window(
        "depthwise with two strides",
        "Conv",
        whole_numbers(1, 5, 9, 9),
        whole_numbers(5, 1, 3, 3),
        group=5,
        strides=[1, 2],
    )


@pytest.mark.parametrize("case", list(grouped()), ids=str)
def test_onnx_groups_take_their_own_channels(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


@pytest.mark.parametrize(("channels", "filters", "groups"), [(4, 6, 4), (5, 6, 2), (4, 4, 3)])
def test_onnx_groups_that_do_not_come_out_even_are_refused(
    channels: int, filters: int, groups: int, tmp_path: Path
) -> None:
    w = np.ones((filters, max(1, channels // groups), 1, 1), np.float32)
    model = onnx_model(
        [node("Conv", ["x", "w"], ["y"], group=groups)],
        [info("x", "float32", [1, channels, 3, 3])],
        [info("y", "float32", [1, filters, 3, 3])],
        {"w": w},
    )
    with pytest.raises(InvalidModelError, match="Conv at node #0"):
        to_tflite(model, tmp_path)
    assert not (tmp_path / "model.tflite").exists()


def test_filters_computed_at_run_time(tmp_path: Path) -> None:
    """The layout of both operands changes."""
    made = node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])
    feeds = {
        "x": whole_numbers(2, 3, 5, 6),
        "w": whole_numbers(4, 3, 3, 3),
        "b": whole_numbers(4),
    }
    check_routes(OnnxCase("run time", made, feeds), tmp_path)


# ---------------------------------------------------------------- transposed convolution

QUAD = 1 + floats(1, 1, 2, 2)
NINE = 1 + floats(1, 1, 3, 3)
CUT_END = [1, 2, 5, 4, 4, 5, 14, 10, 10, 14, 36, 24, 12, 15, 34, 20]
CUT_START = [5, 14, 10, 12, 14, 36, 24, 30, 15, 34, 20, 24, 24, 55, 32, 36]


def transposed() -> Iterator[OnnxCase]:
    op = "ConvTranspose"
    yield window(
        "the end cut off",
        op,
        QUAD,
        NINE,
        strides=[2, 2],
        pads=[0, 0, 1, 1],
        expected=square(*CUT_END),
        ops={"TRANSPOSE_CONV": 1, "RESHAPE": 2},
    )
    yield window(
        "the start cut off",
        op,
        QUAD,
        NINE,
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        output_padding=[1, 1],
        expected=square(*CUT_START),
    )
    x, w = whole_numbers(2, 3, 4, 5), whole_numbers(3, 4, 3, 2)
    yield window("plain", op, x, w)
    yield window("strides", op, x, w, strides=[2, 3])
    yield window("pads", op, x, w, strides=[2, 3], pads=[1, 0, 2, 1])
    yield window("pads as large as the kernel", op, x, w, pads=[2, 1, 3, 1])
    yield window("output padding", op, x, w, strides=[3, 2], output_padding=[2, 1])
    yield window("output shape", op, x, w, strides=[2, 2], output_shape=[9, 10])
    yield window("larger output shape", op, x, w, strides=[3, 2], output_shape=[13, 11])
    for pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield window(pad, op, x, w, strides=[2, 2], auto_pad=pad)
        shape = None if pad == "VALID" else [8, 11]
        yield window(
            f"{pad} to a shape", op, x, w, strides=[2, 2], auto_pad=pad, output_shape=shape
        )
    yield window("dilated", op, x, w, dilations=[2, 3])
    yield window("dilated strides", op, x, w, dilations=[2, 2], strides=[2, 1], pads=[1, 1, 0, 1])
    yield window(
        "groups", op, whole_numbers(2, 4, 3, 5), whole_numbers(4, 3, 3, 2), group=2, strides=[2, 2]
    )
    yield window(
        "depthwise",
        op,
        whole_numbers(2, 4, 3, 5),
        whole_numbers(4, 1, 3, 2),
        group=4,
        strides=[2, 1],
    )
    yield window("kernel below stride", op, x, whole_numbers(3, 4, 1, 2), strides=[2, 3])
    yield window(
        "1-D", op, whole_numbers(2, 3, 5), whole_numbers(3, 4, 3), strides=[2], pads=[1, 0]
    )
    yield window(
        "1-D groups", op, whole_numbers(2, 4, 5), whole_numbers(4, 2, 3), strides=[2], group=2
    )
    yield window(
        "1-D output padding",
        op,
        whole_numbers(2, 3, 5),
        whole_numbers(3, 4, 4),
        strides=[3],
        output_padding=[1],
    )
    yield window(
        "3-D", op, whole_numbers(1, 2, 3, 2, 4), whole_numbers(2, 3, 2, 3, 2), strides=[2, 1, 2]
    )
    yield window(
        "3-D pads",
        op,
        whole_numbers(1, 2, 3, 4, 4),
        whole_numbers(2, 3, 3, 3, 2),
        strides=[2, 1, 2],
        pads=[1, 1, 0, 0, 1, 1],
    )


@pytest.mark.parametrize("case", list(transposed()), ids=str)
def test_transposed_convolutions_have_their_size_and_place(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)
