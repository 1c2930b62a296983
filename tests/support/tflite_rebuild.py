"""Takes a .tflite file apart and makes of it what nnconv writes, without a change."""

from __future__ import annotations

from typing import Any

from nnconv.formats.tflite import build, wire
from nnconv.formats.tflite._gen.schema import BUILTIN_OPERATOR, TABLES


def rebuild(file: wire.File) -> build.File:
    """Make the objects that stand for the content of ``file``, constants as views of it."""
    return build.File(
        [_subgraph(file, subgraph) for subgraph in file.subgraphs],
        signatures=[
            build.Signature(one.key, one.subgraph, one.inputs, one.outputs)
            for one in file.signatures
        ],
        metadata={name: bytes(content) for name, content in file.metadata.items()},
        description=file.description,
    )


def _subgraph(file: wire.File, subgraph: wire.Subgraph) -> build.Subgraph:
    return build.Subgraph(
        subgraph.name,
        [_tensor(file, tensor) for tensor in subgraph.tensors],
        subgraph.inputs,
        subgraph.outputs,
        [_operator(op) for op in subgraph.operators],
    )


def _tensor(file: wire.File, tensor: wire.Tensor) -> build.Tensor:
    quant = tensor.quantization
    return build.Tensor(
        tensor.name,
        tensor.code,
        tensor.shape,
        shape_signature=tensor.signature,
        data=wire.tensor_data(file, tensor),
        quant=None
        if quant is None
        else build.Quantization(
            quant.scale, quant.zero_point, axis=quant.axis, blockwise=quant.blockwise
        ),
        is_variable=tensor.is_variable,
        has_rank=tensor.has_rank,
    )


def _operator(op: wire.Operator) -> build.Operator:
    fields = option_fields(op)
    options = None if fields is None else (op.code.options, fields)
    is_first = op.code.union == "builtin_options"
    return build.Operator(
        op.custom_code or BUILTIN_OPERATOR[op.name],
        op.inputs,
        op.outputs,
        options if is_first else None,
        options2=None if is_first else options,
        version=op.version,
        custom_options=op.custom_options,
        intermediates=op.intermediates,
        mutating_variable_inputs=op.mutating_variable_inputs,
    )


def option_fields(op: wire.Operator) -> dict[str, Any] | None:
    """Give the options of an operator by name, defaults included; None if it has no table."""
    if not op.code.options:
        return None
    readers = {
        "scalar": {"float32": op.options.float, "bool": op.options.bool},
        "vector": {"float32": op.options.floats, "uint8": op.options.raw},
        "string": {"string": op.options.text},
    }
    others = {"scalar": op.options.int, "vector": op.options.ints}
    return {
        field: readers[kind].get(type_name, others.get(kind))(field)
        for field, (_, kind, type_name, _) in TABLES[op.code.options].items()
    }


def describe(file: wire.File) -> dict[str, Any]:
    """Give the content of a file as plain values that compare by ``==``."""
    return {
        "description": file.description,
        "metadata": {name: bytes(content) for name, content in file.metadata.items()},
        "signatures": [(one.key, one.subgraph, one.inputs, one.outputs) for one in file.signatures],
        "subgraphs": [
            {
                "name": subgraph.name,
                "inputs": subgraph.inputs,
                "outputs": subgraph.outputs,
                "tensors": [_describe_tensor(file, tensor) for tensor in subgraph.tensors],
                "operators": [_describe_operator(op) for op in subgraph.operators],
            }
            for subgraph in file.subgraphs
        ],
    }


def _describe_tensor(file: wire.File, tensor: wire.Tensor) -> dict[str, Any]:
    data, quant = wire.tensor_data(file, tensor), tensor.quantization
    return {
        "name": tensor.name,
        "code": tensor.code,
        "shape": tensor.shape,
        "signature": tensor.signature,
        "has_rank": tensor.has_rank,
        "is_variable": tensor.is_variable,
        "data": None if data is None else (data.dtype.str, data.shape, data.tobytes()),
        "quant": None
        if quant is None
        else (
            quant.scale.tolist(),
            quant.zero_point.tolist(),
            quant.axis if len(quant.scale) > 1 else 0,
            quant.blockwise,
        ),
    }


def _describe_operator(op: wire.Operator) -> dict[str, Any]:
    return {
        "name": op.name,
        "custom_code": op.custom_code,
        "version": op.version,
        "inputs": op.inputs,
        "outputs": op.outputs,
        "options": option_fields(op),
        "custom_options": op.custom_options,
        "intermediates": op.intermediates,
        "mutating": op.mutating_variable_inputs,
    }
