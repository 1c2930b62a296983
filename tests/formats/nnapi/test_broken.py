"""Models that break one demand each of an operation: all that read NNAPI models refuse them alike.

The valid models that they are made from are conformance vectors, one for each form of an operation.
"""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import nnconv
from nnconv.errors import InvalidModelError
from nnconv.formats.nnapi import file
from nnconv.formats.nnapi.table import Match, match, rule_kinds
from nnconv.formats.nnapi.types import OperationCode
from nnconv.formats.nnapi.wire import Lifetime, Model
from nnconv.runtime.nnapi import Error, ResultCode
from nnconv.runtime.nnapi.replay import replay
from support.cts import Vector, find_vectors, vectors_of
from support.nnapi_broken import RULES, Breaker, Broken, copied
from support.nnapi_runtime import run_on_zeros

PARTS = 8

KNOWN_WHEN_RUN = {
    "BOX_WITH_NMS_LIMIT",  # as many boxes as a run finds
    "FILL",  # its vectors have nothing else that may be an input
    "GENERATE_PROPOSALS",
}
"""Operations whose results have extents that only a run tells."""


@cache
def forms(path: Path) -> tuple[tuple[str, Model], ...]:
    """Name and model of a vector for each form of an operation: its list of inputs, its types."""
    found: dict[tuple[object, ...], tuple[str, Model]] = {}
    for vector in vectors_of(path):
        main = vector.model.main
        if vector.expect_failure or len(main.operations) != 1:
            continue
        form = match(main.operations[0], main)
        key = (form.spec.name, form.variant.name, form.signature.types.get("T"))
        if key not in found:
            model = with_settings(vector, form)
            if all(model.main.operands[index].is_known for index in model.main.inputs):
                found[key] = (vector.name, model)
    return tuple(found.values())


def with_settings(vector: Vector, form: Match) -> Model:
    """A vector's model, in which what says how the operation works is constant or left out."""
    model = copied(vector.model)
    main = model.main
    formals = dict(zip(main.operations[0].inputs, form.inputs, strict=True))
    omitted = vector.omitted
    given = [index for index in main.inputs if index not in omitted]
    data = [i for i in given if formals[i].var or formals[i].types is None] or given[-1:]
    for index, array in zip(main.inputs, vector.inputs, strict=True):
        operand = main.operands[index]
        if index in omitted:
            operand.lifetime = Lifetime.NO_VALUE
        elif index not in data:
            operand.lifetime, operand.value = Lifetime.CONSTANT, array
    main.inputs = tuple(data)
    return model


def part_of(part: int) -> tuple[tuple[str, Model], ...]:
    path = find_vectors()
    if path is None:
        pytest.skip("no conformance vectors here")
    return forms(path)[part::PARTS]


def ran(model: Model) -> tuple[ResultCode, str]:
    """What the calls say that build and run a model: NO_ERROR, or the code and text."""
    try:
        run_on_zeros(replay(model))
    except Error as error:
        return error.code, str(error)
    return ResultCode.NO_ERROR, ""


def disagreement(broken: Broken, path: Path) -> str:
    """Where check, load and the runtime say different things of a model; empty if they don't."""
    file.write(broken.model, path)
    report = nnconv.check(path, "nnapi")
    try:
        nnconv.load(path)
        loaded = ""
    except InvalidModelError as error:
        loaded = str(error)
    code, text = ran(broken.model)
    if broken.level is not None and report.passed:
        below = nnconv.check(path, "nnapi", feature_level=broken.level - 1)
        return "" if below.obstacles and below.least_version == broken.level else "no level"
    if report.passed or not loaded or code is ResultCode.NO_ERROR:
        return f"check: {report.passed}, load: {loaded}, run: {code.name}"
    if not all(obstacle.why in loaded for obstacle in report.obstacles):
        return f"check says {report.obstacles}, load says {loaded}"
    if not any(obstacle.why in text for obstacle in report.obstacles):
        return f"check says {report.obstacles}, running says {text}"
    is_late = code is not ResultCode.BAD_DATA and broken.stage == "build" and broken.level is None
    return "it runs into it late" if is_late else ""


@pytest.mark.parametrize("part", range(PARTS))
def test_check_load_and_runtime_refuse_the_same_for_the_same_reason(part, tmp_path):
    wrong = {}
    count = Counter()
    for name, model in part_of(part):
        operation = model.main.operations[0].code.name
        for broken in Breaker(model).all():
            if broken.rule.startswith("extents") and operation in KNOWN_WHEN_RUN:
                continue
            count[broken.stage] += 1
            if found := disagreement(broken, tmp_path / "model.nnapi"):
                wrong[name, broken.rule] = found
    assert wrong == {}
    assert min(count.values()) > 50


@pytest.mark.parametrize("part", range(PARTS))
def test_valid_models_pass(part, tmp_path):
    wrong = {}
    for name, model in part_of(part):
        file.write(model, tmp_path / "model.nnapi")
        report = nnconv.check(tmp_path / "model.nnapi", "nnapi")
        if not report.passed:
            wrong[name] = report.obstacles
        nnconv.load(tmp_path / "model.nnapi")
    assert wrong == {}


def test_optional_inputs_may_be_left_out(tmp_path):
    """Models whose inputs a run leaves out are valid, though their extents say nothing."""
    path = find_vectors()
    if path is None:
        pytest.skip("no conformance vectors here")
    wrong, count = {}, 0
    for vector in vectors_of(path)[::2]:
        operands = [vector.model.main.operands[index] for index in vector.omitted]
        if vector.expect_failure or not operands or any(any(o.dimensions) for o in operands):
            continue
        count += 1
        file.write(vector.model, tmp_path / "model.nnapi")
        report = nnconv.check(tmp_path / "model.nnapi", "nnapi")
        given = len(nnconv.load(tmp_path / "model.nnapi").inputs)
        if not report.passed or given < len(vector.inputs) - len(vector.omitted):
            wrong[vector.name] = report.obstacles, given
    assert wrong == {}
    assert count > 20


def test_what_must_fail_does_so_for_one_reason(tmp_path):
    path = find_vectors()
    if path is None:
        pytest.skip("no conformance vectors here")
    wrong, count = {}, 0
    for vector in vectors_of(path):
        if vector.expect_failure:
            count += 1
            broken = Broken("as it is", "compute", vector.model)
            if found := disagreement(broken, tmp_path / "model.nnapi"):
                wrong[vector.name] = found
    assert wrong == {}
    assert count == 7


def test_every_kind_of_rule_is_broken():
    assert set(RULES) == set(rule_kinds())


def test_almost_every_operation_is_among_them():
    path = find_vectors()
    if path is None:
        pytest.skip("no conformance vectors here")
    seen = {model.main.operations[0].code for _, model in forms(path)}
    lacking = {code.name for code in set(OperationCode) - seen}
    assert lacking == {"LOGICAL_NOT", "QUANTIZED_LSTM", "RANDOM_MULTINOMIAL", "RNN"}
