"""Android's conformance vectors by way of the calls, and the ways of running that must agree."""

import numpy as np
import pytest

from nnconv.formats.nnapi.types import NUMPY
from nnconv.runtime import nnapi
from nnconv.runtime.nnapi.replay import replay
from support.cts import find_vectors, judge, read_vectors, verdict_on
from support.nnapi_runtime import device

PARTS = 24


def vectors(part):
    path = find_vectors()
    if path is None:
        pytest.skip("no conformance vectors here")
    return read_vectors(path, part=part, parts=PARTS)


def prepared(vector, compilation):
    """An execution of a vector with its buffers."""
    main = vector.model.main
    execution = nnapi.Execution(compilation)
    for index, data in enumerate(vector.inputs):
        execution.set_input(index, data)
    buffers = []
    for index, (want, place) in enumerate(zip(vector.expected, main.outputs, strict=True)):
        size = max(1, int(np.prod(want.dimensions)))
        buffers.append(np.zeros(size, NUMPY[main.operands[place].type]))
        execution.set_output(index, buffers[-1])
    return execution, buffers


def results(execution, buffers):
    found = []
    for index, buffer in enumerate(buffers):
        rank = execution.get_output_operand_rank(index)
        shape = execution.get_output_operand_dimensions(index) if rank else ()
        found.append(buffer[: int(np.prod(shape))].reshape(shape))
    return found


def outcome(vector, names):
    """What is wrong with a vector on devices; empty if nothing is."""
    try:
        model = replay(vector.model)
        devices = [device(name) for name in names]
        compilation = nnapi.Compilation.create_for_devices(model, devices)
        compilation.finish()
        execution, buffers = prepared(vector, compilation)
        execution.set_reusable(True)
        execution.compute()
    except nnapi.Error as error:
        return "" if vector.expect_failure else str(error)
    if vector.expect_failure:
        return "it must fail, but gives results"
    assert (len(model.graph.operations), len(model.wire.referenced)) == (
        len(vector.model.main.operations),
        len(vector.model.referenced),
    )
    if reason := judge(vector, results(execution, buffers)):
        return reason
    first = [buffer.copy() for buffer in buffers]
    for run in (
        execution.compute,
        lambda: execution.start_compute().wait(),
        lambda: execution.burst_compute(nnapi.Burst(compilation)),
    ):
        for buffer in buffers:
            buffer[...] = 0
        run()
        if not all(map(np.array_equal, first, buffers)):
            return "it gives another result the next time"
    return ""


@pytest.mark.parametrize(
    ("part", "names"),
    [(7, ["reference"]), (16, ["onnxruntime:cpu", "reference"]), (4, ["litert:cpu", "reference"])],
    ids=["reference", "onnxruntime", "litert"],
)
def test_vectors_pass_by_way_of_the_calls(part, names):
    wrong = {vector.name: outcome(vector, names) for vector in vectors(part)}
    assert {name: reason for name, reason in wrong.items() if reason} == {}


LEAST_WHOLE = {"onnxruntime:cpu": 1.0, "litert:cpu": 0.99}
"""The share of the vectors that runs without a piece on the reference."""

REFUSED = {
    "onnxruntime:cpu": set(),
    "litert:cpu": {"BOX_WITH_NMS_LIMIT", "MIRROR_PAD"},
}
"""The operations that a device doesn't take in all forms."""


@pytest.mark.parametrize("name", LEAST_WHOLE)
@pytest.mark.parametrize("part", [5, 11])
def test_only_what_a_device_refuses_runs_on_the_reference(name, part):
    found = [
        (vector, *verdict_on(vector, [name, "reference"]))
        for vector in vectors(part)
        if not vector.expect_failure
    ]
    assert {v.name: why for v, verdict, why in found if verdict == "failed"} == {}
    for vector, verdict, _ in found:
        if verdict != "whole":
            assert vector.operations & REFUSED[name], vector.name
            assert verdict == "partly" or vector.operations <= REFUSED[name], vector.name
    whole = sum(verdict == "whole" for _, verdict, _ in found)
    assert whole >= LEAST_WHOLE[name] * len(found)
