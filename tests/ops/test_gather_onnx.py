"""Picking and sorting of ONNX models, on every route.

Indices are constants or given at run time, from the front or the end; extents known or left open.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.onnx_routes import OnnxCase, check_routes, node
from support.picked import MOVED, RNG, different, numbers, picks


def _gather(
    label: str,
    x: np.ndarray,
    indices: np.ndarray,
    *,
    axis: int = 0,
    open_: dict[str, Sequence[int]] | None = None,
    fed: bool = True,
    **more: Any,
) -> OnnxCase:
    feeds = {"x": x, "i": indices} if fed else {"x": x}
    return OnnxCase(
        f"gather-{label}",
        node("Gather", ["x", "i"], ["y"], axis=axis),
        feeds,
        constants={} if fed else {"i": indices},
        open=open_ or {},
        **more,
    )


GATHERS = [
    *(_gather(t, numbers((3, 4), t), picks((2,), 4), axis=1) for t in MOVED),
    _gather("const", numbers((3, 4)), picks((2, 2), 3), fed=False, ops={"GATHER": 1}),
    _gather("fed", numbers((3, 4)), picks((2, 2), 3), ops={"FLOOR_MOD": 1, "CAST": 1, "GATHER": 1}),
    _gather("int32", numbers((3, 4)), picks((2,), 3, dtype="int32")),
    _gather("scalar", numbers((3, 4)), np.asarray(-1), axis=1),
    _gather("one", numbers((3, 4)), np.asarray(-2), axis=-1, fed=False),
    _gather(
        "neighbours",
        numbers((3, 5)),
        np.arange(1, 4),
        axis=1,
        fed=False,
        ops={"SLICE": 1},
        same_nodes=False,
    ),
    _gather(
        "last", numbers((3, 5)), np.asarray(-1), axis=1, fed=False, ops={"SLICE": 1, "RESHAPE": 1}
    ),
    _gather("row", numbers((3, 5)), np.asarray(-1), fed=False, ops={"GATHER": 1}),
    _gather(
        "counts",
        numbers((3, 5), "int64"),
        np.asarray([1, 2]),
        axis=1,
        fed=False,
        ops={"GATHER": 1},
        same_nodes=False,
    ),
    _gather("vector", numbers((5,)), picks((2, 3), 5)),
    _gather("none", numbers((3, 4)), np.zeros((0,), np.int64)),
    _gather("rank-6", numbers((2, 1, 3, 1, 2, 2)), picks((2, 2), 3), axis=2),
    _gather("open", numbers((3, 4)), np.asarray([-1, 0]), axis=0, fed=False, open_={"x": (0,)}),
    _gather(
        "open-fed",
        numbers((3, 4)),
        np.asarray([-1, 0]),
        open_={"x": (0, 1), "i": (0,)},
        more=({"x": numbers((5, 2)), "i": np.asarray([4, -5, 0])},),
    ),
]


def _elements(
    label: str,
    shape: Sequence[int],
    count: Sequence[int],
    axis: int,
    *,
    dtype: str = "float32",
    fed: bool = True,
    open_: dict[str, Sequence[int]] | None = None,
    **more: Any,
) -> OnnxCase:
    x, indices = numbers(shape, dtype), picks(count, shape[axis])
    return OnnxCase(
        f"elements-{label}",
        node("GatherElements", ["x", "i"], ["y"], axis=axis),
        {"x": x, "i": indices} if fed else {"x": x},
        constants={} if fed else {"i": indices},
        open=open_ or {},
        **more,
    )


ELEMENTS = [
    *(_elements(t, (3, 4), (2, 4), 0, dtype=t) for t in MOVED),
    _elements("last", (3, 4, 5), (3, 4, 2), -1, ops={"FLOOR_MOD": 1, "CAST": 1, "GATHER": 1}),
    _elements("last-const", (3, 4, 5), (3, 4, 7), 2, fed=False, ops={"GATHER": 1}),
    _elements("last-fewer", (3, 4, 5), (2, 3, 7), 2),
    _elements("middle", (3, 4, 5), (2, 6, 3), 1),
    _elements("middle-const", (3, 4, 5), (2, 6, 3), 1, fed=False, ops={"RESHAPE": 1, "GATHER": 1}),
    _elements("vector", (5,), (3,), 0),
    _elements(
        "open",
        (3, 4, 5),
        (2, 6, 3),
        1,
        open_={"x": (0, 1, 2), "i": (0, 1)},
        more=({"x": numbers((4, 2, 6)), "i": picks((3, 1, 3), 2)},),
    ),
]


def _nd(
    label: str,
    shape: Sequence[int],
    indices: np.ndarray,
    *,
    batch: int = 0,
    dtype: str = "float32",
    fed: bool = True,
    open_: dict[str, Sequence[int]] | None = None,
    **more: Any,
) -> OnnxCase:
    x = numbers(shape, dtype)
    return OnnxCase(
        f"nd-{label}",
        node("GatherND", ["x", "i"], ["y"], batch_dims=batch or None),
        {"x": x, "i": indices} if fed else {"x": x},
        constants={} if fed else {"i": indices},
        open=open_ or {},
        **more,
    )


NDS = [
    *(_nd(t, (3, 4, 5), different(2, (3, 4)), dtype=t) for t in MOVED),
    _nd("const", (3, 4, 5), different(2, (3, 4)), fed=False, ops={"GATHER_ND": 1}),
    _nd("whole", (3, 4), different(5, (3, 4))),
    _nd("grid", (3, 4, 5), different(6, (3, 4)).reshape(2, 3, 2)),
    _nd("batch", (2, 3, 4), picks((2, 1), 3), batch=1),
    _nd("batches", (2, 3, 4, 5), picks((2, 3, 6, 1), 4), batch=2),
    _nd("batch-const", (2, 3, 4), picks((2, 5, 2), 3), batch=1, fed=False),
    _nd("open", (3, 4, 5), different(2, (3, 4)), open_={"x": (0, 1), "i": (0,)}),
    _nd("batch-open", (2, 3, 4), picks((2, 5, 1), 3), batch=1, open_={"x": (0, 1), "i": (0, 1)}),
]


def _one_hot(
    label: str,
    *,
    dtype: str = "float32",
    indices: str = "int64",
    depth: str = "int64",
    axis: int = -1,
    values: tuple[float, float] = (-2, 3),
    fed: Sequence[str] = ("i",),
    open_: dict[str, Sequence[int]] | None = None,
    **more: Any,
) -> OnnxCase:
    pair = np.asarray(values).astype(dtype)
    places = np.asarray([[0, 4, 2], [-1, -5, 7]]) % (9 if indices.startswith("u") else 10**6)
    arrays = {"i": (places - 10**6 * (places > 10**5)).astype(indices)}
    arrays |= {"d": np.asarray(5, depth), "v": pair}
    return OnnxCase(
        f"one-hot-{label}",
        node("OneHot", ["i", "d", "v"], ["y"], axis=axis),
        {n: a for n, a in arrays.items() if n in fed},
        constants={n: a for n, a in arrays.items() if n not in fed},
        open=open_ or {},
        **more,
    )


ONE_HOTS = [
    *(_one_hot(t, dtype=t) for t in ("float32", "int64")),
    _one_hot("int32", indices="int32", depth="int32", same_nodes=False),
    _one_hot("first", axis=0),
    _one_hot("middle", axis=1),
    _one_hot("fed-depth", fed=("i", "d")),
    _one_hot("fed-values", fed=("i", "v"), same_nodes=False),
    _one_hot("float", indices="float32", depth="float32", same_nodes=False),
    OnnxCase(
        "one-hot-far",
        node("OneHot", ["i", "d", "v"], ["y"]),
        {"i": np.asarray([1 << 40, -1, -(1 << 40), (1 << 32) + 1])},
        constants={"d": np.asarray(3), "v": np.asarray([0, 1], np.float32)},
    ),
    _one_hot("open", open_={"i": (0,)}),
]


def _top(
    label: str,
    *,
    dtype: str = "float32",
    shape: Sequence[int] = (3, 4, 7),
    axis: int | None = None,
    k: int = 3,
    fed: bool = False,
    open_: dict[str, Sequence[int]] | None = None,
    opset: int = 21,
    **attributes: Any,
) -> OnnxCase:
    feeds = {"x": numbers(shape, dtype)}
    constants = {"k": np.asarray([k])}
    if fed:
        feeds |= constants
        constants = {}
    same = attributes.pop("same_nodes", True)
    if opset < 10:
        attributes["k"], constants = k, {}
    inputs = ["x"] if opset < 10 else ["x", "k"]
    return OnnxCase(
        f"top-{label}",
        node("TopK", inputs, ["y", "z"], axis=axis, **attributes),
        feeds,
        constants=constants,
        open=open_ or {},
        opset=opset,
        same_nodes=same,
    )


TOPS = [
    *(_top(t, dtype=t) for t in ("float32", "float64", "int32", "int64", "int8", "uint8")),
    *(
        _top(f"least-{t}", dtype=t, largest=0)
        for t in ("float32", "float64", "int32", "int64", "int8", "uint8")
    ),
    _top("first", axis=0, k=2),
    _top("least-middle", axis=1, largest=0),
    _top("fed", fed=True),
    _top("all", k=7, axis=-1),
    _top("open", open_={"x": (0, 2)}),
    _top("opset-10", opset=10),
    _top("opset-9", opset=9, axis=1),
]


def _compress(label: str, x: np.ndarray, keep: Sequence[int], **more: Any) -> OnnxCase:
    axis, opset = more.pop("axis", None), more.pop("opset", 21)
    condition = np.asarray(keep, bool)
    fed = more.pop("fed", True)
    return OnnxCase(
        f"compress-{label}",
        node("Compress", ["x", "c"], ["y"], axis=axis),
        {"x": x, "c": condition} if fed else {"x": x},
        constants={} if fed else {"c": condition},
        opset=opset,
        **more,
    )


COMPRESSED = [
    *(_compress(t, numbers((3, 4), t), [1, 0, 1], axis=0) for t in MOVED),
    _compress("last", numbers((3, 4)), [0, 1, 1, 0], axis=-1),
    _compress("flat", numbers((3, 4)), [1, 0, 1, 1, 0, 0, 1]),
    _compress("short", numbers((3, 4)), [0, 1], axis=1),
    _compress("const", numbers((3, 4)), [0, 1, 1, 0], axis=1, fed=False),
    _compress("none", numbers((3, 4)), [0, 0, 0], axis=0),
    _compress("opset-9", numbers((3, 4)), [1, 0, 1], axis=0, opset=9, results=["float32"]),
]


def _unique(
    label: str, x: np.ndarray, outputs: Sequence[str] = ("y", "a", "b", "c"), **more: Any
) -> OnnxCase:
    attributes = {n: more.pop(n) for n in ("axis", "sorted") if n in more}
    return OnnxCase(
        f"unique-{label}", node("Unique", ["x"], outputs, **attributes), {"x": x}, **more
    )


def _few(shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
    return RNG.integers(-1 if dtype[0] != "u" else 0, 2, shape).astype(dtype)


UNIQUES = [
    *(
        _unique(f"{t}-{s}", _few((3, 4), t), sorted=s)
        for t in ("float32", "int64", "int8", "float64")
        for s in (0, 1)
    ),
    _unique("values", _few((7,)), ["y"]),
    _unique("places", _few((7,)), ["y", "", "b"]),
    *(
        _unique(f"axis-{axis}-{s}", _few((4, 3, 5))[..., :2], axis=axis, sorted=s)
        for axis in (0, 1, -1)
        for s in (0, 1)
    ),
    _unique("open", _few((3, 4)), open={"x": (0, 1)}, more=({"x": _few((5, 2))},)),
    _unique("axis-open", _few((6, 2)), axis=0, open={"x": (0,)}, more=({"x": _few((3, 2))},)),
]


def _cache(label: str, **more: Any) -> OnnxCase:
    batch, mode = more.pop("batch", 2), more.pop("mode", None)
    starts = np.asarray([1, 3, 2][:batch])
    axis = more.pop("axis", None)
    shape = (batch, 6, 3) if axis in (None, 1) else (batch, 3, 6)
    new = (batch, 2, 3) if axis in (None, 1) else (batch, 3, 2)
    if mode == "circular":
        starts = starts + 2
    feeds = {"x": numbers(shape), "u": numbers(new)}
    whole, result = feeds["x"].copy(), feeds["u"]
    inputs = ["x", "u"]
    if more.pop("starts", True):
        feeds["i"] = starts
        inputs.append("i")
    else:
        starts = np.zeros(batch, np.int64)
    for b, first in enumerate(starts):
        for s in range(2):
            place = (first + s) % 6
            if axis in (None, 1):
                whole[b, place] = result[b, s]
            else:
                whole[b, :, place] = result[b, :, s]
    return OnnxCase(
        f"cache-{label}",
        node("TensorScatter", inputs, ["y"], axis=axis, mode=mode),
        feeds,
        expected=[whole],
        opset=24,
        **more,
    )


CACHES = [
    _cache("linear"),
    _cache("one", batch=1, ops={"CAST": 1, "CONCATENATION": 1, "DYNAMIC_UPDATE_SLICE": 1}),
    _cache("front", starts=False, ops={"DYNAMIC_UPDATE_SLICE": 1}),
    _cache("circular", mode="circular"),
    _cache("circular-one", mode="circular", batch=1),
    _cache("circular-front", mode="circular", starts=False),
    _cache("last", axis=2),
    _cache("open", open={"x": (0,), "u": (0,), "i": (0,)}),
]

OTHERS = [
    *(
        OnnxCase(f"non-zero-{t}", node("NonZero", ["x"], ["y"]), {"x": _few((3, 4), t)})
        for t in ("float32", "int32", "int64", "uint8", "bool")
    ),
    OnnxCase(
        "non-zero-open",
        node("NonZero", ["x"], ["y"]),
        {"x": _few((3, 4))},
        open={"x": (0, 1)},
        more=({"x": _few((2, 6))},),
    ),
]

ALL = [
    *GATHERS,
    *ELEMENTS,
    *NDS,
    *ONE_HOTS,
    *TOPS,
    *COMPRESSED,
    *UNIQUES,
    *CACHES,
    *OTHERS,
]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_picking(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)
