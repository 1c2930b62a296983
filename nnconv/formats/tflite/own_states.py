"""States that an operator keeps itself, in a variable tensor, as the recurrent ones must.

Such a tensor starts with zeros, and its operator replaces its content in each run. All other states
are resources (see ``resources``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, State, Value
from nnconv.ir.op import Role
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops.rnn import Lstm, Rnn
from nnconv.ops.shape import Reshape
from nnconv.ops.svdf import QuantizedSvdf, Svdf

_KEEPERS = (Lstm, Rnn, Svdf, QuantizedSvdf)
"""Behind the first of their results are what their states become."""


def find_own_states(graph: Graph, states: Sequence[State]) -> dict[Value, Value]:
    """The states, of the main graph, that an operator may keep: before it, and after it.

    A Reshape between a state and its node is taken out: the state then has the node's shape.
    """
    if not states:
        return {}
    first, last = len(graph.inputs) - len(states), len(graph.outputs) - len(states)
    found = {}
    for place, state in enumerate(states):
        before = graph.inputs[first + place]
        after = graph.outputs[last + place]
        if not _starts_empty(state, before.type):
            continue
        pair = _pair(graph, before, after)
        if pair is None:
            continue
        node, operand, outer, result, around = pair
        if outer is not before:
            before.type = outer.type
            node.replace_input_with(operand, before)
        if around is not result:
            result.name = around.name
            graph.replace_output(around, result)
        for inner in (outer, around):
            reshape = inner.producer
            if reshape is not None and reshape is not node:
                graph.remove(reshape)
        found[before] = result
    return found


def _starts_empty(state: State, kind: TensorType) -> bool:
    """Whether a state starts as a variable tensor does."""
    if static_shape(kind.shape) is None:
        return False
    fill = kind.quant.zero_point[0] if kind.quant and kind.dtype is DType.INT8 else 0
    return bool(np.all(state.initial == fill))


def _pair(
    graph: Graph, before: Value, after: Value
) -> tuple[Node, int, Value, Value, Value] | None:
    """The node that alone reads a state and makes its next value, in what operand and result.

    Reshapes are looked through.
    """
    if before.use_count != 1 or after.use_count or graph.outputs.count(after) != 1:
        return None
    outer, result = before, after
    use = outer.uses[0]
    if isinstance(use.node.op, Reshape):
        outer = use.node.outputs[0]
        if outer.use_count != 1 or outer in graph.outputs:
            return None
        use = outer.uses[0]
    maker = after.producer
    if maker is not None and isinstance(maker.op, Reshape):
        source = maker.inputs[0]
        if source is None or source.use_count != 1 or source in graph.outputs:
            return None
        result, maker = source, source.producer
    op = use.node.op
    if maker is not use.node or not isinstance(op, _KEEPERS) or not result.index:
        return None
    if op.places_of(Role.STATE)[result.index - 1] != use.index:
        return None
    if static_shape(outer.shape) is None or static_shape(outer.shape) != static_shape(result.shape):
        return None
    if outer.dtype is not result.dtype or outer.quant != result.quant:
        return None
    return use.node, use.index, outer, result, after
