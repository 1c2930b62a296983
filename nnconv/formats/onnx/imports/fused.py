"""Ops that onnxruntime's optimizers put in the place of several standard ones.

Each is read as the standard ops that it stands for, so nothing behind the importers knows of it.

Source: onnxruntime/docs/ContribOperators.md (domain com.microsoft).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnconv.formats.onnx.importer import Importer, Source
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ops import elementwise as e
from nnconv.ops.quantize import Cast
from nnconv.ops.reduce import ReduceSum
from nnconv.ops.shape import Range, ShapeOf, Squeeze, Transpose, Unsqueeze

NEW = 23
"""The operator set that has what attention and its norms are made of; models here are older."""


def number(src: Source, value: float, dtype: DType) -> Value:
    """A constant of one element, of rank 0."""
    return src.const(np.asarray(value, dtype.numpy))


def total(src: Source, *parts: Value | None) -> Value:
    """The sum of those that are there."""
    found, *more = [v for v in parts if v is not None]
    for value in more:
        found = src.standard("Add", [found, value])[0]
    return found


def counted(src: Source, value: Value, axis: int) -> Value:
    """0, 1, ... as many as ``value`` has places along an axis: int64 [extent]."""
    extent = src.add(ShapeOf(dtype=DType.INT64, dims=(axis,)), [value])
    limit = src.add(Squeeze(axes=(0,)), [extent])
    return src.add(Range(), [number(src, 0, DType.INT64), limit, number(src, 1, DType.INT64)])


# -------------------------------------------------------------------- activations


def _gelu(approximate: str) -> Importer:
    def import_gelu(src: Source) -> None:
        x = total(src, src.operand(0), src.optional(1))
        src.bind(0, src.standard("Gelu", [x], {"approximate": approximate})[0])

    import_gelu.__doc__ = "Gelu, BiasGelu, FastGelu: of x, or the sum of x and a bias."
    return import_gelu


def import_quick_gelu(src: Source) -> None:
    """QuickGelu: x * sigmoid(alpha * x)."""
    x = src.operand(0)
    scaled = src.standard("Mul", [x, number(src, src.float("alpha", 1.702), x.dtype)])[0]
    src.bind(0, src.standard("Mul", [x, src.standard("Sigmoid", [scaled])[0]])[0])


_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
}
"""The attributes that parameters of an activation are, in order."""


def activated(src: Source, x: Value, parameters: Sequence[float]) -> Value:
    """What the activation that the node names gives."""
    name = src.text("activation", "")
    if not name:
        return x
    if name == "Clip" and len(parameters) == 2:
        return src.add(e.Clip(low=parameters[0], high=parameters[1]), [x])
    attributes = _ACTIVATIONS.get(name)
    if attributes is None or len(parameters) > len(attributes):
        raise src.unsupported(f"activation {name} of the parameters {list(parameters)}")
    return src.standard(name, [x], dict(zip(attributes, parameters, strict=False)))[0]


# -------------------------------------------------------------------- products


def _kept(src: Source, *names: str) -> dict[str, Any]:
    """Those attributes of the node, as a standard op has them."""
    given = src.node.attributes
    return {name: given[name] for name in names if name in given}


def import_fused_conv(src: Source) -> None:
    """FusedConv: act(Conv(x, w, b) + z)."""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    operands = [src.operand(0), src.operand(1), src.optional(2)]
    y = src.standard("Conv", operands, _kept(src, *names))[0]
    parameters = src.float_list("activation_params") or ()
    src.bind(0, activated(src, total(src, y, src.optional(3)), parameters))


def import_fused_gemm(src: Source) -> None:
    """FusedGemm: act(Gemm(a, b, c))."""
    operands = [src.operand(0), src.operand(1), src.optional(2)]
    y = src.standard("Gemm", operands, _kept(src, "alpha", "beta", "transA", "transB"))[0]
    names = ("activation_alpha", "activation_beta")
    src.bind(0, activated(src, y, [src.float(n) for n in names if src.has(n)]))


def import_fused_matmul(src: Source) -> None:
    """FusedMatMul, TransposeMatMul: alpha times the product of matrices, turned on request."""
    if src.int("transBatchA", 0) or src.int("transBatchB", 0):
        raise src.unsupported("batches that are turned")
    sides = []
    for place, name in enumerate(("transA", "transB")):
        x = src.operand(place)
        rank = src.rank(x)
        if src.int(name, 0) and rank > 1:
            x = src.add(Transpose(perm=(*range(rank - 2), rank - 1, rank - 2)), [x])
        sides.append(x)
    y = src.standard("MatMul", sides)[0]
    alpha = src.float("alpha", 1.0)
    if alpha != 1:
        y = src.standard("Mul", [y, number(src, alpha, y.dtype)])[0]
    src.bind(0, y)


# -------------------------------------------------------------------- norms


def _rms_norm(src: Source, x: Value, scale: Value, axis: int) -> Value:
    attributes = {"axis": axis, "epsilon": src.float("epsilon", 1e-5)}
    return src.standard("RMSNormalization", [x, scale], attributes, version=NEW)[0]


def import_simplified_layer_norm(src: Source) -> None:
    """SimplifiedLayerNormalization: RMSNormalization."""
    if src.wants(1):
        raise src.unsupported("it gives the inverse of the deviation")
    src.bind(0, _rms_norm(src, src.operand(0), src.operand(1), src.int("axis", -1)))


def import_skip_simplified_layer_norm(src: Source) -> None:
    """SkipSimplifiedLayerNormalization: RMSNormalization of x, what skips a layer, and a bias."""
    if src.wants(1) or src.wants(2):
        raise src.unsupported("it gives means or deviations")
    x = total(src, src.operand(0), src.operand(1), src.optional(3))
    src.bind(3, x)
    src.bind(0, _rms_norm(src, x, src.operand(2), -1))


def import_skip_layer_norm(src: Source) -> None:
    """SkipLayerNormalization: LayerNormalization of x, what skips a layer, and a bias."""
    x = total(src, src.operand(0), src.operand(1), src.optional(4))
    src.bind(3, x)
    attributes = {"axis": -1, "epsilon": src.float("epsilon", 1e-12)}
    operands = [x, src.operand(2), src.optional(3)]
    results = 3 if src.wants(1) or src.wants(2) else 1
    found = src.standard("LayerNormalization", operands, attributes, results=results)
    for place, value in enumerate(found):
        src.bind(place, value)


def import_embed_layer_norm(src: Source) -> None:
    """EmbedLayerNormalization: of the sum of rows for words, places and segments."""
    ids, segments = src.operand(0), src.optional(1)
    places, mask = src.optional(8), src.optional(7)
    if places is None:
        places = counted(src, ids, 1)
    rows = [
        src.standard("Gather", [src.operand(2), ids])[0],
        src.standard("Gather", [src.operand(3), places])[0],
    ]
    if segments is not None:
        rows.append(src.standard("Gather", [src.operand(4), segments])[0])
    x = total(src, *rows)
    src.bind(2, x)
    attributes = {"axis": -1, "epsilon": src.float("epsilon", 1e-12)}
    operands = [x, src.operand(5), src.operand(6)]
    src.bind(0, src.standard("LayerNormalization", operands, attributes)[0])
    if src.wants(1):
        if mask is None:
            mask = src.standard("Mul", [ids, number(src, 0, ids.dtype)])[0]
        counts = src.add(ReduceSum(axes=(1,), keep_dims=False), [mask])
        src.bind(1, src.add(Cast(dtype=DType.INT32), [counts]))


# -------------------------------------------------------------------- places


def import_rotary_embedding(src: Source) -> None:
    """RotaryEmbedding: the standard one, which has its operands in another order."""
    x, places = src.operand(0), src.operand(1)
    cos, sin = src.operand(2), src.operand(3)
    if src.float("scale", 1.0) != 1 or src.int("is_packed_batching", 0):
        raise src.unsupported("a scale, or sequences of several lengths in one")
    attributes = _kept(src, "interleaved", "num_heads", "rotary_embedding_dim")
    rank = src.rank(x)
    if rank not in (3, 4):
        raise src.fail(f"its input has rank {rank}, must have 3 or 4")
    if rank == 3 and not src.int("num_heads", 0):
        width, half = (x.shape or ())[-1], (cos.shape or (None,))[-1]
        if not isinstance(width, int) or not isinstance(half, int) or not half:
            raise src.unsupported("how many heads it has isn't known")
        attributes["num_heads"] = width // (2 * half)
    if src.rank(places) == 1:  # the place of the first
        along = counted(src, x, rank - 2)
        row = src.standard("Add", [along, places])[0]
        places = src.add(Unsqueeze(axes=(0,)), [row])
        batch = src.add(ShapeOf(dtype=DType.INT64, dims=(0, rank - 2)), [x])
        places = src.standard("Expand", [places, batch])[0]
    operands = [x, cos, sin, places]
    src.bind(0, src.standard("RotaryEmbedding", operands, attributes, version=NEW)[0])


IMPORTERS: dict[str, Importer] = {
    "SimplifiedLayerNormalization": import_simplified_layer_norm,
    "com.microsoft:BiasGelu": _gelu("none"),
    "com.microsoft:EmbedLayerNormalization": import_embed_layer_norm,
    "com.microsoft:FastGelu": _gelu("tanh"),
    "com.microsoft:FusedConv": import_fused_conv,
    "com.microsoft:FusedGemm": import_fused_gemm,
    "com.microsoft:FusedMatMul": import_fused_matmul,
    "com.microsoft:Gelu": _gelu("none"),
    "com.microsoft:QuickGelu": import_quick_gelu,
    "com.microsoft:RotaryEmbedding": import_rotary_embedding,
    "com.microsoft:SkipLayerNormalization": import_skip_layer_norm,
    "com.microsoft:SkipSimplifiedLayerNormalization": import_skip_simplified_layer_norm,
    "com.microsoft:TransposeMatMul": import_fused_matmul,
}
