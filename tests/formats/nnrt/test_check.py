"""What models break of NNRt's rules: a case for each rule, with what is said of it."""

import numpy as np
import pytest

from nnconv.errors import InvalidModelError
from nnconv.formats.findings import Finding
from nnconv.formats.nnrt.check import BUILD_RULES, build_findings, check, findings
from nnconv.formats.nnrt.table import spec_of
from nnconv.formats.nnrt.types import DataType, OperationType, TensorType
from nnconv.formats.nnrt.wire import Operation, QuantParams, Tensor
from support.nnrt_models import GraphBuilder, add_model, conv_model


def texts(graph, api=2):
    return [str(finding) for finding in findings(graph, api)]


@pytest.mark.parametrize("graph", [add_model(), conv_model(), conv_model(quantized=True)])
@pytest.mark.parametrize("api", [1, 2])
def test_sound_models_break_nothing(graph, api):
    assert texts(graph, api) == []
    check(graph, api)


# ------------------------------------------------------------------------ what the calls refuse


def with_tensor(index, **facts):
    graph = add_model()
    for name, value in facts.items():
        setattr(graph.tensors[index], name, value)
    return graph


def with_operation(**facts):
    graph = add_model()
    for name, value in facts.items():
        setattr(graph.operations[0], name, value)
    return graph


def with_ends(inputs=(0,), outputs=(2,)):
    graph = add_model()
    graph.inputs, graph.outputs = inputs, outputs
    return graph


def param(value, kind=DataType.INT8, shape=()):
    """The model of a sum with another tensor as the activation."""
    return with_tensor(
        3, data_type=kind, dimensions=shape,
        data=None if value is None else np.asarray(value, np.int8).reshape(shape),
    )  # fmt: skip


def avg_pool(name, value, shape=None, kind=None):
    b = GraphBuilder()
    x, y = b.input((1, 4, 4, 2)), b.output((1, 2, 2, 2))
    params = [b.param("AVG_POOL", n, (2, 2)) for n in ("kernelSize", "strides")]
    params.append(b.param("AVG_POOL", name, value, shape))
    if kind is not None:
        b.graph.tensors[-1].data_type = kind
    b.op("AVG_POOL", [x], [y], params)
    return b.graph


def layer_norm(axis=1, shape=(3, 4), *, rank=0, api=2):
    b = GraphBuilder(api)
    x, gamma, beta = b.input((2, 3, 4)), b.input(shape), b.input(shape)
    y = b.output((2, 3, 4))
    place = b.param("LAYER_NORM", "beginAxis", np.full((1,) * rank, axis))
    b.op("LAYER_NORM", [x, gamma, beta], [y], [place])
    return b.graph


def full_connection(**params):
    b = GraphBuilder()
    x, w, y = b.input((2, 3)), b.data((4, 3), value=np.ones(12)), b.output((2, 4))
    b.op("FULL_CONNECTION", [x, w], [y], [b.param("FULL_CONNECTION", *p) for p in params.items()])
    return b.graph


def one(op, *inputs, outputs=((2, 3),), kind="FLOAT32", api=2, **params):
    """The model of one operation, its inputs of these dimensions."""
    b = GraphBuilder(api)
    given = [b.input(shape, kind) for shape in inputs]
    made = [b.output(shape, kind) for shape in outputs]
    b.op(op, given, made, [b.param(op, *p) for p in params.items()])
    return b.graph


def cast(value):
    b = GraphBuilder()
    x, code, y = b.input((2,)), b.data((1,), "INT32", value=value), b.output((2,), "INT8")
    b.op("CAST", [x, code], [y])
    return b.graph


def cast_without_data():
    graph = cast(2)
    graph.tensors[1].data = None
    graph.inputs = (0, 1)
    return graph


ELEMENTWISE_AFFINE = Tensor(
    DataType.BOOL, (), type=TensorType.LAYER_NORM_ELEMENTWISE_AFFINE, data=np.array(1, np.uint8)
)


def with_affine():
    graph = layer_norm()
    graph.tensors.append(ELEMENTWISE_AFFINE)
    graph.operations[0].params += (len(graph.tensors) - 1,)
    return graph


SUM = "operation 0 (ADD)"

REFUSED = [
    # tensors
    (
        with_tensor(0, dimensions=(2, 0)),
        "tensor 0 (`x`): dimensions [2, 0], allowed are extents of",
    ),
    (with_tensor(0, dimensions=(-2, 3)), "tensor 0 (`x`): dimensions [-2, 3], allowed are"),
    (with_tensor(0, dimensions=(1,) * 201), "tensor 0 (`x`): 201 dimensions, at most 200"),
    (with_tensor(0, dimensions=(1 << 31,)), "8589934592 bytes, at most 4294967295 are possible"),
    (with_tensor(0, quant=QuantParams([1, 2], [0])), "2 scales, 1 zero point and 2 bits"),
    (with_tensor(0, quant=QuantParams([1], [0], [16])), "tensor 0 (`x`): 16 bits, must be 8"),
    (with_tensor(1, dimensions=(-1,)), "tensor 1: data with the dimensions [-1], all must be"),
    (with_tensor(1, dimensions=(4,)), "tensor 1: its data have 12 bytes, must have 16"),
    # operations
    (with_operation(inputs=(0, 9)), f"{SUM}: tensor 9, there are 4"),
    (with_operation(params=(-1,)), f"{SUM}: tensor -1, there are 4"),
    (with_operation(inputs=()), f"{SUM}: 0 inputs, allowed are 1 to 200"),
    (with_operation(inputs=(0,)), f"{SUM}: 1 input, allowed are 2"),
    (with_operation(inputs=(0,) * 201), f"{SUM}: 201 inputs, allowed are 1 to 200"),
    (with_operation(outputs=()), f"{SUM}: 0 outputs, allowed are 1 to 200"),
    (with_operation(inputs=(0, 3)), "tensor 3 among the inputs is a ADD_ACTIVATIONTYPE"),
    (with_operation(outputs=(0,)), f"{SUM}: tensor 0 is both input and output"),
    (with_operation(params=(3, 3)), f"{SUM}: 2 parameters, at most 1 are allowed"),
    (with_operation(params=(1,)), f"{SUM}: parameter 1 is a TENSOR, a parameter of no operation"),
    (
        with_tensor(3, type=TensorType.SUB_ACTIVATIONTYPE),
        "a SUB_ACTIVATIONTYPE, a parameter of SUB",
    ),
    (with_affine(), "a LAYER_NORM_ELEMENTWISE_AFFINE, a parameter of no operation"),
    (one("CONCAT", (2, 3)), "operation 0 (CONCAT): 1 input, allowed are 2 to 200"),
    # parameters
    (param([1], DataType.INT32), "activationType (tensor 3) has elements of INT32, must have INT8"),
    (param(None), "parameter activationType (tensor 3) has no data"),
    (param(3), "parameter activationType (tensor 3) has the value 3, allowed are 0 to 2"),
    (param(-1), "parameter activationType (tensor 3) has the value -1, allowed are 0 to 2"),
    (avg_pool("padMode", [0, 1]), "parameter padMode (tensor 4) has 2 elements, must have 1 or 4"),
    (avg_pool("padList", [0]), "padList (tensor 4) has elements of INT64, must have INT8"),
    (avg_pool("padMode", [0] * 4), "padMode (tensor 4) has elements of INT8, must have INT64"),
    (avg_pool("padMode", 3), "parameter padMode (tensor 4) has the value 3, allowed are 0 to 2"),
    (
        avg_pool("roundMode", 2),
        "parameter roundMode (tensor 4) has the value 2, allowed are 0 to 1",
    ),
    (avg_pool("global", [1, 1]), "parameter global (tensor 4) has 2 elements, must have 1"),
    (
        one("LRN", (1, 2, 3, 4), normRegion=1),
        "normRegion (tensor 2) has the value 1, allowed are 0",
    ),
    (
        one("SPACE_TO_BATCH_ND", (1, 2, 2, 1), blockShape=[[1, 1]]),
        "blockShape (tensor 2) has rank 2",
    ),
    (one("SPACE_TO_BATCH_ND", (1, 2, 2, 1), paddings=[0] * 4), "paddings (tensor 2) has rank 1"),
    # rules of single operations
    (one("CONV2D", (1, 2, 2, 1), (1, 2, 1), (1,)), "(CONV2D): weight has rank 3, must have 4"),
    (
        one("DEPTHWISE_CONV2D_NATIVE", (2, 2, 1), (1, 1, 1, 1), (1,)),
        "input has rank 3, must have 4",
    ),
    (cast(13), "operation 0 (CAST): type is 13, allowed are 0 to 12"),
    (cast(-1), "operation 0 (CAST): type is -1, allowed are 0 to 12"),
    (cast_without_data(), "operation 0 (CAST): type has no data, it must be the code of"),
    (full_connection(axis=1, useAxis=False), "axis is given beside useAxis, which is false"),
    (layer_norm(0), "beginAxis is 0 for rank 3, must be at least 1 and below the rank"),
    (layer_norm(3), "beginAxis is 3 for rank 3, must be at least 1 and below the rank"),
    (layer_norm(2), "gamma has the dimensions [3, 4], must have [4]"),
    (layer_norm(rank=1), "parameter beginAxis (tensor 4) has rank 1, must have 0"),
    # the end of building
    (one("SCALE", (2, 3), (3,), (3,)), "parameter axis (SCALE_AXIS) is missing"),
    (one("QUANT_DTYPE_CAST", (2, 3), srcT=11), "dstT (QUANT_DTYPE_CAST_DST_T) is missing"),
    (with_ends(inputs=()), "the model: 0 inputs, allowed are 1 to 200"),
    (with_ends(outputs=()), "the model: 0 outputs, allowed are 1 to 200"),
    (with_ends(inputs=(0, 3)), "the model: tensor 3 among the inputs is a ADD_ACTIVATIONTYPE"),
    (with_ends(outputs=(0,)), "the model: tensor 0 is both input and output"),
    # what no call looks at
    (with_ends(inputs=(0, 0)), "the inputs: a tensor is listed twice"),
    (with_ends(outputs=(2, 2)), "the outputs: a tensor is listed twice"),
    (with_ends(inputs=(0, 1)), "tensor 1: an input of the model has data"),
    (with_operation(outputs=(1,), inputs=(0, 0)), f"{SUM}: it writes tensor 1, a constant"),
    (with_tensor(1, data=None), f"{SUM}: tensor 1 is read, but nothing writes it"),
]


@pytest.mark.parametrize(("graph", "message"), REFUSED, ids=[text for _, text in REFUSED])
def test_a_model_that_breaks_a_rule_is_refused(graph, message):
    found = texts(graph)
    assert any(message in text for text in found), found
    with pytest.raises(InvalidModelError) as caught:
        check(graph)
    assert message in str(caught.value)


def test_a_model_needs_operations():
    graph = add_model()
    graph.operations.clear()
    assert "the model: it has no operations" in texts(graph)


def test_two_operations_write_no_tensor():
    graph = add_model()
    graph.operations.append(graph.operations[0])
    assert "operation 1 (ADD): it writes tensor 2, as operation 0 does" in texts(graph)


def test_operations_dont_read_one_another_in_a_circle():
    b = GraphBuilder()
    x, y, z = b.input((2,)), b.data((2,)), b.output((2,))
    b.op("ADD", [x, z], [y])
    b.op("ADD", [x, y], [z])
    assert texts(b.graph) == ["the model: its operations read one another's outputs in a circle"]


def test_every_rule_of_the_table_is_known():
    kinds = {rule["rule"] for code in OperationType for rule in spec_of(code).rules}
    assert kinds == {*BUILD_RULES, "lost_tensors", "same_rows"}


# ------------------------------------------------------------------------ versions

NORM = "operation 0 (LAYER_NORM)"

OLDER = [
    (one("LOG", (2, 3)), "operation 0 (LOG): version 1 doesn't know the operation"),
    (avg_pool("roundMode", 1), "tensor 4: type AVG_POOL_ROUND_MODE, which version 1 doesn't know"),
    (
        layer_norm(),
        f"{NORM}: parameter beginAxis (tensor 4) has elements of INT64, must have INT32",
    ),
    (full_connection(), "operation 0 (FULL_CONNECTION): 0 parameters, version 1 wants 1 or 2"),
    (
        one("BATCH_TO_SPACE_ND", (4, 1, 1, 1), blockSize=[2, 2], crops=[[0, 0], [0, 0]],
            outputs=((1, 2, 2, 1),)),
        "operation 0 (BATCH_TO_SPACE_ND): the runtime loses the operation's tensors",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("graph", "message"), OLDER, ids=[text for _, text in OLDER])
def test_version_1_knows_less(graph, message):
    assert f"{message} needs API version 2" in texts(graph, api=1)
    assert not any(message in text for text in texts(graph, api=2))


def test_version_2_wants_other_axes_than_version_1():
    graph = layer_norm(api=1)
    assert texts(graph, 1) == []
    (text,) = texts(graph, 2)
    assert text.endswith("beginAxis (tensor 4) has elements of INT32, must have INT64")


def test_version_1_has_no_limits_on_numbers_of_tensors():
    graph = one("CONCAT", *[(1, 3)] * 201, outputs=((201, 3),), axis=0)
    graph.inputs = graph.inputs[:201]
    assert texts(graph, 1) == []
    assert any("201 inputs" in text for text in texts(graph, 2))


# ------------------------------------------------------------------------ what a device refuses


def codes(op, *shapes, quants, out=None, kind="INT8", **params):
    """The model of one operation on codes."""
    graph = one(op, *shapes, outputs=(shapes[0],), kind=kind, **params)
    for tensor, quant in zip(graph.tensors, quants, strict=False):
        tensor.quant = quant
    graph.tensors[graph.outputs[0]].quant = out
    return graph


Q = QuantParams([0.1], [0])


def with_types(graph, **kinds):
    for place, kind in kinds.items():
        graph.tensors[int(place[1:])].data_type = DataType[kind]
    return graph


DEVICE = [
    (one("SQRT", (2, 3), kind="INT32"), "input is INT32, allowed are FLOAT32, FLOAT16"),
    (one("LOGICAL_AND", (2,), (2,)), "input1 is FLOAT32, allowed are BOOL"),
    (with_types(one("SQRT", (2, 3)), t1="FLOAT16"), "output is FLOAT16, must be FLOAT32 as input"),
    (one("SOFTMAX", (2, 3)), "parameter axis (SOFTMAX_AXIS) is missing"),
    (one("RESIZE_BILINEAR", (2, 3), newHeight=1, newWidth=1), "input has rank 2, allowed is 4"),
    (one("REDUCE_MEAN", (1,) * 8, (1,)), "input has rank 8, allowed is 0 to 7"),
    (one("MATMUL", (3,), (3, 2)), "input1 has rank 1, allowed is 2 to any"),
    (one("ADD", (2, 3), (2,)), "input2 has the dimensions [2], which don't go with [2, 3]"),
    (one("ELTWISE", (2, 3), (1, 3)), "has the dimensions [1, 3], must have [2, 3] as input1"),
    (one("BIAS_ADD", (2, 3), (4,)), "bias has the extent 4 where 3 is wanted"),
    (one("BATCH_NORM", (2, 3), (3,), (3,), (2,), (3,)), "mean has the extent 2 where 3 is wanted"),
    (one("FILL", (2,), (1,)), "value has 2 elements, must have 1"),
    (one("RESHAPE", (2, 3), (2,)), "InputShape has no data, it must be a constant"),
    (one("FULL_CONNECTION", (2, 3)), "input weight is missing"),
    (one("FULL_CONNECTION", (2, 3), (3, 3), (3,), (3,)), "4 inputs, at most 3 mean something"),
    (avg_pool("kernelSize", (2, 2)), "parameter AVG_POOL_KERNEL_SIZE is given 2 times"),
    (
        one("MAX_POOL", (1, 2, 2, 1), kernelSize=(2, 2, 1), strides=(1, 1)),
        "parameter kernelSize has 3 elements, must have 2",
    ),
    (
        one("SPACE_TO_BATCH_ND", (1, 2, 2, 1), blockShape=(1, 2), paddings=[[0, 0], [1, 1]],
            outputs=((1, 1, 1, 1),)),
        "paddings are [[0, 0], [1, 1]], the device gets the first row twice",
    ),
    (one("REDUCE_SUM", (2, 3), (2,), outputs=((),)), "an output of rank 0, which can't be bound"),
    (codes("SIGMOID", (2, 3), quants=[None]), "input is INT8 without quantization parameters"),
    (codes("SIGMOID", (2, 3), quants=[Q]), "has quantization parameters, but the first output has"),
    (codes("ADD", (2,), (2,), quants=[Q, None], out=Q), "input2 is INT8 without quantization"),
    (codes("SIGMOID", (2, 3), quants=[QuantParams([0], [0])], out=Q), "a scale that isn't above 0"),
    (
        codes("SIGMOID", (2, 3), quants=[QuantParams([1, 2], [0, 0])], out=Q),
        "input has 2 scales, must have 1",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("graph", "message"), DEVICE, ids=[text for _, text in DEVICE])
def test_what_the_calls_let_through_a_device_may_refuse(graph, message):
    assert build_findings(graph) == []
    found = texts(graph)
    assert any(message in text for text in found), found


def test_a_bias_has_no_parameters_and_weights_as_many_as_filters():
    graph = conv_model(quantized=True)
    graph.tensors[2].quant = Q
    graph.tensors[1].quant = QuantParams([1, 2], [0, 0])
    weights, bias = texts(graph)
    assert weights == "operation 0 (CONV2D): weight has 2 scales, must have 1 or 4"
    assert "the bias has quantization parameters, which follow from those of input" in bias


def test_findings_tell_the_operation():
    graph = add_model()
    graph.operations.insert(0, Operation(OperationType.SQRT, [], [0], [1]))
    graph.tensors[1].data = None
    graph.tensors[0].data_type = graph.tensors[1].data_type = DataType.INT32
    graph.tensors[2].data_type = DataType.INT32
    assert [f.operation for f in findings(graph)] == [0, 0]
    assert isinstance(findings(graph)[0], Finding)


def test_too_many_parameters_are_one_finding():
    graph = with_operation(params=(0,) * 1000)
    assert texts(graph) == ["operation 0 (ADD): 1000 parameters, at most 1 are allowed"]
    with pytest.raises(InvalidModelError, match=r"^m\.nnrt: a rule of NNRt's API version 2 is"):
        check(graph, path="m.nnrt")
