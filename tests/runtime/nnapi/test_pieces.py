"""Compilations for several devices, of models that none of them runs whole."""

import threading

import numpy as np
import pytest

from nnconv import backends
from nnconv.errors import BackendError
from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandType, OperationCode, ResultCode
from support.nnapi_loops import ONE, below, loop, run
from support.nnapi_runtime import FLOAT, REFERENCE, compiled, device

ORT, LITERT = "onnxruntime:cpu", "litert:cpu"


def chain(*codes):
    """Operations of one operand, one behind the other."""
    model = nnapi.Model()
    first = last = model.add_operand(OperandType(FLOAT, ONE))
    for code in codes:
        result = model.add_operand(OperandType(FLOAT, ONE))
        model.add_operation(code, [last], [result])
        last = result
    model.identify_inputs_and_outputs([first], [last])
    model.finish()
    return model


NEG, ABS, SQRT = OperationCode.NEG, OperationCode.ABS, OperationCode.SQRT
MIXED = (NEG, ABS, SQRT, ABS, SQRT, NEG)


@pytest.fixture(autouse=True)
def no_square_roots(monkeypatch):
    """No device but the reference takes SQRT, in a body neither."""
    real = backends.compile

    def picky(model, device, **options):
        ops = {node.op.name for graph in model.graphs() for node in graph.nodes}
        if device != REFERENCE and "Sqrt" in ops:
            raise BackendError(f"{device} has no Sqrt")
        return real(model, device, **options)

    monkeypatch.setattr(backends, "compile", picky)


@pytest.mark.parametrize("name", [ORT, LITERT])
def test_what_a_device_refuses_runs_on_the_reference(name):
    compilation = compiled(chain(*MIXED), [name, REFERENCE])
    assert compilation.program.device_for((ONE,)) == f"{name}+{REFERENCE}"
    assert run(compilation, np.float32([-16])) == [-2]


def test_the_runtime_chooses_pieces_too():
    compilation = nnapi.Compilation(chain(*MIXED))
    compilation.finish()
    assert compilation.program.device_for((ONE,)) == f"{ORT}+{REFERENCE}"
    assert run(compilation, np.float32([-16])) == [-2]


def test_without_the_reference_nothing_takes_its_place():
    model = chain(*MIXED)
    chosen = [device(ORT), device(LITERT)]
    told = model.get_supported_operations_for_devices(chosen)
    assert told == [code is not SQRT for code in MIXED]
    with pytest.raises(nnapi.Error, match="has no Sqrt") as caught:
        compiled(model, [ORT, LITERT])
    assert caught.value.code is ResultCode.BAD_DATA


def test_a_loop_is_said_to_run_where_its_bodies_do():
    model = loop(below(100), chain(ABS))
    assert model.get_supported_operations_for_devices([device(LITERT)]) == [True]
    model = loop(below(100), chain(SQRT))
    assert model.get_supported_operations_for_devices([device(LITERT)]) == [False]


@pytest.mark.parametrize("name", [ORT, LITERT])
def test_a_loop_whose_body_is_cut_is_stopped(name):
    compilation = compiled(loop(below(np.inf), chain(ABS, SQRT, ABS)), [name, REFERENCE])
    assert compilation.program.device_for((ONE,)) == f"{name}+{REFERENCE}"
    with pytest.raises(nnapi.Error) as caught:
        run(compilation, np.float32([4]), loop_timeout=50_000_000)
    assert caught.value.code is ResultCode.MISSED_DEADLINE_TRANSIENT


@pytest.mark.parametrize("name", [ORT, LITERT])
def test_threads_share_a_compilation_in_pieces(name):
    compilation = compiled(chain(*MIXED), [name, REFERENCE])
    wrong = []

    def work(number):
        for turn in range(40):
            value = float(number * 100 + turn)
            (found,) = run(compilation, np.float32([value]))
            if abs(found + value**0.25) > 1e-5:
                wrong.append((value, found))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(("name", "can_bind"), [(ORT, False), (ORT, True), (LITERT, False)])
def test_the_reference_stands_in_for_a_device_that_fails(name, can_bind, monkeypatch):
    """It was said to take the model whole."""
    compilation = compiled(chain(NEG, ABS), [name, REFERENCE])
    assert compilation.program.device_for((ONE,)) == name
    tried = []

    def fails(*arguments):
        tried.append(not arguments)
        raise BackendError(f"{name} failed while running")

    executable = compilation.program._plan_for((ONE,)).executable
    monkeypatch.setattr(type(executable), "_execute", fails)
    monkeypatch.setattr(type(executable), "bind", lambda *_: fails if can_bind else None)
    for number in (-16, 3):
        assert run(compilation, np.float32([number])) == [abs(number)]
    assert tried == [can_bind] * 2


def test_a_device_that_fails_alone_fails(monkeypatch):
    compilation = compiled(chain(NEG, ABS), [ORT])

    def fails(*_):
        raise BackendError("failed while running")

    executable = compilation.program._plan_for((ONE,)).executable
    monkeypatch.setattr(type(executable), "_execute", fails)
    monkeypatch.setattr(type(executable), "bind", lambda *_: None)
    with pytest.raises(nnapi.Error) as caught:
        run(compilation, np.float32([1]))
    assert caught.value.code == ResultCode.OP_FAILED
