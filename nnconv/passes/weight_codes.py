"""Constants as the codes that an op on quantized values takes: weights, biases, other operands.

Each function gives the constant, or the reason why there is none that means the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.quant import Quant, dequantize, quantize
from nnconv.ir.types import TensorType
from nnconv.ops.conv import (
    Conv1D,
    Conv2D,
    Conv3D,
    ConvTranspose1D,
    ConvTranspose2D,
    ConvTranspose3D,
)
from nnconv.ops.elementwise import Div, Mul
from nnconv.ops.matmul import FullyConnected

_TRANSPOSED = (ConvTranspose1D, ConvTranspose2D, ConvTranspose3D)

WEIGHTED = (Conv1D, Conv2D, Conv3D, *_TRANSPOSED, FullyConnected)
"""Products of data and weights, with a bias."""

_SIGNED = {
    DType.INT8: DType.INT8,
    DType.UINT8: DType.INT8,
    DType.INT4: DType.INT4,
    DType.UINT4: DType.INT4,
    DType.INT2: DType.INT2,
}
"""Types that weights may have, and the signed one of as many bits."""

MOST_BIAS = 1 << 30
"""Greater codes of a bias leave no room in 32 bits for the sum that it is added to."""

_EQUAL = 1e-6
"""Scales that differ relatively by no more are one: it is the rounding of a float32 product."""


def product_operands(
    node: Node, operands: Sequence[Value | None], x: TensorType, *, open_weights: bool = False
) -> list[Value | None] | str:
    """Operands of a product on codes of type ``x``, with weights and bias as codes.

    ``open_weights``: weights, and with them the bias, may be codes that are computed at run time.
    """
    source, bias = operands[1], operands[2] if len(operands) > 2 else None
    assert source is not None
    if open_weights and source.data is None:
        return _open_operands(operands, source, bias, x)
    weights = weights_as_codes(source)
    if isinstance(weights, str):
        return weights
    assert weights.data is not None
    filters = weights.data.shape[0]
    if isinstance(node.op, _TRANSPOSED):
        filters *= node.op.groups
    both = with_bias(x, weights, bias, filters)
    if isinstance(both, str):
        return both
    return [operands[0], both.weights] + ([] if bias is None else [both.bias])


def _open_operands(
    operands: Sequence[Value | None], weights: Value, bias: Value | None, x: TensorType
) -> list[Value | None] | str:
    """Operands whose weights are computed at run time, if they are the codes that kernels take."""
    quant, shape = weights.quant, weights.shape
    if quant is None or shape is None or not weights.type.has_codes:
        return "its weights are computed at run time"
    signed = weights.dtype is DType.INT8 and quant.is_symmetric and quant.axis == 0
    if not signed and not (quant.is_per_tensor and weights.dtype is x.dtype):
        return f"its weights are {weights.type}, computed at run time"
    if bias is not None:
        assert x.quant is not None
        scale = product_scale(x.quant, quant, len(quant.scale))
        if bias.dtype is not DType.INT32 or not _is_at(bias, scale):
            return "its bias has another scale than its products, which are computed at run time"
    return list(operands)


class Weighted(NamedTuple):
    """The constants of a product.

    Attributes:
        weights: their codes.
        bias: codes at scale x * weights; None for none.
    """

    weights: Value
    bias: Value | None


def weights_as_codes(value: Value) -> Value | str:
    """Weights with signed codes and no zero points where such codes exist.

    The real values are the same to the bit. Codes of one common zero point that has no such form
    stay as they are: there are kernels for those.
    """
    data, quant = value.data, value.quant
    if data is None:
        return "its weights are computed at run time"
    if quant is None or value.dtype not in _SIGNED:
        return f"its weights are {value.dtype}, not small codes"
    if quant.block:
        return "its weights are quantized in blocks"
    if quant.axis not in (None, 0):
        return f"its weights have scales along axis {quant.axis}, which is summed over"
    signed = _SIGNED[value.dtype]
    if value.dtype is signed and quant.is_symmetric:
        return value
    _, points = quant.broadcast(data.shape)
    shifted = data.astype(np.int16) - points.astype(np.int16)
    low, high = signed.int_range
    if shifted.size and (shifted.min() < low or shifted.max() > high):
        if quant.is_per_tensor:
            return value
        return "its weights have zero points that differ and can't be folded into their codes"
    even = Quant(scale=quant.scale, zero_point=(0,) * len(quant.scale), axis=quant.axis)
    kind = TensorType(signed, value.shape, even)
    return Value(value.name, kind, data=shifted.astype(signed.numpy), origin=value.origin)


def product_scale(x: Quant, weights: Quant, filters: int) -> np.ndarray:
    """The scales of sums of products of codes: one, or one a filter.

    Scales of weights may be fewer than the filters: those of one group, which all groups share.
    """
    scale = np.asarray(weights.scale, np.float64) * x.scale[0]
    return scale if weights.axis is None else np.resize(scale, filters)


def with_bias(x: TensorType, weights: Value, bias: Value | None, filters: int) -> Weighted | str:
    """Weights, and their bias as int32 codes (int64 beside 16-bit data) at scale x * weights.

    A bias of another scale, or a float one, is off by half of such a step at most. Where its codes
    would leave 32 bits, the scale of that filter's weights is raised.
    """
    if bias is None:
        return Weighted(weights, None)
    if bias.data is None:
        return "its bias is computed at run time"
    assert x.quant is not None
    assert weights.quant is not None
    quant = weights.quant
    scale = product_scale(x.quant, quant, filters)
    if not np.all(np.isfinite(scale) & (scale > 0)):
        return "the product of its scales is no number that a bias could have"
    real = _real(bias)
    if not np.all(np.isfinite(real)):
        return "its bias isn't finite"
    wide = x.dtype.bits > 8
    kept = bias.dtype is DType.INT32 and _is_at(bias, scale)  # it is what the source adds
    if not wide and not kept and np.any(np.abs(real) > scale * MOST_BIAS):
        raised = _raised(weights, x.quant, real, filters)
        if isinstance(raised, str):
            return raised
        assert raised.quant is not None
        weights, quant = raised, raised.quant
        scale = product_scale(x.quant, quant, filters)
    dtype = DType.INT64 if wide else DType.INT32
    steps = (
        Quant.per_tensor(scale[0])
        if quant.is_per_tensor
        else Quant.per_channel(scale.tolist(), axis=0)
    )
    if _is_at(bias, scale) and bias.dtype.is_integer:
        codes = bias.data.reshape(-1)
    else:
        codes = np.rint(real / scale)
    kind = TensorType(dtype, (filters,), steps)
    data = codes.astype(dtype.numpy, copy=False)
    return Weighted(weights, Value(bias.name, kind, data=data, origin=bias.origin))


def _real(value: Value) -> np.ndarray:
    assert value.data is not None
    if value.quant is not None and value.dtype.is_integer:
        return dequantize(value.data, value.quant, np.float64).reshape(-1)
    return value.data.astype(np.float64).reshape(-1)


def _is_at(bias: Value, scale: np.ndarray) -> bool:
    """Whether a bias has codes of these scales already."""
    if bias.quant is None or not bias.quant.is_symmetric or bias.quant.block:
        return False
    own = np.asarray(bias.quant.scale, np.float64)
    if own.size not in (1, scale.size):
        return False
    return bool(np.allclose(own, scale, rtol=_EQUAL, atol=0))


def _raised(weights: Value, x: Quant, real: np.ndarray, filters: int) -> Value | str:
    """Weights whose scales leave room for a bias: each filter has its own then."""
    quant, data = weights.quant, weights.data
    assert quant is not None
    assert data is not None
    if data.shape[0] != filters or not quant.is_symmetric:
        return "its bias is too large for the product of its scales"
    old = np.resize(np.asarray(quant.scale, np.float64), filters)
    new = np.maximum(old, np.abs(real) / (x.scale[0] * MOST_BIAS) * (1 + 1e-6))
    ratio = (old / new).reshape(-1, *(1,) * (data.ndim - 1))
    codes = np.rint(data * ratio).astype(data.dtype)
    kind = TensorType(weights.dtype, weights.shape, Quant.per_channel(new.tolist(), axis=0))
    return Value(weights.name, kind, data=codes, origin=weights.origin)


def constant_as_codes(value: Value, beside: TensorType) -> Value | str:
    """A constant operand as codes of the type of the values beside it, exactly.

    Their parameters are taken where the constant is on their grid.
    """
    data, dtype = value.data, beside.dtype
    if data is None:
        return f"`{value.name}` isn't quantized"
    if value.quant is not None and value.dtype.is_integer:
        if not value.quant.is_per_tensor:
            return f"`{value.name}` has a scale for each channel"
        if value.dtype is dtype:
            return value
        shifted = resigned(value, dtype)
        if shifted is not None:
            return shifted
    real = _real(value).reshape(data.shape)
    if not np.all(np.isfinite(real)):
        return f"`{value.name}` isn't finite"
    low, high = dtype.int_range
    middle = 0 if low < 0 else (high + 1) // 2
    for quant in _candidates(real, beside.quant, middle, high - middle):
        codes = quantize(real, quant, dtype)
        if np.array_equal(dequantize(codes, quant, np.float64), real):
            kind = TensorType(dtype, tuple(data.shape), quant)
            return Value(value.name, kind, data=codes, origin=value.origin)
    return f"`{value.name}` can't be written as codes exactly"


def multiply_instead(node: Node) -> None:
    """Make a division of codes by one constant number a product: kernels are faster at that."""
    if not isinstance(node.op, Div):
        return
    divisor = node.inputs[1]
    if divisor is None or divisor.data is None or divisor.data.size != 1:
        return
    if not divisor.dtype.is_float or divisor.dtype is DType.BFLOAT16:
        return
    with np.errstate(all="ignore"):
        factor = (1 / divisor.data.astype(np.float64)).astype(divisor.data.dtype)
    if not np.all(np.isfinite(factor)) or not np.all(factor):
        return
    node.op = Mul(activation=node.op.activation)
    node.replace_input_with(1, Value(divisor.name, divisor.type, data=factor))


def _candidates(real: np.ndarray, beside: Quant | None, middle: int, most: int) -> list[Quant]:
    """Parameters under which a constant might be codes."""
    found = [beside] if beside is not None and beside.is_per_tensor else []
    sizes = np.abs(real[real != 0])
    if not sizes.size:
        return [*found, Quant.per_tensor(1.0, middle)]
    largest, least = float(sizes.max()), float(sizes.min())
    power = (most + 1) // 2  # a power of two: the scale is exact, and the code uses the range
    scales = (largest / power, least, largest / most, 1.0)
    return [*found, *(Quant.per_tensor(s, middle) for s in scales if np.float32(s) > 0)]


def resigned(value: Value, dtype: DType) -> Value | None:
    """A constant's codes in the type of as many bits with the other sign, with equal real values.

    None where ``dtype`` isn't that.
    """
    old = value.dtype
    if old.bits != dtype.bits or old.is_signed is dtype.is_signed or old.bits not in (8, 16):
        return None
    assert value.data is not None
    assert value.quant is not None
    half = 1 << (old.bits - 1)
    unsigned = np.dtype(f"uint{old.bits}")
    data = (value.data.view(unsigned) ^ unsigned.type(half)).view(dtype.numpy)
    quant = value.quant.shifted(half if old.is_signed else -half)
    kind = TensorType(dtype, value.shape, quant)
    return Value(value.name, kind, data=data, origin=value.origin)
