"""Whole quotients rounded down are found where they are spelled by remainders."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.ir import Builder, DType, Graph, Model, Op, Signature
from nnconv.ops.elementwise import Div, FloorDiv, FloorMod, Neg, Sub
from nnconv.ops.quantize import Cast
from nnconv.passes.base import run_passes
from nnconv.passes.prune import PrunePass
from nnconv.passes.tidy import TidyPass
from nnconv.passes.whole_quotients import WholeQuotientsPass

NUMBERS = np.asarray([-(2**31), -9, -8, -7, -1, 0, 1, 7, 8, 9, 2**31 - 1], np.int32)


def _spelled(
    divisor: int, *, wide: bool = True, cast_back: bool = True, other: bool = False
) -> Graph:
    b = Builder(Graph("net"))
    x = b.input("x", DType.INT32, (len(NUMBERS),))
    kind = DType.INT64 if wide else DType.INT32
    a = b.add(Cast(dtype=kind), [x]) if wide else x
    by = b.const(np.asarray(divisor, kind.numpy))
    rest = b.add(FloorMod(), [a, b.const(np.asarray(4, kind.numpy)) if other else by])
    y = b.add(Div(), [b.add(Sub(), [a, rest]), by])
    if wide and cast_back:
        y = b.add(Cast(dtype=DType.INT32), [y])
    b.graph.outputs = [b.add(Neg(), [y], name="y")]
    return b.graph


def _ops(graph: Graph) -> list[type[Op]]:
    return [type(node.op) for node in graph.nodes]


@pytest.mark.parametrize("divisor", [8, 1, -3, 2**31 - 1])
@pytest.mark.parametrize(
    ("back", "left"), [(True, [FloorDiv, Neg]), (False, [FloorDiv, Cast, Neg])]
)
def test_quotients_are_rounded_down_in_one_op(divisor, back, left):
    graph = _spelled(divisor, cast_back=back)
    (before,) = run_graph(graph, [NUMBERS])
    passes = [WholeQuotientsPass(), TidyPass(), PrunePass()]
    run_passes(Model([Signature("", graph)]), passes, verify=True)
    assert _ops(graph) == left
    (after,) = run_graph(graph, [NUMBERS])
    np.testing.assert_array_equal(after, before)
    np.testing.assert_array_equal(after, -(NUMBERS.astype(before.dtype) // divisor))


@pytest.mark.parametrize(
    ("divisor", "options"),
    [(-1, {}), (2**31, {}), (-(2**31) - 1, {}), (8, {"other": True}), (8, {"wide": False})],
)
def test_what_is_no_such_quotient_stays(divisor, options):
    """Among it what leaves 32 bits: the least number by -1, or less something."""
    assert not WholeQuotientsPass().run(_spelled(divisor, **options))


NET = """
<ir_version: 8, opset_import: ["": 17]>
net (int32[5] x) => (int32[5] y) <int64 by = {8}> {
  a = Cast <to = 7> (x)
  rest = Mod (a, by)
  less = Sub (a, rest)
  wide = Div (less, by)
  y = Cast <to = 6> (wide)
}
"""


def test_a_quotient_of_onnx_is_one_operator(tmp_path):
    source, target = tmp_path / "net.onnx", tmp_path / "net.tflite"
    onnx.save(onnx.parser.parse_model(NET), source)
    report = nnconv.convert(source, target, verify=True)
    assert report.verified
    assert report.counts == {"FLOOR_DIV": 1}
