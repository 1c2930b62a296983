"""Broken models end in clean errors: a sample of what tools/fuzz_nnrt.py does at length."""

import random

import pytest

from nnconv.formats.nnrt import file
from nnconv.formats.nnrt.check import findings
from nnconv.formats.nnrt.reader import import_model
from nnconv.ir.verifier import verify_model
from support.fuzzer import load_fuzzer
from support.nnrt_corpus import sound_graphs
from support.places import ROOT

pytest.importorskip("resource", reason="the fuzzer needs POSIX")

fuzzer = load_fuzzer(ROOT / "tools/fuzz_nnrt.py")

GRAPHS = dict(sound_graphs())


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_changed_is_sound_at_first(name):
    assert findings(GRAPHS[name]) == []
    verify_model(import_model(GRAPHS[name]))


@pytest.mark.parametrize("target", ["import", "check"])
@pytest.mark.parametrize("changes", ["entries", "bytes"])
def test_broken_files_end_in_clean_errors(tmp_path, changes, target):
    rng = random.Random(11)
    find, change = fuzzer.FUZZER.changes[changes]
    sound = [file.to_json(graph).encode() for graph in GRAPHS.values()]
    path = tmp_path / "broken.json"
    verdicts = set()
    for _ in range(600):
        data = rng.choice(sound)
        path.write_bytes(change(data, find(data), rng))
        verdict, text = fuzzer.fuzzing.run_case(fuzzer.FUZZER.targets[target], path)
        assert verdict != "failed", text
        verdicts.add(verdict)
    assert "refused" in verdicts
    assert changes == "bytes" or "read" in verdicts
