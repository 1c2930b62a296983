"""What random graphs are drawn from besides single ops: groups of ops that converters write.

And the ops whose operands come from other ops: shapes and indices known only at run time.
"""

from __future__ import annotations

import numpy as np

from support.random_core import UnfitError
from support.random_moves import MOVED, MOVERS
from support.random_net import Net, Slot
from support.random_ops import (
    ACTIVATIONS,
    CODED,
    FLOAT,
    MAKERS,
    Maker,
    bias,
    partner,
    still,
    weights,
)


def _conv(n: Net, x: Slot, filters: int, size: int = 1, **options: object) -> Slot:
    kernel, scales = weights(n, x, (filters, size, size, x.shape[3]), 0)
    settings = {
        "stride_h": 1,
        "stride_w": 1,
        "padding": "SAME",
        "fused_activation_function": n.one(ACTIVATIONS),
        **options,
    }
    return n.add("CONV_2D", [x, kernel, bias(n, x, filters, scales)], real=True, **settings)[0]


def residual(n: Net) -> None:
    """A convolution added to what went into it."""
    x = n.pick(*FLOAT, *CODED, ranks=[4])
    y = _conv(n, x, x.shape[3], n.number(1, 3))
    extra = {"pot_scale_int16": False} if x.dtype == "int16" else {}
    n.add("ADD", [x, y], real=True, fused_activation_function=n.one(ACTIVATIONS), **extra)


def dilated(n: Net) -> None:
    """SPACE_TO_BATCH_ND, a convolution, BATCH_TO_SPACE_ND: how dilation was written once."""
    still(n)
    x = n.pick(*FLOAT, *CODED, ranks=[4], small=300)
    rate, size = n.number(1, 3), n.number(2, 3)
    pads, crops = [], []
    for extent in x.shape[1:3]:
        reach = (size - 1) * rate
        low = reach // 2
        high = reach - low
        more = -(extent + reach) % rate
        pads.append([low, high + more])
        crops.append([0, more])
    block = n.ints(rate, rate)
    x = n.add("SPACE_TO_BATCH_ND", [x, block, n.const(np.int32(pads))])[0]
    if n.chance(0.5):
        x = _conv(n, x, n.number(1, 4), size, padding="VALID")
    else:
        kernel, scales = weights(n, x, (1, size, size, x.shape[3]), 3)
        x = n.add(
            "DEPTHWISE_CONV_2D",
            [x, kernel, bias(n, x, x.shape[3], scales)],
            real=True,
            stride_h=1,
            stride_w=1,
            padding="VALID",
            depth_multiplier=1,
        )[0]
    n.add("BATCH_TO_SPACE_ND", [x, n.ints(rate, rate), n.const(np.int32(crops))])


def other_layout(n: Net) -> None:
    """A transpose to the other layout, something there, and now and then the way back."""
    x = n.pick(*MOVED, ranks=[4])
    there, back = n.one([((0, 3, 1, 2), (0, 2, 3, 1)), ((0, 2, 3, 1), (0, 3, 1, 2))])
    x = n.add("TRANSPOSE", [x, n.ints(*there)])[0]
    kind = n.number(0, 3)
    if kind == 0 and x.dtype in (*FLOAT, *CODED):
        x = n.add("RELU" if x.dtype != "int16" else "LEAKY_RELU", [x], real=x.quantized)[0]
    elif kind == 1 and x.dtype in (*FLOAT, *CODED):
        extra = {"pot_scale_int16": False} if x.dtype == "int16" else {}
        x = n.add("ADD", [x, partner(n, x)], real=True, **extra)[0]
    elif kind == 2 and x.dtype in (*FLOAT, *CODED):
        x = _conv(n, x, n.number(1, 4), n.number(1, 2))
    if n.chance(0.6):
        n.add("TRANSPOSE", [x, n.ints(*back)])


def shuffle(n: Net) -> None:
    """Channels shuffled by RESHAPE, TRANSPOSE, RESHAPE."""
    still(n)
    x = n.pick(*FLOAT, *CODED, ranks=[4])
    b, h, w, c = x.shape
    groups = [g for g in (2, 3) if c % g == 0]
    if not groups:
        raise UnfitError
    g = n.one(groups)
    y = n.add("RESHAPE", [x, n.ints(b, h, w, g, c // g)], new_shape=(b, h, w, g, c // g))[0]
    y = n.add("TRANSPOSE", [y, n.ints(0, 1, 2, 4, 3)])[0]
    n.add("RESHAPE", [y, n.ints(b, h, w, c)], new_shape=(b, h, w, c))


def gate(n: Net) -> None:
    """Squeeze and excitation: the mean of an image, through layers, times the image."""
    x = n.pick(*FLOAT, *CODED[:2], ranks=[4])
    keep = n.chance(0.5)
    y = n.add("MEAN", [x, n.ints(1, 2)], real=x.quantized, keep_dims=keep)[0]
    if not keep:
        shape = (-1, 1, 1, x.shape[3])
        y = n.add("RESHAPE", [y, n.ints(*shape)], new_shape=shape)[0]
    y = _conv(n, y, x.shape[3])
    fixed = {"int8": (1 / 256, -128), "uint8": (1 / 256, 0)}
    y = n.add("LOGISTIC", [y], real=x.quantized, quant=fixed.get(x.dtype))[0]
    n.add("MUL", n.one([[x, y], [y, x]]), real=True)


def swish(n: Net) -> None:
    """x * min(max(x + 3, 0), 6) / 6, op by op."""
    x = n.pick(*FLOAT, "int8", "uint8", ranks=[2, 3, 4])
    three = n.const(np.float32(3))
    if x.quantized:
        three = n.const(np.asarray(100, x.dtype), quant=(0.03, 0))
    y = n.add("ADD", [x, three], real=True, fused_activation_function="RELU6")[0]
    y = n.add("MUL", [x, y], real=True)[0]
    if not x.quantized:
        n.add("MUL", [y, n.const(np.float32(1 / 6))])


def layer_norm(n: Net) -> None:
    """Mean and variance over the last dimension, op by op."""
    x = n.pick("float32", ranks=[2, 3, 4])
    last = n.ints(-1)
    mean = n.add("MEAN", [x, last], keep_dims=True)[0]
    distance = n.add("SQUARED_DIFFERENCE", [x, mean])[0]
    variance = n.add("MEAN", [distance, last], keep_dims=True)[0]
    safe = n.add("ADD", [variance, n.const(np.float32(0.1))])[0]
    scale = n.add("RSQRT", [safe])[0]
    centered = n.add("SUB", [x, mean])[0]
    n.add("MUL", [centered, scale])


def attention(n: Net) -> None:
    """Products of matrices around a softmax."""
    x = n.pick(*FLOAT, "int8", ranks=[3], small=200)
    y = n.add("BATCH_MATMUL", [x, x], real=True, adj_y=True)[0]
    fixed = (1 / 256, -128) if x.quantized else None
    y = n.add("SOFTMAX", [y], real=x.quantized, quant=fixed, beta=1.0)[0]
    n.add("BATCH_MATMUL", [y, x], real=True)


def flattened(n: Net) -> None:
    """An image flattened for a fully connected layer."""
    x = n.pick(*FLOAT, *CODED, ranks=[4, 3])
    size = int(np.prod(x.shape[1:]))
    shape = (-1, size)
    y = n.add("RESHAPE", [x, n.ints(*shape)], new_shape=shape)[0]
    kernel, scales = weights(n, y, (n.number(1, 5), size), 0)
    operands = [y, kernel, bias(n, y, kernel.shape[0], scales)]
    n.add("FULLY_CONNECTED", operands, real=True, fused_activation_function=n.one(ACTIVATIONS))


def recast(n: Net) -> None:
    """A tensor dequantized, computed with and quantized again; or quantized and dequantized."""
    x = n.pick(*FLOAT, *CODED)
    if x.quantized:
        y = n.add("DEQUANTIZE", [x], ["float32"])[0]
        op = n.one(["RELU", "ABS", "NEG", "TANH", "FLOOR", "LEAKY_RELU"])
        y = n.add(op, [y])[0]
        n.add("QUANTIZE", [y], [x.dtype], quant=n.quant_for(y.data, x.dtype))
        return
    dtype = n.one(CODED)
    y = n.add("QUANTIZE", [x], [dtype], quant=n.quant_for(x.data, dtype))[0]
    n.add("DEQUANTIZE", [y], ["float32"])


def shape_at_run_time(n: Net) -> None:
    """A flat tensor under the shape that another one has when it runs."""
    x = n.pick(*MOVED, ranks=[2, 3, 4])
    shape = n.add("SHAPE", [x], ["int32"], out_type="int32")[0]
    flat = n.add("RESHAPE", [x, n.ints(-1)], new_shape=(-1,))[0]
    if n.dynamic:
        n.slots.remove(flat)  # its extent isn't the batch
    n.add("RESHAPE", [flat, shape])


def shape_in_parts(n: Net) -> None:
    """A new shape packed from the batch and constants, as Keras writes it."""
    x = n.pick(*MOVED, ranks=[2, 3, 4])
    shape = n.add("SHAPE", [x], ["int32"], out_type="int32")[0]
    n.slots.remove(shape)
    bounds = [n.ints(0), n.ints(1), n.ints(1)]
    batch = n.add("STRIDED_SLICE", [shape, *bounds], shrink_axis_mask=1)[0]
    n.slots.remove(batch)
    rest = int(np.prod(x.shape[1:]))
    parts = [batch, n.const(np.int32(rest)), n.const(np.int32(1))]
    wanted = n.add("PACK", parts, axis=0, values_count=3)[0]
    n.slots.remove(wanted)
    n.add("RESHAPE", [x, wanted])


def chosen_rows(n: Net) -> None:
    """GATHER at the greatest elements, wherever they turn out to be."""
    x = n.pick(*FLOAT, "int8", "int32", ranks=[2, 3])
    if n.dynamic:
        raise UnfitError
    axis = x.rank - 1
    best = n.add("ARG_MAX", [x, n.ints(axis)], ["int32"], output_type="int32")[0]
    n.add("GATHER", [x, best], axis=axis)


def cut_at_run_time(n: Net) -> None:
    """SLICE from a place that an input gives."""
    still(n)
    x = n.pick(*FLOAT, "int8", ranks=[2, 3, 4])
    axis = n.number(0, x.rank - 1)
    best = n.add("ARG_MAX", [x, n.ints(axis)], ["int32"], output_type="int32")[0]
    flat = n.add("RESHAPE", [best, n.ints(-1)], new_shape=(-1,))[0]
    first = n.add("SLICE", [flat, n.ints(0), n.ints(1)])[0]
    first = n.add("MINIMUM", [first, n.ints(x.shape[0] - 1)])[0]
    zeros = n.ints(*[0] * (x.rank - 1))
    begin = n.add("CONCATENATION", [first, zeros], axis=0)[0]
    n.add("SLICE", [x, begin, n.ints(1, *[-1] * (x.rank - 1))])


def sum_of_all(n: Net) -> None:
    """ADD_N of equals."""
    x = n.pick("float32", "int32")
    like = [s for s in n.slots if s.dtype == x.dtype and s.shape == x.shape and not s.quantized]
    n.add("ADD_N", [x, *(n.one(like) for _ in range(n.number(1, 3)))])


def same_twice(n: Net) -> None:
    """One op on twice the same tensor."""
    x = n.pick(*FLOAT, *CODED, ranks=[2, 3, 4])
    op = n.one(["ADD", "MUL", "SUB", "CONCATENATION", "PACK"])
    if op == "PACK":
        n.add(op, [x, x], axis=n.number(1, x.rank), values_count=2)
    elif op == "CONCATENATION":
        n.add(op, [x, x], axis=n.number(1, x.rank - 1))
    else:
        extra = {"pot_scale_int16": False} if x.dtype == "int16" and op != "MUL" else {}
        n.add(op, [x, x], real=True, **extra)


PATTERNS: tuple[tuple[Maker, float], ...] = (
    (residual, 2),
    (dilated, 1.5),
    (other_layout, 3),
    (shuffle, 1.5),
    (gate, 1.5),
    (swish, 1),
    (layer_norm, 1),
    (attention, 1),
    (flattened, 1.5),
    (recast, 1.5),
    (shape_at_run_time, 0.7),
    (shape_in_parts, 0.7),
    (chosen_rows, 0.5),
    (cut_at_run_time, 0.5),
    (sum_of_all, 0.5),
    (same_twice, 1),
)
_ALL = (*MAKERS, *MOVERS, *PATTERNS)
_WEIGHTS = np.asarray([weight for _, weight in _ALL])


def add_random(n: Net) -> None:
    """Add one op, or a few that belong together.

    Raises:
        UnfitError: the net has nothing for what was drawn.
    """
    _ALL[int(n.rng.choice(len(_ALL), p=_WEIGHTS / _WEIGHTS.sum()))][0](n)
