"""Android's conformance vectors as ONNX models, on onnxruntime: a sample of each operation's."""

from collections import Counter

import numpy as np
import pytest

import nnconv
from nnconv.errors import UnsupportedError
from nnconv.formats.nnapi.reader import import_model
from support.cts import find_vectors, judge, read_vectors, requests_of, subject_of

PARTS = 4
MOST = 3
"""So many vectors of each operation are enough, for each part."""


@pytest.mark.parametrize("part", range(PARTS))
def test_vectors_pass_as_onnx(part):
    pytest.importorskip("onnxruntime")
    path = find_vectors()
    if path is None:
        pytest.skip("no conformance vectors here")
    wrong, done, refused = {}, Counter(), 0
    for vector in read_vectors(path, part=part, parts=PARTS):
        subject = subject_of(vector)
        if vector.expect_failure or done[subject] >= MOST:
            continue
        done[subject] += 1
        omitted = vector.omitted
        model = import_model(vector.model, omitted=omitted)
        try:
            runner = nnconv.compile(model, "onnxruntime:cpu")
        except UnsupportedError:
            refused += 1
            continue
        results = runner.run(requests_of(vector, model))
        outputs = [np.asarray(results[info.name]) for info in runner.outputs]
        if reason := judge(vector, outputs):
            wrong[vector.name] = reason
    assert wrong == {}
    assert refused <= 0.02 * done.total()
