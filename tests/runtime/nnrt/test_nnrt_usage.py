"""The programming model as a program uses it."""

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from nnconv import backends
from nnconv.errors import BackendError
from nnconv.runtime import nnrt
from nnconv.runtime.nnrt import DataType, OperationType, ReturnCode, Tensor, TensorType
from support.nnrt_runtime import (
    FLOAT,
    REFERENCE,
    add_tensors,
    array,
    built,
    compiled,
    desc,
    described,
    device_id,
    device_tensor,
    executor,
    finished,
    prepared,
)
from support.odd_buffers import ODD_BUFFERS

A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.array([[10, 20, 30], [40, 50, 60]], np.float32)


def all_names():
    return [nnrt.get_name(found) for found in nnrt.get_all_devices_id()]


def fails(code, function, *args, **options):
    with pytest.raises(nnrt.Error) as caught:
        function(*args, **options)
    assert caught.value.code is code
    return caught.value


def filled(values, dimensions=(2, 3)):
    made = device_tensor(dimensions)
    made.get_data_buffer().view(np.float32)[:] = np.asarray(values, np.float32).reshape(-1)
    return made


def content(tensor, dimensions=(2, 3)):
    count = int(np.prod(dimensions))
    return tensor.get_data_buffer().view(np.float32)[:count].reshape(dimensions)


def test_the_documented_example():
    m = nnrt.Model()
    i = m.add_tensor(nnrt.Tensor(nnrt.DataType.FLOAT32, (1, 2)))
    j = m.add_tensor(nnrt.Tensor(nnrt.DataType.FLOAT32, (1, 2)))
    p = m.add_tensor(nnrt.Tensor(nnrt.DataType.INT8, (), type=nnrt.TensorType.ADD_ACTIVATIONTYPE))
    o = m.add_tensor(nnrt.Tensor(nnrt.DataType.FLOAT32, (1, 2)))
    assert (i, j, p, o) == (0, 1, 2, 3)
    m.set_tensor_data(p, np.array(nnrt.FuseType.RELU, np.int8))
    m.add_operation(nnrt.OperationType.ADD, params=[p], inputs=[i, j], outputs=[o])
    m.specify_inputs_and_outputs([i, j], [o])
    m.finish()
    c = nnrt.Compilation(m)
    c.set_device(nnrt.get_all_devices_id()[0])
    c.build()
    tensor = nnrt.Tensor(nnrt.DataType.FLOAT32, (1, 2))
    x, y = np.array([[10, -20]], np.float32), np.zeros((1, 2), np.float32)
    e = nnrt.Executor(c)
    e.set_input(0, tensor, x)
    e.set_input(1, tensor, np.ones((1, 2), np.float32))
    e.set_output(0, y)
    e.run()
    assert y.tolist() == [[11, 0]]
    assert e.get_output_shape(0) == (1, 2)
    assert [value.shape for value in m.to_ir().inputs] == [(1, 2), (1, 2)]


@pytest.mark.parametrize("name", all_names())
@pytest.mark.parametrize("api", [1, 2])
def test_every_device_runs_with_buffers(name, api):
    made = nnrt.Executor(compiled(name=name, api=api))
    made.set_input(0, described(), A)
    made.set_input(1, described(), B)
    result = np.zeros((2, 3), np.float32)
    made.set_output(0, result)
    made.run()
    assert np.array_equal(result, A + B)
    assert made.get_output_shape(0) == (2, 3)


@pytest.mark.parametrize("name", all_names())
def test_every_device_runs_with_tensors(name):
    model = nnrt.Model()
    kind = desc()
    a, b, out = (model.add_tensor_to_model(kind) for _ in range(3))
    activation = nnrt.TensorDesc()
    activation.set_data_type(DataType.INT8)
    index = model.add_tensor_to_model(activation)
    model.set_tensor_type(index, TensorType.ADD_ACTIVATIONTYPE)
    model.set_tensor_data(index, np.int8(0))
    model.add_operation(OperationType.ADD, [index], [a, b], [out])
    model.specify_inputs_and_outputs([a, b], [out])
    model.finish()
    compilation = nnrt.Compilation(model)
    compilation.set_device(device_id(name))
    compilation.set_performance_mode(nnrt.PerformanceMode.EXTREME)
    compilation.set_priority(nnrt.Priority.HIGH)
    compilation.enable_float16(True)
    compilation.build()
    model.destroy()
    made = nnrt.Executor(compilation)
    compilation.destroy()
    assert (made.get_input_count(), made.get_output_count()) == (2, 1)
    tensors = []
    for place, values in enumerate((A, B)):
        found = made.create_input_tensor_desc(place)
        tensor = Tensor.create(device_id(name), found)
        tensor.get_data_buffer()[:] = values.reshape(-1).view(np.uint8)
        tensors.append(tensor)
    output = Tensor.create(device_id(name), made.create_output_tensor_desc(0))
    for _ in range(2):
        made.run_sync(tensors, [output])
        assert np.array_equal(content(output), A + B)
    tensors[0].get_data_buffer()[:] = 0
    made.run_sync(tensors, [output])
    assert np.array_equal(content(output), B)


def test_open_dimensions_come_with_tensors_and_out_of_the_run():
    made = nnrt.Executor(compiled(finished((-1, 3))))
    assert made.get_output_shape(0) == (-1, 3)
    assert made.get_input_dim_range(0) == ((1, 3), ((1 << 31) - 1, 3))
    for rows in (2, 4, 2):
        values = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        first, second = filled(values, (rows, 3)), filled(values, (rows, 3))
        result = Tensor.create_with_size(device_id(), desc((-1, 3)), 100)
        made.run_sync([first, second], [result])
        assert result.get_tensor_desc().get_shape() == (rows, 3)
        assert np.array_equal(content(result, (rows, 3)), 2 * values)
        assert made.get_output_shape(0) == (rows, 3)
    small = Tensor.create_with_size(device_id(), desc((-1, 3)), 20)
    fails(ReturnCode.FAILED, made.run_sync, [first, second], [small])


def test_inputs_are_copied_and_memories_are_shared():
    made = executor()
    first = A.copy()
    made.set_input(0, described(), first)
    first[:] = 0
    memory = made.allocate_input_memory(1, 32)
    memory.data[:24] = B.reshape(-1).view(np.uint8)
    made.set_input_with_memory(1, described(), memory)
    room = made.allocate_output_memory(0, 24)
    made.set_output_with_memory(0, room)
    made.run()
    assert np.array_equal(room.data.view(np.float32).reshape(2, 3), A + B)
    memory.data[:] = 0
    made.run()
    assert np.array_equal(room.data.view(np.float32).reshape(2, 3), A)
    made.destroy_output_memory(0, memory)
    assert not memory.destroyed
    made.destroy_input_memory(1, memory)
    assert memory.destroyed
    fails(ReturnCode.INVALID_PARAMETER, made.run)
    fails(ReturnCode.INVALID_PARAMETER, made.set_input_with_memory, 1, described(), memory)


@pytest.mark.parametrize("name", all_names())
def test_what_is_set_again_counts_in_the_next_run(name):
    made = nnrt.Executor(compiled(name=name))
    rooms = [np.zeros((2, 3), np.float32) for _ in range(2)]
    for turn in range(6):
        made.set_input(0, described(), A + turn)
        made.set_input(1, described(), B)
        room = rooms[turn // 2 % 2]
        made.set_output(0, room)
        made.run()
        assert np.array_equal(room, A + turn + B)
    tensors = [filled(A), filled(B)]
    outputs = [device_tensor() for _ in range(2)]
    for turn in range(6):
        output = outputs[turn // 2 % 2]
        content(tensors[0])[:] = A + turn
        made.run_sync(tensors, [output])
        assert np.array_equal(content(output), A + turn + B)
        made.run()
        assert np.array_equal(rooms[0], A + 5 + B)


def test_tensors_are_looked_at_again_when_their_descriptions_change():
    made = nnrt.Executor(compiled())
    tensors, output = [filled(A), filled(B)], device_tensor()
    made.run_sync(tensors, [output])
    output.get_tensor_desc().set_data_type(DataType.INT64)
    fails(ReturnCode.FAILED, made.run_sync, tensors, [output])
    output.get_tensor_desc().set_data_type(DataType.FLOAT32)
    made.run_sync(tensors, [output])
    tensors[1].get_tensor_desc().set_shape([3, 2])
    fails(ReturnCode.INVALID_PARAMETER, made.run_sync, tensors, [output])
    tensors[1].destroy()
    fails(ReturnCode.INVALID_PARAMETER, made.run_sync, tensors, [output])


def test_tensors_share_memory_by_descriptor():
    first = filled(A)
    again = Tensor.create_with_fd(
        device_id(), desc((1, 3)), first.get_fd(), first.get_size(), offset=12
    )
    assert again.get_offset() == 12
    assert again.get_size() == 24
    assert content(again, (1, 3)).tolist() == [[4, 5, 6]]
    content(again, (1, 3))[:] = 7
    assert content(first).tolist() == [[1, 2, 3], [7, 7, 7]]
    view = first.get_data_buffer()
    first.destroy()
    assert view.view(np.float32)[0] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_tensors_fail_where_there_are_no_more_descriptors():
    import resource

    made = []
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, limits[1]))
    try:
        error = fails(ReturnCode.NULL_PTR, lambda: made.extend(device_tensor() for _ in range(40)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert 0 < len(made) < 20
    assert "24 bytes" in str(error)
    made.clear()
    device_tensor()


def test_descriptions_tell_what_was_set():
    made = nnrt.TensorDesc()
    assert (made.get_data_type(), made.get_format()) == (DataType.UNKNOWN, nnrt.Format.NONE)
    assert (made.get_name(), made.get_shape()) == ("", ())
    made.set_name("x")
    made.set_data_type(DataType.INT64)
    made.set_shape((2, 5))
    made.set_format(nnrt.Format.ND)
    assert (made.get_name(), made.get_shape()) == ("x", (2, 5))
    assert (made.get_element_count(), made.get_byte_size()) == (10, 80)
    assert made.get_format() is nnrt.Format.ND
    made.set_shape((2, -1))
    assert made.get_byte_size() == 0
    fails(ReturnCode.DYNAMIC_SHAPE, made.get_element_count)


def test_rejected_quantization_parameters_clear_those_before():
    model = nnrt.Model()
    index = model.add_tensor(described(kind=DataType.INT8))
    param = nnrt.QuantParam.create()
    param.set_scales([0.5, 0.25])
    param.set_zero_points([0, 1])
    param.set_num_bits([8, 8])
    model.set_tensor_quant_params(index, param)
    assert model.graph.tensors[index].quant.scales == (0.5, 0.25)
    param.destroy()
    assert model.graph.tensors[index].quant.zero_points == (0, 1)
    wrong = nnrt.QuantParam(0.5, 0, 4)
    fails(ReturnCode.INVALID_PARAMETER, model.set_tensor_quant_params, index, wrong)
    assert model.graph.tensors[index].quant is None
    model.set_tensor_quant_params(index, nnrt.QuantParam())
    assert model.graph.tensors[index].quant is None
    one = model.add_tensor(Tensor(DataType.INT8, (2,), nnrt.QuantParam([0.5], [3], [8])))
    assert model.graph.tensors[one].quant.scales == (0.5,)


def test_data_is_copied_and_given_once():
    model = nnrt.Model()
    index = model.add_tensor(described())
    data = A.copy()
    model.set_tensor_data(index, data)
    data[:] = 0
    assert np.array_equal(model.graph.tensors[index].data, A)
    fails(ReturnCode.INVALID_PARAMETER, model.set_tensor_data, index, data)


def test_a_failed_finish_leaves_a_model_that_is_finished_and_of_no_use():
    model = nnrt.Model()
    x, scale, bias, y = (model.add_tensor(described()) for _ in range(4))
    model.add_operation(OperationType.SCALE, [], [x, scale, bias], [y])
    model.specify_inputs_and_outputs([x, scale, bias], [y])
    error = fails(ReturnCode.FAILED, model.finish)
    assert "SCALE_AXIS" in str(error)
    fails(ReturnCode.OPERATION_FORBIDDEN, model.finish)
    fails(ReturnCode.OPERATION_FORBIDDEN, model.add_tensor, described())
    fails(ReturnCode.OPERATION_FORBIDDEN, model.to_ir)
    fails(ReturnCode.INVALID_PARAMETER, prepared(model).build)


def test_a_finished_model_takes_no_tensors():
    fails(ReturnCode.OPERATION_FORBIDDEN, finished().add_tensor_to_model, desc())


def test_a_destroyed_model_is_not_built():
    model = finished()
    compilation = prepared(model)
    model.destroy()
    fails(ReturnCode.INVALID_PARAMETER, compilation.build)


def test_versions_differ_in_when_settings_are_checked():
    old, new = nnrt.Compilation(finished(api=1)), nnrt.Compilation(finished())
    new.set_priority(9)
    fails(ReturnCode.OPERATION_FORBIDDEN, old.set_priority, 1)
    old.set_device(device_id())
    fails(ReturnCode.INVALID_PARAMETER, old.set_priority, 9)
    fails(ReturnCode.INVALID_PARAMETER, old.set_device, 0)
    new.set_device(0)
    fails(ReturnCode.INVALID_PARAMETER, new.build)
    old.build()
    fails(ReturnCode.OPERATION_FORBIDDEN, old.build)
    fails(ReturnCode.NULL_PTR, nnrt.Compilation, built(api=1))
    nnrt.Compilation(built())


def test_an_unknown_version_is_refused():
    fails(ReturnCode.NULL_PTR, nnrt.Model, api=3)
    fails(ReturnCode.INVALID_PARAMETER, nnrt.get_name, 0, api=0)


def test_v1_tells_output_shapes_after_runs_alone():
    made = executor(api=1)
    fails(ReturnCode.OPERATION_FORBIDDEN, made.get_output_shape, 0)
    made.run()
    assert made.get_output_shape(0) == (2, 3)
    made.set_input(0, described(), array())
    fails(ReturnCode.OPERATION_FORBIDDEN, made.get_output_shape, 0)


def test_scalars_run_with_buffers_in_v1():
    made = nnrt.Executor(compiled(finished((), api=1), api=1))
    for place in range(2):
        made.set_input(place, described(()), np.float32(3))
    result = np.zeros((), np.float32)
    made.set_output(0, result)
    made.run()
    assert result == 6
    assert made.get_output_shape(0) == ()


def test_without_a_device_the_first_is_taken():
    first = nnrt.Compilation(finished())
    first.build()
    made = executor(first)
    made.run()
    assert made.get_output_shape(0) == (2, 3)
    assert nnrt.get_name(0) == nnrt.get_name(nnrt.get_all_devices_id()[0])
    assert all_names()[-1] == REFERENCE
    assert nnrt.get_type(0) is nnrt.DeviceType.CPU


def test_available_operations_are_told_one_by_one():
    model = nnrt.Model()
    a, b, activation, middle = add_tensors(model)
    model.add_operation(OperationType.ADD, [activation], [a, b], [middle])
    truth, wrong = (model.add_tensor(described(kind=DataType.BOOL)) for _ in range(2))
    model.add_operation(OperationType.SIGMOID, [], [truth], [wrong])
    model.specify_inputs_and_outputs([a, b, truth], [middle, wrong])
    model.finish()
    for found in nnrt.get_all_devices_id():
        assert model.get_available_operations(found) == [True, False]
    fails(ReturnCode.FAILED, prepared(model).build)


def test_extension_settings_of_one_name_are_appended():
    made = prepared()
    made.add_extension_config("x", b"one")
    made.add_extension_config("x", b"two")
    assert made._extensions == {"x": b"one|two"}


def test_executors_of_one_compilation_run_in_threads():
    compilation = compiled(name=all_names()[0])
    results = {}

    def work(number):
        made = nnrt.Executor(compilation)
        room = np.zeros((2, 3), np.float32)
        made.set_output(0, room)
        made.set_input(1, described(), B)
        for turn in range(20):
            made.set_input(0, described(), A + number + turn)
            made.run()
            if not np.array_equal(room, A + number + turn + B):
                return
        results[number] = room

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results.keys() == set(range(8))


def test_one_executor_may_be_run_by_threads_at_once():
    made = nnrt.Executor(compiled(finished((-1, 3))))
    wrong = []

    def work(rows):
        values = np.full((rows, 3), rows, np.float32)
        first, second = filled(values, (rows, 3)), filled(values, (rows, 3))
        result = Tensor.create_with_size(device_id(), desc((-1, 3)), 400)
        for _ in range(10):
            made.run_sync([first, second], [result])
            if not np.array_equal(content(result, (rows, 3)), 2 * values):
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def two_operations(second, kind=FLOAT, dimensions=(2, 3), api=2):
    """ADD, and an operation on its result."""
    model = nnrt.Model(api=api)
    a, b, activation, middle = add_tensors(model)
    out = model.add_tensor(Tensor(kind, dimensions))
    model.add_operation(OperationType.ADD, [activation], [a, b], [middle])
    model.add_operation(second, [], [middle], [out])
    model.specify_inputs_and_outputs([a, b], [out])
    model.finish()
    return model


@pytest.mark.parametrize(("api", "code"), [(1, "UNAVALIDABLE_DEVICE"), (2, "UNAVAILABLE_DEVICE")])
def test_what_makes_no_sense_fails_when_it_is_built(api, code):
    model = two_operations(OperationType.RELU, dimensions=(3, 3), api=api)
    error = fails(ReturnCode[code], prepared(model).build)
    assert "[3, 3]" in str(error)


def refuse_op(monkeypatch, name, op):
    """Let a device refuse models with an op."""
    inner = backends.compile

    def compile_unless(model, device, **options):
        graph = getattr(model, "graph", None)
        if device == name and graph is not None:
            refused = [node for node in graph.nodes if type(node.op).__name__ == op]
            if refused:
                raise BackendError(f"{name} refuses {op}")
        return inner(model, device, **options)

    monkeypatch.setattr(backends, "compile", compile_unless)


def test_others_help_the_first_device_but_not_one_that_was_chosen(monkeypatch):
    first = all_names()[0]
    refuse_op(monkeypatch, first, "Clip")
    model = two_operations(OperationType.RELU)
    assert model.get_available_operations(0) == [True, False]
    chosen = nnrt.Compilation(model)
    chosen.set_device(device_id(first))
    fails(ReturnCode.FAILED, chosen.build)
    for device in (None, 0):
        made = nnrt.Compilation(model)
        if device is not None:
            made.set_device(device)
        made.build()
        ready = executor(made)
        result = np.zeros((2, 3), np.float32)
        ready.set_output(0, result)
        ready.run()
        assert np.array_equal(result, 2 * array())


@pytest.mark.parametrize("make", [np.asarray, memoryview])
def test_buffers_in_another_byte_order_are_refused(make):
    swapped = make(np.zeros((2, 3), np.dtype(np.float32).newbyteorder()))
    made = nnrt.Executor(compiled())
    fails(ReturnCode.INVALID_PARAMETER, made.set_input, 0, Tensor(FLOAT, (2, 3)), swapped)
    fails(ReturnCode.INVALID_PARAMETER, made.set_output, 0, swapped)


@pytest.mark.parametrize("make", ODD_BUFFERS)
def test_what_gives_no_bytes_is_refused(make):
    made = nnrt.Executor(compiled())
    fails(ReturnCode.INVALID_PARAMETER, made.set_input, 0, Tensor(FLOAT, (2, 3)), make())
    fails(ReturnCode.INVALID_PARAMETER, made.set_output, 0, make())
