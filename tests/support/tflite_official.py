"""The official reader of .tflite files, with answers that compare."""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as litert


def theirs(data: bytes) -> Any:
    """Decode a file to the schema's ``ModelT``."""
    return litert.ModelT.InitFromPackedBuf(data)


def plain(value: Any) -> Any:
    """Make a field's value comparable: () for nothing, text as str, vectors as tuples."""
    if value is None:
        return ()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, np.ndarray)):
        return tuple(np.asarray(value).tolist())
    return value
