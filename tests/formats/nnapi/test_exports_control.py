"""Control flow, regions and codes as NNAPI: there and back, judged by the reference backend."""

import numpy as np
import onnx
import pytest
from nnconv.backends.reference.executor import run_graph
from onnx import TensorProto, helper, numpy_helper

import nnconv
from nnconv.errors import UnsupportedError
from nnconv.formats.nnapi.check import check, least_level
from nnconv.formats.nnapi.reader import import_model
from nnconv.formats.nnapi.types import OperandCode, OperationCode
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model, Signature
from nnconv.ir.quant import Quant
from nnconv.ir.types import TensorType
from nnconv.lowering import one_entry, to_nnapi
from nnconv.ops.control import If, While
from nnconv.ops.elementwise import Add, Less
from nnconv.ops.quantize import Bitcast, Dequantize
from nnconv.ops.shape import Identity
from support.nnapi_models import INT, NnapiBuilder

FLOAT32 = DType.FLOAT32


def model_of(builder, *outputs):
    builder.graph.outputs.extend(outputs)
    return Model(signatures=[Signature("", builder.graph)])


def written(model, level=None):
    """The model as NNAPI, which must be valid at the level."""
    wire = to_nnapi(one_entry(model, model.main), feature_level=level).model
    check(wire, level or 8)
    return wire


def same_again(model, *arrays):
    """The NNAPI model of a graph; it must give what the graph does."""
    wire = written(model)
    again = import_model(wire)
    wanted = run_graph(model.graph, list(arrays))
    for got, want in zip(run_graph(again.graph, list(arrays)), wanted, strict=True):
        np.testing.assert_array_equal(got.reshape(want.shape), want)
    return wire


def branch(number):
    b = Builder(Graph(f"branch{number}"))
    y = b.add(Identity(), [b.const(np.array([number], np.float32))])
    b.graph.outputs.append(y)
    return b.graph


@pytest.mark.parametrize("chosen", [True, False])
def test_branches_that_take_nothing_get_the_condition(chosen):
    b = Builder(Graph("main"))
    condition = b.input("c", DType.BOOL, (1,))
    kinds = [TensorType(FLOAT32, (1,))]
    (y,) = b.add_typed(If(), [condition], kinds, bodies=[branch(1.0), branch(2.0)])
    wire = same_again(model_of(b, y), np.array([chosen]))
    assert all(len(graph.inputs) == 1 for _, graph in list(wire.graphs())[1:])


def loop():
    """Adds ``step`` to ``x`` until it reaches ``limit``; both of these stay as they are."""
    kinds = [("step", (1,)), ("x", (1,)), ("limit", (1,))]
    condition, turn = Builder(Graph("condition")), Builder(Graph("turn"))
    _, x, limit = [condition.input(name, FLOAT32, shape) for name, shape in kinds]
    condition.graph.outputs.append(condition.add(Less(), [x, limit]))
    step, x, limit = [turn.input(name, FLOAT32, shape) for name, shape in kinds]
    turn.graph.outputs.extend([step, turn.add(Add(), [x, step]), limit])
    b = Builder(Graph("main"))
    values = [b.input(name, FLOAT32, shape) for name, shape in kinds]
    types = [value.type for value in values]
    results = b.add_typed(While(), values, types, bodies=[condition.graph, turn.graph])
    return model_of(b, *results)


def test_what_a_turn_leaves_as_it_is_comes_last_and_is_no_result():
    arrays = [np.array([n], np.float32) for n in (2, 1, 8)]
    wire = same_again(loop(), *arrays)
    (operation,) = (o for o in wire.main.operations if o.code is OperationCode.WHILE)
    assert len(operation.outputs) == 1
    assert [wire.main.operands[i].name for i in operation.inputs[2:]] == ["x", "step", "limit"]


def test_a_loop_needs_level_4_and_is_named_below_it():
    assert least_level(written(loop())) == 4
    with pytest.raises(UnsupportedError, match="feature level 4"):
        written(loop(), level=3)


def test_onnx_branches_that_capture_become_nnapi(tmp_path):
    def captured(name, op):
        out = helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])
        return helper.make_graph([helper.make_node(op, ["x", "k"], [name])], name, [], [out])

    graph = helper.make_graph(
        [
            helper.make_node(
                "If",
                ["c"],
                ["y"],
                then_branch=captured("t", "Add"),
                else_branch=captured("e", "Mul"),
            )
        ],
        "g",
        [
            helper.make_tensor_value_info("c", TensorProto.BOOL, [1]),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(np.array([3, 4], np.float32), "k")],
    )
    path = tmp_path / "if.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    report = nnconv.convert(path, tmp_path / "if.nnapi", verify=True)
    assert report.verified
    assert report.counts["IF"] == 1


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
def test_codes_are_taken_for_others_by_a_cast(dtype):
    """Behind arithmetic on plain bytes, whose operation must not get the other parameters."""
    b = Builder(Graph("main"))
    x = b.input("x", dtype, (4,), quant=Quant.per_tensor(1.0, 0))
    moved = b.add(Add(), [x, x], quant=Quant.per_tensor(1.0, 0), dtype=dtype)
    other = b.add(Bitcast(dtype=dtype), [moved], quant=Quant.per_tensor(0.5, 3), dtype=dtype)
    y = b.add(Dequantize(dtype=FLOAT32), [other])
    wire = same_again(model_of(b, y), np.array([0, 1, 20, 60], dtype.numpy))
    assert [o.code.name for o in wire.main.operations] == ["ADD", "CAST", "DEQUANTIZE"]


def wide_regions():
    """ROI_ALIGN of codes, whose regions are 16-bit codes."""
    b = NnapiBuilder()
    bytes_, wide = OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT16_ASYMM
    x = b.input(bytes_, (1, 4, 4, 1), scale=0.25, zero_point=128)
    rois = b.input(wide, (2, 4), scale=0.125)
    numbers = b.const(OperandCode.TENSOR_INT32, [0, 0])
    sizes = [b.const(INT, 2), b.const(INT, 2)]
    strides = [b.const(OperandCode.FLOAT32, s) for s in (2.0, 1.0)]
    samples = [b.const(INT, 2), b.const(INT, 2)]
    out = b.output(bytes_, (2, 2, 2, 1), scale=0.25, zero_point=128)
    nchw = b.const(OperandCode.BOOL, False)
    b.run(OperationCode.ROI_ALIGN, [x, rois, numbers, *sizes, *strides, *samples, nchw], [out])
    return b.model()


def test_wide_codes_reach_what_takes_them():
    wire = wide_regions()
    model = import_model(wire)
    x = np.arange(16, dtype=np.uint8).reshape(1, 4, 4, 1) * 16
    rois = np.array([[0, 0, 24, 32], [8, 8, 16, 30]], np.uint16)
    again = same_again(model, x, rois)
    (operation,) = (o for o in again.main.operations if o.code is OperationCode.ROI_ALIGN)
    strides = [float(again.main.operands[i].value) for i in operation.inputs[5:7]]
    assert strides == [2.0, 1.0]


def test_wide_codes_that_would_be_computed_with_are_named():
    b = Builder(Graph("main"))
    x = b.input("x", DType.UINT16, (2,), quant=Quant.per_tensor(0.125, 0))
    real = b.add(Dequantize(dtype=FLOAT32), [x])
    y = b.add(Add(), [real, real])
    model = model_of(b, y)
    model.format = "nnapi"  # whose interface stays as it is
    with pytest.raises(UnsupportedError, match="16-bit codes"):
        written(model)
