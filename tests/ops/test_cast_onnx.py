"""Conversions as ONNX has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.ir import Builder, DType, Graph, Model, Op, Signature, Value
from nnconv.ops.elementwise import Add
from nnconv.ops.quantize import Bitcast, Cast, LooseCast
from support.onnx_spine import IrCase, check_ir, on_litert
from support.tflite_spine import TfliteCase, check_tflite
from support.types import WHOLE

NUMBERS = np.asarray([-3.75, -1.5, -0.25, 0, 0.5, 1.25, 2.75, 7.5])


def unary(op: Op, dtype: DType) -> Callable[[Builder], Value]:
    return lambda b: b.add(op, [b.input("x", dtype, (8,))])


FLOATS = [DType.FLOAT32, DType.FLOAT16, DType.FLOAT64]

CASES = [
    IrCase(
        f"{source} to {target}",
        unary(LooseCast(dtype=target), source),
        [(NUMBERS if target.is_signed else np.abs(NUMBERS)).astype(source.numpy)],
        expected=np.trunc,
        nodes={"Cast": 1},
    )
    for source in FLOATS
    for target in WHOLE
]


def _low_bits(x: np.ndarray, dtype: DType) -> np.ndarray:
    span, (low, _) = 1 << dtype.bits, dtype.int_range
    return np.asarray([(int(v) - low) % span + low for v in x])


def _narrow(target: DType) -> Callable[[Builder], Value]:
    def build(b: Builder) -> Value:
        few = b.add(LooseCast(dtype=target), [b.input("x", DType.FLOAT32, (25,))])
        return b.add(Cast(dtype=DType.INT32), [few])

    return build


CASES += [
    IrCase(
        f"float32 to {target}",
        _narrow(target),
        [np.arange(-9, 16, dtype=np.float32)],
        expected=lambda x, target=target: _low_bits(x, target),
        nodes={"Cast": 2},
    )
    for target in (DType.INT4, DType.UINT4)
]

CASES += [
    IrCase(
        f"{source} to {target} as such",
        unary(Cast(dtype=target), source),
        [np.asarray([-130, -3, -1, 0, 1, 5, 127, 300]).astype(source.numpy)],
        expected=lambda x, target=target: x.astype(target.numpy),
        nodes={"Cast": 1},
    )
    for source, target in (
        (DType.INT32, DType.INT8),
        (DType.INT16, DType.UINT8),
        (DType.UINT8, DType.INT64),
        (DType.INT64, DType.FLOAT32),
        (DType.FLOAT64, DType.FLOAT16),
        (DType.FLOAT32, DType.BOOL),
        (DType.BOOL, DType.FLOAT32),
    )
]

BITS = np.random.default_rng(0).integers(0, 1 << 63, 8, np.uint64, endpoint=True)

CASES += [
    IrCase(
        f"bits of {source} as {target}",
        unary(Bitcast(dtype=target), source),
        [array],
        expected=[array.view(target.numpy)],
        nodes={"BitCast": 1} if source.is_float or target.is_float else {"Cast": 1},
        opsets=(26, 27) if source.is_float or target.is_float else (13, 21, 26, 27),
        refused_at=(21,) if source.is_float or target.is_float else (),
    )
    for source, target in (
        (DType.FLOAT32, DType.INT32),
        (DType.INT32, DType.FLOAT32),
        (DType.FLOAT64, DType.UINT64),
        (DType.INT64, DType.FLOAT64),
        (DType.FLOAT16, DType.UINT16),
        (DType.UINT32, DType.INT32),
        (DType.INT8, DType.UINT8),
    )
    for array in (BITS.astype(f"u{source.numpy.itemsize}").view(source.numpy),)
]

CASES += [
    IrCase(
        f"bytes of {source} as {target}",
        lambda b, source=source, target=target, shape=shape: b.add(
            Bitcast(dtype=target), [b.input("x", source, shape)]
        ),
        [np.float32([1.5, -2.25, 3e8]) if source.is_float else np.uint8([[0, 0, 128, 63]])],
        expected=lambda x, target=target: x.view(target.numpy).reshape(
            (*x.shape, 4) if target is DType.UINT8 else x.shape[:-1]
        ),
        opsets=(26, 27),
        evaluated=False,
    )
    for source, target, shape in (
        (DType.FLOAT32, DType.UINT8, (3,)),
        (DType.UINT8, DType.FLOAT32, (1, 4)),
    )
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cast(case: IrCase, tmp_path: Path) -> None:
    check_ir(case, tmp_path)


@pytest.mark.parametrize("case", on_litert(CASES), ids=str)
def test_cast_on_litert(case: TfliteCase, tmp_path: Path) -> None:
    check_tflite(case, tmp_path)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e30, -1e30, 2.75])
@pytest.mark.parametrize("target", [DType.INT8, DType.UINT8, DType.INT32, DType.INT64], ids=str)
def test_constants_that_integers_do_not_hold(target: DType, number: float, tmp_path: Path) -> None:
    """They become what a Cast in a run gives by the reference, without a warning."""

    def build(b: Builder, *, constant: bool) -> list[Value]:
        one = b.const(np.float32(number)) if constant else b.input("c", DType.FLOAT32, ())
        return [b.add(Add(), [b.input("x", target, (3,)), b.add(Cast(dtype=target), [one])])]

    x = np.zeros(3, target.numpy)
    graphs = {}
    for constant in (True, False):
        graph = Graph("g")
        graph.outputs = build(Builder(graph), constant=constant)
        graphs[constant] = graph
    (wanted,) = run_graph(graphs[False], [np.float32(number), x])
    path = tmp_path / "model.tflite"
    nnconv.save(Model([Signature("", graphs[True])]), path)
    (got,) = run_graph(nnconv.load(path).graph, [x])
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("target", [DType.INT32, DType.UINT8, DType.INT64, DType.INT4])
def test_floats_that_numpy_lacks_saturate_as_others_do(target: DType) -> None:
    """bfloat16 isn't of numpy's floating kind."""
    numbers = np.array([-1.5, 0.5, 300, np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9], np.float32)
    found = []
    for source in (DType.BFLOAT16, DType.FLOAT32):
        graph = Graph("cast")
        b = Builder(graph)
        x = b.input("x", source, numbers.shape)
        graph.outputs = [b.add(Cast(dtype=target), [x], name="y")]
        given = numbers.astype(DType.BFLOAT16.numpy).astype(source.numpy)
        model = Model([Signature("", graph, ("x",), ("y",))])
        found.append(nnconv.compile(model, "reference").run({"x": given})["y"])
    np.testing.assert_array_equal(*found)
    assert found[0][6:8].tolist() == [*reversed(target.int_range)]
