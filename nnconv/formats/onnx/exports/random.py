"""Random draws: onnxruntime draws float32 and float64 numbers alone, the others are cast."""

from __future__ import annotations

import numpy as np

from nnconv.errors import Reason
from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.formats.onnx.types import DATA_TYPES
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.random import Bernoulli, Multinomial, RandomNormal, RandomUniform, Seeds

_DRAWN = frozenset({DType.FLOAT32, DType.FLOAT64})


def _seed(seeds: Seeds) -> float | None:
    """One number of several: it needn't be another for others, but mostly is."""
    if not seeds:
        return None
    first, *rest = seeds
    mixed = first
    for seed in rest:
        mixed = mixed + 31.0 * seed
    return float(np.float32(mixed))


def _export_filled(node: Node, t: Target, name: str, **attributes: float) -> None:
    op, y = node.op, node.outputs[0]
    assert isinstance(op, RandomUniform | RandomNormal)
    shape, like = (*node.inputs, None, None)[:2]
    drawn = op.dtype if op.dtype in _DRAWN or t.plain else DType.FLOAT32
    told = {"dtype": int(DATA_TYPES[drawn]), "seed": _seed(op.seeds), **attributes}
    if like is None and op.shape is not None:
        made = t.node(name, [], shape=list(op.shape), **told)
    elif like is not None:
        made = t.node(f"{name}Like", [t.stored(like)], **told)
    else:
        made = t.node(f"{name}Like", [t.node("ConstantOfShape", [t.int64(shape)])], **told)
    t.set_codes(y, made if drawn is op.dtype else t.cast(made, op.dtype))


def export_random_uniform(node: Node, t: Target) -> None:
    """RandomUniform, or RandomUniformLike where the shape isn't known."""
    op = node.op
    assert isinstance(op, RandomUniform)
    _export_filled(node, t, "RandomUniform", low=op.low, high=op.high)


def export_random_normal(node: Node, t: Target) -> None:
    """RandomNormal, or RandomNormalLike where the shape isn't known."""
    op = node.op
    assert isinstance(op, RandomNormal)
    _export_filled(node, t, "RandomNormal", mean=op.mean, scale=op.deviation)


def export_bernoulli(node: Node, t: Target) -> None:
    """Bernoulli."""
    op, x = node.op, node.operand(0)
    assert isinstance(op, Bernoulli)
    t.require_opset(15, "Bernoulli")
    kind = int(DATA_TYPES[op.dtype])
    t.set_codes(
        node.outputs[0], t.node("Bernoulli", [t.codes(x)], dtype=kind, seed=_seed(op.seeds))
    )


def export_multinomial(node: Node, t: Target) -> None:
    """Multinomial."""
    op, logits, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, Multinomial)
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        raise t.unsupported(
            "its seeds are computed at run time, and ONNX has them in an attribute",
            reason=Reason.IMPOSSIBLE,
            hint="Make the seeds constants of the model.",
        )
    name = t.codes(logits)
    if not t.plain and logits.dtype not in (DType.FLOAT32, DType.FLOAT16):
        name = t.cast(name, DType.FLOAT32)
    kind = int(DATA_TYPES[op.dtype])
    made = t.node("Multinomial", [name], dtype=kind, sample_size=op.samples, seed=_seed(op.seeds))
    t.set_codes(y, made)


EXPORTERS: dict[type[Op], Exporter] = {
    RandomUniform: export_random_uniform,
    RandomNormal: export_random_normal,
    Bernoulli: export_bernoulli,
    Multinomial: export_multinomial,
}
