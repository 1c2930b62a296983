"""Moves of dequantized numbers, in each place and form: codes are moved, and onnxruntime loads."""

from __future__ import annotations

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

import nnconv
from nnconv.ir import Builder, DType, Graph, Model, Quant, Signature
from nnconv.ops.reduce import CumProd
from support.rnn_models import LstmShape, sequence_lstm
from support.spine import Case, check, onnx_ops, onnx_session
from support.tflite_builder import Subgraph, Tensor, TfliteBuilder

SHAPE = (2, 4, 1, 6)
QUANT = (0.05, 3)


def _ints(b: TfliteBuilder, *values: int) -> Tensor:
    return b.const(np.asarray(values, np.int32))


MOVES = {
    "RESHAPE": ((8, 6), lambda b: [_ints(b, 8, 6)], {"new_shape": (8, 6)}, 1),
    "SQUEEZE": ((2, 4, 6), lambda _: [], {"squeeze_dims": (2,)}, 1),
    "EXPAND_DIMS": ((2, 1, 4, 1, 6), lambda b: [_ints(b, 1)], {}, 1),
    "TRANSPOSE": ((4, 2, 6, 1), lambda b: [_ints(b, 1, 0, 3, 2)], {}, 1),
    "SLICE": ((2, 2, 1, 5), lambda b: [_ints(b, 0, 1, 0, 1), _ints(b, 2, 2, 1, 5)], {}, 1),
    "MAX_POOL_2D": (
        (2, 2, 1, 6),
        lambda _: [],
        {"filter_height": 2, "filter_width": 1, "stride_h": 2, "stride_w": 1, "padding": "VALID"},
        1,
    ),
    "MAX_POOL_2D clamped": (
        (2, 2, 1, 6),
        lambda _: [],
        {
            "filter_height": 2,
            "filter_width": 1,
            "stride_h": 2,
            "stride_w": 1,
            "padding": "VALID",
            "fused_activation_function": "RELU",
        },
        1,
    ),
}


@pytest.mark.parametrize("follower", [False, True])
@pytest.mark.parametrize("int8", ["keep", "resign"])
@pytest.mark.parametrize("opset", [13, 21, 24])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("op", MOVES)
def test_codes_are_moved(op, dtype, opset, int8, follower, tmp_path):
    shape, operands, options, version = MOVES[op]

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", dtype, SHAPE, quant=QUANT if dtype != "int16" else (0.05, 0))
        real = b.op("DEQUANTIZE", [x], [("float32", SHAPE)])
        moved = b.op(
            op.split()[0],
            [real, *operands(b)],
            [("float32", shape)],
            options=options,
            version=version,
        )
        b.output(b.op("TANH", [moved], [("float32", shape)]) if follower else moved)

    check(Case(op, build, options={"opset": opset, "int8": int8}), tmp_path)


@pytest.mark.parametrize("goes_out", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("op", MOVES)
def test_what_is_moved_before_it_is_quantized_stays_as_it_is(op, dtype, goes_out, tmp_path):
    shape, operands, options, version = MOVES[op]
    quant = QUANT if dtype != "int16" else (0.05, 0)

    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", SHAPE)
        x = b.op("SIN", [x], [("float32", SHAPE)])
        moved = b.op(
            op.split()[0],
            [x, *operands(b)],
            [("float32", shape)],
            options=options,
            version=version,
        )
        y = b.op("QUANTIZE", [moved], [(dtype, shape, quant)])
        b.output(y, x) if goes_out else b.output(y)

    check(Case(op, build), tmp_path)
    followed = list(onnx_ops(tmp_path / "model.onnx"))
    if not op.startswith(("SLICE", "MAX_POOL_2D")) or (goes_out and op == "SLICE"):
        assert followed[:2] == ["Sin", "QuantizeLinear"]


def test_other_readers_keep_the_numbers(tmp_path):
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "int8", SHAPE, quant=QUANT)
        real = b.op("DEQUANTIZE", [x], [("float32", SHAPE)])
        flat = b.op("RESHAPE", [real, _ints(b, 48)], [("float32", (48,))])
        b.output(flat, b.op("ABS", [real], [("float32", SHAPE)]), real)

    check(Case("readers", build, options={"int8": "keep"}), tmp_path)
    assert onnx_ops(tmp_path / "model.onnx")["DequantizeLinear"] == 2


def test_a_chain_of_moves_is_gone_through(tmp_path):
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "int8", SHAPE, quant=QUANT)
        real = b.op("DEQUANTIZE", [x], [("float32", SHAPE)])
        turned = b.op("TRANSPOSE", [real, _ints(b, 3, 1, 0, 2)], [("float32", (6, 4, 2, 1))])
        cut = b.op(
            "SLICE",
            [turned, _ints(b, 1, 0, 0, 0), _ints(b, 4, 4, 2, 1)],
            [("float32", (4, 4, 2, 1))],
        )
        b.output(cut)

    check(Case("chain", build, options={"int8": "keep"}), tmp_path)
    assert list(onnx_ops(tmp_path / "model.onnx")) == ["Transpose", "Slice", "DequantizeLinear"]


def _pack(b: TfliteBuilder, x: Tensor) -> Tensor:
    y = b.op("TANH", [x], [("float32", SHAPE)])
    options = {"axis": 4, "values_count": 3}
    return b.op("PACK", [x, y, x], [("float32", (*SHAPE, 3))], options=options)


def _batch_to_space(b: TfliteBuilder, x: Tensor) -> Tensor:
    images = b.op("RESHAPE", [x, _ints(b, 4, 2, 2, 3)], [("float32", (4, 2, 2, 3))])
    crops = b.const(np.int32([[0, 1], [1, 0]]))
    return b.op("BATCH_TO_SPACE_ND", [images, _ints(b, 2, 2), crops], [("float32", (1, 3, 3, 3))])


def _reverse_sequence(b: TfliteBuilder, x: Tensor) -> Tensor:
    options = {"seq_dim": 3, "batch_dim": 1}
    return b.op(
        "REVERSE_SEQUENCE", [x, _ints(b, 1, 6, 3, 2)], [("float32", SHAPE)], options=options
    )


def _fully_connected(b: TfliteBuilder, x: Tensor) -> Tensor:
    """onnxruntime itself reshapes: its Gemm takes rank 2 alone."""
    rng = np.random.default_rng(0)
    weights = b.const(rng.standard_normal((5, 6)).astype(np.float32))
    bias = b.const(rng.standard_normal(5).astype(np.float32))
    result = [("float32", (*SHAPE[:3], 5))]
    return b.op("FULLY_CONNECTED", [x, weights, bias], result, options={"keep_num_dims": True})


def _branches(b: TfliteBuilder, x: Tensor) -> Tensor:
    """A branch reads what was moved inside another op."""
    moved = _batch_to_space(b, x)
    shape = ("float32", (1, 3, 3, 3))

    def branch(op: str) -> Subgraph:
        body = b.subgraph(op)
        body.output(body.op(op, [body.input("a", *shape)], [shape]))
        return body

    then, otherwise = branch("TANH"), branch("ABS")
    flag = b.input("flag", "bool", ())
    options = {"then_subgraph_index": then, "else_subgraph_index": otherwise}
    return b.op("IF", [flag, moved], [shape], options=options)


@pytest.mark.parametrize("int8", ["keep", "resign"])
@pytest.mark.parametrize("opset", [13, 21, 24])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize(
    "build", [_pack, _batch_to_space, _reverse_sequence, _fully_connected, _branches]
)
def test_onnxruntime_loads_moves_that_are_part_of_something_else(
    build, dtype, opset, int8, tmp_path
):
    def whole(b: TfliteBuilder) -> None:
        x = b.input("x", dtype, SHAPE, quant=QUANT if dtype != "int16" else (0.05, 0))
        b.output(build(b, b.op("DEQUANTIZE", [x], [("float32", SHAPE)])))

    check(Case("part", whole, options={"opset": opset, "int8": int8}), tmp_path)


@pytest.mark.parametrize("int8", ["keep", "resign"])
@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("clip", [0.0, 0.5, 2.0])
def test_onnxruntime_loads_a_recurrent_layer_of_codes(clip, dtype, opset, int8, tmp_path):
    build = sequence_lstm(LstmShape(), cell_clip=clip, codes=dtype)
    check(Case("lstm", build, options={"opset": opset, "int8": int8}), tmp_path)


@pytest.mark.parametrize("int8", ["keep", "resign"])
@pytest.mark.parametrize("opset", [13, 21])
def test_onnxruntime_loads_weights_that_come_as_codes(opset, int8, tmp_path):
    def build(b: TfliteBuilder) -> None:
        x = b.input("x", "float32", (1, 5, 4, 3))
        weights = b.input("w", "int8", (2, 3, 3, 3), quant=(0.05, 0))
        options = {"stride_w": 1, "stride_h": 1, "padding": "VALID"}
        result = [("float32", (1, 3, 2, 2))]
        b.output(b.op("CONV_2D", [x, weights], result, options=options))

    case = Case("weights", build, resolver=None, options={"opset": opset, "int8": int8})
    check(case, tmp_path)  # LiteRT takes such weights as constants alone


@pytest.mark.parametrize("shape", [SHAPE, (2, 4, 3, 6)])
@pytest.mark.parametrize("opset", [13, 21, 24])
@pytest.mark.parametrize("between", ["RELU", "ABS", "SIN"])
def test_a_result_between_transposes_is_not_rounded(between, opset, shape, tmp_path):
    a, b_, c, d = shape
    turned = (a, d, b_, c)

    def build(b: TfliteBuilder) -> None:
        x = b.op("SIN", [b.input("x", "float32", shape)], [("float32", shape)])
        x = b.op("TRANSPOSE", [x, _ints(b, 0, 3, 1, 2)], [("float32", turned)])
        y = b.op(between, [x], [("float32", turned)])
        back = b.op("TRANSPOSE", [y, _ints(b, 0, 2, 3, 1)], [("float32", shape)])
        quant = (0.05, -128)
        codes = b.op("QUANTIZE", [y], [("int8", turned, quant)])
        slopes = b.const(np.full((1, 1, c), 9, np.int8), quant=(0.05, 3))
        b.output(back, b.op("PRELU", [codes, slopes], [("int8", turned, quant)]))

    check(Case(between, build, options={"opset": opset}), tmp_path)


@pytest.mark.parametrize("source", ["onnx", "tflite"])
@pytest.mark.parametrize("opset", [13, 21, 24])
def test_moves_that_arithmetic_is_spelled_with(opset, source, tmp_path):
    b = Builder(Graph("products"))
    x = b.input("x", DType.INT8, (2, 3, 4), quant=Quant.per_tensor(0.02, 3))
    op = CumProd(axis=2, exclusive=False, reverse=True)
    b.graph.outputs = [b.add(op, [x], name="y", quant=Quant.per_tensor(0.03, -5))]
    model = Model([Signature("", b.graph)], format=source)
    codes = np.random.default_rng(0).integers(-128, 128, (2, 3, 4)).astype(np.int8)
    wanted = run_graph(b.graph, [codes])
    nnconv.save(model, tmp_path / "y.onnx", opset=opset, int8="keep")
    found = onnx_session(tmp_path / "y.onnx").run(None, {"x": codes})
    assert np.abs(found[0].astype(int) - wanted[0]).max() <= 1
