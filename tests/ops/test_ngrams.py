"""ONNX's TfIdfVectorizer of numbers on every route."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import nnconv
from nnconv.errors import UnsupportedError
from support.onnx_routes import OnnxCase, check_routes, node

POOL = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 1, 2, 3]
STARTS = [0, 4, 10]
"""Numbers 2, 3, 5, 4; pairs (5, 6), (7, 8), (6, 7); the triple (1, 2, 3)."""


def case(
    id: str,
    mode: str = "TF",
    *,
    lengths: tuple[int, int] = (1, 3),
    skips: int = 0,
    shape: tuple[int, ...] = (3, 12),
    places: Sequence[int] = (0, 1, 2, 3, 4, 5, 6, 7),
    weights: Sequence[float] | None = None,
    dtype: str = "int64",
) -> OnnxCase:
    """A vectorizer of random numbers."""
    x = np.random.default_rng(1).integers(1, 9, shape).astype(dtype)
    made = node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        mode=mode,
        min_gram_length=lengths[0],
        max_gram_length=lengths[1],
        max_skip_count=skips,
        ngram_counts=STARTS,
        ngram_indexes=list(places),
        pool_int64s=POOL,
        weights=weights,
    )
    return OnnxCase(id, made, {"x": x})


WEIGHTS = [0.5, 2.0, 1.0, 3.0, 0.25, 4.0, 1.5, 0.75]

CASES = [
    case("counts"),
    case("int32", dtype="int32"),
    case("rank 1", shape=(40,)),
    case("skips", skips=3),
    case("pairs", lengths=(2, 2), skips=2),
    case("singles", lengths=(1, 1), skips=5),
    case("triples", lengths=(3, 3), skips=1, shape=(2, 40)),
    case("short", shape=(3, 2), skips=2),
    case("other places", places=(7, 9, 2, 3, 0, 5, 6, 1)),
    *(case(f"{mode}, weights", mode, weights=WEIGHTS, skips=2) for mode in ("TF", "IDF", "TFIDF")),
    *(case(mode, mode, skips=2) for mode in ("IDF", "TFIDF")),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_counts(case: OnnxCase, tmp_path: Path) -> None:
    check_routes(case, tmp_path)


def test_words_are_refused(tmp_path: Path) -> None:
    made = node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        mode="TF",
        min_gram_length=1,
        max_gram_length=1,
        max_skip_count=0,
        ngram_counts=[0],
        ngram_indexes=[0],
        pool_strings=["a"],
    )
    path = tmp_path / "words.onnx"
    path.write_bytes(
        OnnxCase("words", made, {"x": np.zeros(3, np.int64)}).model().SerializeToString()
    )
    with pytest.raises(UnsupportedError, match="strings"):
        nnconv.load(path)
