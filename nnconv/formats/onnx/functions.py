"""Functions: ops that a model, or ONNX itself, defines by nodes of simpler ops; they are inlined.

Where nnconv has no importer of its own for a standard op, the definition that the ``onnx`` package
holds of it is taken. That package is loaded only then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nnconv.errors import Reason, plural
from nnconv.formats.onnx import wire
from nnconv.formats.onnx.graph import DEEPEST, GraphImport
from nnconv.formats.onnx.importer import Importer, Source
from nnconv.formats.onnx.scope import reason_for
from nnconv.formats.onnx.types import DATA_TYPES
from nnconv.ir.graph import Value


def inline(source: Source, function: wire.Function) -> None:
    """Import a function's nodes in the place of a node that calls it.

    Raises:
        InvalidModelError: when the node doesn't fit the function, or functions call each other
            without end.
    """
    scope, node = source.scope, source.node
    if scope.depth >= DEEPEST:
        raise source.fail(f"functions are more than {DEEPEST} deep inside each other")
    if len(node.inputs) > len(function.inputs) or len(node.outputs) > len(function.outputs):
        raise source.fail(
            f"{plural(len(node.inputs), 'operand')} and {plural(len(node.outputs), 'result')}, "
            f"the function has {len(function.inputs)} and {len(function.outputs)}"
        )
    inner = GraphImport(
        scope.file,
        graph=scope.graph,
        label=f"{source.where} {node.op_type}, ",
        opsets={**scope.opsets, **function.opsets},
        depth=scope.depth + 1,
        known=scope.known,
    )
    absent = set()
    given: list[Value] = []
    for place, name in enumerate(function.inputs):
        value = source.optional(place)
        if value is None:
            absent.add(name)
        else:
            inner.values[name] = value
            given.append(value)
    attributes = {**function.defaults, **node.attributes}
    inner.import_nodes([_called(n, attributes, absent) for n in function.nodes])
    scope.unsupported += inner.unsupported
    if inner.unsupported:
        return
    for place, name in enumerate(function.outputs):
        if not source.wants(place):
            continue
        value = inner.value(name, source)
        if value.producer is not None and value not in given:
            value.name = node.outputs[place]
        source.bind(place, value)


def _called(node: wire.Node, attributes: Mapping[str, Any], absent: set[str]) -> wire.Node:
    """A function's node with the attributes and operands that the calling node gives."""
    return wire.Node(
        node.op_type,
        ["" if name in absent else name for name in node.inputs],
        node.outputs,
        _resolved(node.attributes, attributes, absent),
        name=node.name,
        domain=node.domain,
        overload=node.overload,
    )


def _resolved(
    own: Mapping[str, Any], attributes: Mapping[str, Any], absent: set[str]
) -> dict[str, Any]:
    """Attributes, those that refer to the calling node's in their place."""
    result: dict[str, Any] = {}
    for name, attribute in own.items():
        reference = getattr(attribute, "ref_attr_name", "")
        if reference:
            if reference in attributes:
                result[name] = attributes[reference]
            continue
        value = attribute.value if isinstance(attribute, wire.Attribute) else attribute
        result[name] = (
            _resolved_graph(value, attributes, absent)
            if isinstance(value, wire.Graph)
            else attribute
        )
    return result


def _resolved_graph(
    graph: wire.Graph, attributes: Mapping[str, Any], absent: set[str]
) -> wire.Graph:
    return wire.Graph(
        graph.name,
        [_called(n, attributes, absent) for n in graph.nodes],
        graph.inputs,
        graph.outputs,
        graph.initializers,
        value_info=graph.value_info,
    )


def expansion(source: Source) -> Importer:
    """What imports an op that has no importer by the definition that ONNX gives of it.

    Raises:
        NotConvertible: when there is none.
    """
    node = source.node
    refusal = reason_for(node.domain, node.op_type)
    if refusal["reason"] is Reason.OUT_OF_SCOPE or node.domain:
        raise source.unsupported(**refusal)
    function = definition(source)
    if function is None:
        raise source.unsupported(**refusal)
    return partial(inline, function=function)


def check_unchanged(source: Source, since: int) -> None:
    """See that an op of an operator set before ``since`` means what it means there.

    Raises:
        NotConvertible: when it doesn't, or didn't exist.
    """
    import onnx

    name, domain = source.node.op_type, source.node.domain
    try:
        old: Any = onnx.defs.get_schema(name, source.version, domain)
        new: Any = onnx.defs.get_schema(name, since, domain)
    except onnx.defs.SchemaError:
        old = new = None
    if old is None or old.since_version != new.since_version:
        raise source.unsupported(
            f"as of operator set {source.version}; ops are known as of {since} and later",
            hint="onnx.version_converter turns a model into another operator set.",
        )


def is_defined(source: Source, domain: str) -> bool:
    """Whether ``domain`` is one of ONNX's own, and has a node's op in the model's version of it."""
    if domain not in _STANDARD_DOMAINS:
        return False
    import onnx

    return bool(onnx.defs.has(source.node.op_type, source.version, domain))


_STANDARD_DOMAINS = ("", "ai.onnx.ml")


def definition(source: Source) -> wire.Function | None:
    """ONNX's own definition of a node's op by simpler ops, if it has one."""
    import onnx

    node, version = source.node, source.version
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None
    proto = onnx.FunctionProto()
    if schema.has_function:
        opset = _nearest(schema.function_opset_versions, version)
        proto.ParseFromString(schema.get_function_with_opset_version(opset))
    elif schema.has_context_dependent_function:
        opset = _nearest(schema.context_dependent_function_opset_versions, version)
        content, kinds = _described(source)
        body = schema.get_context_dependent_function_with_opset_version(opset, content, kinds)
        proto.ParseFromString(body)
    else:
        return None
    holder = onnx.ModelProto(ir_version=onnx.IR_VERSION)
    holder.graph.name = node.op_type
    stated = {a.name for a in proto.attribute_proto}
    proto.attribute_proto.extend(
        a.default_value
        for name, a in schema.attributes.items()
        if a.default_value.name and name not in stated
    )
    holder.functions.append(proto)
    from nnconv.formats.onnx.decode import read

    return read(holder.SerializeToString()).functions[0]


def _nearest(versions: Sequence[int], wanted: int) -> int:
    """The newest version that isn't beyond the wanted one; else the oldest."""
    return max((v for v in versions if v <= wanted), default=min(versions))


def _described(source: Source) -> tuple[bytes, list[bytes]]:
    """A node and the types of its operands as onnx's own messages."""
    import onnx

    from nnconv.formats.onnx.protobuf import encode, part_chunks

    infos = [
        wire.ValueInfo(name, DATA_TYPES[v.dtype], v.shape)
        for place, name in enumerate(source.node.inputs)
        if (v := source.optional(place)) is not None
    ]
    parts, _ = encode(wire.Model(wire.Graph("call", [source.node], infos, []), 21))
    model = onnx.load_from_string(b"".join(part_chunks(parts)))
    kinds = {info.name: info.type.SerializeToString() for info in model.graph.input}
    nothing = onnx.TypeProto().SerializeToString()
    return (
        model.graph.node[0].SerializeToString(),
        [kinds.get(name, nothing) for name in source.node.inputs],
    )
