"""Counting n-grams."""

from __future__ import annotations

import numpy as np
from nnconv.backends.reference.executor import Array, Kernel

from nnconv.ir.op import Op
from nnconv.ops.ngrams import TfIdf


def tf_idf(op: TfIdf, x: Array) -> list[Array]:
    """TfIdf."""
    rows = x.reshape(-1, x.shape[-1])
    result = np.zeros((len(rows), op.size), np.float32)
    for length, grams in op.counted().items():
        wanted = np.asarray([g.numbers for g in grams], np.int64)
        counts = np.zeros((len(rows), len(grams)), np.int64)
        for distance in op.distances(length):
            reach = distance * (length - 1)
            if reach >= x.shape[-1]:
                break
            for start in range(x.shape[-1] - reach):
                seen = rows[:, start : start + reach + 1 : distance]
                counts += (seen[:, np.newaxis] == wanted).all(axis=-1)
        if op.mode == "IDF":
            counts = np.minimum(counts, 1)
        weights = [1.0 if op.mode == "TF" else g.weight for g in grams]
        places = [g.place for g in grams]
        np.add.at(result.T, places, (counts * np.asarray(weights, np.float32)).T)
    return [result.reshape(*x.shape[:-1], op.size)]


KERNELS: dict[type[Op], Kernel] = {TfIdf: tf_idf}
