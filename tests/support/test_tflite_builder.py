"""What the builder writes is what the schema's own reader finds; the runner's promises."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from support.litert import RESOLVERS, LiteRtRunner, run_litert
from support.tflite_builder import Quant, TfliteBuilder, flexbuffer, pack
from support.tflite_data import encode

F = np.float32


def read(model: bytes):
    assert schema.Model.ModelBufferHasIdentifier(model, 0)
    return schema.ModelT.InitFromPackedBuf(model, 0)


def test_tensor_fields_arrive_as_given():
    b = TfliteBuilder("graph")
    b.input("x", "int8", (1, 2), quant=(0.5, -3), signature=(-1, 2))
    b.const(np.ones((3, 2), np.int8), quant=Quant([0.1, 0.2], [1, 2], axis=1), name="x")
    b.tensor("float32", (), has_rank=True)
    b.tensor("int8", (2,), quant=Quant(1.0, minimum=-2, maximum=3))
    b.variable("float32", (4,))
    (graph,) = read(b.build()).subgraphs
    x, w, scalar, ranged, variable = graph.tensors
    assert graph.name == b"graph"
    assert (x.name, x.shape.tolist(), x.shapeSignature.tolist()) == (b"x", [1, 2], [-1, 2])
    assert (x.quantization.scale.tolist(), x.quantization.zeroPoint.tolist()) == ([0.5], [-3])
    assert w.name == b"x"
    assert w.quantization.scale.tolist() == [F(0.1), F(0.2)]
    assert (w.quantization.zeroPoint.tolist(), w.quantization.quantizedDimension) == ([1, 2], 1)
    assert scalar.hasRank
    assert scalar.name == b"t2"
    assert (ranged.quantization.min.tolist(), ranged.quantization.max.tolist()) == ([-2], [3])
    assert variable.isVariable
    assert variable.buffer == 0


def test_blockwise_quantization_names_the_tensor_of_scales():
    b = TfliteBuilder()
    scales = b.const(np.ones((2, 3), np.float16))
    b.const(
        np.zeros((2, 96), np.int8), dtype="int4", quant=Quant(block_scales=scales, block_size=32)
    )
    details = read(b.build()).subgraphs[0].tensors[1].quantization.details
    assert (details.scales, details.zeroPoints, details.blockSize) == (scales.index, -1, 32)


def test_operator_codes_are_shared_and_the_old_field_is_filled():
    b = TfliteBuilder()
    x = b.input("x", "float32", (2,))
    for name, version in (("EXP", 1), ("EXP", 2), ("EXP", 1), ("STABLEHLO_ADD", 1), ("Mine", 1)):
        b.op(name, [x], [("float32", (2,))], version=version)
    b.op("BROADCAST_TO", [x, None], [("float32", (2,))])
    model = read(b.build())
    codes = [
        (code.deprecatedBuiltinCode, code.builtinCode, code.version, code.customCode)
        for code in model.operatorCodes
    ]
    exp, add = schema.BuiltinOperator.EXP, schema.BuiltinOperator.STABLEHLO_ADD
    custom, broadcast = schema.BuiltinOperator.CUSTOM, schema.BuiltinOperator.BROADCAST_TO
    assert codes == [
        (exp, exp, 1, None),
        (exp, exp, 2, None),
        (127, add, 1, None),
        (custom, custom, 1, b"Mine"),
        (127, broadcast, 2, None),
    ]
    operators = model.subgraphs[0].operators
    assert [op.opcodeIndex for op in operators] == [0, 1, 0, 2, 3, 4]
    assert operators[5].inputs.tolist() == [0, -1]


def test_options_keep_schema_defaults_and_can_be_left_out():
    b = TfliteBuilder()
    x = b.input("x", "float32", (1, 2, 2, 1))
    b.op("CONV_2D", [x, x, x], [x], options={"stride_h": 3, "padding": "valid"})
    b.op("CONV_2D", [x, x, x], [x], omit_options=True)
    b.op("MEAN", [x, x], [x])
    b.op("RELU", [x], [x])
    b.op("VAR_HANDLE", [], [("resource", ())], options={"shared_name": "v"})
    conv, bare, mean, relu, handle = read(b.build()).subgraphs[0].operators
    assert (conv.builtinOptions.strideH, conv.builtinOptions.dilationHFactor) == (3, 1)
    assert conv.builtinOptions.padding == schema.Padding.VALID
    assert (bare.builtinOptionsType, relu.builtinOptionsType) == (0, 0)
    assert mean.builtinOptionsType == schema.BuiltinOptions.ReducerOptions
    assert handle.builtinOptions.sharedName == b"v"


@pytest.mark.parametrize(
    ("op", "options", "message"),
    [
        ("CONV_2D", {"stride": 1}, "no field stride"),
        ("RELU", {"alpha": 1}, "RELU has no options"),
        ("CONV_2D", {"padding": "FULL"}, "Padding has no member FULL"),
    ],
)
def test_a_misspelt_option_is_refused(op, options, message):
    b = TfliteBuilder()
    with pytest.raises(ValueError, match=message):
        b.op(op, [], [], options=options)


def test_every_options_table_of_the_schema_belongs_to_an_op():
    from support.tflite_options import _TABLE_OF_OP

    tables = {*vars(schema.BuiltinOptions), *vars(schema.BuiltinOptions2)}
    assert {table for table in tables if "Options" in table} == set(_TABLE_OF_OP.values())


def test_enums_that_repeat_their_name_go_by_the_short_one():
    b = TfliteBuilder()
    options = {"comparison_direction": "GE", "compare_type": "signed"}
    b.op("STABLEHLO_COMPARE", [], [], options=options)
    table = read(b.build()).subgraphs[0].operators[0].builtinOptions2
    assert (table.comparisonDirection, table.compareType) == (2, 3)


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([1, -1, 7], "int4", b"\xf1\x07"),
        ([1, 15, 7], "uint4", b"\xf1\x07"),
        ([1, -1, -2, 0, 1], "int2", b"\x2d\x01"),
        # Halfway cases of the 16 bits that are dropped go to the even neighbour.
        ([1.0, 1.00390625, 1.01171875], "bfloat16", b"\x80\x3f\x80\x3f\x82\x3f"),
        ([True, False], "bool", b"\x01\x00"),
        (["a", "bcd"], "string", b"\x02\0\0\0\x10\0\0\0\x11\0\0\0\x14\0\0\0abcd"),
    ],
)
def test_elements_are_packed_as_tflite_does(values, dtype, expected):
    assert encode(np.array(values), dtype) == expected


def test_buffers_are_aligned_shared_and_found_by_offset():
    b = TfliteBuilder()
    first = b.const(np.arange(3, dtype=np.int8), name="a")
    assert b.const(np.arange(3, dtype=np.int8), share=first).buffer == first.buffer
    far = b.const(np.arange(5, dtype=np.int8), apart=True)
    b.op("Mine", [], [], custom_options=b"options", custom_options_apart=True)
    b.op("Mine", [], [], custom_options=b"near")
    content = b.build()
    model = read(content)
    buffer = model.buffers[far.buffer]
    assert content[buffer.offset : buffer.offset + buffer.size] == bytes(range(5))
    assert buffer.offset % 16 == 0
    assert buffer.data is None
    apart, near = model.subgraphs[0].operators
    start = apart.largeCustomOptionsOffset
    assert content[start : start + apart.largeCustomOptionsSize] == b"options"
    assert bytes(near.customOptions) == b"near"
    inside = content.index(bytes(range(3)))
    assert inside % 16 == 0
    assert bytes(model.buffers[0].data or b"") == b""


def test_metadata_and_signatures_arrive_as_given():
    b = TfliteBuilder(description="words")
    x = b.input("x", "float32", (2,))
    b.output(x)
    b.metadata("min_runtime_version", b"1.5.0")
    b.signature("key", {"in": x}, {"out": x})
    model = read(b.build())
    (metadata,) = model.metadata
    (signature,) = model.signatureDefs
    assert model.description == b"words"
    assert bytes(model.buffers[metadata.buffer].data) == b"1.5.0"
    assert (signature.signatureKey, signature.subgraphIndex) == (b"key", 0)
    assert [(entry.name, entry.tensorIndex) for entry in signature.inputs] == [(b"in", 0)]
    with pytest.raises(ValueError, match="mixes tensors of subgraphs"):
        b.signature("bad", {"in": x}, {"out": b.subgraph().input("y", "float32", (2,))})


def test_a_model_can_be_spoilt_before_it_is_packed():
    b = TfliteBuilder()
    b.input("x", "float32", (2,))
    model = b.to_object()
    model.subgraphs[0].inputs = [99]
    assert read(pack(model)).subgraphs[0].inputs.tolist() == [99]


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_variables_live_from_run_to_run_until_they_are_reset(resolver):
    b = TfliteBuilder()
    init = b.subgraph("init")
    zero = init.const(np.zeros(2, F))
    variable = {"container": "", "shared_name": "v"}
    handle = init.op("VAR_HANDLE", [], [("resource", ())], options=variable)
    init.op("ASSIGN_VARIABLE", [handle, zero], [])
    b.op("CALL_ONCE", [], [], options={"init_subgraph_index": init})
    handle = b.op("VAR_HANDLE", [], [("resource", ())], options=variable)
    old = b.op("READ_VARIABLE", [handle], [("float32", (2,))])
    new = b.op("ADD", [b.input("x", "float32", (2,)), old], [("float32", (2,))])
    b.op("ASSIGN_VARIABLE", [handle, new], [])
    b.output(new)
    runner = LiteRtRunner(b.build(), resolver)
    sums = [runner.run([np.array([1, 10], F)])[0].tolist() for _ in range(3)]
    assert sums == [[1, 10], [2, 20], [3, 30]]


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_variable_tensors_live_from_run_to_run_until_they_are_reset(resolver):
    b = TfliteBuilder()
    y = b.op(
        "RNN",
        [
            b.input("x", "float32", (1, 2)),
            b.const(np.eye(2, dtype=F)),
            b.const(np.eye(2, dtype=F)),
            b.const(np.zeros(2, F)),
            b.variable("float32", (1, 2)),
        ],
        [("float32", (1, 2))],
    )
    b.output(y)
    runner = LiteRtRunner(b.build(), resolver)
    x = np.array([[1, 10]], F)
    assert [runner.run([x])[0].tolist() for _ in range(2)] == [[[1, 10]], [[2, 20]]]
    runner.reset()
    assert runner.run([x])[0].tolist() == [[1, 10]]


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_inputs_of_new_shapes_resize_the_model(resolver):
    b = TfliteBuilder()
    x = b.input("x", "float32", (1, 2), signature=(-1, 2))
    b.output(b.op("NEG", [x], [("float32", (1, 2))]))
    b.signature("run", {"a": x}, {"b": x})
    runner = LiteRtRunner(b.build(), resolver)
    for rows in (1, 3, 2):
        assert runner.run([np.ones((rows, 2), F)])[0].tolist() == [[-1, -1]] * rows


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_each_signature_runs_its_own_subgraph(resolver):
    b = TfliteBuilder()
    graphs = {"exp": b, "neg": b.subgraph("second")}
    for op, graph in graphs.items():
        x = graph.input("x", "float32", (2,))
        y = graph.op(op.upper(), [x], [("float32", (2,))])
        graph.output(y)
        b.signature(op, {"in": x}, {"out": y})
    runner = LiteRtRunner(b.build(), resolver)
    one = np.ones(2, F)
    assert runner.run_signature("neg", {"in": one})["out"].tolist() == [-1, -1]
    np.testing.assert_allclose(runner.run_signature("exp", {"in": one})["out"], np.e, rtol=1e-6)


def test_inputs_go_by_name_too(tmp_path):
    b = TfliteBuilder()
    x, y = (b.input(name, "float32", (2,)) for name in "xy")
    b.output(b.op("SUB", [x, y], [("float32", (2,))]))
    path = tmp_path / "model.tflite"
    path.write_bytes(b.build())
    values = {"y": np.array([1, 2], F), "x": np.array([5, 5], F)}
    assert run_litert(path, values)[0].tolist() == [4, 3]
    with pytest.raises(ValueError, match="inputs are"):
        run_litert(path, {"x": values["x"]})
    with pytest.raises(ValueError, match="has 2 inputs, got 1"):
        run_litert(path, [values["x"]])


def test_a_custom_op_gets_its_options():
    b = TfliteBuilder()
    options = flexbuffer(
        {
            "max_detections": 2,
            "max_classes_per_detection": 1,
            "nms_score_threshold": 0.1,
            "nms_iou_threshold": 0.5,
            "num_classes": 1,
            "y_scale": 1.0,
            "x_scale": 1.0,
            "h_scale": 1.0,
            "w_scale": 1.0,
        }
    )
    inputs = [b.input("boxes", "float32", (1, 3, 4)), b.input("scores", "float32", (1, 3, 2))]
    anchors = b.const(np.array([[0.5, 0.5, 1, 1], [0.5, 0.5, 1, 1], [3, 3, 1, 1]], F))
    outputs = [("float32", (1, 2, 4)), *[("float32", (1, 2))] * 2, ("float32", (1,))]
    results = b.op(
        "TFLite_Detection_PostProcess", [*inputs, anchors], outputs, custom_options=options
    )
    b.output(*results)
    scores = np.array([[[0, 0.7], [0, 0.9], [0, 0.8]]], F)
    _, _, kept, count = run_litert(b.build(), [np.zeros((1, 3, 4), F), scores])
    assert count.tolist() == [2]
    assert kept.tolist() == [[F(0.9), F(0.8)]]


def test_litert_says_nothing_on_stderr(tmp_path):
    b = TfliteBuilder()
    x = b.input("x", "float32", (2,))
    b.output(b.op("NEG", [x], [("float32", (2,))]))
    path = tmp_path / "model.tflite"
    path.write_bytes(b.build())
    # A process of its own, as XNNPACK announces itself only once.
    run = "run_litert(sys.argv[1], [numpy.ones(2, 'float32')], 'xnn')"
    code = f"import sys, numpy; from support.litert import run_litert; {run}"
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
