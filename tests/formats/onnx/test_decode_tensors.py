"""Every form in which an ONNX file can hold a tensor is read as the onnx package reads it."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from nnconv.errors import InvalidModelError
from nnconv.formats.onnx import protobuf, wire
from nnconv.formats.onnx.content import STORED, unpacked
from nnconv.formats.onnx.decode import read
from nnconv.formats.onnx.protobuf_reader import packed_ints, packed_varints
from nnconv.formats.onnx.wire import DataType
from support.onnx_files import check_array, check_tensor

KNOWN = [dtype for dtype in DataType if hasattr(TensorProto, dtype.name)]
NUMBERS = [dtype for dtype in KNOWN if dtype is not DataType.STRING]
SHAPES = [(), (1,), (3, 5), (2, 0, 3), (7, 1, 3)]


def in_a_model(*tensors, sparse=()):
    graph = helper.make_graph([], "g", [], [], tensors)
    graph.sparse_initializer.extend(sparse)
    return helper.make_model(graph).SerializeToString()


def one(tensor):
    return read(in_a_model(tensor), "a file").graph.initializers[0]


def random_bytes(dtype, shape):
    """Elements of ``dtype`` as raw data; bools are 0 and 1, bits of padding 0."""
    rng = np.random.default_rng(hash((dtype, shape)) % 2**32)
    bits = STORED[dtype][1]
    count = int(np.prod(shape))
    raw = rng.integers(0, 256, (count * bits + 7) // 8, dtype=np.uint8)
    if dtype is DataType.BOOL:
        raw &= 1
    if raw.size and count * bits % 8:
        raw[-1] &= (1 << count * bits % 8) - 1
    return raw.tobytes()


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", SHAPES)
def test_raw_data(dtype, shape):
    raw = random_bytes(dtype, shape)
    theirs = TensorProto(name="t", data_type=dtype, dims=shape, raw_data=raw)
    check_tensor(one(theirs), theirs)
    assert bytes(one(theirs).data) == raw


def typed_field(dtype, shape):
    """A tensor whose elements are in a typed field, made of raw data."""
    raw = random_bytes(dtype, shape)
    field = helper.tensor_dtype_to_field(dtype)
    tensor = TensorProto(name="t", data_type=dtype, dims=shape)
    bits = STORED[dtype][1]
    if bits == 6:
        numbers = unpacked(np.frombuffer(raw, np.uint8), 6, count=int(np.prod(shape)), signed=False)
    elif field in {"float_data", "double_data"}:
        numbers = np.frombuffer(raw, "<f4" if field == "float_data" else "<f8")
    elif dtype is DataType.FLOAT16:
        numbers = np.frombuffer(raw, "<u2")
    else:
        numbers = np.frombuffer(raw, STORED[dtype][0] if bits > 4 else np.uint8)
    getattr(tensor, field).extend(numbers.tolist())
    return tensor, raw


def loosened(tensor):
    """The bytes of a tensor with each number of its typed field on its own, not packed."""
    field = helper.tensor_dtype_to_field(tensor.data_type)
    number = TensorProto.DESCRIPTOR.fields_by_name[field].number
    numbers = list(getattr(tensor, field))
    pieces = []
    for item in numbers:
        alone = TensorProto()
        getattr(alone, field).append(item)
        packed = alone.SerializeToString()  # tag, length, number
        kind = {"float_data": 5, "double_data": 1}.get(field, 0)
        pieces.append(bytes([number << 3 | kind]) + packed[2:])
    bare = TensorProto()
    bare.CopyFrom(tensor)
    bare.ClearField(field)
    return bare.SerializeToString() + b"".join(pieces)


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", ["packed", "loose", "in two pieces"])
def test_typed_fields(dtype, shape, form):
    theirs, raw = typed_field(dtype, shape)
    data = theirs.SerializeToString()
    if form == "loose":
        data = loosened(theirs)
    elif form == "in two pieces":
        field = helper.tensor_dtype_to_field(dtype)
        numbers = list(getattr(theirs, field))
        rest = TensorProto()
        getattr(rest, field).extend(numbers[len(numbers) // 2 :])
        del getattr(theirs, field)[len(numbers) // 2 :]
        data = theirs.SerializeToString() + rest.SerializeToString()
    expected = TensorProto.FromString(data)
    graph = protobuf.delimited(b"\x3a", protobuf.delimited(b"\x2a", data))
    ours = read(b"\x08\x08" + graph).graph.initializers[0]
    check_tensor(ours, expected)
    dense = TensorProto(name="t", data_type=dtype, dims=shape, raw_data=raw)
    check_tensor(ours, dense)


@pytest.mark.parametrize("shape", [(), (2, 2), (0,)])
def test_strings(shape):
    strings = np.array(["", "ä", "b\x00c", "日本"][: int(np.prod(shape))], object).reshape(shape)
    theirs = numpy_helper.from_array(strings, "t")
    check_tensor(one(theirs), theirs)
    assert one(theirs).array().dtype == object


def test_strings_that_are_no_utf8():
    theirs = TensorProto(name="t", data_type=8, dims=[1], string_data=[b"\xff"])
    assert one(theirs).array()[0].encode(errors="surrogateescape") == b"\xff"


def test_arrays_are_as_the_ir_stores_them():
    def array(dtype, raw, dims=(2,)):
        return one(TensorProto(data_type=dtype, dims=dims, raw_data=raw)).array()

    half = array(DataType.BFLOAT16, b"\x80\x3f\x00\xc0")
    assert half.dtype == ml_dtypes.bfloat16
    assert half.tolist() == [1, -2]
    assert array(DataType.INT4, b"\x8f").tolist() == [-1, -8]
    assert array(DataType.INT4, b"\x8f").dtype == np.int8
    assert array(DataType.UINT4, b"\x8f").tolist() == [15, 8]
    assert array(DataType.UINT4, b"\x8f").dtype == np.uint8
    assert array(DataType.INT2, b"\x09").tolist() == [1, -2]
    assert array(DataType.FLOAT4E2M1, b"\x8f").tolist() == [15, 8]
    assert array(DataType.FLOAT8E4M3FN, b"\x8f\x01").tolist() == [0x8F, 1]
    odd = array(DataType.BOOL, b"\x02\x00")
    assert odd.dtype == np.bool_
    assert odd.view(np.uint8).tolist() == [1, 0]


def test_a_number_too_large_for_its_type_is_narrowed_as_the_onnx_package_does():
    theirs = TensorProto(data_type=DataType.UINT16, dims=[2], int32_data=[65537, -1])
    check_tensor(one(theirs), theirs)


def test_all_of_a_made_tensor_is_checked_by_array_too():
    tensor = wire.Tensor("t", DataType.INT8, (3,), b"ab")
    with pytest.raises(Exception, match="2 bytes long; 3 are needed"):
        tensor.array()


# ----------------------------------------------------------------------------------- broken ones


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"data_type": 0, "raw_data": b""}, "no element type"),
        ({"data_type": 99, "raw_data": b""}, "element type 99 is unknown"),
        ({"data_type": -1, "raw_data": b""}, "element type -1 is unknown"),
        ({"data_type": 1, "dims": [2]}, "no data, but its shape"),
        ({"data_type": 1, "dims": [2], "raw_data": b"1234"}, "4 bytes; FLOAT of the shape"),
        ({"data_type": 1, "dims": [1], "raw_data": b"12345678"}, "8 bytes; FLOAT of the shape"),
        ({"data_type": 1, "dims": [2], "float_data": [1]}, "4 bytes; FLOAT of the shape"),
        ({"data_type": 1, "dims": [1], "int32_data": [1]}, "no data, but its shape"),
        ({"data_type": 1, "dims": [-1], "float_data": [1]}, "negative extent"),
        ({"data_type": 1, "dims": [1] * 65, "float_data": [1]}, "65 axes, allowed are 64"),
        ({"data_type": 1, "dims": [2**62, 2**62], "raw_data": b"1"}, "too many elements"),
        ({"data_type": 1, "dims": [2**62, 0, 2**62]}, "too many elements"),
        ({"data_type": 3, "dims": [2**40], "raw_data": b"1"}, "takes 1099511627776"),
        ({"data_type": 8, "dims": [2], "string_data": [b"a"]}, "1 string,"),
        ({"data_type": 8, "dims": [2**60, 2**60], "string_data": [b"a"]}, "1 string,"),
        ({"data_type": 8, "dims": [-1], "string_data": [b"a"]}, "impossible"),
        ({"data_type": 8, "dims": [1], "raw_data": b"a"}, "strings as raw bytes"),
    ],
)
def test_broken_tensors_are_refused_at_once(fields, match):
    with pytest.raises(InvalidModelError, match=match) as caught:
        one(TensorProto(name="bad", **fields))
    assert caught.value.path == "a file"
    assert "initializer #0, `bad`" in caught.value.where


def test_segments_are_refused():
    tensor = TensorProto(data_type=1, dims=[1], float_data=[1])
    tensor.segment.begin = 0
    with pytest.raises(InvalidModelError, match="segment"):
        one(tensor)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"data_type": 6, "dims": [2], "int32_data": [1]}, "1 number, 2 are needed"),
        ({"data_type": 7, "dims": [2**50], "int64_data": [1]}, "1 number, 1125899906842624 are"),
        ({"data_type": 22, "dims": [3], "int32_data": [1]}, "1 number, 2 are needed"),
    ],
)
def test_numbers_that_dont_suffice_are_refused_when_asked_for(fields, match):
    tensor = one(TensorProto(name="bad", **fields))
    with pytest.raises(InvalidModelError, match=match) as caught:
        tensor.array()
    assert caught.value.where == "tensor `bad`"


@pytest.mark.parametrize(
    "content", [b"\x80", b"\x01\xff", b"\x01" + b"\x80" * 11, b"\x80" * 10 + b"\x01"]
)
def test_broken_numbers_are_refused(content):
    tensor = b"\x08\x01\x10\x06" + protobuf.delimited(b"\x2a", content)
    graph = protobuf.delimited(b"\x3a", protobuf.delimited(b"\x2a", tensor))
    with pytest.raises(InvalidModelError, match=r"within a number|more than ten bytes"):
        read(b"\x08\x08" + graph).graph.initializers[0].array()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40))
def test_varints_are_unpacked_alike_both_ways(numbers):
    packed = b"".join(map(protobuf.varint, numbers))
    assert packed_varints(packed).view(np.int64).tolist() == numbers
    assert packed_ints(packed, 0, len(packed)) == numbers


def test_many_varints_are_unpacked_in_blocks():
    rng = np.random.default_rng(0)
    numbers = (rng.integers(-(2**62), 2**62, 300_000) >> rng.integers(0, 62, 300_000)).tolist()
    packed = b"".join(map(protobuf.varint, numbers))
    assert packed_varints(packed).view(np.int64).tolist() == numbers


# --------------------------------------------------------------------------------------- sparse


def made_sparse(values, indices, dims):
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.asarray(values), "s"),
        numpy_helper.from_array(np.asarray(indices)),
        dims,
    )


def one_sparse(sparse):
    return read(in_a_model(sparse=[sparse]), "a file").graph.initializers[0]


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, np.complex64, ml_dtypes.bfloat16])
def test_sparse_tensors_are_made_dense(dtype):
    values = np.array([1, 0, 1], dtype)
    expected = np.zeros((2, 3), dtype)
    expected[0, 1], expected[1, 2] = values[0], values[2]
    flat = one_sparse(made_sparse(values, [1, 3, 5], [2, 3]))
    pairs = one_sparse(made_sparse(values, [[0, 1], [1, 0], [1, 2]], [2, 3]))
    for tensor in (flat, pairs):
        assert tensor.name == "s"
        check_array(tensor.array(), expected)


def test_a_sparse_tensor_of_one_axis_and_an_empty_one():
    values = np.float32([5])
    assert one_sparse(made_sparse(values, [[2]], [3])).array().tolist() == [0, 0, 5]
    none = made_sparse(np.float32([]), np.int64([]), [2, 2])
    assert one_sparse(none).array().tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("values", "indices", "dims", "match"),
    [
        (np.float32([1]), [0], [2**20, 2**20], "out of proportion"),
        (np.float32([1]), [0], [2**62, 2**62], "too many elements"),
        (np.float32([1]), [0], [-1], "negative extent"),
        (np.float32([1]), [0, 1], [4], "don't make a sparse tensor"),
        (np.float32([1]), [[0, 1]], [4], "don't make a sparse tensor"),
        (np.float32([1]), np.int32([1]), [4], "don't make a sparse tensor"),
        (np.float32([[1]]), [1], [4], "don't make a sparse tensor"),
        (np.array(["a"], object), [1], [4], "of strings"),
    ],
)
def test_broken_sparse_tensors_are_refused(values, indices, dims, match):
    with pytest.raises(InvalidModelError, match=match) as caught:
        one_sparse(made_sparse(values, indices, dims))
    assert caught.value.where == "sparse initializer #0, `s`"


@pytest.mark.parametrize("indices", [[4], [-1], [[0, 4]], [[-1, 0]]])
def test_indices_outside_of_a_sparse_tensor_are_refused(indices):
    tensor = one_sparse(made_sparse(np.float32([1]), indices, [1, 4]))
    with pytest.raises(InvalidModelError, match="outside of it"):
        tensor.array()


def test_a_sparse_tensor_without_values_is_refused():
    with pytest.raises(InvalidModelError, match="no values"):
        one_sparse(onnx.SparseTensorProto(dims=[1]))


def test_all_sparse_tensors_of_a_file_share_what_they_may_take():
    sparse = made_sparse(np.float32([1]), [0], [2**23])
    assert len(read(in_a_model(sparse=[sparse] * 2)).graph.initializers) == 2
    with pytest.raises(InvalidModelError, match="out of proportion"):
        read(in_a_model(sparse=[sparse] * 10))
