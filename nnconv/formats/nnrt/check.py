"""Whether a model keeps the rules of NNRt, in a version of its API.

Each rule that a model breaks is a ``Finding``: where, what was seen and what is allowed, and the
version that allows it, if there is one. What is here are the rules that the calls hold a model to
while it is built, and how its operations must hang together; ``device.py`` has what a device would
refuse behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from nnconv.errors import plural
from nnconv.formats.findings import BrokenModelError, Finding, run_order
from nnconv.formats.nnrt.device import device_faults, output_faults
from nnconv.formats.nnrt.table import (
    LIST_COUNT,
    MODE_COUNT,
    Match,
    ParamSpec,
    match,
    owner_of,
    spec_of,
)
from nnconv.formats.nnrt.types import (
    LAST_V1_TENSOR_TYPE,
    NEWEST,
    DataType,
    TensorType,
)
from nnconv.formats.nnrt.wire import BITS, Graph, Operation, Tensor

MOST_BYTES = (1 << 32) - 1
MOST_EXTENT = (1 << 31) - 1
MOST_DIMENSIONS = 200
MOST_TENSORS = 200
"""Of inputs, and of outputs, of an operation or model."""

Faults: TypeAlias = Iterator[str]


def findings(graph: Graph, api: int = NEWEST) -> list[Finding]:
    """What a model breaks in a version of the API, and what a device would refuse."""
    found = _findings(graph, api)
    if api == NEWEST or not found:
        return found
    newer = {(f.where, f.message) for f in _findings(graph, NEWEST)}
    return [f if (f.where, f.message) in newer else f._replace(level=NEWEST) for f in found]


def _findings(graph: Graph, api: int) -> list[Finding]:
    found = build_findings(graph, api)
    if not found:  # else a device never sees the model
        found = device_findings(graph, api)
    return found


def check(graph: Graph, api: int = NEWEST, *, path: str = "") -> None:
    """See that a model can be built in a version of the API, and be run by some device at all.

    Raises:
        InvalidModelError: it can't; the text has every reason.
    """
    if found := build_findings(graph, api):
        raise BrokenModelError(found, rules=f"NNRt's API version {api}", path=path)


def build_findings(graph: Graph, api: int = NEWEST) -> list[Finding]:
    """What keeps a model from being built, and what keeps its operations from hanging together."""
    found = list(_indices(graph))
    if found:
        return found
    for index, tensor in enumerate(graph.tensors):
        place = tensor_place(graph, index)
        faults = (*tensor_faults(tensor, api), *data_faults(tensor))
        found += (_finding(place, message) for message in faults)
    for index, operation in enumerate(graph.operations):
        place = operation_place(graph, index)
        found += (
            _finding(place, message, index)
            for message in (
                *operation_faults(operation, graph, api),
                *finish_faults(operation, graph),
            )
        )
    found += (_finding("the model", message) for message in ends_faults(graph, api))
    found += structure_findings(graph)
    return found


def device_findings(graph: Graph, api: int = NEWEST) -> list[Finding]:
    """What a device would refuse in a model that was built."""
    found = []
    for index, operation in enumerate(graph.operations):
        place = operation_place(graph, index)
        faults = device_faults(operation, graph, api)
        found += [_finding(place, message, index) for message in faults]
    for index in graph.outputs:
        faults = output_faults(graph.tensors[index])
        found += [_finding(tensor_place(graph, index), message) for message in faults]
    return found


def _finding(where: str, message: str, operation: int = -1) -> Finding:
    return Finding(where, message, operation=operation, needs="API version")


def operation_place(graph: Graph, index: int) -> str:
    """What messages call an operation."""
    return f"operation {index} ({graph.operations[index].type.name})"


def tensor_place(graph: Graph, index: int) -> str:
    """What messages call a tensor."""
    name = graph.tensors[index].name
    return f"tensor {index} (`{name}`)" if name else f"tensor {index}"


def _indices(graph: Graph) -> Iterator[Finding]:
    """Indices of tensors that aren't there."""
    count = len(graph.tensors)
    groups = [("the inputs", graph.inputs), ("the outputs", graph.outputs)]
    for number, operation in enumerate(graph.operations):
        place = operation_place(graph, number)
        groups += [(place, operation.params), (place, operation.inputs), (place, operation.outputs)]
    for place, indices in groups:
        for index in indices:
            if not 0 <= index < count:
                yield _finding(place, f"tensor {index}, there are {count}")


# ------------------------------------------------------------------------ tensors


def tensor_faults(tensor: Tensor, api: int = NEWEST) -> Faults:
    """What is wrong with a tensor, its data aside: what keeps it from being added to a model."""
    if api == 1 and tensor.type > LAST_V1_TENSOR_TYPE:
        yield f"type {tensor.type.name}, which version 1 doesn't know"
    if api > 1 and len(tensor.dimensions) > MOST_DIMENSIONS:
        yield (
            f"{plural(len(tensor.dimensions), 'dimension')}, at most {MOST_DIMENSIONS} are possible"
        )
    if any(extent == 0 or extent < -1 for extent in tensor.dimensions):
        yield f"dimensions {list(tensor.dimensions)}, allowed are extents of 1 and more, and -1"
    size = Tensor(tensor.data_type, [abs(extent) for extent in tensor.dimensions]).nbytes
    if size > MOST_BYTES:
        yield f"{plural(size, 'byte')}, at most {MOST_BYTES} are possible"
    yield from quant_faults(tensor)


def quant_faults(tensor: Tensor) -> Faults:
    """What is wrong with a tensor's quantization parameters."""
    quant = tensor.quant
    if quant is None:
        return
    if not len(quant.scales) == len(quant.zero_points) == len(quant.bits):
        counts = len(quant.scales), len(quant.zero_points), len(quant.bits)
        yield (
            f"{plural(counts[0], 'scale')}, {plural(counts[1], 'zero point')} and "
            f"{plural(counts[2], 'bit')}, must be as many"
        )
    if wrong := sorted({bits for bits in quant.bits if bits != BITS}):
        yield f"{plural(wrong[0], 'bit')}, must be {BITS}"


def data_faults(tensor: Tensor) -> Faults:
    """What is wrong with a constant's elements."""
    if tensor.data is None:
        return
    if not tensor.is_known:
        yield f"data with the dimensions {list(tensor.dimensions)}, all must be known"
    elif tensor.data.nbytes != tensor.nbytes or not tensor.nbytes:
        yield f"its data have {plural(tensor.data.nbytes, 'byte')}, must have {tensor.nbytes}"


# ------------------------------------------------------------------------ operations


def operation_faults(operation: Operation, graph: Graph, api: int = NEWEST) -> Faults:
    """What keeps an operation from being added to a model; its tensors are there."""
    yield from index_faults(operation.inputs, operation.outputs, graph, api)
    spec = spec_of(operation.type)
    if spec.since > api:
        yield f"version {api} doesn't know the operation"
    for side, indices, (least, most) in (
        ("inputs", operation.inputs, spec.input_counts),
        ("outputs", operation.outputs, spec.output_counts),
    ):
        if api == 1 and most == MOST_TENSORS:
            most = max(most, len(indices))  # noqa: PLW2901 - there is no such limit
        if not least <= len(indices) <= most:
            allowed = str(least) if least == most else f"{least} to {most}"
            yield f"{plural(len(indices), side[:-1])}, allowed are {allowed}"
    if len(operation.params) > spec.max_params:
        yield f"{plural(len(operation.params), 'parameter')}, at most {spec.max_params} are allowed"
    else:
        yield from _param_faults(operation, graph, api)
    found = match(operation, graph)
    for rule in spec.rules_at(api):
        known = BUILD_RULES.get(rule["rule"])
        if known is not None and (message := known(operation, graph, found, rule)):
            yield message


def index_faults(
    inputs: tuple[int, ...], outputs: tuple[int, ...], graph: Graph, api: int = NEWEST
) -> Faults:
    """What is wrong with the inputs and outputs of an operation, or of a model."""
    for side, indices in (("inputs", inputs), ("outputs", outputs)):
        if not indices or (len(indices) > MOST_TENSORS and api > 1):
            yield f"{plural(len(indices), side[:-1])}, allowed are 1 to {MOST_TENSORS}"
        for index in indices:
            if graph.tensors[index].is_param:
                kind = graph.tensors[index].type.name
                yield f"tensor {index} among the {side} is a {kind}, must be a {_DATA}"
    for index in sorted(set(inputs) & set(outputs)):
        yield f"tensor {index} is both input and output"


_DATA = TensorType.TENSOR.name


def _param_faults(operation: Operation, graph: Graph, api: int) -> Faults:
    spec = spec_of(operation.type)
    for index in operation.params:
        tensor = graph.tensors[index]
        param = spec.by_type.get(tensor.type)
        if param is None or param.refused:
            owner = owner_of(tensor.type)
            of = "of no operation" if owner is None or param else f"of {owner.name}"
            yield f"parameter {index} is a {tensor.type.name}, a parameter {of}"
        else:
            place = f"parameter {param.name} (tensor {index})"
            yield from (f"{place} {fault}" for fault in param_faults(param, tensor, api))


def param_faults(param: ParamSpec, tensor: Tensor, api: int = NEWEST) -> Faults:
    """What is wrong with a parameter's tensor, as ``has ..., must ...``."""
    dtype, count = param.dtype(api), tensor.count
    if param.padding:
        if count not in (MODE_COUNT, LIST_COUNT):
            yield f"has {plural(count, 'element')}, must have {MODE_COUNT} or {LIST_COUNT}"
            return
        dtype = DataType.INT8 if count == MODE_COUNT else DataType.INT64
    if tensor.data_type is not dtype:
        yield f"has elements of {tensor.data_type.name}, must have {dtype.name}"
    if param.count is not None and count != param.count:
        yield f"has {plural(count, 'element')}, must have {param.count}"
    if param.rank is not None and tensor.rank != param.rank:
        yield f"has rank {tensor.rank}, must have {param.rank}"
    if tensor.data is None:
        yield "has no data"
        return
    if param.values is None or not tensor.data.size or count == LIST_COUNT:
        return
    low, high = param.values
    number = tensor.data.reshape(-1)[0].item()
    if not low <= number <= high:
        yield f"has the value {number}, allowed are {low} to {high}"


def finish_faults(operation: Operation, graph: Graph) -> Faults:
    """What keeps a model from being finished."""
    spec = spec_of(operation.type)
    given = match(operation, graph).params
    for param in spec.params.values():
        if param.absent == "finish" and param.name not in given:
            yield f"parameter {param.name} ({param.type.name}) is missing"


# ------------------------------------------------------------------------ rules of operations

Rule: TypeAlias = "Callable[[Operation, Graph, Match, Mapping[str, Any]], str]"


def _rank(operation: Operation, graph: Graph, found: Match, rule: Mapping[str, Any]) -> str:
    place = found.position(rule["operand"])
    if place is None:
        return ""
    rank = graph.tensors[operation.inputs[place]].rank
    return (
        "" if rank == rule["is"] else f"{rule['operand']} has rank {rank}, must have {rule['is']}"
    )


def _type_code(operation: Operation, graph: Graph, found: Match, rule: Mapping[str, Any]) -> str:
    place = found.position(rule["operand"])
    if place is None:
        return ""
    data = graph.tensors[operation.inputs[place]].data
    if data is None or data.nbytes < 4:
        return f"{rule['operand']} has no data, it must be the code of an element type"
    code = int.from_bytes(data.tobytes()[:4], "little", signed=True)
    if 0 <= code <= max(DataType):
        return ""
    return f"{rule['operand']} is {code}, allowed are 0 to {int(max(DataType))}"


def _unused_axis(_: Operation, graph: Graph, found: Match, __: Mapping[str, Any]) -> str:
    if not {"axis", "useAxis"} <= found.params.keys():
        return ""
    data = graph.tensors[found.params["useAxis"]].data
    unused = data is not None and not data.any()
    return "parameter axis is given beside useAxis, which is false" if unused else ""


def _layer_norm(operation: Operation, graph: Graph, found: Match, _: Mapping[str, Any]) -> str:
    if len(operation.inputs) != 3:
        return ""
    x, gamma, beta = (graph.tensors[index] for index in operation.inputs)
    place = found.params.get("beginAxis")
    data = None if place is None else graph.tensors[place].data
    axis = found.spec.params["beginAxis"].default(found.api)
    if data is not None and data.size:
        axis = data.reshape(-1)[0].item()
    if not 1 <= axis < x.rank:
        return f"beginAxis is {axis} for rank {x.rank}, must be at least 1 and below the rank"
    for name, tensor in (("gamma", gamma), ("beta", beta)):
        if tensor.dimensions != x.dimensions[axis:]:
            shape, wanted = list(tensor.dimensions), list(x.dimensions[axis:])
            return f"{name} has the dimensions {shape}, must have {wanted}"
    return ""


def _param_count(operation: Operation, _: Graph, __: Match, rule: Mapping[str, Any]) -> str:
    if len(operation.params) in rule["is"]:
        return ""
    allowed = " or ".join(map(str, rule["is"]))
    return f"{plural(len(operation.params), 'parameter')}, version {rule['api']} wants {allowed}"


BUILD_RULES: dict[str, Rule] = {
    "rank": _rank,
    "type_code": _type_code,
    "unused_axis": _unused_axis,
    "layer_norm": _layer_norm,
    "param_count": _param_count,
}
"""The rules of single operations that hold when one is added; those of devices are not here."""


# ------------------------------------------------------------------------ how it hangs together


def ends_faults(graph: Graph, api: int = NEWEST) -> Faults:
    """What keeps a model's inputs and outputs from being specified, or it from being finished."""
    if not graph.operations:
        yield "it has no operations"
    yield from index_faults(graph.inputs, graph.outputs, graph, api)


def structure_findings(graph: Graph) -> list[Finding]:
    """What no call looks at: tensors that nothing or too much writes, operations in a circle."""
    found = []
    given = set(graph.inputs)
    for what, indices in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        if len(set(indices)) != len(indices):
            found.append(_finding(f"the {what}", "a tensor is listed twice"))
    found += [
        _finding(tensor_place(graph, index), "an input of the model has data")
        for index in graph.inputs
        if graph.tensors[index].data is not None
    ]
    writers: dict[int, int] = {}
    for number, operation in enumerate(graph.operations):
        place = operation_place(graph, number)
        for index in operation.outputs:
            if index in given or graph.tensors[index].data is not None:
                what = "an input of the model" if index in given else "a constant"
                found.append(_finding(place, f"it writes tensor {index}, {what}", number))
            if index in writers:
                text = f"it writes tensor {index}, as operation {writers[index]} does"
                found.append(_finding(place, text, number))
            writers[index] = number
    read = [(operation_place(graph, n), op.inputs) for n, op in enumerate(graph.operations)]
    for place, indices in (*read, ("the outputs", graph.outputs)):
        for index in indices:
            known = index in given or index in writers or graph.tensors[index].data is not None
            if not known:
                found.append(_finding(place, f"tensor {index} is read, but nothing writes it"))
    if run_order(graph.operations) is None:
        found.append(_finding("the model", "its operations read one another's outputs in a circle"))
    return found
