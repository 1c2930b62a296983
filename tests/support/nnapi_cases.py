"""For each rule of NNAPI what breaks it: changes to a call that would succeed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from nnconv import backends
from nnconv.errors import BackendError
from nnconv.formats.nnapi.wire import Lifetime
from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode
from support import nnapi_calls as calls
from support.nnapi_calls import SIZE, Call, array, computed, descriptor, event, execution
from support.nnapi_runtime import FLOAT, built, compiled, device, finished

Scenario = Callable[[Call], None]

CASES: dict[tuple[str, str], Scenario] = {}
"""By method, empty for all, and case."""


def case(text: str, *methods: str) -> Callable[[Scenario], Scenario]:
    """Register what brings about a case, for some methods or for all."""

    def register(scenario: Scenario) -> Scenario:
        for method in methods or ("",):
            assert (method, text) not in CASES
            CASES[method, text] = scenario
        return scenario

    return register


def scenario_of(method: str, text: str) -> Scenario | None:
    """What brings about a case."""
    return CASES.get((method, text)) or CASES.get(("", text))


def setting(text: str, *methods: str, **args: Any) -> None:
    """Register a case that other arguments bring about."""
    case(text, *methods)(lambda call: call.args.update(args))


# ------------------------------------------------------------------------ helpers


def uncompiled() -> nnapi.Compilation:
    return nnapi.Compilation.create_for_devices(finished(), [device()])


def failing_compile(*_: Any, **__: Any) -> Any:
    raise BackendError("it fails on purpose")


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


# ------------------------------------------------------------------------ any object


@case("no memory")
def _(call: Call) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    owner = getattr(nnapi, call.method.partition(".")[0])
    call.patch.setattr(owner, "__init__", fail)


@case("null is fine")
@case("null is fine, else it waits")
@case("null is fine, in flight it does nothing")
def _(call: Call) -> None:
    call()
    call.target = None


@case("always fine")
def _(call: Call) -> None:
    assert call() > 0


# ------------------------------------------------------------------------ models


@case("model finished")
def _(call: Call) -> None:
    call.target = finished()


@case("model not finished")
def _(call: Call) -> None:
    if "model" in call.args:
        call.args["model"] = built()
    else:
        call.target = built()


@case("finished already", "Model.finish")
@case("finished already", "MemoryDesc.finish")
def _(call: Call) -> None:
    call()


@case("earlier finish failed")
def _(call: Call) -> None:
    call.target = nnapi.Model()
    try:
        call()
    except nnapi.Error:
        return
    raise AssertionError("an empty model can't be finished")


@case("operations in a circle")
def _(call: Call) -> None:
    model = nnapi.Model()
    x, y, z, end = (model.add_operand(OperandType(FLOAT, (2, 3))) for _ in range(4))
    activation = model.add_operand(OperandType(OperandCode.INT32))
    model.set_operand_value(activation, np.int32(0))
    model.add_operation(OperationCode.ADD, [x, z, activation], [y])
    model.add_operation(OperationCode.NEG, [y], [z])
    model.add_operation(OperationCode.NEG, [z], [end])
    model.identify_inputs_and_outputs([x], [end])
    call.target = model


@case("empty model")
def _(call: Call) -> None:
    call.target = nnapi.Model()


@case("operand not written once")
def _(call: Call) -> None:
    call.target.add_operand(OperandType(FLOAT, (2, 3)))


@case("operation writes what it mustn't")
def _(call: Call) -> None:
    call.target.add_operation(OperationCode.NEG, [1], [0])


@case("rules of an operand broken")
def _(call: Call) -> None:
    index = call.target.add_operand(OperandType(OperandCode.TENSOR_INT32, (2,), -1.0))
    call.target.set_operand_value(index, np.zeros(2, np.int32))


@case("models in a circle")
def _(call: Call) -> None:
    index = call.target.add_operand(OperandType(OperandCode.MODEL))
    call.target.set_operand_value_from_model(index, finished())
    # The calls allow no circle, as a model must be finished before it is used.
    inner = call.target.wire.referenced[0]
    inner.operands.append(call.target.graph.operands[index])
    assert inner.operands[-1].lifetime is Lifetime.MODEL


@case("feature level too high")
def _(call: Call) -> None:
    call.patch.setattr("nnconv.runtime.nnapi.model.NEWEST_LEVEL", 1)
    kind = OperandType(OperandCode.TENSOR_FLOAT16, (2,))
    index = call.target.add_operand(kind)
    out = call.target.add_operand(kind)
    call.target.set_operand_value(index, np.zeros(2, np.float16))
    call.patch.undo()
    call.target.add_operation(OperationCode.ABS, [index], [out])
    call.patch.setattr("nnconv.runtime.nnapi.model.NEWEST_LEVEL", 1)


def kind(*args: Any) -> dict[str, Any]:
    return {"type": OperandType(*args)}


setting("unknown extension", **kind(1 << 16, (2,)))
setting("dimensions and their count disagree", **kind(FLOAT, (2, -1)))
setting("unknown type", **kind(99, (2,)))
setting("scalar with dimensions", **kind(OperandCode.INT32, (1,)))
setting("quantization where there is none", **kind(FLOAT, (2,), 0.5))
setting("zero point out of range", **kind(OperandCode.TENSOR_QUANT8_ASYMM, (2,), 0.5, 256))
setting("scale not above 0", "Model.add_operand", **kind(OperandCode.TENSOR_QUANT8_SYMM, (2,)))
setting("tensor too large", **kind(FLOAT, (1 << 16, 1 << 16)))


@case("too many operands")
def _(call: Call) -> None:
    call.patch.setattr("nnconv.runtime.nnapi.model.MOST_OPERANDS", 0)


setting("unknown operation", type=106)
setting("index beyond the operands", "Model.add_operation", inputs=[0, 1, 9])
setting("index beyond the operands", "Model.identify_inputs_and_outputs", outputs=[9])
setting("index beyond the operands", index=9)
setting("list and its count disagree", inputs=[])
setting("rules of the operation broken", type=OperationCode.NEG)
setting("operand has another use", inputs=[0, 0])


@case("too many operations")
def _(call: Call) -> None:
    call.patch.setattr("nnconv.runtime.nnapi.model.MOST_OPERATIONS", 0)


def channels(*args: Any) -> dict[str, Any]:
    return {"channel_quant": nnapi.SymmPerChannelQuantParams(*args)}


METHOD = "Model.set_operand_symm_per_channel_quant_params"
setting("scales and their count disagree", **channels(0, ()))
setting("channel dimension beyond the rank", **channels(2, (0.5, 0.5)))
setting("scales for other channels", **channels(1, (0.5, 0.5)))
setting("scale not above 0", METHOD, **channels(0, (0.5, 0.0)))


@case("type without scales per channel")
def _(call: Call) -> None:
    call.args["index"] = call.target.add_operand(OperandType(FLOAT, (2, 3)))


@case("buffer of length 0")
def _(call: Call) -> None:
    call.args["buffer"] = np.zeros(0, np.float32)


@case("dimensions not known", "Model.set_operand_value", "Model.set_operand_value_from_memory")
def _(call: Call) -> None:
    call.args["index"] = call.target.add_operand(OperandType(FLOAT, (0, 3)))


setting("length above 32 bits", length=1 << 32)
setting("length of another size", length=20)


@case("memory from a descriptor")
def _(call: Call) -> None:
    call.args.update(memory=nnapi.Memory.create_from_desc(descriptor()), offset=0)


@case("value not finished")
def _(call: Call) -> None:
    call.args["value"] = built()


# ------------------------------------------------------------------------ devices, compilations


setting("no devices", devices=[])
setting("index beyond the devices", index=99)
setting("index beyond the inputs", index=2)
setting("index beyond the outputs", index=1)
setting("unknown preference", preference=3)
setting("unknown priority", priority=95)


@case("device twice")
def _(call: Call) -> None:
    call.args["devices"] = [device(), device()]


@case("unknown device")
def _(call: Call) -> None:
    call.args["devices"] = [nnapi.Device(backends.Device("mine", "cpu", available=True))]


@case("level without a code")
def _(call: Call) -> None:
    info = backends.Device("mine", "cpu", available=True, feature_level=99)
    call.target = nnapi.Device(info)


@case("device of a negative type")
def _(call: Call) -> None:
    call.target = nnapi.Device(backends.Device("mine", "-1", available=True))


@case("device failed", "Device.wait")
def _(call: Call) -> None:
    call.target = nnapi.Device(backends.Device("mine", "cpu", available=False))


@case("device failed", "Compilation.finish")
@case("no device does an operation")
def _(call: Call) -> None:
    call.patch.setattr(backends, "compile", failing_compile)


@case("deadline passed")
def _(call: Call) -> None:
    call.target.set_timeout(1)


@case("compilation finished")
def _(call: Call) -> None:
    call.target.finish()


@case("compilation not finished")
def _(call: Call) -> None:
    if "compilation" in call.args:
        call.args["compilation"] = uncompiled()
    else:
        call.target = uncompiled()


@case("not for a single chosen device")
def _(call: Call) -> None:
    made = nnapi.Compilation(finished())
    if isinstance(call.target, nnapi.Compilation):
        call.target = made
    else:
        made.finish()
        call.target = nnapi.Execution(made)


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
