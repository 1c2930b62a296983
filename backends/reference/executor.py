"""Runs an IR graph with the numpy kernels, node by node.

A kernel gets the op, its operands as arrays (None where absent) and gives a list of arrays:

    def softmax(op: Softmax, x: np.ndarray) -> list[np.ndarray]: ...

    KERNELS = {Softmax: softmax}

Kernels stand in the file of their op's stem, and know nothing of quantization: by the op's quant
rule the executor hands them real values (float64, dequantized) or the codes themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pkgutil import iter_modules
from typing import Any, TypeAlias

import numpy as np
from nnconv.backends.limits import current_limits

from nnconv import ops
from nnconv.errors import BackendError
from nnconv.ir.dtype import DType
from nnconv.ir.families import entry_of, table_of
from nnconv.ir.graph import Graph, Node, Value
from nnconv.ir.op import Activation, Op, QuantRule
from nnconv.ir.quant import dequantize, quantize
from nnconv.ir.types import TensorType

Array: TypeAlias = np.ndarray
Kernel: TypeAlias = "Callable[..., list[Array]]"


def kernel_of(op: type[Op]) -> Kernel | None:
    """The kernel of an op: it stands in the file of the op's own stem."""
    found: Kernel | None = entry_of(op, _PACKAGE, "KERNELS")
    return found


_PACKAGE = "nnconv.backends.reference"


def all_kernels() -> dict[type[Op], Kernel]:
    """Every kernel there is, by op; this loads all of their files."""
    found: dict[type[Op], Kernel] = {}
    for module in iter_modules(ops.__path__):
        found.update(table_of(_PACKAGE, module.name, "KERNELS"))
    return found


def run_graph(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """Run a graph on arrays of its inputs' dtypes, in order.

    Raises:
        BackendError: when an op has no kernel, or a kernel refuses its operands.
        DeadlineError: when it takes longer than ``limits.limited`` lets it.
    """
    limits = current_limits()
    memory: dict[Value, Array] = dict(zip(graph.inputs, inputs, strict=True))
    remaining = _use_counts(graph)
    for node in graph.nodes:
        limits.check()
        arrays = [None if v is None else _read(v, memory) for v in node.inputs]
        memory.update(zip(node.outputs, run_node(node, arrays), strict=True))
        for read in node.inputs:
            if read is not None and read.data is None:
                remaining[read] -= 1
                if not remaining[read]:
                    memory.pop(read, None)
    return [_read(v, memory) for v in graph.outputs]


def _read(value: Value, memory: Mapping[Value, Array]) -> Array:
    return value.data if value.data is not None else memory[value]


def _use_counts(graph: Graph) -> dict[Value, int]:
    counts: dict[Value, int] = {}
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None:
                counts[value] = counts.get(value, 0) + 1
    for value in graph.outputs:
        counts[value] = counts.get(value, 0) + 1
    return counts


def flat(indices: Array | None) -> list[int]:
    """The elements of a run-time index operand.

    Raises:
        ValueError: when it is absent.
    """
    if indices is None:
        raise ValueError("an index operand is missing")
    return [int(i) for i in indices.reshape(-1)]


def run_node(node: Node, arrays: Sequence[Array | None]) -> list[Array]:
    """Run one node on arrays of its operands' dtypes; gives arrays of its results' dtypes.

    Raises:
        BackendError: when the op has no kernel, or the kernel refuses its operands.
    """
    kernel = kernel_of(type(node.op))
    if kernel is None:
        raise BackendError(f"the reference backend has no kernel for {node.op.name}")
    extra: dict[str, Any] = {"bodies": node.bodies} if node.bodies else {}
    if getattr(kernel, "takes_kind", False):
        extra["kind"] = node.outputs[0].type
    real = node.op.quant_rule is QuantRule.REAL
    operands = [
        _real(a, v.type) if real and a is not None and v is not None else a
        for a, v in zip(arrays, node.inputs, strict=True)
    ]
    op = node.op
    activation = Activation.NONE if real else getattr(op, "activation", Activation.NONE)
    clamped = activation is not Activation.NONE and node.outputs[0].type.has_codes
    try:
        with np.errstate(all="ignore"):
            results = kernel(
                op.replace(activation=Activation.NONE) if clamped else op, *operands, **extra
            )
    except (ValueError, IndexError, ZeroDivisionError) as error:
        raise BackendError(f"{node.op.name} ({node.origin}): {error}") from error
    if clamped:
        results = [
            _clamped(array, value.type, activation)
            for array, value in zip(results, node.outputs, strict=True)
        ]
    return [
        _result(array, value.type, real=real)
        for array, value in zip(results, node.outputs, strict=True)
    ]


def takes_kind(kernel: Kernel) -> Kernel:
    """Have a kernel on codes given its first result's type as ``kind``, for ``code_of``."""
    kernel.takes_kind = True  # type: ignore[attr-defined]
    return kernel


def code_of(real: float, kind: TensorType) -> Array:
    """The code of a real number in a type, or the number itself where it isn't quantized."""
    if kind.has_codes:
        assert kind.quant is not None
        return quantize(np.asarray(real, np.float64), kind.quant, kind.dtype)
    return np.asarray(real).astype(kind.dtype.numpy)


def _real(array: Array, kind: TensorType) -> Array:
    if kind.has_codes:
        assert kind.quant is not None
        return np.asarray(dequantize(array, kind.quant, np.float64))
    if kind.dtype in (DType.FLOAT16, DType.BFLOAT16):
        return array.astype(np.float32)
    return array


def _clamped(codes: Array, kind: TensorType, activation: Activation) -> Array:
    """Codes behind an activation, whose bounds are real values."""
    assert kind.quant is not None
    assert activation.bounds is not None
    low, high = quantize(np.asarray(activation.bounds), kind.quant, kind.dtype)
    return np.asarray(np.clip(codes, low, high))


def _result(array: Array, kind: TensorType, *, real: bool) -> Array:
    if real and kind.has_codes:
        assert kind.quant is not None
        return np.asarray(quantize(array, kind.quant, kind.dtype))  # numpy gives scalars bare
    return np.asarray(array).astype(kind.dtype.numpy, copy=False)
