"""Memories: parts of files, and those made for roles."""

import mmap
import os

import numpy as np
import pytest

from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandType, OperationCode, ResultCode
from support.nnapi_calls import SIZE, array
from support.nnapi_runtime import FLOAT, add_operands, compiled, finished


@pytest.fixture
def file(tmp_path):
    """The descriptor of a file: two inputs of the default model, then zeros."""
    path = tmp_path / "data"
    path.write_bytes(array().tobytes() * 2 + bytes(4096 - 2 * SIZE))
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    yield descriptor
    os.close(descriptor)


def content(file, offset):
    os.lseek(file, offset, os.SEEK_SET)
    return np.frombuffer(os.read(file, SIZE), np.float32).reshape(2, 3)


def failure(action):
    with pytest.raises(nnapi.Error) as caught:
        action()
    return caught.value.code


def test_inputs_and_outputs_in_a_file(file):
    memory = nnapi.Memory.create_from_fd(4096, 3, file, 0)
    made = nnapi.Execution(compiled())
    made.set_input_from_memory(0, memory, 0, SIZE)
    made.set_input_from_memory(1, memory, SIZE, SIZE)
    made.set_output_from_memory(0, memory, 2 * SIZE, SIZE)
    made.compute()
    assert np.array_equal(content(file, 2 * SIZE), 2 * array())


def test_the_descriptor_may_be_closed_once_the_memory_is_made(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(array().tobytes())
    with path.open("rb") as source:
        memory = nnapi.Memory.create_from_fd(SIZE, 1, source.fileno(), 0)
    made = nnapi.Execution(compiled())
    made.set_input_from_memory(0, memory, 0, SIZE)
    made.set_input(1, array())
    result = np.zeros((2, 3), np.float32)
    made.set_output(0, result)
    made.compute()
    assert np.array_equal(result, 2 * array())


@pytest.mark.parametrize("kind", [int, np.int64, np.array])
def test_values_of_a_model_from_a_file(file, kind):
    memory = nnapi.Memory.create_from_fd(4096, 1, file, 0)
    model = nnapi.Model()
    a, b, activation, out = add_operands(model)
    model.set_operand_value_from_memory(kind(b), memory, SIZE, SIZE)
    model.set_operand_value(kind(activation), np.int32(0))
    model.add_operation(OperationCode.ADD, [a, b, activation], [out])
    model.identify_inputs_and_outputs([a], [out])
    model.finish()
    made = nnapi.Execution(compiled(model))
    made.set_input(0, array())
    result = np.zeros((2, 3), np.float32)
    made.set_output(0, result)
    made.compute()
    assert np.array_equal(result, 2 * array())


@pytest.mark.parametrize(
    ("size", "protection", "offset"),
    [(8192, 3, 0), (16, 0, 0), (0, 1, 0), (16, 1, 1), (16, 1, mmap.ALLOCATIONGRANULARITY)],
)
def test_what_cannot_be_mapped_shows_when_it_is_used(file, size, protection, offset):
    memory = nnapi.Memory.create_from_fd(size, protection, file, offset)
    assert failure(lambda: memory.copy(nnapi.Memory.create_from_fd(size, 3, file, 0))) is (
        ResultCode.UNMAPPABLE
    )


def test_a_memory_to_be_read_is_no_output(file):
    made = nnapi.Execution(compiled())
    made.set_input(0, array())
    made.set_input(1, array())
    made.set_output_from_memory(0, nnapi.Memory.create_from_fd(SIZE, 1, file, 0), 0, SIZE)
    assert failure(made.compute) is ResultCode.UNMAPPABLE


def roles(first, second):
    """A memory that is an output of one compilation and an input of another."""
    desc = nnapi.MemoryDesc()
    desc.add_output_role(first, 0, 1.0)
    desc.add_input_role(second, 0, 0.5)
    desc.finish()
    return nnapi.Memory.create_from_desc(desc)


def run_into(compilation, memory, first=None):
    made = nnapi.Execution(compilation)
    made.set_input(0, array() if first is None else first)
    made.set_input(1, array())
    made.set_output_from_memory(0, memory, 0, 0)
    return made


def test_a_memory_hands_a_result_on():
    first, second = compiled(), compiled()
    memory = roles(first, second)
    run_into(first, memory).compute()
    made = nnapi.Execution(second)
    made.set_input_from_memory(0, memory, 0, 0)
    made.set_input(1, array())
    result = np.zeros((2, 3), np.float32)
    made.set_output(0, result)
    made.compute()
    assert np.array_equal(result, 3 * array())


def test_content_is_copied_to_and_fro(file):
    first, second = compiled(), compiled()
    memory, other = roles(first, second), roles(first, second)
    plain = nnapi.Memory.create_from_fd(SIZE, 3, file, 0)
    assert failure(lambda: memory.copy(plain)) is ResultCode.BAD_DATA
    memory.copy(memory)
    plain.copy(memory)
    memory.copy(other)
    assert np.array_equal(other.bytes().view(np.float32).reshape(2, 3), array())
    run_into(first, memory).compute()
    memory.copy(plain)
    assert np.array_equal(content(file, 0), 2 * array())


def test_a_failed_run_leaves_a_memory_without_content(monkeypatch):
    first = compiled()
    memory = roles(first, compiled())
    run_into(first, memory).compute()
    assert memory.defined
    made = run_into(first, memory)

    def fail(*_):
        raise nnapi.Error(ResultCode.OP_FAILED, "on purpose")

    monkeypatch.setattr(first.program, "run", fail)
    assert failure(made.compute) is ResultCode.OP_FAILED
    assert not memory.defined


def for_output(compilation, dimensions):
    """A memory for the output of a compilation, with dimensions that its model leaves open."""
    desc = nnapi.MemoryDesc()
    desc.add_output_role(compilation, 0, 1.0)
    desc.set_dimensions(dimensions)
    desc.finish()
    return nnapi.Memory.create_from_desc(desc)


def test_the_descriptor_fills_in_dimensions():
    first = compiled(finished((0, 3)))
    memory = for_output(first, (2, 0))
    made = nnapi.Execution(first)
    kind = OperandType(FLOAT, (2, 3))
    made.set_input(0, array(), kind)
    made.set_input(1, array(), kind)
    made.set_output_from_memory(0, memory, 0, 0)
    made.compute()
    assert np.array_equal(memory.bytes().view(np.float32).reshape(2, 3), 2 * array())


def test_a_failed_copy_leaves_a_memory_without_content(file):
    first = compiled()
    source, empty, memory = (roles(first, compiled()) for _ in range(3))
    plain = nnapi.Memory.create_from_fd(SIZE, 3, file, 0)
    failing = (
        (empty, ResultCode.BAD_DATA),
        (nnapi.Memory.create_from_fd(SIZE - 4, 3, file, 0), ResultCode.BAD_DATA),
        (nnapi.Memory.create_from_fd(SIZE, 0, file, 0), ResultCode.UNMAPPABLE),
        (roles(compiled(finished((3, 2))), compiled(finished((3, 2)))), ResultCode.BAD_DATA),
    )
    for broken, code in failing:
        plain.copy(source)
        source.copy(memory)
        assert failure(lambda broken=broken: broken.copy(memory)) is code
        assert failure(lambda: memory.copy(plain)) is ResultCode.BAD_DATA, "it holds nothing"


def test_a_run_that_cannot_begin_leaves_a_memory_without_content():
    first = compiled()
    memory = roles(first, compiled())
    for action in ("compute", "start_compute"):
        run_into(first, memory).compute()
        made = nnapi.Execution(first)
        made.set_output_from_memory(0, memory, 0, 0)
        assert failure(getattr(made, action)) is ResultCode.BAD_DATA
        assert not memory.defined


def test_a_memory_holds_results_of_its_dimensions_alone():
    first = compiled(finished((0, 3)))
    memory = for_output(first, (4, 3))
    codes = {2: ResultCode.OP_FAILED, 4: None, 5: ResultCode.OUTPUT_INSUFFICIENT_SIZE}
    for rows, code in codes.items():
        made = nnapi.Execution(first)
        for index in (0, 1):
            made.set_input(index, np.ones((rows, 3), np.float32), OperandType(FLOAT, (rows, 3)))
        made.set_output_from_memory(0, memory, 0, 0)
        if code is None:
            made.compute()
        else:
            assert failure(made.compute) is code
        assert memory.defined is (code is None)
