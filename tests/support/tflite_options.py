"""The options table of each builtin op, found from the op's name in the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

_SHARED_TABLES = {
    "Pool2DOptions": "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D",
    "L2NormOptions": "L2_NORMALIZATION",
    "ReducerOptions": "MEAN SUM REDUCE_PROD REDUCE_MAX REDUCE_MIN REDUCE_ANY REDUCE_ALL",
    "MaximumMinimumOptions": "MAXIMUM MINIMUM",
    "RandomOptions": "RANDOM_STANDARD_NORMAL RANDOM_UNIFORM MULTINOMIAL",
    "SequenceRNNOptions": "UNIDIRECTIONAL_SEQUENCE_RNN",
    "Conv3DOptions": "CONV_3D_TRANSPOSE",
}
"""Tables that aren't named after their op."""

_ENUM_OF_FIELD: dict[str, type] = {
    "padding": schema.Padding,
    "fusedActivationFunction": schema.ActivationFunctionType,
    "weightsFormat": schema.FullyConnectedOptionsWeightsFormat,
    "kernelType": schema.LSTMKernelType,
    "combiner": schema.CombinerType,
    "mode": schema.MirrorPadMode,
    "type": schema.LSHProjectionType,
    "reduceFunction": schema.ReduceWindowFunction,
    "algorithm": schema.RngAlgorithm,
    "comparisonDirection": schema.StablehloComparisonDirection,
    "compareType": schema.StablehloComparisonType,
    **dict.fromkeys(
        (
            *("inDataType", "outDataType", "outputType", "outType", "idxOutType"),
            *("keyDtype", "valueDtype", "quantizedBiasType"),
        ),
        schema.TensorType,
    ),
}


def _table_names() -> dict[str, str]:
    """Map each op to its options table, by name."""
    tables = [*vars(schema.BuiltinOptions), *vars(schema.BuiltinOptions2)]
    by_key = {table.lower(): table for table in tables if "Options" in table}
    names = {op: table for table, ops in _SHARED_TABLES.items() for op in ops.split()}
    for op in vars(schema.BuiltinOperator):
        table = by_key.get(op.replace("_", "").lower() + "options")
        if table and op.isupper():
            names[op] = table
    return names


_TABLE_OF_OP = _table_names()


def op_code(op: str) -> int | None:
    """Give the number of a builtin op, or None where ``op`` isn't one (a custom op)."""
    code = getattr(schema.BuiltinOperator, op, None)
    return code if isinstance(code, int) else None


def make_options(op: str, options: Mapping[str, Any]) -> tuple[str, int, Any] | None:
    """Make the options table of builtin op ``op``.

    Args:
        op: the op's name, such as ``CONV_2D``.
        options: values by snake_case field name. Enums and types are given by name, subgraphs and
            tensors by their handles (anything with an ``index``). What is left out keeps the
            default of the schema.

    Returns:
        The union (``builtinOptions`` or ``builtinOptions2``), the union's type and the table;
        None where the op has no table.
    """
    table = _TABLE_OF_OP.get(op)
    if table is None:
        if options:
            raise ValueError(f"{op} has no options, yet got {', '.join(options)}")
        return None
    fields = getattr(schema, f"{table}T")()
    for name, value in options.items():
        head, *rest = name.split("_")
        field = head + "".join(part.capitalize() for part in rest)
        if not hasattr(fields, field):
            raise ValueError(f"{table} has no field {name} ({field}); it has {list(vars(fields))}")
        setattr(fields, field, _value(field, value))
    second = hasattr(schema.BuiltinOptions2, table)
    types = schema.BuiltinOptions2 if second else schema.BuiltinOptions
    return ("builtinOptions2" if second else "builtinOptions", getattr(types, table), fields)


def _value(field: str, value: Any) -> Any:
    if isinstance(value, str) and field in _ENUM_OF_FIELD:
        enum = _ENUM_OF_FIELD[field]
        for name in (value.upper(), _comparison_name(enum, value)):
            if hasattr(enum, name):
                return getattr(enum, name)
        raise ValueError(f"{enum.__name__} has no member {value}")
    if isinstance(value, bytes):
        return np.frombuffer(value, np.uint8)
    if isinstance(value, tuple | list | np.ndarray):
        return [_value(field, item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return getattr(value, "index", value) if not isinstance(value, str) else value


def _comparison_name(enum: type, value: str) -> str:
    """StableHLO's comparison enums repeat their own name in each member."""
    middle = "DIRECTION" if enum is schema.StablehloComparisonDirection else "TYPE"
    return f"STABLEHLO_COMPARISON_{middle}_{value.upper()}"
