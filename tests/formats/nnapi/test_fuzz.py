"""Broken models end in clean errors: a sample of what tools/fuzz_nnapi.py does at length."""

import random

import pytest

from nnconv.formats.nnapi import file
from support.cts import find_vectors, read_vectors
from support.fuzzer import load_fuzzer
from support.nnapi_models import add_model, conv_model, if_model
from support.places import ROOT

pytest.importorskip("resource", reason="the fuzzer needs POSIX")

fuzzer = load_fuzzer(ROOT / "tools/fuzz_nnapi.py")


def sound_models():
    """Our own models, and some conformance vectors where these are."""
    yield from (add_model(), conv_model(nchw=True), conv_model(per_channel=True), if_model())
    path = find_vectors()
    if path is not None:
        yield from (vector.model for vector in read_vectors(path, part=7, parts=60))


@pytest.mark.parametrize("changes", ["entries", "bytes"])
def test_broken_files_end_in_clean_errors(tmp_path, changes):
    rng = random.Random(11)
    find, change = fuzzer.FUZZER.changes[changes]
    sound = [file.to_json(model).encode() for model in sound_models()]
    path = tmp_path / "broken.json"
    verdicts = set()
    for _ in range(500):
        data = rng.choice(sound)
        path.write_bytes(change(data, find(data), rng))
        verdict, text = fuzzer.fuzzing.run_case(fuzzer.import_file, path)
        assert verdict != "failed", text
        verdicts.add(verdict)
    assert "refused" in verdicts
    assert changes == "bytes" or "read" in verdicts
