"""For each rule of NNAPI what breaks it: changes to a call that would succeed."""

from typing import Any

import numpy as np

from nnconv import backends
from nnconv.errors import BackendError
from nnconv.formats.nnapi.wire import Lifetime
from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode
from support.api_calls import Scenarios
from support.nnapi_calls import Call, descriptor
from support.nnapi_runtime import FLOAT, built, device, finished

SCENARIOS = Scenarios()

case, setting = SCENARIOS.case, SCENARIOS.setting


# ------------------------------------------------------------------------ helpers


def uncompiled() -> nnapi.Compilation:
    return nnapi.Compilation.create_for_devices(finished(), [device()])


def failing_compile(*_: Any, **__: Any) -> Any:
    raise BackendError("it fails on purpose")


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
