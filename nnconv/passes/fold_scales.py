"""Takes constant factors and terms for each channel into the weights and bias before them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation
from nnconv.ir.quant import dequantize
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops.conv import (
    Conv1D,
    Conv2D,
    Conv3D,
    ConvTranspose1D,
    ConvTranspose2D,
    ConvTranspose3D,
)
from nnconv.ops.elementwise import Add, Div, Mul, Sub
from nnconv.ops.matmul import FullyConnected
from nnconv.ops.quantize import Dequantize
from nnconv.ops.rewrite import constant_behind
from nnconv.ops.spatial import channel_dim
from nnconv.ops.standardize import BatchNormalization
from nnconv.passes.base import Heirs, Pass

_Transposed = ConvTranspose1D | ConvTranspose2D | ConvTranspose3D
_Product = Conv1D | Conv2D | Conv3D | _Transposed | FullyConnected
_Affine = Add | Sub | Mul | Div

_CANCELLED = 1 / 64
"""A bias that shrinks to less than this share of itself was there to be taken away again."""


class FoldScalesPass(Pass):
    """Folds what a constant adds to, or multiplies, each channel of a product of floats.

    A normalization by constants behind a convolution is that. Weights that are scaled change by
    half a unit in the last place; quantized ones and what leaves the range of float32 stay.
    """

    name: ClassVar[str] = "fold_scales"

    def run(self, graph: Graph) -> bool:
        """Fold the scales of one graph."""
        modified = False
        heirs = Heirs(graph)
        for node in graph.nodes:
            product = _folded(node, heirs.outputs)
            if product is None:
                continue
            activation = getattr(node.op, "activation", Activation.NONE)
            product.op = product.op.replace(activation=activation)
            heirs.replace(node, product.outputs[0])
            modified = True
        heirs.close()
        return modified


def _folded(node: Node, outputs: set[Value]) -> Node | None:
    """The product that took over what a node does to each channel; None if none did."""
    op = node.op
    if isinstance(op, BatchNormalization):
        product = _product_of(node.inputs[0], outputs)
        done = product is not None and _fold_normalization(node, op, product)
        return product if done else None
    if not isinstance(op, _Affine):
        return None
    a, b = node.inputs
    if a is None or b is None or (a.data is None) is (b.data is None):
        return None
    constant, value, is_first = (b, a, False) if a.data is None else (a, b, True)
    product = _product_of(value, outputs)
    if product is None or constant.dtype is not DType.FLOAT32:
        return None
    return product if _fold(node, product, constant, is_first=is_first) else None


def _product_of(value: Value | None, outputs: set[Value]) -> Node | None:
    """The product of floats that makes a value for one reader alone."""
    product = None if value is None else value.producer
    if value is None or product is None or product.graph is None:
        return None
    if not isinstance(product.op, _Product) or product.op.activation is not Activation.NONE:
        return None
    alone = value.use_count == 1 and value not in outputs
    return product if alone and value.dtype is DType.FLOAT32 else None


def _fold(node: Node, product: Node, constant: Value, *, is_first: bool) -> bool:
    """Change a product's weights and bias; tells whether they could be."""
    op = node.op
    filters = _filters(product)
    numbers = None if filters is None else _per_filter(product, constant, filters)
    if numbers is None or filters is None or not np.all(np.isfinite(numbers)):
        return False
    if isinstance(op, Div):
        if is_first or not np.all(numbers):
            return False
        numbers = 1 / numbers
    bias = _bias(product, filters)
    if bias is None:
        return False
    if isinstance(op, Add) or (isinstance(op, Sub) and not is_first):
        total = bias + numbers if isinstance(op, Add) else bias - numbers
        return not _cancels(bias, total) and _write(product, None, total)
    factors = np.full(filters, -1.0) if isinstance(op, Sub) else numbers
    weights = _scaled(product, factors)
    if weights is None:
        return False
    return _write(product, weights, numbers - bias if isinstance(op, Sub) else bias * factors)


def _fold_normalization(node: Node, op: BatchNormalization, product: Node) -> bool:
    """Fold a normalization with given statistics; tells whether that could be."""
    filters, rank = _filters(product), product.outputs[0].type.rank
    if filters is None or rank is None or op.axis != _channel(product, rank):
        return False
    parts = [None if v is None or not v.dtype.is_float else v.data for v in node.inputs[1:]]
    given = [part.astype(np.float64) for part in parts if part is not None]
    bias = _bias(product, filters)
    if len(given) != 4 or bias is None:
        return False
    scale, offset, mean, variance = given
    with np.errstate(all="ignore"):
        factors = scale / np.sqrt(variance + op.epsilon)
    if not np.all(np.isfinite(factors)):
        return False
    weights = _scaled(product, factors)
    return weights is not None and _write(product, weights, (bias - mean) * factors + offset)


def _cancels(bias: np.ndarray, total: np.ndarray) -> bool:
    """Whether a term takes a bias away again: the sums in between have lost digits that count."""
    return bool(np.abs(total).max(initial=0.0) < np.abs(bias).max(initial=0.0) * _CANCELLED)


def _filters(product: Node) -> int | None:
    weights = product.inputs[1]
    shape = None if weights is None else static_shape(weights.shape)
    if shape is None:
        return None
    op = product.op
    return shape[0] * (op.groups if isinstance(op, _Transposed) else 1)


def _channel(product: Node, rank: int) -> int:
    """Which dimension of a product's result belongs to the filters."""
    layout = getattr(product.op, "layout", None)
    return rank - 1 if layout is None else channel_dim(rank, layout)


def _per_filter(product: Node, constant: Value, filters: int) -> np.ndarray | None:
    """A constant's element for each filter, as float64; None if it has others too."""
    rank = product.outputs[0].type.rank
    assert constant.data is not None
    shape = constant.data.shape
    if rank is None or len(shape) > rank:
        return None
    channel = _channel(product, rank)
    aligned = (1,) * (rank - len(shape)) + shape
    if any(extent != 1 for dim, extent in enumerate(aligned) if dim != channel):
        return None
    if aligned[channel] not in (1, filters):
        return None
    return np.resize(constant.data.astype(np.float64), filters)


def _bias(product: Node, filters: int) -> np.ndarray | None:
    """A product's bias as float64, zeros if it has none; None if it isn't constant."""
    value = product.optional(2)
    if value is None:
        return np.zeros(filters)
    source = constant_behind(value)
    if source is None or source.data is None:
        return None
    if source.type.has_codes:
        assert source.quant is not None
        if source is value or not isinstance(value.producer and value.producer.op, Dequantize):
            return None
        return dequantize(source.data, source.quant, np.float64).reshape(-1)
    return source.data.astype(np.float64).reshape(-1) if source.dtype.is_float else None


def _scaled(product: Node, factors: np.ndarray) -> np.ndarray | None:
    """A product's weights, each filter's multiplied; None if they aren't plain floats."""
    weights = product.inputs[1]
    if weights is None or weights.data is None or weights.dtype is not DType.FLOAT32:
        return None
    data, op = weights.data, product.op
    rest = (1,) * (data.ndim - 2)
    if isinstance(op, _Transposed):
        by_group = factors.reshape(op.groups, -1).T  # [filters of a group, groups]
        spread = np.repeat(by_group, data.shape[-1] // op.groups, axis=1)
        factors = spread.reshape(data.shape[0], *rest, data.shape[-1])
    else:
        factors = factors.reshape(-1, *rest, 1)
    with np.errstate(over="ignore", under="ignore"):
        scaled = (data * factors.astype(np.float32)).astype(np.float32, copy=False)
    least = np.finfo(np.float32).tiny
    lost = (np.abs(scaled) < least) & (data != 0) & (factors != 0)
    return scaled if np.all(np.isfinite(scaled)) and not np.any(lost) else None


def _write(product: Node, weights: np.ndarray | None, bias: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        numbers = bias.astype(np.float32)
    if not np.all(np.isfinite(numbers)):
        return False
    graph = product.graph
    assert graph is not None
    builder = Builder(graph, origin=product.origin)
    old_weights, old = product.operand(1), product.optional(2)
    name = old.name if old is not None else f"{old_weights.name}/bias"
    new = old_weights
    if weights is not None:
        kind = TensorType(DType.FLOAT32, tuple(weights.shape))
        new = Value(old_weights.name, kind, data=weights, origin=old_weights.origin)
    product.set_inputs([product.inputs[0], new, builder.const(numbers, name)])
    return True
