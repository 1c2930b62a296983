"""What looks like a buffer and gives no bytes."""

import mmap

import numpy as np


def released() -> memoryview:
    """A view that is over."""
    view = memoryview(bytearray(24))
    view.release()
    return view


def closed() -> mmap.mmap:
    """A mapping that is over."""
    mapping = mmap.mmap(-1, 24)
    mapping.close()
    return mapping


def of_objects() -> memoryview:
    """A view of objects, whose bytes are their addresses."""
    return memoryview(np.array([None] * 3))


ODD_BUFFERS = [released, closed, of_objects]
