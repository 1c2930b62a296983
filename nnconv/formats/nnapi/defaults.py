"""Trailing inputs that say what leaving them off says.

NNAPI's runtime takes them off when a model is finished, so that older devices can run it. The level
that it then needs may be lower than that of the model as it was built.
"""

from __future__ import annotations

from nnconv.formats.nnapi.table import Variant
from nnconv.formats.nnapi.wire import Graph, Lifetime, Operation


def kept(operation: Operation, graph: Graph, variant: Variant) -> int:
    """How many inputs are left once trailing defaults are taken off."""

    def is_default(position: int) -> bool:
        operand = graph.operands[operation.inputs[position]]
        data = operand.data
        if operand.lifetime is not Lifetime.CONSTANT or data is None or data.size != 1:
            return False
        return bool(data.reshape(-1)[0] == variant.defaults[position - variant.default_start])

    count = len(operation.inputs)
    while variant.defaults and count > variant.default_start:
        group = variant.pair if count - 1 in variant.pair else (count - 1,)
        if not all(is_default(position) for position in group):
            break
        count -= len(group)
    return count
