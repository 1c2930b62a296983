"""For each rule of NNRt what breaks it: models, tensors and their descriptions."""

from typing import Any

import numpy as np

from nnconv.runtime import nnrt
from nnconv.runtime.core.memory import MapError
from nnconv.runtime.nnrt import DataType, OperationType, Tensor, TensorType, device
from support.api_calls import Scenarios
from support.nnrt_calls import Call, file_descriptor
from support.nnrt_runtime import FLOAT, add_tensors, built, desc, described, finished

SCENARIOS = Scenarios()

case, setting = SCENARIOS.case, SCENARIOS.setting

HUGE = (1 << 30) + 1
"""More bytes than a device's buffer may have."""

LIMIT = 200

# ------------------------------------------------------------------------ helpers


def no_memory(*_: Any, **__: Any) -> Any:
    raise MemoryError


def not_mapped(*_: Any, **__: Any) -> Any:
    raise MapError("it fails on purpose")


def limit_devices(call: Call, *lacks: str) -> None:
    """Let all devices lack something, and make the call anew with them."""
    found = tuple(each._replace(lacks=frozenset(lacks)) for each in device.all_devices())
    call.patch.setattr(device, "all_devices", lambda: found)


def remove_devices(call: Call) -> None:
    """Let there be no devices."""
    call.patch.setattr(device, "all_devices", tuple)


# ------------------------------------------------------------------------ any object

RUNTIME = "nnconv.runtime.nnrt"

ALLOCATES = {
    "Compilation.construct": "compilation.Compilation._start",
    "Compilation.construct_for_cache": "compilation.Compilation._start",
    "Compilation.construct_with_offline_model_buffer": "compilation.Compilation._start",
    "Compilation.construct_with_offline_model_file": "compilation.Compilation._start",
    "Executor.create_input_tensor_desc": "ends.TensorDesc",
    "Executor.create_output_tensor_desc": "ends.TensorDesc",
    "Executor.set_input": "executor.bytes_of",
    "Executor.set_input_with_memory": "executor.Slot",
    "Model.add_tensor": "model.WireTensor",
    "Model.add_tensor_to_model": "model.WireTensor",
    "Model.construct": "model.Graph",
    "Model.set_tensor_data": "model.bytes_of",
    "QuantParam.create": "quant.QuantParam.__init__",
    "TensorDesc.create": "desc.TensorDesc.__init__",
}
"""What each function makes, at least: without memory for it the function fails."""


@case("allocation fails")
def _(call: Call) -> None:
    call.patch.setattr(f"{RUNTIME}.{ALLOCATES[call.method]}", no_memory)


@case("destroyed")
def _(call: Call) -> None:
    call.target.destroy()


# ------------------------------------------------------------------------ tensors of a model


def fresh_tensor(call: Call, **attributes: Any) -> None:
    call.args["tensor"] = described()
    for name, value in attributes.items():
        setattr(call.args["tensor"], name, value)


@case("dataType outside 0..12", "Model.add_tensor")
def _(call: Call) -> None:
    fresh_tensor(call, data_type=13)


@case("type outside 0..162")
def _(call: Call) -> None:
    fresh_tensor(call, type=163)


@case("type outside 0..77")
def _(call: Call) -> None:
    fresh_tensor(call, type=78)


@case("more than 200 dimensions", "Model.add_tensor")
def _(call: Call) -> None:
    fresh_tensor(call, dimensions=(1,) * (LIMIT + 1))


@case("a dimension is 0 or below -1", "Model.add_tensor")
def _(call: Call) -> None:
    for extent in (0, -2):
        fresh_tensor(call, dimensions=(2, extent))
        fails_invalid(call)


@case("element bytes (|-1| counted as 1) exceed 4294967295")
def _(call: Call) -> None:
    fresh_tensor(call, dimensions=(1 << 15, (1 << 15) - 1, -1))
    call()
    fresh_tensor(call, dimensions=(1 << 15, 1 << 15, -1))


@case("quantParam given but numBits, scale or zeroPoint is null")
def _(call: Call) -> None:
    for parts in ((None, 0, 8), (0.5, None, 8), (0.5, 0, None)):
        fresh_tensor(call, quant_param=nnrt.QuantParam(*parts))
        fails_invalid(call)


@case("any numBits is not 8", "Model.add_tensor")
def _(call: Call) -> None:
    fresh_tensor(call, quant_param=nnrt.QuantParam([0.5, 0.5], [0, 0], [8, 4]))


@case("dataType outside 0..12", "Model.add_tensor_to_model")
def _(call: Call) -> None:
    call.args["tensor_desc"].data_type = 13


@case("more than 200 dimensions", "Model.add_tensor_to_model")
def _(call: Call) -> None:
    call.args["tensor_desc"].shape = (1,) * (LIMIT + 1)


@case("a dimension is 0 or below -1", "Model.add_tensor_to_model")
def _(call: Call) -> None:
    for extent in (0, -2):
        call.args["tensor_desc"] = desc((2, extent))
        fails_invalid(call)


@case("element bytes exceed 4294967295")
def _(call: Call) -> None:
    call.args["tensor_desc"] = desc((1 << 15, 1 << 15, -1))


def fails_invalid(call: Call) -> None:
    """See that a call gives INVALID_PARAMETER."""
    try:
        call()
    except nnrt.Error as error:
        assert error.code is nnrt.ReturnCode.INVALID_PARAMETER  # noqa: PT017 - a step of a case
        return
    raise AssertionError(f"{call.method} accepts {call.args}")


# ------------------------------------------------------------------------ their content

setting("index not below the tensor count", index=1)
setting("length is 0", "Model.set_tensor_data", data_buffer=b"")
setting("length differs from element count times element size", data_buffer=bytes(20))
setting("scale, zero-point and bit counts differ", quant_param=nnrt.QuantParam([0.5], [0, 1], 8))
setting(
    "any numBits is not 8",
    "Model.set_tensor_quant_params",
    quant_param=nnrt.QuantParam(0.5, 0, 16),
)
setting("tensorType outside 0..162", tensor_type=163)


@case("data was already set")
def _(call: Call) -> None:
    call()


@case("tensor has a dynamic dim")
def _(call: Call) -> None:
    call.args["index"] = call.target.add_tensor(described((-1, 3)))


# ------------------------------------------------------------------------ operations


@case("model already finished or loaded")
def _(call: Call) -> None:
    call.target = finished()


@case("inputIndices.size is 0 or above 200")
def _(call: Call) -> None:
    call.args["inputs"] = []
    fails_invalid(call)
    call.args["inputs"] = [0] * (LIMIT + 1)


@case("outputIndices.size is 0 or above 200")
def _(call: Call) -> None:
    call.args["outputs"] = []
    fails_invalid(call)
    call.args["outputs"] = [3] * (LIMIT + 1)


setting("an index not below the tensor count", inputs=[0, 4])


@case("an input or output tensor has a type other than OH_NN_TENSOR")
def _(call: Call) -> None:
    call.args["inputs"] = [0, 2]


@case("a tensor is both input and output")
def _(call: Call) -> None:
    call.args["outputs"] = [0]


setting("paramIndices pointer and size disagree, or an index is out of range", params=[4])
setting("op has no registered builder", op=0)
setting("input or output count differs from the op (see ops.json builder)", inputs=[0])
setting("more params than the op takes", params=[2, 2])


def other_param(call: Call, kind: TensorType, data_type: DataType, data: Any) -> None:
    """Have a call get another parameter."""
    index = call.target.add_tensor(Tensor(data_type, (), None, kind))
    if data is not None:
        call.target.set_tensor_data(index, data)
    call.args["params"] = [index]


@case("a param has a tensor type the op does not own")
def _(call: Call) -> None:
    other_param(call, TensorType.SUB_ACTIVATIONTYPE, DataType.INT8, np.int8(0))


@case("a param has the wrong dtype or element count, no data, or a value out of range")
def _(call: Call) -> None:
    kind = TensorType.ADD_ACTIVATIONTYPE
    for data_type, data in (
        (DataType.INT32, np.int32(0)),
        (DataType.INT8, None),
        (DataType.INT8, np.int8(3)),
    ):
        other_param(call, kind, data_type, data)
        fails_invalid(call)


@case("inputIndices or outputIndices size above 200")
def _(call: Call) -> None:
    axis = call.target.add_tensor(Tensor(DataType.INT64, (), None, TensorType.CONCAT_AXIS))
    call.target.set_tensor_data(axis, np.int64(0))
    inputs = [call.target.add_tensor(described()) for _ in range(LIMIT + 1)]
    call.args.update(op=OperationType.CONCAT, params=[axis], inputs=inputs)


setting("ops of code 57..108", op=OperationType.ABS, params=[], inputs=[0])


@case("FULL_CONNECTION param count other than 1 or 2")
def _(call: Call) -> None:
    bias = call.target.add_tensor(described())
    call.args.update(op=OperationType.FULL_CONNECTION, params=[], inputs=[0, 1, bias])


# ------------------------------------------------------------------------ whole models


@case("called a second time")
def _(call: Call) -> None:
    call()


@case("no tensor added")
def _(call: Call) -> None:
    call.target = nnrt.Model()


@case("no operation added")
def _(call: Call) -> None:
    call.target = nnrt.Model()
    add_tensors(call.target)


@case("inputs or outputs not specified")
def _(call: Call) -> None:
    call.target = nnrt.Model()
    a, b, activation, out = add_tensors(call.target)
    call.target.add_operation(OperationType.ADD, [activation], [a, b], [out])


@case("graph allocation fails")
def _(call: Call) -> None:
    call.patch.setattr(f"{RUNTIME}.model.check.finish_faults", no_memory)


@case("an op cannot make its primitive (QUANT_DTYPE_CAST without srcT or dstT)")
def _(call: Call) -> None:
    call.target = nnrt.Model()
    x, y = (call.target.add_tensor(described()) for _ in range(2))
    call.target.add_operation(OperationType.QUANT_DTYPE_CAST, [], [x], [y])
    call.target.specify_inputs_and_outputs([x], [y])


@case("model not finished (or built from a meta graph)")
def _(call: Call) -> None:
    call.target = built()


@case("model not finished", "Compilation.construct")
def _(call: Call) -> None:
    call.args["model"] = built(api=call.api)


# ------------------------------------------------------------------------ descriptions

setting("dataType outside 0..12", "TensorDesc.set_data_type", data_type=13)
setting("format outside 0..3", format=4)
setting("quantCount is 0", "QuantParam.set_scales", scales=[])
setting("quantCount is 0", "QuantParam.set_zero_points", zero_points=[])
setting("quantCount is 0", "QuantParam.set_num_bits", num_bits=[])


@case("shapeLength is 0 or above 10")
def _(call: Call) -> None:
    call.args["shape"] = []
    fails_invalid(call)
    call.args["shape"] = [1] * 11


@case("shape is not set")
def _(call: Call) -> None:
    call.target = desc(())


@case("a dim is 0 or negative; count is written as 0")
@case("a dim is 0 or negative; size is written as 0")
def _(call: Call) -> None:
    call.target = desc((2, -1))


@case("count overflows")
@case("size overflows")
def _(call: Call) -> None:
    call.target = desc((1 << 30,) * 3)


@case("dtype is UNKNOWN")
def _(call: Call) -> None:
    call.target = desc((2, 3), DataType.UNKNOWN)


# ------------------------------------------------------------------------ tensors in memory


@case("desc has no shape or dtype")
def _(call: Call) -> None:
    call.args["tensor_desc"] = desc(())
    fails_null(call)
    call.args["tensor_desc"] = desc((2, 3), DataType.UNKNOWN)


def fails_null(call: Call) -> None:
    """See that a call gives no object."""
    try:
        call()
    except nnrt.Error as error:
        assert error.code is nnrt.ReturnCode.NULL_PTR  # noqa: PT017 - a step of a case
        return
    raise AssertionError(f"{call.method} accepts {call.args}")


@case("shape is dynamic (size 0)")
def _(call: Call) -> None:
    call.args["tensor_desc"] = desc((-1, 3))


@case("size above 1 GiB", "Tensor.create")
def _(call: Call) -> None:
    call.args["tensor_desc"] = desc((1 << 28, 2), FLOAT)


setting("size above 1 GiB", "Tensor.create_with_size", size=HUGE)


@case("driver allocation or mapping fails")
def _(call: Call) -> None:
    call.patch.setattr(f"{RUNTIME}.tensor.shared", not_mapped)


setting("size below the desc byte size", size=23)


@case("size is 0", "Tensor.create_with_size")
def _(call: Call) -> None:
    call.args.update(size=0, tensor_desc=desc((-1, 3)))


setting("size is 0", "Tensor.create_with_fd", size=0, offset=0)
setting("fd below 0", fd=-1)
setting("size below offset", size=64, offset=65)
setting("size-offset below the desc byte size", size=64, offset=41)


@case("mapping fails")
def _(call: Call) -> None:
    call.args["fd"] = 1 << 20
    fails_null(call)
    call.args["fd"] = file_descriptor(10)


@case("tensor is null or has no memory")
def _(call: Call) -> None:
    call.target.destroy()
    fails_null(call)
    call.target = None


@case("device is gone")
@case("device of a built compilation is gone")
def _(call: Call) -> None:
    if call.method == "Compilation.destroy":
        call.target.build()
    remove_devices(call)
