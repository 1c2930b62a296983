"""Attention as onnxruntime's optimizers have it: read as the standard Attention.

Source: onnxruntime/docs/ContribOperators.md (domain com.microsoft).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnconv.errors import plural
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.formats.onnx.imports.fused import NEW, counted, number, total
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ops.quantize import Cast
from nnconv.ops.shape import Split, Squeeze, Stack, Transpose, Unsqueeze


def import_attention(src: Source) -> None:
    """Attention: query, key and value are products with one matrix."""
    if src.int("do_rotary", 0) or src.optional(6) is not None:
        raise src.unsupported("rotated places, or a past in a buffer")
    weights = src.operand(1)
    width = (weights.shape or (None,))[-1]
    if not isinstance(width, int):
        raise src.unsupported("how many columns its matrix has isn't known")
    sizes = src.int_list("qkv_hidden_sizes") or (width // 3,) * 3
    if len(sizes) != 3 or min(sizes) < 0 or sum(sizes) != width:
        raise src.fail(
            f"its matrix has {plural(width, 'column')}, qkv_hidden_sizes are {list(sizes)}: "
            "those of query, "
            "key and value must be as many"
        )
    joined = total(src, src.standard("MatMul", [src.operand(0), weights])[0], src.optional(2))
    q, k, v = src.add_many(Split(axis=2, sizes=sizes), [joined])
    past = src.optional(4)
    before: tuple[Value | None, ...] = (None, None)
    if past is not None:
        halves = src.add_many(Split(axis=0, sizes=(1, 1)), [past])
        before = tuple(src.add(Squeeze(axes=(0,)), [half]) for half in halves)
    result, keys, values = _attend(src, (q, k, v), before, _mask(src, 3, 5, k, before[0]))
    src.bind(0, result)
    if src.wants(1):
        src.bind(1, src.add(Stack(axis=0), [keys, values]))


def import_multi_head_attention(src: Source) -> None:
    """MultiHeadAttention: query, key and value each on its own; key and value may have heads."""
    if src.optional(8) is not None or src.optional(9) is not None or src.wants(3):
        raise src.unsupported("a past in a buffer, or scores that go out")
    q, k, v = src.operand(0), src.optional(1), src.optional(2)
    if k is None or v is None or src.rank(q) != 3:
        raise src.unsupported("query, key and value in one tensor")
    parts = [q, *(_joined(src, x) for x in (k, v))]
    if src.optional(3) is not None:
        parts = _biased(src, parts, src.operand(3))
    before = (src.optional(6), src.optional(7))
    mask = _mask(src, 4, 5, parts[1], before[0])
    for place, value in enumerate(_attend(src, (parts[0], parts[1], parts[2]), before, mask)):
        src.bind(place, value)


def _joined(src: Source, x: Value) -> Value:
    """[batch, heads, length, size] as [batch, length, heads * size]."""
    if src.rank(x) == 3:
        return x
    if src.rank(x) != 4:
        raise src.unsupported("key and value in one tensor")
    turned = src.add(Transpose(perm=(0, 2, 1, 3)), [x])
    return src.standard("Reshape", [turned, src.const(np.asarray([0, 0, -1]))])[0]


def _biased(src: Source, parts: list[Value], bias: Value) -> list[Value]:
    """Each with its part of the bias."""
    widths = [(x.shape or (None,))[-1] for x in parts]
    sizes = tuple(width for width in widths if isinstance(width, int))
    if len(sizes) < len(widths):
        raise src.unsupported("how many columns its operands have isn't known")
    biases = src.add_many(Split(axis=0, sizes=sizes), [bias])
    return [total(src, x, b) for x, b in zip(parts, biases, strict=True)]


def _attend(
    src: Source,
    parts: tuple[Value, Value, Value],
    before: tuple[Value | None, ...],
    mask: Value | None,
) -> list[Value]:
    """The result, and all keys and values."""
    heads = src.int("num_heads")
    attributes: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": heads}
    if src.int("unidirectional", 0):
        attributes["is_causal"] = 1
    scale = src.float("scale", 0.0)
    if scale:
        attributes["scale"] = scale
    operands = [*parts, mask, *before]
    return src.standard("Attention", operands, attributes, results=3, version=NEW)


def _mask(src: Source, place: int, bias: int, keys: Value, past: Value | None) -> Value | None:
    """What is added to the scores: a number for each key that is left out, and a bias."""
    mask, added = src.optional(place), src.optional(bias)
    if mask is None:
        return added
    rank = src.rank(mask)
    if rank == 1:  # the keys that there are
        batch = (keys.shape or (None,))[0]
        if past is not None or mask.shape != (batch,):
            raise src.unsupported("a mask of starts and ends, or beside a past")
        counts = src.add(Unsqueeze(axes=(1,)), [mask])
        counts = src.add(Cast(dtype=DType.INT64), [counts])
        mask = src.standard("Less", [counted(src, keys, 1), counts])[0]
    elif rank in (2, 3):
        mask = src.standard("Greater", [mask, number(src, 0, mask.dtype)])[0]
    else:
        raise src.unsupported(f"a mask of rank {rank}")
    axes = (1,) if rank == 3 else (1, 2)
    kept = src.add(Unsqueeze(axes=axes), [mask])
    least = number(src, src.float("mask_filter_value", -10000.0), keys.dtype)
    return total(src, src.standard("Where", [kept, number(src, 0, keys.dtype), least])[0], added)


IMPORTERS: dict[str, Importer] = {
    "com.microsoft:Attention": import_attention,
    "com.microsoft:MultiHeadAttention": import_multi_head_attention,
}
