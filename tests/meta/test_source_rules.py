"""Rules on the source that no linter knows."""

import ast
import itertools
import re

import pytest

from meta.sources import package_sources, sources
from support.places import ROOT

BROAD = {"Exception", "BaseException"}


def broad_excepts(tree):
    """The handlers that catch everything and don't raise at their end."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        broad = node.type is None or any(isinstance(c, ast.Name) and c.id in BROAD for c in caught)
        if broad and not isinstance(node.body[-1], ast.Raise):
            yield node.lineno


def test_errors_are_never_swallowed():
    found = {s.module: list(broad_excepts(s.tree)) for s in package_sources()}
    assert len(found.pop("nnconv.cli")) == 1
    assert {module: lines for module, lines in found.items() if lines} == {}


def test_nothing_is_supported_by_raising():
    raised = [
        f"{source.path}:{node.lineno}"
        for source in package_sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Raise) and "NotImplementedError" in ast.dump(node)
    ]
    assert raised == []


def stiff_counts(tree):
    """The texts that say "1 nodes" where one node is counted, but for those that developers see."""
    if isinstance(tree, ast.FunctionDef) and tree.name in {"__repr__", "__str__"}:
        return
    parts = tree.values if isinstance(tree, ast.JoinedStr) else []
    for count, after in itertools.pairwise(parts):
        if isinstance(count, ast.FormattedValue) and isinstance(after, ast.Constant):
            text = f"{ast.unparse(count.value)}{after.value}"
            if re.match(r"(len|sum)\(.*\) (?!has )([a-z]+-)*[a-z]+[^s]s\b", text):
                yield text
    for child in ast.iter_child_nodes(tree):
        yield from stiff_counts(child)


def test_what_is_counted_may_be_one():
    found = {s.path: list(stiff_counts(s.tree)) for s in package_sources()}
    assert {path: texts for path, texts in found.items() if texts} == {}


FORBIDDEN = {
    # The patterns are written so that they don't match themselves.
    "unfinished work": r"\b(TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b",
    "a path of one machine": r"/(wor[k]|tm[p])/",
    "who or what wrote it": r"(?i)\b(clau[d]e|anthro[p]ic|chat[g]pt|copi[l]ot|(?-i:L[L]M)"
    r"|language mode[l]s? wrote|written by an? (a[i]|assistant))\b",
    "a tracker that readers can't see": r"(?i)\bissue[ ]#?\d",
}

TEXTS = {".py", ".md", ".toml", ".sh", ".json", ".yml", ".yaml", ".txt", ".cfg"}
HIDDEN_BUT_OURS = {".ci", ".gitignore"}


def texts():
    for file in sorted(ROOT.rglob("*")):
        parts = file.relative_to(ROOT).parts
        foreign = any(
            part in {"build", "dist", "venv", "__pycache__"}
            or (part.startswith(".") and part not in HIDDEN_BUT_OURS)
            for part in parts
        )
        if not foreign and file.is_file() and (file.suffix in TEXTS or parts[0] in HIDDEN_BUT_OURS):
            yield file


@pytest.mark.parametrize("what", FORBIDDEN)
def test_texts_speak_of_the_project_alone(what):
    pattern = re.compile(FORBIDDEN[what])
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:90]}"
        for file in texts()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_docs_do_not_name_the_reference_folder():
    pattern = re.compile(r"(?<![\w./])(\.\./)?share[d]/")
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()[:90]}"
        for file in texts()
        if "tests" not in file.parts
        for line in file.read_text(encoding="utf-8").splitlines()
        if pattern.search(line)
    ]
    assert found == []


def test_tests_find_the_reference_models_by_the_helper_alone():
    pattern = re.compile(r"NNCONV_SHARE[D]|parent / \"share[d]\"")
    using = {s.path for s in sources() if s.path.startswith("tests/") and pattern.search(s.text)}
    assert using <= {"tests/support/places.py", "tests/conftest.py"}
