"""Elementwise activations that only some formats have as one op."""

from __future__ import annotations

from nnconv.ir.op import op_class
from nnconv.ops.elementwise import Unary


class Softplus(Unary):
    """log(1 + e**x). ONNX Softplus."""


class Softsign(Unary):
    """x / (1 + |x|). ONNX Softsign."""


class Mish(Unary):
    """x * tanh(log(1 + e**x)). ONNX Mish (opset 18)."""


@op_class
class Swish(Unary):
    """x / (1 + e**(-alpha * x)). ONNX Swish (opset 24)."""

    alpha: float = 1.0


@op_class
class Selu(Unary):
    """gamma * x if x > 0 else gamma * alpha * (e**x - 1). ONNX Selu."""

    alpha: float = 1.67326319217681884765625
    gamma: float = 1.05070102214813232421875


@op_class
class Celu(Unary):
    """max(0, x) + min(0, alpha * (e**(x / alpha) - 1)). ONNX Celu."""

    alpha: float = 1.0


@op_class
class ThresholdedRelu(Unary):
    """x if x > alpha else 0. ONNX ThresholdedRelu."""

    alpha: float = 1.0


@op_class
class HardSigmoid(Unary):
    """max(0, min(1, alpha * x + beta)). ONNX HardSigmoid."""

    alpha: float = 0.2
    beta: float = 0.5


@op_class
class Shrink(Unary):
    """x + bias if x < -lambd, x - bias if x > lambd, else 0. ONNX Shrink."""

    bias: float = 0.0
    lambd: float = 0.5
