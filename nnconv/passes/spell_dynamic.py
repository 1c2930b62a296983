"""Does in floats what runs quantize for products of integers that a format lacks."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nnconv.decompositions.product import EXACT_TERMS
from nnconv.decompositions.quantize import dynamic_codes
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ops.conv import ConvInteger
from nnconv.ops.elementwise import Sub
from nnconv.ops.product import MatMulInteger
from nnconv.ops.quantize import Cast, DynamicQuantize
from nnconv.ops.shape import Identity
from nnconv.passes.base import Pass
from nnconv.passes.fold_dynamic import Known, float_product

_ONE = np.ones(1, np.float32)


class SpellDynamicPass(Pass):
    """Keeps codes that runs make, and sums of their products, as whole numbers in float32.

    The same numbers as by integers, without a Cast on the way to them and back.
    """

    name: ClassVar[str] = "spell_dynamic"

    def run(self, graph: Graph) -> bool:
        """Rewrite one graph; what nothing reads any more is left to prune."""
        outputs = graph.output_set()
        made: Known = {}
        modified = False
        for node in graph.nodes:
            if isinstance(node.op, DynamicQuantize):
                modified |= _spell(node, outputs, made)
        return modified


def _spell(node: Node, outputs: set[Value], made: Known) -> bool:
    x, (codes, scale, point) = node.operand(0), node.outputs
    products = list(dict.fromkeys(use.node for use in codes.uses))
    closed = all(_is_closed(product, codes, point, outputs) for product in products)
    readers = {use.node for use in point.uses}
    if x.type.rank is None or not products or not closed or not readers <= set(products):
        return False
    if {codes, point} & outputs:
        return False
    assert node.graph is not None
    builder = Builder(node.graph, before=node, origin=node.origin)
    numbers, step, start = dynamic_codes(x, builder)
    centered = builder.add(Sub(), [numbers, start])
    done = [_in_floats(product, centered, made) for product in products]
    if all(done):
        scale.replace_all_uses_with(step)
    return True


def _is_closed(product: Node, codes: Value, point: Value, outputs: set[Value]) -> bool:
    """Whether a node is a product of these codes, whose sums are read as floats alone."""
    if not isinstance(product.op, ConvInteger | MatMulInteger):
        return False
    data, weights, *points = product.inputs
    if data is not codes or weights is codes or not points or points[0] is not point:
        return False
    depth = codes.shape[-1] if codes.shape else None
    if isinstance(product.op, MatMulInteger) and not (
        isinstance(depth, int) and depth <= EXACT_TERMS
    ):
        return False
    sums = product.outputs[0]
    return sums not in outputs and all(_reads_floats(use.node) for use in sums.uses)


def _reads_floats(node: Node) -> bool:
    return isinstance(node.op, Cast) and node.op.dtype is DType.FLOAT32


def _in_floats(product: Node, centered: Value, made: Known) -> bool:
    """Let what reads a product's sums read those of floats."""
    assert product.graph is not None
    builder = Builder(product.graph, before=product, origin=product.origin)
    found = float_product(product, _ONE, centered, builder, made)
    if found is None:
        return False
    op, operands = found
    sums = builder.add(op, operands)
    for use in product.outputs[0].uses:
        use.node.op = Identity()
        use.node.set_inputs([sums])
    return True
