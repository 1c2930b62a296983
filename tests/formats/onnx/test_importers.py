"""Importers are found without loading the files of ops that a model doesn't have."""

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import onnx
import pytest
from onnx import TensorProto, helper

from nnconv.formats.onnx import imports
from nnconv.formats.onnx.importer import importer_of, importers


def test_every_importer_has_its_file_named():
    found = {
        op: module.name
        for module in iter_modules(imports.__path__)
        for op in import_module(f"{imports.__name__}.{module.name}").IMPORTERS
    }
    assert found == imports.FAMILIES


@pytest.mark.parametrize("op", ["Conv", "Softmax", "com.microsoft:QLinearAdd"])
def test_an_importer_is_found_alone(op):
    assert importer_of(op) is importers()[op]


def test_what_has_no_importer_has_none():
    assert importer_of("NoSuchOp") is None


def test_only_a_models_own_families_are_loaded(tmp_path):
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "exp", [x], [y])
    path = tmp_path / "exp.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    code = (
        f"import sys, nnconv; nnconv.load({str(path)!r}); "
        "print([m for m in sys.modules if m.startswith('nnconv.formats.onnx.imports.')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "['nnconv.formats.onnx.imports.elementwise']"
