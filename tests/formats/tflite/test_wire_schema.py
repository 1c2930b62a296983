"""The generated schema is the one that the installed LiteRT ships."""

import importlib.util
import subprocess
import sys

import pytest
from ai_edge_litert import schema_py_generated as litert

from nnconv.formats.tflite._gen import schema
from support.places import ROOT

GENERATOR = ROOT / "tools/gen_tflite_schema.py"


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("gen_tflite_schema", GENERATOR)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_file_is_fresh(generator):
    assert generator.TARGET.read_text() == generator.render(generator.installed_source())


def test_check_option_sees_a_stale_file(tmp_path, generator, monkeypatch, capsys):
    stale = tmp_path / "schema.py"
    stale.write_text(generator.TARGET.read_text() + "\n")
    monkeypatch.setattr(generator, "TARGET", stale)
    monkeypatch.setattr(sys, "argv", ["gen_tflite_schema.py", "--check"])
    assert generator.main() == 1
    assert "stale" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["TensorType", "Padding", "ActivationFunctionType"])
def test_enumerations_are_the_schemas(name):
    theirs = {key: value for key, value in vars(getattr(litert, name)).items() if key.isupper()}
    assert {member.name: int(member) for member in getattr(schema, name)} == theirs


def test_operators_are_the_schemas():
    theirs = {key: v for key, v in vars(litert.BuiltinOperator).items() if key.isupper()}
    assert theirs == schema.BUILTIN_OPERATOR


def test_each_options_table_belongs_to_an_operator():
    members = {
        m for union in ("BuiltinOptions", "BuiltinOptions2") for m in schema.UNIONS[union].values()
    }
    assert set(schema.OPTIONS.values()) == members


def test_every_table_that_a_field_names_exists():
    for name, fields in schema.TABLES.items():
        for field, (_, kind, type_name, _) in fields.items():
            if kind in ("table", "tables"):
                assert type_name in schema.TABLES, f"{name}.{field}"
            if kind == "union":
                assert set(schema.UNIONS[type_name].values()) <= set(schema.TABLES)
                assert fields[f"{field}_type"][1] == "scalar"


def test_import_is_cheap():
    code = (
        "import enum, sys, numpy\n"
        "from nnconv.formats import tflite\n"
        "sys.path.append(sys.argv[1])\n"
        "from support.effort import calls_of\n"
        "print(calls_of(lambda: __import__('nnconv.formats.tflite._gen.schema')))\n"
    )
    command = [sys.executable, "-c", code, str(ROOT / "tests")]
    assert int(subprocess.check_output(command, text=True)) < 10_000
