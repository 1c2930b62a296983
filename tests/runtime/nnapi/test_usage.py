"""The programming model as a program uses it."""

import threading
import time
from unittest.mock import Mock

import numpy as np
import pytest
from nnconv.backends.base import NNAPI_LEVEL

from nnconv.formats.nnapi.types import NEWEST_LEVEL
from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode, ResultCode
from support.nnapi_runtime import FLOAT, built, compiled, device, finished
from support.odd_buffers import ODD_BUFFERS

A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.array([[10, 20, 30], [40, 50, 60]], np.float32)


def execution(compilation, first=A, second=B):
    made = nnapi.Execution(compilation)
    made.set_input(0, first)
    made.set_input(1, second)
    result = np.zeros((2, 3), np.float32)
    made.set_output(0, result)
    return made, result


def all_devices():
    return [nnapi.get_device(i).get_name() for i in range(nnapi.get_device_count())]


def test_the_documented_example():
    m = nnapi.Model()
    i = m.add_operand(OperandType(OperandCode.TENSOR_FLOAT32, (1, 2)))
    j = m.add_operand(OperandType(OperandCode.TENSOR_FLOAT32, (2,)))
    a = m.add_operand(OperandType(OperandCode.INT32))
    o = m.add_operand(OperandType(OperandCode.TENSOR_FLOAT32, (1, 2)))
    assert (i, j, a, o) == (0, 1, 2, 3)
    m.set_operand_value(j, np.array([1, 2], np.float32))
    m.set_operand_value(a, np.array(nnapi.FuseCode.NONE, np.int32))
    m.add_operation(OperationCode.ADD, [i, j, a], [o])
    m.identify_inputs_and_outputs([i], [o])
    m.relax_computation_float32_to_float16(True)
    m.finish()
    c = nnapi.Compilation(m)
    c.set_preference(nnapi.PreferenceCode.FAST_SINGLE_ANSWER)
    c.finish()
    x, y = np.array([[10, 20]], np.float32), np.zeros((1, 2), np.float32)
    e = nnapi.Execution(c)
    e.set_input(0, x)
    e.set_output(0, y)
    e.compute()
    assert y.tolist() == [[11, 22]]
    assert e.get_output_operand_rank(0) == 2
    assert e.get_output_operand_dimensions(0) == (1, 2)
    again = nnapi.Execution(c)
    again.set_input(0, x)
    again.set_output(0, y)
    y[:] = 0
    event = again.start_compute()
    event.wait()
    event.wait()
    assert y.tolist() == [[11, 22]]
    assert isinstance(nnapi.get_device(0).get_name(), str)
    assert [v.shape for v in m.to_ir().inputs] == [(1, 2)]


def test_the_reference_is_the_last_device():
    assert all_devices()[-1] == "reference"
    assert len(set(all_devices())) == nnapi.get_device_count()
    last = device("reference")
    assert last.get_type() is nnapi.DeviceTypeCode.CPU
    assert last.get_feature_level() == nnapi.get_runtime_feature_level()
    assert NNAPI_LEVEL == NEWEST_LEVEL
    assert last.get_version()
    last.wait()


@pytest.mark.parametrize("name", all_devices())
def test_every_device_computes(name):
    assert finished().get_supported_operations_for_devices([device(name)]) == [True]
    made, result = execution(compiled(names=[name]))
    made.compute()
    assert np.array_equal(result, A + B)


def test_a_reusable_execution_reads_its_buffers_each_time():
    first = A.copy()
    made, result = execution(compiled(), first)
    made.set_reusable(True)
    made.compute()
    first[:] = 0
    made.compute()
    assert np.array_equal(result, B)
    made.start_compute().wait()
    burst = nnapi.Burst(made._compilation)
    made.burst_compute(burst)
    made.start_compute_with_dependencies([]).wait()
    assert np.array_equal(result, B)


def test_dimensions_come_with_the_call_and_out_of_the_run():
    compilation = compiled(finished((0, 3)))
    made = nnapi.Execution(compilation)
    kind = OperandType(FLOAT, (2, 3))
    made.set_input(0, A, kind)
    made.set_input(1, B, type=kind)
    result = np.zeros((4, 3), np.float32)
    made.set_output(0, result)
    made.compute()
    assert made.get_output_operand_dimensions(0) == (2, 3)
    assert np.array_equal(result[:2], A + B)
    assert not result[2:].any()


def test_a_short_buffer_still_tells_the_dimensions():
    made = nnapi.Execution(compiled(finished(())))
    kind = OperandType(FLOAT, (2, 3))
    made.set_input(0, A, kind)
    made.set_input(1, B, kind)
    made.set_output(0, np.zeros(2, np.float32))
    with pytest.raises(nnapi.Error) as caught:
        made.compute()
    assert caught.value.code is ResultCode.OUTPUT_INSUFFICIENT_SIZE
    with pytest.raises(nnapi.Error) as caught:
        made.get_output_operand_dimensions(0)
    assert caught.value.code is ResultCode.OUTPUT_INSUFFICIENT_SIZE
    assert caught.value.dimensions == (2, 3)


def test_small_values_are_copied_and_large_ones_are_not():
    model = nnapi.Model()
    small, large = np.zeros(32, np.float32), np.zeros(33, np.float32)
    for value in (small, large):
        index = model.add_operand(OperandType(FLOAT, value.shape))
        model.set_operand_value(index, value)
        value[0] = 7
    kept = [operand.data[0] for operand in model.graph.operands]
    assert kept == [0, 7]


def test_an_execution_is_made_from_threads_at_once():
    compilation = compiled()
    made = [execution(compilation, A + i) for i in range(8)]
    events = [each.start_compute() for each, _ in made]
    for event in events:
        event.wait()
    assert all(np.array_equal(result, A + i + B) for i, (_, result) in enumerate(made))


def test_fenced_computations_wait_for_one_another():
    compilation = compiled()
    first, middle = execution(compilation)
    second = nnapi.Execution(compilation)
    second.set_input(0, middle)
    second.set_input(1, B)
    result = np.zeros((2, 3), np.float32)
    second.set_output(0, result)
    event = second.start_compute_with_dependencies([first.start_compute()])
    event.wait()
    assert np.array_equal(result, A + B + B)


def test_timing():
    made, _ = execution(compiled())
    made.set_measure_timing(True)
    made.compute()
    hardware, driver = (made.get_duration(code) for code in (0, 1))
    assert 0 < hardware <= driver


def test_padding_lets_buffers_be_longer():
    made = nnapi.Execution(compiled())
    made.enable_input_and_output_padding(True)
    long = np.zeros(16, np.float32)
    long[:6] = A.reshape(-1)
    made.set_input(0, long)
    made.set_input(1, B)
    result = np.full(16, 9, np.float32)
    made.set_output(0, result)
    made.compute()
    assert np.array_equal(result[:6].reshape(2, 3), A + B)
    assert set(result[6:]) == {9}


def test_operations_are_sorted_when_the_model_is_finished():
    model = built()
    middle = model.graph.outputs[0]
    assert model.graph.operands[middle].dimensions == (2, 3)
    chained = nnapi.Model()
    kind = OperandType(FLOAT, (2, 3))
    x, y, z = (chained.add_operand(kind) for _ in range(3))
    chained.add_operation(OperationCode.ABS, [y], [z])
    chained.add_operation(OperationCode.NEG, [x], [y])
    chained.identify_inputs_and_outputs([x], [z])
    chained.finish()
    made = nnapi.Execution(compiled(chained))
    made.set_input(0, A)
    result = np.zeros((2, 3), np.float32)
    made.set_output(0, result)
    made.compute()
    assert np.array_equal(result, A)


@pytest.mark.parametrize("make", [np.asarray, memoryview])
def test_buffers_in_another_byte_order_are_refused(make):
    swapped = make(np.zeros((2, 3), np.dtype(np.float32).newbyteorder()))
    made = nnapi.Execution(compiled())
    for setter in (made.set_input, made.set_output):
        with pytest.raises(nnapi.Error, match="byte order") as caught:
            setter(0, swapped)
        assert caught.value.code is ResultCode.BAD_DATA


@pytest.mark.parametrize("make", ODD_BUFFERS)
def test_what_gives_no_bytes_is_refused(make):
    made = nnapi.Execution(compiled())
    for setter in (made.set_input, made.set_output):
        with pytest.raises(nnapi.Error) as caught:
            setter(0, make())
        assert caught.value.code is ResultCode.BAD_DATA


def test_a_timeout_counts_what_is_waited_for():
    made, _ = execution(compiled())
    made.set_timeout(50_000_000)
    slow = nnapi.Event.of(lambda: time.sleep(0.1))
    event = made.start_compute_with_dependencies([slow])
    with pytest.raises(nnapi.Error) as caught:
        event.wait()
    assert caught.value.code is ResultCode.MISSED_DEADLINE_TRANSIENT


def test_without_threads_nothing_starts(monkeypatch):
    made, result = execution(compiled())
    made.set_reusable(True)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("no more threads")))
        with pytest.raises(nnapi.Error, match="no more threads") as caught:
            made.start_compute()
    assert caught.value.code is ResultCode.RESOURCE_EXHAUSTED_TRANSIENT
    made.start_compute().wait()
    assert np.array_equal(result, A + B)


def test_what_is_interrupted_has_failed(monkeypatch):
    compilation = compiled()
    made, result = execution(compilation)
    made.set_reusable(True)
    waited = nnapi.Event.of(lambda: None)
    starts = (
        (compilation.program, "run", made.compute),
        (waited, "demand_success", lambda: made.start_compute_with_dependencies([waited])),
    )
    for owner, name, start in starts:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                start()
        with pytest.raises(nnapi.Error, match="interrupted"):
            made.get_output_operand_rank(0)
        made.compute()
        assert np.array_equal(result, A + B)


def test_an_error_of_several_faults_is_told_on_one_line():
    with pytest.raises(nnapi.Error) as caught:
        nnapi.Model().finish()
    text = str(caught.value)
    assert "\\n" not in text
    assert text.startswith(
        "BAD_DATA: 2 rules of NNAPI at feature level 8 are broken: the graph: "
    ), text
    assert text.count("; the graph: ") == 1
