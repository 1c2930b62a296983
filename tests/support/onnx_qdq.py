"""Quantized ONNX models for tests: nodes between quantizers, and what onnxruntime's own makes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from support.litert import RESOLVERS
from support.onnx_routes import node
from support.onnx_whole import Dims, Made, info, onnx_model

CODE_TYPES = {
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
}


class Qdq:
    """A model under construction, in the form of QuantizeLinear and DequantizeLinear.

    Attributes:
        nodes: its nodes.
        inputs: its inputs.
        constants: its initializers.
    """

    def __init__(self, opset: int = 21, domain: str = "") -> None:
        """``domain`` is that of the quantizers."""
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.opset, self.domain = opset, domain
        self._count = 0

    def name(self, base: str = "t") -> str:
        """A name that isn't taken."""
        self._count += 1
        return f"{base}{self._count}"

    def const(self, data: Any, dtype: str | None = None, name: str = "") -> str:
        """A constant; ``dtype`` may be one that numpy lacks."""
        array = np.asarray(data)
        name = name or self.name("c")
        if dtype in CODE_TYPES:
            kind = CODE_TYPES[dtype]
            tensor = helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist())
        else:
            tensor = onnx.numpy_helper.from_array(array.astype(dtype or array.dtype), name)
        self.constants.append(tensor)
        return name

    def input(self, name: str, dtype: Any, dims: Dims) -> str:
        """An input."""
        self.inputs.append(info(name, dtype, dims))
        return name

    def op(self, op_type: str, *operands: str, name: str = "", **attributes: Any) -> str:
        """A node of one result."""
        name = name or self.name(op_type.lower())
        self.nodes.append(node(op_type, operands, [name], **attributes))
        return name

    def q(self, x: str, scale: float, point: int, dtype: str = "uint8", name: str = "") -> str:
        """The codes of ``x``."""
        return self.op(
            "QuantizeLinear", x, *self._parameters(scale, point, dtype), name=name, **self._where()
        )

    def dq(self, x: str, scale: Any, point: Any, dtype: str = "uint8", **attributes: Any) -> str:
        """The real values of the codes ``x``."""
        operands = self._parameters(scale, point, dtype)
        return self.op("DequantizeLinear", x, *operands, **attributes, **self._where())

    def qdq(self, x: str, scale: float, point: int, dtype: str = "uint8") -> str:
        """``x``, rounded to its codes."""
        return self.dq(self.q(x, scale, point, dtype), scale, point, dtype)

    def weights(
        self, codes: Any, scale: Any, point: Any = 0, dtype: str = "int8", axis: int = 0
    ) -> str:
        """Constant codes by their real values; parameters of channels lie along ``axis``."""
        attributes = {"axis": axis} if np.ndim(scale) else {}
        return self.dq(self.const(codes, dtype), scale, point, dtype, **attributes)

    def model(self, outputs: Sequence[tuple[str, Any, Dims]]) -> onnx.ModelProto:
        """The finished model."""
        infos = [info(*output) for output in outputs]
        domains = {self.domain: 1} if self.domain else None
        model = onnx_model(self.nodes, self.inputs, infos, opset=self.opset, domains=domains)
        model.graph.initializer.extend(self.constants)
        return model

    def _parameters(self, scale: Any, point: Any, dtype: str) -> tuple[str, str]:
        points = np.broadcast_to(np.asarray(point), np.shape(scale))
        return self.const(np.float32(scale)), self.const(points, dtype)

    def _where(self) -> dict[str, str]:
        return {"domain": self.domain} if self.domain else {}


def run_all(made: Made, *arrays: np.ndarray) -> list[np.ndarray]:
    """The first output of a conversion's result, of each set of LiteRT's kernels."""
    return [made.run(*arrays, resolver=resolver)[0] for resolver in RESOLVERS]


class _Batches:
    """Calibration data as onnxruntime's quantizer asks for them."""

    def __init__(self, batches: Sequence[dict[str, np.ndarray]]) -> None:
        self._left: Iterator[dict[str, np.ndarray]] = iter(batches)

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next batch."""
        return next(self._left, None)


def quantized_by_onnxruntime(
    model: onnx.ModelProto,
    folder: Path,
    batches: Sequence[dict[str, np.ndarray]],
    *,
    form: str = "QDQ",
    data: str = "QUInt8",
    weights: str = "QInt8",
    per_channel: bool = False,
    **extra: Any,
) -> Path:
    """A float model, quantized: QDQ or QOperator form, or without ``batches`` dynamically."""
    from onnxruntime import quantization

    source, target = folder / "float.onnx", folder / "quantized.onnx"
    onnx.save(model, source)
    kinds = quantization.QuantType
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not batches:
            quantization.quantize_dynamic(
                source, target, weight_type=kinds[weights], per_channel=per_channel
            )
            return target
        quantization.quantize_static(
            source,
            target,
            _Batches(batches),
            quant_format=quantization.QuantFormat[form],
            activation_type=kinds[data],
            weight_type=kinds[weights],
            per_channel=per_channel,
            extra_options=extra,
        )
    return target
