"""What is known beforehand of small integer tensors and of truths about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nnconv
from nnconv.ir import Builder, DType, Graph, Value
from nnconv.ops import elementwise as e
from nnconv.ops import shape as s
from nnconv.ops.elements import elements
from nnconv.ops.quantize import Cast
from nnconv.ops.slices import Reverse
from support.onnx_routes import OnnxCase, check_routes, node


def _shape(b: Builder) -> Value:
    """(2, "n", 3, None)."""
    return b.add(s.ShapeOf(dtype=DType.INT64), [b.input("x", DType.FLOAT32, (2, "n", 3, None))])


def _numbers(b: Builder, *numbers: int) -> Value:
    return b.const(np.asarray(numbers, np.int64))


def _turned(b: Builder) -> Value:
    square = b.add(s.Reshape(shape=(2, 2)), [_shape(b)])
    return b.add(s.Reshape(shape=(4,)), [b.add(s.Transpose(perm=(1, 0)), [square])])


def _compared(op: e.Comparison, *numbers: int) -> Callable[[Builder], Value]:
    return lambda b: b.add(op, [_shape(b), _numbers(b, *numbers)])


def _chosen(b: Builder) -> Value:
    is_two = b.add(e.Equal(), [_shape(b), _numbers(b, 2)])
    return b.add(e.Select(), [is_two, _numbers(b, 7, 7, 7, 7), _shape(b)])


def _twice(b: Builder) -> Value:
    shape = _shape(b)
    return b.add(e.Equal(), [shape, shape])


def _logical(op: e.LogicalAnd) -> Callable[[Builder], Value]:
    def build(b: Builder) -> Value:
        known = b.const(np.asarray([True, False, False, True]))
        return b.add(op, [b.add(e.Equal(), [_shape(b), _numbers(b, 2)]), known])

    return build


CASES: dict[str, tuple[Callable[[Builder], Value], list[object] | None]] = {
    "shape": (_shape, [2, "n", 3, None]),
    "transpose": (_turned, [2, 3, "n", None]),
    "reverse": (lambda b: b.add(Reverse(axes=(0,)), [_shape(b)]), [None, 3, "n", 2]),
    "equal": (_compared(e.Equal(), 2, 2, 2, 2), [True, None, False, None]),
    "not equal": (_compared(e.NotEqual(), 2, 2, 2, 2), [False, None, True, None]),
    "less": (_compared(e.Less(), 3, 3, 3, 3), [True, None, False, None]),
    "greater": (_compared(e.Greater(), 2, 2, 2, 2), [False, None, True, None]),
    "same": (_twice, [True, True, True, None]),
    "select": (_chosen, [7, None, 3, None]),
    "not": (
        lambda b: b.add(e.LogicalNot(), [_compared(e.Equal(), 2, 2, 2, 2)(b)]),
        [False, None, True, None],
    ),
    "and": (_logical(e.LogicalAnd()), [True, False, False, None]),
    "or": (_logical(e.LogicalOr()), [True, None, False, True]),
    "truth": (
        lambda b: b.add(Cast(dtype=DType.BOOL), [_shape(b)]),
        [True, None, True, None],
    ),
    "number": (
        lambda b: b.add(Cast(dtype=DType.INT32), [_compared(e.Equal(), 2, 2, 2, 2)(b)]),
        [1, None, 0, None],
    ),
    "floats": (lambda b: b.add(Cast(dtype=DType.FLOAT32), [_shape(b)]), None),
}


@pytest.mark.parametrize("name", CASES)
def test_elements(name: str) -> None:
    build, wanted = CASES[name]
    found = elements(build(Builder(Graph())), {})
    told = None if found is None else found.reshape(-1).tolist()
    assert told == wanted
    if told is not None:
        assert [type(a) for a in told] == [type(a) for a in wanted or ()]


def test_size_of_open_extents() -> None:
    b = Builder(Graph())
    known = b.add(s.Size(), [b.input("x", DType.FLOAT32, (2, 3))])
    one_open = b.add(s.Size(), [b.input("y", DType.FLOAT32, (1, "n"))])
    assert elements(known, {}) == np.asarray(6)
    assert elements(one_open, {}) == np.asarray("n", object)


def _branches() -> OnnxCase:
    """Whether the first extent is 1 is known as soon as the shape is."""
    from onnx import TensorProto, helper

    def body(name: str, op_type: str) -> object:
        made = node(op_type, ["x"], [name])
        info = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        return helper.make_graph([made], name, [], [info])

    nodes = [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("Equal", ["s", "one"], ["c"]),
        node("If", ["c"], ["y"], then_branch=body("t", "Neg"), else_branch=body("f", "Abs")),
    ]
    return OnnxCase(
        "if",
        nodes,
        {"x": np.asarray([[1, -2, 3]], np.float32)},
        constants={"one": np.asarray([1])},
        results=["float32"],
        same_nodes=False,
        ops={"NEG": 1},
    )


def test_branch_that_shapes_choose_is_inlined(tmp_path: Path) -> None:
    case = _branches()
    check_routes(case, tmp_path)
    kinds = [n.op.name for n in nnconv.load(tmp_path / "case.onnx").graph.nodes]
    assert "If" not in kinds
