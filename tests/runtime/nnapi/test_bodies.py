"""IF and WHILE whose bodies compute what their operations need beforehand."""

import numpy as np
import pytest

from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode, ResultCode
from support.effort import calls_of
from support.nnapi_computed import INT, halves, reshaped, scalar
from support.nnapi_loops import BOOL, ONE, unary
from support.nnapi_runtime import FLOAT, REFERENCE, compiled, device

DEVICES = [[REFERENCE], ["onnxruntime:cpu", "litert:cpu", REFERENCE]]

X = np.arange(12, dtype=np.float32).reshape(2, 6)


def constant(model, data, code):
    made = model.add_operand(OperandType(code, data.shape))
    model.set_operand_value(made, data)
    return made


def finished(model, inputs, outputs):
    model.identify_inputs_and_outputs(inputs, outputs)
    model.finish()
    return model


def branch(*, splits):
    model = nnapi.Model()
    x, extents = (model.add_operand(OperandType(FLOAT, shape)) for shape in ((2, 6), (2,)))
    moved = reshaped(model, x, extents)
    return finished(model, [x, extents], [halves(model, moved)[1] if splits else moved])


def chosen():
    model = nnapi.Model()
    flag = model.add_operand(OperandType(BOOL, ONE))
    bodies = [model.add_operand(OperandType(OperandCode.MODEL)) for _ in range(2)]
    for operand, splits in zip(bodies, (True, False), strict=True):
        model.set_operand_value_from_model(operand, branch(splits=splits))
    x, extents = (model.add_operand(OperandType(FLOAT, shape)) for shape in ((2, 6), (2,)))
    out = model.add_operand(OperandType(FLOAT, ()))
    model.add_operation(OperationCode.IF, [flag, *bodies, x, extents], [out])
    return finished(model, [flag, x, extents], [out])


def alternating(count):
    """So many IFs of two models each, then what no device runs but one operation by one."""
    model = nnapi.Model()
    flag, x, extents = (
        model.add_operand(OperandType(*kind))
        for kind in ((BOOL, ONE), (FLOAT, (2, 6)), (FLOAT, (2,)))
    )
    found = x
    for _ in range(count):
        bodies = [model.add_operand(OperandType(OperandCode.MODEL)) for _ in range(2)]
        for operand, code in zip(bodies, (OperationCode.NEG, OperationCode.ABS), strict=True):
            model.set_operand_value_from_model(operand, unary(code, shape=(2, 6)))
        before, found = found, model.add_operand(OperandType(FLOAT, (2, 6)))
        model.add_operation(OperationCode.IF, [flag, *bodies, before], [found])
    rows = halves(model, reshaped(model, found, extents))
    return finished(model, [flag, x, extents], rows[:1])


def turned():
    """Turns that swap the halves of the rows, as many as ``limit`` says."""
    places = ((INT, ONE), (FLOAT, ()), (FLOAT, (2,)), (INT, ONE))
    condition, turn, model = nnapi.Model(), nnapi.Model(), nnapi.Model()
    inputs = [condition.add_operand(OperandType(*place)) for place in places]
    below = condition.add_operand(OperandType(BOOL, ONE))
    condition.add_operation(OperationCode.LESS, [inputs[0], inputs[3]], [below])
    finished(condition, inputs, [below])

    inputs = [turn.add_operand(OperandType(*place)) for place in places]
    number = turn.add_operand(OperandType(INT, ONE))
    one = constant(turn, np.int32([1]), INT)
    turn.add_operation(OperationCode.ADD, [inputs[0], one, scalar(turn, 0)], [number])
    first, second = halves(turn, reshaped(turn, inputs[1], inputs[2]))
    swapped = turn.add_operand(OperandType(FLOAT, ()))
    turn.add_operation(OperationCode.CONCATENATION, [second, first, scalar(turn, 0)], [swapped])
    finished(turn, inputs, [number, swapped])

    bodies = [model.add_operand(OperandType(OperandCode.MODEL)) for _ in range(2)]
    for operand, body in zip(bodies, (condition, turn), strict=True):
        model.set_operand_value_from_model(operand, body)
    begin = constant(model, np.int32([0]), INT)
    x, extents = (model.add_operand(OperandType(FLOAT, shape)) for shape in ((2, 6), (2,)))
    limit = model.add_operand(OperandType(INT, ONE))
    count, out = model.add_operand(OperandType(INT, ONE)), model.add_operand(OperandType(FLOAT, ()))
    operands = [*bodies, begin, x, extents, limit]
    model.add_operation(OperationCode.WHILE, operands, [count, out])
    return finished(model, [x, extents, limit], [out, count])


def computed(compilation, inputs, *, loop_timeout=None):
    made = nnapi.Execution(compilation)
    for number, data in enumerate(inputs):
        made.set_input(number, data)
    out, count = np.zeros(12, np.float32), np.zeros(1, np.int32)
    for number in range(len(compilation.model.graph.outputs)):
        made.set_output(number, (out, count)[number])
    if loop_timeout is not None:
        made.set_loop_timeout(loop_timeout)
    made.compute()
    shape = made.get_output_operand_dimensions(0)
    return out[: np.prod(shape)].reshape(shape), count.item()


@pytest.mark.parametrize("names", DEVICES, ids=len)
@pytest.mark.parametrize("flag", [False, True])
def test_a_branch_computes_what_its_operations_need(names, flag):
    model = chosen()
    asked = [device(name) for name in names]
    assert model.get_supported_operations_for_devices(asked) == [True]
    compilation = compiled(model, names)
    for shape in ((4, 3), (2, 6)):
        found, _ = computed(compilation, [np.bool_([flag]), X, np.float32(shape)])
        moved = X.reshape(shape)
        np.testing.assert_array_equal(found, moved[shape[0] // 2 :] if flag else moved)


@pytest.mark.parametrize("flag", [False, True])
def test_what_a_branch_computes_may_make_no_sense(flag):
    given = [np.bool_([flag]), X, np.float32([3, 4])]
    if not flag:
        assert computed(compiled(chosen()), given)[0].shape == (3, 4)
        return
    with pytest.raises(nnapi.Error, match="extent 3 doesn't split into 2 equal parts") as caught:
        computed(compiled(chosen()), given)
    assert caught.value.code is ResultCode.OP_FAILED


@pytest.mark.parametrize("names", DEVICES, ids=len)
@pytest.mark.parametrize("turns", [0, 1, 5])
def test_a_turn_computes_what_its_operations_need(names, turns):
    model = turned()
    asked = [device(name) for name in names]
    assert model.get_supported_operations_for_devices(asked) == [True]
    found, count = computed(compiled(model, names), [X, np.float32([4, 3]), np.int32([turns])])
    wanted = X.reshape(4, 3) if turns else X
    np.testing.assert_array_equal(found, np.roll(wanted, 2, axis=0) if turns % 2 else wanted)
    assert count == turns


def test_such_a_loop_without_end_is_stopped():
    given = [X, np.float32([4, 3]), np.int32([np.iinfo(np.int32).max])]
    with pytest.raises(nnapi.Error) as caught:
        computed(compiled(turned()), given, loop_timeout=50_000_000)
    assert caught.value.code is ResultCode.MISSED_DEADLINE_TRANSIENT


def test_other_devices_are_told_to_lack_it():
    model = turned()
    assert model.get_supported_operations_for_devices([device("onnxruntime:cpu")]) == [False]
    with pytest.raises(nnapi.Error, match="SPLIT") as caught:
        compiled(model, ["onnxruntime:cpu"])
    assert caught.value.code is ResultCode.BAD_DATA


def test_the_cost_is_in_proportion_to_the_number_of_models():
    """Operations that are asked for, or run, one by one read no models but their own."""

    def costs(count):
        model = alternating(count)
        asked = [device(REFERENCE)]
        yield calls_of(lambda: model.get_supported_operations_for_devices(asked))
        compilation, given = compiled(model), [np.bool_([True]), X, np.float32((2, 6))]
        yield calls_of(lambda: computed(compilation, given))

    list(costs(10))  # what is made once
    for few, many in zip(costs(10), costs(40), strict=True):
        assert many < 4.1 * few
