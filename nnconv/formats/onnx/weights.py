"""Weights and biases as ONNX constants, in the spelling that onnxruntime runs fastest.

A DequantizeLinear of a constant stands where the op around it has an integer kernel, which takes it
in. Anywhere else it would run each time; ``Mul(Cast(codes), scale)`` is folded when the model is
loaded.
"""

from __future__ import annotations

import numpy as np

from nnconv.formats.onnx.exporter import Target
from nnconv.formats.onnx.types import CODE_TYPES, LEAST_OPSET
from nnconv.ir.dtype import EIGHT_BITS, DType
from nnconv.ir.graph import HYBRID_MARK, Node, Value
from nnconv.ir.op import Op, Perm, QuantRule
from nnconv.ir.quant import Quant, dequantize
from nnconv.ir.types import static_shape
from nnconv.ops import conv as c
from nnconv.ops.elementwise import Clip
from nnconv.ops.matmul import FullyConnected
from nnconv.ops.quantize import Dequantize
from nnconv.ops.rewrite import constant_behind
from nnconv.ops.shape import Reshape, Transpose
from nnconv.ops.spatial import is_sorted

_NARROW = frozenset({DType.INT2, DType.INT4, DType.UINT4})

LOWEST = -3e38
"""A bound below all results that onnxruntime doesn't recognize as none."""

LARGE = 1 << 18
"""From so many weights on, reading them takes most of the time of a product with few rows."""

_CONVS = (c.Conv1D, c.Conv2D, c.Conv3D, c.ConvInteger)
_TRANSPOSED = (c.ConvTranspose1D, c.ConvTranspose2D, c.ConvTranspose3D)
_WEIGHTED = (*_CONVS, *_TRANSPOSED, FullyConnected)


BLOCKS_OPSET = 21
"""The first opset whose DequantizeLinear has blocks."""


def weight_order(op: Op) -> Perm:
    """The transpose from the IR's order of a convolution's weights to ONNX's.

    [O, I, spatial...]; of a transposed convolution [I, O, spatial...].
    """
    rank = len(op.stride) if isinstance(op, (*_CONVS, *_TRANSPOSED)) else 0
    spatial = range(1, rank + 1)
    return (rank + 1, 0, *spatial) if isinstance(op, _TRANSPOSED) else (0, rank + 1, *spatial)


def turned_back(value: Value, perm: Perm) -> Value | None:
    """What a Transpose (or a Reshape in its place) made ``value`` of, if ``perm`` undoes it."""
    node = value.producer
    source = None if node is None else node.inputs[0]
    if node is None or source is None or source.type.rank != len(perm):
        return None
    if isinstance(node.op, Transpose) and node.op.perm is not None:
        return source if is_sorted(tuple(node.op.perm[p] for p in perm)) else None
    shape = static_shape(value.shape)
    if not isinstance(node.op, Reshape) or shape is None or len(shape) != len(perm):
        return None
    moving = [p for p in perm if shape[p] != 1]
    same = source.shape == tuple(shape[p] for p in perm)
    return source if same and moving == sorted(moving) else None


def is_turned_back(node: Node) -> bool:
    """Whether only convolutions read what a Transpose or Reshape makes, and undo it."""
    y = node.outputs[0]
    if node.graph is None or not y.use_count:
        return False
    undone = all(
        isinstance(use.node.op, (*_CONVS, *_TRANSPOSED))
        and use.index == 1
        and turned_back(y, weight_order(use.node.op)) is not None
        for use in y.uses
    )
    return undone and not y.goes_out


def is_integer(t: Target, x: Value, weights: Value, bias: Value | None = None) -> bool:
    """Whether a product can run on integers.

    ``x`` then has 8-bit codes, ``weights`` constant small ones, and ``bias`` fits 32 bits at the
    product of their scales: onnxruntime would quantize any other to that.
    """
    if not t.is_quantized(x) or t.inner_type(x) not in EIGHT_BITS:
        return False
    quant = weights.quant
    if weights.data is None or quant is None or quant.block:
        return False
    if weights.dtype not in EIGHT_BITS and weights.dtype not in _NARROW:
        return False
    if bias is None or bias.data is None or bias.quant is None or x.quant is None:
        return True
    if quant.axis not in (None, 0):
        return False  # the sums of one result have no common scale
    product = _product(x.quant, quant)
    if bias.dtype is DType.INT32 and _has_scales(bias.quant, product):
        return True  # they stay as they are
    steps = dequantize(bias.data, bias.quant, np.float64) / product
    return bool(np.all(np.abs(steps) <= np.iinfo(np.int32).max))


def _product(x: Quant, weights: Quant) -> np.ndarray:
    """The scales of a bias that is added to codes' sums."""
    return weights.scales.astype(np.float64) * x.scale[0]


def _has_scales(quant: Quant, wanted: np.ndarray) -> bool:
    """Whether the zero points are 0 and the scales these, but for rounding."""
    own = quant.scales
    is_near = own.shape == wanted.shape and bool(np.all(np.abs(own - wanted) <= 1e-6 * wanted))
    return is_near and quant.is_symmetric


def is_integer_result(t: Target, x: Value, y: Value) -> bool:
    """Whether ``y`` has codes of the type that an integer kernel gives for ``x``."""
    return t.is_quantized(y) and t.inner_type(y) is t.inner_type(x)


def weights(t: Target, value: Value, perm: Perm, *, x: Value, integer: bool) -> str:
    """Real values of weights, transposed by ``perm``; constants keep their small type in the file.

    For an ``integer`` kernel they are the DequantizeLinear of int8 codes; uint8 ones are re-signed,
    which is exact, and narrower ones widened at load. Else they are of x's float type.
    """
    source = constant_behind(value)
    if source is None or source.data is None:
        before = turned_back(value, perm)
        name = turned(t, value, perm) if before is None else t.real(before)
        return name if t.real_type(value) is t.real_type(x) else t.cast(name, t.real_type(x))
    data, dtype, quant = source.data.transpose(perm), source.dtype, source.quant
    if quant is None or dtype not in CODE_TYPES:
        name = t.const(data, dtype, name=source.name)
        wanted = t.real_type(x)
        return name if dtype is wanted else t.cast(name, wanted)
    _note_hybrid(t, source, data, direct=source is value, x=x)
    if t.plain and source is not value and _can_be_as_given(t, source, value, x):
        return t.dequantize(t.const(data, dtype, name=source.name), quant.permuted(perm), dtype)
    if quant.block:
        return _blockwise(t, source, perm, x)
    return codes_as_weights(
        t, data, dtype, quant.permuted(perm), name=source.name, x=x, integer=integer
    )


def _note_hybrid(t: Target, source: Value, data: np.ndarray, *, direct: bool, x: Value) -> None:
    """Remember codes that products of floats read themselves: TFLite has kernels for those."""
    quant = source.quant
    if source.dtype is not DType.INT8 or (quant is not None and not quant.is_symmetric):
        return
    direct = direct and quant is not None and not quant.block and not t.is_quantized(x)
    if not direct and source.origin.op != HYBRID_MARK:
        return
    name = t.const(data, DType.INT8, name=source.name)
    if name not in t.hybrids:
        t.hybrids.append(name)


def _can_be_as_given(t: Target, source: Value, value: Value, x: Value) -> bool:
    """Whether the DequantizeLinear of weights that the file has can stay as it is."""
    quant = source.quant
    if quant is None or quant.block or t.opset < LEAST_OPSET.get(source.dtype, 0):
        return False
    return value.dtype is DType.FLOAT32 and t.real_type(x) is DType.FLOAT32


def turned(t: Target, value: Value, perm: Perm) -> str:
    """Real values transposed by ``perm``, on codes where there are some."""
    if is_sorted(perm):
        return t.real(value)
    if not t.is_quantized(value) or t.inner_quant(value).block:
        return t.node("Transpose", [t.real(value)], perm=perm)
    codes = t.node("Transpose", [t.codes(value)], perm=perm)
    return t.dequantize(codes, t.inner_quant(value).permuted(perm), t.inner_type(value))


def kept_apart(t: Target, turned: str) -> str:
    """Transposed halves as they may be the left factor of a product: by a Concat of them alone.

    A MatMul of what Transpose gives, whose first dimension was another, is one node in onnxruntime
    1.32, which has no kernel for halves and dies when it loads the model.
    """
    return t.node("Concat", [turned], axis=0)


def codes_as_weights(
    t: Target,
    data: np.ndarray,
    dtype: DType,
    quant: Quant,
    *,
    name: str,
    x: Value,
    integer: bool,
) -> str:
    """Real values of quantized weights; see ``weights``."""
    if not integer:
        return _scaled(t, _small(t, data, dtype, name), quant, data.ndim, t.real_type(x))
    if dtype is DType.UINT8:
        data, dtype, quant = (data ^ np.uint8(128)).view(np.int8), DType.INT8, quant.shifted(-128)
    codes = _small(t, data, dtype, name)
    if dtype in _NARROW:
        dtype = DType.INT8
        codes = t.cast(codes, dtype) if t.opset >= LEAST_OPSET[DType.INT4] else codes
    return t.dequantize(codes, quant, dtype)


def _small(t: Target, data: np.ndarray, dtype: DType, name: str) -> str:
    """A constant of codes in the smallest type that the opset has for them."""
    if dtype in _NARROW:
        if t.opset < LEAST_OPSET[DType.INT4]:
            dtype = DType.INT8
            data = data.astype(np.int8)
        elif dtype is DType.INT2:
            dtype = DType.INT4
    return t.const(data, dtype, name=name)


def _scaled(t: Target, codes: str, quant: Quant, rank: int, kind: DType) -> str:
    """``(codes - zero point) * scale`` in ops that are folded at load."""
    real = t.cast(codes, kind)
    shape = [1] * rank
    if quant.axis is None:
        shape = []
    else:
        shape[quant.axis] = -1
    if not quant.is_symmetric:
        points = np.asarray(quant.zero_point, kind.numpy).reshape(shape)
        real = t.node("Sub", [real, t.const(points)])
    scale = np.asarray(quant.scale, np.float32).astype(kind.numpy).reshape(shape)
    return t.node("Mul", [real, t.const(scale)])


def _blockwise(t: Target, source: Value, perm: Perm, x: Value) -> str:
    """Weights [rows, columns] with scales for blocks of a row."""
    data, quant = source.data, source.quant
    assert data is not None
    assert quant is not None
    assert quant.axis == data.ndim - 1, "blocks lie along the last axis"
    kind = t.real_type(x)
    rows, columns = data.shape
    count = -(-columns // quant.block)
    padded = np.pad(data, [(0, 0), (0, count * quant.block - columns)])
    real = t.cast(_small(t, padded, source.dtype, source.name), kind)
    real = t.reshape(real, (rows, count, quant.block))
    if not quant.is_symmetric:
        points = np.asarray(quant.zero_point, kind.numpy).reshape(rows, count, 1)
        real = t.node("Sub", [real, t.const(points)])
    scale = np.asarray(quant.scale, np.float32).astype(kind.numpy).reshape(rows, count, 1)
    real = t.reshape(t.node("Mul", [real, t.const(scale)]), (rows, count * quant.block))
    if count * quant.block != columns:
        bounds = [t.const([0]), t.const([columns]), t.const([1])]
        real = t.node("Slice", [real, *bounds])
    return real if is_sorted(perm) else t.node("Transpose", [real], perm=perm)


def is_large(t: Target, x: Value, value: Value) -> bool:
    """Whether quantized weights of a product of float ``x`` had better stay small, being so many.

    A DequantizeLinear before MatMul is one kernel in onnxruntime, which reads the codes themselves:
    0.2 to 0.6 of the time at 1024 x 1024, a quarter of the memory. Like LiteRT's, it quantizes
    ``x`` on the fly, with an error of 0.5 % of the result's deviation. Small products are faster,
    and exact, in floats.
    """
    data, quant = value.data, value.quant
    if data is None or quant is None or t.is_quantized(x):
        return False
    if data.size < LARGE or x.dtype is not DType.FLOAT32:
        return False
    if quant.block and (t.opset < BLOCKS_OPSET or data.shape[-1] % quant.block):
        return False
    return value.dtype in EIGHT_BITS | _NARROW


def large_weights(t: Target, value: Value, *, x: Value) -> str:
    """The real values of ``is_large`` weights [rows, columns], transposed."""
    data, dtype, quant = value.data, value.dtype, value.quant
    assert data is not None
    assert quant is not None
    if dtype is DType.UINT8:
        data, dtype, quant = (data ^ np.uint8(128)).view(np.int8), DType.INT8, quant.shifted(-128)
    if dtype in _NARROW and t.opset < LEAST_OPSET[DType.INT4]:
        dtype = DType.INT8
    elif dtype is DType.INT2:
        dtype = DType.INT4
    if not quant.block:
        _note_hybrid(t, value, data, direct=True, x=x)
        real = t.dequantize(t.const(data, dtype, name=value.name), quant, dtype)
        return t.node("Transpose", [real], perm=(1, 0))
    # in blocks, only the turned codes make the one kernel
    grid = (data.shape[0], -1)
    scale = np.asarray(quant.scale, np.float32).reshape(grid).T
    points = np.asarray(quant.zero_point).astype(dtype.numpy).reshape(grid).T
    codes = t.const(data.T, dtype, name=value.name)
    inputs = [codes, t.const(scale), t.const(points, dtype)]
    return t.node("DequantizeLinear", inputs, axis=0, block_size=quant.block)


def bias(t: Target, value: Value | None, *, x: Value, weights: Value, integer: bool) -> str:
    """Real values of a bias; "" for none.

    For an ``integer`` kernel they are the DequantizeLinear of int32 codes at scale x * weights:
    onnxruntime doesn't look at the scale. Codes of another scale are quantized anew.
    """
    if value is None:
        return ""
    if value.data is None or not value.dtype.is_integer or value.quant is None:
        return t.real(value)
    if not integer or x.quant is None or weights.quant is None:
        kind = t.real_type(x)
        real = dequantize(value.data, value.quant, np.float64)
        return t.const(real.astype(kind.numpy), kind, name=value.name)
    product = _product(x.quant, weights.quant)
    if value.dtype is DType.INT32 and _has_scales(value.quant, product):
        return t.real(value)
    quant = Quant(
        scale=tuple(product.astype(np.float32).tolist()),
        zero_point=(0,) * product.size,
        axis=None if product.size == 1 else 0,
    )
    real = dequantize(value.data, value.quant, np.float64)
    codes = np.rint(real / product).astype(np.int32)
    return t.dequantize(t.const(codes, DType.INT32, name=value.name), quant, DType.INT32)


def is_taken_in(node: Node) -> bool:
    """Whether a Cast or Dequantize is of a constant that only weighted ops read, as their weights.

    Those spell it themselves (``weights``).
    """
    y = node.outputs[0]
    if constant_behind(y) is None or node.graph is None or y.goes_out:
        return False
    return y.use_count > 0 and all(
        isinstance(use.node.op, _WEIGHTED) and use.index == 1 for use in y.uses
    )


def product_operand(t: Target, x: Value, *, integer: bool) -> str:
    """The data of a product; ``integer``: onnxruntime is to make an integer kernel of it."""
    return t.real(x) if integer or not t.is_quantized(x) else _plain_real(t, x)


def _plain_real(t: Target, value: Value) -> str:
    """Real values of codes in plain arithmetic.

    Around a DequantizeLinear, an op with float weights and a QuantizeLinear, onnxruntime would
    quantize the weights by itself, to other results.
    """
    quant = t.inner_quant(value)
    if quant.axis is not None:
        return t.real(value)
    real = t.cast(t.codes(value), DType.FLOAT32)
    if not quant.is_symmetric:
        real = t.node("Sub", [real, t.const(np.float32(quant.zero_point[0]))])
    return t.node("Mul", [real, t.const(np.float32(quant.scale[0]))])


def guarded(t: Target, value: Value, name: str) -> str:
    """The float ``value`` (called ``name``), so that quantizing it leaves weights behind it alone.

    See ``_plain_real``: here a Dequantize stands before an op with float weights in the model
    itself. An ONNX model keeps those that it has: its results are what onnxruntime gives for it.
    """
    node = value.producer
    if node is not None and isinstance(node.op, Clip):
        node = node.inputs[0].producer if node.inputs[0] is not None else None
    if node is None or not isinstance(node.op, _WEIGHTED) or not _reads_dequantized(t, node):
        return name
    return t.node("Max", [name, t.const(np.asarray(LOWEST, t.real_type(value).numpy))])


def _reads_dequantized(t: Target, node: Node) -> bool:
    """Whether a node's data come out of a Dequantize, perhaps moved about in between.

    Of an ONNX model one that it spells in plain arithmetic counts.
    """
    value = node.inputs[0]
    while value is not None and value.producer is not None:
        if isinstance(value.producer.op, Dequantize):
            return not t.plain or value.producer.origin.op != "DequantizeLinear"
        if value.producer.op.quant_rule is not QuantRule.CODES:
            return False
        value = value.producer.inputs[0]
    return False
