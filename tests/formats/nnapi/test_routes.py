"""Android's conformance vectors by way of files of other formats, and back.

A sample of each operation's vectors; with ``NNCONV_ALL_TRIPS=1`` all of them, as
``tools/cts_report.py --route`` reports. ``no_form.json`` lists what a format has no form for:
the reasons, and the operations of the vectors that meet them.
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
    return all(subject in listed.get(why, ()) for why in reason.split("; "))


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


MOST_UNWRITTEN = 0.3
"""Of a sample: NNAPI lacks types that other formats spell an operation with."""


@pytest.mark.parametrize("part", range(0, PARTS, 1 if ALL else 4))
@pytest.mark.parametrize("route", ["onnx-nnapi", "tflite-nnapi"])
def test_what_comes_back_gives_the_same_verdict(route, part):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    wrong, found = {}, Counter()
    for _, vector in sample(part):
        verdict, reason = verdict_by_way_of(vector, route)
        found[verdict] += 1
        if verdict not in ("passed", "unsupported"):
            wrong[vector.name] = f"{verdict}: {reason}"
    assert wrong == {}
    assert found["unsupported"] <= MOST_UNWRITTEN * found.total()
    assert found["passed"] > 30


def test_reasons_name_operations_that_exist():
    path = find_vectors()
    if path is None:
        pytest.skip("no conformance vectors here")
    subjects = {subject_of(vector) for vector in read_vectors(path)}
    for route in ROUTES:
        assert {s for listed in NO_FORM[route].values() for s in listed} <= subjects
