"""NNRt's operations as schemas/nnrt has them, and what the tensors of an operation are to it.

Inputs are told by position and parameters by the type of their tensor. ``match`` finds it out once:
the rest of the package then asks for both by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from nnconv.formats.nnrt.types import DataType, OperationType, TensorType
from nnconv.formats.nnrt.wire import Graph, Operation
from nnconv.schemas import read_schema

MODE_COUNT, LIST_COUNT = 1, 4
"""The numbers of elements that tell a padding's mode from its list."""


class InputSpec:
    """A formal input or output.

    Attributes:
        name: what the tables call it.
        types: the element types that a device takes.
        optional: whether it may be left off, being among the last.
        repeat: whether it stands for a run of tensors.
        constant: whether it must have data.
        count: the number of elements that it must have; None for any.
        rank: least and greatest rank, None for no bound.
        dims: extents as numbers or names; None where they depend on more.
        last: name of the last extent, or empty.
        same: the input whose dimensions it has, or empty.
        broadcast: the input with whose dimensions its own must go, or empty.
        type_as: the input whose element type it has, or empty.
    """

    __slots__ = (
        "broadcast", "constant", "count", "dims", "last", "name", "optional", "rank", "repeat",
        "same", "type_as", "types",
    )  # fmt: skip

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.name: str = source["name"]
        self.types = tuple(DataType[name] for name in source["types"])
        self.optional: bool = source.get("optional", False)
        self.repeat: bool = source.get("repeat", False)
        self.constant: bool = source.get("constant", False)
        self.count: int | None = source.get("count")
        dims = source.get("dims")
        self.dims: tuple[int | str, ...] | None = None if dims is None else tuple(dims)
        least, most = source.get("rank", (0, None) if dims is None else (len(dims), len(dims)))
        self.rank: tuple[int, int | None] = (least, most)
        self.last: str = source.get("last", "")
        self.same: str = source.get("as", "")
        self.broadcast: str = source.get("broadcast", "")
        self.type_as: str = source.get("type_as", "")

    def __repr__(self) -> str:
        return f"<InputSpec {self.name}>"


class ParamSpec:
    """A parameter of an operation.

    Attributes:
        name: what the tables call it.
        type: the type of its tensor.
        since: the API version that brought it.
        shape: the extents that a device wants, numbers or names.
        count, rank: what is demanded when the operation is added; None for nothing.
        values: least and greatest number allowed, or None.
        padding: whether it may be a mode or a list.
        absent: what leaving it out does: ``default``, ``empty`` or ``finish``.
        needed: whether the operation means nothing without it.
        refused: whether no operation takes it.
    """

    __slots__ = (
        "_default", "_dtype", "_older", "absent", "count", "name", "needed", "padding", "rank",
        "refused", "shape", "since", "type", "values",
    )  # fmt: skip

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.name: str = source["name"]
        self.type = TensorType[source["type"]]
        self.since: int = source["since"]
        self.shape: tuple[int | str, ...] = tuple(source["shape"])
        self.count: int | None = source.get("count")
        self.rank: int | None = source.get("rank")
        values = source.get("values")
        self.values: tuple[int, int] | None = None if values is None else (values[0], values[1])
        self.padding: bool = source.get("padding", False)
        self.absent: str = source["absent"]
        self.needed: bool = source.get("needed", False)
        self.refused: bool = source.get("refused", False)
        self._dtype = DataType[source["dtype"]]
        self._default: Any = source["default"]
        self._older: Mapping[str, Any] = source.get("v1", {})

    def dtype(self, api: int) -> DataType:
        """The type of its elements."""
        return (
            DataType[self._older["dtype"]] if api == 1 and "dtype" in self._older else self._dtype
        )

    def default(self, api: int) -> Any:
        """What leaving it out means: a number, a truth value, a list, or None for nothing."""
        return self._older["default"] if api == 1 and "default" in self._older else self._default

    @property
    def elements(self) -> int | None:
        """How many elements a device wants; None for any number."""
        count = 1
        for extent in self.shape:
            if isinstance(extent, str):
                return None
            count *= extent
        return count

    def __repr__(self) -> str:
        return f"<ParamSpec {self.name}>"


class OperationSpec:
    """An operation.

    Attributes:
        name, code: what the tables call it.
        since: the API version that brought it.
        inputs, outputs: its formal ones.
        params: its parameters by name.
        input_counts, output_counts: the least and greatest number that may be given.
        max_params: the greatest number of parameters.
        quantized: whether it computes with real numbers where its first output has quantization
            parameters.
        rules: what else is demanded, as the schema has it.
        primitive, driver: what the runtime gives to a driver, and the least version of that.
    """

    __slots__ = (
        "by_type", "code", "driver", "input_counts", "inputs", "max_params", "name",
        "output_counts", "outputs", "params", "primitive", "quantized", "rules", "since",
    )  # fmt: skip

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.name: str = source["name"]
        self.code = OperationType(source["code"])
        self.since: int = source["since"]
        self.inputs = [InputSpec(entry) for entry in source["inputs"]]
        self.outputs = [InputSpec(entry) for entry in source["outputs"]]
        self.params = {entry["name"]: ParamSpec(entry) for entry in source["params"]}
        self.by_type = {spec.type: spec for spec in self.params.values()}
        least, most = source["counts"][0]
        self.input_counts: tuple[int, int] = (least, most)
        least, most = source["counts"][1]
        self.output_counts: tuple[int, int] = (least, most)
        self.max_params: int = source["max_params"]
        self.quantized: bool = source["quantized"]
        self.rules: list[dict[str, Any]] = source["rules"]
        self.primitive: str = source["primitive"]
        self.driver: str = source["driver"]

    def rules_at(self, api: int) -> list[dict[str, Any]]:
        """The rules that hold in a version of the API."""
        return [rule for rule in self.rules if rule.get("api", api) == api]

    def input_specs(self, count: int) -> list[InputSpec]:
        """The formal inputs of an operation with so many."""
        return _spread(self.inputs, count)

    def output_specs(self, count: int) -> list[InputSpec]:
        """The formal outputs of an operation with so many."""
        return _spread(self.outputs, count)

    def __repr__(self) -> str:
        return f"<OperationSpec {self.name}>"


class Match:
    """What the tensors of an operation are to it.

    Attributes:
        spec: the operation.
        api: the version of the API.
        inputs, outputs: the formal ones, by position.
        positions: where each input stands, by name; a run's is that of its first.
        params: index of each given parameter's tensor, by name; the last counts.
    """

    __slots__ = ("api", "inputs", "outputs", "params", "positions", "spec")

    def __init__(self, operation: Operation, graph: Graph) -> None:
        self.spec = spec_of(operation.type)
        self.api = graph.api
        self.inputs = self.spec.input_specs(len(operation.inputs))
        self.outputs = self.spec.output_specs(len(operation.outputs))
        places = reversed(range(len(self.inputs)))
        self.positions = {self.inputs[place].name: place for place in places}
        self.params: dict[str, int] = {}
        for index in operation.params:
            spec = self.spec.by_type.get(graph.tensors[index].type)
            if spec is not None:
                self.params[self._role(spec, graph.tensors[index].data)] = index

    def _role(self, spec: ParamSpec, data: np.ndarray | None) -> str:
        """The parameter that a tensor is: padding's mode and list are told by their counts."""
        if not spec.padding or data is None:
            return spec.name
        wanted = "padMode" if data.size == MODE_COUNT else "padList"
        return wanted if wanted in self.spec.params else spec.name

    def position(self, name: str) -> int | None:
        """Where an input stands; None if it is left off."""
        return self.positions.get(name)


@cache
def _sources() -> dict[int, Mapping[str, Any]]:
    return {entry["code"]: entry for entry in read_schema("nnrt/ops.json")["operations"]}


@cache
def spec_of(code: OperationType) -> OperationSpec:
    """The entry of an operation."""
    return OperationSpec(_sources()[int(code)])


@cache
def owner_of(kind: TensorType) -> OperationType | None:
    """The operation whose parameters have a tensor type; None for data."""
    for code, entry in _sources().items():
        if any(param["type"] == kind.name for param in entry["params"]):
            return OperationType(code)
    return None


def match(operation: Operation, graph: Graph) -> Match:
    """Tell what the tensors of an operation are to it."""
    return Match(operation, graph)


def _spread(specs: Sequence[InputSpec], count: int) -> list[InputSpec]:
    """Formal tensors by position, where one of them may stand for a run."""
    if len(specs) == 1 and specs[0].repeat:
        return [specs[0]] * count
    return list(specs[:count])
