"""What runs quantize for products of integers is done in floats, to the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import DType, Graph, Model, Signature, Value
from nnconv.ir.builder import Builder
from nnconv.ir.op import Layout
from nnconv.ops.conv import ConvInteger
from nnconv.ops.elementwise import Mul
from nnconv.ops.product import MatMulInteger
from nnconv.ops.quantize import Cast, DynamicQuantize
from nnconv.ops.spatial import Padding
from nnconv.passes.base import run_passes
from nnconv.passes.prune import PrunePass
from nnconv.passes.spell_dynamic import SpellDynamicPass

RNG = np.random.default_rng(0)
Product = Callable[[Builder, Value, Value], Value]


def conv(dtype: str, points: np.ndarray | None) -> Product:
    def build(b: Builder, codes: Value, point: Value) -> Value:
        weights = b.const(RNG.integers(0, 120, (4, 3, 3, 3)).astype(dtype))
        more = [] if points is None else [b.const(points.astype(dtype))]
        op = ConvInteger(
            layout=Layout.NCHW, stride=(1, 2), dilation=(1, 1), padding=Padding((1, 1), (1, 1))
        )
        return b.add(op, [codes, weights, point, *more])

    return build


def matmul(dtype: str, depth: int = 6) -> Product:
    def build(b: Builder, codes: Value, point: Value) -> Value:
        weights = b.const(RNG.integers(0, 120, (depth, 5)).astype(dtype))
        return b.add(MatMulInteger(), [codes, weights, point])

    return build


def spelled(shape: tuple[int, ...], *products: Product, cast: DType = DType.FLOAT32) -> list[str]:
    """The ops of a graph behind the pass; it gives what it gave."""
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, shape)
    codes, scale, point = b.add_many(DynamicQuantize(), [x])
    for number, build in enumerate(products):
        sums = b.add(Cast(dtype=cast), [build(b, codes, point)])
        graph.outputs.append(
            b.add(Mul(), [sums, scale], name=f"y{number}") if cast is DType.FLOAT32 else sums
        )
    feeds = [
        (RNG.standard_normal(shape) * 3).astype(np.float32),
        np.zeros(shape, np.float32),
        np.full(shape, -2, np.float32),
    ]
    before = [run_graph(graph, [feed]) for feed in feeds]
    run_passes(Model([Signature("", graph)]), [SpellDynamicPass(), PrunePass()], verify=True)
    for feed, wanted in zip(feeds, before, strict=True):
        for got, array in zip(run_graph(graph, [feed]), wanted, strict=True):
            np.testing.assert_array_equal(got, array)
    return [node.op.name for node in graph.nodes]


IMAGE = (1, 3, 6, 7)
CASES: dict[str, tuple[tuple[int, ...], list[Product]]] = {
    "conv int8": (IMAGE, [conv("int8", None)]),
    "conv uint8": (IMAGE, [conv("uint8", np.array(60))]),
    "conv points": (IMAGE, [conv("uint8", np.array([3, 60, 0, 110]))]),
    "two convs": (IMAGE, [conv("int8", None), conv("uint8", np.array(7))]),
    "matmul": ((2, 4, 6), [matmul("int8")]),
    "matmul and conv": ((*IMAGE[:3], 6), [matmul("uint8"), conv("int8", None)]),
}


@pytest.mark.parametrize("case", CASES)
def test_products_of_codes_become_products_of_floats(case: str) -> None:
    shape, products = CASES[case]
    ops = spelled(shape, *products)
    assert not {"DynamicQuantize", "Cast", "ConvInteger", "MatMulInteger"} & set(ops)


def test_sums_that_float32_does_not_hold_stay() -> None:
    assert "MatMulInteger" in spelled((1, 300), matmul("int8", 300))


def test_sums_that_stay_integers_stay() -> None:
    assert "ConvInteger" in spelled(IMAGE, conv("int8", None), cast=DType.INT64)


def test_codes_that_go_out_stay() -> None:
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, IMAGE)
    codes, _, point = b.add_many(DynamicQuantize(), [x])
    sums = b.add(Cast(dtype=DType.FLOAT32), [conv("int8", None)(b, codes, point)])
    graph.outputs = [codes, sums]
    assert not SpellDynamicPass().run(graph)
