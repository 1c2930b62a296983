"""Control flow: bodies are run like any graph."""

from __future__ import annotations

from collections.abc import Sequence

from nnconv.backends.limits import current_limits, limited
from nnconv.backends.reference.executor import Array, Kernel, run_graph

from nnconv.ir.graph import Graph
from nnconv.ir.op import Op
from nnconv.ops.control import If, While


def choose(op: If, condition: Array, *operands: Array, bodies: Sequence[Graph]) -> list[Array]:
    """If."""
    then, otherwise = bodies
    return run_graph(then if _truth(condition) else otherwise, operands)


def repeat(op: While, *operands: Array, bodies: Sequence[Graph]) -> list[Array]:
    """While."""
    condition, turn = bodies
    carried = list(operands)
    with limited(current_limits().in_loop()):
        while _truth(run_graph(condition, carried)[0]):
            current_limits().check()
            carried = run_graph(turn, carried)
    return carried


def _truth(condition: Array) -> bool:
    if condition.size != 1:
        raise ValueError(f"a condition has shape {list(condition.shape)}, must have one element")
    return bool(condition.reshape(-1)[0])


KERNELS: dict[type[Op], Kernel] = {If: choose, While: repeat}
