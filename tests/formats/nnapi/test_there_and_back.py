"""NNAPI models written as NNAPI again, also by way of other formats."""

import numpy as np
import pytest

import nnconv
from nnconv.formats.nnapi import file
from nnconv.formats.nnapi.types import OperandCode, OperationCode
from nnconv.formats.nnapi.wire import ChannelQuant, Lifetime
from nnconv.ir import DType
from nnconv.ops.gather import GatherNd
from nnconv.ops.shape import BroadcastTo
from support.nnapi_models import INT, NnapiBuilder, add_model, conv_model, if_model
from support.nnapi_spine import NnapiCase, check_nnapi


def by_way_of(model, formats, folder):
    """A model behind files of these formats."""
    path = folder / "0.nnapi"
    file.write(model, path)
    for number, kind in enumerate(formats, 1):
        following = folder / f"{number}.{kind}"
        nnconv.convert(path, following)
        path = following
    return file.read(path)


@pytest.mark.parametrize("relaxed", [True, False])
@pytest.mark.parametrize("formats", [["nnapi"], ["onnx", "nnapi"], ["tflite", "nnapi"]], ids=str)
def test_what_may_be_computed_coarsely_stays_so(formats, relaxed, tmp_path):
    model = add_model()
    model.relaxed = relaxed
    assert by_way_of(model, formats, tmp_path).relaxed is relaxed


@pytest.mark.parametrize("nchw", [True, False])
def test_data_keep_their_layout(nchw, tmp_path):
    model = conv_model(nchw=nchw)
    again = by_way_of(model, ["nnapi"], tmp_path)
    assert [op.code for op in again.main.operations] == [OperationCode.CONV_2D]
    ends = [(graph.inputs[0], graph.outputs[0]) for graph in (model.main, again.main)]
    dims = [
        [graph.operands[i].dimensions for i in pair]
        for graph, pair in zip((model.main, again.main), ends, strict=True)
    ]
    assert dims[0] == dims[1]


def test_a_level_without_layouts_gets_transposes(tmp_path):
    path, again = tmp_path / "x.nnapi", tmp_path / "y.nnapi"
    file.write(conv_model(nchw=True), path)
    nnconv.convert(path, again, feature_level=2)
    main = file.read(again).main
    moved, conv, back = main.operations
    assert conv.code is OperationCode.CONV_2D
    assert moved.outputs[0] == conv.inputs[0]
    assert main.operands[conv.inputs[0]].dimensions[3] == 1
    assert main.operands[back.outputs[0]].dimensions == (1, 2, 3, 3)


def test_branches_stay(tmp_path):
    again = by_way_of(if_model(), ["nnapi"], tmp_path)
    assert [op.code for op in again.main.operations] == [OperationCode.IF]
    assert len(again.referenced) == 2


@pytest.mark.parametrize("code", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_weights_that_runs_give_keep_their_scales_by_way_of_onnx(code, tmp_path):
    b = NnapiBuilder()
    scales, dim = [0.5, 0.25, 1.0], 3 if code == "DEPTHWISE_CONV_2D" else 0
    x = b.input(OperandCode.TENSOR_QUANT8_ASYMM, (1, 4, 4, 3), scale=0.5, zero_point=3)
    dims = (3, 2, 2, 3) if dim == 0 else (1, 2, 2, 3)
    quant = ChannelQuant(dim, scales)
    weights = b.input(OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, dims, channel_quant=quant)
    bias = b.input(OperandCode.TENSOR_INT32, (3,))
    numbers = [2, 1, 1, *([1] if dim else []), 0]  # VALID, strides, multiplier, no activation
    inputs = [x, weights, bias, *(b.const(INT, number) for number in numbers)]
    y = b.output(OperandCode.TENSOR_QUANT8_ASYMM, (1, 3, 3, 3), scale=2.0)
    b.run(OperationCode[code], inputs, [y])
    again = by_way_of(b.model(), ["onnx", "nnapi"], tmp_path).main
    assert [op.code.name for op in again.operations] == [code]
    kept = again.operands[again.inputs[1]]
    assert (kept.type, kept.dimensions, kept.channel_quant) == (
        OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL,
        dims,
        quant,
    )


def test_a_loop_on_codes_comes_back_by_way_of_onnx(tmp_path):
    """ONNX's Loop carries numbers, whose meaning the body alone tells."""
    kind, quant = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, {"scale": 1.0, "zero_point": -3}
    less, add = NnapiBuilder(), NnapiBuilder()
    ends = [less.input(kind, (2,), **quant), less.input(OperandCode.TENSOR_INT32, (1,))]
    limit = less.const(OperandCode.TENSOR_INT32, [3])
    less.run(OperationCode.LESS, [ends[1], limit], [less.output(OperandCode.TENSOR_BOOL8, (1,))])
    x, i = add.input(kind, (2,), **quant), add.input(OperandCode.TENSOR_INT32, (1,))
    one = add.const(OperandCode.TENSOR_INT32, [1])
    none = add.const(INT, 0)
    add.run(OperationCode.ADD, [x, x, none], [add.output(kind, (2,), **quant)])
    add.run(OperationCode.ADD, [i, one, none], [add.output(OperandCode.TENSOR_INT32, (1,))])
    b = NnapiBuilder()
    bodies = [b.operand(OperandCode.MODEL, lifetime=Lifetime.MODEL, value=n) for n in (0, 1)]
    given = [b.input(kind, (2,), **quant), b.input(OperandCode.TENSOR_INT32, (1,))]
    b.run(OperationCode.WHILE, [*bodies, *given], [b.output(kind, (2,), **quant)])
    again = by_way_of(b.model(less.graph, add.graph), ["onnx", "nnapi"], tmp_path)
    assert OperationCode.WHILE in [op.code for op in again.main.operations]
    ran = nnconv.compile(tmp_path / "2.nnapi", "reference")
    feeds = [np.int8([1, -5]), np.int32([0])]
    names = [info.name for info in ran.inputs]
    (result,) = ran.run(dict(zip(names, feeds, strict=True))).values()
    ran.close()
    assert result.tolist() == [29, -19]  # 8 times what the codes stand for


def open_broadcast(b):
    return b.add(BroadcastTo(shape=(2, 3)), [b.input("x", DType.FLOAT32, (None, 3))])


def open_places(b):
    x = b.input("x", DType.FLOAT32, (4, 3))
    return b.add(GatherNd(), [x, b.input("places", DType.INT32, (None, 1))])


ROW = np.float32([[1, 2, 3]])
TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
OPEN = [
    NnapiCase("broadcast", open_broadcast, [ROW], [np.repeat(ROW, 2, 0)], {"ADD": 1}),
    NnapiCase("places", open_places, [TABLE, np.int32([[3], [1]])], [TABLE[[3, 1]]]),
]


@pytest.mark.parametrize("case", OPEN, ids=str)
def test_moves_whose_extents_a_run_tells(case):
    check_nnapi(case)
