"""How much work the models ask for that IF and WHILE refer to."""

from __future__ import annotations

from nnconv.errors import InvalidModelError
from nnconv.formats.nnapi.wire import Lifetime, Model

MOST_DEPTH = 32
"""Models that are inside of one another; deeper ones are a broken file's."""

MOST_REPEATED = 50_000
"""Operations that are imported again since several IFs and WHILEs refer to one model: a few models
that refer to each other twice could else ask for more work than any real one does."""


def check_branching(model: Model, *, path: str = "") -> None:
    """See that the models that a model's graphs refer to don't become too much work.

    Raises:
        InvalidModelError: they do.
    """
    if not model.referenced:
        return
    graphs = [graph for _, graph in model.graphs()]
    places = {number: place for place, number in enumerate(model.referenced, 1)}
    own = [1 + len(graph.operations) for graph in graphs]
    called = [
        [
            places[operand.value]
            for operation in graph.operations
            for operand in (graph.operands[index] for index in operation.inputs)
            if operand.lifetime is Lifetime.MODEL and isinstance(operand.value, int)
        ]
        for graph in graphs
    ]
    work = own
    for _ in range(MOST_DEPTH + 1):  # deeper ones aren't gone into
        work = [size + sum(work[n] for n in calls) for size, calls in zip(own, called, strict=True)]
        if work[0] > sum(own) + MOST_REPEATED:
            message = "the models that IF and WHILE refer to branch out without end"
            raise InvalidModelError(message, path=path)
