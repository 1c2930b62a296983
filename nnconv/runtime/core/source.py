"""What sources of programs have in common; ``core.program.Source`` says what those are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence

import numpy as np

from nnconv.runtime.core.cache import pages_of

_FACTOR = 0x9E3779B97F4A7C15
"""The powers of an odd number are odd: no word can change alone and leave the sum as it was."""

_SHARED_FROM = 1 << 20
"""Of so many bytes in all, threads share constants."""

_MOST_THREADS = 8


def frozen_inputs(are_settings: Sequence[bool], level: int) -> frozenset[int]:
    """At level 1 the inputs that may be settings, at level 2 all but the first that is none."""
    settings = [i for i, is_setting in enumerate(are_settings) if is_setting]
    others = [i for i, is_setting in enumerate(are_settings) if not is_setting]
    if not others:
        return frozenset(settings[1:])
    return frozenset(settings if level == 1 else settings + others[1:])


def numbers(values: Sequence[float] | Sequence[int]) -> bytes:
    """Numbers as a fingerprint takes them, and how many there are."""
    return b"%d:" % len(values) + np.asarray(values, np.float64).tobytes()


def digest_of(parts: Iterable[bytes | np.ndarray]) -> bytes:
    """A digest of all that tells a model from others: texts, and constants.

    Threads share the constants: from a cache, a model is compiled in little more time than it
    takes to read them.
    """
    texts: list[bytes] = []
    constants: list[np.ndarray] = []
    for part in parts:
        if isinstance(part, bytes):
            texts.append(part)
        else:
            constants.append(part)
            texts.append(b"constant of %d bytes\n" % part.nbytes)
    if sum(data.nbytes for data in constants) < _SHARED_FROM:
        contents = list(map(_content, constants))
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_THREADS)) as pool:
            contents = list(pool.map(_content, constants))
    return hashlib.sha256(b"".join([*texts, *contents])).digest()


def _content(data: np.ndarray) -> bytes:
    """What tells a constant from others: of each page the sum of its words by their places."""
    pages, rest = pages_of(np.ascontiguousarray(data.reshape(-1)).view(np.uint8))
    factors = np.multiply.accumulate(np.full(pages.shape[1], _FACTOR, np.uint64))
    return (pages @ factors).tobytes() + rest.tobytes()
