"""How much work the models ask for that IF and WHILE refer to."""

from __future__ import annotations

from nnconv.errors import InvalidModelError
from nnconv.formats.nnapi.wire import Model

_MAIN = -1
"""In the place of the main graph's number."""

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
    graphs = {_MAIN: model.main, **model.referenced}
    own = {number: 1 + len(graph.operations) for number, graph in graphs.items()}
    called = {
        number: [
            body
            for operation in graph.operations
            for index in operation.inputs
            if (body := graph.operands[index].body) is not None
        ]
        for number, graph in graphs.items()
    }
    work = own
    for _ in range(MOST_DEPTH + 1):  # deeper ones aren't gone into
        work = {n: size + sum(work[body] for body in called[n]) for n, size in own.items()}
        if work[_MAIN] > sum(own.values()) + MOST_REPEATED:
            message = "the models that IF and WHILE refer to branch out without end"
            raise InvalidModelError(message, path=path)
