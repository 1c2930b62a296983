"""Every reference model becomes an NNRt model of either version, or its obstacles are told.

``nnrt_obstacles.json`` has, for each version, what keeps models from it. A sample of the models;
with ``NNCONV_ALL_TRIPS=1`` all of them.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import nnconv
from nnconv.errors import BackendError, InvalidModelError, UnsupportedError
from nnconv.formats.nnrt import file
from nnconv.formats.nnrt.check import findings
from support.places import find_shared_dir

OBSTACLES: dict[str, dict[str, list[str]]] = json.loads(
    Path(__file__).with_name("nnrt_obstacles.json").read_text(encoding="utf-8")
)
VERSIONS = (1, 2)
EACH = 1 if os.environ.get("NNCONV_ALL_TRIPS") == "1" else 8
"""Every so manieth model."""

COARSE = 4
"""So many tolerances are allowed where onnxruntime computes a model of halves in float32."""

LIMIT = 1 << 21
"""Larger models are left out of the sample."""


def _records() -> list[dict[str, Any]]:
    folder = find_shared_dir()
    index = folder / "models" / "index.json" if folder else None
    if index is None or not index.exists():
        return []
    records = json.loads(index.read_text(encoding="utf-8"))
    return records if EACH == 1 else [r for r in records if r["size"] <= LIMIT][::EACH]


RECORDS = _records()


def obstacles_of(error: UnsupportedError) -> list[str]:
    """What is in the way, once each, without the names of values."""
    return sorted({f"{item.op}: {re.sub('`[^`]*`', '`...`', item.why)}" for item in error.items})


@pytest.mark.parametrize("api", VERSIONS)
@pytest.mark.parametrize("record", RECORDS, ids=[r["path"] for r in RECORDS])
def test_a_model_converts_or_its_obstacles_are_known(
    record: dict[str, Any], api: int, shared_dir: Path, tmp_path: Path
) -> None:
    source, target = shared_dir / "models" / record["path"], tmp_path / "model.nnrt"
    known = OBSTACLES[str(api)].get(record["path"], [])
    found = []
    try:
        nnconv.convert(source, target, api=api)
    except UnsupportedError as error:
        found = obstacles_of(error)
    except InvalidModelError:
        with pytest.raises(InvalidModelError):
            nnconv.load(source)
        return
    assert found == known
    assert target.exists() is not bool(known)
    if known:
        return
    graph = file.read(target)
    assert graph.api == api
    assert not findings(graph, api)


CONVERTING = [r for r in RECORDS if r["runs"] and r["path"] not in OBSTACLES["2"]]


@pytest.mark.parametrize("record", CONVERTING, ids=[r["path"] for r in CONVERTING])
def test_what_converts_gives_what_the_source_gives(
    record: dict[str, Any], shared_dir: Path, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    source = shared_dir / "models" / record["path"]
    try:
        report = nnconv.convert(source, tmp_path / "model.nnrt", verify=True)
    except BackendError as error:
        if str(source) not in str(error):  # else its own runtime can't run the source
            raise
        return
    verification = report.verification
    assert verification is not None
    allowed = COARSE if record["path"].endswith("basic_pitch.fp16.onnx") else 1
    for output in verification.outputs:
        assert output.max_abs <= allowed * output.tolerance, output
        assert not output.wrong_form


def test_obstacles_are_of_models_that_there_are() -> None:
    if not RECORDS:
        pytest.skip("no reference models here")
    folder = find_shared_dir()
    assert folder is not None
    for listed in OBSTACLES.values():
        assert all((folder / "models" / path).exists() for path in listed)
