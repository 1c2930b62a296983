"""The page of faults names tests that exist, and every test of a kind of fault."""

import ast
import re

from meta.sources import sources
from support.places import ROOT

TEXT = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(test_\w+)`", TEXT)


def functions_below(folder: str) -> set[str]:
    return {
        node.name
        for source in sources()
        if source.path.startswith(folder)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_each_named_test_exists():
    assert set(NAMED) - functions_below("tests/") == set()


def test_each_test_of_a_kind_is_named_once():
    kinds = functions_below("tests/kinds/")
    assert kinds - set(NAMED) == set()
    assert [name for name in kinds if NAMED.count(name) > 1] == []


def test_each_kind_has_a_test():
    for paragraph in re.findall(r"^\*\*.*?(?=\n\n|\Z)", TEXT, re.MULTILINE | re.DOTALL):
        assert re.search(r"^Tests: `test_", paragraph, re.MULTILINE), paragraph.splitlines()[0]
