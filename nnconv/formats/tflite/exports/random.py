"""Random draws: TFLite has those of float32, from 0 to 1 or of mean 0 and deviation 1."""

from __future__ import annotations

import numpy as np

from nnconv.formats.tflite.exporter import FLOAT32, Exporter, Options, Target, export_lacking
from nnconv.formats.tflite.exports.shape import either
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.random import Bernoulli, Multinomial, RandomNormal, RandomUniform, Seeds


def _options(seeds: Seeds) -> Options:
    """Whole numbers as they are, others by their bits; not two zeros, which are no seeds."""
    if seeds is None:
        return "RandomOptions", {}
    first, second = (*(_whole(seed) for seed in seeds), 0)[:2]
    return "RandomOptions", {"seed": first, "seed2": second if first or second else 1}


def _whole(seed: float) -> int:
    low, high = DType.INT64.int_range
    if int(seed) == seed and low <= seed <= high:
        return int(seed)
    return int(np.float32(seed).view(np.int32))


def _export_filled(node: Node, t: Target, name: str, *, plain: bool) -> None:
    op, y = node.op, node.outputs[0]
    assert isinstance(op, RandomUniform | RandomNormal)
    like = node.optional(1)
    if like is not None or not plain or op.dtype is not DType.FLOAT32:
        raise t.refused(f"TFLite has no {op.name} of this range, type, or shape")
    sizes = t.ints(op.shape) if op.shape is not None else either(t, node.operand(0))
    t.emit(name, [sizes], y, _options(op.seeds))


def export_random_uniform(node: Node, t: Target) -> None:
    """RANDOM_UNIFORM."""
    op = node.op
    assert isinstance(op, RandomUniform)
    _export_filled(node, t, "RANDOM_UNIFORM", plain=(op.low, op.high) == (0.0, 1.0))


def export_random_normal(node: Node, t: Target) -> None:
    """RANDOM_STANDARD_NORMAL."""
    op = node.op
    assert isinstance(op, RandomNormal)
    plain = (op.mean, op.deviation) == (0.0, 1.0)
    _export_filled(node, t, "RANDOM_STANDARD_NORMAL", plain=plain)


def export_multinomial(node: Node, t: Target) -> None:
    """MULTINOMIAL."""
    op = node.op
    assert isinstance(op, Multinomial)
    t.require(node, plain=FLOAT32, operands=(0,))
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        raise t.refused(
            "its seeds are computed at run time, and TFLite has them in the options",
            hint="Make the seeds constants of the model.",
        )
    operands = [t.tensor(node.operand(0)), t.scalar(op.samples)]
    t.emit("MULTINOMIAL", operands, node.outputs[0], _options(op.seeds))


EXPORTERS: dict[type[Op], Exporter] = {
    RandomUniform: export_random_uniform,
    RandomNormal: export_random_normal,
    Bernoulli: export_lacking,
    Multinomial: export_multinomial,
}
