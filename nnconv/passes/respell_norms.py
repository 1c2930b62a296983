"""Finds norms that are spelled as means, differences and roots: formats without them write so."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation, Op
from nnconv.ir.types import static_shape
from nnconv.ops.elementwise import (
    Add,
    Div,
    Mul,
    Pow,
    Rsqrt,
    Sqrt,
    Square,
    SquaredDifference,
    Sub,
)
from nnconv.ops.reduce import ReduceMean
from nnconv.ops.standardize import InstanceNormalization, LayerNormalization
from nnconv.passes.base import Pass
from nnconv.passes.terms import is_plain, made_by, number_of


class RespellNormsPass(Pass):
    """Makes one op of (x - mean) / root of (variance + epsilon) * scale + offset.

    Statistics of the last dimensions are LayerNormalization; those of all dimensions but the first
    and one, the channels, before or behind them, with a scale and an offset of the channels,
    InstanceNormalization. What nothing reads any more is left to prune.
    """

    name: ClassVar[str] = "respell_norms"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph: from each root of a variance forward."""
        modified = False
        outputs: set[Value] | None = None
        for node in graph.nodes:
            if not isinstance(node.op, Rsqrt | Sqrt) or not is_plain(node.outputs[0]):
                continue
            found = _norm(node)
            if found is None:
                continue
            outputs = graph.output_set() if outputs is None else outputs
            found = _with_factors(found, outputs)
            modified |= _put(graph, found, outputs)
        return modified


class _Norm(NamedTuple):
    """A norm without, or with, what scales and moves it.

    Attributes:
        x: what it is of.
        axes: the dimensions of its statistics.
        epsilon: what is added to the variance.
        last: the node that gives it.
        nodes: the nodes between.
        scale, offset: constants that follow; None for none.
    """

    x: Value
    axes: tuple[int, ...]
    epsilon: float
    last: Node
    nodes: list[Node]
    scale: np.ndarray | None = None
    offset: np.ndarray | None = None


def _norm(root: Node) -> _Norm | None:
    """The norm whose deviation, or its inverse, a node gives."""
    total = made_by(root.inputs[0], Add)
    if total is None:
        return None
    epsilon = next((number for v in total.inputs if (number := number_of(v)) is not None), None)
    variance = next((v for v in total.inputs if v is not None and v.data is None), None)
    mean_of_squares = made_by(variance, ReduceMean)
    if epsilon is None or mean_of_squares is None or not 0 <= epsilon < 1:
        return None
    squares = mean_of_squares.inputs[0].producer if mean_of_squares.inputs[0] else None
    found = None if squares is None else _deviation(squares)
    if found is None or squares is None:
        return None
    x, mean, difference = found
    means = made_by(mean, ReduceMean)
    if means is None or means.inputs[0] is not x or x is None or not is_plain(x):
        return None
    axes = means.op.axes  # type: ignore[attr-defined]
    if axes is None or means.op != mean_of_squares.op or not means.op.keep_dims:  # type: ignore[attr-defined]
        return None
    nodes = [root, total, mean_of_squares, squares, means]
    if difference is not None:
        nodes.append(difference)
    last = _quotient(root, x, mean)
    if last is None:
        return None
    difference = made_by(_other(last, root.outputs[0]), Sub)
    nodes += [] if difference is None or difference in nodes else [difference]
    return _Norm(x, tuple(sorted(axes)), epsilon, last, nodes)


def _deviation(squares: Node) -> tuple[Value | None, Value | None, Node | None] | None:
    """What a node gives the squared differences of, its mean, and the Sub if there is one."""
    if isinstance(squares.op, SquaredDifference):
        x, mean = squares.inputs
        return x, mean, None
    d = squares.inputs[0]
    if isinstance(squares.op, Mul) and squares.inputs[1] is not d:
        return None
    if isinstance(squares.op, Pow) and number_of(squares.inputs[1]) != 2:
        return None
    if not isinstance(squares.op, Mul | Square | Pow):
        return None
    difference = made_by(d, Sub)
    return None if difference is None else (*difference.inputs, difference)  # type: ignore[return-value]


def _quotient(root: Node, x: Value, mean: Value | None) -> Node | None:
    """The product of x - mean with an inverse root, or its quotient by a root."""
    kind = Mul if isinstance(root.op, Rsqrt) else Div
    r = root.outputs[0]
    if r.use_count != 1 or not isinstance(r.uses[0].node.op, kind):
        return None
    node = r.uses[0].node
    if kind is Div and node.inputs[1] is not r:
        return None
    difference = made_by(_other(node, r), Sub)
    if difference is None or difference.inputs != (x, mean):
        return None
    return node if node.outputs[0].shape == x.shape else None


def _other(node: Node, value: Value) -> Value | None:
    a, b = node.inputs
    return b if a is value else a


def _with_factors(found: _Norm, outputs: set[Value]) -> _Norm:
    """The norm once a constant factor, and then a constant term, behind it are part of it."""
    for kind in (Mul, Add):
        y = found.last.outputs[0]
        if getattr(found.last.op, "activation", Activation.NONE) is not Activation.NONE:
            break
        if y.use_count != 1 or y in outputs:
            break
        node = y.uses[0].node
        if not isinstance(node.op, kind) or node.outputs[0].shape != y.shape:
            continue
        other = _other(node, y)
        if other is None or other.data is None or not is_plain(other):
            continue
        scale = other.data if kind is Mul else found.scale
        offset = other.data if kind is Add else found.offset
        wider = found._replace(
            last=node, nodes=[*found.nodes, found.last], scale=scale, offset=offset
        )
        if _form(wider) is not None:
            found = wider
    return found


class _Form(NamedTuple):
    """The op of a norm, and its parameters."""

    op: Op
    scale: np.ndarray
    offset: np.ndarray


def _form(found: _Norm) -> _Form | None:
    """How a norm is spelled as one op."""
    shape = static_shape((found.x.shape or ())[1:])
    if shape is None:
        return None
    rank, first = len(shape) + 1, found.axes[0] if found.axes else 0
    behind = found.axes == tuple(range(first, rank))
    forms: list[tuple[Op, tuple[int, ...]]] = []
    if behind and first > 0:
        op = LayerNormalization(axis=first, epsilon=found.epsilon)
        forms.append((op, tuple(range(first, rank))))
    if behind and first == 2 < rank:
        forms.append((InstanceNormalization(axis=1, epsilon=found.epsilon), (1,)))
    if rank > 2 and found.axes == tuple(range(1, rank - 1)):
        forms.append((InstanceNormalization(axis=rank - 1, epsilon=found.epsilon), (rank - 1,)))
    given = (
        np.ones((), np.float32) if found.scale is None else found.scale,
        np.zeros((), np.float32) if found.offset is None else found.offset,
    )
    for form, dims in forms:
        scale, offset = (_along(values, dims, (1, *shape)) for values in given)
        if scale is not None and offset is not None:
            return _Form(form, scale, offset)
    return None


def _along(values: np.ndarray, dims: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray | None:
    """A constant as one of these dimensions of a shape alone; None if it has others."""
    if values.ndim > len(shape):
        return None
    whole = values.reshape((1,) * (len(shape) - values.ndim) + values.shape)
    if any(extent != 1 for dim, extent in enumerate(whole.shape) if dim not in dims):
        return None
    inner = whole.reshape(tuple(whole.shape[dim] for dim in dims))
    return np.broadcast_to(inner, tuple(shape[dim] for dim in dims))


def _put(graph: Graph, found: _Norm, outputs: set[Value]) -> bool:
    form = _form(found)
    if form is None or found.x.dtype is not DType.FLOAT32:
        return False
    if getattr(found.last.op, "activation", Activation.NONE) is not Activation.NONE:
        return False
    inside = {*found.nodes, found.last}
    if any(
        value in outputs or any(use.node not in inside for use in value.uses)
        for node in found.nodes
        for value in node.outputs
    ):
        return False
    builder = Builder(graph, before=found.last, origin=found.last.origin)
    dtype = found.x.dtype.numpy
    both = [builder.const(np.ascontiguousarray(v, dtype)) for v in (form.scale, form.offset)]
    if isinstance(form.op, LayerNormalization) and found.offset is None:
        both.pop()
    found.last.op = form.op
    found.last.set_inputs([found.x, *both])
    return True
