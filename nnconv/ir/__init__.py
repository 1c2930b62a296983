"""The typed graph that every format is translated to and from."""

from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model, Node, Origin, Signature, State, Use, Value, unique_names
from nnconv.ir.op import (
    Activation,
    Layout,
    LayoutKind,
    Op,
    Operand,
    Perm,
    Permuted,
    QuantRule,
    Role,
    Types,
    op_class,
)
from nnconv.ir.quant import Quant, dequantize, quantize, round_half_away
from nnconv.ir.types import Dim, Shape, TensorType

__all__ = [
    "Activation",
    "Builder",
    "DType",
    "Dim",
    "Graph",
    "Layout",
    "LayoutKind",
    "Model",
    "Node",
    "Op",
    "Operand",
    "Origin",
    "Perm",
    "Permuted",
    "Quant",
    "QuantRule",
    "Role",
    "Shape",
    "Signature",
    "State",
    "TensorType",
    "Types",
    "Use",
    "Value",
    "dequantize",
    "op_class",
    "quantize",
    "round_half_away",
    "unique_names",
]
