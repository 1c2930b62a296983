"""Importers are found without loading the files of ops that a model doesn't have."""

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest

import nnconv
from nnconv.formats import FORMATS
from nnconv.formats.source import Importers
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Model, Signature, Value
from nnconv.ir.types import TensorType
from nnconv.ops.elementwise import Exp


def importers_of(kind: str) -> Importers:
    found: Importers = import_module(f"nnconv.formats.{kind}.importer").importers()
    return found


@pytest.mark.parametrize("kind", FORMATS)
def test_every_importer_has_its_file_named(kind):
    package = import_module(f"nnconv.formats.{kind}.imports")
    found = {
        module.name: sorted(import_module(f"{package.__name__}.{module.name}").IMPORTERS)
        for module in iter_modules(package.__path__)
    }
    assert {stem: sorted(ops.split()) for stem, ops in package.OPS.items()} == found
    assert len(importers_of(kind)) == sum(map(len, found.values())), "an op in two files"


def test_a_table_of_importers_is_a_mapping():
    table = importers_of("onnx")
    assert "Conv" in table
    assert "NoSuchOp" not in table
    assert table.get("NoSuchOp") is None
    assert table["Conv"] is dict(table)["Conv"]


@pytest.mark.parametrize("kind", FORMATS)
def test_only_a_models_own_families_are_loaded(kind, tmp_path):
    x = Value("x", TensorType(DType.FLOAT32, (2, 3)))
    graph = Graph("exp")
    graph.inputs = [x]
    graph.outputs = [Builder(graph).add(Exp(), [x], name="y")]
    path = tmp_path / f"exp.{kind}"
    nnconv.save(Model(signatures=[Signature("", graph)]), path)
    package = f"nnconv.formats.{kind}.imports"
    code = (
        f"import sys, nnconv; nnconv.load({str(path)!r}); "
        f"print([m for m in sys.modules if m.startswith('{package}.')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == f"['{package}.elementwise']"
