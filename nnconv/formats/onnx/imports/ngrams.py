"""Counting n-grams."""

from __future__ import annotations

from itertools import pairwise

from nnconv.errors import plural
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.formats.onnx.scope import reason_for
from nnconv.ops.ngrams import NGram, TfIdf

_MOST = 1 << 20
"""Of numbers in a result."""


def import_tf_idf(src: Source) -> None:
    """TfIdfVectorizer of numbers."""
    if src.has("pool_strings"):
        raise src.unsupported(**reason_for("", "TfIdfVectorizer"))
    mode = src.text("mode")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise src.fail(f"mode {mode!r} is unknown")
    pool = src.int_list("pool_int64s") or ()
    starts, places = src.int_list("ngram_counts") or (), src.int_list("ngram_indexes") or ()
    weights = src.float_list("weights") or (1.0,) * len(places)
    if list(starts) != sorted(starts) or not all(0 <= s <= len(pool) for s in starts):
        raise src.fail(f"ngram_counts {list(starts)} don't cut a pool of {len(pool)}")
    if not places or min(places) < 0 or max(places) >= _MOST:
        raise src.fail("ngram_indexes are missing, negative or too great")
    numbers = [
        pool[i : i + length]
        for length, (start, end) in enumerate(pairwise((*starts, len(pool))), 1)
        for i in range(start, end, length)
    ]
    if len(numbers) != len(places) or len(weights) != len(places):
        raise src.fail(
            f"{plural(len(numbers), 'n-gram')}, {plural(len(places), 'place')}, "
            f"{plural(len(weights), 'weight')}"
        )
    op = TfIdf(
        grams=tuple(map(NGram, numbers, places, weights)),
        mode=mode,
        shortest=src.int("min_gram_length"),
        longest=src.int("max_gram_length"),
        skips=src.int("max_skip_count"),
        size=max(places) + 1,
    )
    src.emit(op, [src.operand(0)])


IMPORTERS: dict[str, Importer] = {"TfIdfVectorizer": import_tf_idf}
