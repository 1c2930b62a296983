"""What is wrong with a model of a runtime's calls, and in which order its operations run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from nnconv.errors import InvalidModelError, plural, printable


class Finding(NamedTuple):
    """A rule that a model breaks, at least below some version of the runtime.

    Attributes:
        where: the operation or operand.
        message: what was seen, and what is allowed.
        level: the version that allows it; None if none does.
        operation: index of the operation in its graph; -1 where it isn't about one.
        graph: index of the referenced graph; -1 for the main one.
        needs: what a level is called.
    """

    where: str
    message: str
    level: int | None = None
    operation: int = -1
    graph: int = -1
    needs: str = "feature level"

    def __str__(self) -> str:
        needs = "" if self.level is None else f" needs {self.needs} {self.level}"
        return f"{self.where}: {self.message}{needs}"


class BrokenModelError(InvalidModelError):
    """A model of a runtime's calls breaks rules; the text lists all of them.

    Attributes:
        findings: what it breaks.
    """

    def __init__(self, found: Sequence[Finding], *, rules: str = "", path: str = "") -> None:
        """Make the error of what was found.

        Args:
            found: the rules.
            rules: whose rules they are; empty where each finding says it.
            path: what the error calls the model.
        """
        if len(found) == 1 and not rules:
            super().__init__(found[0].message, path=path, where=found[0].where)
        else:
            of = f" of {rules}" if rules else ""
            many = f"{plural(len(found), 'rule')}{of} are" if len(found) > 1 else f"a rule{of} is"
            super().__init__(f"{many} broken:", path=path)
            self.message += "".join(f"\n  {printable(str(finding))}" for finding in found)
            self.args = (self.message,)
        self.findings = tuple(found)


class Step(Protocol):
    """An operation, as far as its place among others goes."""

    @property
    def inputs(self) -> Sequence[int]:
        """Indices of what it reads."""

    @property
    def outputs(self) -> Sequence[int]:
        """Indices of what it writes."""


def run_order(operations: Sequence[Step]) -> list[int] | None:
    """Indices of the operations, each behind those whose outputs it reads; None in a circle.

    Operations that are in such an order already keep it.
    """
    writers = {index: n for n, op in enumerate(operations) for index in op.outputs}
    waits = [{writers[i] for i in op.inputs if i in writers} for op in operations]
    if all(all(before < n for before in waits[n]) for n in range(len(waits))):
        return list(range(len(waits)))
    followers: list[list[int]] = [[] for _ in waits]
    for number, before in enumerate(waits):
        for other in before:
            followers[other].append(number)
    left = [len(before) for before in waits]
    ready = [number for number, count in enumerate(left) if not count]
    order = []
    for number in ready:  # it grows meanwhile
        order.append(number)
        for follower in followers[number]:
            left[follower] -= 1
            if not left[follower]:
                ready.append(follower)
    return order if len(order) == len(waits) else None
