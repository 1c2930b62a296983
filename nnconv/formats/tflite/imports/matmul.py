"""Products of matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnconv.formats.tflite._gen.schema import FullyConnectedOptionsWeightsFormat as WeightsFormat
from nnconv.formats.tflite.importer import Importer, Source
from nnconv.formats.tflite.imports.conv import filter_shape, scaled_bias
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ops.matmul import FullyConnected, MatMul
from nnconv.ops.quantize import Bitcast
from nnconv.ops.rewrite import reshaped

_SHUFFLED_BLOCK = (4, 16)
"""Rows and columns of the blocks that SHUFFLED4x16INT8 weights are stored in."""


def import_fully_connected(s: Source) -> None:
    """FULLY_CONNECTED: without ``keep_num_dims``, x is cut into rows of the weights' depth."""
    x, weights, bias = s.operand(0), s.operand(1), s.optional(2)
    _, depth = filter_shape(s, weights, 2)
    shuffled = s.options.int("weights_format") == WeightsFormat.SHUFFLED4x16INT8
    if shuffled:
        weights = _unshuffled(s, weights)
    rank = s.rank(x)
    keep = s.options.bool("keep_num_dims") and rank > 0
    if not keep and (rank != 2 or x.shape is None or x.shape[1] != depth):
        x = reshaped(s.builder, x, (-1, depth))
    op = FullyConnected(activation=s.activation())
    inputs = [x, weights, scaled_bias(s, x, weights, bias)]
    if not shuffled:
        s.emit(op, inputs)
        return
    stated = s.output_type()  # result 1 is the kernel's workspace
    kind = replace(s.builder.infer(op, inputs)[0], dtype=stated.dtype, quant=stated.quant)
    s.bind(0, s.builder.add_typed(op, inputs, [kind], names=[s.output_tensor().name])[0])


def _unshuffled(s: Source, weights: Value) -> Value:
    """Weights in rows again; the file has them in blocks, as int8 although it says uint8."""
    rows, columns = _SHUFFLED_BLOCK
    if weights.data is None or weights.quant is None:
        raise s.fail("shuffled weights must be constant and quantized")
    out, depth = weights.data.shape
    if out % rows or depth % columns:
        raise s.fail(f"shuffled weights are {out}x{depth}, must be multiples of {rows}x{columns}")
    blocks = weights.data.reshape(out // rows, depth // columns, rows, columns)
    data = np.ascontiguousarray(blocks.transpose(0, 2, 1, 3)).reshape(out, depth).view(np.int8)
    kind = replace(weights.type, dtype=DType.INT8, quant=weights.quant.shifted(-128))
    return Value(weights.name, kind, data=data, origin=weights.origin)


def import_batch_matmul(s: Source) -> None:
    """BATCH_MATMUL; int8 to int32 multiplies plain integers, without zero points."""
    a, b = s.operand(0), s.operand(1)
    op = MatMul(transpose_a=s.options.bool("adj_x"), transpose_b=s.options.bool("adj_y"))
    if s.output_type().dtype is not DType.INT32:
        s.emit(op, [s.real_operand(0), s.real_operand(1)])
        return
    if {a.dtype, b.dtype} != {DType.INT8}:
        raise s.unsupported(f"operands are {a.dtype} and {b.dtype}, int32 comes of int8 alone")
    inputs = [_plain(s, a), _plain(s, b)]
    kind = replace(s.builder.infer(op, inputs)[0], dtype=DType.INT32, quant=_PLAIN)
    s.emit(Bitcast(dtype=DType.INT32), s.builder.add_typed(op, inputs, [kind]))


_PLAIN = Quant.per_tensor(1.0, 0)
"""Parameters of codes that stand for themselves."""


def _plain(s: Source, value: Value) -> Value:
    kind = replace(value.type, quant=_PLAIN)
    if value.data is not None:
        return Value(value.name, kind, data=value.data, origin=value.origin)
    return s.builder.add_typed(Bitcast(dtype=value.dtype), [value], [kind])[0]


IMPORTERS: dict[str, Importer] = {
    "FULLY_CONNECTED": import_fully_connected,
    "BATCH_MATMUL": import_batch_matmul,
}
