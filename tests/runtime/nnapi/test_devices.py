"""What the devices make of a model, and what happens where one of them can't run it."""

import gc
import tracemalloc
import weakref
from itertools import pairwise

import numpy as np
import pytest

from nnconv import backends
from nnconv.errors import BackendError
from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode, ResultCode
from support.nnapi_calls import array, execution
from support.nnapi_computed import halves, reshaped, scalar
from support.nnapi_runtime import FLOAT, REFERENCE, compiled, device, finished

DEVICES = ["onnxruntime:cpu", "litert:cpu", REFERENCE]

QUANT8 = OperandCode.TENSOR_QUANT8_ASYMM
ROWS, COLUMNS = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))
"""Every pair of codes."""


def comparison(code, first, second):
    model = nnapi.Model()
    a, b = (model.add_operand(OperandType(QUANT8, (256, 256), *q)) for q in (first, second))
    out = model.add_operand(OperandType(OperandCode.TENSOR_BOOL8, (256, 256)))
    model.add_operation(code, [a, b], [out])
    model.identify_inputs_and_outputs([a, b], [out])
    model.finish()
    return model


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((2.0, 3), (2.0, 3)),
        ((0.5, 128), (0.25, 1)),
        ((2**-11, 9), (2**-11, 9)),
        ((0.5, 1), (4.0, 0)),
    ],
)
def test_codes_are_compared_exactly(name, first, second):
    made = nnapi.Execution(compiled(comparison(OperationCode.GREATER, first, second), [name]))
    made.set_input(0, ROWS)
    made.set_input(1, COLUMNS)
    result = np.zeros((256, 256), np.uint8)
    made.set_output(0, result)
    made.compute()
    reals = [
        (codes.astype(np.float64) - point) * scale
        for codes, (scale, point) in ((ROWS, first), (COLUMNS, second))
    ]
    assert np.array_equal(result, reals[0] > reals[1])


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("offset", [0, 1])
def test_buffers_are_read_and_written_in_place_each_time(name, offset):
    room = np.zeros(3 * 24 + 1, np.uint8)[offset:]
    first, second, result = (
        room[i * 24 : (i + 1) * 24].view(np.float32).reshape(2, 3) for i in range(3)
    )
    made = nnapi.Execution(compiled(names=[name]))
    made.set_input(0, first)
    made.set_input(1, second)
    made.set_output(0, result)
    made.set_reusable(True)
    for turn in range(3):
        first[:], second[:] = array() + turn, turn
        made.compute()
        assert np.array_equal(result, array() + 2 * turn)
        assert made.get_output_operand_dimensions(0) == (2, 3)


@pytest.fixture
def broken(monkeypatch):
    """Lets one device refuse every model."""

    def choose(name):
        real = backends.compile

        def picky(model, device, **options):
            if device == name:
                raise BackendError(f"{device} fails on purpose")
            return real(model, device, **options)

        monkeypatch.setattr(backends, "compile", picky)

    return choose


def test_the_next_device_takes_what_the_first_refuses(broken):
    broken("onnxruntime:cpu")
    for names, chosen in (
        (["onnxruntime:cpu", "litert:cpu", REFERENCE], "litert:cpu"),
        (["onnxruntime:cpu", REFERENCE], REFERENCE),
    ):
        compilation = compiled(names=names)
        assert compilation.program.device_for(((2, 3), (2, 3))) == chosen
        execution(compilation).compute()


def test_no_device_but_those_chosen_is_used(broken):
    broken("litert:cpu")
    with pytest.raises(nnapi.Error, match="litert:cpu fails on purpose") as caught:
        compiled(names=["litert:cpu"])
    assert caught.value.code is ResultCode.BAD_DATA
    model = finished()
    assert model.get_supported_operations_for_devices([device("litert:cpu")]) == [False]
    both = [device("litert:cpu"), device("onnxruntime:cpu")]
    assert model.get_supported_operations_for_devices(both) == [True]


def test_the_runtime_chooses_among_all_devices(broken):
    broken("onnxruntime:cpu")
    compilation = nnapi.Compilation(finished())
    compilation.finish()
    assert compilation.program.devices[-1] == REFERENCE
    execution(compilation).compute()


def test_supported_operations_are_told_one_by_one(monkeypatch):
    model = nnapi.Model()
    kind = OperandType(OperandCode.TENSOR_FLOAT32, (2, 3))
    x, y, z = (model.add_operand(kind) for _ in range(3))
    model.add_operation(OperationCode.NEG, [x], [y])
    model.add_operation(OperationCode.ABS, [y], [z])
    model.identify_inputs_and_outputs([x], [z])
    model.finish()
    real = backends.compile

    def picky(model, device, **options):
        if any(node.op.name == "Abs" for node in model.graph.nodes):
            raise BackendError("no Abs")
        return real(model, device, **options)

    monkeypatch.setattr(backends, "compile", picky)
    asked = [device("onnxruntime:cpu")]
    assert model.get_supported_operations_for_devices(asked) == [True, False]
    asked.append(device(REFERENCE))
    assert model.get_supported_operations_for_devices(asked) == [True, True]


def test_shapes_beyond_those_kept_are_compiled_again():
    compilation = compiled(finished((0, 0)))
    for rows in [*range(1, 12), 1]:
        data = np.ones((rows, 2), np.float32)
        made = nnapi.Execution(compilation)
        kind = OperandType(OperandCode.TENSOR_FLOAT32, data.shape)
        made.set_input(0, data, kind)
        made.set_input(1, data, kind)
        result = np.zeros((rows, 2), np.float32)
        made.set_output(0, result)
        made.compute()
        assert (result == 2).all()


def test_a_model_goes_to_the_ir_and_runs_there():
    model = finished()
    run = backends.compile(model.to_ir(), REFERENCE).run
    (result,) = run({"input0": array(), "input1": array()}).values()
    assert np.array_equal(result, 2 * array())


def reshaped_part():
    """RESHAPE of a SLICE; a run says of what size, and to what shape."""
    model = nnapi.Model()
    pair = OperandType(OperandCode.TENSOR_INT32, (2,))
    x = model.add_operand(OperandType(FLOAT, (2, 3)))
    begin, size, shape = (model.add_operand(pair) for _ in range(3))
    part, out = (model.add_operand(OperandType(FLOAT, (0, 0))) for _ in range(2))
    model.set_operand_value(begin, np.int32([0, 0]))
    model.add_operation(OperationCode.SLICE, [x, begin, size], [part])
    model.add_operation(OperationCode.RESHAPE, [part, shape], [out])
    model.identify_inputs_and_outputs([x, size, shape], [out])
    model.finish()
    return model


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize(
    ("size", "shape", "result"),
    [
        ((2, 3), (3, 2), (3, 2)),
        ((2, 3), (-1, 2), (3, 2)),
        ((0, 3), (3, 0), (3, 0)),
        ((0, 3), (4, -1), (4, 0)),
        ((2, 3), (0, 3), None),
        ((2, 3), (-1, 0), None),
        ((2, 3), (7, 1), None),
        ((2, 3), (-1, -1), None),
    ],
)
def test_extents_that_a_run_gives_are_taken_as_they_are(name, size, shape, result):
    made = nnapi.Execution(compiled(reshaped_part(), [name]))
    made.set_input(0, array())
    made.set_input(1, np.int32(size))
    made.set_input(2, np.int32(shape))
    made.set_output(0, np.zeros(6, np.float32))
    if result is None:
        with pytest.raises(nnapi.Error) as caught:
            made.compute()
        assert caught.value.code is ResultCode.OP_FAILED
    else:
        made.compute()
        assert made.get_output_operand_dimensions(0) == result


@pytest.mark.parametrize("names", [[REFERENCE], DEVICES], ids=len)
def test_what_an_operation_needs_beforehand_may_be_an_input(names):
    model = nnapi.Model()
    x, out = (model.add_operand(OperandType(FLOAT, shape)) for shape in ((2, 3), (0, 0)))
    count = model.add_operand(OperandType(OperandCode.INT32))
    places = model.add_operand(OperandType(OperandCode.TENSOR_INT32, (0, 0)))
    model.add_operation(OperationCode.TOPK_V2, [x, count], [out, places])
    model.identify_inputs_and_outputs([x, count], [out])
    model.finish()
    chosen = [device(name) for name in names]
    assert model.get_supported_operations_for_devices(chosen) == [True]
    compilation = compiled(model, names)
    for number in (2, 1):
        made = nnapi.Execution(compilation)
        made.set_input(0, array())
        made.set_input(1, np.int32(number))
        result = np.zeros((2, number), np.float32)
        made.set_output(0, result)
        made.compute()
        assert np.array_equal(result, array()[:, : -number - 1 : -1])
    with pytest.raises(nnapi.Error, match="k is computed") as caught:
        compiled(model, ["onnxruntime:cpu"])
    assert caught.value.code is ResultCode.BAD_DATA


def begun(x, dimensions):
    """A model of ``x`` and of extents as floats that begins to reshape the one to the other."""
    model = nnapi.Model()
    inputs = [model.add_operand(OperandType(FLOAT, shape)) for shape in (x.shape, (2,))]
    return model, inputs, reshaped(model, *inputs, dimensions)


def halved(x, dimensions):
    """A model that reshapes ``x`` to extents that it computes, and splits that in two."""
    model, inputs, moved = begun(x, dimensions)
    parts = halves(model, moved, 0, dimensions)
    model.identify_inputs_and_outputs(inputs, parts)
    model.finish()
    return model


@pytest.mark.parametrize("names", [[REFERENCE], DEVICES], ids=len)
@pytest.mark.parametrize("dimensions", [(), (0, 0)])
def test_what_an_operation_needs_beforehand_may_be_computed_extents(names, dimensions):
    """SPLIT must know the extent that it splits."""
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    model = halved(x, dimensions)
    chosen = [device(name) for name in names]
    assert model.get_supported_operations_for_devices(chosen) == [True] * 3
    compilation = compiled(model, names)
    for shape in ((4, 3), (2, 6)):
        made = nnapi.Execution(compilation)
        made.set_input(0, x)
        made.set_input(1, np.float32(shape))
        results = [np.zeros((shape[0] // 2, shape[1]), np.float32) for _ in range(2)]
        for number, result in enumerate(results):
            made.set_output(number, result)
        made.compute()
        np.testing.assert_array_equal(np.concatenate(results), x.reshape(shape))


@pytest.mark.parametrize(
    ("extents", "fault"),
    [
        ((3, 4), r"operation 2 \(SPLIT\): extent 3 doesn't split into 2 equal parts"),
        ((4, 4), "op #1 RESHAPE"),
    ],
)
def test_an_operation_that_computed_extents_do_not_suit_is_told_by_its_number(extents, fault):
    x = np.zeros((2, 6), np.float32)
    model = halved(x, ())
    made = nnapi.Execution(compiled(model))
    made.set_input(0, x)
    made.set_input(1, np.float32(extents))
    for number in range(2):
        made.set_output(number, np.zeros(12, np.float32))
    with pytest.raises(nnapi.Error, match=fault) as caught:
        made.compute()
    assert caught.value.code is ResultCode.OP_FAILED


@pytest.mark.parametrize("names", [[REFERENCE], DEVICES], ids=len)
def test_what_an_operation_needs_beforehand_may_be_computed_numbers(names):
    """TRANSPOSE_CONV_2D must know the shape of its result, here that of ``x``."""
    model = nnapi.Model()
    x = model.add_operand(OperandType(FLOAT, (1, 2, 3, 1)))
    extents = model.add_operand(OperandType(FLOAT, (4,)))
    shape = model.add_operand(OperandType(OperandCode.TENSOR_INT32, (4,)))
    model.add_operation(OperationCode.CAST, [extents], [shape])
    weights = model.add_operand(OperandType(FLOAT, (1, 1, 1, 1)))
    model.set_operand_value(weights, np.full((1, 1, 1, 1), 6, np.float32))
    bias = model.add_operand(OperandType(FLOAT, (1,)))
    model.set_operand_value(bias, np.zeros(1, np.float32))
    settings = [scalar(model, number) for number in (2, 1, 1, 0)]
    settings.append(scalar(model, False, OperandCode.BOOL))
    out = model.add_operand(OperandType(FLOAT, (0, 0, 0, 0)))
    operands = [x, weights, bias, shape, *settings]
    model.add_operation(OperationCode.TRANSPOSE_CONV_2D, operands, [out])
    model.identify_inputs_and_outputs([x, extents], [out])
    model.finish()
    chosen = [device(name) for name in names]
    assert model.get_supported_operations_for_devices(chosen) == [True, True]
    made = nnapi.Execution(compiled(model, names))
    made.set_input(0, array().reshape(1, 2, 3, 1))
    made.set_input(1, np.float32([1, 2, 3, 1]))
    result = np.zeros((1, 2, 3, 1), np.float32)
    made.set_output(0, result)
    made.compute()
    np.testing.assert_array_equal(result[0, :, :, 0], 6 * array())


@pytest.mark.parametrize("size", [(2, 6), (0, 6), (2, 0), (0, 0)])
def test_what_is_computed_beforehand_may_have_no_elements(size):
    """SPLIT must know the extent that it splits, here of a part whose size is computed."""
    model = nnapi.Model()
    x = model.add_operand(OperandType(FLOAT, (2, 6)))
    extents = model.add_operand(OperandType(FLOAT, (2,)))
    begin, sizes = (model.add_operand(OperandType(OperandCode.TENSOR_INT32, (2,))) for _ in "ab")
    model.set_operand_value(begin, np.zeros(2, np.int32))
    part = model.add_operand(OperandType(FLOAT, ()))
    model.add_operation(OperationCode.CAST, [extents], [sizes])
    model.add_operation(OperationCode.SLICE, [x, begin, sizes], [part])
    parts = halves(model, part, axis=1)
    model.identify_inputs_and_outputs([x, extents], parts)
    model.finish()
    made = nnapi.Execution(compiled(model))
    made.set_input(0, np.zeros((2, 6), np.float32))
    made.set_input(1, np.float32(size))
    for number in range(2):
        made.set_output(number, np.zeros(12, np.float32))
    made.compute()
    for number in range(2):
        assert made.get_output_operand_dimensions(number) == (size[0], size[1] // 2)


def test_what_is_computed_beforehand_goes_once_it_is_read():
    count, x = 60, np.ones((2, 1 << 14), np.float32)
    model, inputs, moved = begun(x, ())
    parts = halves(model, moved)
    chain = [parts[0], *(model.add_operand(OperandType(FLOAT, ())) for _ in range(count))]
    for before, after in pairwise(chain):
        model.add_operation(OperationCode.NEG, [before], [after])
    model.identify_inputs_and_outputs(inputs, [chain[-1]])
    model.finish()
    made = nnapi.Execution(compiled(model))
    made.set_input(0, x)
    made.set_input(1, np.float32([2, x.shape[1]]))
    result = np.zeros((1, x.shape[1]), np.float32)
    made.set_output(0, result)
    tracemalloc.start()
    try:
        made.compute()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(result, x[:1])
    assert peak < count * result.nbytes / 2


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize(("axis", "is_there"), [(-3, False), (-2, True), (1, True), (2, False)])
def test_axes_that_a_run_gives_are_there(name, axis, is_there):
    model = nnapi.Model()
    x, out = (model.add_operand(OperandType(FLOAT, shape)) for shape in ((2, 3), (0, 0)))
    axes = model.add_operand(OperandType(OperandCode.TENSOR_INT32, (1,)))
    keep = scalar(model, 1)
    model.add_operation(OperationCode.MEAN, [x, axes, keep], [out])
    model.identify_inputs_and_outputs([x, axes], [out])
    model.finish()
    names = [name] if name == REFERENCE else [name, REFERENCE]
    made = nnapi.Execution(compiled(model, names))
    made.set_input(0, array())
    made.set_input(1, np.int32([axis]))
    result = np.zeros(6, np.float32)
    made.set_output(0, result)
    if not is_there:
        with pytest.raises(nnapi.Error, match="range") as caught:
            made.compute()
        assert caught.value.code is ResultCode.OP_FAILED
        return
    made.compute()
    wanted = array().mean(axis=axis, keepdims=True)
    assert made.get_output_operand_dimensions(0) == wanted.shape
    np.testing.assert_allclose(result[: wanted.size], wanted.ravel())


def test_runs_that_fail_keep_nothing_of_those_before():
    compilation = compiled(finished((2, 0)))
    before = []
    for columns in (4, 5, 4, 4):
        given = [np.ones((2, columns), np.float32), np.ones((2, 3), np.float32)]
        made = nnapi.Execution(compilation)
        for number, data in enumerate(given):
            made.set_input(number, data, OperandType(FLOAT, data.shape))
        made.set_output(0, np.zeros(16, np.float32))
        with pytest.raises(nnapi.Error, match="broadcast"):
            made.compute()
        before.append(weakref.ref(given[0]))
    del given, data, made
    gc.collect()
    assert sum(data() is not None for data in before) <= len({4, 5})


def test_a_device_that_needs_what_is_computed_is_told_to_lack_the_operation():
    x = np.zeros((2, 6), np.float32)
    model = halved(x, ())
    found = model.get_supported_operations_for_devices([device("onnxruntime:cpu")])
    assert found[2] is False
    with pytest.raises(nnapi.Error, match="SPLIT") as caught:
        compiled(model, ["onnxruntime:cpu"])
    assert caught.value.code is ResultCode.BAD_DATA


@pytest.mark.parametrize("names", [[REFERENCE], DEVICES, DEVICES[1:]], ids=str)
@pytest.mark.parametrize("steps", [0, 2])
def test_sequences_of_no_steps_leave_the_states(names, steps):
    model, kind = nnapi.Model(), OperandCode.TENSOR_INT32
    x, *states = (
        model.add_operand(OperandType(FLOAT, shape)) for shape in ((3, 2, 3), *[(2, 4)] * 2)
    )
    begin, end, strides = (model.add_operand(OperandType(kind, (3,))) for _ in range(3))
    model.set_operand_value(begin, np.zeros(3, np.int32))
    model.set_operand_value(strides, np.ones(3, np.int32))
    masks = [scalar(model, 0) for _ in range(3)]
    sequence = model.add_operand(OperandType(FLOAT, (0, 2, 3)))
    model.add_operation(OperationCode.STRIDED_SLICE, [x, begin, end, strides, *masks], [sequence])
    operands = [sequence]
    for state in states:
        for shape in ((4, 3), (4, 4), (4,)):
            operands.append(model.add_operand(OperandType(FLOAT, shape)))
            model.set_operand_value(operands[-1], np.ones(shape, np.float32))
        operands.append(state)
    for shape in ((0, 0, 0), (0, 0), (0, 0)):
        operands.append(model.add_operand(OperandType(FLOAT, shape)))
        model.set_operand_value(operands[-1], None)
    operands.append(scalar(model, 1))
    operands += [scalar(model, flag, OperandCode.BOOL) for flag in (True, True)]
    results = [model.add_operand(OperandType(FLOAT, ())) for _ in range(3)]
    model.add_operation(OperationCode.BIDIRECTIONAL_SEQUENCE_RNN, operands, results)
    model.identify_inputs_and_outputs([x, end, *states], results)
    model.finish()
    made = nnapi.Execution(compiled(model, names))
    before = [np.full((2, 4), number, np.float32) for number in (0.25, 0.5)]
    for number, given in enumerate(
        (np.ones((3, 2, 3), np.float32), np.int32([steps, 2, 3]), *before)
    ):
        made.set_input(number, given)
    after = [np.zeros((2, 4), np.float32) for _ in before]
    for number, room in enumerate((np.zeros(64, np.float32), *after)):
        made.set_output(number, room)
    made.compute()
    assert made.get_output_operand_dimensions(0) == (steps, 2, 8)
    for first, last in zip(before, after, strict=True):
        assert np.array_equal(first, last) == (steps == 0)
