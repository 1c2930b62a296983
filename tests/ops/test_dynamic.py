"""Axes, bounds, sizes and shapes that a run decides, on every route; shapes left open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Op, TensorType, Value
from nnconv.ops import dynamic as d
from nnconv.ops.shape import BroadcastTo, Reshape, Split, Squeeze, Unsqueeze
from nnconv.ops.slices import Slice
from support.onnx_routes import OnnxCase, check_routes, node
from support.onnx_spine import IrCase, check_ir

RNG = np.random.default_rng(5)


def numbers(*shape: int) -> np.ndarray:
    return RNG.permutation(int(np.prod(shape))).astype(np.float32).reshape(shape)


def ints(*values: int) -> np.ndarray:
    return np.asarray(values, np.int64)


def _case(
    label: str,
    op_type: str,
    x: np.ndarray,
    rest: dict[str, np.ndarray | None],
    *,
    known: Sequence[str] = (),
    outputs: Sequence[str] = ("y",),
    open: dict[str, Sequence[int]] | None = None,
    more: Sequence[dict[str, np.ndarray]] = (),
    ops: dict[str, int] | None = None,
    opset: int = 21,
    same_nodes: bool = True,
    routes: Sequence[str] = ("reference", "onnx", "tflite"),
    **attributes: Any,
) -> OnnxCase:
    """One node; the operands in ``known`` are constants, those of None left out."""
    given = {name: array for name, array in rest.items() if array is not None}
    inputs = ["x", *("" if array is None else name for name, array in rest.items())]
    while not inputs[-1]:
        inputs.pop()
    return OnnxCase(
        f"{op_type}-{label}",
        node(op_type, inputs, outputs, **attributes),
        {"x": x, **{n: a for n, a in given.items() if n not in known}},
        more=more,
        constants={n: a for n, a in given.items() if n in known},
        open=open or {},
        opset=opset,
        same_nodes=same_nodes,
        ops=ops,
        routes=routes,
    )


SQUEEZES = [
    _case("fed", "Squeeze", numbers(1, 3, 1, 2), {"a": ints(2)}),
    _case("fed-two", "Squeeze", numbers(1, 3, 1, 2), {"a": ints(-2, 0)}),
    _case("fed-int32-many", "Squeeze", numbers(1, 1, 3, 1, 2), {"a": ints(3, -4, 0)}),
    _case("all", "Squeeze", numbers(1, 3, 1, 2), {}, ops={"RESHAPE": 1}),
    _case(
        "all-open",
        "Squeeze",
        numbers(1, 3, 1, 2),
        {},
        open={"x": (1,)},
        more=[{"x": numbers(1, 1, 1, 2)}],
        ops={"SQUEEZE": 1},
        routes=("reference", "tflite"),  # onnx's checker wants the rank of outputs
    ),
    _case(
        "fed-open",
        "Squeeze",
        numbers(1, 3, 1, 2),
        {"a": ints(2, 0)},
        open={"x": (1, 3)},
        more=[{"x": numbers(1, 4, 1, 5), "a": ints(0, -2)}],
    ),
    _case("opset-11", "Squeeze", numbers(1, 3, 1), {}, axes=[0, -1], opset=11),
    _case("opset-11-all", "Squeeze", numbers(1, 3, 1), {}, opset=11),
]

UNSQUEEZES = [
    _case("fed", "Unsqueeze", numbers(3, 2), {"a": ints(1)}),
    _case("fed-two", "Unsqueeze", numbers(3, 2), {"a": ints(-1, 0)}),
    _case("fed-between", "Unsqueeze", numbers(3, 2, 4), {"a": ints(4, 1, -1)}),
    _case("fed-scalar", "Unsqueeze", numbers(), {"a": ints(1, 0)}),
    _case(
        "fed-open",
        "Unsqueeze",
        numbers(3, 2),
        {"a": ints(1, 2)},
        open={"x": (0, 1)},
        more=[{"x": numbers(4, 5), "a": ints(0, 3)}],
    ),
    _case("open", "Unsqueeze", numbers(3, 2), {"a": ints(0, 2)}, known="a", open={"x": (0, 1)}),
    _case("opset-11", "Unsqueeze", numbers(3, 2), {}, axes=[0, -1], opset=11),
]

EXPANDS = [
    _case("const", "Expand", numbers(3, 1), {"s": ints(3, 4)}, known="s", ops={"TILE": 1}),
    _case("both", "Expand", numbers(3, 1), {"s": ints(2, 1, 4)}, known="s"),
    _case("ones", "Expand", numbers(3, 1), {"s": ints(1)}, known="s", same_nodes=False),
    _case("fed", "Expand", numbers(3, 1), {"s": ints(2, 1, 4)}),
    _case("fed-fewer", "Expand", numbers(2, 3, 1), {"s": ints(1, 4)}),
    _case("scalar", "Expand", numbers(), {"s": ints(2, 3)}),
    _case(
        "open",
        "Expand",
        numbers(3, 1),
        {"s": ints(1, 4)},
        known="s",
        open={"x": (0,)},
        more=[{"x": numbers(5, 1)}],
        ops={"TILE": 1},
    ),
    _case(
        "open-both",
        "Expand",
        numbers(1, 1),
        {"s": ints(2, 3, 4)},
        known="s",
        open={"x": (0,)},
        more=[{"x": numbers(3, 1)}],
    ),
    _case("fed-unequal-ranks", "Expand", numbers(2, 1, 3, 1), {"s": ints(3, 5)}),
    _case(
        "fed-open",
        "Expand",
        numbers(3, 1),
        {"s": ints(1, 4)},
        open={"x": (0, 1)},
        more=[{"x": numbers(1, 2), "s": ints(3, 1)}],
    ),
    _case("empty", "Expand", numbers(3, 1), {"s": ints(3, 0)}),
]

SPLITS = [
    _case("fed", "Split", numbers(2, 5), {"s": ints(2, 3)}, axis=1, outputs=("a", "b")),
    _case("fed-empty", "Split", numbers(2, 5), {"s": ints(0, 5)}, axis=-1, outputs=("a", "b")),
    _case(
        "fed-open",
        "Split",
        numbers(2, 5),
        {"s": ints(2, 3)},
        axis=1,
        outputs=("a", "b"),
        open={"x": (0, 1)},
        more=[{"x": numbers(3, 2), "s": ints(1, 1)}],
    ),
    _case(
        "equal",
        "Split",
        numbers(2, 6),
        {},
        axis=1,
        outputs=("a", "b", "c"),
        ops={"SPLIT": 1},
        num_outputs=3,
        same_nodes=False,
    ),
    _case(
        "last-smaller",
        "Split",
        numbers(2, 7),
        {},
        axis=1,
        outputs=("a", "b", "c"),
        num_outputs=3,
        ops={"SPLIT_V": 1},
    ),
    _case(
        "equal-open",
        "Split",
        numbers(2, 6),
        {},
        axis=1,
        num_outputs=3,
        outputs=("a", "b", "c"),
        open={"x": (1,)},
        more=[{"x": numbers(2, 8)}],
    ),
    _case("opset-13", "Split", numbers(2, 6), {}, axis=1, outputs=("a", "b"), opset=13),
    _case(
        "opset-11", "Split", numbers(2, 6), {}, axis=1, split=[4, 2], outputs=("a", "b"), opset=11
    ),
    _case(
        "rank-7",
        "Split",
        numbers(1, 2, 1, 2, 1, 4, 1),
        {"s": ints(1, 3)},
        known="s",
        axis=5,
        outputs=("a", "b"),
    ),
]

FAR = np.iinfo(np.int64).max


def _slice(
    label: str,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    *,
    shape: Sequence[int] = (4, 5, 6),
    **more: Any,
) -> OnnxCase:
    rest = {"s": ints(*starts), "e": ints(*ends)}
    operands: dict[str, np.ndarray | None] = dict(rest)
    operands["a"] = None if axes is None else ints(*axes)
    operands["t"] = None if steps is None else ints(*steps)
    return _case(label, "Slice", numbers(*shape), operands, **more)


ALL_KNOWN = ("s", "e", "a", "t")
SLICES = [
    *(
        _slice(f"{label}-{'fed' if not known else 'const'}", *bounds, known=known)
        for known in ((), ("a",), ("a", "t"), ALL_KNOWN)
        for label, bounds in {
            "first": ([1], [3]),
            "two": ([1, 2], [-1, FAR]),
            "axes": ([1, -4], [-1, FAR], [-1, 1]),
            "steps": ([0, 1], [FAR, -1], [2, 0], [2, 1]),
            "back": ([-1, 3], [-FAR, 0], [1, 2], [-1, -1]),
            "back-by-two": ([FAR], [-FAR], [1], [-2]),
            "far": ([-100, 2], [100, FAR], [0, 2]),
            "nothing": ([3], [1], [1]),
        }.items()
    ),
    _slice("const", [1], [3], [1], known=ALL_KNOWN, ops={"SLICE": 1}),
    _slice("const-by-two", [1], [4], [1], [2], known=ALL_KNOWN, ops={"STRIDED_SLICE": 1}),
    _slice("turned", [-1], [-FAR], [1], [-1], known=ALL_KNOWN, ops={"REVERSE_V2": 1}),
    _slice(
        "turned-part",
        [3, -1],
        [0, -FAR],
        [0, 2],
        [-1, -1],
        known=ALL_KNOWN,
        ops={"SLICE": 1, "REVERSE_V2": 2},
    ),
    _slice(
        "open",
        [1],
        [-1],
        [1],
        known=ALL_KNOWN,
        open={"x": (0, 1)},
        more=[{"x": numbers(2, 7, 6)}],
        ops={"STRIDED_SLICE": 1},
    ),
    _slice(
        "open-back",
        [-1],
        [-FAR],
        [1],
        [-1],
        known=ALL_KNOWN,
        open={"x": (1,)},
        more=[{"x": numbers(4, 7, 6)}],
    ),
    _slice(
        "open-fed",
        [1],
        [-1],
        [1],
        known=("a",),
        open={"x": (0, 1, 2)},
        more=[{"x": numbers(3, 2, 7), "s": ints(0), "e": ints(1)}],
    ),
    OnnxCase(
        "Slice-int32",
        node("Slice", ["x", "s", "e"], ["y"]),
        {"x": numbers(4, 5), "s": np.asarray([1, -3], np.int32), "e": np.asarray([3, 9], np.int32)},
    ),
    _slice(
        "along-any-number",
        [1],
        [-1],
        open={"s": (0,), "e": (0,)},
        more=[{"x": numbers(4, 5, 6), "s": ints(0, -2), "e": ints(FAR, 4)}],
    ),
    *(
        _slice(
            f"nothing-{start}-{end}-of-{n}",
            [start],
            [end],
            [1],
            shape=(2, n, 3),
            known=ALL_KNOWN,
            open={"x": dims},
            same_nodes=False,
        )
        for start, end, n in ((0, 0, 4), (-9, 0, 4), (2, 0, 4), (2, 2, 4), (0, -4, 4), (0, 0, 1))
        for dims in ((0,), (0, 1, 2))
    ),
    _slice("rank-8", [1], [2], [6], shape=(1, 2, 1, 2, 1, 2, 3, 1), known=ALL_KNOWN),
    _case(
        "opset-9",
        "Slice",
        numbers(4, 5),
        {},
        starts=[1, -3],
        ends=[3, FAR],
        axes=[0, 1],
        opset=9,
        same_nodes=False,
    ),
    _case(
        "opset-9-axes", "Slice", numbers(4, 5), {}, starts=[1], ends=[-1], opset=9, same_nodes=False
    ),
]

RESHAPES = [
    _case("fed", "Reshape", numbers(2, 3, 4), {"s": ints(4, 6)}),
    _case("fed-keeps", "Reshape", numbers(2, 3, 4), {"s": ints(0, -1)}),
    _case("fed-keeps-more", "Reshape", numbers(2, 3, 4), {"s": ints(4, 0, 1, -1)}),
    _case("const-keeps", "Reshape", numbers(2, 3, 4), {"s": ints(0, -1, 2)}, known="s",
          ops={"RESHAPE": 1}),
    _case("open-keeps", "Reshape", numbers(2, 3, 4), {"s": ints(0, 0, 2, -1)}, known="s",
          open={"x": (0, 1)}, more=[{"x": numbers(5, 2, 4)}]),
    _case("allows-zero", "Reshape", numbers(2, 0, 4), {"s": ints(0, 8)}, allowzero=1),
]  # fmt: skip

REPEATS = [
    _case("fed", "Tile", numbers(2, 3), {"r": ints(2, 1)}),
    _case("const", "Tile", numbers(2, 3), {"r": ints(1, 3)}, known="r", ops={"TILE": 1}),
    _case("none", "Tile", numbers(2, 3), {"r": ints(1, 0)}),
]


def _from_shape(label: str, *nodes: Any, **more: Any) -> OnnxCase:
    """Nodes on x [a, b, 3] of two open extents."""
    feeds = {"x": numbers(2, 4, 3), **more.pop("feeds", {})}
    return OnnxCase(
        label,
        nodes,
        feeds,
        open={"x": (0, 1)},
        more=[{**feeds, "x": numbers(3, 2, 3)}],
        **more,
    )


SHAPES = [
    _from_shape("shape", node("Shape", ["x"], ["y"])),
    _from_shape("shape-part", node("Shape", ["x"], ["y"], start=-2)),
    _from_shape("shape-none", node("Shape", ["x"], ["y"], start=2, end=1), same_nodes=False),
    _from_shape("size", node("Size", ["x"], ["y"])),
    _from_shape("flatten", node("Flatten", ["x"], ["y"], axis=2), same_nodes=False),
    _from_shape(
        "zeros",
        node("Shape", ["x"], ["s"]),
        node("ConstantOfShape", ["s"], ["y"]),
        same_nodes=False,
        ops={"SHAPE": 1, "FILL": 1},
    ),
    _from_shape(
        "as-it-was",
        node("Shape", ["x"], ["s"]),
        node("Flatten", ["x"], ["f"], axis=2),
        node("Reshape", ["f", "s"], ["y"]),
        same_nodes=False,
    ),
    _from_shape(
        "counted",
        node("Size", ["x"], ["n"]),
        node("Range", ["zero", "n", "one"], ["y"]),
        constants={"zero": np.asarray(0), "one": np.asarray(1)},
    ),
]

ALL = [
    *SQUEEZES,
    *UNSQUEEZES,
    *EXPANDS,
    *SPLITS,
    *SLICES,
    *RESHAPES,
    *REPEATS,
    *SHAPES,
]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_routes(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


def _equal_parts(op: Op) -> Callable[[Builder], Sequence[Value]]:
    return lambda b: b.add_many(op, [b.input("x", DType.FLOAT32, (2, None))])


def _parts(x: np.ndarray) -> list[np.ndarray]:
    return [x[:, :3], x[:, 3:6], x[:, 6:]]


SPELLED = [
    IrCase(
        "equal-parts",
        _equal_parts(d.DynamicSplit(axis=1, count=3)),
        (np.arange(14, dtype=np.float32).reshape(2, 7),),
        expected=_parts,
        nodes={"Split": 1},
        evaluated=False,
        note="onnx's evaluator wants sizes that divide",
    ),
]


@pytest.mark.parametrize("case", SPELLED, ids=str)
def test_spellings(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)


X = TensorType(DType.FLOAT32, (1, 4, 1))
I = TensorType(DType.INT64, (1,))  # noqa: E741

KNOWN: list[tuple[Op, list[tuple[int, ...]], Op]] = [
    (d.DynamicReshape(), [(0, 2, -1)], Reshape(shape=(1, 2, -1))),
    (d.DynamicSqueeze(), [(-1, 0)], Squeeze(axes=(0, 2))),
    (d.DynamicUnsqueeze(), [(-1, 0)], Unsqueeze(axes=(0, 4))),
    (d.Expand(), [(2, 1, 1)], BroadcastTo(shape=(2, 4, 1))),
    (d.DynamicSplit(axis=1, count=2), [(1, 3)], Split(axis=1, sizes=(1, 3))),
    (
        d.DynamicSlice(),
        [(1,), (-1,), (1,)],
        Slice(starts=(None, 1, None), ends=(None, -1, None), strides=(1, 1, 1)),
    ),
]


@pytest.mark.parametrize(("op", "known", "wanted"), KNOWN, ids=str)
def test_known_operands_become_attributes(op: Op, known: list[tuple[int, ...]], wanted: Op) -> None:
    found, taken = op.specialize([None, *known], [X, *[I] * len(known)])
    assert found == wanted
    assert taken >= set(range(1, len(known) + 1))


UNKNOWN: list[tuple[Op, list[tuple[int, ...] | None]]] = [
    (d.DynamicReshape(), [None]),
    (d.DynamicSqueeze(), [(7,)]),
    (d.DynamicUnsqueeze(), [(0, 0)]),
    (d.DynamicSplit(axis=1, count=2), [(4,)]),
    (d.DynamicSlice(), [(1,), None]),
    (d.DynamicSlice(), [(1,), (2, 3)]),
]


@pytest.mark.parametrize(("op", "known"), UNKNOWN, ids=str)
def test_others_stay(op: Op, known: list[tuple[int, ...] | None]) -> None:
    assert op.specialize([None, *known], [X, *[I] * len(known)]) == (op, frozenset())
