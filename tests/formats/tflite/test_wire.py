"""The typed view of a .tflite file: real models against LiteRT's reader, built ones by hand."""

import os

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as litert

from nnconv.errors import InvalidModelError
from nnconv.formats.tflite import wire
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR, OPTIONS, TABLES, UNIONS
from support.effort import calls_of
from support.places import find_shared_dir
from support.tflite_builder import TfliteBuilder, pack
from support.tflite_conv import changed_model, conv_model

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


class TestOptions:
    def test_values_and_defaults(self):
        (op,) = wire.read(conv_model().build()).subgraphs[0].operators
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
        (op,) = wire.read(conv_model().build()).subgraphs[0].operators
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
            wire.read(changed_model(change))

    def test_options_of_an_op_that_has_none_are_ignored(self):
        def change(model):
            model.operatorCodes[0].builtinCode = litert.BuiltinOperator.PRELU
            model.operatorCodes[0].deprecatedBuiltinCode = litert.BuiltinOperator.PRELU

        (op,) = wire.read(changed_model(change)).subgraphs[0].operators
        assert (op.name, op.options.name) == ("PRELU", "")

    @pytest.mark.parametrize("name", sorted(OPTIONS))
    def test_defaults_of_every_op_are_litert_s(self, name):
        theirs = getattr(litert, OPTIONS[name])()
        options = wire.Options(OPTIONS[name], None)
        theirs.Init(b"\4\0\4\0" + b"\4\0\0\0", 4)  # a table without fields
        for field, (_, kind, type_name, _) in TABLES[OPTIONS[name]].items():
            accessor = getattr(theirs, "".join(map(str.capitalize, field.split("_"))))
            if kind == "scalar":
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

        (op,) = wire.read(changed_model(change)).subgraphs[0].operators
        assert op.name == "CONV_2D"

    def test_number_newer_than_the_schema(self):
        def change(model):
            model.operatorCodes[0].builtinCode = 5000

        (op,) = wire.read(changed_model(change)).subgraphs[0].operators
        assert op.name == "BUILTIN_5000"
        with pytest.raises(KeyError):
            op.options.int("stride_h")


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
        path.write_bytes(conv_model().build())
        for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
            assert wire.read(source).subgraphs[0].operators[0].name == "CONV_2D"
        assert wire.read(path).path == str(path)
        assert wire.read(path.read_bytes(), "given").path == "given"

    def test_content_of_a_path_is_a_view_of_the_map(self, tmp_path):
        path = tmp_path / "m.tflite"
        path.write_bytes(conv_model().build())
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


def test_cost_grows_with_the_file():
    small, large = chain(250), chain(1000)

    def last_stride(data):
        return wire.read(data).subgraphs[0].operators[-1].options.int("stride_h")

    assert last_stride(large) == 1
    assert calls_of(lambda: last_stride(large)) < 4.1 * calls_of(lambda: last_stride(small))


def test_a_file_may_be_walked_many_times():
    file = wire.read(chain(100))
    for _ in range(200):
        for op in file.subgraphs[0].operators:
            assert (op.intermediates, op.calls, op.options.int("stride_h")) == ((), (), 1)
        assert wire.tensor_data(file, file.subgraphs[0].tensors[0]) is None
