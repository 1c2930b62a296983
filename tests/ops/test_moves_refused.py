"""ONNX nodes that move elements by numbers that can't be right: each is said to be wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnconv
from nnconv.errors import InvalidModelError
from support.onnx_routes import OnnxCase, node


def ints(*numbers: int) -> np.ndarray:
    return np.asarray(numbers, np.int64)


X = np.zeros((3, 4), np.float32)


def _case(
    label: str,
    op_type: str,
    inputs: Sequence[str],
    constants: Mapping[str, np.ndarray],
    *,
    feeds: Mapping[str, np.ndarray] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 21,
    **attributes: Any,
) -> OnnxCase:
    return OnnxCase(
        f"{op_type}-{label}",
        node(op_type, ["x", *inputs], outputs, **attributes),
        {"x": X, **(feeds or {})},
        constants=constants,
        results=["float32"] * len(outputs),
        opset=opset,
    )


CASES = [
    _case("beyond", "Gather", ["i"], {"i": ints(0, 3)}),
    _case("before", "Gather", ["i"], {"i": ints(-4)}),
    _case("axis", "Gather", ["i"], {"i": ints(0)}, axis=2),
    _case("rank", "GatherElements", ["i"], {"i": ints(0)}),
    _case("beyond", "GatherElements", ["i"], {"i": ints(4, 0).reshape(2, 1)}),
    _case("reach", "GatherElements", ["i"], {"i": np.zeros((2, 5), np.int64)}),
    _case("deep", "GatherND", ["i"], {"i": np.zeros((2, 3), np.int64)}),
    _case("beyond", "GatherND", ["i"], {"i": ints(0, 4).reshape(1, 2)}),
    _case("batch", "GatherND", ["i"], {"i": np.zeros((3, 1), np.int64)}, batch_dims=2),
    _case("updates", "ScatterND", ["i", "u"], {"i": ints(0, 1).reshape(2, 1), "u": X}),
    _case("beyond", "ScatterND", ["i", "u"], {"i": ints(3).reshape(1, 1), "u": X[:1]}),
    _case("reduction", "ScatterND", ["i", "u"], {"i": ints(0).reshape(1, 1), "u": X[:1]},
          reduction="mean"),
    _case("updates", "ScatterElements", ["i", "u"], {"i": np.zeros((3, 4), np.int64), "u": X[:2]}),
    _case("beyond", "ScatterElements", ["i", "u"], {"i": np.full((1, 4), 3), "u": X[:1]}),
    _case("batch", "TensorScatter", ["u"], {"u": X}, axis=0, opset=24),
    _case("beyond", "TensorScatter", ["u", "s"], {"u": X[:, :2], "s": ints(3, 0, 0)}, axis=1,
          opset=24),
    _case("k", "TopK", ["k"], {"k": ints(5)}, outputs=("y", "z")),
    _case("no-k", "TopK", ["k"], {"k": ints()}, outputs=("y", "z")),
    _case("condition", "Compress", ["c"], {"c": np.ones((3, 1), bool)}, axis=0),
    _case("axis", "Compress", ["c"], {"c": np.ones(3, bool)}, axis=3),
    _case("axis", "Unique", [], {}, axis=-3),
    _case("counts", "Slice", ["s", "e"], {"s": ints(0), "e": ints(1, 2)}),
    _case("fed-counts", "Slice", ["s", "e"], {"s": ints(0)}, feeds={"e": ints(1, 2)}),
    _case("too-many", "Slice", ["s", "e"], {}, feeds={"s": ints(0, 0, 0), "e": ints(1, 2, 3)}),
    _case("step", "Slice", ["s", "e", "a", "t"],
          {"s": ints(0), "e": ints(1), "a": ints(0), "t": ints(0)}),
    _case("axis", "Slice", ["s", "e", "a"], {"s": ints(0), "e": ints(1), "a": ints(2)}),
    _case("extent", "Squeeze", ["a"], {"a": ints(1)}),
    _case("axis", "Squeeze", ["a"], {"a": ints(-3)}),
    _case("twice", "Unsqueeze", ["a"], {"a": ints(0, -4)}),
    _case("missing", "Unsqueeze", [], {}),
    _case("sizes", "Split", ["s"], {"s": ints(1, 1)}, outputs=("y", "z")),
    _case("count", "Split", [], {}, outputs=("y", "z"), num_outputs=1 << 40),
    _case("shape", "Expand", ["s"], {"s": ints(2, 4)}),
    _case("elements", "Reshape", ["s"], {"s": ints(5, 2)}),
    _case("twice-open", "Reshape", ["s"], {"s": ints(-1, -1)}),
    _case("lengths", "ReverseSequence", ["n"], {"n": ints(1, 4)}),
    _case("beyond", "ReverseSequence", ["n"], {"n": ints(1, 4, 3, 0)}),
    _case("fed-counts", "Pad", ["p"], {}, feeds={"p": ints(1, 0, 1)}),
    _case("below", "Reshape", ["s"], {"s": ints(-2, 0)}),
    _case("fed-repeats", "Tile", ["r"], {}, feeds={"r": ints(2)}),
    _case("repeats", "Tile", ["r"], {"r": ints(2)}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_wrong_numbers_are_named(case: OnnxCase, tmp_path: Path) -> None:
    path = tmp_path / "case.onnx"
    path.write_bytes(_unchecked(case))
    with pytest.raises(InvalidModelError) as caught:
        nnconv.load(path)
    assert case.id.partition("-")[0] in str(caught.value)


def _unchecked(case: OnnxCase) -> bytes:
    """The case's file: onnx itself may find that it is wrong, and refuse to infer types."""
    from onnx import helper, numpy_helper

    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in case.feeds.items()
    ]
    constants = [numpy_helper.from_array(a, n) for n, a in case.constants.items()]
    outputs = [helper.make_tensor_value_info(n, 1, None) for n in case.nodes.output]
    graph = helper.make_graph([case.nodes], case.id, inputs, outputs, constants)
    versions = [helper.make_opsetid("", case.opset)]
    return helper.make_model(graph, opset_imports=versions, ir_version=10).SerializeToString()
