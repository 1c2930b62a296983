"""Importing one subgraph: what stands for its tensors, and its operators one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from nnconv.errors import Reason, UnsupportedError, UnsupportedItem
from nnconv.formats.refusals import STRINGS
from nnconv.formats.tflite import wire
from nnconv.formats.tflite.importer import Importer, Source, importers
from nnconv.formats.tflite.types import dtype_of, quant_of, shape_of
from nnconv.formats.tflite.variables import FileVariables, Key, Variable, Variables, blank
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Origin, Value
from nnconv.ir.quant import Quant
from nnconv.ir.types import Shape, TensorType, static_shape
from nnconv.ops.quantize import Bitcast
from nnconv.ops.shape import Identity

Given: TypeAlias = "TensorType | Value | Key"
"""What an input of a subgraph is: see ``SubgraphImport.run``."""


class SubgraphImport:
    """One subgraph being imported.

    Attributes:
        file: the wire file.
        subgraph: the wire subgraph.
        graph: what is being built.
        tensors: the wire tensors.
        values: IR value of each tensor that has one.
        handles: variable of each tensor that is a handle.
        variables: the variables of the graph.
        results: what goes out, one an output of the subgraph: values, and variables of handles.
        unsupported: what can't be imported.
        known: what was found out of the elements of small integer tensors.
        depth: how many subgraphs it is inside of.
        fresh: present values of its variable tensors where these start anew each time it is run;
            None where they are variables of the graph.
    """

    def __init__(
        self,
        file: wire.File,
        index: int,
        *,
        shapes: dict[str, Shape] | None = None,
        shared: FileVariables | None = None,
        into: SubgraphImport | None = None,
    ) -> None:
        """Prepare the import of subgraph ``index``.

        ``shared`` is what all imports of the file share. With ``into`` the nodes join another's
        graph, else they make a graph of their own.
        """
        self.file = file
        self.subgraph = file.subgraphs[index]
        self.tensors = self.subgraph.tensors
        self.label = f"subgraph {index}" if index else ""
        self.values: dict[int, Value] = {}
        self.handles: dict[int, Key] = {}
        self.results: list[Value | Key] = []
        self.unsupported: list[UnsupportedItem] = []
        self.depth = 0
        self.fresh: dict[Key, Value] | None = None
        self._shapes = shapes or {}
        self._inlined = into is not None
        self.graph: Graph
        self.variables: Variables
        self.known: dict[Value, np.ndarray | None]
        if into is not None:
            self.graph, self.variables, self.known = into.graph, into.variables, into.known
        else:
            self.graph = Graph(self.subgraph.name or f"subgraph_{index}")
            self.variables = Variables(shared or FileVariables(), self.label)
            self.known = {}

    def run(self, given: Sequence[Given] | None = None) -> Graph:
        """Import every operator; what can't be imported is collected in ``unsupported``.

        ``given`` says what each input is: a graph input of a type, a value at hand, or the variable
        of a handle. None: all are graph inputs of the file's types. The variables of a graph are
        not yet among its inputs and outputs (``Variables.close``).

        Raises:
            InvalidModelError: when the subgraph breaks a rule of the format.
        """
        inputs = self.subgraph.inputs
        wanted: Sequence[Given | None] = [None] * len(inputs) if given is None else given
        for index, what in zip(inputs, wanted, strict=True):
            self._add_input(index, what)
        table = importers()
        for op in self.subgraph.operators:
            self._import(op, table)
        if not self.unsupported:
            self.results = [self.handles.get(i) or self._output(i) for i in self.subgraph.outputs]
            if not self._inlined:
                self.graph.outputs = [v for v in self.results if isinstance(v, Value)]
            if given is None:
                self._name_outputs()
        return self.graph

    def _import(self, op: wire.Operator, table: Mapping[str, Importer]) -> None:
        source = Source(op, self)
        key = f"CUSTOM:{op.custom_code}" if op.name == "CUSTOM" else op.name

        def read() -> None:
            importer = table.get(key)
            if importer is None:
                from nnconv.formats.tflite.scope import reason_for

                raise source.unsupported(**reason_for(op))
            importer(source)

        self.unsupported.extend(source.attempt(read))
        if self.unsupported:
            self._stand_in(op)

    def _stand_in(self, op: wire.Operator) -> None:
        """Give results to an operator that failed, so that the rest can be looked at as well."""
        for index in op.outputs:
            if 0 <= index < len(self.tensors) and index not in self.values:
                tensor = self.tensors[index]
                self.values[index] = Value(tensor.name, self.file_type(tensor))

    # ---------------------------------------------------------------- values

    def file_type(self, tensor: wire.Tensor) -> TensorType:
        """What the file says of a tensor: dtype, shape, quantization."""
        dtype = dtype_of(tensor)
        return TensorType(dtype, shape_of(tensor), quant_of(self.file, self.subgraph, tensor))

    def value(self, index: int, op: wire.Operator | None = None) -> Value:
        """The IR value of a tensor: what produced it, an input, or a constant.

        Raises:
            InvalidModelError: when nothing gives it content.
            UnsupportedError: it is a constant of strings.
        """
        found = self.values.get(index)
        if found is None:
            tensor = self.tensors[index]
            if tensor.is_variable:
                return self.state_of(index, op)
            found = self._constant(tensor)
            self.values[index] = found
        return found

    def _constant(self, tensor: wire.Tensor) -> Value:
        data = wire.tensor_data(self.file, tensor)
        kind = self.file_type(tensor)
        if data is None:
            if kind.dtype is DType.STRING and tensor.buffer:
                why, hint = STRINGS
                refusal = UnsupportedItem(
                    op="STRING", where=tensor.where, why=why, reason=Reason.OUT_OF_SCOPE, hint=hint
                )
                raise UnsupportedError([refusal], path=self.file.path)
            shape = static_shape(kind.shape)
            if shape is None or 0 not in shape:
                raise tensor.fail("it is read, but nothing gives it content")
            data = np.zeros(shape, kind.dtype.numpy)
        if kind.dtype is DType.BFLOAT16:
            data = data.view(kind.dtype.numpy)
        return Value(
            tensor.name,
            replace(kind, shape=data.shape),
            data=data,
            origin=Origin("tflite", "", tensor.index, self.label),
        )

    def _add_input(self, index: int, given: Given | None) -> None:
        tensor = self.tensors[index]
        if isinstance(given, tuple):
            self.handles[index] = given
            return
        kind = self.file_type(tensor)
        if given is not None:
            if given.dtype is not kind.dtype:
                raise tensor.fail(f"it is {kind.dtype}, but is given {given.dtype}")
            if isinstance(given, Value):
                self.values[index] = self.reread(given, kind.quant, tensor.name)
                return
            kind = TensorType(kind.dtype, given.shape, kind.quant)
        elif tensor.name in self._shapes:
            kind = replace(kind, shape=self._shapes[tensor.name])
        value = Value(tensor.name, kind, origin=Origin("tflite", "", index, self.label))
        self.graph.inputs.append(value)
        self.values[index] = value

    def reread(self, value: Value, quant: Quant | None, name: str) -> Value:
        """The same codes with other parameters; the value itself where they are its own."""
        if value.quant == quant:
            return value
        kind = replace(value.type, quant=quant)
        if value.data is not None:
            return Value(name, kind, data=value.data, origin=value.origin)
        builder = Builder(self.graph, origin=value.origin)
        return builder.add_typed(Bitcast(dtype=value.dtype), [value], [kind], names=[name])[0]

    def _output(self, index: int) -> Value:
        value, stated = self.value(index), self.tensors[index].shape
        if value.shape is None and stated:  # an interface must at least state its rank
            value.type = value.type.with_shape((None,) * len(stated))
        return value

    def _name_outputs(self) -> None:
        """Let outputs that are another tensor's value (such as a variable's) have their names."""
        builder = Builder(self.graph)
        for place, index in enumerate(self.subgraph.outputs):
            if index in self.handles:
                raise self.tensors[index].fail("the handle of a variable can't go out")
            value, name = self.graph.outputs[place], self.tensors[index].name
            if value.name != name:
                copy = builder.add_typed(Identity(), [value], [value.type], names=[name])
                self.graph.outputs[place] = copy[0]

    # ---------------------------------------------------------------- variables

    def variable(self, index: int, op: wire.Operator | None = None) -> Key:
        """The key of a variable tensor.

        Raises:
            InvalidModelError: when the tensor is no variable.
        """
        key: Key = ("tensor", self.subgraph.index, index)
        known = self.variables.file.known
        if key not in known:
            tensor = self.tensors[index]
            if not tensor.is_variable:
                raise (op or tensor).fail(f"tensor `{tensor.name}` must be a variable")
            kind = self.file_type(tensor)
            # LiteRT starts int8 variables at their zero point, all others at the number 0
            fill = kind.quant.zero_point[0] if kind.quant and kind.dtype is DType.INT8 else 0
            try:
                known[key] = Variable(key, tensor.name, kind, blank(kind, fill))
            except ValueError as error:
                raise tensor.fail(str(error)) from error
        return key

    def state_of(self, index: int, op: wire.Operator | None = None) -> Value:
        """The present value of a variable tensor, which becomes a state when first met.

        Raises:
            InvalidModelError: when the tensor is no variable.
        """
        key = self.variable(index, op)
        if self.fresh is None:
            return self.variables.present(key)
        if key not in self.fresh:
            self.fresh[key] = self.variables.file.known[key].start()
        return self.fresh[key]

    def set_state(self, index: int, value: Value, op: wire.Operator | None = None) -> None:
        """Give the next value to a variable tensor.

        Raises:
            InvalidModelError: when the tensor is no variable.
        """
        key = self.variable(index, op)
        if self.fresh is None:
            self.variables.assign(key, value)
        else:
            self.fresh[key] = value
