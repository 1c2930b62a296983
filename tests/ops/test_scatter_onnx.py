"""Putting elements of ONNX models into tensors, on every route."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.onnx_routes import OnnxCase, check_routes, node
from support.picked import MOVED, RNG, different, numbers, picks

REDUCED = (
    *((t, r) for t in ("float32", "int32", "float16") for r in ("add", "mul", "min", "max")),
    *((t, "add") for t in ("int64", "int8", "uint8", "float64")),
    *(("int64", r) for r in ("min", "max")),
    *(("uint32", r) for r in ("min", "max")),
    *((t, r) for t in ("int8", "uint8", "int16", "uint16") for r in ("min", "max")),
)
"""Element types with what combines them."""

NO_KERNEL = {("float16", r) for r in ("add", "mul", "min", "max")} | {
    ("int16", r) for r in ("min", "max")
}
"""What onnxruntime has no ScatterND for."""


def _put(
    label: str,
    shape: Sequence[int],
    places: np.ndarray,
    *,
    dtype: str = "float32",
    reduction: str | None = None,
    fed: bool = True,
    open_: dict[str, Sequence[int]] | None = None,
    **more: Any,
) -> OnnxCase:
    rest = shape[places.shape[-1] :]
    feeds = {"x": numbers(shape, dtype), "i": places}
    feeds["u"] = numbers((*places.shape[:-1], *rest), dtype)
    if not fed:
        del feeds["i"]
    return OnnxCase(
        f"put-{label}",
        node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction),
        feeds,
        constants={} if fed else {"i": places},
        open=open_ or {},
        **more,
    )


def _expected_put(case: OnnxCase, reduction: str) -> OnnxCase:
    """The case with results by numpy, for what onnxruntime lacks."""
    x, i, u = (case.feeds[n] for n in "xiu")
    result = x.copy()
    at = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[reduction]
    at.at(result, tuple(np.moveaxis(i, -1, 0)), u)
    return replace(case, expected=[result], same_nodes=False)


def _reduced(dtype: str, reduction: str) -> OnnxCase:
    places = np.asarray([[1], [-1], [1], [0], [1]])
    case = _put(f"{reduction}-{dtype}", (4, 3), places, dtype=dtype, reduction=reduction)
    return _expected_put(case, reduction) if (dtype, reduction) in NO_KERNEL else case


PUTS = [
    *(_put(t, (4, 3), different(2, (4,)), dtype=t) for t in MOVED),
    *(_reduced(t, r) for t, r in REDUCED),
    _put("const", (4, 3), different(2, (4,)), fed=False),
    _put("deep", (4, 3, 5), different(4, (4, 3))),
    _put("deep-const", (4, 3, 5), different(4, (4, 3)), fed=False),
    _put("whole", (4, 3), different(6, (4, 3))),
    _put("grid", (4, 3, 2), different(6, (4, 3)).reshape(3, 2, 2)),
    _put("open", (4, 3, 5), different(4, (4, 3)), open_={"x": (0, 1), "i": (0,), "u": (0,)}),
    _put("open-rest", (4, 3, 5), different(3, (4,)), open_={"x": (0, 2), "i": (0,), "u": (2,)}),
    _put(
        "max-open",
        (4, 3),
        different(2, (4,)),
        dtype="int64",
        reduction="max",
        open_={"x": (0,), "i": (0,), "u": (0,)},
    ),
    _put("add-open", (4, 3), different(2, (4,)), reduction="add", open_={"x": (0,), "u": (0,)}),
]


def _put_elements(
    label: str,
    shape: Sequence[int],
    count: Sequence[int],
    axis: int,
    *,
    dtype: str = "float32",
    reduction: str | None = None,
    fed: bool = True,
    open_: dict[str, Sequence[int]] | None = None,
    op_type: str = "ScatterElements",
    **more: Any,
) -> OnnxCase:
    at = axis % len(shape)
    order = np.argsort(RNG.random((*count[:at], *count[at + 1 :], shape[at])), axis=-1)
    places = np.moveaxis(order[..., : count[at]], -1, at)
    places = places - shape[at] * RNG.integers(0, 2, places.shape)
    feeds = {"x": numbers(shape, dtype), "i": places, "u": numbers(count, dtype)}
    if not fed:
        del feeds["i"]
    return OnnxCase(
        f"put-elements-{label}",
        node(op_type, ["x", "i", "u"], ["y"], axis=axis, reduction=reduction),
        feeds,
        constants={} if fed else {"i": places},
        open=open_ or {},
        **more,
    )


def _met_elements(reduction: str) -> OnnxCase:
    case = _put_elements(f"met-{reduction}", (4, 3), (5, 2), 0, reduction=reduction)
    feeds = {**case.feeds, "i": picks((5, 2), 4), "u": numbers((5, 2))}
    return replace(case, feeds=feeds)


PUT_ELEMENTS = [
    *(_put_elements(t, (4, 3), (2, 3), 0, dtype=t) for t in MOVED),
    *(_met_elements(r) for r in ("add", "mul", "min", "max")),
    _put_elements("last", (4, 3, 5), (4, 2, 3), -1),
    _put_elements("middle-const", (4, 3, 5), (2, 2, 4), 1, fed=False),
    _put_elements("open", (4, 3, 5), (2, 2, 4), 1, open_={"x": (0, 2), "i": (0, 1), "u": (0, 1)}),
    replace(
        _put_elements("opset-11", (4, 3), (2, 3), 0, opset=11),
        id="put-elements-opset-11",
    ),
    _put_elements("scatter", (4, 3), (2, 3), 0, opset=10, op_type="Scatter", same_nodes=False),
]


@pytest.mark.parametrize("case", [*PUTS, *PUT_ELEMENTS], ids=str)
def test_putting(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)
