"""Constant codes that are widened by arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.ir import Builder, DType, Graph, Model, Quant, Signature, TensorType, Value
from nnconv.ops.elementwise import Add, Mul, Sub
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.norm import Softmax
from nnconv.ops.product import Gemm
from nnconv.ops.quantize import Bitcast, Cast, Dequantize, Quantize
from nnconv.ops.shape import Transpose
from nnconv.passes.base import run_passes
from nnconv.passes.join_codes import JoinCodesPass
from nnconv.passes.join_products import JoinProductsPass
from nnconv.passes.prune import PrunePass

RNG = np.random.default_rng(0)
CODES = RNG.integers(-100, 100, (4, 3)).astype(np.int8)
SCALES = np.array([0.5, 0.25, 0.125, 1.5], np.float32)
POINTS = np.array([1, -2, 3, 0], np.float32)


class _Net:
    def __init__(self, codes: np.ndarray = CODES) -> None:
        self.graph = Graph("net")
        self.b = Builder(self.graph)
        self.x = self.b.input("x", DType.FLOAT32, (4, 3))
        self.codes = self.b.const(codes, "codes")

    def const(self, *numbers: float, shape: tuple[int, ...] = ()) -> Value:
        return self.b.const(np.asarray(numbers, np.float32).reshape(shape))

    def real(self, value: Value | None = None) -> Value:
        return self.b.add(Cast(dtype=DType.FLOAT32), [value or self.codes])

    def widened(self, scale: Value, points: Value | None = None) -> Value:
        real = self.real()
        real = real if points is None else self.b.add(Sub(), [real, points])
        return self.b.add(Mul(), [real, scale])

    def run(self, y: Value) -> list[type]:
        self.graph.outputs = [self.b.add(Add(), [y, self.x]) if y.shape == self.x.shape else y]
        x = RNG.standard_normal((4, 3)).astype(np.float32)
        before = run_graph(self.graph, [x])
        steps = [JoinCodesPass(), JoinProductsPass(), PrunePass()]
        run_passes(Model([Signature("", self.graph)]), steps, verify=True)
        np.testing.assert_allclose(run_graph(self.graph, [x])[0], before[0], rtol=1e-6, atol=1e-6)
        return [type(node.op) for node in self.graph.nodes]

    @property
    def quant(self) -> Quant | None:
        (found,) = [n.inputs[0] for n in self.graph.nodes if isinstance(n.op, Dequantize)]
        assert found is not None
        return found.quant


def test_one_scale():
    net = _Net()
    assert net.run(net.widened(net.const(0.25))) == [Dequantize, Add]
    assert net.quant == Quant.per_tensor(0.25)


def test_one_scale_and_zero_point():
    net = _Net()
    y = net.widened(net.const(0.25, shape=(1, 1)), net.const(3))
    assert net.run(y) == [Dequantize, Add]
    assert net.quant == Quant.per_tensor(0.25, 3)


def test_scales_by_row():
    net = _Net()
    y = net.widened(net.const(*SCALES, shape=(4, 1)), net.const(*POINTS, shape=(4, 1)))
    assert net.run(y) == [Dequantize, Add]
    assert net.quant == Quant(scale=tuple(SCALES.tolist()), zero_point=(1, -2, 3, 0), axis=0)


def test_one_scale_and_zero_points_by_column():
    net = _Net()
    assert net.run(net.widened(net.const(0.5), net.const(1, 2, 3, shape=(3,)))) == [Dequantize, Add]
    assert net.quant == Quant(scale=(0.5,) * 3, zero_point=(1, 2, 3), axis=1)


def test_products_read_the_codes_turned():
    net = _Net()
    matrix = net.b.add(Transpose(perm=(1, 0)), [net.widened(net.const(*SCALES, shape=(4, 1)))])
    assert net.run(net.b.add(MatMul(), [net.x, matrix])) == [Dequantize, FullyConnected]
    assert net.quant == Quant.per_channel(SCALES.tolist(), axis=0)


@pytest.mark.parametrize("turned", [False, True])
def test_gemm_becomes_a_layer(turned):
    net = _Net(CODES if turned else CODES.T.copy())
    matrix = net.widened(net.const(0.5))
    op = Gemm(alpha=1.0, beta=1.0, transpose_a=False, transpose_b=turned)
    y = net.b.add(op, [net.x, matrix, net.const(*SCALES, shape=(4,))])
    assert net.run(y) == [Dequantize, FullyConnected]


@pytest.mark.parametrize(
    "reason", ["negative", "half a point", "far point", "two axes", "whole", "run time", "wider"]
)
def test_what_no_parameters_say_stays(reason):
    net = _Net()
    if reason == "run time":
        codes = net.b.add(Cast(dtype=DType.INT8), [net.x])
        y = net.b.add(Mul(), [net.real(codes), net.const(0.5)])
    elif reason == "wider":
        y = net.b.add(Mul(), [net.real(), net.const(0.5, shape=(1, 1, 1))])
    elif reason == "two axes":
        y = net.widened(net.const(*SCALES, shape=(4, 1)), net.const(1, 2, 3, shape=(3,)))
    elif reason == "whole":
        y = net.widened(net.const(*range(1, 13), shape=(4, 3)))
    else:
        point = {"half a point": 0.5, "far point": 200.0}.get(reason, 0.0)
        y = net.widened(net.const(-1.0 if reason == "negative" else 0.5), net.const(point))
    assert Dequantize not in net.run(y)


def _behind_softmax(point: int, scale: float) -> list[type]:
    net = _Net()
    quant = Quant.per_tensor(0.25, point)
    codes = net.b.add(Quantize(dtype=DType.UINT8), [net.x], quant=quant)
    plain = net.b.add_typed(Bitcast(dtype=DType.UINT8), [codes], [TensorType(DType.UINT8, (4, 3))])
    real = net.b.add(Mul(), [net.real(plain[0]), net.const(scale)])
    return net.run(net.b.add(Softmax(axis=1), [real]))


def test_a_softmax_does_not_see_the_zero_point():
    assert _behind_softmax(96, 0.25) == [Quantize, Dequantize, Softmax, Add]
    assert Dequantize not in _behind_softmax(96, 0.5)
    assert _behind_softmax(0, 0.25) == [Quantize, Dequantize, Softmax, Add]
