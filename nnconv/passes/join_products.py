"""Makes products with constant matrices fully connected layers."""

from __future__ import annotations

from typing import ClassVar

from nnconv.ir.builder import Builder
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.types import static_shape
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.product import Gemm
from nnconv.ops.rewrite import constant_behind, reshaped, transposed
from nnconv.ops.shape import Transpose
from nnconv.passes.base import Pass


class JoinProductsPass(Pass):
    """Turns a MatMul or Gemm of floats and a constant matrix into FullyConnected.

    The matrix is turned as a view of itself, also behind a Cast or Dequantize. What is added behind
    becomes the bias by ``FoldScalesPass``.
    """

    name: ClassVar[str] = "join_products"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph."""
        modified = False
        for node in graph.nodes:
            weights, *bias = _layer(node) if isinstance(node.op, Gemm) else (_weights(node),)
            if weights is not None:
                node.op = FullyConnected()
                node.set_inputs([node.inputs[0], weights, *bias])
                modified = True
        return modified


def _layer(node: Node) -> tuple[Value | None, ...]:
    """The weights [O, I] and bias of a Gemm with nothing else to it; None if it has more."""
    op, (x, matrix, *rest) = node.op, node.inputs
    assert isinstance(op, Gemm)
    offset = rest[0] if rest else None
    if op.alpha != 1 or op.transpose_a or (offset is not None and op.beta != 1):
        return (None,)
    if x is None or matrix is None or not x.dtype.is_float or x.data is not None:
        return (None,)
    if constant_behind(matrix) is None or not matrix.dtype.is_float or matrix.type.rank != 2:
        return (None,)
    assert matrix.shape is not None
    filters = matrix.shape[0 if op.transpose_b else 1]
    if offset is not None and (constant_behind(offset) is None or offset.shape != (filters,)):
        return (None,)
    assert node.graph is not None
    builder = Builder(node.graph, before=node, origin=node.origin)
    weights = matrix if op.transpose_b else transposed(builder, matrix, (1, 0))
    return (weights,) if offset is None else (weights, offset)


def _weights(node: Node) -> Value | None:
    """The second operand of a MatMul as weights [O, I]; None if it can't be that."""
    op = node.op
    if not isinstance(op, MatMul) or op.transpose_a:
        return None
    a, b = node.inputs
    if a is None or b is None or not a.dtype.is_float or not b.dtype.is_float:
        return None
    b = _turned(node, b)
    source = constant_behind(b)
    shape = static_shape(b.shape)
    if source is None or shape is None or a.data is not None:
        return None
    rank = a.type.rank
    if rank is None or not 2 <= len(shape) <= rank or 0 in shape or set(shape[:-2]) - {1}:
        return None
    if len(shape) > 2 and source.quant is not None and not source.quant.is_per_tensor:
        return None
    assert node.graph is not None
    builder = Builder(node.graph, before=node, origin=node.origin)
    matrix = reshaped(builder, b, shape[-2:]) if len(shape) > 2 else b
    return matrix if op.transpose_b else transposed(builder, matrix, (1, 0))


def _turned(node: Node, value: Value) -> Value:
    """What a Transpose makes of constants, as a view of them; else the value itself."""
    producer = value.producer
    if producer is None or not isinstance(producer.op, Transpose) or producer.op.perm is None:
        return value
    source = producer.inputs[0]
    if source is None or constant_behind(source) is None or node.graph is None:
        return value
    builder = Builder(node.graph, before=node, origin=node.origin)
    return transposed(builder, source, producer.op.perm)
