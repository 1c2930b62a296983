"""Writing an IR model as an ONNX file: interface, names, metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from nnconv.errors import Reason, UnsupportedError, UnsupportedItem
from nnconv.formats.hints import naming
from nnconv.formats.marks import RELAXED
from nnconv.formats.onnx import wire
from nnconv.formats.onnx.exporter import Target
from nnconv.formats.onnx.graph_parts import Names
from nnconv.formats.onnx.notes import HYBRID, SOURCE, noted_source
from nnconv.formats.onnx.types import DATA_TYPES
from nnconv.formats.written import Written
from nnconv.ir.graph import HYBRID_MARK, Graph, Model, Signature, Value

DEFAULT_OPSET = 21
"""The opset of onnxruntime 1.18 (May 2024), TensorRT 10 and OpenVINO 2024.

The first with int16 and int4 quantization, taken by every runtime that is still maintained. Newer
ones change nothing in speed.
"""

LEAST_OPSET, NEWEST_OPSET = 13, 27


def to_wire(
    model: Model, signature: Signature, *, opset: int = DEFAULT_OPSET, resign: bool = True
) -> tuple[wire.Model, Written]:
    """One entry point of a model in NCHW form as an ONNX model.

    Raises:
        UnsupportedError: with every node that ONNX can't hold.
    """
    from nnconv import __version__

    report = Written(opset=opset)
    graph = signature.graph
    if not graph.outputs:
        why = "it gives nothing, and ONNX runtimes take no such model"
        item = UnsupportedItem(
            op="graph", where=graph.name or "graph", why=why, reason=Reason.IMPOSSIBLE
        )
        raise UnsupportedError([item], path=model.source)
    plain = model.format == "onnx"  # its nodes are what its author chose
    target = Target(opset=opset, resign=resign, names=Names(), plain=plain)
    inputs = _declare_inputs(signature, target, report)
    output_names = _reserve_outputs(signature, target, report)
    refused = target.run(graph)
    if refused:
        items = naming(refused, graph.inputs)
        raise UnsupportedError(dict.fromkeys(items), path=model.source)
    outputs = bind_outputs(graph, target, output_names)
    report.inputs, report.outputs = [i.name for i in inputs], output_names
    for node in target.nodes:
        report.counts[node.op_type] = report.counts.get(node.op_type, 0) + 1
    read = _names_read(target.nodes)
    constants = [tensor for tensor in target.initializers if tensor.name in read]
    onnx_graph = wire.Graph(graph.name or "graph", target.nodes, inputs, outputs, constants)
    result = wire.Model(
        onnx_graph,
        opset,
        producer_version=__version__,
        metadata=_metadata(signature, inputs, outputs) | _origins(model, target) | _relaxed(model),
        doc_string=model.description,
    )
    return result, report


def _names_read(nodes: Sequence[wire.Node]) -> set[str]:
    """What nodes read, and the nodes of their bodies, and what those give on."""
    names: set[str] = set()
    for node in nodes:
        names.update(node.inputs)
        for attribute in node.attributes.values():
            if isinstance(attribute, wire.Graph):
                names |= _names_read(attribute.nodes)
                names.update(info.name for info in attribute.outputs)
    return names


def value_info(name: str, value: Value) -> wire.ValueInfo:
    """An ONNX declaration of a graph's input or output."""
    return wire.ValueInfo(name, DATA_TYPES[value.dtype], value.shape)


def _declare_inputs(signature: Signature, target: Target, report: Written) -> list[wire.ValueInfo]:
    infos = []
    for index, value in enumerate(signature.graph.inputs):
        name = value.name if target.names.reserve(value.name) else ""
        if not name:
            name = target.names.unique(value.name or f"input_{index}")
            report.renamed.append(("input", value.name, name))
        infos.append(value_info(name, value))
        target.set_stored(value, name)
    return infos


def _reserve_outputs(signature: Signature, target: Target, report: Written) -> list[str]:
    states = {id(state.output) for state in signature.states}
    plain = len(signature.outputs)
    names = []
    for index, value in enumerate(signature.graph.outputs):
        if index >= plain and id(value) in states:
            wanted = f"{signature.states[index - plain].name}_next"
            names.append(target.names.unique(wanted))
        elif target.names.reserve(value.name):
            names.append(value.name)
        else:
            name = target.names.unique(value.name or f"output_{index}")
            report.renamed.append(("output", value.name, name))
            names.append(name)
    return names


def bind_outputs(graph: Graph, target: Target, names: Sequence[str]) -> list[wire.ValueInfo]:
    """Let the graph's outputs be called ``names``.

    By renaming what makes them, else by an Identity.
    """
    sources = [target.stored(value) for value in graph.outputs]
    made = {result for node in target.nodes for result in node.outputs}
    renames: dict[str, str] = {}
    copies: list[wire.Node] = []
    for source, name in zip(sources, names, strict=True):
        if source in made and source not in renames:
            renames[source] = name
        else:
            copies.append(wire.Node("Identity", [source], [name], name=name))
    target.nodes.extend(copies)
    rename(target.nodes, renames)
    return [value_info(n, v) for v, n in zip(graph.outputs, names, strict=True)]


def rename(nodes: Sequence[wire.Node], names: Mapping[str, str]) -> None:
    """Replace names of values in nodes, and in their bodies, which may read outer values."""
    for node in nodes:
        if not names.keys().isdisjoint(node.inputs):
            node.inputs = [names.get(n, n) for n in node.inputs]
        if not names.keys().isdisjoint(node.outputs):
            node.outputs = [names.get(n, n) for n in node.outputs]
        for attribute in node.attributes.values():
            if isinstance(attribute, wire.Graph):
                rename(attribute.nodes, names)


def _metadata(
    signature: Signature,
    inputs: Sequence[wire.ValueInfo],
    outputs: Sequence[wire.ValueInfo],
) -> dict[str, str]:
    """What ONNX has no place for: signature names, states, quantization of the interface."""
    entries: dict[str, str] = {}
    if signature.key:
        names = {
            "key": signature.key,
            "inputs": dict(zip(signature.input_names, (i.name for i in inputs), strict=False)),
            "outputs": dict(zip(signature.output_names, (o.name for o in outputs), strict=False)),
        }
        entries["nnconv.signature"] = json.dumps(names, ensure_ascii=False)
    if signature.states:
        first_in, first_out = len(signature.inputs), len(signature.outputs)
        states = [
            {
                "name": state.name,
                "input": inputs[first_in + i].name,
                "output": outputs[first_out + i].name,
                "initial": _initial(state.initial),
            }
            for i, state in enumerate(signature.states)
        ]
        entries["nnconv.states"] = json.dumps(states, ensure_ascii=False)
    quants = {
        info.name: {
            "scale": list(value.quant.scale),
            "zero_point": list(value.quant.zero_point),
            **({} if value.quant.axis is None else {"axis": value.quant.axis}),
        }
        for info, value in (
            *zip(inputs, signature.graph.inputs, strict=True),
            *zip(outputs, signature.graph.outputs, strict=True),
        )
        if value.quant is not None
    }
    if quants:
        entries["nnconv.quantization"] = json.dumps(quants, ensure_ascii=False)
    return entries


def _origins(model: Model, target: Target) -> dict[str, str]:
    """Where the model came from, and what the way back needs to know of it."""
    source = model.format
    if source == "onnx":
        source = noted_source({k: v.decode(errors="replace") for k, v in model.metadata.items()})
    if source in ("", "onnx"):
        return {}
    entries = {SOURCE: json.dumps(source)}
    written = {tensor.name for tensor in target.initializers}
    marked = [v.name for v in model.graph.constants() if v.origin.op == HYBRID_MARK]
    hybrids = dict.fromkeys((*target.hybrids, *(name for name in marked if name in written)))
    if hybrids:
        entries[HYBRID] = json.dumps(list(hybrids), ensure_ascii=False)
    return entries


def _relaxed(model: Model) -> dict[str, str]:
    """Whether float32 may be computed as coarsely as float16."""
    return {RELAXED: "true"} if RELAXED in model.metadata else {}


def _initial(data: object) -> object:
    """A state's initial content: one number where all elements are equal, else nested lists."""
    import numpy as np

    array = np.asarray(data)
    if array.size and (not any(array.strides) or bool((array == array.flat[0]).all())):
        return array.flat[0].item()
    return array.tolist()
