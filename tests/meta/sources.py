"""The project's Python files, parsed once, for the tests that look at the source."""

import ast
import functools
from pathlib import Path
from typing import NamedTuple

from support.places import ROOT

SKIPPED = {"build", "dist", "venv", "__pycache__", "_gen"}
"""Folders of files that nobody wrote by hand. Hidden ones are skipped too."""

MAPPED = {"backends": "nnconv.backends", "schemas": "nnconv.schemas", "cli.py": "nnconv.cli"}
"""Top-level places and the name that each has in the import package."""


class Source(NamedTuple):
    """One file: where it is, what it is imported as (empty for scripts and tests), its text."""

    path: str
    module: str
    text: str

    @property
    def tree(self):
        return parse(self.path)


@functools.cache
def parse(path):
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), path)


def module_name(path: Path) -> str:
    head, *rest = path.parts
    if head != "nnconv" and head not in MAPPED:
        return ""
    parts = [MAPPED.get(head, head), *rest]
    return ".".join(parts).removesuffix(".py").removesuffix(".__init__")


@functools.cache
def sources() -> tuple[Source, ...]:
    """Every hand-written Python file of the checkout."""
    found = []
    for file in sorted(ROOT.rglob("*.py")):
        path = file.relative_to(ROOT)
        if any(part in SKIPPED or part.startswith(".") for part in path.parts):
            continue
        found.append(Source(str(path), module_name(path), file.read_text(encoding="utf-8")))
    return tuple(found)


def package_sources() -> list[Source]:
    """The files that become part of the installed package."""
    return [source for source in sources() if source.module]
