"""What the check refuses, from which feature level on, and how it says so."""

import numpy as np
import pytest

from nnconv.errors import InvalidModelError
from nnconv.formats.findings import run_order
from nnconv.formats.nnapi.check import check, least_level, problems
from nnconv.formats.nnapi.types import OperandCode, OperationCode
from nnconv.formats.nnapi.wire import ChannelQuant, Lifetime, Operand, Operation
from support.nnapi_defaults import without_defaults
from support.nnapi_models import FLOAT, INT, NnapiBuilder, add_model, conv_model, if_model

QUANT8 = OperandCode.TENSOR_QUANT8_ASYMM
SIGNED = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED


def only(model, level=8):
    """The text of the single finding."""
    (finding,) = problems(model, level)
    return str(finding)


def one_op(code, *inputs, outputs, data=()):
    """An operation of tensors given as (type, dimensions, options) and constants."""
    b = NnapiBuilder()
    ins = [b.input(kind, dims, **options) for kind, dims, options in inputs]
    ins += [b.const(kind, value) for kind, value in data]
    outs = [b.output(kind, dims, **options) for kind, dims, options in outputs]
    b.run(code, ins, outs)
    return b.model()


@pytest.mark.parametrize(
    ("model", "level"),
    [
        (add_model(), 1),
        (add_model(kind=OperandCode.TENSOR_FLOAT16), 3),
        (add_model(kind=SIGNED, scale=1.0), 4),
        (conv_model(), 1),
        (conv_model(nchw=False), 3),
        (conv_model(per_channel=True), 3),
        (if_model(), 4),
    ],
)
def test_least_level(model, level):
    assert least_level(model) == level
    check(model, level)
    if level > 1:
        with pytest.raises(InvalidModelError, match=f"needs feature level {level}"):
            check(model, level - 1)


def test_default_inputs_cost_no_level_once_they_are_left_off():
    model = without_defaults(conv_model(nchw=False))
    assert len(model.main.operations[0].inputs) == 7
    assert least_level(model) == 1
    kept = without_defaults(conv_model(nchw=True))
    assert len(kept.main.operations[0].inputs) == 8


def test_dilations_are_left_off_together_or_not_at_all():
    for dilations, left in (((1, 1), 7), ((1, 2), 10), ((2, 1), 10)):
        model = conv_model(nchw=False)
        b = NnapiBuilder()
        b.graph = model.main
        added = [b.const(INT, d) for d in dilations]
        op = model.main.operations[0]
        model.main.operations = [Operation(op.code, (*op.inputs, *added), op.outputs)]
        assert len(without_defaults(model).main.operations[0].inputs) == left


# ---------------------------------------------------------------- rules on operations


@pytest.mark.parametrize(
    ("model", "level", "message"),
    [
        (
            one_op(OperationCode.RELU, (FLOAT, (1,) * 5, {}), outputs=[(FLOAT, (1,) * 5, {})]),
            8,
            "operation 0 (RELU): input has rank 5, at most 4 is allowed",
        ),
        (
            one_op(
                OperationCode.SOFTMAX,
                (FLOAT, (3,), {}),
                outputs=[(FLOAT, (3,), {})],
                data=[(OperandCode.FLOAT32, 1.0)],
            ),
            2,
            "operation 0 (SOFTMAX): input has rank 1, allowed is 2 or 4 needs feature level 3",
        ),
        (
            one_op(
                OperationCode.MUL,
                (QUANT8, (3,), {"scale": 0.5}),
                (QUANT8, (3,), {"scale": 0.5}),
                outputs=[(QUANT8, (3,), {"scale": 0.25})],
                data=[(INT, 0)],
            ),
            8,
            "operation 0 (MUL): output has scale 0.25, must be above that of input0 and input1",
        ),
        (
            one_op(
                OperationCode.PAD,
                (QUANT8, (3,), {"scale": 0.5, "zero_point": 1}),
                outputs=[(QUANT8, (5,), {"scale": 0.5, "zero_point": 1})],
                data=[(OperandCode.TENSOR_INT32, [[1, 1]])],
            ),
            2,
            "operation 0 (PAD): input has zero point 1, must have 0 needs feature level 3",
        ),
        (
            one_op(
                OperationCode.REVERSE,
                (FLOAT, (3, 2), {}),
                outputs=[(FLOAT, (3, 2), {})],
                data=[(OperandCode.TENSOR_INT32, [0, 1])],
            ),
            8,
            "operation 0 (REVERSE): axis has the dimensions [2], must have [1]",
        ),
        (
            one_op(
                OperationCode.MIRROR_PAD,
                (FLOAT, (3, 2), {}),
                outputs=[(FLOAT, (3, 4), {})],
                data=[(OperandCode.TENSOR_INT32, [[1, 1]]), (INT, 0)],
            ),
            8,
            "operation 0 (MIRROR_PAD): paddings has the dimensions [1, 2], must have [2, 2]",
        ),
        (
            one_op(
                OperationCode.CAST,
                (FLOAT, (2, 3), {}),
                outputs=[(OperandCode.TENSOR_INT32, (3, 2), {})],
            ),
            8,
            "operation 0 (CAST): output has the dimensions [3, 2], must have [2, 3]",
        ),
    ],
)
def test_rule_of_an_operation(model, level, message):
    assert only(model, level).startswith(message)


@pytest.mark.parametrize(
    ("data", "bias", "message"),
    [
        ((2, 3), [0, 0], ""),  # three rows of two
        ((1, 3), [0, 0], "input [1, 3] can't be cut in rows of 2"),
        ((1, 2), [0, 0, 0], "bias has 3 elements, must have 2"),
        ((2,), [0, 0], "input, weights, bias have ranks 1, 2, 1"),
    ],
)
def test_sizes_of_fully_connected(data, bias, message):
    model = one_op(
        OperationCode.FULLY_CONNECTED,
        (FLOAT, data, {}),
        outputs=[(FLOAT, (3, 2), {})],
        data=[(FLOAT, [[1, 2], [3, 4]]), (FLOAT, bias), (INT, 0)],
    )
    assert message in (only(model) if message else "")
    assert bool(problems(model)) is bool(message)


def test_channels_are_counted_along_the_right_dimension():
    model = conv_model(per_channel=True)
    weights = model.main.operands[1]
    weights.channel_quant = ChannelQuant(1, (0.25, 0.5, 0.5))
    assert "filter has its scales along dimension 1, must be 0" in only(model)
    weights.channel_quant = ChannelQuant(0, (0.25,))
    assert only(model) == "operand 1: 1 scale for 2 channels, must be one for each"
    weights.channel_quant = None
    assert only(model) == "operand 1: scales per channel are missing"


def test_branches_must_take_and_give_what_is_outside():
    model = if_model()
    model.referenced[1].operands[model.referenced[1].inputs[0]].dimensions = (3,)
    assert "else_model has TENSOR_FLOAT32 [3] as number 0 of its inputs" in only(model)
    model = if_model()
    model.referenced[0].inputs = model.referenced[0].inputs[:1]
    texts = [str(finding) for finding in problems(model)]
    assert any("then_model has 1 input, must have 2" in text for text in texts)


# ---------------------------------------------------------------- rules on operands and graphs


@pytest.mark.parametrize(
    ("operand", "message"),
    [
        (Operand(QUANT8, (2,), scale=0.0), "scale 0, must be above 0 for TENSOR_QUANT8_ASYMM"),
        (
            Operand(QUANT8, (2,), scale=1.0, zero_point=256),
            "zero point 256, allowed are 0 to 255 for TENSOR_QUANT8_ASYMM",
        ),
        (
            Operand(OperandCode.TENSOR_QUANT8_SYMM, (2,), scale=1.0, zero_point=1),
            "zero point 1, allowed are 0 to 0 for TENSOR_QUANT8_SYMM",
        ),
        (Operand(FLOAT, (2,), scale=1.0), "scale 1 and zero point 0, must be 0"),
        (Operand(OperandCode.TENSOR_INT32, (2,), scale=-1.0), "scale -1, must be 0 or more"),
        (Operand(INT, (2,)), "a scalar has the dimensions [2], must have none"),
        (Operand(FLOAT, (1 << 16, 1 << 16)), "17179869184 bytes, at most 4294967295"),
        (Operand(FLOAT, (0, 2)), "a constant with the dimensions [0, 2], all must be known"),
        (Operand(FLOAT, (2,)), "its value has 0 bytes, must have 8"),
        (Operand(OperandCode.MODEL), "type MODEL with the lifetime constant"),
    ],
)
def test_rule_of_an_operand(operand, message):
    model = add_model()
    operand.lifetime = Lifetime.CONSTANT
    if message.startswith(("scale", "zero", "a scalar", "17")):
        operand.value = np.zeros(2, np.uint8)
    model.main.operands.append(operand)
    texts = [str(finding) for finding in problems(model)]
    assert any(text.startswith("operand 4: ") and message in text for text in texts), texts


def test_a_tensor_of_unknown_rank_needs_level_3():
    model = add_model()
    model.main.operands[0].dimensions = ()
    assert least_level(model) == 3
    assert only(model, 2) == "operand 0 (`x`): a tensor of unknown rank needs feature level 3"


def test_every_operand_is_written_exactly_once():
    model = add_model()
    model.main.operands.append(Operand(FLOAT, (2, 3)))
    assert only(model) == "operand 4: no operation writes it"
    model = add_model()
    model.main.operations *= 2
    assert only(model) == "operation 1 (ADD): it writes operand 3, as operation 0 does"
    model = add_model()
    op = model.main.operations[0]
    model.main.operations = [Operation(op.code, op.inputs, [0])]
    texts = [str(finding) for finding in problems(model)]
    assert "operation 0 (ADD): it writes operand 0, a input" in texts


def test_graphs_need_operations_and_ends():
    model = add_model()
    model.main.operations = []
    assert "the graph: it has no operations" in map(str, problems(model))
    model = add_model()
    model.main.inputs = ()
    texts = [str(finding) for finding in problems(model)]
    assert "the graph: it has no inputs or no outputs, at least one each is needed" in texts
    assert "operand 0 (`x`): its lifetime is input, but it isn't among the inputs" in texts


def test_indices_that_lead_nowhere_are_all_that_is_said():
    model = add_model()
    model.main.outputs = (99,)
    assert only(model) == "the outputs: operand 99, there are 4"


def test_circles_are_found():
    b = NnapiBuilder()
    x = b.input(FLOAT, (2,))
    loop = [b.operand(FLOAT, (2,)) for _ in range(2)]
    zero = b.const(INT, 0)
    b.run(OperationCode.ADD, [x, loop[1], zero], [loop[0]])
    b.run(OperationCode.ADD, [x, loop[0], zero], [loop[1]])
    b.run(OperationCode.RELU, [loop[1]], [b.output(FLOAT, (2,))])
    assert only(b.model()) == "the graph: its operations read one another's outputs in a circle"
    model = if_model()
    inner = model.referenced[0]
    inner.operands.append(Operand(OperandCode.MODEL, lifetime=Lifetime.MODEL, value=0))
    assert only(model) == "the model: its graphs refer to one another in a circle"
    inner.operands[-1].value = 7
    assert only(model) == "model 0, operand 5: model 7, there are 2"


def test_run_order_sorts_only_what_is_out_of_order():
    b = NnapiBuilder()
    x, middle = b.input(FLOAT, (2,)), b.operand(FLOAT, (2,))
    b.run(OperationCode.RELU, [middle], [b.output(FLOAT, (2,))])
    b.run(OperationCode.RELU, [x], [middle])
    assert run_order(b.graph.operations) == [1, 0]
    b.graph.operations.reverse()
    assert run_order(b.graph.operations) == [0, 1]
