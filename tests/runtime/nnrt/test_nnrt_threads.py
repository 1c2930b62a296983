"""Threads that share what NNRt lets them share: each gets its own results."""

import numpy as np
import pytest
from nnconv.backends import devices

from nnconv.runtime import nnrt
from support.nnrt_runtime import REFERENCE, array, compiled, described, device_id, finished
from support.threads import RUNS, in_threads

NAMES = [found.name for found in devices() if found.available]


def computes(compilation, number, runs=RUNS):
    """Run again and again by one executor."""
    made = nnrt.Executor(compilation)
    made.set_input(1, described(), array())
    result = np.zeros((2, 3), np.float32)
    made.set_output(0, result)
    for turn in range(runs):
        data = array() + 1000 * number + turn
        made.set_input(0, described(), data)
        made.run()
        np.testing.assert_array_equal(result, data + array())


@pytest.mark.parametrize("api", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_executors_of_one_compilation(name, api):
    compilation = compiled(name=name, api=api)
    in_threads(lambda number: computes(compilation, number))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kept", [False, True], ids=["anew", "kept"])
def test_compilations_of_one_model(name, kept, tmp_path):
    model = finished()

    def work(number):
        for _ in range(2):
            made = nnrt.Compilation(model)
            made.set_device(device_id(name))
            if kept and name != REFERENCE:  # which has none
                made.set_cache(tmp_path, 1)
            made.build()
            computes(made, number, RUNS // 2)

    in_threads(work)
