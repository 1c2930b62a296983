"""The typed view of a .tflite file: real models against LiteRT's reader, built ones by hand."""

import os
import time

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as litert

from nnconv.errors import InvalidModelError
from nnconv.formats.tflite import wire
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR, OPTIONS, TABLES, UNIONS
from support.places import find_shared_dir
from support.tflite_builder import Quant, TfliteBuilder, pack

SHARED = find_shared_dir()
MODELS = sorted((SHARED / "models/tflite").rglob("*.tflite")) if SHARED else []


def text(raw):
    return (raw or b"").decode()


def ints(values):
    return tuple(int(value) for value in (() if values is None else values))


def same_tensor(ours, theirs):
    assert ours.name == text(theirs.name)
    assert int(ours.code) == theirs.type
    assert ours.shape == ints(theirs.shape)
    assert ours.signature == (ints(theirs.shapeSignature) or None)
    assert (ours.has_rank, ours.buffer) == (theirs.hasRank, theirs.buffer)
    assert ours.is_variable == theirs.isVariable
    assert (ours.sparsity is None) == (theirs.sparsity is None)
    quant = theirs.quantization
    if quant is None or quant.scale is None or not len(quant.scale):
        assert ours.quantization is None or not len(ours.quantization.scale)
    else:
        np.testing.assert_array_equal(ours.quantization.scale, quant.scale, strict=True)
        np.testing.assert_array_equal(ours.quantization.zero_point, quant.zeroPoint, strict=True)
        assert ours.quantization.axis == quant.quantizedDimension


def same_operator(ours, theirs, model):
    code = model.operatorCodes[theirs.opcodeIndex]
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    assert BUILTIN_OPERATOR[ours.name] == number
    assert (ours.version, ours.custom_code) == (code.version, text(code.customCode))
    assert (ours.inputs, ours.outputs) == (ints(theirs.inputs), ints(theirs.outputs))
    assert ours.intermediates == ints(theirs.intermediates)
    custom = theirs.customOptions
    assert ours.custom_options == (b"" if custom is None else bytes(custom))
    options = theirs.builtinOptions or theirs.builtinOptions2
    if options is not None and ours.options.name:
        assert type(options).__name__ == f"{ours.options.name}T"


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_real_models_read_as_in_litert_s_reader(path):
    file = wire.read(path)
    model = litert.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    assert (file.version, file.description) == (model.version, text(model.description))
    assert len(file.subgraphs) == len(model.subgraphs)
    for ours, theirs in zip(file.subgraphs, model.subgraphs, strict=True):
        assert ours.name == text(theirs.name)
        assert (ours.inputs, ours.outputs) == (ints(theirs.inputs), ints(theirs.outputs))
        for tensor, other in zip(ours.tensors, theirs.tensors, strict=True):
            same_tensor(tensor, other)
            content = model.buffers[other.buffer].data if other.buffer else None
            data = wire.tensor_data(file, tensor)
            if content is None or not len(content):
                assert data is None
            elif tensor.sparsity is None and tensor.code.name != "STRING":
                assert data.shape == tensor.shape
                assert data.tobytes() == bytes(content)
        for op, other in zip(ours.operators, theirs.operators, strict=True):
            same_operator(op, other, model)
    assert file.buffer_count == len(model.buffers)
    assert set(file.metadata) == {text(entry.name) for entry in model.metadata or ()}
    for ours, theirs in zip(file.signatures, model.signatureDefs or (), strict=True):
        assert (ours.key, ours.subgraph) == (text(theirs.signatureKey), theirs.subgraphIndex)
        assert ours.inputs == tuple((text(m.name), m.tensorIndex) for m in theirs.inputs or ())
        assert ours.outputs == tuple((text(m.name), m.tensorIndex) for m in theirs.outputs or ())


def conv(b=None, **changes):
    b = b or TfliteBuilder()
    x = b.input("x", "float32", (1, 4, 5, 3))
    w = b.const(np.arange(81, dtype=np.float32).reshape(3, 3, 3, 3))
    options = {"stride_h": 2, "stride_w": 3, "padding": "VALID", **changes}
    y = b.op("CONV_2D", [x, w, None], [("float32", (1, 1, 1, 3))], options=options, version=2)
    b.output(y)
    return b


def changed(change):
    """A file after ``change`` was made to its object, and nothing else checked."""
    model = conv().to_object()
    change(model)
    return pack(model)


class TestOptions:
    def test_values_and_defaults(self):
        (op,) = wire.read(conv().build()).subgraphs[0].operators
        assert op.options.int("stride_h") == 2
        assert op.options.int("stride_w") == 3
        assert op.options.int("padding") == 1
        assert op.options.int("dilation_w_factor") == 1
        assert op.options.has("stride_h")
        assert (op.name, op.version, op.inputs[2]) == ("CONV_2D", 2, -1)
        assert op.where == "subgraph 0, op #0 (CONV_2D)"

    def test_missing_table_has_the_defaults(self):
        b = TfliteBuilder()
        b.output(b.op("RELU", [b.input("x", "float32", (2,))], [("float32", (2,))]))
        y = b.op("SOFTMAX", [b.input("y", "float32", (2,))], [("float32", (2,))], omit_options=True)
        b.output(y)
        relu, softmax = wire.read(b.build()).subgraphs[0].operators
        assert (softmax.options.float("beta"), softmax.options.has("beta")) == (0.0, False)
        assert relu.options.name == ""
        with pytest.raises(KeyError):
            relu.options.int("beta")

    @pytest.mark.parametrize("method", ["int", "float", "bool", "ints", "text", "raw", "has"])
    def test_unknown_name_is_a_key_error(self, method):
        (op,) = wire.read(conv().build()).subgraphs[0].operators
        with pytest.raises(KeyError):
            getattr(op.options, method)("colour")

    def test_vectors_and_strings(self):
        b = TfliteBuilder()
        x = b.input("x", "float32", (2, 3))
        shape = b.const(np.array([3, 2], np.int32))
        options = {"new_shape": [3, -1]}
        b.output(b.op("RESHAPE", [x, shape], [("float32", (3, 2))], options=options))
        options = {"boundaries": [0.5, 1.5]}
        b.output(b.op("BUCKETIZE", [x], [("int32", (2, 3))], options=options))
        options = {"container": "", "shared_name": "state"}
        b.op("VAR_HANDLE", [], [("resource", ())], options=options)
        reshape, bucketize, handle = wire.read(b.build()).subgraphs[0].operators
        assert reshape.options.ints("new_shape") == (3, -1)
        assert bucketize.options.floats("boundaries") == (0.5, 1.5)
        assert handle.options.text("shared_name") == "state"
        assert handle.options.raw("shared_name") == b"state"

    def test_second_union(self):
        b = TfliteBuilder()
        x = b.input("x", "float32", (2,))
        body = b.subgraph("body")
        z = body.input("z", "float32", (2,))
        body.output(body.op("RELU", [z], [("float32", (2,))]))
        options = {
            "name": "odml.relu",
            "decomposition_subgraph_index": body,
            "composite_attributes": b"\x01\x02",
            "version": 3,
        }
        b.output(b.op("STABLEHLO_COMPOSITE", [x], [("float32", (2,))], options=options))
        (op,) = wire.read(b.build()).subgraphs[0].operators
        assert op.options.text("name") == "odml.relu"
        assert op.options.raw("composite_attributes") == b"\x01\x02"
        assert op.options.int("version") == 3
        assert op.calls == (1,)

    def test_options_of_another_op_are_refused(self):
        def change(model):
            model.subgraphs[0].operators[0].builtinOptions = litert.SoftmaxOptionsT()
            model.subgraphs[0].operators[
                0
            ].builtinOptionsType = litert.BuiltinOptions.SoftmaxOptions

        with pytest.raises(InvalidModelError, match="SoftmaxOptions, where Conv2DOptions"):
            wire.read(changed(change))

    def test_options_of_an_op_that_has_none_are_ignored(self):
        def change(model):
            model.operatorCodes[0].builtinCode = litert.BuiltinOperator.PRELU
            model.operatorCodes[0].deprecatedBuiltinCode = litert.BuiltinOperator.PRELU

        (op,) = wire.read(changed(change)).subgraphs[0].operators
        assert (op.name, op.options.name) == ("PRELU", "")

    @pytest.mark.parametrize("name", sorted(OPTIONS))
    def test_defaults_of_every_op_are_litert_s(self, name):
        theirs = getattr(litert, OPTIONS[name])()
        options = wire.Options(OPTIONS[name], None)
        theirs.Init(b"\4\0\4\0" + b"\4\0\0\0", 4)  # a table without fields
        for field, (_, kind, type_name, _) in TABLES[OPTIONS[name]].items():
            accessor = getattr(
                theirs, "".join(part.capitalize() for part in field.split("_")), None
            )
            if kind == "scalar" and accessor is not None:
                method = {"bool": options.bool, "float32": options.float}.get(
                    type_name, options.int
                )
                assert method(field) == accessor(), field


class TestOperators:
    def test_custom_op(self):
        b = TfliteBuilder()
        x = b.input("x", "float32", (2,))
        b.output(b.op("MyOp", [x], [("float32", (2,))], custom_options=b"abc"))
        (op,) = wire.read(b.build()).subgraphs[0].operators
        assert (op.name, op.custom_code, op.custom_options) == ("CUSTOM", "MyOp", b"abc")
        assert op.where == "subgraph 0, op #0 (MyOp)"
        with pytest.raises(KeyError):
            op.options.int("axis")

    def test_large_custom_options_lie_behind_the_flatbuffer(self):
        b = TfliteBuilder()
        x = b.input("x", "float32", (2,))
        b.output(
            b.op(
                "MyOp",
                [x],
                [("float32", (2,))],
                custom_options=bytes(range(99)),
                custom_options_apart=True,
            )
        )
        data = b.build()
        (op,) = wire.read(data).subgraphs[0].operators
        assert op.custom_options == bytes(range(99))
        (op,) = wire.read(data[:-1]).subgraphs[0].operators
        with pytest.raises(InvalidModelError, match=r"op #0 \(MyOp\).*aren't in the file"):
            _ = op.custom_options

    def test_intermediates_and_mutating_inputs(self):
        b = TfliteBuilder()
        x = b.input("x", "float32", (2,))
        s = b.variable("float32", (2,))
        y = b.op(
            "SVDF",
            [x, s],
            [("float32", (2,))],
            intermediates=[("int16", (1,))],
            mutating_inputs=[False, True],
        )
        b.output(y)
        (op,) = wire.read(b.build()).subgraphs[0].operators
        assert op.intermediates == (3,)
        assert op.mutating_variable_inputs == (False, True)

    @pytest.mark.parametrize(("old", "new"), [(3, 0), (0, 3), (3, 3)])
    def test_the_larger_of_both_codes_counts(self, old, new):
        def change(model):
            model.operatorCodes[0].deprecatedBuiltinCode = old
            model.operatorCodes[0].builtinCode = new

        (op,) = wire.read(changed(change)).subgraphs[0].operators
        assert op.name == "CONV_2D"

    def test_number_newer_than_the_schema(self):
        def change(model):
            model.operatorCodes[0].builtinCode = 5000

        (op,) = wire.read(changed(change)).subgraphs[0].operators
        assert op.name == "BUILTIN_5000"
        with pytest.raises(KeyError):
            op.options.int("stride_h")


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
            (1, [0, 0], "3 scales stand beside 2 zero points"),
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
            wire.read(conv().build()).buffer(7)


def test_signatures_metadata_and_shapes():
    b = TfliteBuilder("main", description="made by hand")
    x = b.input("x", "float32", (1, 2), signature=(-1, 2))
    y = b.op("RELU", [x], [("float32", (1, 2))])
    b.output(y)
    b.signature("serving_default", {"in": x}, {"out": y})
    b.metadata("note", b"hello")
    b.metadata("nothing", b"")
    file = wire.read(b.build())
    assert file.description == "made by hand"
    (signature,) = file.signatures
    assert (signature.key, signature.subgraph) == ("serving_default", 0)
    assert (signature.inputs, signature.outputs) == ((("in", 0),), (("out", 1),))
    assert {name: content.tobytes() for name, content in file.metadata.items()} == {
        "note": b"hello",
        "nothing": b"",
    }
    tensors = file.subgraphs[0].tensors
    assert (tensors[0].shape, tensors[0].signature, tensors[1].signature) == ((1, 2), (-1, 2), None)


def test_variant_types():
    variant = litert.VariantSubTypeT(shape=[2, 3], type=litert.TensorType.INT8, hasRank=True)
    tensor = litert.TensorT(type=litert.TensorType.VARIANT, variantTensors=[variant])
    model = litert.ModelT(subgraphs=[litert.SubGraphT(tensors=[tensor])])
    (found,) = wire.read(pack(model)).subgraphs[0].tensors[0].variant
    assert found == (wire.TensorType.INT8, (2, 3), True)


class TestSources:
    def test_path_and_bytes_give_the_same(self, tmp_path):
        path = tmp_path / "m.tflite"
        path.write_bytes(conv().build())
        for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
            assert wire.read(source).subgraphs[0].operators[0].name == "CONV_2D"
        assert wire.read(path).path == str(path)
        assert wire.read(path.read_bytes(), "given").path == "given"

    def test_content_of_a_path_is_a_view_of_the_map(self, tmp_path):
        path = tmp_path / "m.tflite"
        path.write_bytes(conv().build())
        file = wire.read(path)
        data = wire.tensor_data(file, file.subgraphs[0].tensors[1])
        assert not data.flags.owndata
        assert not data.flags.writeable
        del file
        assert data[2, 2, 2, 2] == 80

    def test_missing_file(self, tmp_path):
        with pytest.raises(InvalidModelError, match=r"none.tflite: No such file"):
            wire.read(tmp_path / "none.tflite")

    def test_folder(self, tmp_path):
        with pytest.raises(InvalidModelError):
            wire.read(tmp_path)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_device(self):
        with pytest.raises(InvalidModelError, match="no regular file"):
            wire.read(os.devnull)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "empty"),
            (b"\x1c\0\0", "no TFL3"),
            (b"\x1c\0\0\0TFL3", "lies outside"),
            (b"\x08\x08\x12\x04test:\x00", "no TFL3"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:", "git lfs pull"),
        ],
    )
    def test_what_is_no_tflite_file(self, tmp_path, content, words):
        path = tmp_path / "m.tflite"
        path.write_bytes(content)
        with pytest.raises(InvalidModelError, match=words) as caught:
            wire.read(path)
        assert str(caught.value).startswith(f"{path}: ")


def set_field(path, value):
    """A change of one field of the model object, named by a path of attributes and indices."""

    def change(model):
        target = model
        *steps, last = path.split(".")
        for step in steps:
            target = target[int(step)] if step.isdigit() else getattr(target, step)
        if last.isdigit():
            target[int(last)] = value
        else:
            setattr(target, last, value)

    return change


FAULTS = {
    "no subgraph": ("subgraphs", [], "no subgraph"),
    "op code": ("subgraphs.0.operators.0.opcodeIndex", 3, "operator code 3, the file has 1"),
    "input": ("subgraphs.0.operators.0.inputs.0", 9, "tensor 9 of its inputs doesn't exist"),
    "input -2": ("subgraphs.0.operators.0.inputs.0", -2, "tensor -2 of its inputs"),
    "output": ("subgraphs.0.operators.0.outputs.0", 3, "tensor 3 of its outputs doesn't exist"),
    "output -1": ("subgraphs.0.operators.0.outputs.0", -1, "tensor -1 of its outputs"),
    "graph input": ("subgraphs.0.inputs.0", -1, "tensor -1 of its inputs doesn't exist"),
    "graph output": ("subgraphs.0.outputs.0", 77, "tensor 77 of its outputs doesn't exist"),
    "buffer": ("subgraphs.0.tensors.1.buffer", 2, "its buffer 2 doesn't exist: the file has 2"),
    "type": ("subgraphs.0.tensors.0.type", 99, "tensor type 99 is unknown"),
    "shape": ("subgraphs.0.tensors.0.shape", [1, -4], "negative extent"),
    "signature": ("subgraphs.0.tensors.0.shapeSignature", [1, 2], "differ in rank"),
    "signature -2": ("subgraphs.0.tensors.0.shapeSignature", [-2, 4, 5, 3], "is impossible"),
    "no producer": ("subgraphs.0.tensors.1.buffer", 0, "tensor #1 (`t1`) has no content"),
    "writes an input": ("subgraphs.0.operators.0.outputs.0", 0, "writes tensor #0 (`x`)"),
    "unmade output": ("subgraphs.0.operators", [], "tensor #2 (`t2`) has no content"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_named_with_its_place(fault):
    path, value, words = FAULTS[fault]
    with pytest.raises(InvalidModelError) as caught:
        wire.read(changed(set_field(path, value)), "m.tflite")
    assert words in str(caught.value)
    assert str(caught.value).startswith("m.tflite: ")
    assert fault == "no subgraph" or caught.value.where.startswith("subgraph 0")


def test_operator_that_reads_what_a_later_one_makes():
    b = TfliteBuilder()
    x = b.input("x", "float32", (2,))
    late = b.tensor("float32", (2,))
    b.output(b.op("ADD", [x, late], [("float32", (2,))]))
    b.op("RELU", [x], [late])
    with pytest.raises(InvalidModelError, match=r"op #0 \(ADD\): tensor #1 .* when it is read"):
        wire.read(b.build())


def test_two_operators_that_make_one_tensor():
    b = TfliteBuilder()
    x = b.input("x", "float32", (2,))
    y = b.op("RELU", [x], [("float32", (2,))])
    b.op("RELU", [x], [y])
    with pytest.raises(InvalidModelError, match=r"op #1 \(RELU\): it writes tensor #1"):
        wire.read(b.build())


def test_variables_empty_tensors_and_scratch_of_custom_ops_need_no_producer():
    b = TfliteBuilder()
    x = b.input("x", "float32", (2,))
    b.op("SVDF", [x, b.variable("float32", (2,))], [("float32", (2,))])
    b.op("RESHAPE", [x, b.tensor("int32", (0,))], [("float32", (2,))])
    b.op("Scratchy", [x, b.tensor("float32", (4,))], [("float32", (2,))])
    assert len(wire.read(b.build()).subgraphs[0].operators) == 3


class TestSignatures:
    def build(self, **changes):
        b = conv()
        b.signature("main", {"a": b_tensor(b, 0)}, {"b": b_tensor(b, 2)})
        model = b.to_object()
        for path, value in changes.items():
            set_field(path.replace("__", "."), value)(model)
        return pack(model)

    def test_subgraph(self):
        with pytest.raises(InvalidModelError, match=r"signature `main`: subgraph 5 doesn't exist"):
            wire.read(self.build(signatureDefs__0__subgraphIndex=5))

    def test_tensor(self):
        with pytest.raises(InvalidModelError, match="`a` is tensor 40, which doesn't exist"):
            wire.read(self.build(signatureDefs__0__inputs__0__tensorIndex=40))

    def test_metadata(self):
        b = conv()
        b.metadata("note", b"x")
        model = b.to_object()
        model.metadata[0].buffer = 9
        with pytest.raises(InvalidModelError, match="buffer 9 doesn't exist"):
            wire.read(pack(model))


def b_tensor(builder, index):
    """A handle on a tensor that the builder has made."""
    from support.tflite_builder import Tensor

    made = builder._object.tensors[index]
    return Tensor(index, made.name, "float32", tuple(made.shape), 0, made.buffer)


class TestCalls:
    def build(self, cond=1, body=2):
        b = TfliteBuilder()
        x = b.input("x", "float32", (2,))
        for dtype in ("bool", "float32"):
            graph = b.subgraph()
            z = graph.input("z", "float32", (2,))
            graph.output(graph.op("CAST", [z], [(dtype, (2,))]))
        options = {"cond_subgraph_index": cond, "body_subgraph_index": body}
        b.output(b.op("WHILE", [x], [("float32", (2,))], options=options))
        return b.build()

    def test_fine(self):
        (op,) = wire.read(self.build()).subgraphs[0].operators
        assert op.calls == (1, 2)

    def test_missing_subgraph(self):
        with pytest.raises(
            InvalidModelError, match=r"\(WHILE\): it runs subgraph 3, which doesn't"
        ):
            wire.read(self.build(body=3))

    def test_negative_subgraph(self):
        with pytest.raises(InvalidModelError, match="runs subgraph -1"):
            wire.read(self.build(cond=-1))

    def test_subgraph_that_runs_itself(self):
        with pytest.raises(InvalidModelError, match="subgraph 0: it runs itself"):
            wire.read(self.build(body=0))

    def test_circle_of_two(self):
        b = TfliteBuilder()
        b.output(b.input("x", "float32", (2,)))
        first, second = b.subgraph(), b.subgraph()
        for caller, callee in ((first, 2), (second, 1)):
            z = caller.input("z", "float32", (2,))
            options = {"subgraph": callee}
            caller.output(caller.op("CALL", [z], [("float32", (2,))], options=options))
        with pytest.raises(InvalidModelError, match="subgraph 1: it runs itself"):
            wire.read(b.build())


def test_each_union_member_is_found_in_one_union():
    first, second = (set(UNIONS[name].values()) for name in ("BuiltinOptions", "BuiltinOptions2"))
    assert not first & second


def chain(count):
    b = TfliteBuilder()
    x = b.input("x", "float32", (1, 4, 5, 3))
    options = {"stride_h": 1, "stride_w": 1, "filter_width": 1, "filter_height": 1}
    for _ in range(count):
        result = ("float32", (1, 4, 5, 3), (0.5, 3))
        x = b.op("MAX_POOL_2D", [x], [result], options=options)
    b.output(x)
    return b.build()


def seconds(data):
    start = time.process_time()
    file = wire.read(data)
    taken = time.process_time() - start
    assert file.subgraphs[0].operators[-1].options.int("stride_h") == 1
    return taken


def test_time_grows_with_the_file():
    small, large = chain(2_500), chain(10_000)
    small_time = min(seconds(small) for _ in range(3))
    large_time = min(seconds(large) for _ in range(3))
    assert large_time < 1.5
    assert large_time < 7 * max(small_time, 0.02)  # 4 would be linear; machines are noisy


def test_a_file_may_be_walked_many_times():
    file = wire.read(chain(100))
    for _ in range(200):
        for op in file.subgraphs[0].operators:
            assert (op.intermediates, op.calls, op.options.int("stride_h")) == ((), (), 1)
        assert wire.tensor_data(file, file.subgraphs[0].tensors[0]) is None
