"""Pools of any rank, with dilations, windows beyond the padding, places of maxima."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnconv.ir import Builder, DType, Layout, Op, Value
from nnconv.ops import pool as p
from nnconv.ops.quantize import Cast
from nnconv.ops.spatial import Padding
from support.onnx_spine import IrCase, check_ir

SHAPES = {1: (2, 3, 11), 2: (2, 3, 9, 8), 3: (1, 2, 7, 6, 5)}
MAXIMA: dict[int, type[Op]] = {1: p.MaxPool1D, 2: p.MaxPool2D, 3: p.MaxPool3D}
MEANS: dict[int, type[Op]] = {1: p.AveragePool1D, 2: p.AveragePool2D, 3: p.AveragePool3D}

Build = Callable[[Builder], Value]


def attributes(rank: int, **more: Any) -> dict[str, Any]:
    """A window of 3 with steps of 2 and odd padding, in NCHW."""
    plain = {
        "layout": Layout.NCHW,
        "window": (3,) * rank,
        "stride": (2,) * rank,
        "padding": Padding((1,) * rank, (0,) * rank),
    }
    return plain | more


def pool(op: Op, rank: int, dtype: DType = DType.FLOAT32) -> Build:
    def build(b: Builder) -> Value:
        if dtype is not DType.BFLOAT16:  # numpy has none to feed onnxruntime
            return b.add(op, [b.input("x", dtype, SHAPES[rank])])
        x = b.add(Cast(dtype=dtype), [b.input("x", DType.FLOAT32, SHAPES[rank])])
        return b.add(Cast(dtype=DType.FLOAT32), [b.add(op, [x])])

    return build


def evaluated(kind: str, rank: int, variant: str) -> bool:
    """Whether onnx's evaluator is right: it forgets that a last window must begin inside."""
    if variant == "same lower":
        return kind != "max" or rank == 2
    if variant == "ceil":
        return kind == "max" or rank == 1
    return variant != "dilated ceil" or kind != "norm"


def variants(rank: int) -> dict[str, dict[str, Any]]:
    wide = Padding((2,) * rank, (1,) * rank)
    same = Padding((0,) * rank, (0,) * rank, same=True)
    lower = Padding((0,) * rank, (0,) * rank, same=True, lower=True)
    return {
        "plain": {},
        "padded": {"padding": wide},
        "ceil": {"ceil": True, "stride": (3,) * rank},
        "dilated": {"dilation": (2,) * rank, "stride": (1,) * rank},
        "dilated ceil": {"dilation": (2,) * rank, "ceil": True},
        "same": {"padding": same},
        "same lower": {"padding": lower, "window": (2,) * rank, "stride": (1,) * rank},
    }


def max_cases() -> list[IrCase]:
    cases = []
    for rank, kind in MAXIMA.items():
        for name, changes in variants(rank).items():
            op = kind(**attributes(rank, **changes))
            told = evaluated("max", rank, name)
            nodes = {"MaxPool": 1}
            cases.append(
                IrCase(f"max {rank}-D {name}", pool(op, rank), nodes=nodes, evaluated=told)
            )
    op = p.MaxPool1D(**attributes(1, ceil=True))
    direct = (DType.FLOAT16, DType.FLOAT64, DType.INT8, DType.UINT8)
    around = (DType.INT16, DType.INT32, DType.BFLOAT16)
    cases += [IrCase(f"max of {d}", pool(op, 1, d), nodes={"MaxPool": 1}) for d in direct]
    return cases + [IrCase(f"max of {d}", pool(op, 1, d), evaluated=False) for d in around]


def mean_cases() -> list[IrCase]:
    cases = []
    for rank, kind in MEANS.items():
        for name, changes in variants(rank).items():
            for counted in (False, True):
                op = kind(**attributes(rank, count_padding=counted, **changes))
                dilated = "dilated" in name
                cases.append(
                    IrCase(
                        f"mean {rank}-D {name}{' counted' * counted}",
                        pool(op, rank),
                        nodes={"AveragePool": 1},
                        opsets=(21, 27) if dilated else (13, 21, 27),
                        refused_at=(13, 18) if dilated else (),
                        evaluated=evaluated("mean", rank, name),
                    )
                )
    op = p.AveragePool2D(**attributes(2))
    return cases + [
        IrCase(
            f"mean of {dtype}",
            pool(op, 2, dtype),
            evaluated=dtype is not DType.BFLOAT16,
            tolerance=1e-5 if dtype is DType.FLOAT64 else 1e-2,
        )
        for dtype in (DType.FLOAT16, DType.FLOAT64, DType.BFLOAT16)
    ]


def norm_cases() -> list[IrCase]:
    cases = []
    for rank in SHAPES:
        for name, changes in variants(rank).items():
            for order in (1, 2, 3) if rank == 2 else (2,):
                op = p.LpPool(**attributes(rank, p=order, **changes))
                new = not op.is_plain
                cases.append(
                    IrCase(
                        f"norm {rank}-D {name} {order}",
                        pool(op, rank),
                        nodes={"LpPool": 1},
                        opsets=(21, 27) if new else (13, 21, 27),
                        refused_at=(13,) if new else (),
                        evaluated=evaluated("norm", rank, name),
                    )
                )
    return cases


def others() -> list[IrCase]:
    """Places of maxima, and what undoes them; norms of whole images."""
    cases = []
    for rank, shape in SHAPES.items():
        for name, changes in variants(rank).items():
            for first in (False, True):
                op = p.MaxPoolIndices(**attributes(rank, column_major=first, **changes))

                def build(
                    b: Builder, op: Op = op, shape: tuple[int, ...] = shape
                ) -> tuple[Value, ...]:
                    return b.add_many(op, [b.input("x", DType.FLOAT32, shape)])

                # onnx's evaluator takes places in the padded image
                what = f"places {rank}-D {name}{' first dimension fastest' * first}"
                cases.append(IrCase(what, build, nodes={"MaxPool": 1}, evaluated=False))
        for layout in Layout:
            op = p.GlobalLpPool(layout=layout, p=3)
            plain = layout is Layout.NCHW
            nodes = {"GlobalLpPool": 1} if plain else None
            dims = tuple(range(1, rank + 1)) if not plain else tuple(range(2, rank + 2))

            def norm(x: np.ndarray, dims: tuple[int, ...] = dims) -> np.ndarray:
                return np.sum(np.abs(x) ** 3, dims, keepdims=True) ** (1 / 3)

            what = f"global norm {rank}-D {layout.value}"
            case = IrCase(what, pool(op, rank), expected=norm, nodes=nodes, nodes_at=21)
            cases.append(replace(case, evaluated=False))  # it has no such op
    return cases


def unpool(*, shape: str, dtype: DType = DType.FLOAT32) -> Build:
    """Places in a 2 x 3 x 8 x 6 tensor (``shape``: "" none, "constant", "open")."""
    op = p.MaxUnpool(window=(2, 2), stride=(2, 2), padding=Padding.none())

    def build(b: Builder) -> Value:
        x = b.input("x", dtype, (2, 3, 4, 3))
        wanted = op.replace(shape=(2, 3, 9, 7)) if shape == "constant" else op
        operands = [x, b.input("places", DType.INT64, (2, 3, 4, 3))]
        if shape == "open":
            operands.append(b.input("shape", DType.INT64, (4,)))
        return b.add(wanted, operands)

    return build


PLACES = np.random.default_rng(0).permutation(2 * 3 * 8 * 6)[:72].reshape(2, 3, 4, 3)


def scattered(shape: tuple[int, ...]) -> Callable[..., np.ndarray]:
    def put(x: np.ndarray, places: np.ndarray, *_: np.ndarray) -> np.ndarray:
        result = np.zeros(int(np.prod(shape)), x.dtype)
        result[places.ravel()] = x.ravel()
        return result.reshape(shape)

    return put


UNPOOLED = [
    IrCase("unpool", unpool(shape=""), [None, PLACES], scattered((2, 3, 8, 6))),
    IrCase(
        "unpool to a shape",
        unpool(shape="constant"),
        [None, PLACES],
        scattered((2, 3, 9, 7)),
        evaluated=False,
        note="onnx's evaluator takes places in the shape without the operand",
    ),
    IrCase(
        "unpool to a shape at run time",
        unpool(shape="open"),
        [None, PLACES, np.array([2, 3, 9, 7])],
        scattered((2, 3, 9, 7)),
        evaluated=False,
    ),
    IrCase("unpool int32", unpool(shape="", dtype=DType.INT32), [None, PLACES]),
]


@pytest.mark.parametrize("case", [*others(), *UNPOOLED], ids=str)
def test_other_pool(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)


@pytest.mark.parametrize("case", [*max_cases(), *mean_cases(), *norm_cases()], ids=str)
def test_pool(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)
