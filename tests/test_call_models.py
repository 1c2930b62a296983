"""Every reference model becomes an NNAPI and an NNRt model, or its obstacles are told.

``call_obstacles.json`` has, for each target, what keeps models from it. A sample of the models;
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
from support.places import find_shared_dir

OBSTACLES: dict[str, dict[str, list[str]]] = json.loads(
    Path(__file__).with_name("call_obstacles.json").read_text(encoding="utf-8")
)
TARGETS: dict[str, dict[str, int]] = {
    "nnapi 8": {"feature_level": 8},
    "nnapi 3": {"feature_level": 3},
    "nnrt 2": {"api": 2},
    "nnrt 1": {"api": 1},
}
"""The format and its version, with the option that asks for it."""

NEWEST = ("nnapi 8", "nnrt 2")
EACH = 1 if os.environ.get("NNCONV_ALL_TRIPS") == "1" else 8
"""Every so manieth model."""

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


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("record", RECORDS, ids=[r["path"] for r in RECORDS])
def test_a_model_converts_or_its_obstacles_are_known(
    record: dict[str, Any], target: str, shared_dir: Path, tmp_path: Path
) -> None:
    kind = target.split(maxsplit=1)[0]
    source, result = shared_dir / "models" / record["path"], tmp_path / f"model.{kind}"
    known = OBSTACLES[target].get(record["path"], [])
    found = []
    try:
        nnconv.convert(source, result, **TARGETS[target])
    except UnsupportedError as error:
        found = obstacles_of(error)
    except InvalidModelError:
        with pytest.raises(InvalidModelError):
            nnconv.load(source)
        return
    assert found == known
    assert result.exists() is not bool(known)
    if not known:
        assert not nnconv.check(result, kind, **TARGETS[target]).obstacles


CONVERTING = [
    pytest.param(r, target, id=f"{target}-{r['path']}")
    for target in NEWEST
    for r in RECORDS
    if r["runs"] and r["path"] not in OBSTACLES[target]
]


@pytest.mark.parametrize(("record", "target"), CONVERTING)
def test_what_converts_gives_what_the_source_gives(
    record: dict[str, Any], target: str, shared_dir: Path, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    source = shared_dir / "models" / record["path"]
    try:
        report = nnconv.convert(
            source, tmp_path / f"model.{target.split(maxsplit=1)[0]}", verify=True
        )
    except BackendError as error:
        if str(source) not in str(error):  # else its own runtime can't run the source
            raise
        return
    verification = report.verification
    assert verification is not None
    assert verification.passed, verification.rows()


def test_obstacles_are_of_models_that_there_are() -> None:
    if not RECORDS:
        pytest.skip("no reference models here")
    folder = find_shared_dir()
    assert folder is not None
    for listed in OBSTACLES.values():
        assert all((folder / "models" / path).exists() for path in listed)
