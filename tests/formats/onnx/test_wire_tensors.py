"""Constants: every element type, packing, and arrays that lie in memory in unusual ways."""

import math

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, numpy_helper

from nnconv.errors import GraphError
from nnconv.formats import stored
from nnconv.formats.onnx import payload, protobuf
from nnconv.formats.onnx.wire import DataType, Graph, Model, Node, Tensor

_ML_DTYPES = {
    DataType.BFLOAT16: ml_dtypes.bfloat16,
    DataType.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    DataType.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    DataType.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    DataType.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    DataType.FLOAT8E8M0: ml_dtypes.float8_e8m0fnu,
    DataType.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
}
_BITS = {dtype: bits for dtype, (_, bits) in payload._STORAGE.items()}
# Of an older onnx package, only the types that it knows can be read back.
KNOWN = [dtype for dtype in payload._STORAGE if hasattr(TensorProto, dtype.name)]


def read_back(tensor):
    parts, _ = protobuf.encode(Model(Graph("g", [], [], [], [tensor]), 21))
    data = b"".join(bytes(chunk) for chunk in protobuf.part_chunks(parts))
    (back,) = onnx.load_model_from_string(data).graph.initializer
    return back


def values_read_back(tensor):
    """Give the elements that the onnx package reads, as the array that was written."""
    array = numpy_helper.to_array(read_back(tensor))
    if tensor.dtype in _ML_DTYPES:
        assert array.dtype == _ML_DTYPES[tensor.dtype]
        return array.view(np.dtype(f"u{array.dtype.itemsize}"))
    return array.astype(array_dtype(tensor.dtype)) if _BITS[tensor.dtype] < 8 else array


def array_dtype(dtype):
    return np.dtype(payload._STORAGE[dtype][0])


def random_array(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    storage, bits = array_dtype(dtype), _BITS[dtype]
    if dtype is DataType.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if storage.kind in "iu":
        low = -(1 << (bits - 1)) if storage.kind == "i" else 0
        return rng.integers(low, low + (1 << bits), shape, dtype=storage)
    return (rng.normal(size=shape) + (1j if storage.kind == "c" else 0)).astype(storage)


def test_every_element_type_but_strings_and_6_bit_floats_is_tested():
    unwritten = {DataType.STRING, DataType.FLOAT6E2M3, DataType.FLOAT6E3M2}
    assert set(payload._STORAGE) == set(DataType) - unwritten


@pytest.mark.parametrize("dtype", KNOWN, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 0, 3), (7, 4, 3)])
def test_elements_survive(dtype, shape):
    array = random_array(dtype, shape)
    tensor = Tensor("w", dtype, shape, array)
    back = read_back(tensor)
    assert (back.name, back.data_type, tuple(back.dims)) == ("w", int(dtype), shape)
    assert len(back.raw_data) == math.ceil(array.size * _BITS[dtype] / 8)
    values = values_read_back(tensor)
    assert (values.dtype, values.shape) == (array.dtype, shape)
    np.testing.assert_array_equal(values, array)


@pytest.mark.parametrize("dtype", KNOWN, ids=lambda dtype: dtype.name)
def test_ready_bytes_are_taken_as_they_are(dtype):
    array = random_array(dtype, (3, 5))
    data = read_back(Tensor("w", dtype, (3, 5), array)).raw_data
    for ready in (data, memoryview(data), memoryview(bytearray(data))):
        np.testing.assert_array_equal(values_read_back(Tensor("w", dtype, (3, 5), ready)), array)


def test_ready_bytes_may_be_a_view_of_wider_items():
    array = np.arange(6, dtype=np.int32)
    tensor = Tensor("w", DataType.INT32, (2, 3), memoryview(array))
    np.testing.assert_array_equal(values_read_back(tensor), array.reshape(2, 3))


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (DataType.INT4, [1, -2, 7, -8, -1], [0xE1, 0x87, 0x0F]),
        (DataType.UINT4, [1, 14, 15], [0xE1, 0x0F]),
        (DataType.UINT2, [1, 2, 3, 0, 3], [0b00111001, 0b11]),
        (DataType.INT2, [1, -2, -1, 0, -2, 1], [0b00111001, 0b0110]),
    ],
)
def test_packing_starts_at_the_lowest_bits(dtype, values, expected):
    array = np.array(values, array_dtype(dtype))
    tensor = Tensor("w", dtype, array.shape, array)
    assert b"".join(payload.tensor_chunks(tensor)) == bytes(expected)


# Layouts: what a view looks like in memory must not matter.


def _layouts(array):
    yield "transposed", np.ascontiguousarray(array.transpose(2, 0, 1)).transpose(1, 2, 0)
    yield "Fortran order", np.asfortranarray(array)
    yield "stepped", np.repeat(array, 2, axis=1)[:, ::2]
    yield "reversed", np.ascontiguousarray(array[::-1])[::-1]
    yield "other byte order", array.astype(array.dtype.newbyteorder(">"))
    read_only = array.copy()
    read_only.flags.writeable = False
    yield "read-only", read_only


LAYOUTS = [name for name, _ in _layouts(np.zeros((2, 2, 2), np.int16))]


@pytest.mark.parametrize("dtype", KNOWN, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("block_bytes", [1, 24, 64, stored.BLOCK_BYTES])
def test_layout_in_memory_does_not_matter(monkeypatch, dtype, layout, block_bytes):
    monkeypatch.setattr(stored, "BLOCK_BYTES", block_bytes)
    array = random_array(dtype, (5, 7, 3), seed=1)
    view = dict(_layouts(array))[layout]
    np.testing.assert_array_equal(view, array)
    plain, other = (Tensor("w", dtype, (5, 7, 3), data) for data in (array, view))
    assert b"".join(payload.tensor_chunks(other)) == b"".join(payload.tensor_chunks(plain))


def test_broadcast_views_are_written_in_full():
    array = np.broadcast_to(np.float32([[1], [2]]), (3, 2, 4))
    np.testing.assert_array_equal(
        values_read_back(Tensor("w", DataType.FLOAT, (3, 2, 4), array)), array
    )


@given(
    hnp.arrays(np.int8, hnp.array_shapes(max_dims=4, max_side=9), elements=st.integers(-8, 7)),
    st.data(),
)
def test_packing_carries_across_blocks(array, data):
    """The blocks of a view may hold an odd number of elements each."""
    axes = data.draw(st.permutations(range(array.ndim)))
    view = array.transpose(axes)
    whole = Tensor("w", DataType.INT4, view.shape, np.ascontiguousarray(view))
    expected = b"".join(payload.tensor_chunks(whole))
    limit = data.draw(st.integers(1, 40))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "BLOCK_BYTES", limit)
        cut = b"".join(
            bytes(chunk)
            for chunk in payload.tensor_chunks(Tensor("w", DataType.INT4, view.shape, view))
        )
    assert cut == expected


def test_memory_in_order_is_handed_out_without_a_copy():
    array = np.zeros(3 * stored.BLOCK_BYTES // 4 + 5, np.float32)
    chunks = list(payload.tensor_chunks(Tensor("w", DataType.FLOAT, array.shape, array)))
    assert len(chunks) == 4
    assert all(np.shares_memory(np.frombuffer(chunk, np.uint8), array) for chunk in chunks)


def test_no_piece_is_larger_than_a_block():
    shape = (2, 3, 1 << 20)
    array = np.broadcast_to(np.float32(1), shape)
    for data in (array, np.zeros(shape, np.float32)):
        tensor = Tensor("w", DataType.FLOAT, shape, data)
        sizes = [chunk.nbytes for chunk in payload.tensor_chunks(tensor)]
        assert max(sizes) <= stored.BLOCK_BYTES
        assert sum(sizes) == payload.tensor_nbytes(tensor) == 24 << 20


# What is refused.


@pytest.mark.parametrize(
    ("tensor", "why"),
    [
        (Tensor("w", DataType.STRING, (1,), b"a"), "STRING.* can't be the type of a constant"),
        (Tensor("w", DataType.INT8, (-1,), b""), r"an extent of \(-1,\) is negative"),
        (Tensor("w", DataType.INT8, (2, 3), np.zeros((3, 2), np.int8)), r"\(2, 3\).*\(3, 2\)"),
        (Tensor("w", DataType.INT8, (1,), np.array(1, np.int8)), r"\(1,\).*\(\)"),
        (Tensor("w", DataType.FLOAT, (1,), np.zeros(1)), "its data are float64.*float32"),
        (Tensor("w", DataType.INT8, (1,), np.zeros(1, np.uint8)), "its data are uint8"),
        (Tensor("w", DataType.BFLOAT16, (1,), np.zeros(1, np.float16)), "its data are float16"),
        (Tensor("w", DataType.INT16, (2,), b"abc"), "3 bytes long; 4 are needed"),
        (Tensor("w", DataType.INT4, (3,), b"abc"), "3 bytes long; 2 are needed"),
        (Tensor("w", DataType.INT8, (2,), memoryview(b"abcd")[::2]), "memoryview with gaps"),
        (Tensor("w", DataType.INT8, (1,), None), "it has no data"),
        (Tensor("w", DataType.INT4, (2,), np.int8([1, 8])), "outside -8 to 7"),
        (Tensor("w", DataType.INT4, (2,), np.int8([-9, 0])), "outside -8 to 7"),
        (Tensor("w", DataType.UINT4, (1,), np.uint8([16])), "outside 0 to 15"),
        (Tensor("w", DataType.INT2, (1,), np.int8([2])), "outside -2 to 1"),
        (Tensor("w", DataType.UINT2, (1,), np.uint8([4])), "outside 0 to 3"),
    ],
)
def test_data_that_do_not_fit_are_refused_by_name(tensor, why):
    with pytest.raises(GraphError, match=f"ONNX tensor 'w': .*{why}"):
        protobuf.encode(Model(Graph("g", [], [], [], [tensor]), 21))


def test_no_data_stand_for_no_elements():
    assert read_back(Tensor("w", DataType.FLOAT, (2, 0), None)).raw_data == b""


def test_large_tensors_in_attributes_are_whole():
    array = random_array(DataType.FLOAT, (100, 100))
    node = Node("Constant", [], ["y"], {"value": Tensor("", DataType.FLOAT, (100, 100), array)})
    after = Node("Relu", ["y"], ["z"])
    parts, _ = protobuf.encode(Model(Graph("g", [node, after], [], []), 21))
    assert any(isinstance(part, Tensor) for part in parts)
    data = b"".join(bytes(chunk) for chunk in protobuf.part_chunks(parts))
    first, second = onnx.load_model_from_string(data).graph.node
    np.testing.assert_array_equal(numpy_helper.to_array(first.attribute[0].t), array)
    assert second.op_type == "Relu"


# Types from numpy's.


@pytest.mark.parametrize(
    "array",
    [np.zeros((2, 3), code) for code in [*"?bBhHiIlLefdFD", ">f4", ">i8"]],
    ids=lambda array: array.dtype.str,
)
def test_element_type_follows_from_numpys(array):
    tensor = Tensor.from_array("w", array)
    assert int(tensor.dtype) == onnx.helper.np_dtype_to_tensor_dtype(array.dtype.newbyteorder("="))
    np.testing.assert_array_equal(values_read_back(tensor), array)


@pytest.mark.parametrize("dtype", ["U3", "M8[s]", object])
def test_numpy_types_without_an_element_type_are_refused(dtype):
    with pytest.raises(GraphError, match="no element type for the numpy type"):
        Tensor.from_array("w", np.zeros(2, dtype))
