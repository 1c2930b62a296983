"""Random draws."""

from __future__ import annotations

import numpy as np

from nnconv.formats.nnapi.exporter import Exporter, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.random import Multinomial, Seeds


def _numbers(seeds: Seeds) -> list[int]:
    """Two seeds; other numbers than whole ones by their bits. Two zeros let Android choose."""
    low, high = DType.INT32.int_range
    found = [
        int(seed) if int(seed) == seed and low <= seed <= high else int(np.float32(seed).view("i4"))
        for seed in seeds or ()
    ]
    return [*found, 0, 0][:2]


def export_multinomial(node: Node, t: Target) -> None:
    """RANDOM_MULTINOMIAL."""
    op = node.op
    assert isinstance(op, Multinomial)
    given = node.optional(1)
    inputs = {
        "logits": node.operand(0),
        "samples": op.samples,
        "seeds": t.ints(_numbers(op.seeds)) if given is None else t.index(given),
    }
    t.emit("RANDOM_MULTINOMIAL", inputs, node.outputs[0])


EXPORTERS: dict[type[Op], Exporter] = {Multinomial: export_multinomial}
