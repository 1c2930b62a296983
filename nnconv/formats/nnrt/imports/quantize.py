"""Operations between number types."""

from __future__ import annotations

from nnconv.formats.nnrt.importer import Importer, Source
from nnconv.formats.nnrt.types import DataType
from nnconv.ir.graph import Value
from nnconv.ops.quantize import Cast, Dequantize, Quantize

LITE_CODES = {
    30: DataType.BOOL, 32: DataType.INT8, 33: DataType.INT16, 34: DataType.INT32,
    35: DataType.INT64, 37: DataType.UINT8, 38: DataType.UINT16, 39: DataType.UINT32,
    40: DataType.UINT64, 42: DataType.FLOAT16, 43: DataType.FLOAT32, 44: DataType.FLOAT64,
}  # fmt: skip
"""What drivers call the element types."""


def import_cast(s: Source) -> None:
    """CAST: the type is that of the output; what the input names must be the same."""
    x, target = s.integers(s.stored("input")), s.input_tensor("type").data
    code = 0 if target is None else int.from_bytes(target.tobytes()[:4], "little", signed=True)
    if code not in (0, int(s.output().data_type)):
        kinds = DataType(code).name, s.output().data_type.name
        raise s.fail(f"type names {kinds[0]}, the output is {kinds[1]}")
    s.bind(0, s.add(Cast(dtype=s.result_dtype()), [x]))


def _check_code(s: Source, name: str, kind: DataType) -> None:
    """See that a parameter names a tensor's type, by the API's code or by the drivers'."""
    code = s.int(name)
    known = LITE_CODES.get(code)
    if known is None and 0 <= code <= max(DataType):
        known = DataType(code)
    if known is not kind:
        raise s.fail(f"{name} is {code}, the tensor is {kind.name}")


def import_quant_dtype_cast(s: Source) -> None:
    """QUANT_DTYPE_CAST: quantizes, dequantizes, or changes parameters."""
    x = s.stored("input")
    _check_code(s, "srcT", s.input_tensor("input").data_type)
    _check_code(s, "dstT", s.output().data_type)
    target, quant = s.result_dtype(), s.result_quant()
    if quant is not None:
        s.emit(Quantize(dtype=target), [x])
        return
    real = _plain(s, x)
    s.bind(0, real if real.dtype is target else s.add(Cast(dtype=target), [real]))


def _plain(s: Source, x: Value) -> Value:
    if x.quant is None:
        return x
    dtype = s.result_dtype()
    return s.add(Dequantize(dtype=dtype), [x]) if dtype.is_float else s.real(x)


IMPORTERS: dict[str, Importer] = {
    "CAST": import_cast,
    "QUANT_DTYPE_CAST": import_quant_dtype_cast,
}
