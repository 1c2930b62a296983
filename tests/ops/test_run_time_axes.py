"""Axes that a run gives: the reference takes those that there are, and refuses all others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
from nnconv.backends.reference.executor import all_kernels, run_graph

from nnconv.errors import BackendError
from nnconv.ir import Builder, DType, Graph, Op
from nnconv.ir.op import Operand, Role
from nnconv.ops.dynamic import DynamicSlice, DynamicSqueeze, DynamicUnsqueeze
from nnconv.ops.signal import Dft


@dataclass(frozen=True)
class Form:
    """What an op is tried on.

    Attributes:
        shape: of its data.
        axes: those that there are, from the front and from the end.
        bounds: what its other index operands are; those that aren't named are absent.
    """

    shape: tuple[int, ...] = (2, 3, 2)
    axes: Collection[int] = range(-3, 3)
    bounds: Mapping[str, int] = field(default_factory=dict)


FORMS = {
    Dft: Form(axes=(-3, -2, 0, 1)),  # the last one has the parts of complex numbers
    DynamicSlice: Form(bounds={"starts": 1, "ends": 2}),
    DynamicSqueeze: Form(shape=(1, 1, 1)),
    DynamicUnsqueeze: Form(axes=range(-4, 4)),  # of the result
}
"""Ops that differ from the others."""


def _is_axes(operand: Operand) -> bool:
    return operand.role is Role.INDEX and operand.name in ("axes", "axis")


CASES = [
    pytest.param(kind, FORMS.get(kind, Form()), axis, id=f"{kind.__name__} {axis}")
    for kind in all_kernels()
    if any(_is_axes(operand) for operand in kind.operands)
    for axis in range(-5, 5)
]


def _graph(kind: type[Op], form: Form, axis: int) -> tuple[Graph, dict[str, np.ndarray]]:
    """A graph of one op whose axes are an input, and what to run it on."""
    data, *others = kind.operands
    dtype = DType.FLOAT32 if DType.FLOAT32 in data.types else DType.BOOL
    feeds = {data.name: np.arange(np.prod(form.shape)).reshape(form.shape).astype(dtype.numpy)}
    for operand in others:
        number = axis if _is_axes(operand) else form.bounds.get(operand.name)
        if number is not None:
            feeds[operand.name] = np.int64([number])
    b = Builder(Graph("axes"))
    made = {name: b.input(name, DType.of(array), array.shape) for name, array in feeds.items()}
    op = kind(**{name: None for name in ("axes", "axis") if name in kind.field_names()})
    b.graph.outputs = [b.add(op, [made.get(operand.name) for operand in kind.operands])]
    return b.graph, feeds


@pytest.mark.parametrize(("kind", "form", "axis"), CASES)
def test_axes_are_taken_where_they_are_there(kind: type[Op], form: Form, axis: int) -> None:
    """As if they had been known before."""
    graph, feeds = _graph(kind, form, axis)
    if axis not in form.axes:
        with pytest.raises(BackendError, match=f"^{kind.__name__} .*(range|bounds|rank)"):
            run_graph(graph, list(feeds.values()))
        return
    (node,) = graph.nodes
    known = [None, *(v and tuple(feeds[v.name]) for v in node.inputs[1:])]
    op, taken = node.op.specialize(known, [v and v.type for v in node.inputs])
    assert {i for i, operand in enumerate(kind.operands) if _is_axes(operand)} <= taken
    b = Builder(Graph("known"))
    b.graph.inputs = graph.inputs[:1]
    b.graph.outputs = [b.add(op, [v for i, v in enumerate(node.inputs) if i not in taken])]
    (found,), (wanted,) = run_graph(graph, list(feeds.values())), run_graph(b.graph, [feeds["x"]])
    np.testing.assert_array_equal(found, wanted)
