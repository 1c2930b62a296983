"""Importing one ONNX graph: what its names stand for, and its nodes one after the other.

Bodies of control flow may read names of the graphs around them; in the IR they are closed. What a
body takes from outside becomes an input of its own (``GraphImport.captured``), but for constants,
which it gets a view of. Functions are inlined: their nodes join the caller's graph, under a table
of names of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from nnconv.errors import InvalidModelError, Reason, UnsupportedError, UnsupportedItem
from nnconv.formats.onnx import wire
from nnconv.formats.onnx.importer import STANDARD, Importer, NotConvertible, Source, importers
from nnconv.formats.onnx.lists import TensorList
from nnconv.formats.onnx.notes import noted_hybrids, noted_source
from nnconv.formats.onnx.order import in_order
from nnconv.formats.onnx.type_rules import check_floats
from nnconv.formats.onnx.types import DTYPES
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import HYBRID_MARK, Graph, Origin, Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, TensorType, merge_shapes
from nnconv.ops.quantize import Bitcast
from nnconv.ops.shape import Identity

LEAST_OPSET = 7
"""The standard operator set whose ops importers know; older ones where an op is still the same."""

DEEPEST = 40
"""How deep bodies and functions may be inside each other."""

MOST_NODES = 200_000
"""How many nodes an import may come to beyond twice the file's own, functions inlined: a few that
call each other twice could else ask for more work than any real file does."""

_ALIASES = {"ai.onnx": STANDARD}
"""Other spellings of a domain."""


class FileImport:
    """What all graphs of one file share.

    Attributes:
        path: the file, for messages.
        source: the format that the model came from, "onnx" where nothing is noted.
        hybrids: constants that were codes beside floats there.
        functions: the model's own functions, by domain and name.
        opsets: version of each operator set, by domain.
        doubtful: what stands in for results of nodes that failed, and what was made of that, where
            the file doesn't say their types.
    """

    def __init__(self, model: wire.Model, path: str) -> None:
        self.path = path
        self.doubtful: set[Value] = set()
        self.source = noted_source(model.metadata)
        self.hybrids = noted_hybrids(model.metadata)
        self.functions = {
            (_domain(f.domain), f.name, f.overload): f for f in getattr(model, "functions", ())
        }
        self.opsets = {_domain(d): v for d, v in model.extra_opsets.items()}
        if model.opset:
            self.opsets[STANDARD] = model.opset
        self._nodes_left = MOST_NODES + 2 * len(model.graph.nodes)

    def count(self, nodes: int) -> None:
        """Count nodes to import.

        Raises:
            InvalidModelError: when there are too many.
        """
        self._nodes_left -= nodes
        if self._nodes_left < 0:
            raise InvalidModelError(
                f"its functions and bodies come to more than {MOST_NODES} nodes once they are "
                "put in the place of the nodes that call them",
                path=self.path,
            )


def _domain(name: str) -> str:
    return _ALIASES.get(name, name)


class GraphImport:
    """One graph, or the body of one function, being imported.

    Attributes:
        file: what all graphs of the file share.
        graph: what is being built.
        label: where this is, as a prefix for messages; empty for the main graph.
        opsets: version of each operator set, by domain.
        values: IR value of each name that has one.
        lists: what is known of each name that is a sequence of tensors.
        captured: for a body: the input that stands for each value of the graphs around it.
        known: what was found out of the elements of small integer tensors.
        unsupported: what can't be imported.
    """

    def __init__(
        self,
        file: FileImport,
        *,
        graph: Graph | None = None,
        label: str = "",
        parent: GraphImport | None = None,
        opsets: Mapping[str, int] | None = None,
        depth: int = 0,
        known: dict[Value, np.ndarray | None] | None = None,
    ) -> None:
        """Prepare an import.

        ``parent`` is the graph around a body; ``graph`` what an inlined function's nodes join.
        """
        self.file = file
        self.graph = Graph() if graph is None else graph
        self.label = label
        self.opsets = file.opsets if opsets is None else opsets
        self.values: dict[str, Value] = {}
        self.lists: dict[str, TensorList] = {}
        self.captured: dict[Value, Value] = {}
        self.known: dict[Value, np.ndarray | None] = {} if known is None else known
        self.unsupported: list[UnsupportedItem] = []
        self.depth = depth
        self._parent = parent
        self._initializers: dict[str, wire.Tensor] = {}
        self._stated: dict[str, Shape] = {}
        self._ends: Sequence[wire.ValueInfo] = ()
        self._told: Mapping[str, DType] = {}

    @property
    def path(self) -> str:
        """The file, for messages."""
        return self.file.path

    def fail(self, message: str) -> InvalidModelError:
        """The exception to raise for a graph that breaks a rule of the format."""
        return InvalidModelError(message, path=self.path, where=self.label.rstrip(" ,"))

    # ---------------------------------------------------------------- whole graphs

    def run(
        self,
        graph: wire.Graph,
        *,
        shapes: Mapping[str, Shape] | None = None,
    ) -> Graph:
        """Import the main graph; ``unsupported`` has what can't be imported.

        ``shapes`` take the place of those that the file gives for inputs.
        """
        self.graph.name = graph.name
        self._initializers = {t.name: t for t in graph.initializers}
        self._ends = (*graph.value_info, *graph.outputs)
        if not shapes:
            self._stated = {v.name: _dims(v) for v in graph.value_info}
        for info in graph.inputs:
            if info.name in self._initializers:
                continue  # a default that nothing overrides
            shape = (shapes or {}).get(info.name)
            kind = TensorType(self._dtype(info), _dims(info) if shape is None else shape)
            self.add_input(info.name, kind)
        self.import_nodes(graph.nodes)
        if not self.unsupported:
            self.graph.outputs = [self._output(info) for info in graph.outputs]
        return self.graph

    def import_nodes(self, nodes: Sequence[wire.Node]) -> None:
        """Import nodes, in an order in which each has what it reads."""
        self.file.count(len(nodes))
        known = {*self.values, *self._initializers}
        for index, node in in_order(nodes, known, self):
            self._import(node, index)

    def _import(self, node: wire.Node, index: int) -> None:
        domain = _domain(node.domain)
        source = Source(node, self, index=index, version=self.opsets.get(domain, 0))
        refused: Sequence[UnsupportedItem] = ()
        try:
            refused = source.attempt(lambda: self._run(source, domain))
        except InvalidModelError:
            if not self._reads_doubtful(node) and not self._has_doubtful_bodies(node):
                raise
        self.unsupported.extend(refused)
        if self.unsupported or self.file.doubtful:
            self._stand_in(node)

    def _reads_doubtful(self, node: wire.Node) -> bool:
        """Whether a node may fail for the type of what it reads."""
        doubtful = self.file.doubtful
        return bool(doubtful) and any(
            self.present(name) in doubtful for name in node.inputs if name
        )

    def _has_doubtful_bodies(self, node: wire.Node) -> bool:
        if not self.file.doubtful:
            return False
        given = node.attributes.values()
        values = (each.value if isinstance(each, wire.Attribute) else each for each in given)
        return any(isinstance(value, wire.Graph) for value in values)

    def present(self, name: str) -> Value | None:
        """The IR value of a name so far, here or in graphs around."""
        if name in self.values or self._parent is None:
            return self.values.get(name)
        return self._parent.present(name)

    def _run(self, source: Source, domain: str) -> None:
        importer = self._importer(source, domain)  # that an op is unknown is told in any case
        try:
            if domain == STANDARD:
                check_floats(source)
            importer(source)
        except (NotConvertible, UnsupportedError) as refusal:
            if not self._reads_doubtful(source.node):
                raise
            items = (i for i in refusal.items if i.reason is not Reason.NOT_IMPLEMENTED)
            raise NotConvertible(*items) from None

    def _importer(self, source: Source, domain: str) -> Importer:
        """What imports a node: its importer, its function, or ONNX's own definition of its op.

        A model's function with the name of an op that runtimes have is theirs, not the model's.
        """
        node = source.node
        function = self.file.functions.get((domain, node.op_type, node.overload))
        importer = importers().get(f"{domain}:{node.op_type}" if domain else node.op_type)
        if function is not None:
            from nnconv.formats.onnx.functions import inline, is_defined

            known = bool(source.version) and (importer is not None or is_defined(source, domain))
            if node.overload or not known:
                return partial(inline, function=function)
        if importer is None:
            from nnconv.formats.onnx.functions import expansion

            return expansion(source)
        if not source.version:
            raise source.fail(f"the model imports no version of operator set `{domain}`")
        if source.version < LEAST_OPSET and domain == STANDARD:
            from nnconv.formats.onnx.functions import check_unchanged

            check_unchanged(source, LEAST_OPSET)
        return importer

    def _stand_in(self, node: wire.Node) -> None:
        """Give results to a node that failed, so that the rest can be looked at as well."""
        kinds = self._kinds()
        is_doubtful = self._reads_doubtful(node) or self._has_doubtful_bodies(node)
        for name in filter(None, node.outputs):
            if name not in self.values:
                dtype, shape = kinds.get(name), self._stated.get(name)
                self.values[name] = Value(name, TensorType(dtype or DType.FLOAT32, shape))
                if dtype is None or shape is None:
                    self.file.doubtful.add(self.values[name])
            elif is_doubtful:
                self.file.doubtful.add(self.values[name])

    def _kinds(self) -> Mapping[str, DType]:
        """What the graph says of the types of its values."""
        if self._ends:
            kinds = {info.name: DTYPES.get(info.dtype) for info in self._ends if info.dtype}
            self._told = {name: kind for name, kind in kinds.items() if kind is not None}
            self._ends = ()
        return self._told

    def add_input(self, name: str, kind: TensorType) -> Value:
        """Add an input to the graph under construction."""
        if name in self.values:
            raise self.fail(f"two inputs are called `{name}`")
        value = Value(name, kind, origin=Origin("onnx", "", -1, self.label.rstrip(" ,")))
        self.graph.inputs.append(value)
        self.values[name] = value
        return value

    def _dtype(self, info: wire.ValueInfo) -> DType:
        found = None if info.dtype is None else DTYPES.get(info.dtype)
        if found is None:
            raise self.refused_type(info)
        return found

    def refused_type(self, info: wire.ValueInfo) -> InvalidModelError | UnsupportedError:
        """What to raise for an input or output that is no tensor of a type at hand."""
        from nnconv.formats.onnx.scope import refused_value

        return refused_value(info, self.path)

    def _output(self, info: wire.ValueInfo) -> Value:
        if info.name in self.lists:
            raise self.refused_type(info)
        value = self.value(info.name)
        shape = merge_shapes(value.shape, _dims(info))
        if shape != value.shape:
            value.type = value.type.with_shape(shape)
        if value.name != info.name:  # another output's, or an input's
            copies = Builder(self.graph).add_typed(
                Identity(), [value], [value.type], names=[info.name]
            )
            return copies[0]
        return value

    # ---------------------------------------------------------------- values

    def value(self, name: str, reader: Source | None = None) -> Value:
        """The IR value of a name: an input, a constant, what a node made, or one from outside.

        Raises:
            InvalidModelError: when nothing gives it.
            NotConvertible: when it is a sequence.
        """
        found = self.find(name)
        if found is None and self.find_list(name) is not None:
            raise NotConvertible(self._sequence(name, reader))
        if found is None:
            message = f"it reads `{name}`, which nothing gives"
            raise self.fail(message) if reader is None else reader.fail(message)
        return found

    def find(self, name: str) -> Value | None:
        """The IR value of a name, or None if there is no such name here or in graphs around."""
        found = self.values.get(name)
        if found is None and name in self._initializers:
            found = self._constant(self._initializers[name])
        elif found is None and self._parent is not None:
            outer = self._parent.find(name)
            found = None if outer is None else self.capture(outer)
        else:
            return found
        if found is not None:
            self.values[name] = found
        return found

    def find_list(self, name: str) -> TensorList | None:
        """What is known of a sequence of tensors, here or in graphs around."""
        found = self.lists.get(name)
        if found is None and self._parent is not None:
            outer = self._parent.find_list(name)
            if outer is not None:
                found = self.lists[name] = outer.through(self.capture)
        return found

    def _sequence(self, name: str, reader: Source | None) -> UnsupportedItem:
        """That a sequence stands where only a tensor can."""
        from nnconv.formats.onnx.scope import SEQUENCE_HINT

        return UnsupportedItem(
            op="graph" if reader is None else reader.name,
            where=f"{self.label}`{name}`" if reader is None else reader.where,
            why=f"`{name}` is a sequence of tensors",
            reason=Reason.OUT_OF_SCOPE,
            hint=SEQUENCE_HINT,
        )

    def capture(self, outer: Value) -> Value:
        """What stands for a value of the graph around, inside this body."""
        if self._parent is not None and self._parent.graph is self.graph:
            return outer  # an inlined branch
        if outer.data is not None:
            return Value(outer.name, outer.type, data=outer.data, origin=outer.origin)
        found = self.captured.get(outer)
        if found is None:
            found = self.captured[outer] = Value(outer.name, outer.type, origin=outer.origin)
            self.graph.inputs.append(found)
            if outer in self.file.doubtful:
                self.file.doubtful.add(found)
        return found

    def define(self, name: str, value: Value, source: Source) -> None:
        """Say what a name stands for.

        Raises:
            InvalidModelError: when it stands for something already.
        """
        if name in self.values or name in self._initializers:
            raise source.fail(f"there is a `{name}` already")
        stated = self._stated.get(name)
        if stated is not None and value.data is None:
            shape = merge_shapes(value.shape, stated)
            if shape != value.shape:
                value.type = value.type.with_shape(shape)
        self.values[name] = value

    def _constant(self, tensor: wire.Tensor) -> Value:
        dtype = DTYPES.get(tensor.dtype)
        if dtype is None:
            from nnconv.formats.onnx.scope import refused_tensor

            raise refused_tensor(tensor, self.path)
        data = tensor.array()
        mark = HYBRID_MARK if tensor.name in self.file.hybrids else ""
        origin = Origin(self.file.source, mark, -1)
        return Value(tensor.name, TensorType(dtype, data.shape), data=data, origin=origin)

    def reread(self, value: Value, quant: Quant | None) -> Value:
        """The same codes with other parameters; the value itself where they are its own."""
        if value.quant == quant:
            return value
        kind = TensorType(value.dtype, value.shape, quant)
        if value.data is not None:
            return Value(value.name, kind, data=value.data, origin=value.origin)
        builder = Builder(self.graph, origin=value.origin)
        return builder.add_typed(
            Bitcast(dtype=value.dtype), [value], [kind], names=[f"{value.name}/codes"]
        )[0]

    # ---------------------------------------------------------------- bodies

    def inner(self, source: Source, name: str, *, inlined: bool = False) -> GraphImport:
        """An import inside this one: of a node's body of that name.

        One that is ``inlined`` is a branch that always runs.
        """
        if self.depth >= DEEPEST:
            raise self.fail(f"bodies are more than {DEEPEST} deep inside each other")
        return GraphImport(
            self.file,
            graph=self.graph if inlined else None,
            label=f"{source.where} {source.node.op_type}, {name}, ",
            parent=self,
            opsets=self.opsets,
            depth=self.depth + 1,
            known=self.known if inlined else None,
        )

    def import_body(self, graph: wire.Graph) -> list[Value]:
        """Import a body's nodes, its inputs being defined already; gives its outputs.

        Raises:
            NotConvertible: with everything in it that can't be imported.
        """
        self._initializers = {t.name: t for t in graph.initializers}
        self._stated = {v.name: _dims(v) for v in graph.value_info}
        self._ends = (*graph.value_info, *graph.outputs)
        self.import_nodes(graph.nodes)
        if self.unsupported:
            raise NotConvertible(*self.unsupported)
        outputs = [self.value(info.name) for info in graph.outputs]
        for value, info in zip(outputs, graph.outputs, strict=True):
            stated = _dims(info)
            if stated is not None and value.data is None and value.producer is not None:
                value.type = value.type.with_shape(merge_shapes(value.shape, stated))
        return outputs


def _dims(info: wire.ValueInfo) -> Shape:
    if info.dims is None:
        return None
    return tuple(None if isinstance(dim, int) and dim < 0 else dim for dim in info.dims)
