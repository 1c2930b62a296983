"""Sources of truth as data: op tables and the JSON Schemas of the file formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_schema(name: str) -> Any:
    """The content of a data file of this package, such as ``nnapi/ops.json``."""
    return json.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))
