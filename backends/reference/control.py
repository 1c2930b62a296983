"""Control flow: bodies are run like any graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from nnconv.backends.control import is_true, run_while
from nnconv.backends.reference.executor import Array, Kernel, run_graph

from nnconv.ir.graph import Graph
from nnconv.ir.op import Op
from nnconv.ops.control import If, While


def choose(op: If, condition: Array, *operands: Array, bodies: Sequence[Graph]) -> list[Array]:
    """If."""
    then, otherwise = bodies
    return run_graph(then if is_true(condition) else otherwise, operands)


def repeat(op: While, *operands: Array, bodies: Sequence[Graph]) -> list[Array]:
    """While."""
    condition, turn = (partial(run_graph, body) for body in bodies)
    return run_while(condition, turn, operands)


KERNELS: dict[type[Op], Kernel] = {If: choose, While: repeat}
