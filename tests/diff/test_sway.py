"""What halves may differ by where a model hands on their rounding enlarged."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import nnconv
from nnconv.diff.compare import Tolerance
from nnconv.diff.models import diff_models
from nnconv.diff.outcome import Sway, check_output
from nnconv.diff.sway import NUDGES, sways_of
from nnconv.diff.worker import Outcome

SEED = 3


def waves(path, *, factor=61.3, kind=np.float16):
    """The sine of many times the input: what a product's rounding is off by, it is off by too."""
    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes = [helper.make_node("Mul", ["x", "w"], ["p"]), helper.make_node("Sin", ["p"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, code, [4, 9]) for name in "xy")
    weights = [numpy_helper.from_array(np.asarray([factor], kind), "w")]
    graph = helper.make_graph(nodes, "waves", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("verifies", [False, True])
def test_a_model_that_enlarges_roundings_is_asked_by_how_much(tmp_path, verifies):
    source, target = waves(tmp_path / "a.onnx"), tmp_path / "b.nnapi"
    report = nnconv.convert(source, target, verify=verifies, seed=SEED)
    (check,) = (report.verification or diff_models(source, target, seed=SEED)).outputs
    assert check.passed
    assert check.max_abs > 5e-3
    assert check.max_abs < check.tolerance <= 0.1
    assert verifies or "half a step at the inputs may move the source itself by" in check.why


def test_a_wrong_one_is_told_all_the_same(tmp_path):
    source, wrong = waves(tmp_path / "a.onnx"), waves(tmp_path / "b.onnx", factor=61.5)
    (check,) = diff_models(source, wrong, seed=SEED).outputs
    assert not check.passed
    assert "half a step" in check.why
    assert check.max_abs > check.tolerance


def test_a_sway_allows_neither_more_nor_in_more_places():
    halves = Tolerance("relative", 5e-3, "halves", nudges=4)
    expected, sway = np.zeros(100, np.float16), Sway(0.05, 0.01)
    expected[0] = 1

    def passes(*, size, count, tolerance=halves, sway=sway):
        array = expected.copy()
        array[1 : 1 + count] = size
        return check_output("y", array, [expected], tolerance, sway=sway).passed

    assert passes(size=0.04, count=3)
    assert not passes(size=0.04, count=3, sway=None)
    assert not passes(size=0.06, count=1)
    assert not passes(size=0.04, count=60)
    assert passes(size=0.09, count=1, sway=Sway(0.5, 0.1))
    assert not passes(size=0.11, count=1, sway=Sway(0.5, 0.1))


def test_floats_are_given_nothing_for_it(tmp_path):
    source = waves(tmp_path / "a.onnx", kind=np.float32)
    near = waves(tmp_path / "b.onnx", kind=np.float32, factor=61.301)
    (check,) = diff_models(source, near, seed=SEED).outputs
    assert not check.passed
    assert check.tolerance < 2e-4
    assert "half a step" not in check.why


def test_sways_are_the_largest_moves_of_each_output():
    rounds = [[[np.ones(3, np.float16), np.arange(2)]], [[np.ones(3, np.float16), np.arange(2)]]]
    given = []

    def run(nudged):
        given.extend(nudged)
        results = [
            [[np.asarray([2.0, 1.0 + number]), np.asarray([np.nan, 5.0])]]
            for number in range(len(nudged))
        ]
        results[-1] = None
        return Outcome(results)

    expected = [[[np.asarray([2.0, 1.0]), np.asarray([1.0, 5.0])]], None]
    assert sways_of(rounds, expected, run, nudges=1, seed=0) == [
        [[Sway(2.0 * NUDGES - 2, np.sqrt(0.5) * (NUDGES - 1)), Sway()]],
        [],
    ]
    assert len(given) == 2 * NUDGES
    for ((floats, integers),) in given:
        assert floats.dtype == np.float16
        assert set(floats.tolist()) <= {1.0, 1.0 - 2**-11, 1.0 + 2**-10}
        assert np.array_equal(integers, np.arange(2))
    assert len({floats.tobytes() for ((floats, _),) in given}) > 1
    given.clear()
    sways_of(rounds, expected, run, nudges=4, seed=0)
    assert {float(v) for ((floats, _),) in given for v in floats} == {1 - 2**-9, 1 + 2**-9}
