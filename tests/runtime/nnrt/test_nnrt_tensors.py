"""Runs from tensors in memory into others."""

import numpy as np
import pytest
from nnconv.backends import devices

from nnconv.runtime import nnrt
from nnconv.runtime.nnrt import DataType, OperationType, ReturnCode, Tensor
from support.nnrt_runtime import FLOAT, array, compiled, desc, device_id, device_tensor

NAMES = [device.name for device in devices() if device.available]


def filled():
    made = device_tensor()
    made.get_data_buffer().view(np.float32)[:] = array().reshape(-1)
    return made


def content(tensor):
    return tensor.get_data_buffer()[: array().nbytes].view(np.float32).reshape(2, 3)


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_not_taken_for_outputs(name):
    made = nnrt.Executor(compiled(name=name))
    first, second, output = filled(), filled(), device_tensor()
    made.run_sync([first, second], [output])
    with pytest.raises(nnrt.Error) as caught:
        made.run_sync([first], [second, output])
    assert caught.value.code is ReturnCode.INVALID_PARAMETER
    assert np.array_equal(content(second), array())


@pytest.mark.parametrize("name", NAMES)
def test_every_run_tells_the_shapes_of_its_outputs(name):
    made = nnrt.Executor(compiled(name=name))
    inputs = [filled(), filled()]
    output = Tensor.create_with_size(device_id(), desc((1, 2)), 64)
    for turn in range(3):
        content(inputs[0])[:] = array() + turn
        output.get_tensor_desc().set_shape((1, 2))
        made.run_sync(inputs, [output])
        assert output.get_tensor_desc().get_shape() == (2, 3)
        assert np.array_equal(content(output), 2 * array() + turn)


def gathered(*, computed):
    """GATHER along an axis that is an input, or what ABS makes of it."""
    model = nnrt.Model()
    kinds = Tensor(FLOAT, (2, 3)), Tensor(DataType.INT32, (1,)), Tensor(DataType.INT32, (1,))
    inputs = [model.add_tensor(kind) for kind in kinds]
    out = model.add_tensor(Tensor(FLOAT, (-1, -1)))
    axis = inputs[2]
    if computed:
        axis = model.add_tensor(kinds[2])
        model.add_operation(OperationType.ABS, [], inputs[2:], [axis])
    model.add_operation(OperationType.GATHER, [], [*inputs[:2], axis], [out])
    model.specify_inputs_and_outputs(inputs, [out])
    model.finish()
    return model


def integer(number):
    made = device_tensor((1,), DataType.INT32)
    made.get_data_buffer().view(np.int32)[:] = number
    return made


@pytest.mark.parametrize("computed", [False, True])
def test_what_an_operation_needs_beforehand_may_be_an_input_or_computed(computed):
    model = gathered(computed=computed)
    assert model.get_available_operations(device_id()) == [True] * (1 + computed)
    made = nnrt.Executor(compiled(model))
    output = Tensor.create_with_size(device_id(), desc((-1, -1)), 64)
    for number, shape in ((0, (1, 3)), (1, (2, 1))):
        axis = integer(-number if computed else number)
        made.run_sync([filled(), integer(1), axis], [output])
        assert output.get_tensor_desc().get_shape() == shape
        found = output.get_data_buffer()[: 4 * int(np.prod(shape))].view(np.float32)
        assert np.array_equal(found.reshape(shape), array().take([1], number))


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize(
    ("index", "axis", "fault"),
    [
        (1, 2, "axis 2 is out of range for rank 2"),
        (5, 1, "index 5 is out of range for an extent of 3"),
    ],
)
def test_an_operation_that_inputs_do_not_suit_is_told_by_its_number(computed, index, axis, fault):
    made = nnrt.Executor(compiled(gathered(computed=computed)))
    output = Tensor.create_with_size(device_id(), desc((-1, -1)), 64)
    inputs = [filled(), integer(index), integer(-axis if computed else axis)]
    text = rf"operation {computed:d} \(GATHER\): {fault}"
    with pytest.raises(nnrt.Error, match=text) as caught:
        made.run_sync(inputs, [output])
    assert caught.value.code is ReturnCode.UNAVAILABLE_DEVICE


def test_an_error_of_several_faults_is_told_on_one_line():
    model = nnrt.Model()
    x = model.add_tensor(Tensor(FLOAT, (2, 3)))
    index, axis = (model.add_tensor(Tensor(DataType.INT32, (1,))) for _ in range(2))
    model.set_tensor_data(axis, np.int32([2]))
    outputs = [model.add_tensor(Tensor(FLOAT, (-1, -1))) for _ in range(2)]
    for out in outputs:
        model.add_operation(OperationType.GATHER, [], [x, index, axis], [out])
    model.specify_inputs_and_outputs([x, index], outputs)
    model.finish()
    with pytest.raises(nnrt.Error) as caught:
        compiled(model)
    fault = "(GATHER): axis 2 is out of range for rank 2"
    assert str(caught.value) == (
        f"UNAVAILABLE_DEVICE: 2 rules are broken: operation 0 {fault}; operation 1 {fault}"
    )
