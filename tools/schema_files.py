"""Files of schemas/ that a script derives from a folder of reference data."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def dump(data: Any, *, width: int = 96, indent: int = 0) -> str:
    """JSON in which what fits in a line stands in one."""
    flat = json.dumps(data, ensure_ascii=False)
    if not isinstance(data, dict | list) or len(flat) + indent <= width:
        return flat
    pad = " " * (indent + 1)
    if isinstance(data, dict):
        rows = [f"{pad}{json.dumps(k)}: {dump(v, indent=indent + 1)}" for k, v in data.items()]
        return "{\n" + ",\n".join(rows) + "\n" + " " * indent + "}"
    rows = [pad + dump(entry, indent=indent + 1) for entry in data]
    return "[\n" + ",\n".join(rows) + "\n" + " " * indent + "]"


def write_or_compare(
    target: Path, files: Callable[[Path], Mapping[str, str]], doc: str | None
) -> int:
    """The whole of such a script; returns the exit code.

    Args:
        target: the folder that the files are in.
        files: gives each file's text, from the folder of reference data.
        doc: what the script does.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder of reference data")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    try:
        texts = files(arguments.folder)
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    stale = 0
    for name, text in texts.items():
        path = target / name
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is stale")
            stale = 1
    return stale
