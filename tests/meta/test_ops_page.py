"""The page of ops is the one that its tool writes now."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from nnconv.formats.tflite.importer import importers
from nnconv.ops.diagonal import MatrixDiag
from nnconv.ops.gather import TopK
from support.places import ROOT


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_ops_page", ROOT / "tools/gen_ops_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_fresh(tool: ModuleType) -> None:
    stale = tool.TARGET.read_text(encoding="utf-8") != tool.render()
    assert not stale, "docs/ops.md is stale: run tools/gen_ops_page.py"


def test_check_option_sees_a_stale_page(
    tool: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stale = tmp_path / "ops.md"
    stale.write_text("# Ops\n")
    monkeypatch.setattr(tool, "TARGET", stale)
    monkeypatch.setattr(sys, "argv", ["gen_ops_page.py", "--check"])
    assert tool.main() == 1
    assert "stale" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("SCATTER_ND", ["Fill", "ScatterNd"]),
        ("LOGICAL_AND", ["LogicalAnd"]),
        ("RELU6", ["Clip"]),
        ("TOPK_V2", ["TopK"]),
    ],
)
def test_ops_are_read_off_importers(tool: ModuleType, name: str, ops: list[str]) -> None:
    assert tool.ir_ops(name, importers()[name]) == ops


def test_nodes_are_read_off_exporters(tool: ModuleType) -> None:
    assert tool.onnx_nodes(TopK) == ["TopK"]
    found = tool.onnx_nodes(MatrixDiag)
    assert found == ["Equal", "Range", "Shape", "Slice", "Unsqueeze", "Where"]
