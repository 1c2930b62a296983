"""IF and WHILE of which only a run tells what the operations of their bodies need beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from nnconv.backends import is_true, run_while
from nnconv.formats.nnapi.wire import Model
from nnconv.runtime.core.program import Run

Arrays: TypeAlias = "Sequence[np.ndarray | None]"


def bodies_of(model: Model) -> list[int]:
    """The numbers of the models that the only operation of a model refers to, in its order."""
    main = model.main
    named = (main.operands[index].body for index in main.operations[0].inputs)
    return [body for body in named if body is not None]


def _operands(model: Model, arrays: Arrays) -> list[np.ndarray | None]:
    """What the only operation gets; None for what is left out, and for models."""
    main = model.main
    given = dict(zip(main.inputs, arrays, strict=True))
    return [given.get(index, main.operands[index].data) for index in main.operations[0].inputs]


def _outputs(model: Model, results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of the only operation in the order of the model's outputs."""
    main = model.main
    found = dict(zip(main.operations[0].outputs, results, strict=True))
    return [found[index] for index in main.outputs]


def choose(model: Model, arrays: Arrays, bodies: Sequence[Run]) -> list[np.ndarray]:
    """IF."""
    condition, _, _, *operands = _operands(model, arrays)
    then, otherwise = bodies
    return _outputs(model, (then if is_true(condition) else otherwise)(operands))


def repeat(model: Model, arrays: Arrays, bodies: Sequence[Run]) -> list[np.ndarray]:
    """WHILE: what the body doesn't give stays as it is."""
    _, _, *carried = _operands(model, arrays)
    condition, turn = bodies
    count = len(model.main.operations[0].outputs)
    results = run_while(condition, turn, carried)
    return _outputs(model, [array for array in results[:count] if array is not None])


CONTROL: dict[str, Callable[[Model, Arrays, Sequence[Run]], list[np.ndarray]]] = {
    "IF": choose,
    "WHILE": repeat,
}
"""By the operation: what runs it, for its bodies."""
