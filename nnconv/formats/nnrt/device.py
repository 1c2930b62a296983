"""What a device would refuse of an NNRt model that the API's calls let through.

The runtime looks at counts and parameters alone; element types and shapes are left to the device.
The demands here are those of the documents, in schemas/nnrt/ops.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import TypeAlias

from nnconv.errors import plural
from nnconv.formats.nnrt.table import InputSpec, Match, match
from nnconv.formats.nnrt.types import NEWEST, DataType
from nnconv.formats.nnrt.wire import Graph, Operation, Tensor

Faults: TypeAlias = Iterator[str]

QUANTIZED = (DataType.INT8, DataType.UINT8)
"""The element types of codes."""

CONVERSION = "QUANT_DTYPE_CAST"
"""The operation whose data may have scales for each index of the dimension that it names."""

PLACES = "ARG_MAX"
"""The operation whose indices are the same for codes as for what they stand for."""

WEIGHTS = "weight"
"""The input whose first dimension may have its own parameters for each index."""


def device_faults(operation: Operation, graph: Graph, api: int = NEWEST) -> Faults:
    """What a device would refuse of an operation."""
    found = match(operation, graph)
    inputs = _named(found.inputs, operation.inputs, graph)
    outputs = _named(found.outputs, operation.outputs, graph)
    needed = [formal for formal in found.spec.inputs if not formal.optional]
    for formal in needed[len(found.inputs) :]:
        yield f"input {formal.name} is missing"
    if len(operation.inputs) > len(found.inputs):
        yield (
            f"{plural(len(operation.inputs), 'input')}, at most {len(found.inputs)} mean something"
        )
    yield from _needed_params(operation, graph, found, api)
    by_name = {formal.name: tensor for formal, tensor in (*inputs, *outputs)}
    extents: dict[str, int] = {}
    for formal, tensor in inputs:
        yield from _type(formal, tensor, by_name)
        yield from _shape(formal, tensor, by_name, extents)
    for formal, tensor in outputs:
        yield from _type(formal, tensor, by_name)
    yield from _quantization(found, graph, inputs, outputs)
    for rule in found.spec.rules_at(api):
        if rule["rule"] == "lost_tensors":
            yield "the runtime loses the operation's tensors"
        elif rule["rule"] == "same_rows":
            place = found.params.get(rule["param"])
            data = None if place is None else graph.tensors[place].data
            if data is not None and data.shape == (2, 2) and (data[0] != data[1]).any():
                yield f"{rule['param']} are {data.tolist()}, the device gets the first row twice"


def output_faults(tensor: Tensor) -> Faults:
    """What keeps an output of a model from being bound."""
    if not tensor.dimensions:
        yield "an output of rank 0, which can't be bound; it must have the dimensions [1]"


def _named(
    specs: list[InputSpec], indices: tuple[int, ...], graph: Graph
) -> list[tuple[InputSpec, Tensor]]:
    return [(formal, graph.tensors[index]) for formal, index in zip(specs, indices, strict=False)]


def _needed_params(operation: Operation, graph: Graph, found: Match, api: int) -> Faults:
    for param in found.spec.params.values():
        place = found.params.get(param.name)
        if place is None:
            if param.needed and param.since <= api and param.absent != "finish":
                yield f"parameter {param.name} ({param.type.name}) is missing"
        elif not param.padding and param.elements not in (None, graph.tensors[place].count):
            count = graph.tensors[place].count
            yield (
                f"parameter {param.name} has {plural(count, 'element')}, must have {param.elements}"
            )
    kinds = [graph.tensors[index].type for index in operation.params]
    for kind in sorted({kind for kind in kinds if kinds.count(kind) > 1}):
        yield f"parameter {kind.name} is given {plural(kinds.count(kind), 'time')}"


def _type(formal: InputSpec, tensor: Tensor, by_name: dict[str, Tensor]) -> Faults:
    if tensor.data_type not in formal.types:
        allowed = ", ".join(kind.name for kind in formal.types)
        yield f"{formal.name} is {tensor.data_type.name}, allowed are {allowed}"
    elif formal.type_as in by_name:
        other = by_name[formal.type_as]
        if other.data_type is not tensor.data_type:
            kinds = tensor.data_type.name, other.data_type.name
            yield f"{formal.name} is {kinds[0]}, must be {kinds[1]} as {formal.type_as}"


def _shape(
    formal: InputSpec, tensor: Tensor, by_name: dict[str, Tensor], extents: dict[str, int]
) -> Faults:
    shape = list(tensor.dimensions)
    if formal.count is not None and tensor.is_known and tensor.count != formal.count:
        yield f"{formal.name} has {plural(tensor.count, 'element')}, must have {formal.count}"
    if formal.constant and tensor.data is None:
        yield f"{formal.name} has no data, it must be a constant"
    least, most = formal.rank
    if tensor.rank < least or (most is not None and tensor.rank > most):
        allowed = str(least) if least == most else f"{least} to {'any' if most is None else most}"
        yield f"{formal.name} has rank {tensor.rank}, allowed is {allowed}"
        return
    if formal.same in by_name and not _fits(tensor, by_name[formal.same]):
        wanted = list(by_name[formal.same].dimensions)
        yield f"{formal.name} has the dimensions {shape}, must have {wanted} as {formal.same}"
    if formal.broadcast in by_name and not _broadcasts(tensor, by_name[formal.broadcast]):
        other = list(by_name[formal.broadcast].dimensions)
        yield f"{formal.name} has the dimensions {shape}, which don't go with {other}"
    names = list(formal.dims or ())
    pairs = list(zip(names, shape, strict=True)) if names else []
    if formal.last:
        pairs.append((formal.last, shape[-1]))
    for name, extent in pairs:
        wanted_extent = name if isinstance(name, int) else extents.setdefault(name, extent)
        if -1 not in (extent, wanted_extent) and extent != wanted_extent:
            yield f"{formal.name} has the extent {extent} where {wanted_extent} is wanted"


def _fits(tensor: Tensor, other: Tensor) -> bool:
    pairs = zip(tensor.dimensions, other.dimensions, strict=False)
    return tensor.rank == other.rank and all(a == b or -1 in (a, b) for a, b in pairs)


def _broadcasts(tensor: Tensor, other: Tensor) -> bool:
    pairs = zip(reversed(tensor.dimensions), reversed(other.dimensions), strict=False)
    return all(a == b or 1 in (a, b) or -1 in (a, b) for a, b in pairs)


def _quantization(
    found: Match,
    graph: Graph,
    inputs: list[tuple[InputSpec, Tensor]],
    outputs: list[tuple[InputSpec, Tensor]],
) -> Faults:
    axis = _axis_of_scales(found, graph)
    for formal, tensor in (*inputs, *outputs):
        yield from _params(formal, tensor, axis)
    if not found.spec.quantized or not outputs:
        return
    if found.spec.name == PLACES and outputs[0][1].data_type not in FLOATS:
        return
    computes = outputs[0][1].quant is not None
    codes = set(found.spec.outputs[0].types) <= {*FLOATS, *QUANTIZED}
    for formal, tensor in (*inputs, outputs[0]):
        is_code = tensor.data_type in QUANTIZED
        if tensor.quant is None and is_code and (computes or codes):
            yield f"{formal.name} is {tensor.data_type.name} without quantization parameters"
        if tensor.quant is not None and is_code and not computes:
            yield f"{formal.name} has quantization parameters, but the first output has none"


FLOATS = (DataType.FLOAT16, DataType.FLOAT32)


def _axis_of_scales(found: Match, graph: Graph) -> int | None:
    """The dimension whose scales a conversion of codes names; None of other operations."""
    if found.spec.name != CONVERSION or "axis" not in found.spec.params or found.api < 2:
        return None
    place = found.params.get("axis")
    data = None if place is None else graph.tensors[place].data
    return 0 if data is None or not data.size else int(data.reshape(-1)[0])


def _params(formal: InputSpec, tensor: Tensor, axis: int | None) -> Faults:
    quant = tensor.quant
    if quant is None:
        return
    if formal.name == "bias" and tensor.data_type is DataType.INT32:
        yield "the bias has quantization parameters, which follow from those of input and weight"
    elif any(not (scale > 0 and isfinite(scale)) for scale in quant.scales):
        yield f"{formal.name} has a scale that isn't above 0"
    elif len(quant.scales) != 1:
        place = 0 if formal.name == WEIGHTS else axis
        first = 1
        if place is not None and -tensor.rank <= place < tensor.rank:
            first = tensor.dimensions[place]
        if len(quant.scales) != first and first != -1:
            yield f"{formal.name} has {plural(len(quant.scales), 'scale')}, must have 1" + (
                f" or {first}" if first != 1 else ""
            )
