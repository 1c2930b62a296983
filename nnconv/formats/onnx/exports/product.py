"""Products of matrices and tensors, and determinants: ONNX's own."""

from __future__ import annotations

from nnconv.formats.onnx.exporter import Exporter, Target
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Node
from nnconv.ir.op import Op
from nnconv.ops.product import Det, Einsum, Gemm, MatMulInteger


def export_gemm(node: Node, t: Target) -> None:
    """Gemm."""
    op = node.op
    assert isinstance(op, Gemm)
    attributes: dict[str, float | int | None] = {
        "alpha": None if op.alpha == 1 else op.alpha,
        "beta": None if op.beta == 1 else op.beta,
        "transA": int(op.transpose_a) or None,
        "transB": int(op.transpose_b) or None,
    }
    names = [t.real(v) for v in node.inputs]
    t.set_real(node.outputs[0], t.node("Gemm", _given(names), **attributes))


def _given(names: list[str]) -> list[str]:
    """Operands without absent ones at the end."""
    while names and not names[-1]:
        names.pop()
    return names


def export_matmul_integer(node: Node, t: Target) -> None:
    """MatMulInteger."""
    names = [t.stored(v) for v in node.inputs]
    t.set_stored(node.outputs[0], t.node("MatMulInteger", _given(names)))


def export_einsum(node: Node, t: Target) -> None:
    """Einsum, which takes bfloat16 from opset 28 on alone."""
    op = node.op
    assert isinstance(op, Einsum)
    narrow = node.outputs[0].dtype is DType.BFLOAT16
    names = [t.real(v) for v in node.inputs]
    if narrow:
        names = [t.cast(name, DType.FLOAT32) for name in names]
    result = t.node("Einsum", names, equation=op.equation)
    t.set_real(node.outputs[0], t.cast(result, DType.BFLOAT16) if narrow else result)


def export_det(node: Node, t: Target) -> None:
    """Det."""
    t.set_real(node.outputs[0], t.node("Det", [t.real(node.inputs[0])]))


EXPORTERS: dict[type[Op], Exporter] = {
    Gemm: export_gemm,
    MatMulInteger: export_matmul_integer,
    Einsum: export_einsum,
    Det: export_det,
}
