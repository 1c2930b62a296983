"""The order of nodes: ONNX wants each after those whose results it takes, not all files keep to it.

Depth first from each node in file order, so that a sorted file stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nnconv.formats.onnx import wire

if TYPE_CHECKING:
    from nnconv.formats.onnx.graph import GraphImport


def in_order(
    nodes: Sequence[wire.Node], known: set[str], scope: GraphImport
) -> Iterator[tuple[int, wire.Node]]:
    """Each node with its place in the file, after all nodes whose results it or a body of it reads.

    ``known`` are the names that have values already.

    Raises:
        InvalidModelError: when nodes wait for each other.
    """
    if _is_sorted(nodes, known):
        yield from enumerate(nodes)
        return
    makers = {name: i for i, node in enumerate(nodes) for name in node.outputs if name}
    state = bytearray(len(nodes))  # 0 unseen, 1 waiting for others, 2 given out
    for start in range(len(nodes)):
        stack = [start]
        while stack:
            index = stack[-1]
            if state[index] == 2:
                stack.pop()
                continue
            needed = [
                makers[name]
                for name in reads(nodes[index])
                if name not in known and name in makers and state[makers[name]] != 2
            ]
            if state[index] == 1 or not needed:
                if needed:
                    raise scope.fail(_circle(nodes, makers, known))
                state[index] = 2
                stack.pop()
                yield index, nodes[index]
                continue
            state[index] = 1
            if any(state[other] == 1 for other in needed):
                raise scope.fail(_circle(nodes, makers, known))
            stack.extend(reversed(needed))


_MOST_NAMED = 5


def _circle(nodes: Sequence[wire.Node], makers: Mapping[str, int], known: set[str]) -> str:
    """What to say of nodes that wait for each other: which ones, in the order of their data."""
    needs = [
        {makers[name] for name in reads(node) if name not in known and name in makers}
        for node in nodes
    ]
    readers: dict[int, list[int]] = {}
    for index, needed in enumerate(needs):
        for other in needed:
            readers.setdefault(other, []).append(index)
    free = [index for index, needed in enumerate(needs) if not needed]
    while free:
        done = free.pop()
        for reader in readers.get(done, ()):
            needs[reader].discard(done)
            if not needs[reader]:
                free.append(reader)
    path = [next(index for index, needed in enumerate(needs) if needed)]
    while path[-1] not in path[:-1]:
        path.append(min(needs[path[-1]]))
    circle = path[path.index(path[-1]) : -1][::-1]
    names = [f"{nodes[i].op_type} at node #{i} ({_title(nodes[i])})" for i in circle]
    more = ["..."] if len(names) > _MOST_NAMED else []
    return f"nodes wait for each other's results: {', '.join([*names[:_MOST_NAMED], *more])}"


def _title(node: wire.Node) -> str:
    return f"`{node.name or next(filter(None, node.outputs), '')}`"


def _is_sorted(nodes: Sequence[wire.Node], known: set[str]) -> bool:
    made = {name for node in nodes for name in node.outputs}
    met = set(known)
    for node in nodes:
        if any(name in made and name not in met for name in reads(node)):
            return False
        met.update(node.outputs)
    return True


def reads(node: wire.Node) -> set[str]:
    """The names that a node reads, those that its bodies take from outside included."""
    names = {name for name in node.inputs if name}
    for value in node.attributes.values():
        found = value.value if isinstance(value, wire.Attribute) else value
        for graph in found if isinstance(found, list | tuple) else (found,):
            if isinstance(graph, wire.Graph):
                names |= _free(graph)
    return names


def _free(graph: wire.Graph) -> set[str]:
    own = {v.name for v in graph.inputs} | {t.name for t in graph.initializers}
    own.update(name for node in graph.nodes for name in node.outputs)
    read = {name for node in graph.nodes for name in reads(node)}
    read.update(v.name for v in graph.outputs)
    return read - own
