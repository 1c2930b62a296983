"""A graph as text, one line a node: for people, tests and bug reports."""

from __future__ import annotations

from nnconv.ir.graph import Graph, Model, Value, unique_names


def print_model(model: Model) -> str:
    """Every graph of a model as text."""
    keys = {s.graph: s.key for s in model.signatures}
    return "\n\n".join(print_graph(g, key=keys.get(g, "")) for g in model.graphs())


def print_graph(graph: Graph, *, key: str = "") -> str:
    """A graph as text: inputs, one line a node with types, outputs.

    Large constants show no data.
    """
    values = [*graph.inputs, *graph.constants(), *(v for n in graph.nodes for v in n.outputs)]
    labels = dict(zip(values, unique_names(v.name for v in values), strict=True))
    head = f"graph {graph.name}" + (f" (signature {key})" if key else "")
    lines = [f"{head}:"]
    lines += [f"  in  %{labels[v]}: {v.type}" for v in graph.inputs]
    lines += [f"  {_constant(v, labels[v])}" for v in graph.constants()]
    for node in graph.nodes:
        results = ", ".join(f"%{labels[v]}: {v.type}" for v in node.outputs)
        operands = ", ".join("-" if v is None else f"%{labels[v]}" for v in node.inputs)
        bodies = "".join(f" {{{b.name}}}" for b in node.bodies)
        lines.append(f"  {results} = {node.op!r}({operands}){bodies}")
    lines += [f"  out %{labels[v]}: {v.type}" for v in graph.outputs]
    return "\n".join(lines)


def _constant(value: Value, label: str) -> str:
    data = value.data
    shown = f" = {data.tolist()}" if data is not None and data.size <= 8 else ""
    return f"const %{label}: {value.type}{shown}"
