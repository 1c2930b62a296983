"""Writing an IR model as a TFLite file: subgraphs, interface, signature, variables."""

from __future__ import annotations

from collections import Counter

from nnconv.decompositions.base import Evaluate
from nnconv.errors import Reason, UnsupportedError, UnsupportedItem
from nnconv.formats.graph_export import own_outputs
from nnconv.formats.marks import RELAXED
from nnconv.formats.tflite import build
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR
from nnconv.formats.tflite.exporter import FileTarget
from nnconv.formats.tflite.own_states import find_own_states
from nnconv.formats.tflite.reshapes import join_reshapes
from nnconv.formats.tflite.resources import keep_states
from nnconv.formats.tflite.sharing import keep_apart
from nnconv.formats.written import Written
from nnconv.ir.graph import Model, Signature

SIGNATURE_KEY = "serving_default"
"""The entry point's name where the source, of another format, has none."""

_NAMES = {code: name for name, code in BUILTIN_OPERATOR.items()}


def to_wire(
    model: Model, signature: Signature, *, evaluate: Evaluate, slow_kernels: bool = False
) -> tuple[build.File, Written]:
    """One entry point of a model in NHWC form as a TFLite file.

    ``evaluate`` runs one node on constants. With ``slow_kernels`` codes of 16 bits are computed
    with even where floats between them are much quicker.

    Raises:
        UnsupportedError: with every node that TFLite can't hold.
    """
    graph = signature.graph
    if not graph.outputs:
        item = UnsupportedItem(
            op="graph",
            where=graph.name or "graph",
            why="it gives nothing, so there is nothing to run it for",
            reason=Reason.IMPOSSIBLE,
        )
        raise UnsupportedError([item], path=model.source)
    own_outputs(graph, inputs=True, widened=True)
    states = find_own_states(graph, signature.states)
    target = FileTarget(evaluate, own_states=states, slow_kernels=slow_kernels)
    _, refused = target.subgraph(graph)
    if refused:
        raise UnsupportedError(dict.fromkeys(refused), path=model.source)
    subgraphs = [s for s in target.subgraphs if s is not None]
    renamed = [] if model.format == "tflite" else _distinguish(subgraphs[0])
    if signature.states:
        kept = [value in target.kept for value in graph.inputs[-len(signature.states) :]]
        keep_states(subgraphs, signature.states, kept)
    for subgraph in subgraphs:
        join_reshapes(subgraph)
        keep_apart(subgraph)
    file = build.File(
        subgraphs,
        signatures=_signatures(model, signature, subgraphs[0]),
        metadata={
            name: data
            for name, data in model.metadata.items()
            if model.format == "tflite" or name == RELAXED
        },
        description=model.description,
    )
    counts = Counter(
        op.code if isinstance(op.code, str) else _NAMES[op.code]
        for subgraph in subgraphs
        for op in subgraph.operators
    )
    main = subgraphs[0]
    report = Written(
        inputs=[main.tensors[i].name for i in main.inputs],
        outputs=[main.tensors[i].name for i in main.outputs],
        renamed=renamed,
        counts=dict(counts),
        notes=target.told("TFLite"),
    )
    return file, report


def _distinguish(main: build.Subgraph) -> list[tuple[str, str, str]]:
    """Give the edges names that a signature can have; tells kind, old and new name of each change.

    That is some name, and one of its own among the inputs or the outputs.
    """
    renamed = []
    for kind, places in (("input", main.inputs), ("output", main.outputs)):
        tensors = [main.tensors[i] for i in places]
        names = _distinct(kind, [tensor.name for tensor in tensors])
        for tensor, name in zip(tensors, names, strict=True):
            if tensor.name != name:
                renamed.append((kind, tensor.name, name))
                tensor.name = name
    return renamed


def _distinct(kind: str, names: list[str]) -> list[str]:
    """Each name, or where it is empty or there already, the first free variation of it."""
    taken, given = set(names), set[str]()
    result = []
    for name in names:
        new, number = name, 0
        while not new or new in given:
            number += 1
            wanted = f"{name or kind}_{number}"
            new = "" if wanted in taken else wanted
        given.add(new)
        result.append(new)
    return result


def _signatures(model: Model, signature: Signature, main: build.Subgraph) -> list[build.Signature]:
    if not signature.key and model.format == "tflite":
        return []
    inputs = [main.tensors[i].name for i in main.inputs]
    outputs = [main.tensors[i].name for i in main.outputs]
    called = [*signature.input_names, *inputs[len(signature.input_names) :]]
    given = [*signature.output_names, *outputs[len(signature.output_names) :]]
    if model.format != "tflite":
        called, given = _distinct("input", called), _distinct("output", given)
    return [
        build.Signature(
            signature.key or SIGNATURE_KEY,
            0,
            list(zip(called, main.inputs, strict=True)),
            list(zip(given, main.outputs, strict=True)),
        )
    ]
