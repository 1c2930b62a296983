"""Makes products of data that runs quantize just for them products of the data themselves."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Op
from nnconv.ir.quant import Quant
from nnconv.ir.types import static_shape
from nnconv.ops.conv import Conv1D, Conv2D, Conv3D, ConvInteger
from nnconv.ops.elementwise import Mul
from nnconv.ops.matmul import FullyConnected
from nnconv.ops.product import MatMulInteger
from nnconv.ops.quantize import Cast, Dequantize, DynamicQuantize
from nnconv.passes.base import Pass

Known: TypeAlias = dict[tuple[object, ...], Value]
"""Real values of weights, by what they are made of."""

_CONVOLUTIONS = {1: Conv1D, 2: Conv2D, 3: Conv3D}


class FoldDynamicPass(Pass):
    """Turns DynamicQuantize, a product of integers, Cast, Mul by the scales into one op on floats.

    The weights keep their codes, behind a Dequantize. The data aren't rounded any more, which is
    nearer to what the rounding stands for: results differ from the source's by what that cost, up
    to about a hundredth of their range.
    """

    name: ClassVar[str] = "fold_dynamic"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph; what nothing reads any more is left to prune."""
        modified = False
        outputs = graph.output_set()
        made: Known = {}
        for node in graph.nodes:
            found = _match(node, outputs)
            if found is not None:
                modified |= _rewrite(node, found, made)
        return modified


class _Match(NamedTuple):
    """A product of data that are quantized for it.

    Attributes:
        product: its node.
        x: the data.
        scale: the scale of the weights, one or one a filter.
    """

    product: Node
    x: Value
    scale: np.ndarray


def _match(node: Node, outputs: set[Value]) -> _Match | None:
    """What a Mul that scales sums ends; None if it isn't that."""
    if not isinstance(node.op, Mul) or node.outputs[0].dtype is not DType.FLOAT32:
        return None
    for sums, scales in (node.inputs, reversed(node.inputs)):
        cast = _maker(sums, Cast, outputs)
        product = (
            None if cast is None else _maker(cast.inputs[0], (MatMulInteger, ConvInteger), outputs)
        )
        if product is None or scales is None:
            continue
        source = product.inputs[0]
        dynamic = None if source is None else source.producer
        if dynamic is None or not isinstance(dynamic.op, DynamicQuantize):
            return None
        point = product.optional(2)
        scale = _weight_scale(scales, dynamic.outputs[1])
        x = dynamic.inputs[0]
        if point is not dynamic.outputs[2] or scale is None or x is None:
            return None
        return _Match(product, x, scale)
    return None


def _maker(
    value: Value | None, op: type[Op] | tuple[type[Op], ...], outputs: set[Value]
) -> Node | None:
    """The node of a kind of op that makes a value for one reader alone."""
    node = None if value is None else value.producer
    if value is None or node is None or not isinstance(node.op, op):
        return None
    return node if value.use_count == 1 and value not in outputs else None


def _weight_scale(scales: Value, of_data: Value) -> np.ndarray | None:
    """The constant that the data's scale is multiplied by."""
    if scales is of_data:
        return np.ones(1, np.float32)
    if scales.producer is None or not isinstance(scales.producer.op, Mul):
        return None
    a, b = scales.producer.inputs
    constant = b if a is of_data else a if b is of_data else None
    if constant is None or constant.data is None or constant.dtype is not DType.FLOAT32:
        return None
    data = constant.data
    usable = data.size and np.all(np.isfinite(data)) and np.all(data > 0)
    return data if usable and data.shape[-1:] in ((), (data.size,)) else None


def _rewrite(node: Node, found: _Match, made: Known) -> bool:
    """Let ``node``, the last one, be the op on floats."""
    assert node.graph is not None
    builder = Builder(node.graph, before=node, origin=node.origin)
    product = float_product(found.product, found.scale, found.x, builder, made)
    if product is None:
        return False
    node.op, operands = product
    node.set_inputs(operands)
    return True


def float_product(
    product: Node, scale: np.ndarray, x: Value, builder: Builder, made: Known
) -> tuple[Op, list[Value]] | None:
    """A product of integers as an op on floats: ``x`` and the weights' codes behind a Dequantize.

    None where that isn't one op. ``made`` has the weights of products before: several may share
    theirs, as views of one constant.
    """
    codes = product.operand(1)
    if codes.data is None or codes.quant is not None:
        return None
    points = _points(product.optional(3))
    shape = static_shape(codes.shape)
    if points is None or shape is None:
        return None
    op: Op
    if isinstance(product.op, MatMulInteger):
        if len(shape) != 2 or x.type.rank is None:
            return None
        shape, op = shape[::-1], FullyConnected()
    else:
        assert isinstance(product.op, ConvInteger)
        if scale.size != 1:
            return None  # a factor of rank 1 is one for each column, not for each filter
        fields = {n: getattr(product.op, n) for n in ("layout", "stride", "dilation", "padding")}
        op = _CONVOLUTIONS[len(product.op.stride)](**fields, groups=product.op.groups)
    quant = _quant(scale.reshape(-1), points, shape[0])
    if quant is None:
        return None
    view = codes.data
    key = (view.__array_interface__["data"][0], view.shape, view.strides, codes.dtype, quant)
    real = made.get(key)
    if real is None:
        data = codes.data.T if isinstance(op, FullyConnected) else codes.data
        weights = builder.const(data, codes.name, quant=quant, dtype=codes.dtype)
        real = builder.add(Dequantize(dtype=DType.FLOAT32), [weights], name=codes.name)
        made[key] = real
    return op, [x, real]


def _points(value: Value | None) -> np.ndarray | None:
    """The zero points of weights; None if they aren't constants."""
    if value is None:
        return np.zeros(1, np.int64)
    return None if value.data is None else value.data.reshape(-1).astype(np.int64)


def _quant(scale: np.ndarray, points: np.ndarray, filters: int) -> Quant | None:
    if scale.size == points.size == 1:
        return Quant.per_tensor(float(scale[0]), int(points[0]))
    if {scale.size, points.size} - {1, filters}:
        return None
    scales = np.resize(scale, filters).tolist()
    return Quant.per_channel(scales, np.resize(points, filters).tolist(), axis=0)
