"""Files whose structure is sound and whose values are absurd end in clean errors, soon.

A sample of what ``tools/fuzz_tflite.py --target convert --changes values`` does at length, and
what it found.
"""

from __future__ import annotations

import random
import time
from functools import cache

import numpy as np
import pytest

import nnconv
from nnconv.errors import InvalidModelError, UnsupportedError
from support.fuzzer import load_fuzzer
from support.operands import fed, given, one_op
from support.random_graphs import draw
from support.rnn_models import LstmShape, rnn, sequence_lstm
from support.tflite_builder import TfliteBuilder

pytest.importorskip("resource", reason="the fuzzer needs POSIX")

fuzzer = load_fuzzer()
values = fuzzer.fuzz_values

NETS = 12
BLOCK = 25


@cache
def sound_file(number: int) -> bytes:
    """One of a dozen random graphs, or a recurrent model."""
    builds = (rnn(6), sequence_lstm(LstmShape()))
    if number < NETS:
        return draw(number)[1]
    b = TfliteBuilder()
    builds[number - NETS](b)
    return bytes(b.build())


@pytest.mark.parametrize("block", range(8))
def test_changed_values_end_in_clean_errors(block, tmp_path):
    path = tmp_path / "case.tflite"
    ends = {"read": 0, "refused": 0}
    for number in range(BLOCK):
        rng = random.Random(f"{block}:{number}")
        data = sound_file(rng.randrange(NETS + 2))
        path.write_bytes(values.change(data, values.find_values(data), rng))
        start = time.process_time()
        status, text = fuzzer.fuzzing.run_case(fuzzer.convert, path)
        assert status in ends, f"block {block}, case {number}: {text}"
        assert time.process_time() - start < 60  # a hang
        ends[status] += 1
    assert min(ends.values()) > 2


def test_every_kind_of_value_is_found():
    data = sound_file(NETS)
    found = values.find_values(data)
    assert {"options", "operands", "extents", "types", "others"} <= set(found.groups)
    assert found.tensors > 5


X = fed("x", "float32", (2, 3))
IMAGE = fed("x", "float32", (1, 4, 5, 3))
ROW = ("float32", (2, 3))


def _zero_point(b: TfliteBuilder) -> None:
    x = b.input("x", "int8", (2,), quant=(0.1, 300))
    b.output(b.op("RELU", [x], [("int8", (2,), (0.1, 0))]))


def _result_without_parameters(b: TfliteBuilder) -> None:
    x = b.input("x", "int8", (2,), quant=(0.1, 3))
    b.output(b.op("SOFTMAX", [x], [("int8", (2,))]))


def _svdf(b: TfliteBuilder, scale: float = 0.1) -> None:
    x = b.input("x", "int8", (2, 3), quant=(0.1, 0))
    features = b.const(np.ones((4, 3), np.int8), quant=(0.1, 0))
    times = b.const(np.ones((4, 5), np.int16), quant=(0.1, 0))
    state = b.variable("int16", (2, 20), quant=(1e-17, 0))
    options = {"rank": 1, "fused_activation_function": "RELU"}
    y = ("int8", (2, 4), (scale, 0))
    b.output(b.op("SVDF", [x, features, times, None, state], [y], options=options))


def _strided_slice(b: TfliteBuilder) -> None:
    x = b.input("x", "float32", (2, 3))
    bounds = [b.input(f"b{i}", "int32", (10**8,)) for i in range(3)]
    b.output(b.op("STRIDED_SLICE", [x, *bounds], [ROW]))


def _without_operand(op: str, count: int, **options: object):
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (2, 3))
        others = [b.const(np.ones((4, 3), np.float32)) for _ in range(count)]
        b.output(b.op(op, [x, *others], [("float32", (2, 4))], options=options))

    return build


ABSURD = {
    "a zero point is outside of int8": (InvalidModelError, _zero_point),
    "result `t1` has no quantization parameters": (InvalidModelError, _result_without_parameters),
    "operand x has no quantization parameters": (
        InvalidModelError,
        one_op(
            "FULLY_CONNECTED",
            [fed("x", "uint8", (2, 3)), given(np.ones((4, 3), np.uint8), quant=(0.1, 0))],
            [("uint8", (2, 4), (0.1, 0))],
        ),
    ),
    "a quantization scale isn't finite": (
        InvalidModelError,
        one_op("RELU", [fed("x", "int8", (2, 3), (1e30, 0))], [("int8", (2, 3), (0.1, 0))]),
    ),
    "its scales have ratios of 1e\\+15": (InvalidModelError, _svdf),
    "100000000 bounds, the masks have 32 bits": (InvalidModelError, _strided_slice),
    "operand 1 is float32, must be integers": (
        InvalidModelError,
        one_op("TRANSPOSE", [X, given(np.float32([1, 0]))], [("float32", (3, 2))]),
    ),
    "operands have ranks 0 and 1, must have 1": (
        InvalidModelError,
        one_op(
            "BROADCAST_ARGS",
            [fed("a", "int32", ()), fed("b", "int32", (2,))],
            [("int32", (2,))],
        ),
    ),
    "6 block sizes for rank 4": (
        InvalidModelError,
        one_op(
            "BATCH_TO_SPACE_ND",
            [IMAGE, fed("block", "int32", (6,)), fed("crops", "int32", (6, 2))],
            [("float32", (1, 4, 5, 3))],
        ),
    ),
    "8000 bits, allowed are 2 to 16": (
        InvalidModelError,
        one_op("FAKE_QUANT", [X], [ROW], min=0.0, max=1.0, num_bits=8000),
    ),
    "a range from 1 to 1": (
        InvalidModelError,
        one_op("FAKE_QUANT", [X], [ROW], min=1.0, max=1.0, num_bits=8),
    ),
    "a range from nan to 1": (
        InvalidModelError,
        one_op("FAKE_QUANT", [X], [ROW], min=float("nan"), max=1.0, num_bits=8),
    ),
    "its numbers don't fit together": (
        InvalidModelError,
        one_op("EXPAND_DIMS", [X, given(np.zeros(0, np.int32))], [("float32", (1, 2, 3))]),
    ),
    "operand 3 is missing": (InvalidModelError, _without_operand("RNN", 2)),
    "a tensor of 100000000 dimensions": (
        InvalidModelError,
        one_op("FILL", [fed("n", "int32", (10**8,)), given(np.float32(0))], [("float32", (1,))]),
    ),
    "elements of the bias are 3, must be 4": (
        InvalidModelError,
        one_op(
            "FULLY_CONNECTED",
            [X, given(np.ones((4, 3), np.float32)), given(np.ones(3, np.float32))],
            [("float32", (2, 4))],
        ),
    ),
    "operand 18 is missing, must be a variable": (InvalidModelError, _without_operand("LSTM", 8)),
    "would take 1000000 nodes": (
        UnsupportedError,
        one_op(
            "REDUCE_WINDOW",
            [
                fed("x", "float32", (1_000_002,)),
                given(np.float32(0)),
                given([1_000_000], "int32"),
                given([1], "int32"),
                given([1], "int32"),
            ],
            [("float32", (3,))],
            reduce_function="ADD",
        ),
    ),
    "would take a constant of 1073741824 elements": (
        UnsupportedError,
        one_op(
            "RFFT2D",
            [fed("x", "float32", (2, 3)), given([1, 32768], "int32")],
            [("complex64", (1, 16385))],
        ),
    ),
    "would take a constant of 2000000000 elements": (
        UnsupportedError,
        one_op(
            "RESIZE_NEAREST_NEIGHBOR",
            [IMAGE, given([2_000_000_000, 5], "int32")],
            [("float32", (1, 2_000_000_000, 5, 3))],
        ),
    ),
}


@pytest.mark.parametrize("words", ABSURD)
def test_absurd_values_are_named(words, tmp_path):
    error, build = ABSURD[words]
    b = TfliteBuilder()
    build(b)
    source, target = tmp_path / "m.tflite", tmp_path / "m.onnx"
    source.write_bytes(b.build())
    with pytest.raises(error, match=words):
        nnconv.convert(source, target)
    assert not target.exists()


def test_resizing_nothing(tmp_path):
    build = one_op(
        "RESIZE_NEAREST_NEIGHBOR",
        [fed("x", "float32", (1, 0, 5, 3)), given([2, 5], "int32")],
        [("float32", (1, 2, 5, 3))],
    )
    b = TfliteBuilder()
    build(b)
    source, target = tmp_path / "m.tflite", tmp_path / "m.onnx"
    source.write_bytes(b.build())
    nnconv.convert(source, target)
    assert target.exists()


def test_a_mean_over_a_great_window_takes_no_weights(tmp_path):
    options = {"filter_height": 600, "filter_width": 601, "stride_h": 1, "stride_w": 1}
    build = one_op(
        "AVERAGE_POOL_2D",
        [fed("x", "float32", (1, 601, 601, 3))],
        [("float32", (1, 2, 1, 3))],
        padding="VALID",
        **options,
    )
    b = TfliteBuilder()
    build(b)
    source, target = tmp_path / "m.tflite", tmp_path / "m.onnx"
    source.write_bytes(b.build())
    nnconv.convert(source, target)
    assert target.stat().st_size < 10_000
