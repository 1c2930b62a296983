"""The spine of the tests on the TFLite writer: it passes what is right and fails what isn't."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Value
from nnconv.ops.shape import Concat, Transpose
from support.litert_worker import LiteRtError, LiteRtWorker
from support.tflite_builder import TfliteBuilder
from support.tflite_spine import TfliteCase, check_tflite


def _graph(b: Builder) -> Sequence[Value]:
    x = b.input("x", DType.FLOAT32, (2, None, 3))
    return [b.add(Transpose(perm=(2, 0, 1)), [x]), b.add(Concat(axis=1), [x, x])]


RIGHT = TfliteCase(
    "right",
    _graph,
    more=[[np.ones((2, 5, 3), np.float32)]],
    expected=lambda x: (x.transpose(2, 0, 1), np.concatenate([x, x], axis=1)),
    ops={"TRANSPOSE": 1, "CONCATENATION": 1},
)


def test_a_right_case_passes(tmp_path: Path) -> None:
    check_tflite(RIGHT, tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"expected": lambda x: (x.transpose(2, 0, 1) + 1, np.concatenate([x, x], axis=1))},
        {"ops": {"TRANSPOSE": 2}},
        {"refused": True},
    ],
    ids=["another result", "other operators", "no refusal"],
)
def test_a_wrong_case_fails(changes: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check_tflite(replace(RIGHT, **changes), tmp_path)


def _depthwise_without_bias() -> bytes:
    """A file that crashes LiteRT's optimized kernels."""
    b = TfliteBuilder()
    x = b.input("x", "float32", (1, 4, 4, 2))
    w = b.const(np.ones((1, 3, 3, 2), np.float32))
    options = {"stride_h": 1, "stride_w": 1, "depth_multiplier": 1}
    b.output(b.op("DEPTHWISE_CONV_2D", [x, w], [("float32", (1, 4, 4, 2))], options=options))
    return bytes(b.build())


def test_a_crash_harms_nobody() -> None:
    worker = LiteRtWorker()
    try:
        arrays = [np.ones((1, 4, 4, 2), np.float32)]
        with pytest.raises(LiteRtError):
            worker.run(_depthwise_without_bias(), [arrays], "opt")
        with pytest.raises(LiteRtError):
            worker.run(b"no model", [arrays], "opt")
        interface, ((result,),) = worker.run(_depthwise_without_bias(), [arrays], "ref")
        assert result.shape == (1, 4, 4, 2)
        assert interface.inputs == [("x", "float32", (1, 4, 4, 2))]
    finally:
        worker.close()
