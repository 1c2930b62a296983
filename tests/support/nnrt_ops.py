"""One NNRt operation, from arrays by name: its model, and what all devices make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from nnconv.backends import Executable

import nnconv
from nnconv.errors import UnsupportedError
from nnconv.formats.nnrt import file
from nnconv.formats.nnrt.check import findings
from nnconv.formats.nnrt.reader import import_model
from nnconv.formats.nnrt.table import InputSpec, spec_of
from nnconv.formats.nnrt.types import FROM_DTYPE, NUMPY, OperationType, TensorType
from nnconv.formats.nnrt.wire import Graph, Operation, QuantParams, Tensor
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Model
from nnconv.lowering import one_entry, to_nnrt
from support.nnrt_runtime import run_by_calls

DEVICES = ("reference", "onnxruntime:cpu", "litert:cpu")


class Given(NamedTuple):
    """An input or an expected result.

    Attributes:
        array: its elements; bools as such.
        quant: how its codes stand for real numbers.
        constant: whether it belongs to the model.
    """

    array: np.ndarray
    quant: QuantParams | None = None
    constant: bool = False


def codes(array: Any, scale: float, zero_point: int = 0, *, constant: bool = False) -> Given:
    """8-bit codes with a scale and a zero point."""
    return Given(np.asarray(array, np.int8), QuantParams([scale], [zero_point]), constant)


def real(given: Given) -> np.ndarray:
    """The numbers that codes stand for."""
    assert given.quant is not None
    return (given.array.astype(np.float64) - given.quant.zero_points[0]) * given.quant.scales[0]


def quantized(x: np.ndarray, scale: float, point: int) -> Given:
    """Numbers as 8-bit codes, halves rounded up."""
    return codes(np.clip(np.floor(x / scale + 0.5) + point, -128, 127), scale, point)


def const(array: Any, dtype: Any = None) -> Given:
    """A constant."""
    return Given(np.asarray(array, dtype), constant=True)


def graph_of(
    op: str,
    inputs: Mapping[str, Any],
    params: Mapping[str, Any],
    outputs: Sequence[Given],
    *,
    api: int = 2,
) -> Graph:
    """The model of one operation; a list gives the inputs that a formal one stands for."""
    spec = spec_of(OperationType[op])
    graph = Graph(api=api)
    taken = [index for formal in spec.inputs for index in _inputs(graph, formal, inputs)]
    assert set(inputs) <= {formal.name for formal in spec.inputs}, "an input of another name"
    given = []
    for name, value in params.items():
        formal = spec.params[name]
        dtype = NUMPY[formal.dtype(api)]
        data = np.asarray(value).astype(dtype)
        if all(isinstance(extent, int) for extent in formal.shape):
            data = data.reshape([int(extent) for extent in formal.shape])
        kind = formal.dtype(api)
        given.append(_add(graph, Tensor(kind, data.shape, type=formal.type, data=data)))
    made = [_add(graph, _tensor(each, f"output{i}")) for i, each in enumerate(outputs)]
    graph.operations = [Operation(OperationType[op], given, taken, made)]
    graph.inputs = tuple(i for i in taken if graph.tensors[i].data is None)
    graph.outputs = tuple(made)
    if not graph.inputs:  # a model must have some: one of an operation that nothing reads
        x, y = (_add(graph, _tensor(Given(np.zeros(1, np.float32)), name)) for name in "xy")
        graph.operations.append(Operation(OperationType.SQRT, (), [x], [y]))
        graph.inputs = (x,)
    return graph


def _inputs(graph: Graph, formal: InputSpec, inputs: Mapping[str, Any]) -> list[int]:
    value = inputs.get(formal.name)
    if value is None:
        assert formal.optional, f"{formal.name} is missing"
        return []
    several = value if isinstance(value, list) else [value]
    added = []
    for number, each in enumerate(several):
        found = each if isinstance(each, Given) else Given(np.asarray(each))
        name = formal.name if len(several) == 1 else f"{formal.name}{number}"
        tensor = _tensor(found, name)
        if found.constant or formal.constant:
            tensor.data = found.array.astype(NUMPY[tensor.data_type])
        added.append(_add(graph, tensor))
    return added


def _tensor(given: Given, name: str) -> Tensor:
    kind = FROM_DTYPE[DType.of(given.array)]
    return Tensor(kind, given.array.shape, type=TensorType.TENSOR, quant=given.quant, name=name)


def _add(graph: Graph, tensor: Tensor) -> int:
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1


def check_op(
    op: str,
    inputs: Mapping[str, Any],
    params: Mapping[str, Any],
    expected: Any,
    *,
    api: int = 2,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    steps: int = 0,
    devices: Sequence[str] = DEVICES,
) -> None:
    """See that an operation gives ``expected`` on the reference device and wherever it has a form.

    ``expected`` is an array, a ``Given``, or a list of these; codes may be ``steps`` off.
    The model must keep every rule, and come out of a file as it went in.
    """
    several = expected if isinstance(expected, list) else [expected]
    wanted = [each if isinstance(each, Given) else Given(np.asarray(each)) for each in several]
    graph = graph_of(op, inputs, params, wanted, api=api)
    assert not (broken := findings(graph, api)), broken
    model = import_model(file.read(file.to_bytes(graph)))
    feeds = _feeds(graph, inputs)
    results = _written_and_read(model, api).run(feeds)
    for result, want in zip(results.values(), wanted, strict=True):
        _compare(f"{op}, written and read", result, want, rtol=rtol, atol=atol, steps=steps)
    for device in devices:
        try:
            executable = nnconv.compile(model, device)
        except UnsupportedError:
            assert device != "reference", f"{op} doesn't run on the reference device"
            continue
        results = list(executable.run(feeds).values())
        executable.close()
        for result, want in zip(results, wanted, strict=True):
            _compare(f"{op} on {device}", result, want, rtol=rtol, atol=atol, steps=steps)
    results = run_by_calls(graph, [feeds[graph.tensors[i].name] for i in graph.inputs])
    for result, want in zip(results, wanted, strict=True):
        _compare(f"{op} by calls", result, want, rtol=rtol, atol=atol, steps=steps)


def _written_and_read(model: Model, api: int) -> Executable:
    """A model that was written as NNRt, on the reference device."""
    alone = one_entry(model, model.main)
    written = to_nnrt(alone, api=api).model
    assert not (broken := findings(written, api)), broken
    return nnconv.compile(import_model(file.read(file.to_bytes(written))), "reference")


def _feeds(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {"x": np.zeros(1, np.float32)}
    for name, value in inputs.items():
        several = value if isinstance(value, list) else [value]
        for number, each in enumerate(several):
            array = each.array if isinstance(each, Given) else np.asarray(each)
            arrays[name if len(several) == 1 else f"{name}{number}"] = array
    return {graph.tensors[i].name: arrays[graph.tensors[i].name] for i in graph.inputs}


def _compare(
    what: str, result: np.ndarray, want: Given, *, rtol: float, atol: float, steps: int
) -> None:
    assert result.shape == want.array.shape, f"{what}: {result.shape}, {want.array.shape}"
    assert result.dtype == want.array.dtype, f"{what}: {result.dtype}, {want.array.dtype}"
    if want.quant is not None:
        apart = np.abs(result.astype(int) - want.array.astype(int)).max(initial=0)
        assert apart <= steps, f"{what}: {result.tolist()}, {want.array.tolist()}"
    elif result.dtype.kind == "f":
        loose = result.dtype == np.float16
        np.testing.assert_allclose(
            result, want.array, rtol=2e-3 if loose else rtol, atol=2e-3 if loose else atol,
            err_msg=what,
        )  # fmt: skip
    else:
        np.testing.assert_array_equal(result, want.array, err_msg=what)
