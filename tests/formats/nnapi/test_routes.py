"""Android's conformance vectors by way of files of other formats, and back.

A sample of each operation's vectors; with ``NNCONV_ALL_TRIPS=1`` all of them, as
``tools/cts_report.py --route`` reports. ``no_form.json`` lists what a format has no form for:
the reasons, and the operations of the vectors that meet them. ``no_way_back.json`` lists what NNAPI
can't hold of a file's own form.
"""

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from support.cts import find_vectors, read_vectors, subject_of
from support.cts_routes import verdict_by_way_of

NO_FORM = json.loads(Path(__file__).with_name("no_form.json").read_text())
ROUTES = sorted(NO_FORM)
PARTS = 8
MOST = 1
"""So many vectors of each operation are enough, for each part."""

ALL = os.environ.get("NNCONV_ALL_TRIPS") == "1"


def sample(part):
    path = find_vectors()
    if path is None:
        pytest.skip("no conformance vectors here")
    done = Counter()
    for vector in read_vectors(path, part=part, parts=PARTS):
        subject = subject_of(vector)
        done[subject] += 1
        if ALL or done[subject] <= MOST:
            yield subject, vector


def is_listed(route, subject, reason):
    listed = NO_FORM[route]
    reason = re.sub(r"operand \d+", "operand", reason)
    return all(subject in listed.get(why, ()) for why in reason.split(" | "))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("route", ROUTES)
def test_verdicts_stay_the_same(route, part):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    wrong, count = {}, 0
    for subject, vector in sample(part):
        count += 1
        verdict, reason = verdict_by_way_of(vector, route)
        if verdict == "passed" or (verdict == "unsupported" and is_listed(route, subject, reason)):
            continue
        wrong[vector.name] = f"{verdict}: {reason}"
    assert wrong == {}
    assert count > 50


NO_WAY_BACK = json.loads(Path(__file__).with_name("no_way_back.json").read_text())
"""By route, operations that NNAPI can't hold in every form that a file has of them, and why."""


@pytest.mark.parametrize("part", range(0, PARTS, 1 if ALL else 4))
@pytest.mark.parametrize("route", ["nnapi", *sorted(NO_WAY_BACK)])
def test_what_comes_back_gives_the_same_verdict(route, part):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    wrong, passed = {}, 0
    for subject, vector in sample(part):
        verdict, reason = verdict_by_way_of(vector, route)
        passed += verdict == "passed"
        listed = verdict == "unsupported" and subject in NO_WAY_BACK.get(route, ())
        if verdict != "passed" and not listed:
            wrong[vector.name] = f"{verdict}: {reason}"
    assert wrong == {}
    assert passed > 50


def test_reasons_name_operations_that_exist():
    path = find_vectors()
    if path is None:
        pytest.skip("no conformance vectors here")
    subjects = {subject_of(vector) for vector in read_vectors(path)}
    for route in ROUTES:
        assert {s for listed in NO_FORM[route].values() for s in listed} <= subjects
    for listed in NO_WAY_BACK.values():
        assert set(listed) <= subjects
