"""Ops on codes with their parameters as operands: the standard QLinear ops, and onnxruntime's own.

Each stands for DequantizeLinear, the op on real numbers, QuantizeLinear, and is imported as such;
targets with quantized kernels fold that into one op again.

Source: onnx/docs/Operators.md; onnxruntime/docs/ContribOperators.md (domain com.microsoft).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from nnconv.errors import plural
from nnconv.formats.onnx import wire
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.formats.onnx.imports.quantize import dequantized, parameters, quantized
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Value
from nnconv.ir.quant import Quant
from nnconv.ops.quantize import Dequantize, Quantize

Attributes: TypeAlias = "dict[str, wire.AttributeValue]"


def real(src: Source, place: int, *, axis: int = 1) -> Value:
    """Operand ``place`` by its real values; scale and zero point are the next two."""
    x = src.operand(place)
    quant = parameters(src, place + 1, x, axis=axis)
    if quant is None:
        scale, point = src.operand(place + 1), src.optional(place + 2)
        return dequantized(src, x, scale, point, scale.dtype, axis=axis)
    dtype = src.operand(place + 1).dtype
    return src.add(Dequantize(dtype=dtype), [src.scope.reread(x, quant)])


def give(src: Source, value: Value, scale: int) -> None:
    """Give a real value as the result's codes, whose parameters are operands from ``scale`` on."""
    point = src.optional(scale + 1)
    dtype = src.operand(0).dtype if point is None else point.dtype
    quant = parameters(src, scale, value)
    if quant is None:
        src.bind(0, quantized(src, value, src.operand(scale), point, dtype))
    else:
        src.emit(Quantize(dtype=dtype), [value], quants=[quant])


def attributes_of(src: Source, *left_out: str) -> Attributes:
    """The node's attributes, as those of the op on real numbers."""
    return {n: v for n, v in src.node.attributes.items() if n not in left_out}


def import_qlinear_conv(src: Source) -> None:
    """QLinearConv: the bias has the scale of the products."""
    x, weights = real(src, 0), real(src, 3, axis=0)
    operands: list[Value | None] = [x, weights]
    if src.optional(8) is not None:
        operands.append(_bias(src, 8, 1, 4))
    give(src, src.standard("Conv", operands, attributes_of(src))[0], 6)


def _bias(src: Source, place: int, x_scale: int, w_scale: int) -> Value:
    """Operand ``place``, int32, by its real values: its scale is the product of two others'."""
    bias, scale, by = src.operand(place), src.operand(x_scale), src.operand(w_scale)
    if scale.data is None or by.data is None:
        number = src.standard("Cast", [bias], {"to": int(wire.DataType.FLOAT)})[0]
        return src.standard("Mul", [number, src.standard("Mul", [scale, by])[0]])[0]
    product = scale.data.astype(np.float64).reshape(-1) * by.data.astype(np.float64).reshape(-1)
    scales = product.astype(np.float32).tolist()
    quant = Quant.per_tensor(scales[0])
    if len(scales) > 1:
        quant = Quant.per_channel(scales, axis=0)
    return src.add(Dequantize(dtype=DType.FLOAT32), [src.scope.reread(bias, quant)])


def import_qlinear_matmul(src: Source) -> None:
    """QLinearMatMul; several scales of b belong to its columns."""
    a, b = real(src, 0, axis=-2), real(src, 3, axis=-1)
    give(src, src.standard("MatMul", [a, b])[0], 6)


def import_qgemm(src: Source) -> None:
    """QGemm: a, b and an int32 c at the scale of the products; floats where no scale is given."""
    by_rows = src.int("transB", 0)
    a, b = real(src, 0), real(src, 3, axis=0 if by_rows else 1)
    operands: list[Value | None] = [a, b]
    if src.optional(6) is not None:
        operands.append(_bias(src, 6, 1, 4))
    result = src.standard("Gemm", operands, attributes_of(src))[0]
    if src.optional(7) is None:
        src.bind(0, result)
    else:
        give(src, result, 7)


def _binary(op_type: str) -> Importer:
    def import_binary(src: Source) -> None:
        give(src, src.standard(op_type, [real(src, 0), real(src, 3)])[0], 6)

    import_binary.__doc__ = f"{op_type} on codes: a, b, each with scale and zero point."
    return import_binary


def _unary(op_type: str, *left_out: str) -> Importer:
    def import_unary(src: Source) -> None:
        result = src.standard(op_type, [real(src, 0)], attributes_of(src, *left_out))[0]
        give(src, result, 3)

    import_unary.__doc__ = f"{op_type} on codes: x, its scale and zero point, the result's."
    return import_unary


def import_qlinear_concat(src: Source) -> None:
    """QLinearConcat: the result's parameters, then each part with its own."""
    parts = [real(src, place) for place in range(2, src.operand_count, 3)]
    give(src, src.standard("Concat", parts, attributes_of(src))[0], 0)


def import_qlinear_softmax(src: Source) -> None:
    """QLinearSoftmax; ``opset`` says whose Softmax is meant."""
    x = real(src, 0)
    axis = src.int("axis", -1)
    rank = src.rank(x)
    if src.int("opset", 13) < 13 and src.axis(axis, rank) != rank - 1:
        raise src.unsupported("QLinearSoftmax over several dimensions, as before opset 13")
    give(src, src.standard("Softmax", [x], {"axis": axis})[0], 3)


def _pooled(op_type: str, whole: str) -> Importer:
    """A pool on codes; ``channels_last`` says that channels come last."""

    def import_pool(src: Source) -> None:
        x = real(src, 0)
        rank = src.rank(x)
        last = bool(src.int("channels_last", 0))
        if last:
            x = src.standard("Transpose", [x], {"perm": [0, rank - 1, *range(1, rank - 1)]})[0]
        result = src.standard(whole, [x], attributes_of(src, "channels_last"))[0]
        if last:
            perm = [0, *range(2, rank), 1]
            result = src.standard("Transpose", [result], {"perm": perm})[0]
        give(src, result, 3)

    import_pool.__doc__ = f"{op_type} on codes."
    return import_pool


def _reduction(op_type: str) -> Importer:
    def import_reduction(src: Source) -> None:
        axes = src.int_list("axes")
        operands = [real(src, 0)]
        attributes: Attributes = {"keepdims": src.int("keepdims", 1)}
        since = 13 if op_type == "ReduceSum" else 18
        if axes is not None and src.scope.opsets.get("", 21) >= since:
            operands.append(src.const(np.asarray(axes, np.int64)))
        elif axes is not None:
            attributes["axes"] = list(axes)
        give(src, src.standard(op_type, operands, attributes)[0], 3)

    import_reduction.__doc__ = f"{op_type} on codes."
    return import_reduction


def import_qlinear_where(src: Source) -> None:
    """QLinearWhere: condition, x, y, each of the latter with scale and zero point."""
    result = src.standard("Where", [src.operand(0), real(src, 1), real(src, 4)])[0]
    give(src, result, 7)


def import_matmul_integer_to_float(src: Source) -> None:
    """MatMulIntegerToFloat: a, b, their scales, their zero points, a bias."""
    _scaled_product(src, src.operand(0), src.operand(1), _places(src, 2, 3, 4, 5), src.optional(6))


def import_dynamic_quantize_matmul(src: Source) -> None:
    """DynamicQuantizeMatMul: a is quantized to uint8 by its own range at run time."""
    codes, scale, point = src.standard("DynamicQuantizeLinear", [src.operand(0)], results=3)
    places = (scale, src.operand(2), point, src.optional(3))
    _scaled_product(src, codes, src.operand(1), places, src.optional(4))


_Places: TypeAlias = "tuple[Value, Value, Value | None, Value | None]"


def _places(src: Source, *places: int) -> _Places:
    a_scale, b_scale, a_point, b_point = places
    return (
        src.operand(a_scale),
        src.operand(b_scale),
        src.optional(a_point),
        src.optional(b_point),
    )


def _scaled_product(src: Source, a: Value, b: Value, given: _Places, bias: Value | None) -> None:
    """The product of integers, times both scales, plus a bias."""
    a_scale, b_scale, a_point, b_point = given
    product = src.standard("MatMulInteger", [a, b, a_point, b_point])[0]
    number = src.standard("Cast", [product], {"to": int(wire.DataType.FLOAT)})[0]
    scale = src.standard("Mul", [a_scale, b_scale])[0]
    result = src.standard("Mul", [number, scale])[0]
    if bias is not None:
        result = src.standard("Add", [result, bias])[0]
    src.bind(0, result)


_NARROW = {2: DType.UINT4, 4: DType.UINT4, 8: DType.UINT8}
"""The types that hold codes of so many bits."""


def import_matmul_n_bits(src: Source) -> None:
    """MatMulNBits: a product with the transpose of b, whose rows are quantized in blocks."""
    bits, block = src.int("bits", 4), src.int("block_size")
    rows, depth = src.int("N"), src.int("K")
    dtype = _NARROW.get(bits)
    if dtype is None or block < 1 or rows < 1 or depth < 1:
        raise src.unsupported(
            f"{plural(rows, 'row')} of {plural(depth, 'weight')} of {plural(bits, 'bit')} in "
            f"blocks of {block}"
        )
    if src.optional(4) is not None:
        raise src.unsupported("its blocks are out of order (g_idx)")
    blocks = -(-depth // block)
    codes = src.required_constant(1, "its matrix").reshape(rows, -1)
    scales = src.required_constant(2, "its scales").astype(np.float32).reshape(rows, blocks)
    if not np.all(np.isfinite(scales)):
        raise src.fail("a scale isn't a number")
    points = np.full(scales.shape, 1 << (bits - 1), np.uint8)
    given = src.optional(3)
    if given is not None:
        if given.dtype is not DType.UINT8:
            raise src.unsupported(f"zero points of {given.dtype}")
        packed = src.required_constant(3, "its zero points").reshape(rows, -1)
        points = _unpacked(packed, bits)[:, :blocks]
    matrix = _unpacked(codes, bits)[:, :depth]
    if matrix.shape != (rows, depth) or points.shape != scales.shape:
        raise src.fail("its constants don't fit N, K and block_size")
    quant = Quant(
        scale=tuple(scales.T.reshape(-1).tolist()),
        zero_point=tuple(points.T.reshape(-1).tolist()),
        axis=0,
        block=block,
    )
    by_columns = np.ascontiguousarray(matrix.T)
    operand = src.const(by_columns, f"{src.node.inputs[1]}/codes", quant=quant, dtype=dtype)
    weights = src.add(Dequantize(dtype=src.operand(0).dtype), [operand])
    result = src.standard("MatMul", [src.operand(0), weights])[0]
    if src.optional(5) is not None:
        result = src.standard("Add", [result, src.operand(5)])[0]
    src.bind(0, result)


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Codes of bytes that hold one or several each, the first in the low bits."""
    if bits == 8:
        return packed
    parts = [packed >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(packed.shape[0], -1)


IMPORTERS: dict[str, Importer] = {
    "QLinearConv": import_qlinear_conv,
    "QLinearMatMul": import_qlinear_matmul,
    "com.microsoft:QLinearAdd": _binary("Add"),
    "com.microsoft:QLinearMul": _binary("Mul"),
    "com.microsoft:QLinearSigmoid": _unary("Sigmoid"),
    "com.microsoft:QLinearLeakyRelu": _unary("LeakyRelu"),
    "com.microsoft:QLinearSoftmax": import_qlinear_softmax,
    "com.microsoft:QLinearConcat": import_qlinear_concat,
    "com.microsoft:QLinearWhere": import_qlinear_where,
    "com.microsoft:QLinearAveragePool": _pooled("QLinearAveragePool", "AveragePool"),
    "com.microsoft:QLinearGlobalAveragePool": _pooled(
        "QLinearGlobalAveragePool", "GlobalAveragePool"
    ),
    "com.microsoft:QLinearReduceMean": _reduction("ReduceMean"),
    "com.microsoft:QGemm": import_qgemm,
    "com.microsoft:MatMulIntegerToFloat": import_matmul_integer_to_float,
    "com.microsoft:DynamicQuantizeMatMul": import_dynamic_quantize_matmul,
    "com.microsoft:MatMulNBits": import_matmul_n_bits,
}
