"""Products of matrices and tensors in forms that TFLite lacks, and determinants."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import Exporter, Target, export_in_floats
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops import product as p


def export_lacking(node: Node, t: Target) -> None:
    """What is decomposed in whatever type it has, codes in floats."""
    if any(v is not None and v.type.has_codes for v in (*node.inputs, *node.outputs)):
        raise t.to_floats(f"TFLite has no {node.op.name}")
    raise t.refused(f"TFLite has no {node.op.name}")


EXPORTERS: dict[type[Op], Exporter] = {
    p.Gemm: export_in_floats,
    p.Det: export_in_floats,
    p.Einsum: export_lacking,
    p.MatMulInteger: export_lacking,
}
