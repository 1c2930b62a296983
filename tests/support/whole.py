"""Whole conversions for tests: a model that the builder made goes to a file and through nnconv."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime

import nnconv
from support.spine import onnx_session
from support.tflite_builder import Tensor, TfliteBuilder


class Whole(NamedTuple):
    """One conversion.

    Attributes:
        source, target: the files.
        report: what nnconv says it did.
        session: onnxruntime on the written file, which passed the full check.
    """

    source: Path
    target: Path
    report: nnconv.ConversionReport
    session: onnxruntime.InferenceSession

    def run(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Run the written file; the inputs go by order."""
        names = [info.name for info in self.session.get_inputs()]
        return self.session.run(None, dict(zip(names, arrays, strict=True)))

    @property
    def graph(self) -> onnx.GraphProto:
        """The written graph."""
        return onnx.load(str(self.target)).graph

    @property
    def constants(self) -> list[np.ndarray]:
        """The written constants."""
        return [onnx.numpy_helper.to_array(c) for c in self.graph.initializer]


def convert(b: TfliteBuilder, folder: Path, *outputs: Tensor, **options: Any) -> Whole:
    """Make ``outputs`` the model's outputs and convert it."""
    b.output(*outputs)
    return convert_bytes(bytes(b.build()), folder, **options)


def convert_bytes(content: bytes, folder: Path, **options: Any) -> Whole:
    """Convert a .tflite file that is given as bytes."""
    source, target = folder / "model.tflite", folder / "model.onnx"
    source.write_bytes(content)
    report = nnconv.convert(source, target, **options)
    return Whole(source, target, report, onnx_session(target))


def floats(*shape: int) -> np.ndarray:
    """The numbers 0, 1, 2 ... as float32: sums of them are exact."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Random float32 numbers around 0, the same in each run."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def identity_conv(b: TfliteBuilder, x: Tensor) -> Tensor:
    """A 1x1 convolution that changes nothing, but has the layout pass move all around it."""
    depth = x.shape[-1]
    w = b.const(np.eye(depth, dtype=np.float32).reshape(depth, 1, 1, depth))
    bias = b.const(np.zeros(depth, np.float32))
    return conv(b, [x, w, bias], x.shape)


def conv(
    b: TfliteBuilder,
    operands: Sequence[Tensor | None],
    shape: Sequence[int],
    *,
    stride: tuple[int, int] = (1, 1),
    padding: str = "SAME",
    quant: Any = None,
    op: str = "CONV_2D",
    **options: Any,
) -> Tensor:
    """A convolution of the first operand's type."""
    chosen = {"padding": padding, "stride_h": stride[0], "stride_w": stride[1], **options}
    first = operands[0]
    assert first is not None
    made = b.op(op, operands, [(first.dtype, shape, quant)], options=chosen)
    assert isinstance(made, Tensor)
    return made


def layer(
    b: TfliteBuilder,
    x: Tensor,
    w: np.ndarray,
    bias: np.ndarray | None,
    *,
    scale: float,
    y: tuple[str, Any],
    bias_scale: float | None = None,
    **options: Any,
) -> Tensor:
    """A FULLY_CONNECTED of quantized weights [O, I]."""
    weights = b.const(w, quant=(scale, 0))
    offset = None
    if bias is not None:
        offset = b.const(bias, quant=None if bias_scale is None else (bias_scale, 0))
    shape = (*x.shape[:-1], w.shape[0])
    result = (y[0], shape, y[1])
    made = b.op("FULLY_CONNECTED", [x, weights, offset], [result], options=options)
    assert isinstance(made, Tensor)
    return made
