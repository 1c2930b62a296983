"""Quantization parameters and constants of a .tflite file."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as litert

from nnconv.errors import InvalidModelError
from nnconv.formats.tflite import wire
from support.tflite_builder import Quant, TfliteBuilder, pack
from support.tflite_conv import conv_model


class TestQuantization:
    def read(self, quant, shape=(2, 3)):
        b = TfliteBuilder()
        b.tensor("int8", shape, quant=quant)
        return wire.read(b.build()).subgraphs[0].tensors[0].quantization

    def test_none(self):
        assert self.read(None) is None

    def test_per_tensor(self):
        quant = self.read((0.1, -3))
        np.testing.assert_array_equal(quant.scale, np.array([0.1], np.float32), strict=True)
        np.testing.assert_array_equal(quant.zero_point, np.array([-3]), strict=True)

    def test_per_channel(self):
        quant = self.read(Quant([0.1, 0.2, 0.3], [1, 2, 3], axis=1))
        np.testing.assert_array_equal(quant.zero_point, np.array([1, 2, 3]), strict=True)
        assert quant.axis == 1

    def test_range_alone_is_no_quantization(self):
        quant = Quant(minimum=-1.0, maximum=1.0)
        quant.scales, quant.zero_points = [], []
        assert self.read(quant) is None

    @pytest.mark.parametrize(("points", "wanted"), [([], [0, 0, 0]), ([7], [7, 7, 7])])
    def test_few_zero_points_stand_for_all(self, points, wanted):
        quant = Quant([0.1, 0.2, 0.3], axis=1)
        quant.zero_points = points
        np.testing.assert_array_equal(self.read(quant).zero_point, np.array(wanted), strict=True)

    @pytest.mark.parametrize(
        ("axis", "points", "words"),
        [
            (0, [0, 0, 0], "3 scales can't belong to the 2 channels of axis 0"),
            (2, [0, 0, 0], "quantized axis is 2, its rank 2"),
            (-1, [0, 0, 0], "quantized axis is -1"),
            (1, [0, 0], "3 scales beside 2 zero points"),
        ],
    )
    def test_numbers_that_do_not_fit(self, axis, points, words):
        quant = Quant([0.1, 0.2, 0.3], axis=axis)
        quant.zero_points = points
        with pytest.raises(InvalidModelError, match=words):
            self.read(quant)

    def test_blockwise(self):
        b = TfliteBuilder()
        scales = b.const(np.ones((2, 2), np.float16))
        b.tensor("int4", (2, 64), quant=Quant(block_scales=scales, block_size=32))
        tensor = wire.read(b.build()).subgraphs[0].tensors[1]
        assert tensor.quantization.blockwise == (0, -1, 32)
        assert len(tensor.quantization.scale) == 0

    def test_other_details(self):
        def tensor(kind, details):
            quant = litert.QuantizationParametersT(detailsType=kind, details=details)
            graph = litert.SubGraphT(tensors=[litert.TensorT(quantization=quant)])
            return wire.read(pack(litert.ModelT(subgraphs=[graph]))).subgraphs[0].tensors[0]

        custom = tensor(1, litert.CustomQuantizationT(custom=[1, 2]))
        assert custom.quantization.custom == b"\x01\x02"
        details = litert.MultiAxisQuantizationT(
            scales=4, zeroPoints=5, blockSize=6, quantizedDimensions=[0, 2]
        )
        assert tensor(3, details).quantization.multi_axis == (4, 5, 6, (0, 2))
        block = litert.BlockwiseQuantizationT(scales=1, blockSize=8, blockShape=[1, 8])
        assert tensor(2, block).quantization.block_shape == (1, 8)


class TestContent:
    @pytest.mark.parametrize(
        "dtype",
        ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"],
    )
    def test_plain_types(self, dtype):
        values = (np.arange(6).reshape(2, 3) % 2).astype(dtype)
        b = TfliteBuilder()
        b.const(values)
        file = wire.read(b.build())
        data = wire.tensor_data(file, file.subgraphs[0].tensors[0])
        np.testing.assert_array_equal(data, values, strict=True)
        assert dtype == "?" or not data.flags.owndata

    @pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9])
    @pytest.mark.parametrize(
        ("name", "low", "high"), [("int4", -8, 8), ("uint4", 0, 16), ("int2", -2, 2)]
    )
    def test_packed_types(self, name, low, high, count):
        dtype = np.uint8 if name == "uint4" else np.int8
        values = np.random.default_rng(count).integers(low, high, count, dtype)
        values[0] = low
        b = TfliteBuilder()
        b.const(values, dtype=name)
        file = wire.read(b.build())
        data = wire.tensor_data(file, file.subgraphs[0].tensors[0])
        np.testing.assert_array_equal(data, values, strict=True)

    def test_first_value_is_in_the_low_bits(self):
        b = TfliteBuilder()
        b.tensor("int4", (3,), buffer=b.buffer(b"\x21\x0f"))
        file = wire.read(b.build())
        data = wire.tensor_data(file, file.subgraphs[0].tensors[0])
        np.testing.assert_array_equal(data, np.array([1, 2, -1], np.int8), strict=True)

    def test_bfloat16_comes_as_bits(self):
        b = TfliteBuilder()
        b.const(np.array([1.0, -2.0], np.float32), dtype="bfloat16")
        file = wire.read(b.build())
        data = wire.tensor_data(file, file.subgraphs[0].tensors[0])
        np.testing.assert_array_equal(data, np.array([0x3F80, 0xC000], np.uint16), strict=True)

    def test_truth_values_of_any_bits(self):
        b = TfliteBuilder()
        b.tensor("bool", (3,), buffer=b.buffer(b"\x00\x02\xff"))
        file = wire.read(b.build())
        data = wire.tensor_data(file, file.subgraphs[0].tensors[0])
        np.testing.assert_array_equal(data, np.array([False, True, True]), strict=True)
        assert data.view(np.uint8).max() == 1

    def test_what_has_no_numbers_is_none(self):
        b = TfliteBuilder()
        b.const(["a", "b"])
        b.tensor("float32", (2,))
        b.variable("float32", (2,))
        b.tensor("float32", (2,), buffer=b.buffer(b""))
        b.tensor("float32", (0,), buffer=b.buffer(b""))
        file = wire.read(b.build())
        assert [wire.tensor_data(file, tensor) for tensor in file.subgraphs[0].tensors] == [
            None
        ] * 5

    @pytest.mark.parametrize("name", ["float32", "int8", "int4", "bool", "complex64"])
    @pytest.mark.parametrize("excess", [-1, 1])
    def test_wrong_size_names_tensor_and_both_sizes(self, name, excess):
        size = {"float32": 20, "int8": 5, "int4": 3, "bool": 5, "complex64": 40}[name]
        b = TfliteBuilder()
        b.tensor(name, (5,), name="odd", buffer=b.buffer(bytes(size + excess)))
        file = wire.read(b.build(), "m.tflite")
        with pytest.raises(InvalidModelError) as caught:
            wire.tensor_data(file, file.subgraphs[0].tensors[0])
        assert str(caught.value).startswith("m.tflite: subgraph 0, tensor #0 (`odd`): ")
        assert f"{size + excess} bytes" in str(caught.value)
        assert str(caught.value).endswith(f"need {size}")

    def test_content_behind_the_flatbuffer(self):
        values = np.arange(20, dtype=np.float32)
        b = TfliteBuilder()
        b.const(values, apart=True)
        data = b.build()
        file = wire.read(data)
        found = wire.tensor_data(file, file.subgraphs[0].tensors[0])
        np.testing.assert_array_equal(found, values, strict=True)
        short = wire.read(data[:-1])
        with pytest.raises(InvalidModelError, match=r"buffer 1: .*isn't in the file"):
            wire.tensor_data(short, short.subgraphs[0].tensors[0])

    def test_content_beyond_2_gib(self, tmp_path):
        values = np.arange(20, dtype=np.float32)
        b = TfliteBuilder()
        b.const(values, apart=True)
        model = b.to_object()
        far = 5 << 30
        model.buffers[1].offset, model.buffers[1].size = far, values.nbytes
        path = tmp_path / "far.tflite"
        with path.open("wb") as stream:  # a hole, not 5 GiB
            stream.write(pack(model))
            stream.seek(far)
            stream.write(values.tobytes())
        file = wire.read(path)
        found = wire.tensor_data(file, file.subgraphs[0].tensors[0])
        np.testing.assert_array_equal(found, values, strict=True)

    def test_buffer_that_does_not_exist(self):
        with pytest.raises(InvalidModelError, match="buffer 7 doesn't exist: the file has 2"):
            wire.read(conv_model().build()).buffer(7)
