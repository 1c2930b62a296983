"""The public names: all there, all declared, nothing else."""

import ast
import importlib
import inspect

import pytest

import nnconv
from meta.sources import package_sources

PACKAGES = sorted(
    source.module
    for source in package_sources()
    if source.path.endswith("__init__.py") and "__all__" in source.text
)

DOCUMENTED = {
    "CheckReport", "ConversionReport", "Device", "Model", "__version__", "check", "compile",
    "convert", "devices", "errors", "load", "save",
}  # fmt: skip
"""The names that docs promise: taking one away breaks users."""


def test_the_public_names_are_those_that_the_docs_promise():
    assert set(nnconv.__all__) == DOCUMENTED


@pytest.mark.parametrize("name", sorted(nnconv.__all__))
def test_public_name_resolves(name):
    assert getattr(nnconv, name) is not None
    assert name in dir(nnconv)


def test_declared_names_exist_once():
    modules = [importlib.import_module(package) for package in PACKAGES]
    assert [m.__name__ for m in modules if len(set(m.__all__)) != len(m.__all__)] == []
    assert [(m.__name__, n) for m in modules for n in m.__all__ if not hasattr(m, n)] == []


def test_packages_show_nothing_undeclared():
    shown = [
        f"{package}.{name}"
        for package in PACKAGES
        for name, value in vars(importlib.import_module(package)).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", "").split(".")[0] == "nnconv"
        and name not in importlib.import_module(package).__all__
    ]
    assert shown == []


def test_type_checkers_see_the_same_names():
    tree = ast.parse(inspect.getsource(nnconv))
    block = next(n for n in tree.body if isinstance(n, ast.If))
    seen = {
        alias.name: node.module
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {**nnconv._HOME, "errors": "nnconv"}


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = nnconv.nothing
