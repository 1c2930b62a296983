"""The garbage collector is on or off afterwards as it was before."""

import gc
import threading
from contextlib import nullcontext

import numpy as np
import pytest

import nnconv
from nnconv.errors import NnconvError
from nnconv.ir import Builder, DType, Value
from nnconv.ir.collector import no_collection
from nnconv.ops.elementwise import Maximum
from nnconv.runtime import nnapi, nnrt
from support import nnapi_runtime, nnrt_runtime
from support.onnx_spine import IrCase

PATIENCE = 60
"""Seconds after which a thread is given up, so that a fault isn't waited for without end."""


@pytest.fixture(autouse=True, params=[True, False], ids=["on", "off"])
def was_on(request):
    """Whether it is on before the test."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_it_rests_meanwhile_however_often_that_is_asked(depth, was_on):
    def rest(times):
        if times:
            with no_collection():
                assert not gc.isenabled()
                rest(times - 1)
                assert not gc.isenabled()

    rest(depth)
    assert gc.isenabled() is was_on


def test_an_exception_is_passed_on(was_on):
    with pytest.raises(KeyError, match="through"), no_collection(), no_collection():
        raise KeyError("through")
    assert gc.isenabled() is was_on


@pytest.mark.parametrize("first", [0, 1])
def test_threads_leave_in_either_order(first, was_on):
    entered, leave = ([threading.Event() for _ in range(2)] for _ in range(2))

    def stay(number):
        with no_collection():
            entered[number].set()
            leave[number].wait(PATIENCE)

    threads = [threading.Thread(target=stay, args=(n,), daemon=True) for n in range(2)]
    for thread, event in zip(threads, entered, strict=True):
        thread.start()
        assert event.wait(PATIENCE)
    assert not gc.isenabled()
    for number in (first, 1 - first):
        leave[number].set()
        threads[number].join(PATIENCE)
        assert not threads[number].is_alive()
    assert gc.isenabled() is was_on


def nnapi_model(*, known):
    """TOPK_V2 of a number that is known, or that a run gives: then onnxruntime can't take it."""
    model = nnapi.Model()
    x = model.add_operand(nnapi.OperandType(nnapi_runtime.FLOAT, (2, 3)))
    count = model.add_operand(nnapi.OperandType(nnapi.OperandCode.INT32))
    kinds = (nnapi_runtime.FLOAT, nnapi.OperandCode.TENSOR_INT32)
    outputs = [model.add_operand(nnapi.OperandType(kind, (0, 0))) for kind in kinds]
    if known:
        model.set_operand_value(count, np.int32(2))
    model.add_operation(nnapi.OperationCode.TOPK_V2, [x, count], outputs)
    model.identify_inputs_and_outputs([x] if known else [x, count], outputs)
    model.finish()
    return model


def nnrt_model(rows):
    """ADD of two tensors of 2 rows."""
    model = nnrt.Model()
    *ends, activation, _ = nnrt_runtime.add_tensors(model)
    out = model.add_tensor(nnrt_runtime.described((rows, 3)))
    model.add_operation(nnrt.OperationType.ADD, [activation], ends, [out])
    model.specify_inputs_and_outputs(ends, [out])
    model.finish()
    return model


def greater():
    """NNAPI has MAXIMUM from level 3 on."""

    def build(b: Builder) -> Value:
        return b.add(Maximum(), [b.input(name, DType.FLOAT32, (2, 3)) for name in "xy"])

    return IrCase("greater", build).model()


CALLS = {
    "load": lambda source, _: nnconv.load(source),
    "save": lambda source, is_right: nnconv.save(
        greater(), source.with_suffix(".nnapi"), feature_level=3 if is_right else 1
    ),
    "convert": lambda source, _: nnconv.convert(source, source.with_suffix(".onnx")),
    "check": lambda source, _: nnconv.check(source, to="nnapi"),
    "compile": lambda source, _: nnconv.compile(source, "onnxruntime:cpu"),
    "NNAPI": lambda _, is_right: nnapi_runtime.compiled(
        nnapi_model(known=is_right), ["onnxruntime:cpu"]
    ),
    "NNRt": lambda _, is_right: nnrt_runtime.compiled(nnrt_model(rows=2 if is_right else 3)),
}
"""Calls with a file and whether they succeed; the file is a broken one where they don't."""


@pytest.mark.parametrize("is_right", [True, False], ids=["done", "failed"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls_leave_it_as_it_was(call, is_right, was_on, monkeypatch, tmp_path):
    source, rests, disable = tmp_path / "m.tflite", [], gc.disable
    nnconv.save(greater(), source)
    if not is_right:
        source.write_bytes(source.read_bytes()[:40])
    monkeypatch.setattr(gc, "disable", lambda: rests.append(disable()))
    with nullcontext() if is_right else pytest.raises((NnconvError, nnapi.Error, nnrt.Error)):
        call(source, is_right)
    assert rests
    assert gc.isenabled() is was_on
