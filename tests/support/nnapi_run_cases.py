"""What breaks the rules on memories, executions and their results."""

import numpy as np

from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode
from support import nnapi_calls as calls
from support.nnapi_calls import SIZE, Call, array, computed, descriptor, event, execution
from support.nnapi_cases import case, setting
from support.nnapi_runtime import FLOAT, compiled, finished

# ------------------------------------------------------------------------ helpers


def open_execution(room: int = 6) -> nnapi.Execution:
    """An execution whose output's dimensions only the run tells."""
    made = nnapi.Execution(compiled(finished((0, 3))))
    kind = OperandType(FLOAT, (2, 3))
    made.set_input(0, array(), kind)
    made.set_input(1, array(), kind)
    made.set_output(0, np.zeros(room, np.float32))
    return made


def misfit() -> nnapi.Model:
    """ADD of what can't be broadcast, which only shows when it is computed."""
    model = nnapi.Model()
    shapes = ((2, 3), (2, 2), (2, 3))
    a, b, out = (model.add_operand(OperandType(FLOAT, shape)) for shape in shapes)
    activation = model.add_operand(OperandType(OperandCode.INT32))
    model.set_operand_value(activation, np.int32(0))
    model.add_operation(OperationCode.ADD, [a, b, activation], [out])
    model.identify_inputs_and_outputs([a, b], [out])
    model.finish()
    return model


def failing() -> nnapi.Execution:
    """An execution that fails."""
    made = nnapi.Execution(compiled(misfit()))
    made.set_input(0, array())
    made.set_input(1, np.zeros((2, 2), np.float32))
    made.set_output(0, array())
    return made


def ranks() -> nnapi.Execution:
    """A completed execution with a scalar output."""
    model = nnapi.Model()
    x = model.add_operand(OperandType(FLOAT, (2, 3)))
    out = model.add_operand(OperandType(OperandCode.INT32))
    model.add_operation(OperationCode.RANK, [x], [out])
    model.identify_inputs_and_outputs([x], [out])
    model.finish()
    made = nnapi.Execution(compiled(model))
    made.set_input(0, array())
    made.set_output(0, np.zeros((), np.int32))
    made.compute()
    return made


def unmappable() -> nnapi.Memory:
    """More of a file than there is."""
    return calls.memory(1 << 20)


def with_burst(call: Call, made: nnapi.Execution) -> None:
    """Let another execution be computed, with a burst of its own where there is one."""
    call.target = made
    if "burst" in call.args:
        call.args["burst"] = nnapi.Burst(made._compilation)


# ------------------------------------------------------------------------ memories


setting("bad file descriptor", fd=-1)
setting("frequency out of range", frequency=0.0)


@case("buffer can't be wrapped")
def _(_: Call) -> None:
    """No hardware buffer can."""


@case("descriptor finished")
def _(call: Call) -> None:
    call.target = descriptor()


@case("descriptor not finished")
def _(call: Call) -> None:
    call.args["desc"] = nnapi.MemoryDesc()


@case("device can't allocate")
def _(call: Call) -> None:
    made = nnapi.MemoryDesc()
    made.add_input_role(compiled(finished((0, 3))), 0, 1.0)
    made.finish()
    call.args["desc"] = made


@case("role twice")
def _(call: Call) -> None:
    call()


@case("role of another type")
def _(call: Call) -> None:
    other = finished(kind=OperandCode.TENSOR_INT32)
    call.target.add_input_role(compiled(other), 0, 1.0)


@case("role of other dimensions")
def _(call: Call) -> None:
    call.target.add_input_role(compiled(finished((2, 4))), 0, 1.0)


@case("no roles")
def _(call: Call) -> None:
    call.target = nnapi.MemoryDesc()


@case("dimensions that don't fit the roles")
def _(call: Call) -> None:
    call.target.add_input_role(compiled(finished((2, 4))), 0, 1.0)


@case("source without content")
def _(call: Call) -> None:
    call.target = nnapi.Memory.create_from_desc(descriptor())


@case("memories that don't fit")
def _(call: Call) -> None:
    call.args["dst"] = calls.memory(16)


@case("memory can't be mapped", "Memory.copy")
def _(call: Call) -> None:
    call.target = unmappable()
    call.args["dst"] = unmappable()


# ------------------------------------------------------------------------ inputs and outputs


@case("execution started")
def _(call: Call) -> None:
    call.target = computed()


@case("input or output set")
def _(call: Call) -> None:
    call.target.set_input(0, array())


setting("index out of range", index=9)
setting("type that doesn't fit", type=OperandType(FLOAT, (3, 3)))
setting("buffer and length disagree", length=0)
setting("range beyond the memory", offset=4096)


@case("dimensions not known")
def _(call: Call) -> None:
    call.target = nnapi.Execution(compiled(finished((0, 3))))


@case("set already")
def _(call: Call) -> None:
    call()


@case("length too small")
def _(call: Call) -> None:
    call.args["length"] = SIZE - 4


@case("length too large")
def _(call: Call) -> None:
    if "buffer" in call.args:
        call.args["buffer"] = np.zeros(7, np.float32)
    else:
        call.args["length"] = SIZE + 4


@case("memory of another role")
def _(call: Call) -> None:
    call.args.update(memory=nnapi.Memory.create_from_desc(descriptor()), offset=0, length=0)


# ------------------------------------------------------------------------ computing


@case("execution used up or in flight")
def _(call: Call) -> None:
    call.target.compute()


@case("input or output not set")
def _(call: Call) -> None:
    with_burst(call, nnapi.Execution(compiled()))
    call.target.set_input(0, array())


@case("memory without the wanted content")
def _(call: Call) -> None:
    compilation = compiled()
    made = nnapi.Execution(compilation)
    made.set_input_from_memory(0, nnapi.Memory.create_from_desc(descriptor(compilation)), 0, 0)
    made.set_input(1, array())
    made.set_output(0, array())
    with_burst(call, made)


@case("output buffer too small")
def _(call: Call) -> None:
    with_burst(call, open_execution(2))


@case("operation failed")
def _(call: Call) -> None:
    with_burst(call, failing())


@case("timeout")
def _(call: Call) -> None:
    call.target.set_timeout(1)


@case("memory can't be mapped")
def _(call: Call) -> None:
    made = nnapi.Execution(compiled())
    made.set_input_from_memory(0, unmappable(), 0, SIZE)
    made.set_input(1, array())
    made.set_output(0, array())
    with_burst(call, made)


@case("burst of another compilation")
def _(call: Call) -> None:
    call.args["burst"] = nnapi.Burst(compiled())


@case("burst in use")
def _(call: Call) -> None:
    call.args["burst"].lock.acquire()


@case("duration without a single chosen device")
def _(call: Call) -> None:
    compilation = nnapi.Compilation(finished())
    compilation.finish()
    call.target = execution(compilation)
    call.args["duration"] = 10**12


@case("output dimensions not known")
def _(call: Call) -> None:
    call.target = open_execution()


@case("fence failed")
def _(call: Call) -> None:
    call.args["dependencies"] = [event(), failing().start_compute()]


# ------------------------------------------------------------------------ what came out


setting("unknown duration", duration_code=4)
setting("no descriptor", sync_fence_fd=0)


@case("no timing")
def _(call: Call) -> None:
    call.target = computed()


@case("execution not completed")
def _(call: Call) -> None:
    call.target = execution()


@case("execution failed")
def _(call: Call) -> None:
    call.target = failing()
    try:
        call.target.compute()
    except nnapi.Error:
        return
    raise AssertionError("it must fail")


@case("output of rank 0")
def _(call: Call) -> None:
    call.target = ranks()


@case("its buffer was too small")
def _(call: Call) -> None:
    call.target = open_execution(2)
    try:
        call.target.compute()
    except nnapi.Error:
        return
    raise AssertionError("it must fail")


@case("computation failed")
def _(call: Call) -> None:
    call.target = failing().start_compute()


@case("event without a fence")
def _(_: Call) -> None:
    """No event has one."""
