"""Every reference model: what LiteRT runs converts and agrees, what it can't run is told why."""

import json

import onnx
import pytest
from nnconv.backends import compile as compile_for

import nnconv
from nnconv.diff import verify
from nnconv.diff.worker import Outcome
from nnconv.errors import BackendError, UnsupportedError
from support.places import find_shared_dir

SHARED = find_shared_dir()
INDEX = SHARED / "models" / "index.json" if SHARED else None
RECORDS = json.loads(INDEX.read_text(encoding="utf-8")) if INDEX and INDEX.exists() else []
TFLITE = [record for record in RECORDS if record["format"] == "tflite"]
RUNNING = [record["path"] for record in TFLITE if record["runs"]]
OTHERS = [record["path"] for record in TFLITE if not record["runs"]]

pytestmark = pytest.mark.skipif(not TFLITE, reason="no reference models here")


def here(path, device, rounds, **options):
    """What a worker would give, without its process: these models crash nothing."""
    try:
        executable = compile_for(path, device, threads=1, **options)
    except BackendError as error:
        return Outcome([None] * len(rounds), error.message)
    names = [info.name for info in executable.inputs]
    results, failure = [], ""
    for steps in rounds:
        executable.reset()
        try:
            runs = [executable.run(dict(zip(names, arrays, strict=True))) for arrays in steps]
            results.append([list(found.values()) for found in runs])
        except BackendError as error:
            results.append(None)
            failure = failure or error.message
    return Outcome(results, failure)


def extents(info):
    """A shape as all formats can say it: open extents have no names."""
    return [dim if isinstance(dim, int) else None for dim in info.shape]


@pytest.mark.parametrize("path", RUNNING, ids=lambda path: path.rpartition("/")[2])
def test_model_that_litert_runs_converts_and_agrees(path, tmp_path):
    source, target = SHARED / "models" / path, tmp_path / "model.onnx"
    report = nnconv.convert(source, target)
    onnx.checker.check_model(str(target), full_check=True)
    model = nnconv.load(source)
    rounds = verify._rounds(model, 0)
    outcomes = [here(source, "litert:cpu", rounds, resolver=kind) for kind in ("xnn", "opt")]
    ran = [outcome for outcome in outcomes if outcome.results[0] is not None]
    assert ran, outcomes[0].error
    result = here(target, "onnxruntime:cpu", rounds)
    sides = verify._Source("litert:cpu", ran, [])
    found = verify._compare(report, model, sides, result, 0)
    assert found.passed, found.rows()
    before, after = compile_for(source, "litert:cpu"), compile_for(target)
    renamed = {(kind, new) for kind, _, new in report.renamed}
    sides_by_kind = (
        ("input", before.inputs, after.inputs),
        ("output", before.outputs, after.outputs),
    )
    for kind, old, new in sides_by_kind:
        for was, now in zip(old, new, strict=True):
            assert was.name == now.name or (kind, now.name) in renamed
            assert was.dtype is now.dtype
            # What files say of their outputs' shapes may be stale.
            assert kind == "output" or extents(was) == extents(now)
    nnconv.convert(source, tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == target.read_bytes()


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.rpartition("/")[2])
def test_model_that_litert_can_not_run_converts_or_is_refused_with_the_reason(path, tmp_path):
    target = tmp_path / "model.onnx"
    refusal = None
    try:
        nnconv.convert(SHARED / "models" / path, target)
    except UnsupportedError as error:
        refusal = error
    if refusal is None:
        compile_for(target)
    else:
        assert all(item.why for item in refusal.items)
        assert not target.exists()
