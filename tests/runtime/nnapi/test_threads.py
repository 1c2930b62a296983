"""Threads that share what NNAPI lets them share: each gets its own results."""

import subprocess
import sys

import numpy as np
import pytest
from nnconv.backends import devices

from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import ResultCode
from support.nnapi_calls import TOKEN, array
from support.nnapi_runtime import REFERENCE, compiled, device, finished
from support.threads import RUNS, in_threads

NAMES = [found.name for found in devices() if found.available]


def wanted(number, turn):
    """An input that no other run has."""
    return array() + 1000 * number + turn


def execution(compilation, data, result):
    made = nnapi.Execution(compilation)
    made.set_input(0, data)
    made.set_input(1, array())
    made.set_output(0, result)
    return made


def computes(compilation, number, runs=RUNS):
    """Run again and again, each time by an execution of its own."""
    for turn in range(runs):
        data, result = wanted(number, turn), np.zeros((2, 3), np.float32)
        execution(compilation, data, result).compute()
        np.testing.assert_array_equal(result, data + array())


@pytest.mark.parametrize("name", NAMES)
def test_executions_of_one_compilation(name):
    compilation = compiled(names=[name])
    in_threads(lambda number: computes(compilation, number))


@pytest.mark.parametrize("name", NAMES)
def test_reusable_executions_of_one_compilation(name):
    compilation = compiled(names=[name])

    def work(number):
        data, result = array(), np.zeros((2, 3), np.float32)
        made = execution(compilation, data, result)
        made.set_reusable(True)
        for turn in range(RUNS):
            data[:] = wanted(number, turn)
            made.compute()
            np.testing.assert_array_equal(result, data + array())

    in_threads(work)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kept", [False, True], ids=["anew", "kept"])
def test_compilations_of_one_model(name, kept, tmp_path):
    model = finished()

    def work(number):
        for _ in range(2):
            made = nnapi.Compilation.create_for_devices(model, [device(name)])
            if kept:
                made.set_caching(tmp_path, TOKEN)
            made.finish()
            computes(made, number, RUNS // 2)

    in_threads(work)


@pytest.mark.parametrize("name", NAMES)
def test_runs_of_more_shapes_than_are_kept_ready(name):
    compilation = compiled(finished((0, 3)), [name])

    def work(number):
        for turn in range(RUNS // 20):
            data = np.full((1 + (number + turn) % 12, 3), number, np.float32)
            made = nnapi.Execution(compilation)
            kind = nnapi.OperandType(nnapi.OperandCode.TENSOR_FLOAT32, data.shape)
            made.set_input(0, data, type=kind)
            made.set_input(1, data, type=kind)
            result = np.zeros_like(data)
            made.set_output(0, result)
            made.compute()
            np.testing.assert_array_equal(result, 2 * data)

    in_threads(work)


def test_bursts_and_events_of_one_compilation():
    compilation = compiled(names=[NAMES[0], REFERENCE])

    def work(number):
        burst = nnapi.Burst(compilation)
        for turn in range(RUNS):
            data, result = wanted(number, turn), np.zeros((2, 3), np.float32)
            made = execution(compilation, data, result)
            if turn % 2:
                made.burst_compute(burst)
            else:
                made.start_compute().wait()
            np.testing.assert_array_equal(result, data + array())

    in_threads(work)


@pytest.mark.parametrize("name", NAMES)
def test_one_execution_for_all_runs_or_is_refused(name):
    data, result = array(), np.zeros((2, 3), np.float32)
    made = execution(compiled(names=[name]), data, result)
    made.set_reusable(True)
    codes = set()

    def work(_):
        for _ in range(RUNS):
            try:
                made.compute()
            except nnapi.Error as error:
                codes.add(error.code)

    in_threads(work)
    assert codes <= {ResultCode.BAD_STATE}
    np.testing.assert_array_equal(result, data + array())


@pytest.mark.parametrize("name", NAMES)
def test_a_process_ends_when_its_computations_have(name):
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
import numpy as np
from nnconv.runtime import nnapi
from support.nnapi_loops import below, loop, plus
from support.nnapi_runtime import compiled
made = nnapi.Execution(compiled(loop(below(np.inf), plus(1)), [{name!r}]))
made.set_input(0, np.ones(1, np.float32))
made.set_output(0, np.zeros(1, np.float32))
made.set_loop_timeout(300_000_000)
made.start_compute()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
