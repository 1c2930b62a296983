"""Gives 1-D convolutions and pools a height of 1: for formats that only have the 2-D ones.

What lies between them and can work with that height gets it too, so that no reshapes are left
inside. The height stands before the width in either layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import LayoutKind, Op
from nnconv.ir.types import TensorType
from nnconv.ops.conv import Conv1D, Conv2D, ConvTranspose1D, ConvTranspose2D
from nnconv.ops.norm import LogSoftmax, Softmax
from nnconv.ops.pool import AveragePool1D, AveragePool2D, MaxPool1D, MaxPool2D
from nnconv.ops.reduce import Reduction
from nnconv.ops.rewrite import constant_behind, reshaped
from nnconv.ops.shape import Concat, Split, Squeeze, Unsqueeze
from nnconv.ops.slices import Pad, Slice
from nnconv.ops.spatial import Padding, spatial_dims
from nnconv.passes.base import Pass

_RAISED: dict[type[Op], type[Op]] = {
    Conv1D: Conv2D,
    ConvTranspose1D: ConvTranspose2D,
    MaxPool1D: MaxPool2D,
    AveragePool1D: AveragePool2D,
}


class RaiseRowsPass(Pass):
    """One walk: each node sees which of its operands have a height already."""

    name: ClassVar[str] = "raise_rows"

    def run(self, graph: Graph) -> bool:
        """Raise one graph's rows."""
        high: dict[Value, _High] = {}
        replaced: dict[Value, Value] = {}
        for node in graph.nodes:
            builder = Builder(graph, before=node, origin=node.origin)
            made = _raise_op(node, high, builder) or _raise_follower(node, high, builder)
            if made is None:
                continue
            for old, tall in zip(node.outputs, made.values, strict=True):
                low = builder.add_typed(
                    Squeeze(axes=(made.axis,)), [tall], [old.type], names=[old.name]
                )[0]
                high[low] = _High(made.axis, tall)
                old.replace_all_uses_with(low)
                replaced[old] = low
            graph.remove(node, safe=False)
        if replaced:
            graph.outputs = [replaced.get(value, value) for value in graph.outputs]
        return bool(replaced)

    def broken(self, graph: Graph) -> str:
        """No such op of known rank is left."""
        left = [n for n in graph.nodes if type(n.op) in _RAISED and _rank(n) == 3]
        return f"still has {left[0]!r}" if left else ""


class _High(NamedTuple):
    """What a value of three dimensions is the Squeeze of.

    Attributes:
        axis: where the height is.
        value: the one of four dimensions.
    """

    axis: int
    value: Value


class _Made(NamedTuple):
    axis: int
    values: Sequence[Value]


def _rank(node: Node) -> int | None:
    first = node.inputs[0] if node.inputs else None
    return None if first is None else first.type.rank


def _raise_op(node: Node, high: dict[Value, _High], builder: Builder) -> _Made | None:
    """A 1-D op as the 2-D one."""
    kind = _RAISED.get(type(node.op))
    x = node.inputs[0] if node.inputs else None
    if kind is None or x is None or x.type.rank != 3:
        return None
    axis = spatial_dims(3, node.op.layout)[0]  # type: ignore[attr-defined]
    changes = {name: _widened(name, value) for name, value in node.op.attributes().items()}
    present = high.get(x)
    if present is not None and present.axis == axis:
        inputs: list[Value | None] = [present.value]
    else:
        inputs = [_unsqueezed(x, axis, builder)]
    if len(node.inputs) > 1:
        weights = node.inputs[1]
        inputs.append(None if weights is None else _unsqueezed(weights, 1, builder))
    inputs += node.inputs[2:]
    return _Made(axis, _add(node, kind(**changes), inputs, axis, builder))


def _widened(name: str, value: Any) -> Any:
    """An attribute with its entry for the height in front."""
    if isinstance(value, Padding):
        return replace(value, before=(0, *value.before), after=(0, *value.after))
    if name in ("stride", "dilation", "window", "size") and value:
        return (1, *value)
    return (0, *value) if name == "output_padding" else value


def _raise_follower(node: Node, high: dict[Value, _High], builder: Builder) -> _Made | None:
    """A node all of whose operands have a height, or are constants, at that height."""
    talls = [high[v] for v in node.inputs if v is not None and v in high]
    if not talls or any(value.type.rank != 3 for value in node.outputs):
        return None
    axis = talls[0].axis
    op = _op_at_height(node, axis)
    if op is None or any(tall.axis != axis for tall in talls):
        return None
    inputs: list[Value | None] = []
    for value in node.inputs:
        if value is None or value in high:
            inputs.append(None if value is None else high[value].value)
        elif constant_behind(value) is None or value.type.rank is None:
            return None
        else:
            place = axis - (3 - value.type.rank)
            inputs.append(value if place <= 0 else _unsqueezed(value, place, builder))
    return _Made(axis, _add(node, op, inputs, axis, builder))


def _op_at_height(node: Node, axis: int) -> Op | None:
    """The op of a node on three dimensions for four, of which ``axis`` is the height."""
    op = node.op

    def with_height(entries: Sequence[Any], entry: Any) -> tuple[Any, ...]:
        return (*entries[:axis], entry, *entries[axis:])

    if op.layout_kind is LayoutKind.TRANSPARENT:
        return op
    if isinstance(op, Concat | Split | Softmax | LogSoftmax):
        return op.replace(axis=op.axis + (op.axis >= axis))
    if isinstance(op, Reduction) and op.axes is not None and op.keep_dims:
        return op.replace(axes=tuple(a + (a >= axis) for a in op.axes))
    if any(value is not None for value in node.inputs[1:]):
        return None
    if isinstance(op, Pad) and op.before is not None and op.after is not None:
        return op.replace(before=with_height(op.before, 0), after=with_height(op.after, 0))
    if isinstance(op, Slice) and op.starts is not None and op.ends is not None and op.strides:
        return op.replace(
            starts=with_height(op.starts, 0),
            ends=with_height(op.ends, None),
            strides=with_height(op.strides, 1),
        )
    return None


def _add(
    node: Node, op: Op, inputs: Sequence[Value | None], axis: int, builder: Builder
) -> tuple[Value, ...]:
    kinds = [_raised(value.type, axis) for value in node.outputs]
    return builder.add_typed(op, inputs, kinds, names=[value.name for value in node.outputs])


def _raised(kind: TensorType, axis: int) -> TensorType:
    shape, quant = kind.shape, kind.quant
    assert shape is not None
    if quant is not None and quant.axis is not None and quant.axis >= axis:
        quant = quant.with_axis(quant.axis + 1)
    return TensorType(kind.dtype, (*shape[:axis], 1, *shape[axis:]), quant)


def _unsqueezed(value: Value, axis: int, builder: Builder) -> Value:
    """A value with a dimension of extent 1 put in; a constant gives a view of itself."""
    kind = _raised(value.type, axis)
    constant = constant_behind(value)
    if constant is not None and constant.data is not None:
        shape = constant.data.shape
        return reshaped(builder, value, (*shape[:axis], 1, *shape[axis:]))
    return builder.add_typed(Unsqueeze(axes=(axis,)), [value], [kind], names=[value.name])[0]
