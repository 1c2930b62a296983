"""Gives depthwise convolutions the channel counts that kernels are fast on."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from nnconv.ir.dtype import EIGHT_BITS, DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation
from nnconv.ir.quant import Quant
from nnconv.ops.conv import Conv2D
from nnconv.ops.spatial import channel_dim
from nnconv.passes.base import Pass

BLOCK = 16
"""Channels that onnxruntime's quantized depthwise kernel takes at once.

Convolutions of fewer floats than these leave its blocked layout, which fills them up anyway.
"""


class WidenChannelsPass(Pass):
    """Fills channels between convolutions up to a multiple of 16, where depthwise ones use them.

    Floats only up to 16.

    The first convolution gets filters of zeros, the last one weights of zeros for what they give,
    so that results keep their bits.
    """

    name: ClassVar[str] = "widen_channels"

    def run(self, graph: Graph) -> bool:
        """Widen the channels in one graph."""
        outputs: set[Value] | None = None
        modified = False
        for node in graph.nodes:
            if not _is_depthwise(node) or _missing(node) == 0:
                continue
            outputs = graph.output_set() if outputs is None else outputs
            chain = _chain(node, outputs)
            if chain is not None:
                _widen(chain)
                modified = True
        return modified


def _chain(node: Node, outputs: set[Value]) -> list[Node] | None:
    """A dense convolution, depthwise ones (``node`` first), a dense one, in a row; or None."""
    before = node.inputs[0].producer if node.inputs[0] is not None else None
    if before is None or not _is_dense(before) or not _are_laid_out_alike(before, node):
        return None
    chain = [before]
    while True:
        result = chain[-1].outputs[0]
        if result.use_count != 1 or result in outputs:
            return None
        use = result.uses[0]
        if use.index or not _are_laid_out_alike(node, use.node):
            return None
        chain.append(use.node)
        if _is_dense(use.node):
            return chain if len(chain) > 2 else None
        if not _is_depthwise(use.node):
            return None


def _are_laid_out_alike(a: Node, b: Node) -> bool:
    """Whether two convolutions take the same dimension for their channels."""
    return isinstance(a.op, Conv2D) and isinstance(b.op, Conv2D) and a.op.layout is b.op.layout


def _can_widen(node: Node) -> bool:
    """Whether a node is a convolution of floats or 8-bit codes with constant parameters."""
    if not isinstance(node.op, Conv2D) or len(node.inputs) != 3:
        return False
    x, weights, bias = node.inputs
    y = node.outputs[0]
    if x is None or weights is None or weights.data is None:
        return False
    if x.dtype is weights.dtype is DType.FLOAT32:
        return bias is None or bias.data is not None
    quant = weights.quant
    if quant is None or quant.block or quant.axis not in (None, 0):
        return False
    if bias is not None and (bias.data is None or bias.quant is None):
        return False
    bounds = node.op.activation.bounds
    if node.op.activation is not Activation.NONE and (bounds is None or bounds[0] > 0):
        return False
    types = {x.dtype, y.dtype, weights.dtype}
    return types <= EIGHT_BITS and y.quant is not None and x.quant is not None


def _is_depthwise(node: Node) -> bool:
    if not isinstance(node.op, Conv2D) or node.op.groups == 1 or not _can_widen(node):
        return False
    weights = node.inputs[1]
    shape = weights.shape if weights is not None else None
    return shape is not None and shape[0] == node.op.groups and shape[-1] == 1


def _is_dense(node: Node) -> bool:
    return isinstance(node.op, Conv2D) and node.op.groups == 1 and _can_widen(node)


def _missing(node: Node) -> int:
    """How many channels a depthwise convolution lacks to the next multiple."""
    assert isinstance(node.op, Conv2D)
    groups = node.op.groups
    if groups > BLOCK and node.outputs[0].quant is None:
        return 0
    return -groups % BLOCK


def _widen(chain: list[Node]) -> None:
    extra = _missing(chain[1])
    for node in chain[:-1]:
        op, weights, bias = node.op, node.operand(1), node.inputs[2]
        assert isinstance(op, Conv2D)
        node.replace_input_with(1, _more_filters(weights, extra))
        if bias is not None:
            node.replace_input_with(2, _more_filters(bias, extra))
        if op.groups > 1:
            node.op = op.replace(groups=op.groups + extra)
        y = node.outputs[0]
        assert y.shape is not None
        shape = list(y.shape)
        shape[channel_dim(4, op.layout)] = _width(node)
        y.type = y.type.with_shape(tuple(shape))
    weights = chain[-1].operand(1)
    chain[-1].replace_input_with(1, _deeper(weights, extra))


def _width(node: Node) -> int:
    """How many channels a convolution gives."""
    weights = node.operand(1)
    assert weights.data is not None
    return int(weights.data.shape[0])


def _more_filters(value: Value, extra: int) -> Value:
    """Weights or a bias with ``extra`` filters of real zeros behind."""
    data, quant = value.data, value.quant
    assert data is not None
    code = 0 if quant is None else quant.zero_point[-1]
    zero = np.full((extra, *data.shape[1:]), code, data.dtype)
    if quant is not None and quant.axis is not None:
        quant = Quant(
            scale=quant.scale + quant.scale[-1:] * extra,
            zero_point=quant.zero_point + quant.zero_point[-1:] * extra,
            axis=quant.axis,
        )
    return _with_data(value, np.concatenate([data, zero]), quant)


def _deeper(value: Value, extra: int) -> Value:
    """Weights that give ``extra`` more input channels no weight."""
    data, quant = value.data, value.quant
    assert data is not None
    points = (
        np.asarray(0 if quant is None else quant.zero_point).astype(data.dtype).reshape(-1, 1, 1, 1)
    )
    zero = np.broadcast_to(points, (*data.shape[:-1], extra))
    return _with_data(value, np.concatenate([data, zero], axis=-1), quant)


def _with_data(value: Value, data: np.ndarray, quant: Quant | None) -> Value:
    kind = replace(value.type, shape=data.shape, quant=quant)
    return Value(value.name, kind, data=data, origin=value.origin)
