"""The .tflite encoder: layout, fields, element types, errors."""

import math
import re

import numpy as np
import pytest

from nnconv.errors import GraphError, InvalidModelError
from nnconv.formats import stored
from nnconv.formats.tflite import build, encode, wire
from nnconv.formats.tflite._gen.schema import TensorType
from nnconv.formats.tflite.storage import STORAGE
from support.flatbuffer_verifier import verify
from support.litert import RESOLVERS, run_litert
from support.tflite_official import plain, theirs

FLOAT32 = TensorType.FLOAT32


def file_of(*tensors, operators=(), **changes):
    return build.File([build.Subgraph("main", tensors, (), (), operators)], **changes)


def tensor(data, code=FLOAT32, **changes):
    return build.Tensor("t", code, data.shape, data=data, **changes)


def content(data, index=0):
    found = wire.read(data)
    return wire.tensor_data(found, found.subgraphs[0].tensors[index])


class TestStructure:
    def test_empty_file(self):
        data = encode.encode(build.File([build.Subgraph("", (), (), (), ())]))
        verify(data)
        model = theirs(data)
        assert model.version == 3
        assert len(model.buffers) == 1
        assert len(model.subgraphs) == 1
        assert model.buffers[0].data is None

    def test_same_bytes_each_time(self):
        def make():
            data = np.arange(3000, dtype=np.float32)
            return encode.encode(file_of(tensor(data), metadata={"a": b"1", "b": b"2"}))

        assert make() == make()

    def test_description_metadata_and_names(self):
        data = encode.encode(file_of(description="größer", metadata={"a": b"1", "é": b""}))
        verify(data)
        found = wire.read(data)
        assert found.description == "größer"
        assert {name: bytes(value) for name, value in found.metadata.items()} == {
            "a": b"1",
            "é": b"",
        }

    def test_operator_codes_are_shared(self):
        def op(code, version=1):
            return build.Operator(code, (), (), version=version)

        codes = [op(0), op("Mine"), op(3, 2), op(0), op(3), op("Mine"), op(128), op(150)]
        model = theirs(encode.encode(file_of(operators=codes)))
        assert [
            (code.deprecatedBuiltinCode, code.builtinCode, code.customCode, code.version)
            for code in model.operatorCodes
        ] == [
            (0, 0, None, 1),
            (32, 32, b"Mine", 1),
            (3, 3, None, 2),
            (3, 3, None, 1),
            (127, 128, None, 1),
            (127, 150, None, 1),
        ]
        operators = model.subgraphs[0].operators
        assert [operator.opcodeIndex for operator in operators] == [0, 1, 2, 0, 3, 1, 4, 5]

    def test_equal_tables_share_a_vtable(self):
        tensors = [build.Tensor(f"t{i}", FLOAT32, (1, i)) for i in range(50)]
        layout = verify(encode.encode(file_of(*tensors)))
        assert layout.tables > 50
        assert len(layout.vtables) == 4  # Model, SubGraph, Tensor, Buffer

    def test_defaults_are_left_out(self):
        fields = {"padding": 0, "stride_w": 1, "dilation_w_factor": 1}
        with_defaults, without = (
            encode.encode(file_of(operators=[build.Operator(3, (), (), ("Conv2DOptions", fields))]))
            for fields in (fields, {"stride_w": 1})
        )
        assert with_defaults == without

    def test_negative_zero_is_no_default(self):
        op = build.Operator(98, (), (), ("LeakyReluOptions", {"alpha": -0.0}))
        again = build.Operator(98, (), (), ("LeakyReluOptions", {"alpha": 0.0}))
        model = theirs(encode.encode(file_of(operators=[again, op, again])))
        signs = [math.copysign(1, one.builtinOptions.alpha) for one in model.subgraphs[0].operators]
        assert signs == [1, -1, 1]

    def test_signatures(self):
        tensors = [build.Tensor(name, FLOAT32, (1,)) for name in "xy"]
        graphs = [build.Subgraph(name, tensors, (0, 1), (1,), ()) for name in ("a", "b")]
        file = build.File(
            graphs,
            signatures=[
                build.Signature("one", 0, [("in", 0)], [("out", 1), ("again", 0)]),
                build.Signature("two", 1, [], [("y", 1)]),
            ],
        )
        data = encode.encode(file)
        verify(data)
        assert [
            (one.key, one.subgraph, one.inputs, one.outputs) for one in wire.read(data).signatures
        ] == [
            ("one", 0, (("in", 0),), (("out", 1), ("again", 0))),
            ("two", 1, (), (("y", 1),)),
        ]

    def test_tensor_fields(self):
        made = build.Tensor("v", TensorType.INT8, (1, 2), shape_signature=(-1, 2), is_variable=True)
        data = encode.encode(file_of(made, build.Tensor("", FLOAT32, (), has_rank=False)))
        variable, unknown = wire.read(data).subgraphs[0].tensors
        assert (variable.name, variable.code, variable.shape) == ("v", TensorType.INT8, (1, 2))
        assert variable.signature == (-1, 2)
        assert variable.is_variable
        assert variable.has_rank
        assert variable.buffer == 0
        assert not unknown.has_rank
        assert theirs(data).subgraphs[0].tensors[1].shape is None

    def test_operator_fields(self):
        tensors = [build.Tensor(f"t{i}", FLOAT32, (1,)) for i in range(4)]
        op = build.Operator(
            "Mine",
            (0, -1, 1),
            (2,),
            custom_options=b"\x01\x02\x03",
            intermediates=(3, -1),
            mutating_variable_inputs=(True, False, True),
            version=7,
        )
        (found,) = theirs(encode.encode(file_of(*tensors, operators=[op]))).subgraphs[0].operators
        assert plain(found.inputs) == (0, -1, 1)
        assert plain(found.outputs) == (2,)
        assert plain(found.intermediates) == (3, -1)
        assert plain(found.mutatingVariableInputs) == (True, False, True)
        assert bytes(found.customOptions) == b"\x01\x02\x03"


class TestBuffers:
    def test_same_memory_is_one_buffer(self):
        array = np.arange(24, dtype=np.float32).reshape(4, 6)
        data = encode.encode(
            file_of(
                tensor(array),
                tensor(array[:]),
                tensor(array.reshape(24)),
                tensor(array.T),
                tensor(array.T),
                tensor(array[:2]),
                tensor(array.view(np.int32), TensorType.INT32),
                tensor(array.copy()),
            )
        )
        verify(data)
        buffers = [one.buffer for one in wire.read(data).subgraphs[0].tensors]
        assert buffers == [1, 1, 1, 2, 2, 3, 4, 5]
        np.testing.assert_array_equal(content(data, 4), array.T)

    def test_packed_and_plain_do_not_share(self):
        array = np.arange(4, dtype=np.int8)
        data = encode.encode(
            file_of(tensor(array, TensorType.INT8), tensor(array, TensorType.INT4))
        )
        assert [one.buffer for one in wire.read(data).subgraphs[0].tensors] == [1, 2]

    def test_no_elements_no_buffer(self):
        data = encode.encode(file_of(tensor(np.zeros((0, 3), np.float32))))
        assert wire.read(data).buffer_count == 1
        assert wire.read(data).subgraphs[0].tensors[0].buffer == 0

    @pytest.mark.parametrize("resolver", RESOLVERS)
    def test_litert_takes_a_constant_without_elements(self, resolver):
        tensors = [
            build.Tensor("x", FLOAT32, (1, 2)),
            tensor(np.zeros((0, 2), np.float32)),
            build.Tensor("y", FLOAT32, (1, 2)),
        ]
        op = build.Operator(2, (0, 1), (2,), ("ConcatenationOptions", {"axis": 0}))
        data = encode.encode(build.File([build.Subgraph("main", tensors, (0,), (2,), [op])]))
        image = np.array([[1, 2]], np.float32)
        np.testing.assert_array_equal(run_litert(data, [image], resolver)[0], image)

    @pytest.mark.parametrize("size", [1, 3, 16, 4096, 4097, 100_001])
    def test_content_is_aligned(self, size):
        arrays = [np.full(n, 7, np.uint8) for n in (size, 5, size + 1)]
        data = encode.encode(file_of(*(tensor(one, TensorType.UINT8) for one in arrays)))
        assert len(verify(data).buffers) == 3
        for index, array in enumerate(arrays):
            np.testing.assert_array_equal(content(data, index), array)

    @pytest.mark.parametrize("code", list(STORAGE), ids=lambda code: code.name)
    @pytest.mark.parametrize("block_bytes", [1, 24, stored.BLOCK_BYTES])
    def test_every_type(self, code, block_bytes, monkeypatch):
        monkeypatch.setattr(stored, "BLOCK_BYTES", block_bytes)
        dtype, bits = np.dtype(STORAGE[code].dtype), STORAGE[code].bits
        rng = np.random.default_rng(int(code))
        if bits < 8:
            low = -(1 << bits - 1) if dtype.kind == "i" else 0
            array = rng.integers(low, low + (1 << bits), (3, 5, 7)).astype(dtype)
        elif dtype.kind == "b":
            array = rng.random((3, 5, 7)) < 0.5
        else:
            array = rng.integers(0, 127, (3, 5, 7)).astype(dtype)
        turned = np.asfortranarray(array).transpose(2, 0, 1)
        big_endian = array.astype(dtype.newbyteorder(">"))
        data = encode.encode(
            file_of(
                tensor(array, code),
                tensor(turned, code),
                tensor(big_endian[:, ::-2], code),
                tensor(np.broadcast_to(array[:1], (4, 5, 7)), code),
            )
        )
        verify(data)
        wanted = [array, turned, array[:, ::-2], np.broadcast_to(array[:1], (4, 5, 7))]
        for index, one in enumerate(wanted):
            np.testing.assert_array_equal(content(data, index), one, strict=True)

    def test_ready_bytes(self):
        made = build.Tensor("t", TensorType.INT4, (3,), data=b"\x21\x0f")
        np.testing.assert_array_equal(content(encode.encode(file_of(made))), [1, 2, -1])

    @pytest.mark.parametrize("resolver", RESOLVERS)
    def test_litert_reads_packed_weights_the_same_way(self, resolver):
        weights = np.random.default_rng(0).integers(-8, 8, (3, 8)).astype(np.int8)
        scales = np.array([0.5, 0.25, 1], np.float32)
        quant = build.Quantization(scales, [], axis=0)
        tensors = [
            build.Tensor("x", FLOAT32, (1, 8)),
            tensor(weights, TensorType.INT4, quant=quant),
            build.Tensor("y", FLOAT32, (1, 3)),
        ]
        op = build.Operator(9, (0, 1, -1), (2,), ("FullyConnectedOptions", {}))
        data = encode.encode(build.File([build.Subgraph("main", tensors, (0,), (2,), [op])]))
        image = np.array([[127, -127, 1, 0, 2, 64, 32, 100]], np.float32)
        (got,) = run_litert(data, [image], resolver)
        # XNNPACK rounds the image to 8 bits.
        np.testing.assert_allclose(got, image @ (weights * scales[:, None]).T, rtol=0.01)


class TestQuantization:
    def read(self, quant, shape=(2, 3)):
        tensors = [
            build.Tensor("t", TensorType.INT8, shape, quant=quant),
            build.Tensor("s", TensorType.FLOAT16, (2, 1)),
        ]
        data = encode.encode(file_of(*tensors))
        verify(data)
        return wire.read(data).subgraphs[0].tensors[0].quantization

    @pytest.mark.parametrize(
        ("scales", "points", "axis"),
        [
            ([0.5], [-3], 0),
            ([0.5], [], 0),
            (np.array([0.1, 0.2, 0.3], np.float32), np.array([1, -2, 3]), 1),
            (np.array([0.5, 0.25]), [7], 0),
            ((0.5, 0.25), (), 0),
        ],
    )
    def test_values(self, scales, points, axis):
        found = self.read(build.Quantization(scales, points, axis=axis))
        np.testing.assert_array_equal(found.scale, np.asarray(scales, np.float32), strict=True)
        wanted = np.broadcast_to(np.asarray(points if len(points) else [0], np.int64), len(scales))
        np.testing.assert_array_equal(found.zero_point, wanted, strict=True)
        assert found.axis == axis

    def test_many_channels(self):
        scales = np.linspace(0.1, 1, 1000)
        quant = build.Quantization(scales, np.arange(1000, dtype=np.int32), axis=0)
        found = self.read(quant, (1000, 2))
        np.testing.assert_array_equal(found.scale, scales.astype(np.float32))
        np.testing.assert_array_equal(found.zero_point, np.arange(1000))

    @pytest.mark.parametrize("zero_points", [-1, 0, 1])
    def test_blockwise(self, zero_points):
        blockwise = build.Blockwise(1, zero_points, 32)
        found = self.read(build.Quantization((), (), axis=1, blockwise=blockwise))
        assert found.blockwise == blockwise

    @pytest.mark.parametrize(
        ("quant", "words"),
        [
            (build.Quantization([1, 2, 3], [0]), "3 scales can't belong to axis 0 of"),
            (build.Quantization([1, 2], [0], axis=2), "2 scales can't belong to axis 2 of"),
            (build.Quantization([1, 2, 3], [0, 1], axis=1), "3 scales beside 2 zero points"),
            (build.Quantization([1e60], [0]), "can't be a vector of float32"),
            (build.Quantization([1], [0.5]), "can't be a vector of int64"),
            (
                build.Quantization((), (), blockwise=build.Blockwise(2, 0, 32)),
                "names tensors that aren't among the 2",
            ),
        ],
    )
    def test_misfits(self, quant, words):
        with pytest.raises(GraphError, match=f"TFLite tensor 't': .*{words}"):
            self.read(quant)


class TestErrors:
    @pytest.mark.parametrize(
        ("made", "words"),
        [
            (build.Tensor("t", FLOAT32, (-1, 2)), "an extent of (-1, 2) is negative"),
            (build.Tensor("t", FLOAT32, (1 << 31,)), "can't be a vector of int32"),
            (build.Tensor("t", FLOAT32, (2,), shape_signature=(-1, 2)), "differ in rank"),
            (build.Tensor("t", FLOAT32, (2,), data=np.zeros(2)), "its data are float64"),
            (build.Tensor("t", FLOAT32, (3,), data=np.zeros(2, "f4")), "its shape is (3,), that"),
            (build.Tensor("t", TensorType.INT4, (3,), data=b"\0"), "1 byte long; 2 are needed"),
            (
                build.Tensor("t", TensorType.INT2, (1,), data=np.array([2], np.int8)),
                "an element is outside -2 to 1",
            ),
            (build.Tensor("t", TensorType.STRING, (1,), data=b"a"), "can't be the type of"),
            (
                build.Tensor("t", FLOAT32, (1,), data=b"\0\0\0\0", is_variable=True),
                "a variable can't have a content",
            ),
        ],
    )
    def test_tensors(self, made, words):
        with pytest.raises(GraphError, match=re.escape(words)) as caught:
            encode.encode(file_of(made))
        assert caught.value.message.startswith("TFLite tensor 't': ")

    @pytest.mark.parametrize(
        ("op", "words"),
        [
            (build.Operator(3, (1,), ()), "op #1 (CONV_2D): tensor 1 of its inputs isn't among"),
            (build.Operator(3, (-2,), ()), "tensor -2 of its inputs isn't among the 1 tensor"),
            (build.Operator(3, (), (-1,)), "tensor -1 of its outputs isn't among the 1 tensor"),
            (build.Operator(3, (0.5,), ()), "can't be a vector of int32"),
            (build.Operator("Mine", (), (), intermediates=(9,)), "(Mine): tensor 9 of its inter"),
            (build.Operator(3, (), (), ("Nonsense", {})), "Nonsense isn't a table that Builtin"),
            (
                build.Operator(3, (), (), options2=("Conv2DOptions", {})),
                "Conv2DOptions isn't a table that BuiltinOptions2 can be",
            ),
            (
                build.Operator(3, (), (), ("Conv2DOptions", {"x": 1})),
                "Conv2DOptions has no field x",
            ),
            (
                build.Operator(3, (), (), ("Conv2DOptions", {"padding": 300})),
                "the numbers of Conv2DOptions don't fit",
            ),
            (
                build.Operator(22, (), (), ("ReshapeOptions", {"new_shape": [1 << 40]})),
                "can't be a vector of int32",
            ),
        ],
    )
    def test_operators(self, op, words):
        fine = build.Operator(0, (0,), (0,))
        with pytest.raises(GraphError, match=re.escape(words)) as caught:
            encode.encode(file_of(build.Tensor("t", FLOAT32, ()), operators=[fine, op]))
        assert caught.value.message.startswith("TFLite subgraph 0, op #1 (")

    def test_subgraph(self):
        file = build.File([build.Subgraph("main", (), (0,), (), ())])
        with pytest.raises(GraphError, match=r"its inputs \[0\] aren't all among its 0 tensors"):
            encode.encode(file)

    @pytest.mark.parametrize("number", [0, 1])
    def test_signature(self, number):
        file = file_of(signatures=[build.Signature("key", number, [("in", 0)], ())])
        with pytest.raises(GraphError, match=f"'in' .* tensor 0, which subgraph {number} doesn't"):
            encode.encode(file)

    def test_version(self):
        with pytest.raises(GraphError, match="TFLite file: the numbers of OperatorCode don't fit"):
            encode.encode(file_of(operators=[build.Operator(0, (), (), version=1 << 40)]))

    def test_name_without_utf8(self):
        with pytest.raises(InvalidModelError, match="no UTF-8 form"):
            encode.encode(file_of(build.Tensor("\udc80", FLOAT32, ())))
