"""How far a model of halves moves its own results where its inputs change by a few half steps.

Runtimes round halves at other places. What becomes of that is up to the model: some hand it on ten
times as large as others. Where results differ by more than is usual, the source is asked itself,
on inputs that are off by what the roundings on the way add up to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from nnconv.diff.compare import HALF_STEP, Distance, distance
from nnconv.diff.outcome import OutputCheck, Sway
from nnconv.diff.worker import Outcome

NUDGES = 16
"""How often inputs are nudged: at times results move ten times as far as at others."""

Rounds: TypeAlias = Sequence[Sequence[Sequence[np.ndarray]]]
"""For each round and step the arrays of inputs, or of outputs."""

Sways: TypeAlias = list[list[list[Sway]]]
"""For each round, step and output how far it moves."""


def nudges_for(checks: Iterable[OutputCheck]) -> int:
    """By how many half steps to nudge inputs, as outputs differ that halves lead to.

    0 where none does, by more than halves commonly bring about.
    """
    failed = (check for check in checks if not check.passed and not check.wrong_form)
    return max((check.nudges for check in failed), default=0)


def sways_of(
    rounds: Rounds,
    results: Sequence[Sequence[Sequence[np.ndarray]] | None],
    run: Callable[[Rounds], Outcome],
    *,
    nudges: int,
    seed: int,
) -> Sways:
    """How far results move where inputs are nudged.

    Args:
        rounds: the inputs.
        results: what they give; None for a round that failed.
        run: gives results of other inputs.
        nudges: by how many half steps inputs change.
        seed: of the signs of these.
    """
    rng = np.random.default_rng(seed)
    nudged = [
        [[_nudged(a, rng, nudges) for a in s] for s in r] for _ in range(NUDGES) for r in rounds
    ]
    moved = run(nudged).results
    return [
        [] if expected is None else _moves(expected, moved[number :: len(rounds)])
        for number, expected in enumerate(results)
    ]


def _nudged(array: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Floats, each so many half steps of float16 larger or smaller."""
    if array.dtype.kind != "f":
        return array
    changes = rng.choice([-HALF_STEP, HALF_STEP], array.shape) * count
    return np.asarray(array * (1.0 + changes)).astype(array.dtype)


def _moves(
    expected: Sequence[Sequence[np.ndarray]],
    moved: Sequence[Sequence[Sequence[np.ndarray]] | None],
) -> list[list[Sway]]:
    """What the nudges do to each step's outputs."""
    return [
        [
            _sway([distance(found[s][i], array) for found in moved if found is not None])
            for i, array in enumerate(arrays)
        ]
        for s, arrays in enumerate(expected)
    ]


def _sway(moves: Sequence[Distance]) -> Sway:
    """The largest finite move, and the median of their rms."""
    finite = [move for move in moves if np.isfinite(move.max_abs)]
    if not finite:
        return Sway()
    largest = max(move.max_abs for move in finite)
    return Sway(largest, float(np.median([move.rms for move in finite])))
