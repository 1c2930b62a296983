"""What sources of programs have in common; ``core.program.Source`` says what those are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from nnconv.runtime.core.cache import pages_of


def frozen_inputs(are_settings: Sequence[bool], level: int) -> frozenset[int]:
    """At level 1 the inputs that may be settings, at level 2 all but the first that is none."""
    settings = [i for i, is_setting in enumerate(are_settings) if is_setting]
    others = [i for i, is_setting in enumerate(are_settings) if not is_setting]
    if not others:
        return frozenset(settings[1:])
    return frozenset(settings if level == 1 else settings + others[1:])


def content(data: np.ndarray) -> Iterator[bytes]:
    """A constant as a fingerprint takes it: sums of pages, and of their columns for the order."""
    pages, rest = pages_of(np.ascontiguousarray(data.reshape(-1)).view(np.uint8))
    if len(pages):
        yield np.add.reduce(pages, axis=1).tobytes()
        yield np.add.reduce(pages, axis=0).tobytes()
    yield rest.tobytes()


def numbers(values: Sequence[float] | Sequence[int]) -> bytes:
    """Numbers as a fingerprint takes them, and how many there are."""
    return b"%d:" % len(values) + np.asarray(values, np.float64).tobytes()


def digest_of(parts: Iterable[bytes]) -> bytes:
    """A digest of all that tells a model from others."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()
