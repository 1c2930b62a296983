"""Models as values: IF and WHILE, and loops that don't end."""

import numpy as np
import pytest

from nnconv.formats.nnapi.wire import Lifetime
from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode, ResultCode
from support.nnapi_loops import BOOL, ONE, below, choice, loop, plus, run, unary
from support.nnapi_runtime import FLOAT, REFERENCE, compiled

DEVICES = [REFERENCE, "onnxruntime:cpu"]


@pytest.mark.parametrize("name", DEVICES)
def test_a_loop_turns_until_its_condition_is_false(name):
    compilation = compiled(loop(below(10), plus(3)), [name])
    assert run(compilation, np.float32([1])) == [10]
    assert run(compilation, np.float32([11])) == [11]


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("flag", [0, 1, 255])
def test_any_byte_but_0_is_true(name, flag):
    compilation = compiled(choice(unary(OperationCode.NEG), plus(1)), [name])
    assert run(compilation, np.uint8([flag]), np.float32([5])) == [-5 if flag else 6]


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("limit", ["loop_timeout", "timeout"])
def test_a_loop_without_end_is_stopped(name, limit):
    compilation = compiled(loop(below(np.inf), plus(0)), [name])
    with pytest.raises(nnapi.Error) as caught:
        run(compilation, np.float32([1]), **{limit: 50_000_000})
    assert caught.value.code is ResultCode.MISSED_DEADLINE_TRANSIENT


def test_the_longest_time_of_a_loop_is_the_maximum():
    made = nnapi.Execution(compiled(loop(below(10), plus(3))))
    assert made._loop_timeout == nnapi.get_default_loop_timeout()
    made.set_loop_timeout((1 << 64) - 1)
    assert made._loop_timeout == nnapi.get_maximum_loop_timeout()


def test_models_in_models_in_models():
    body = choice(unary(OperationCode.NEG), plus(1))
    inner = loop(below(10), plus(3))
    outer = nnapi.Model()
    flag = outer.add_operand(OperandType(BOOL, ONE))
    values = [outer.add_operand(OperandType(OperandCode.MODEL)) for _ in range(2)]
    x, out = (outer.add_operand(OperandType(FLOAT, ONE)) for _ in range(2))
    outer.set_operand_value_from_model(values[0], inner)
    outer.set_operand_value_from_model(values[1], inner)
    outer.add_operation(OperationCode.IF, [flag, *values, x], [out])
    outer.identify_inputs_and_outputs([flag, x], [out])
    outer.finish()
    assert len(outer.wire.referenced) == 3, "a model that is used twice is there once"
    assert run(compiled(outer), np.uint8([1]), np.float32([2])) == [11]
    assert all(
        operand.value == place
        for operand, place in zip(body.graph.operands[1:3], (0, 1), strict=True)
        if operand.lifetime is Lifetime.MODEL
    )


def test_each_model_is_there_once():
    first, second = plus(1), plus(10)
    for _ in range(8):
        first, second = choice(first, second, flag=True), choice(first, second, flag=False)
    assert len(first.wire.referenced) == 2 * 8
    outer = choice(first, second)
    assert len(outer.wire.referenced) == 2 * 9
    for flag, result in ((1, 3), (0, 12)):
        assert run(compiled(outer), np.uint8([flag]), np.float32([2])) == [result]


def test_a_device_that_cannot_stop_a_loop_runs_its_turns_alone():
    model = loop(below(10), plus(3))
    for names in (["litert:cpu", REFERENCE], ["litert:cpu"]):
        compilation = compiled(model, names)
        assert compilation.program.device_for((ONE,)) == "litert:cpu"
        assert run(compilation, np.float32([1])) == [10]


@pytest.mark.parametrize("limit", ["loop_timeout", "timeout"])
def test_a_loop_in_pieces_is_stopped(limit):
    compilation = compiled(loop(below(np.inf), plus(0)), ["litert:cpu"])
    with pytest.raises(nnapi.Error) as caught:
        run(compilation, np.float32([1]), **{limit: 50_000_000})
    assert caught.value.code is ResultCode.MISSED_DEADLINE_TRANSIENT


@pytest.mark.parametrize("name", [*DEVICES, "litert:cpu"])
def test_a_loop_without_any_time_is_stopped(name):
    compilation = compiled(loop(below(3), plus(1)), [name])
    with pytest.raises(nnapi.Error) as caught:
        run(compilation, np.float32([1]), loop_timeout=0)
    assert caught.value.code is ResultCode.MISSED_DEADLINE_TRANSIENT
