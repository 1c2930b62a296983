"""Models as values for NNAPI's IF and WHILE: bodies of one element, and running them."""

import numpy as np

from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode
from support.nnapi_runtime import FLOAT

BOOL = OperandCode.TENSOR_BOOL8
ONE = (1,)


def unary(code, kind=FLOAT, shape=ONE):
    """A model of one operation."""
    model = nnapi.Model()
    x, y = (model.add_operand(OperandType(kind, shape)) for _ in range(2))
    model.add_operation(code, [x], [y])
    model.identify_inputs_and_outputs([x], [y])
    model.finish()
    return model


def below(limit):
    """Whether the input is below a limit."""
    model = nnapi.Model()
    x, bound = (model.add_operand(OperandType(FLOAT, ONE)) for _ in range(2))
    out = model.add_operand(OperandType(BOOL, ONE))
    model.set_operand_value(bound, np.array([limit], np.float32))
    model.add_operation(OperationCode.LESS, [x, bound], [out])
    model.identify_inputs_and_outputs([x], [out])
    model.finish()
    return model


def plus(step):
    """The input and a step more."""
    model = nnapi.Model()
    x, more, out = (model.add_operand(OperandType(FLOAT, ONE)) for _ in range(3))
    activation = model.add_operand(OperandType(OperandCode.INT32))
    model.set_operand_value(more, np.array([step], np.float32))
    model.set_operand_value(activation, np.int32(0))
    model.add_operation(OperationCode.ADD, [x, more, activation], [out])
    model.identify_inputs_and_outputs([x], [out])
    model.finish()
    return model


def loop(condition, body):
    model = nnapi.Model()
    first, second = (model.add_operand(OperandType(OperandCode.MODEL)) for _ in range(2))
    x, out = (model.add_operand(OperandType(FLOAT, ONE)) for _ in range(2))
    model.set_operand_value_from_model(first, condition)
    model.set_operand_value_from_model(second, body)
    model.add_operation(OperationCode.WHILE, [first, second, x], [out])
    model.identify_inputs_and_outputs([x], [out])
    model.finish()
    return model


def choice(then, otherwise, *, flag=None):
    """One of two models, by a flag that is known or the first input."""
    model = nnapi.Model()
    told = model.add_operand(OperandType(BOOL, ONE))
    first, second = (model.add_operand(OperandType(OperandCode.MODEL)) for _ in range(2))
    x, out = (model.add_operand(OperandType(FLOAT, ONE)) for _ in range(2))
    model.set_operand_value_from_model(first, then)
    model.set_operand_value_from_model(second, otherwise)
    model.add_operation(OperationCode.IF, [told, first, second, x], [out])
    if flag is not None:
        model.set_operand_value(told, np.uint8([flag]))
    model.identify_inputs_and_outputs([told, x] if flag is None else [x], [out])
    model.finish()
    return model


def run(compilation, *inputs, loop_timeout=None, timeout=None):
    made = nnapi.Execution(compilation)
    for index, data in enumerate(inputs):
        made.set_input(index, np.asarray(data))
    result = np.zeros(ONE, np.float32)
    made.set_output(0, result)
    if loop_timeout is not None:
        made.set_loop_timeout(loop_timeout)
    if timeout is not None:
        made.set_timeout(timeout)
    made.compute()
    return result.tolist()
