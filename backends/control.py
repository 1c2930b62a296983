"""What an IF and a WHILE do, whatever runs their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from nnconv.backends.limits import current_limits, limited

from nnconv.errors import BackendError

Item = TypeVar("Item", bound="np.ndarray | None")
"""What a loop carries; None for what is left out."""

Body: TypeAlias = "Callable[[list[Item]], Sequence[Item]]"


class ConditionError(BackendError, ValueError):
    """A condition hasn't one element; a ValueError, so that a kernel's node is named with it."""


def is_true(condition: np.ndarray | None) -> bool:
    """Whether a condition holds.

    Raises:
        ConditionError: it hasn't one element.
    """
    if condition is None or condition.size != 1:
        seen = "is left out" if condition is None else f"has shape {list(condition.shape)}"
        raise ConditionError(f"a condition {seen}, must have one element")
    return bool(condition.any())


def run_while(condition: Body[Item], turn: Body[Item], start: Sequence[Item]) -> list[Item]:
    """Run a WHILE to its end; what a turn doesn't give stays as it is.

    Raises:
        ConditionError: the condition hasn't one element.
        DeadlineError: it takes longer than ``limits.limited`` lets it.
    """
    carried = list(start)
    with limited(current_limits().in_loop()):
        while is_true(condition(carried)[0]):
            current_limits().check()
            results = turn(carried)
            carried[: len(results)] = results
    return carried
