"""No giant files, no giant functions."""

import ast
import warnings

import pytest

from meta.sources import sources

WANTED_LINES = 500
MOST_LINES = 800
MOST_FUNCTION_LINES = 80

LONG_FILES: dict[str, str] = {}
"""Files that may pass the limit, each with the reason."""

LONG_FUNCTIONS: dict[str, str] = {}
"""Functions (``path:name``) that may pass the limit, each with the reason."""


def line_count(source):
    return source.text.count("\n")


def functions(source):
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{source.path}:{node.name}", node.end_lineno - node.lineno + 1


@pytest.mark.filterwarnings("always")
def test_no_file_is_too_long():
    counts = {source.path: line_count(source) for source in sources()}
    for path, count in counts.items():
        if WANTED_LINES < count <= MOST_LINES:
            warnings.warn(f"{path} has {count} lines; {WANTED_LINES} are wanted", stacklevel=1)
    assert {p: n for p, n in counts.items() if n > MOST_LINES and p not in LONG_FILES} == {}


def test_no_function_is_too_long():
    lengths = {name: length for source in sources() for name, length in functions(source)}
    long = {name: length for name, length in lengths.items() if length > MOST_FUNCTION_LINES}
    assert {name: n for name, n in long.items() if name not in LONG_FUNCTIONS} == {}


def test_exemptions_are_needed():
    files = {source.path for source in sources() if line_count(source) > MOST_LINES}
    long = {n for s in sources() for n, length in functions(s) if length > MOST_FUNCTION_LINES}
    assert set(LONG_FILES) <= files
    assert set(LONG_FUNCTIONS) <= long
    assert all({**LONG_FILES, **LONG_FUNCTIONS}.values()), "an exemption needs a reason"
