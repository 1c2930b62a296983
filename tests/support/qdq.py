"""Graphs in the form in which ONNX has quantization: real ops between Dequantize and Quantize."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnconv.ir import DType, Graph, Node, Value
from nnconv.ir.builder import Builder
from nnconv.ir.op import QuantRule
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType
from nnconv.ops.quantize import Dequantize, Quantize


def dq(b: Builder, codes: Value) -> Value:
    """A value's real numbers."""
    return b.add(Dequantize(dtype=DType.FLOAT32), [codes], name=f"{codes.name}/real")


def q(b: Builder, x: Value, quant: Quant, dtype: DType, name: str = "") -> Value:
    """A value's codes."""
    return b.add(Quantize(dtype=dtype), [x], quant=quant, name=name)


def coded(b: Builder, data: np.ndarray, quant: Quant, dtype: DType | None = None) -> Value:
    """A constant of codes, behind a Dequantize."""
    return dq(b, b.const(data, "weights", quant=quant, dtype=dtype))


def op_names(graph: Graph) -> list[str]:
    """The ops of a graph, in order."""
    return [node.op.name for node in graph.nodes]


def unfold(graph: Graph) -> None:
    """Write every op on quantized values as ONNX does: Dequantize, the op on floats, Quantize."""
    for node in list(graph.nodes):
        if isinstance(node.op, Quantize | Dequantize) or node.op.quant_rule is QuantRule.EXACT:
            continue
        for index, value in enumerate(node.inputs):
            if value is not None and value.type.has_codes:
                b = Builder(graph, before=node)
                kind = TensorType(DType.FLOAT32, value.shape)
                real = b.add_typed(Dequantize(dtype=DType.FLOAT32), [value], [kind])[0]
                node.replace_input_with(index, real)
        for result in node.outputs:
            if not result.type.has_codes:
                continue
            codes = Value(result.name, result.type)
            result.replace_all_uses_with(codes)
            graph.replace_output(result, codes)
            graph.insert_after(node, Node(Quantize(dtype=result.dtype), [result], [codes]))
            result.type = replace(result.type, dtype=DType.FLOAT32, quant=None)
