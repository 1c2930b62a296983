"""Moves between ops of the other layout: every axis, all extents different; names and batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnconv
from nnconv.formats.tflite.reader import read
from support.litert import run_litert
from support.moves import QUANT, ints
from support.spine import Case, check, model_bytes, onnx_ops, onnx_session
from support.tflite_builder import Tensor, TfliteBuilder

SHAPE = (2, 3, 4, 5)
ONE = {"stride_h": 1, "stride_w": 1, "filter_height": 1, "filter_width": 1, "padding": "VALID"}

Step = Callable[[TfliteBuilder, Tensor, Any], "list[tuple[Tensor, tuple[int, ...]]]"]


def pool(b: TfliteBuilder, x: Tensor, shape: Sequence[int], dtype: str, quant: Any) -> Tensor:
    """A pool that changes nothing but wants its own layout."""
    made = b.op("MAX_POOL_2D", [x], [(dtype, tuple(shape), quant)], options=ONE)
    assert isinstance(made, Tensor)
    return made


def between(label: str, step: Step, dtype: str, shape: tuple[int, ...] = SHAPE) -> Case:
    """A case of something between pools."""
    quant = QUANT.get(dtype)

    def build(b: TfliteBuilder) -> None:
        x = pool(b, b.input("x", dtype, shape, quant=quant), shape, dtype, quant)
        for tensor, extents in step(b, x, (dtype, quant)):
            four = len(extents) == 4
            b.output(pool(b, tensor, extents, dtype, quant) if four else tensor)

    return Case(f"{label}-{dtype}", build)


def simple(
    op: str,
    result: Callable[[np.ndarray], Any],
    *,
    rest: Sequence[Any] = (),
    first: Sequence[Any] = (),
    options: dict[str, Any] | None = None,
) -> Step:
    """One op on the tensor."""

    def step(b: TfliteBuilder, x: Tensor, kind: Any) -> list[tuple[Tensor, tuple[int, ...]]]:
        out = result(np.zeros(x.shape))
        shapes = [part.shape for part in (out if isinstance(out, list) else [out])]
        operands = [*(b.const(v) for v in first), x, *(b.const(v) for v in rest)]
        types = [(kind[0], shape, kind[1]) for shape in shapes]
        made = b.op(op, operands, types, options=options or {})
        return list(zip(made if isinstance(made, list) else [made], shapes, strict=True))

    return step


def concat(axis: int) -> Step:
    """The tensor joined with itself and a constant."""

    def step(b: TfliteBuilder, x: Tensor, kind: Any) -> list[tuple[Tensor, tuple[int, ...]]]:
        constant = np.arange(120).reshape(SHAPE).astype(kind[0])
        shape = list(SHAPE)
        shape[axis] *= 3
        parts = [x, x, b.const(constant, quant=kind[1])]
        made = b.op(
            "CONCATENATION", parts, [(kind[0], tuple(shape), kind[1])], options={"axis": axis}
        )
        assert isinstance(made, Tensor)
        return [(made, tuple(shape))]

    return step


def sliced(axis: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(1, 2))


STEPS: dict[str, Step] = {
    **{f"concat {axis}": concat(axis) for axis in (0, 1, 2, 3, -1, -3)},
    **{
        f"split {axis}": simple(
            "SPLIT_V",
            lambda x, a=axis: np.split(x, [1], a),
            rest=[ints(1, SHAPE[axis] - 1), np.int32(axis)],
            options={"num_splits": 2},
        )
        for axis in (0, 1, 2, 3, -2)
    },
    **{
        f"unpack {axis}": simple(
            "UNPACK",
            lambda x, a=axis: list(np.moveaxis(x, a, 0)),
            options={"axis": axis, "num": SHAPE[axis]},
        )
        for axis in (0, 1, 2, 3, -1)
    },
    **{
        f"slice {axis}": simple(
            "SLICE",
            lambda x, a=axis: x[sliced(a)],
            rest=[ints(*(1 if i == axis else 0 for i in range(4))), size],
        )
        for axis, size in (
            (axis, ints(*(1 if i == axis else n for i, n in enumerate(SHAPE)))) for axis in range(4)
        )
    },
    **{
        f"shrink {axis}": simple(
            "STRIDED_SLICE",
            lambda x, a=axis: np.take(x, 1, a),
            rest=[
                ints(*(1 if i == axis else 0 for i in range(4))),
                ints(*(2 if i == axis else n for i, n in enumerate(SHAPE))),
                ints(1, 1, 1, 1),
            ],
            options={"shrink_axis_mask": 1 << axis},
        )
        for axis in range(4)
    },
    **{
        f"reverse {axis}": simple("REVERSE_V2", lambda x, a=axis: np.flip(x, a), rest=[ints(axis)])
        for axis in (0, 1, 2, 3, -1)
    },
    **{
        f"transpose {perm}": simple(
            "TRANSPOSE", lambda x, p=perm: x.transpose(p), rest=[ints(*perm)]
        )
        for perm in ((0, 3, 1, 2), (3, 1, 0, 2), (0, 1, 3, 2), (1, 0, 2, 3))
    },
    "pad": simple(
        "PAD",
        lambda x: np.pad(x, ((1, 0), (0, 2), (3, 0), (0, 4))),
        rest=[np.asarray([[1, 0], [0, 2], [3, 0], [0, 4]], np.int32)],
    ),
    "mirror pad": simple(
        "MIRROR_PAD",
        lambda x: np.pad(x, ((1, 0), (0, 2), (3, 0), (0, 4))),
        rest=[np.asarray([[1, 0], [0, 2], [3, 0], [0, 4]], np.int32)],
        options={"mode": "SYMMETRIC"},
    ),
    "tile": simple("TILE", lambda x: np.tile(x, (1, 2, 3, 2)), rest=[ints(1, 2, 3, 2)]),
    "expand": simple("EXPAND_DIMS", lambda x: x[:, :, None], rest=[np.int32(2)]),
    "reshape": simple("RESHAPE", lambda x: x.reshape(2, 4, 5, 3), rest=[ints(2, 4, 5, 3)]),
    "flatten": simple("RESHAPE", lambda x: x.reshape(2, 60), rest=[ints(2, -1)]),
    "broadcast": simple(
        "BROADCAST_TO", lambda x: np.broadcast_to(x, (6, *SHAPE)), rest=[ints(6, *SHAPE)]
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("name", STEPS)
def test_moves_in_the_other_layout(name: str, dtype: str, tmp_path: Path) -> None:
    check(between(name, STEPS[name], dtype), tmp_path)


@pytest.mark.parametrize("axes", [(1,), (2,), (1, 2), (0,), (-1,), (0, 1, 2, 3)])
def test_squeeze_in_the_other_layout(axes: tuple[int, ...], tmp_path: Path) -> None:
    gone = {axis % 4 for axis in axes}
    shape = tuple(1 if i in gone else n for i, n in enumerate(SHAPE))
    step = simple("SQUEEZE", lambda x: x.squeeze(tuple(gone)), options={"squeeze_dims": list(axes)})
    check(between("squeeze", step, "float32", shape), tmp_path)


@pytest.mark.parametrize("constant", [(5,), (4, 1), (3, 1, 1), (1, 4, 5), (2, 1, 1, 1), (1,), ()])
def test_constants_of_lower_rank_follow(constant: tuple[int, ...], tmp_path: Path) -> None:
    def step(b: TfliteBuilder, x: Tensor, kind: Any) -> list[tuple[Tensor, tuple[int, ...]]]:
        data = np.arange(int(np.prod(constant)), dtype=np.float32).reshape(constant)
        made = b.op("ADD", [x, b.const(data)], [(kind[0], SHAPE, kind[1])])
        assert isinstance(made, Tensor)
        return [(made, SHAPE)]

    check(between("add", step, "float32"), tmp_path)
    assert onnx_ops(tmp_path / "model.onnx")["Transpose"] == 2, "one at each edge"


def test_outputs_and_inputs_keep_names_and_order(tmp_path: Path) -> None:
    def build(b: TfliteBuilder) -> None:
        x = b.input("in/put:0", "float32", (2, 3))
        b.input("unused é", "float32", (4,))
        y = b.op("RELU", [x], [("float32", (2, 3), None, "out put")])
        b.output(y, x, y)

    case = Case("names", build)
    content = model_bytes(case)
    model = read(content)
    assert [v.name for v in model.inputs] == ["in/put:0", "unused é"]
    path = tmp_path / "m.onnx"
    nnconv.save(model, path)
    session = onnx_session(path)
    assert [i.name for i in session.get_inputs()] == ["in/put:0", "unused é"]
    names = [o.name for o in session.get_outputs()]
    assert names[0] == "out put"
    assert len(set(names)) == 3
    x, unused = np.float32([[1, -2, 3], [-4, 5, -6]]), np.zeros(4, np.float32)
    results = session.run(None, {"in/put:0": x, "unused é": unused})
    for result, expected in zip(results, run_litert(content, [x, unused]), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("batch", [1, 5])
def test_an_open_batch_runs_at_any_size(batch: int, tmp_path: Path) -> None:
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (1, 3, 4, 5), signature=(-1, 3, 4, 5))
        pooled = pool(b, x, (1, 3, 4, 5), "float32", None)
        flat = b.op("RESHAPE", [pooled, b.const(ints(-1, 60))], [("float32", (1, 60))])
        half = b.op(
            "STRIDED_SLICE",
            [flat, *(b.const(ints(*v)) for v in ((0, 10), (0, 40), (1, 2)))],
            [("float32", (1, 15))],
            options={"begin_mask": 1, "end_mask": 1},
        )
        b.output(b.op("CONCATENATION", [half, flat], [("float32", (1, 75))], options={"axis": 1}))

    x = np.random.default_rng(0).standard_normal((batch, 3, 4, 5)).astype(np.float32)
    path = tmp_path / "m.onnx"
    nnconv.save(read(model_bytes(Case("open", build))), path)
    (result,) = onnx_session(path).run(None, {"x": x})
    flat = x.reshape(batch, 60)
    np.testing.assert_array_equal(result, np.concatenate([flat[:, 10:40:2], flat], 1))
