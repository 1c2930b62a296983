"""What reading an NNRt model gives, beyond the numbers of single operations."""

import numpy as np
import pytest

import nnconv
from nnconv.errors import InvalidModelError, UnsupportedError, UsageError
from nnconv.formats.nnrt import file
from nnconv.formats.nnrt.reader import import_model, read
from nnconv.formats.nnrt.wire import QuantParams
from nnconv.ir.verifier import verify_model
from nnconv.ops.conv import Conv2D
from nnconv.ops.elementwise import Add, Maximum
from support.nnrt_models import GraphBuilder, add_model, conv_model


def run(graph, **inputs):
    return nnconv.compile(import_model(graph), "reference").run(inputs)


def test_one_operation_is_one_node():
    model = import_model(conv_model())
    verify_model(model)
    assert [type(node.op).__name__ for node in model.graph.nodes] == ["Conv2D", "MaxPool2D"]
    op = next(iter(model.graph.nodes)).op
    assert isinstance(op, Conv2D)
    assert (op.padding.before, op.padding.after) == ((1, 1), (1, 1))
    assert model.format == "nnrt"


def test_nodes_tell_where_they_come_from():
    (node,) = import_model(add_model()).graph.nodes
    origin = node.origin
    assert origin is not None
    assert (origin.format, origin.op, origin.index) == ("nnrt", "ADD", 0)


def test_operations_run_in_the_order_of_their_data():
    b = GraphBuilder()
    x, y, z = b.input((2,), name="x"), b.data((2,)), b.output((2,), name="z")
    b.op("NEG", [y], [z])
    b.op("ABS", [x], [y])
    np.testing.assert_array_equal(run(b.graph, x=np.float32([-1, 2]))["z"], [-1, -2])


def test_what_has_no_name_gets_one():
    b = GraphBuilder()
    b.op("ADD", [b.input((2,)), b.input((2,))], [b.output((2,))])
    model = import_model(b.graph)
    assert [v.name for v in (*model.inputs, *model.outputs)] == ["input0", "input1", "output0"]


def test_an_input_may_be_an_output_only_by_way_of_an_operation():
    b = GraphBuilder()
    x, y = b.input((2, 1), name="x"), b.output((2, 1), name="y")
    flag = b.data((1,), "BOOL", value=[True])
    b.op("ASSERT", [flag, x], [y])
    model = import_model(b.graph)
    verify_model(model)
    assert [v.name for v in (*model.inputs, *model.outputs)] == ["x", "y"]


def test_open_extents_are_given_for_a_run():
    graph = add_model()
    graph.tensors[0].dimensions = graph.tensors[2].dimensions = (-1, 3)
    assert import_model(graph).inputs[0].shape == (None, 3)
    assert import_model(graph, input_shapes={"x": (7, 3)}).outputs[0].shape == (7, 3)
    with pytest.raises(UsageError, match="there is no input 'z'"):
        import_model(graph, input_shapes={"z": (7, 3)})


def test_files_are_read_as_models_are(tmp_path):
    file.write(conv_model(quantized=True), tmp_path / "m.nnrt")
    for source in (tmp_path / "m.nnrt", (tmp_path / "m.nnrt").read_bytes()):
        assert read(source).inputs[0].quant is not None


# ------------------------------------------------------------------------ quantization

Q, OTHER = QuantParams([0.5], [3]), QuantParams([0.25], [-1])


def two(op, first, second, out, kind="INT8"):
    b = GraphBuilder()
    inputs = [b.input((3,), kind, quant=q, name=n) for q, n in ((first, "a"), (second, "b"))]
    b.op(op, inputs, [b.output((3,), kind, quant=out, name="y")])
    return b.graph


def test_the_first_output_decides_whether_numbers_are_real():
    a, b = np.int8([10, 20, -30]), np.int8([1, 2, 3])
    real = (a - 3) * 0.5 + (b + 1) * 0.25
    found = run(two("ADD", Q, OTHER, Q), a=a, b=b)["y"]
    np.testing.assert_array_equal(found, np.floor(real / 0.5 + 0.5) + 3)
    graph = two("ADD", Q, OTHER, None)
    assert all(v.quant is None for n in import_model(graph).graph.nodes for v in n.outputs)
    np.testing.assert_array_equal(run(graph, a=a, b=b)["y"], a + b)


def test_codes_of_one_scale_need_no_real_numbers():
    (node,) = import_model(two("MAXIMUM", Q, Q, Q)).graph.nodes
    assert isinstance(node.op, Maximum)


def test_codes_that_are_moved_stand_for_what_the_output_says():
    b = GraphBuilder()
    x = b.input((2, 3), "INT8", quant=Q, name="x")
    y = b.output((3, 2), "INT8", quant=OTHER, name="y")
    b.op("TRANSPOSE", [x, b.data((2,), "INT32", value=[1, 0])], [y])
    codes = np.arange(6, dtype=np.int8).reshape(2, 3)
    np.testing.assert_array_equal(run(b.graph, x=codes)["y"], codes.T)


def test_weights_have_their_channels_first_and_the_bias_follows():
    (conv, _) = import_model(conv_model(quantized=True)).graph.nodes
    weights, bias = conv.operand(1), conv.operand(2)
    assert weights.quant is not None
    assert bias.quant is not None
    assert weights.quant.axis == bias.quant.axis == 0
    np.testing.assert_allclose(bias.quant.scale, np.float32([1, 2, 3, 4]) * 0.05 * 0.01, rtol=1e-6)


def test_scales_must_fit_the_first_dimension():
    graph = two("ADD", QuantParams([1, 2], [0, 0]), Q, Q)
    with pytest.raises(InvalidModelError, match="2 scales for 3 indices of dimension 0"):
        import_model(graph)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e300, 1e-300])
def test_scales_are_above_0_and_float32_numbers(scale):
    with pytest.raises(InvalidModelError, match="a scale that isn't above 0"):
        import_model(two("ADD", QuantParams([scale], [0]), Q, Q))


# ------------------------------------------------------------------------ refusals


def one(op, *inputs, outputs=((2, 3),), **params):
    b = GraphBuilder()
    given = [b.input(shape) if isinstance(shape, tuple) else shape(b) for shape in inputs]
    made = [b.output(shape) for shape in outputs]
    b.op(op, given, made, [b.param(op, *p) for p in params.items()])
    return b.graph


def whole(*numbers):
    return lambda b: b.data((len(numbers),), "INT32", value=numbers)


WEIGHT = {"stride": (1, 1), "dilation": (1, 1)}

WRONG = [
    (one("SOFTMAX", (2, 3)), "parameter axis (SOFTMAX_AXIS) is missing"),
    (one("SOFTMAX", (2, 3), axis=2), "axis 2 is out of range for rank 2"),
    (one("ADD", (2, 3), (2, 4)), "don't broadcast"),
    (one("ADD", (2, 3), (2, 3), outputs=((3, 2),)), "states the dimensions [3, 2], the operation"),
    (one("CLIP", (2, 3), min=1, max=0), "min 1 is above max 0"),
    (one("EXP", (2, 3), base=-2), "base -2, allowed are numbers above 0, and -1 for e"),
    (one("ELTWISE", (2, 3), (2, 3), mode=3), "mode 3, allowed are 0 to 2"),
    (one("PRELU", (2, 3), (2,)), "2 slopes for 3 channels, must be 1 or as many"),
    (
        one("SCALE", (2, 3), (2, 3), (2, 3), axis=1),
        "scale has rank 2, behind axis 1 there is room for 1",
    ),
    (one("CONV2D", (1, 4, 4, 2), (3, 1, 1, 4), (3,), **WEIGHT), "2 channels for a filter of 4"),
    (one("CONV2D", (1, 4, 4, 2), (3, 1, 1, 1), (3,), group=2, **WEIGHT), "3 filters for 2 groups"),
    (
        one("CONV2D", (1, 4, 4, 2), (3, 1, 1, 2), (3,), stride=(0, 1), dilation=(1, 1)),
        "stride is [0, 1], must be above 0",
    ),
    (
        one("CONV2D", (1, 4, 4, 2), (3, 1, 1, 2), (3,), padList=(0, -1, 0, 0), **WEIGHT),
        "padList is [0, -1, 0, 0], allowed are 0 and more",
    ),
    (
        one("DEPTHWISE_CONV2D_NATIVE", (1, 4, 4, 2), (2, 1, 1, 2), (2,), **WEIGHT),
        "the filter has the shape [2, 1, 1, 2], must have 1 at its end",
    ),
    (
        one("CONV2D_TRANSPOSE", (1, 4, 4, 2), (3, 1, 1, 2), (3,), padMode=0, outputPads=(1, 1),
            **WEIGHT),
        "outputPads are [1, 1] beside a padMode",
    ),
    (one("LRN", (1, 2, 2, 3), depthRadius=-1), "depthRadius -1, allowed are 0 and more"),
    (one("L2_NORMALIZE", (2, 3), axis=[1], epsilon=-1), "epsilon -1, allowed are 0 and more"),
    (one("QUANT_DTYPE_CAST", (2, 3), srcT=2, dstT=11), "srcT is 2, the tensor is FLOAT32"),
    (one("QUANT_DTYPE_CAST", (2, 3), srcT=43, dstT=32), "dstT is 32, the tensor is FLOAT32"),
    (one("CAST", (2, 3), whole(2)), "type names INT8, the output is FLOAT32"),
    (one("FULL_CONNECTION", (2, 3), (4, 3), axis=0), "6 elements from axis 0 on, the"),
]  # fmt: skip


@pytest.mark.parametrize(("graph", "message"), WRONG, ids=[text for _, text in WRONG])
def test_numbers_that_dont_fit_are_bad_input(graph, message):
    with pytest.raises(InvalidModelError) as caught:
        import_model(graph)
    assert message in str(caught.value)
    assert f"operation 0 ({graph.operations[0].type.name})" in str(caught.value)


def test_all_that_cannot_be_read_is_listed():
    b = GraphBuilder()
    x, y, z = b.input((-1, -1, 2), name="x"), b.data((-1, -1)), b.output((-1, -1))
    b.op("SQUEEZE", [x], [y])
    b.op("SQUEEZE", [x], [z])
    with pytest.raises(UnsupportedError) as caught:
        import_model(b.graph)
    assert [item.where for item in caught.value.items] == ["operation 0", "operation 1"]
    assert "isn't known" in caught.value.items[0].why


def test_the_activation_is_part_of_the_node():
    (node,) = import_model(add_model(2)).graph.nodes
    assert isinstance(node.op, Add)
    assert node.op.activation.bounds == (0.0, 6.0)
