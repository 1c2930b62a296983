"""TFLite's tensor types, shapes and quantization in the IR's terms."""

from __future__ import annotations

import numpy as np

from nnconv.errors import Reason, UnsupportedError, UnsupportedItem, plural
from nnconv.formats.tflite import build, wire
from nnconv.formats.tflite._gen.schema import TensorType as Code
from nnconv.ir.dtype import DType
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape

DTYPES = {
    Code.FLOAT32: DType.FLOAT32,
    Code.FLOAT16: DType.FLOAT16,
    Code.BFLOAT16: DType.BFLOAT16,
    Code.FLOAT64: DType.FLOAT64,
    Code.INT2: DType.INT2,
    Code.INT4: DType.INT4,
    Code.UINT4: DType.UINT4,
    Code.INT8: DType.INT8,
    Code.UINT8: DType.UINT8,
    Code.INT16: DType.INT16,
    Code.UINT16: DType.UINT16,
    Code.INT32: DType.INT32,
    Code.UINT32: DType.UINT32,
    Code.INT64: DType.INT64,
    Code.UINT64: DType.UINT64,
    Code.BOOL: DType.BOOL,
    Code.COMPLEX64: DType.COMPLEX64,
    Code.COMPLEX128: DType.COMPLEX128,
    Code.STRING: DType.STRING,
    Code.RESOURCE: DType.INT32,
    Code.VARIANT: DType.INT32,
}
"""Resources are handles; they are resolved while importing and never reach a result."""

CODES = {dtype: code for code, dtype in DTYPES.items() if code not in (Code.RESOURCE, Code.VARIANT)}
"""The other way round, for tensors of numbers."""

QUANTIZED_CODES = frozenset(
    {
        DType.INT2,
        DType.INT4,
        DType.UINT4,
        DType.INT8,
        DType.UINT8,
        DType.INT16,
        DType.UINT16,
        DType.INT32,
        DType.INT64,
    }
)
"""The types whose tensors may carry quantization parameters."""


_GREATEST_SCALE = 1e18
"""The product of two has to be a float32."""


def dtype_of(tensor: wire.Tensor) -> DType:
    """The IR dtype of a tensor.

    Raises:
        InvalidModelError: for a type that no interpreter runs.
    """
    dtype = DTYPES.get(tensor.code)
    if dtype is None:
        raise tensor.fail(f"tensors of type {tensor.code.name} aren't supported")
    return dtype


def shape_of(tensor: wire.Tensor) -> Shape:
    """The shape; extents that the signature leaves open become symbols named after the tensor."""
    if not tensor.signature:
        return tensor.shape
    return tuple(f"{tensor.name}:{i}" if dim < 0 else dim for i, dim in enumerate(tensor.signature))


def quant_of(file: wire.File, subgraph: wire.Subgraph, tensor: wire.Tensor) -> Quant | None:
    """The quantization parameters; None where there are none or the type can't have them."""
    dtype = DTYPES.get(tensor.code)
    if dtype not in QUANTIZED_CODES:
        return None
    parameters = tensor.quantization
    if parameters is None:
        return None
    if parameters.blockwise is not None:
        return _blockwise(file, subgraph, tensor, parameters.blockwise)
    if parameters.multi_axis is not None:
        item = UnsupportedItem(
            op="QUANTIZATION",
            where=tensor.where,
            why="its parameters run along several axes",
            reason=Reason.NOT_IMPLEMENTED,
        )
        raise UnsupportedError([item], path=file.path)
    if not len(parameters.scale):
        return None
    if not np.all(np.abs(parameters.scale) <= _GREATEST_SCALE):
        raise tensor.fail("a quantization scale isn't finite, or as good as that")
    if not np.all(parameters.scale):
        return None  # old converters write scale 0 where nothing is quantized
    points = tuple(parameters.zero_point.tolist())
    low, high = dtype.int_range
    if any(not low <= point <= high for point in points):
        raise tensor.fail(f"a zero point is outside of {dtype}")
    scales = tuple(parameters.scale.tolist())
    return Quant(scale=scales, zero_point=points, axis=parameters.axis if len(scales) > 1 else None)


def _blockwise(
    file: wire.File, subgraph: wire.Subgraph, tensor: wire.Tensor, place: wire.Blockwise
) -> Quant:
    """Parameters in a tensor of their own: scales [rows, blocks] for codes [rows, columns]."""
    if not tensor.shape:
        raise tensor.fail("a scalar has blockwise parameters")
    if not 0 <= place.scales < len(subgraph.tensors) or place.block_size < 1:
        raise tensor.fail("its blockwise parameters point nowhere")
    scales = wire.tensor_data(file, subgraph.tensors[place.scales])
    if scales is None:
        raise tensor.fail("its blockwise scales have no content")
    axis = len(tensor.shape) - 1
    blocks = -(-tensor.shape[axis] // place.block_size)
    expected = int(np.prod(tensor.shape[:axis])) * blocks
    if scales.size != expected:
        raise tensor.fail(f"{plural(scales.size, 'blockwise scale')}, must be {expected}")
    points = np.zeros(scales.size, np.int64)
    if 0 < place.zero_points < len(subgraph.tensors):
        given = wire.tensor_data(file, subgraph.tensors[place.zero_points])
        if given is not None:
            points = given.astype(np.int64).reshape(-1)
    if len(points) != scales.size:
        raise tensor.fail(
            f"{plural(len(points), 'blockwise zero point')} for {plural(scales.size, 'scale')}"
        )
    return Quant(
        scale=tuple(scales.astype(np.float32).reshape(-1).tolist()),
        zero_point=tuple(points.tolist()),
        axis=axis,
        block=place.block_size,
    )


def quantization_of(quant: Quant) -> build.Quantization:
    """Parameters as the file has them; those of blocks need tensors of their own."""
    assert not quant.block, "blockwise parameters stand in tensors of their own"
    return build.Quantization(quant.scale, quant.zero_point, axis=quant.axis or 0)


USUAL_TYPES = frozenset(
    {DType.BOOL, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32}
    | {DType.INT64, DType.FLOAT16, DType.FLOAT32, DType.FLOAT64}
)
"""What kernels take that move elements of many types."""
