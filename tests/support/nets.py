"""The small networks of fixtures/nets, and inputs for them."""

import numpy as np

from support.places import FIXTURES

NETS = FIXTURES / "nets"

WORDS = 11
"""How many rows the table of embeddings has."""


def feeds_of(model, *, seed=0):
    """Inputs of a net by name: floats about 0, or numbers of words."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in model.inputs:
        shape = tuple(value.shape)
        if value.dtype.value == "float32":
            feeds[value.name] = rng.normal(size=shape).astype(np.float32)
        else:
            feeds[value.name] = rng.integers(0, WORDS, shape).astype(value.dtype.numpy)
    return feeds
