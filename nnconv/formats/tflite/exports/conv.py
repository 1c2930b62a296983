"""Convolutions, channels-last. Their bias tensor is written even where the op has none."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nnconv.decompositions.base import Refused
from nnconv.formats.biases import bias_codes, bias_quant
from nnconv.formats.tflite._gen.schema import Padding as Scheme
from nnconv.formats.tflite.exporter import FLOAT32, Exporter, Target
from nnconv.formats.tflite.types import CODES
from nnconv.formats.tflite.window import padded, require_channels_last, scheme_of
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node, Value
from nnconv.ir.op import Op, Perm
from nnconv.ir.quant import real_values
from nnconv.ir.types import TensorType, static_shape
from nnconv.ops import conv as c
from nnconv.ops.quantize import Dequantize
from nnconv.ops.rewrite import constant_behind
from nnconv.ops.spatial import Padding, is_sorted

_NARROW = frozenset({DType.INT8, DType.INT4})

MOST_SCALE = 256.0
"""From this ratio of scales on, XNNPACK refuses the file."""


class Weighted(NamedTuple):
    """The operands of a weighted op whose types suit."""

    x: Value
    weights: Value
    bias: Value | None
    integer: bool

    @property
    def version_of_type(self) -> int:
        """The version of CONV_2D that brought the types."""
        if not self.integer:
            return 1 if self.weights.quant is None else 5
        if self.weights.dtype is DType.INT4:
            return 7
        return {DType.UINT8: 1, DType.INT8: 3, DType.INT16: 4}[self.x.dtype]


def _present(node: Node) -> tuple[int, ...]:
    """The numbers of data, weights and bias."""
    return tuple(i for i, value in enumerate(node.inputs[:3]) if value is not None)


def weighted(node: Node, t: Target, *, narrow: bool = False, hybrid: bool = False) -> Weighted:
    """The operands of a node: all float32, or codes that the integer kernels take.

    ``narrow`` says whether weights may have 4 bits, ``hybrid`` whether int8 weights may meet floats
    where the source had it so: the kernels then quantize the data too.

    Raises:
        Refused: the types are others; the node will be done in float32 instead.
    """
    x, weights, bias = node.operand(0), node.operand(1), node.optional(2)
    y = node.outputs[0]
    operands = _present(node)
    quantized = [v for v in (x, weights, bias, y) if v is not None and v.type.has_codes]
    if not quantized:
        t.require(node, plain=FLOAT32, operands=operands)
        return Weighted(x, weights, bias, integer=False)
    if quantized == [weights] and hybrid and _is_hybrid(node, weights):
        t.require(node, plain=FLOAT32, operands=[i for i in operands if i != 1])
        return Weighted(x, weights, bias, integer=False)
    why = _obstacle(x, weights, bias, y, narrow=narrow)
    if why:
        raise Refused(why, types=FLOAT32, operands=operands)
    return Weighted(x, weights, bias, integer=True)


def _is_hybrid(node: Node, weights: Value) -> bool:
    quant = weights.quant
    return (
        node.origin.format == "tflite"
        and weights.data is not None
        and weights.dtype is DType.INT8
        and quant is not None
        and quant.is_symmetric
        and not quant.block
    )


def _obstacle(x: Value, weights: Value, bias: Value | None, y: Value, *, narrow: bool) -> str:
    """Why the integer kernels don't take a node; "" if they do."""
    xq, wq, yq = x.quant, weights.quant, y.quant
    if xq is None or wq is None or yq is None or not y.type.has_codes or not x.type.has_codes:
        return "some of its operands are codes, others floats"
    if x.dtype is not y.dtype or not xq.is_per_tensor or not yq.is_per_tensor:
        return f"{x.type} becomes {y.type}"
    if weights.data is None or wq.block or wq.axis not in (None, 0):
        return f"its weights are {weights.type}"
    if x.dtype is DType.UINT8:
        if weights.dtype is not DType.UINT8 or not wq.is_per_tensor:
            return f"its weights are {weights.type}, its data {x.type}"
    elif x.dtype not in (DType.INT8, DType.INT16):
        return f"its data are {x.type}"
    elif weights.dtype not in (_NARROW if narrow else {DType.INT8}) or not wq.is_symmetric:
        return f"its weights are {weights.type}"
    if x.dtype is DType.INT16 and not (xq.is_symmetric and yq.is_symmetric):
        return "16-bit codes have zero points"
    if max(wq.scale) * xq.scale[0] / yq.scale[0] >= MOST_SCALE:
        return "the scale of its result is too small"
    if bias is not None and bias.data is None:
        return "its bias is computed at run time"
    return ""


def bias_tensor(t: Target, w: Weighted, filters: int, *, wide: bool = False) -> int:
    """The tensor of a bias; zeros where there is none.

    For the integer kernels: int32, or int64 if ``wide``, at scale x * weights.
    """
    if not w.integer:
        if w.bias is None:
            return t.const(np.zeros(filters, np.float32))
        return t.tensor(w.bias) if w.bias.type.rank == 1 else _flat(t, w.bias)
    assert w.x.quant is not None
    assert w.weights.quant is not None
    dtype = DType.INT64 if wide else DType.INT32
    quant = bias_quant(w.x.quant, w.weights.quant)
    if w.bias is None:
        return t.const(np.zeros(filters, dtype.numpy), quant=quant, dtype=dtype)
    codes = bias_codes(w.bias, quant, dtype)
    assert codes is not None  # `weighted` refuses what is computed at run time
    return t.const(codes, quant=quant, dtype=dtype, name=w.bias.name)


def needs_wide_bias(node: Node, w: Weighted) -> bool:
    """Whether the bias of integer kernels must be int64.

    Kernels of 16-bit data take either type and sum in it. Those of int32 are ten times as quick,
    and round a little otherwise: what a TFLite file has stays, for the same numbers.
    """
    if not w.integer or w.x.dtype is not DType.INT16:
        return False
    if w.bias is not None and node.origin.format == "tflite":
        return w.bias.dtype is DType.INT64
    assert w.x.quant is not None
    assert w.weights.data is not None
    assert w.weights.quant is not None
    codes = np.abs(w.weights.data.astype(np.int64))
    sums = codes.reshape(len(codes), -1).sum(axis=1) << 15
    if w.bias is not None:
        bias = bias_codes(w.bias, bias_quant(w.x.quant, w.weights.quant), DType.INT64)
        assert bias is not None
        sums = sums + np.abs(bias)
    return bool(sums.max(initial=0) > DType.INT32.int_range[1])


def bias_type(w: Weighted, *, wide: bool) -> dict[str, Any]:
    """The option that tells kernels of 16-bit data the type of their bias."""
    if not w.integer or w.x.dtype is not DType.INT16:
        return {}
    return {"quantized_bias_type": CODES[DType.INT64 if wide else DType.INT32]}


def _flat(t: Target, bias: Value) -> int:
    if bias.data is not None:
        return t.const(bias.data.reshape(-1), name=bias.name)
    kind = TensorType(bias.dtype, (None,))
    return t.result("RESHAPE", [t.tensor(bias), t.ints([-1])], kind, ("ReshapeOptions", {}))


def oriented(t: Target, value: Value, perm: Perm) -> int:
    """The tensor of weights transposed by ``perm``; constants, and what they become, stay such."""
    if is_sorted(perm):
        return t.tensor(value)
    source = constant_behind(value)
    kind = value.type.permuted(perm)
    if source is None or source.data is None:
        operands = [t.tensor(value), t.ints(perm)]
        return t.result("TRANSPOSE", operands, kind, ("TransposeOptions", {}))
    quant = None if source.quant is None else source.quant.permuted(perm, source.shape)
    turned = source.data.transpose(perm)
    if quant is not None and quant.block and source is not value:  # which no kernel reads
        return t.const(real_values(turned, quant, value.dtype), name=value.name)
    codes = t.const(turned, quant=quant, dtype=source.dtype, name=source.name)
    if source is value:
        return codes
    assert value.producer is not None
    half = source.dtype is DType.FLOAT16 and value.dtype is DType.FLOAT32
    if isinstance(value.producer.op, Dequantize) or half:  # a CAST is done in each run
        return t.result("DEQUANTIZE", [codes], kind, ("DequantizeOptions", {}), version=2)
    return t.cast(codes, source.dtype, kind)


def known_filters(t: Target, weights: Value) -> tuple[int, ...]:
    """The extents of weights.

    Raises:
        Refused: they aren't known.
    """
    shape = static_shape(weights.shape)
    if shape is None:
        raise t.refused(f"the extents of its weights `{weights.name}` aren't known")
    return shape


def export_conv_2d(node: Node, t: Target) -> None:
    """CONV_2D, with groups; DEPTHWISE_CONV_2D where each group is one channel."""
    op, x, weights = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, c.Conv2D)
    extents = require_channels_last(t, x, op.layout, 4)
    filters = known_filters(t, weights)
    depthwise = op.groups > 1 and filters[3] == 1
    w = weighted(node, t, narrow=not depthwise or x.dtype is DType.INT8, hybrid=True)
    if depthwise:
        t.check_speed(node)
    window = filters[1:3]
    scheme = scheme_of(extents, op.padding, window, op.stride, op.dilation)
    data = t.tensor(x) if scheme is not None else padded(t, x, op.padding)
    fields: dict[str, Any] = {
        "padding": Scheme.VALID if scheme is None else scheme,
        "stride_h": op.stride[0],
        "stride_w": op.stride[1],
        "dilation_h_factor": op.dilation[0],
        "dilation_w_factor": op.dilation[1],
        "fused_activation_function": t.activation(op.activation),
    }
    version = max(w.version_of_type, 2 if max(op.dilation) > 1 else 1)
    wide = w.x.dtype is DType.INT16 if depthwise else needs_wide_bias(node, w)
    bias = bias_tensor(t, w, filters[0], wide=wide)
    if depthwise:
        fields["depth_multiplier"] = filters[0] // op.groups
        operands = [data, oriented(t, weights, (3, 1, 2, 0)), bias]
        options = ("DepthwiseConv2DOptions", fields)
        version = min(version, 6)
        t.emit("DEPTHWISE_CONV_2D", operands, node.outputs[0], options, version=version)
        return
    fields |= bias_type(w, wide=wide)
    operands = [data, t.tensor(weights), bias]
    version = max(version, 6 if op.groups > 1 else 1)
    t.emit("CONV_2D", operands, node.outputs[0], ("Conv2DOptions", fields), version=version)


def export_conv_3d(node: Node, t: Target) -> None:
    """CONV_3D, of float32 and without groups: filter [D, H, W, I, O]."""
    op, x, weights = node.op, node.operand(0), node.operand(1)
    assert isinstance(op, c.Conv3D)
    extents = require_channels_last(t, x, op.layout, 5)
    filters = known_filters(t, weights)
    w = weighted(node, t)
    if w.integer:
        raise Refused("it takes no codes", types=FLOAT32, operands=_present(node))
    if op.groups > 1:
        raise t.refused("it has groups")
    if max(op.dilation) > 1:
        raise t.refused("it has dilations")
    scheme = scheme_of(extents, op.padding, filters[1:4], op.stride, op.dilation)
    data = t.tensor(x) if scheme is not None else padded(t, x, op.padding)
    operands = [data, oriented(t, weights, (1, 2, 3, 4, 0)), bias_tensor(t, w, filters[0])]
    fields = _fields_3d(t, op, Scheme.VALID if scheme is None else scheme)
    t.emit("CONV_3D", operands, node.outputs[0], ("Conv3DOptions", fields))


def _fields_3d(t: Target, op: c.Conv3D | c.ConvTranspose3D, scheme: Scheme) -> dict[str, Any]:
    fields: dict[str, Any] = {"padding": scheme}
    for axis, step in zip("dhw", op.stride, strict=True):
        fields[f"stride_{axis}"] = step
    fields["fused_activation_function"] = t.activation(op.activation)
    return fields


# -------------------------------------------------------------------- transposed

_Transposed = c.ConvTranspose2D | c.ConvTranspose3D


class Reach(NamedTuple):
    """What a transposed convolution gives by a scheme, and the result in it."""

    scheme: Scheme
    full: tuple[int | None, ...]
    before: tuple[int, ...]
    cut: bool


def _reach(
    op: _Transposed, extents: tuple[int | str | None, ...], window: tuple[int, ...]
) -> Reach:
    """SAME where kernels then give the very result; else VALID, of which a part is the result."""
    known = tuple(n if isinstance(n, int) else None for n in extents)
    full = []
    for i, extent in enumerate(known):
        reach = window[i] + op.output_padding[i]
        full.append(None if extent is None else (extent - 1) * op.stride[i] + reach)
    before, after = op.padding.before, op.padding.after
    if op.padding.is_zero:
        return Reach(Scheme.VALID, tuple(full), before, cut=False)
    wanted = [None if n is None else n - b - a for n, b, a in zip(full, before, after, strict=True)]
    if all(
        out is not None
        and extent is not None
        and _is_same(out, extent, op.stride[i])
        and before[i] == max((extent - 1) * op.stride[i] + window[i] - out, 0) // 2
        for i, (out, extent) in enumerate(zip(wanted, known, strict=True))
    ):
        return Reach(Scheme.SAME, tuple(wanted), (0,) * len(window), cut=False)
    return Reach(Scheme.VALID, tuple(full), before, cut=True)


def _is_same(out: int, extent: int, stride: int) -> bool:
    """Whether the forward convolution of ``out`` elements under SAME gives ``extent``."""
    return out > 0 and -(-out // stride) == extent


def export_conv_transpose(node: Node, t: Target) -> None:
    """TRANSPOSE_CONV, CONV_3D_TRANSPOSE (float32): a SLICE cuts what no scheme cuts."""
    op, x, weights, y = node.op, node.operand(0), node.operand(1), node.outputs[0]
    assert isinstance(op, _Transposed)
    rank = op.spatial_rank
    extents = require_channels_last(t, x, op.layout, rank + 2)
    filters = known_filters(t, weights)
    window = filters[1:-1]
    w = weighted(node, t)
    if w.integer and rank == 3:
        raise Refused("it takes no codes", types=FLOAT32, operands=_present(node))
    if op.size is not None or op.padding.same:
        raise t.refused("its extents are given, and those of its operand aren't known")
    beyond = any(more >= step for more, step in zip(op.output_padding, op.stride, strict=True))
    if op.groups > 1 or max(op.dilation) > 1 or beyond:
        why = "its result reaches beyond its windows" if beyond else "it has groups or dilations"
        if w.integer:
            raise Refused(why, types=FLOAT32, operands=_present(node))
        raise t.refused(why)
    reach = _reach(op, extents, window)
    shape = _full_shape(t, x, op, reach, filters)
    wide = needs_wide_bias(node, w)
    bias = bias_tensor(t, w, filters[0], wide=wide)
    if rank == 2:
        fields: dict[str, Any] = {
            "padding": reach.scheme,
            "stride_h": op.stride[0],
            "stride_w": op.stride[1],
            "fused_activation_function": t.activation(op.activation),
        }
        fields |= bias_type(w, wide=wide)
        name, version = "TRANSPOSE_CONV", 4 if fields["fused_activation_function"] else 3
        options = ("TransposeConvOptions", fields)
        operands = [shape, t.tensor(weights), t.tensor(x), bias]
    else:
        name, version = "CONV_3D_TRANSPOSE", 1
        assert isinstance(op, c.ConvTranspose3D)
        options = ("Conv3DOptions", _fields_3d(t, op, reach.scheme))
        operands = [shape, oriented(t, weights, (1, 2, 3, 0, 4)), t.tensor(x), bias]
    if not reach.cut:
        t.emit(name, operands, y, options, version=version)
        return
    kind = TensorType(y.dtype, (x.shape[0] if x.shape else None, *reach.full, filters[0]), y.quant)
    full = t.result(name, operands, kind, options, version=version)
    _emit_cut(t, full, op.padding, y)


def _full_shape(
    t: Target, x: Value, op: _Transposed, reach: Reach, filters: tuple[int, ...]
) -> int:
    """The shape of what kernels give; worked out at run time where extents aren't known."""
    assert x.shape is not None
    dims = (x.shape[0], *reach.full, filters[0])
    if all(isinstance(dim, int) for dim in dims):
        return t.ints([dim for dim in dims if isinstance(dim, int)])
    kind = TensorType(DType.INT32, (len(dims),))
    options = ("ShapeOptions", {"out_type": CODES[DType.INT32]})
    sizes = t.result("SHAPE", [t.tensor(x)], kind, options)
    places = zip(reach.full, filters[1:-1], op.output_padding, op.stride, strict=True)
    steps, more = [], []
    for known, window, extra, step in places:
        steps.append(step if known is None else 0)
        more.append(window + extra - step if known is None else known)
    scaled = t.result("MUL", [sizes, t.ints([1, *steps, 0])], kind, ("MulOptions", {}))
    return t.result("ADD", [scaled, t.ints([0, *more, filters[0]])], kind, ("AddOptions", {}))


def _emit_cut(t: Target, full: int, padding: Padding, y: Value) -> None:
    """What is left of ``full`` without its padding."""
    ends = [-after for after in padding.after]
    rank = len(ends) + 2
    open_ends = [i + 1 for i, end in enumerate(ends) if not end]
    mask = sum(1 << i for i in (0, rank - 1, *open_ends))
    operands = [full, t.ints([0, *padding.before, 0]), t.ints([0, *ends, 0]), t.ints([1] * rank)]
    options = ("StridedSliceOptions", {"begin_mask": 1 | 1 << (rank - 1), "end_mask": mask})
    t.emit("STRIDED_SLICE", operands, y, options)


EXPORTERS: dict[type[Op], Exporter] = {
    c.Conv2D: export_conv_2d,
    c.Conv3D: export_conv_3d,
    c.ConvTranspose2D: export_conv_transpose,
    c.ConvTranspose3D: export_conv_transpose,
}
