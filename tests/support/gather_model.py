"""A model whose input means indices."""

import numpy as np

from support.tflite_builder import TfliteBuilder


def gather(axis: int, through: str | None = None) -> bytes:
    """A .tflite file that picks from a table of 5 by 3; ``through`` is an op before that."""
    b = TfliteBuilder()
    i = b.input("i", "int32", (2, 2))
    other = b.input("other", "int32", (2,))
    table = b.const(np.zeros((5, 3), np.float32))
    indices = i
    if through:
        indices = b.op(through, [i], [("int32", (4,))], options={"new_shape": [4]})
    shape = (4, 3) if axis == 0 else (5, 4)
    b.output(b.op("GATHER", [table, indices], [("float32", shape)], options={"axis": axis}), other)
    return b.build()
