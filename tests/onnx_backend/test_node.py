"""onnx's own node tests on the three routes that a model can take.

``scope.json`` has every one of them, a line each, with the operator that it tests and, if it is out
of scope, why. ``not_on_litert.json`` and ``not_on_onnxruntime.json`` name those in scope that the
runtimes can't do. All three are held to what really happens.
"""

import onnxruntime
import pytest

from support.onnx_backend import cases, onnx_version, scope
from support.onnx_backend_worker import Worker

SCOPE = scope()
MOST_WITHOUT_LITERT = 0.03
"""The part of the tests in scope that may fail on LiteRT."""

UNFINISHED: set[str] = set()
"""Routes that not all operators go yet; ``tools/onnx_backend_report.py`` tells which."""


def finished(route):
    return pytest.mark.skipif(route in UNFINISHED, reason=f"route {route} lacks operators")


@pytest.fixture(scope="module")
def worker():
    with Worker() as made:
        yield made


def check(worker, name, route):
    if name not in cases():
        pytest.skip(f"onnx {onnx_version()} has no such test")
    outcome = worker.run(name, route)
    if not outcome.passed:
        pytest.fail(f"{outcome.error} [{outcome.place}]", pytrace=False)


def on_litert(name):
    if name not in SCOPE.tflite:
        return name
    return pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=SCOPE.tflite[name]))


@finished("reference")
@pytest.mark.parametrize("name", SCOPE.inside)
def test_reference(worker, name):
    check(worker, name, "reference")


@finished("onnx")
@pytest.mark.parametrize("name", SCOPE.inside)
def test_onnx(worker, name):
    check(worker, name, "onnx")


@finished("tflite")
@pytest.mark.parametrize("name", [on_litert(name) for name in SCOPE.inside])
def test_tflite(worker, name):
    check(worker, name, "tflite")


# ------------------------------------------------------------------------------ the lists are true


def test_every_node_test_is_in_the_scope_list():
    unknown = [name for name in cases() if name not in SCOPE.families]
    assert unknown == [], f"onnx {onnx_version()} has tests that scope.json doesn't judge"


def test_scope_lists_nothing_else():
    if onnx_version() != SCOPE.onnx_version:
        pytest.skip(f"the list is for onnx {SCOPE.onnx_version}, not {onnx_version()}")
    assert [name for name in SCOPE.families if name not in cases()] == []


def test_scope_names_the_operator_of_each_test():
    known = cases()
    seen = {name: known[name].family for name in SCOPE.families if name in known}
    assert seen == {name: SCOPE.families[name] for name in seen}


def test_reasons_are_of_the_closed_set():
    assert set(SCOPE.outside.values()) == set(SCOPE.reasons)
    assert all(SCOPE.reasons.values())


def test_a_test_that_litert_cannot_do_is_in_scope_and_has_a_reason():
    assert set(SCOPE.tflite) <= set(SCOPE.inside)
    assert all(SCOPE.tflite.values())


def test_litert_does_enough():
    assert len(SCOPE.tflite) <= MOST_WITHOUT_LITERT * len(SCOPE.inside)


def test_onnxruntime_does_the_originals_that_it_is_said_to_do(worker):
    assert set(SCOPE.onnxruntime) <= set(SCOPE.inside)
    versions = onnx_version(), onnxruntime.__version__
    if versions != SCOPE.onnxruntime_versions:
        pytest.skip(f"the list is for {SCOPE.onnxruntime_versions}, not {versions}")
    outcomes = {name: worker.run(name, "original") for name in SCOPE.inside}
    wrong = {name: o.error for name, o in outcomes.items() if not o.passed}
    surprises = {name: error for name, error in wrong.items() if name not in SCOPE.onnxruntime}
    # What depends on the rounding of one CPU's kernels may come out right on another.
    needless = set(SCOPE.onnxruntime) - set(wrong) - SCOPE.by_cpu
    assert (surprises, needless) == ({}, set())
