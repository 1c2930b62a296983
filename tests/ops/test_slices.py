"""Ops that cut, pad, turn round and overwrite: op x dtype, masks, bounds known and at run time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.moves import ALL, QUANT, ints, move, wide
from support.spine import Case, check, onnx_ops, optimized_ops
from support.tflite_builder import Tensor, TfliteBuilder

SLICE = [
    *(
        move("SLICE", (4, 5, 6), lambda x: x[1:3, 2:5, 0:6], rest=[ints(1, 2, 0), size], dtype=d)
        for d in ALL
        for size in (ints(2, 3, 6),)
    ),
    *(
        move(
            "SLICE",
            (4, 5),
            lambda x: x[1:3, 2:],
            rest=[np.asarray([1, 2], d), np.asarray([2, 3], d)],
            run_time=run,
            label=d,
        )
        for d in ("int32", "int64")
        for run in (False, True)
    ),
    move("SLICE", (4, 5), lambda x: x[1:, 2:], rest=[ints(1, 2), ints(-1, -1)], label="rest"),
    move(
        "SLICE",
        (4, 5),
        lambda x: x[1:, 2:],
        rest=[ints(1, 2), ints(-1, -1)],
        label="rest",
        run_time=True,
    ),
    move(
        "SLICE",
        (4, 3),
        lambda x: x[4:],
        rest=[ints(4, 0), ints(0, 3)],
        label="empty",
        expected=[np.zeros((0, 3), np.float32)],
        note="LiteRT's Python interface can't read a result without elements",
    ),
    *(
        move("SLICE", (2, 3, 2, 3, 2)[:rank], lambda x: x[1:], rest=[begin, size], label=f"{rank}d")
        for rank in (1, 5)
        for begin, size in [(ints(*([1] + [0] * (rank - 1))), ints(*((1, 3, 2, 3, 2)[:rank])))]
    ),
]

MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


def strided(
    label: str,
    shape: tuple[int, ...],
    result: Callable[[np.ndarray], np.ndarray],
    begin: tuple[int, ...],
    end: tuple[int, ...],
    strides: tuple[int, ...] | None = None,
    /,
    *,
    dtype: str = "float32",
    run_time: bool = False,
    offset: bool = False,
    oracle: str | None = "opt",
    **masks: int,
) -> Case:
    """A case of STRIDED_SLICE."""
    options: dict[str, Any] = {f"{name}_mask": masks.get(name, 0) for name in MASKS}
    if offset:
        options["offset"] = True
    steps = strides or (1,) * len(begin)
    bounds = [ints(*begin), ints(*end), ints(*steps)]
    return move(
        "STRIDED_SLICE",
        shape,
        result,
        rest=bounds,
        options=options,
        dtype=dtype,
        run_time=run_time,
        label=label,
        resolver=oracle,
    )


def _strided_cases(*, run_time: bool) -> list[Case]:
    def case(*arguments: Any, **named: Any) -> Case:
        return strided(*arguments, run_time=run_time, **named)

    return [
        case("plain", (4, 5), lambda x: x[1:3, 2:5], (1, 2), (3, 5)),
        case("stride", (7, 5), lambda x: x[1:7:2, ::3], (1, 0), (7, 5), (2, 3)),
        case("negative", (4, 5), lambda x: x[-3:-1, -4:], (-3, -4), (-1, 9)),
        case("backward", (4, 5), lambda x: x[3:0:-1, 4:1:-2], (3, 4), (0, 1), (-1, -2)),
        case(
            "backward-masked",
            (4, 5),
            lambda x: x[::-1, 3::-2],
            (0, 3),
            (0, 0),
            (-1, -2),
            begin=1,
            end=3,
        ),
        case("masked", (4, 5), lambda x: x[:3, 2:], (9, 2), (3, 9), begin=1, end=2),
        case("fewer", (4, 5, 6), lambda x: x[1:3], (1,), (3,)),
        case("shrink", (4, 5), lambda x: x[2, 1:4], (2, 1), (9, 4), shrink_axis=1),
        case("shrink-last", (4, 5), lambda x: x[:, -1], (0, -1), (0, 0), shrink_axis=2, end=1),
        case("shrink-all", (4, 5), lambda x: x[1, 2], (1, 2), (2, 3), shrink_axis=3),
        case("ellipsis", (2, 3, 4), lambda x: x[..., 1:3], (0, 1), (0, 3), ellipsis=1),
        case(
            "ellipsis-middle",
            (2, 3, 4, 5),
            lambda x: x[1:, ..., 2],
            (1, 0, 2),
            (2, 0, 3),
            ellipsis=2,
            shrink_axis=4,
        ),
        case(
            "ellipsis-of-none",
            (2, 3),
            lambda x: x[..., :1, 2:],
            (0, 0, 2),
            (0, 1, 3),
            ellipsis=1,
            oracle=None,  # LiteRT lets an ellipsis stand for one dimension at least
        ),
        case("new-axis", (2, 3), lambda x: x[None, 1:], (0, 1), (0, 2), new_axis=1),
        case(
            "new-axes-behind",
            (2, 3),
            lambda x: x[..., None, None],
            (0, 0, 0),
            (0, 0, 0),
            ellipsis=1,
            new_axis=6,
        ),
        case(
            "new-and-shrink",
            (2, 3, 4),
            lambda x: x[1, None, ..., 1:3],
            (1, 0, 0, 1),
            (2, 0, 0, 3),
            shrink_axis=1,
            new_axis=2,
            ellipsis=4,
        ),
    ]


STRIDED = [
    *_strided_cases(run_time=False),
    *_strided_cases(run_time=True),
    *(strided("type", (4, 5), lambda x: x[1:3, ::2], (1, 0), (3, 5), (1, 2), dtype=d) for d in ALL),
    strided("offset", (4, 5), lambda x: x[1:3, 2:5], (1, 2), (2, 3), offset=True),
    strided("offset", (4, 5), lambda x: x[1:3, 2:5], (1, 2), (2, 3), offset=True, run_time=True),
]


def pad_cases(op: str, types: tuple[str, ...]) -> list[Case]:
    """PAD and PADV2: dtype, constant and run-time pads."""
    pads = np.asarray([[1, 2], [0, 3]], np.int32)

    def case(dtype: str, *, run_time: bool, index: str = "int32") -> Case:
        def build(b: TfliteBuilder) -> None:
            quant = QUANT.get(dtype)
            amounts = pads.astype(index)
            x = b.input("x", dtype, (2, 3), quant=quant)
            operands = [x]
            if run_time:
                operands.append(b.input("pads", index, pads.shape))
            else:
                operands.append(b.const(amounts))
            if op == "PADV2":
                value = np.asarray(7 if dtype != "bool" else 1).astype(dtype)
                operands.append(b.const(value.reshape(1), quant=quant))
            b.output(b.op(op, operands, [(dtype, (5, 6), quant)]))

        inputs = [None, pads.astype(index)] if run_time else None
        name = f"{op}-{dtype}-{index}" + ("-run" if run_time else "")
        return Case(name, build, inputs=inputs)

    return [
        *(case(dtype, run_time=run_time) for dtype in types for run_time in (False, True)),
        case("float32", run_time=False, index="int64"),
    ]


def pad_value_at_run_time(b: TfliteBuilder) -> None:
    x = b.input("x", "int8", (2, 3), quant=QUANT["int8"])
    value = b.input("value", "int8", (1,), quant=QUANT["int8"])
    pads = b.const(np.asarray([[1, 0], [0, 2]], np.int32))
    b.output(b.op("PADV2", [x, pads, value], [("int8", (3, 5), QUANT["int8"])]))


PAD = [
    *pad_cases("PAD", ("float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool")),
    *pad_cases("PADV2", ("float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool")),
    Case("PADV2-int8-value-run", pad_value_at_run_time),
    *(
        move(
            "MIRROR_PAD",
            (4, 5, 3),
            lambda x, m=mode: np.pad(x, ((1, 2), (3, 0), (0, 0)), mode=m.lower()),
            rest=[np.asarray([[1, 2], [3, 0], [0, 0]], np.int32)],
            options={"mode": mode},
            dtype=d,
            run_time=run,
            label=mode,
        )
        for mode in ("REFLECT", "SYMMETRIC")
        for d in ALL
        for run in ((False, True) if d in ("float32", "int8", "int16") else (False,))
    ),
    move(
        "PAD",
        (3,),
        lambda x: np.pad(x, (1, 2)),
        rest=[np.asarray([[1, 2]], np.int32)],
        dtype="int8",
        quant=(0.1, -7),
        label="zero-point",
        inputs=[np.asarray([1, 2, 3], np.int8)],
        expected=[np.asarray([-7, 1, 2, 3, -7, -7], np.int8)],
    ),
    move(
        "PAD", (0, 3), lambda x: np.pad(x, ((1, 1), (0, 0))), rest=[ints(1, 1, 0, 0).reshape(2, 2)]
    ),
]

REVERSE = [
    *(
        move("REVERSE_V2", (2, 3, 4), lambda x: x[:, ::-1], rest=[ints(1)], dtype=d)
        for d in ("float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool")
    ),
    move("REVERSE_V2", (2, 3, 4), lambda x: x[:, :, ::-1], rest=[ints(-1)], label="last"),
    *(
        move("REVERSE_V2", (2, 3, 4), lambda x: x, rest=[ints(*axes)], label="", run_time=True)
        for axes in ((0,), (-1,), (0, 1))
    ),
    move("REVERSE_V2", (2, 3, 4), lambda x: x[::-1, ::-1], rest=[ints(0, 1)], label="two"),
    *(
        move(
            "REVERSE_SEQUENCE",
            (2, 3, 4),
            lambda x: x,
            rest=[np.asarray(lengths, kind)],
            options={"seq_dim": seq, "batch_dim": batch},
            dtype=d,
            label=f"{seq}{batch}-{kind}",
            run_time=run,
        )
        for seq, batch, lengths in ((1, 0, (1, 3)), (2, 1, (4, 2, 1)), (0, 1, (1, 2, 2)))
        for d in ("float32", "uint8", "int16", "int32", "int64")
        for kind in ("int32", "int64")
        for run in ((False, True) if d == "float32" else (False,))
    ),
]


def update(
    dtype: str,
    starts: np.ndarray,
    shape: tuple[int, ...] = (4, 5, 3),
    part: tuple[int, ...] = (2, 3, 3),
    *,
    run_time: bool,
) -> Case:
    """A case of DYNAMIC_UPDATE_SLICE."""

    def build(b: TfliteBuilder) -> None:
        quant = QUANT.get(dtype)
        x = b.input("x", dtype, shape, quant=quant)
        new = b.input("update", dtype, part, quant=quant)
        place = b.input("starts", starts.dtype.name, starts.shape) if run_time else b.const(starts)
        b.output(b.op("DYNAMIC_UPDATE_SLICE", [x, new, place], [(dtype, shape, quant)]))

    name = f"DYNAMIC_UPDATE_SLICE-{dtype}-{starts.dtype}-{'x'.join(map(str, part))}-{starts[0]}"
    inputs = [None, None, starts] if run_time else None
    return Case(name + ("-run" if run_time else ""), build, inputs=inputs)


UPDATE = [
    *(update(d, ints(1, 2, 0), run_time=run) for d in ALL for run in (False, True)),
    update("float32", wide(1, 2, 0), run_time=True),
    update("float32", ints(9, -3, 1), run_time=True),
    update("float32", ints(1, 1, 1), part=(1, 1, 2), run_time=True),
    update("float32", ints(2, 0, 0), part=(1, 5, 3), run_time=True),
    update("float32", ints(3), shape=(6,), part=(2,), run_time=True),
]


@pytest.mark.parametrize(
    ("shape", "begin", "end", "masks", "index"),
    [
        ((2, 3), (0, 0, 0), (0, 0, 0), {"ellipsis": 1, "new_axis": 6}, np.s_[..., None, None]),
        ((2, 3), (0, 0, 2), (0, 1, 3), {"ellipsis": 1}, np.s_[..., :1, 2:]),
        (
            (4, 3, 5),
            (1, 0, 0, -2),
            (2, 0, 0, 0),
            {"shrink_axis": 1, "new_axis": 2, "ellipsis": 4, "end": 8},
            np.s_[1, None, ..., -2:],
        ),
    ],
)
def test_masks_are_numpys(
    shape: tuple[int, ...],
    begin: tuple[int, ...],
    end: tuple[int, ...],
    masks: dict[str, int],
    index: Any,
    tmp_path: Path,
) -> None:
    x = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    case = strided("numpy", shape, lambda x: x[index], begin, end, **masks)
    check(replace(case, inputs=[x], expected=[x[index]]), tmp_path)


@pytest.mark.parametrize("case", [*SLICE, *STRIDED, *PAD, *REVERSE, *UPDATE], ids=str)
def test_slices(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def widening(dtype: str, pads: list[list[int]]) -> Case:
    """A residual block that pads what a convolution gives, to add it to another one's result."""

    def build(b: TfliteBuilder) -> None:
        rng = np.random.default_rng(0)
        quant = None if dtype == "float32" else (0.05, 3)
        x = b.input("x", dtype, (1, 5, 6, 4), quant=quant)

        def conv(x: Tensor, inputs: int, outputs: int) -> Tensor:
            shape = (outputs, 1, 1, inputs)
            if quant is None:
                weights = b.const(rng.standard_normal(shape).astype(np.float32))
                offset = b.const(rng.standard_normal(outputs).astype(np.float32))
            else:
                codes = rng.integers(-99, 99, shape).astype(np.int8)
                weights = b.const(codes, quant=(0.01, 0))
                offset = b.const(np.zeros(outputs, np.int32), quant=(0.0005, 0))
            options = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
            kind = (dtype, (1, 5, 6, outputs), quant)
            return b.op("CONV_2D", [x, weights, offset], [kind], options=options)

        y = conv(x, 4, 16)
        shape = tuple(size + sum(pair) for size, pair in zip((1, 5, 6, 16), pads, strict=True))
        kind = (dtype, shape, quant)
        padded = b.op("PAD", [y, b.const(np.array(pads, np.int32))], [kind])
        other = conv(y, 16, 32) if shape == (1, 5, 6, 32) else padded
        b.output(b.op("ADD", [padded, other], [kind], options={}))

    return Case(f"widening-{dtype}", build, steps=3)


BEHIND = [[0, 0], [0, 0], [0, 0], [0, 16]]


def test_zero_channels_stay_in_the_blocked_layout(tmp_path: Path) -> None:
    check(widening("float32", BEHIND), tmp_path)
    assert "Pad" not in onnx_ops(tmp_path / "model.onnx")
    counts = optimized_ops(tmp_path / "model.onnx", tmp_path)
    assert counts["Conv"] == 3
    assert "Add" not in counts
    assert counts["ReorderOutput"] == 1


@pytest.mark.parametrize(
    "case",
    [
        widening("int8", BEHIND),
        widening("float32", [[0, 0], [0, 0], [0, 0], [16, 0]]),
        widening("float32", [[0, 0], [0, 1], [0, 0], [0, 16]]),
        widening("float32", [[0, 0], [0, 0], [0, 0], [0, 241]]),
    ],
)
def test_other_pads_stay(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
    assert onnx_ops(tmp_path / "model.onnx")["Pad"] == 1
