"""Products of matrices and tensors in forms that TFLite lacks, and determinants."""

from __future__ import annotations

from nnconv.formats.tflite.exporter import Exporter, export_in_floats, export_lacking
from nnconv.ir.op import Op
from nnconv.ops import product as p

EXPORTERS: dict[type[Op], Exporter] = {
    p.Gemm: export_in_floats,
    p.Det: export_in_floats,
    p.Einsum: export_lacking,
    p.MatMulInteger: export_lacking,
}
