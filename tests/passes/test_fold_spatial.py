"""Pads taken into what reads them, dilated convolutions made whole: same results, fewer nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.ir import DType, Graph, Model, Signature, Value
from nnconv.ir.builder import Builder
from nnconv.ir.op import Activation, Op
from nnconv.ir.quant import Quant
from nnconv.ops import elementwise as e
from nnconv.ops.blocks import BatchToSpace, SpaceToBatch
from nnconv.ops.conv import Conv2D
from nnconv.ops.pool import AveragePool2D, MaxPool2D
from nnconv.ops.reduce import ReduceMax
from nnconv.ops.slices import Pad, PadMode
from nnconv.ops.spatial import Padding
from nnconv.passes.base import Pass, run_passes
from nnconv.passes.fold_dilation import FoldDilationPass
from nnconv.passes.fold_pads import FoldPadsPass
from support.spine import Case, check, onnx_ops, onnx_session
from support.tflite_builder import TfliteBuilder

QUANT = Quant.per_tensor(0.05, 3)
Made = Callable[[Builder, Value], Value]


def fold(
    build: Made, step: Pass, *, quant: Quant | None = None, shape: tuple[int, ...] = (2, 7, 9, 3)
) -> tuple[list[Op], Graph]:
    """Run a pass on a graph of one input; its results before and after are the same."""
    graph = Graph("g")
    b = Builder(graph)
    dtype = DType.FLOAT32 if quant is None else DType.INT8
    x = b.input("x", dtype, shape, quant=quant)
    graph.outputs = [build(b, x)]
    rng = np.random.default_rng(0)
    if quant is None:
        data = rng.standard_normal(shape).astype(np.float32)
    else:
        data = rng.integers(-128, 128, shape).astype(np.int8)
    (before,) = run_graph(graph, [data])
    run_passes(Model([Signature("", graph)]), [step], verify=True)
    (after,) = run_graph(graph, [data])
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-6)
    return [node.op for node in graph.nodes], graph


def weights(b: Builder, quant: Quant | None) -> list[Value]:
    rng = np.random.default_rng(1)
    if quant is None:
        return [b.const(rng.standard_normal((4, 3, 2, 3)).astype(np.float32))]
    codes = rng.integers(-127, 128, (4, 3, 2, 3)).astype(np.int8)
    return [b.const(codes, quant=Quant.per_tensor(0.01))]


def conv(b: Builder, x: Value, padding: Padding | None = None, stride: int = 1) -> Value:
    op = Conv2D(
        stride=(stride, stride), dilation=(1, 1), padding=padding or Padding.none(2), groups=1
    )
    return b.add(op, [x, *weights(b, x.quant), None], quant=x.quant, dtype=x.dtype, name="conv")


PADS = {"before": (0, 1, 2, 0), "after": (0, 2, 0, 0)}


@pytest.mark.parametrize("quant", [None, QUANT], ids=["float", "int8"])
@pytest.mark.parametrize("own", [Padding.none(2), Padding((1, 0), (0, 1))], ids=["none", "some"])
def test_zeros_go_into_a_convolution(quant: Quant | None, own: Padding) -> None:
    ops, _ = fold(lambda b, x: conv(b, b.add(Pad(**PADS), [x]), own), FoldPadsPass(), quant=quant)
    convolutions = [op for op in ops if isinstance(op, Conv2D)]
    before = tuple(n + p for n, p in zip(own.before, (1, 2), strict=True))
    after = tuple(n + p for n, p in zip(own.after, (2, 0), strict=True))
    assert convolutions[0].padding == Padding(before, after)


def used(graph: Graph) -> bool:
    """Whether something still reads a Pad."""
    return any(
        isinstance(node.op, Pad) and (node.outputs[0].use_count or node.outputs[0] in graph.outputs)
        for node in graph.nodes
    )


def pool(
    kind: type[AveragePool2D | MaxPool2D], pad: Pad, clip: Op | None = None, window: int = 3
) -> Made:
    def build(b: Builder, x: Value) -> Value:
        source = x if clip is None else b.add(clip, [x], quant=x.quant)
        op = kind(window=(window, window), stride=(2, 2), padding=Padding.none(2))
        return b.add(op, [b.add(pad, [source])], quant=x.quant, dtype=x.dtype)

    return build


FOLDED = {
    "average": (pool(AveragePool2D, Pad(**PADS)), None),
    "average int8": (pool(AveragePool2D, Pad(**PADS)), QUANT),
    "max of lowest": (pool(MaxPool2D, Pad(**PADS, value=-np.inf)), None),
    "max of lowest int8": (pool(MaxPool2D, Pad(**PADS, value=-1e9)), QUANT),
    "max of zeros behind relu": (
        pool(MaxPool2D, Pad(**PADS), e.Clip(low=0.0, high=6.0)),
        None,
    ),
}


@pytest.mark.parametrize("name", FOLDED)
def test_pads_go_into_a_pool(name: str) -> None:
    build, quant = FOLDED[name]
    _, graph = fold(build, FoldPadsPass(), quant=quant)
    assert not used(graph)


def two_readers(b: Builder, x: Value) -> Value:
    padded = b.add(Pad(**PADS), [x])
    return b.add(e.Add(), [conv(b, padded), conv(b, padded)])


def test_pads_go_into_all_readers() -> None:
    _, graph = fold(two_readers, FoldPadsPass())
    assert not used(graph)


def one_other_reader(b: Builder, x: Value) -> Value:
    padded = b.add(Pad(before=(0, 0, 0, 0), after=(0, 1, 1, 0)), [x])
    reached = b.add(Pad(before=(0, 0, 0, 0), after=(0, 2, 1, 0)), [conv(b, padded)])
    most = b.add(ReduceMax(axes=(3,), keep_dims=True), [padded])
    return b.add(e.Add(), [most, reached])


STAY: dict[str, Made] = {
    "another reader": one_other_reader,
    "not zero": lambda b, x: conv(b, b.add(Pad(**PADS, value=1.0), [x])),
    "reflect": lambda b, x: conv(b, b.add(Pad(**PADS, mode=PadMode.REFLECT), [x])),
    "channels": lambda b, x: b.add(
        AveragePool2D(window=(2, 2), stride=(1, 1), padding=Padding.none(2)),
        [b.add(Pad(before=(0, 1, 1, 0), after=(0, 0, 0, 1)), [x])],
    ),
    "batch": lambda b, x: conv(b, b.add(Pad(before=(1, 0, 0, 0), after=(0, 0, 0, 0)), [x])),
    "cut": lambda b, x: conv(b, b.add(Pad(before=(0, -1, 0, 0), after=(0, 0, 0, 0)), [x])),
    "more than the window": pool(AveragePool2D, Pad(**PADS), window=2),
    "max of zeros": pool(MaxPool2D, Pad(**PADS)),
    "average with padding": lambda b, x: b.add(
        AveragePool2D(window=(3, 3), stride=(1, 1), padding=Padding((1, 1), (1, 1))),
        [b.add(Pad(**PADS), [x])],
    ),
    "max of zeros behind tanh": lambda b, x: b.add(
        MaxPool2D(window=(3, 3), stride=(1, 1), padding=Padding.none(2)),
        [b.add(Pad(**PADS), [b.add(e.Mul(activation=Activation.TANH), [x, x])])],
    ),
}


@pytest.mark.parametrize("name", STAY)
def test_other_pads_stay(name: str) -> None:
    _, graph = fold(STAY[name], FoldPadsPass())
    assert used(graph)


def test_a_pad_that_goes_out_stays() -> None:
    graph = Graph("g")
    b = Builder(graph)
    padded = b.add(Pad(**PADS), [b.input("x", DType.FLOAT32, (2, 7, 9, 3))])
    graph.outputs = [padded, conv(b, padded)]
    assert not FoldPadsPass().run(graph)


def dilated(
    pads: tuple[tuple[int, int], ...],
    crops: tuple[tuple[int, int], ...],
    *,
    padding: Padding | None = None,
    stride: int = 1,
) -> Made:
    def build(b: Builder, x: Value) -> Value:
        spread = b.add(SpaceToBatch(block=(2, 3), pads=pads), [x])
        middle = conv(b, spread, padding, stride)
        return b.add(BatchToSpace(block=(2, 3), crops=crops), [middle], name="y")

    return build


WHOLE = {
    "same": (dilated(((2, 3), (1, 2)), ((0, 1), (0, 0))), Padding((2, 1), (2, 2))),
    "cropped": (dilated(((2, 3), (2, 1)), ((1, 1), (0, 0))), Padding((1, 2), (2, 1))),
    "own padding": (
        dilated(((0, 1), (0, 0)), ((0, 0), (1, 2)), padding=Padding((1, 1), (0, 1))),
        None,
    ),
}


@pytest.mark.parametrize("quant", [None, QUANT], ids=["float", "int8"])
@pytest.mark.parametrize("name", WHOLE)
def test_three_nodes_become_a_dilated_convolution(name: str, quant: Quant | None) -> None:
    build, _ = WHOLE[name]
    ops, graph = fold(build, FoldDilationPass(), quant=quant)
    assert [type(op) for op in ops] == [Conv2D]
    assert ops[0].attributes()["dilation"] == (2, 3)
    assert graph.outputs[0].name == "y"


@pytest.mark.parametrize(
    "build",
    [
        dilated(((2, 3), (1, 2)), ((0, 4), (0, 0))),
        dilated(((2, 3), (1, 2)), ((0, 0), (0, 0)), stride=2),
    ],
    ids=["crops more than pads", "stride"],
)
def test_others_stay_three(build: Made) -> None:
    ops, _ = fold(build, FoldDilationPass())
    assert len(ops) == 3


def test_all_passes_together_reach_onnx(tmp_path: Path) -> None:
    graph = Graph("g")
    b = Builder(graph)
    x = b.input("x", DType.FLOAT32, (2, 7, 9, 3))
    first = dilated(((2, 2), (1, 2)), ((0, 0), (0, 0)))(
        b, b.add(Pad(before=(0, 1, 0, 0), after=(0, 0, 0, 0)), [x])
    )
    graph.outputs = [first]
    data = np.random.default_rng(0).standard_normal((2, 7, 9, 3)).astype(np.float32)
    (expected,) = run_graph(graph, [data])
    path = tmp_path / "m.onnx"
    nnconv.save(Model([Signature("", graph)]), path)
    (result,) = onnx_session(path).run(None, {"x": data})
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert set(onnx_ops(path)) == {"Transpose", "Conv"}


@pytest.mark.parametrize("op", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
def test_padded_pools_agree_with_litert(op: str, dtype: str, tmp_path: Path) -> None:
    quant = {"int8": (0.05, -128), "uint8": (0.05, 0)}.get(dtype)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", dtype, (1, 6, 7, 3), quant=quant)
        relu = b.op("RELU", [x], [(dtype, (1, 6, 7, 3), quant)])
        pads = b.const(np.asarray([[0, 0], [1, 1], [1, 0], [0, 0]], np.int32))
        padded = b.op("PAD", [relu, pads], [(dtype, (1, 8, 8, 3), quant)])
        options = {"stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
        options |= {"padding": "VALID"}
        b.output(b.op(op, [padded], [(dtype, (1, 4, 4, 3), quant)], options=options))

    check(Case(f"{op}-{dtype}", build), tmp_path)
    assert "Pad" not in onnx_ops(tmp_path / "model.onnx")
