"""Android's conformance models: valid at the level that they state, and the same after a file."""

import pytest

from nnconv.formats.marks import KEYS, is_container
from nnconv.formats.nnapi import file
from nnconv.formats.nnapi.check import least_level, problems
from support.cts import find_vectors, read_vectors
from support.nnapi_defaults import without_defaults
from support.nnapi_models import assert_same

PARTS = 4

INVALID_WHEN_BUILT = {
    "conv2d_v1_3_invalid_rank_all_inputs_as_internal",
    "conv2d_v1_3_invalid_rank_all_tensors_as_inputs_all_inputs_as_internal",
}
"""The models that must fail already when they are built; others fail when they run."""


@pytest.fixture(params=range(PARTS))
def vectors(request):
    path = find_vectors()
    if path is None:
        pytest.skip("no conformance vectors here")
    return read_vectors(path, part=request.param, parts=PARTS)


def test_models_are_valid_at_exactly_the_level_that_they_state(vectors):
    wrong = {}
    for vector in vectors:
        model = without_defaults(vector.model)
        found = problems(model, vector.level)
        if vector.name in INVALID_WHEN_BUILT:
            assert found
        elif found:
            wrong[vector.name] = str(found[0])
        elif vector.min_level and not vector.expect_failure:
            level = least_level(model)
            if level != vector.min_level:
                wrong[vector.name] = f"level {level}, stated is {vector.min_level}"
    assert wrong == {}


def test_models_are_the_same_after_a_file(vectors):
    for vector in vectors:
        data = file.to_bytes(vector.model)
        again = file.read(data)
        assert_same(vector.model, again)
        assert file.to_bytes(again) == data
        text = file.to_json(vector.model)
        again = file.from_json(text)
        assert_same(vector.model, again)
        assert file.to_json(again) == text
        assert is_container(KEYS["nnapi"], data[:4096], len(data))
        assert is_container(KEYS["nnapi"], text.encode()[:4096], len(text))
