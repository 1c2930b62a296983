"""One convolution as a .tflite file, whole or with a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support.tflite_builder import TfliteBuilder, pack


def conv_model() -> TfliteBuilder:
    """A CONV_2D from tensor 0 (`x`), with a constant filter (1), to tensor 2."""
    b = TfliteBuilder()
    x = b.input("x", "float32", (1, 4, 5, 3))
    w = b.const(np.arange(81, dtype=np.float32).reshape(3, 3, 3, 3))
    options = {"stride_h": 2, "stride_w": 3, "padding": "VALID"}
    y = b.op("CONV_2D", [x, w, None], [("float32", (1, 1, 1, 3))], options=options, version=2)
    b.output(y)
    b.signature("main", {"a": x}, {"b": y})
    return b


def changed_model(change: Callable[[Any], None]) -> bytes:
    """The file after ``change`` was made to its schema object, whatever the format says to it."""
    model = conv_model().to_object()
    change(model)
    return pack(model)
