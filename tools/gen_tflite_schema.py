"""Write nnconv/formats/tflite/_gen/schema.py from the schema that the installed LiteRT ships.

LiteRT's Python package carries classes that the FlatBuffers compiler made from the TFLite schema:
20,000 lines, half a second to import. This script reads their source (it doesn't import it) and
keeps the facts alone: for each table its fields with slot, kind, type and default; the unions;
the enumerations. Run it again after LiteRT was updated:

    python tools/gen_tflite_schema.py            # rewrites the file
    python tools/gen_tflite_schema.py --check    # exits 1 if the file is stale
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "nnconv/formats/tflite/_gen/schema.py"

# Enumerations whose members the package names one by one. The other ones that are no unions
# (BuiltinOperator among them, which has too many members to be cheap) become plain dicts.
INT_ENUMS = (
    "TensorType",
    "ActivationFunctionType",
    "Padding",
    "FullyConnectedOptionsWeightsFormat",
    "LSTMKernelType",
    "CombinerType",
    "LSHProjectionType",
    "MirrorPadMode",
    "ReduceWindowFunction",
    "DimensionType",
    "RngAlgorithm",
)

# Operators whose options table isn't the one that bears their name. The schema doesn't say which
# table belongs to which operator; the interpreter's option parsers do.
OPTIONS_BY_OTHER_NAME = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "MEAN": "ReducerOptions",
    "SUM": "ReducerOptions",
    "REDUCE_ALL": "ReducerOptions",
    "REDUCE_ANY": "ReducerOptions",
    "REDUCE_MAX": "ReducerOptions",
    "REDUCE_MIN": "ReducerOptions",
    "REDUCE_PROD": "ReducerOptions",
    "MULTINOMIAL": "RandomOptions",
    "RANDOM_STANDARD_NORMAL": "RandomOptions",
    "RANDOM_UNIFORM": "RandomOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
}


def snake_case(name: str) -> str:
    """``BuiltinOptions2Type`` -> ``builtin_options_2_type``, the schema's own spelling."""
    name = name.replace("Options2", "Options_2")  # the one digit that has an underscore
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _calls(node: ast.AST) -> dict[str, ast.Call]:
    """The calls under ``node`` by the last part of the called name (the first call of each)."""
    found: dict[str, ast.Call] = {}
    for sub in ast.walk(node):
        if isinstance(sub, ast.Call):
            function = sub.func
            name = function.attr if isinstance(function, ast.Attribute) else ""
            found.setdefault(function.id if isinstance(function, ast.Name) else name, sub)
    return found


def _constant(node: ast.expr | None) -> Any:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_constant(node.operand)
    if not isinstance(node, ast.Constant):
        raise ValueError(f"not a constant: {ast.dump(node) if node else None}")
    return node.value


def read_field(method: ast.FunctionDef) -> tuple[int, str, str, Any] | None:
    """The field that an accessor reads: (slot, kind, type, default). None for other methods.

    Unions have no type yet: it stands in the object API.
    """
    calls = _calls(method)
    is_vector = len(method.args.args) == 2
    if "Offset" not in calls or method.name.endswith(("AsNumpy", "Length", "IsNone")):
        return None
    slot = (_constant(calls["Offset"].args[0]) - 4) // 2
    last = method.body[-1]
    if not isinstance(last, ast.Return):
        raise ValueError(f"{method.name} doesn't end in a return")
    if "Union" in calls:
        return slot, "union", "", None
    if "Indirect" in calls:
        (made,) = (name for name in calls if name[0].isupper() and name not in _TABLE_CALLS)
        return slot, "tables" if is_vector else "table", made, None
    if "String" in calls:
        return slot, "strings" if is_vector else "string", "string", None
    flags = calls["Get"].args[0]
    if not isinstance(flags, ast.Attribute):
        raise ValueError(f"{method.name} reads an unknown type")
    type_name = flags.attr.removesuffix("Flags").lower()
    if is_vector:
        return slot, "vector", type_name, None
    default = _constant(last.value)
    if type_name.startswith("float"):
        default = float(default)
    return slot, "scalar", type_name, bool(default) if type_name == "bool" else default


_TABLE_CALLS = {"Offset", "Indirect", "Init", "Vector"}


def read_unions(unpack: ast.FunctionDef) -> dict[str, str]:
    """Field name -> union name, from an object class's unpack method."""
    found = {}
    for statement in ast.walk(unpack):
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            function, (target,) = statement.value.func, statement.targets
            if isinstance(function, ast.Name) and function.id.endswith("Creator"):
                if not isinstance(target, ast.Attribute):
                    raise ValueError("a union is unpacked into something strange")
                found[snake_case(target.attr)] = function.id.removesuffix("Creator")
    return found


def read_schema(source: str) -> tuple[dict[str, Any], dict[str, dict[str, int]], set[str]]:
    """Tables, enumerations and the names of the unions among these."""
    tree = ast.parse(source)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    unions = {name.removesuffix("Creator") for name in functions if name.endswith("Creator")}
    tables: dict[str, Any] = {}
    enums: dict[str, dict[str, int]] = {}
    for name, node in classes.items():
        methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
        if not methods:
            enums[name] = {
                item.targets[0].id: _constant(item.value)
                for item in node.body
                if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name)
            }
        elif not any(method.name == "_UnPack" for method in methods):
            read = {snake_case(method.name): read_field(method) for method in methods}
            fields = {key: field for key, field in read.items() if field is not None}
            (unpack,) = (
                item
                for item in classes[name + "T"].body
                if isinstance(item, ast.FunctionDef) and item.name == "_UnPack"
            )
            for key, union in read_unions(unpack).items():
                fields[key] = (fields[key][0], "union", union, None)
            tables[name] = dict(sorted(fields.items(), key=lambda item: item[1][0]))
            slots = [field[0] for field in tables[name].values()]
            if len(set(slots)) != len(slots):  # gaps are deprecated fields; doubles a misreading
                raise ValueError(f"{name}: two fields in one slot: {slots}")
    return tables, enums, unions


def options_by_operator(operators: dict[str, int], tables: dict[str, Any]) -> dict[str, str]:
    """The options table of each operator that has one."""
    by_flat_name = {name.lower(): name for name in tables if name.endswith("Options")}
    found = {}
    for operator in operators:
        table = OPTIONS_BY_OTHER_NAME.get(operator) or by_flat_name.get(
            operator.replace("_", "").lower() + "options"
        )
        if table:
            found[operator] = table
    return found


HEADER = '''\
"""The TFLite schema as data. Made by tools/gen_tflite_schema.py; do not edit.

``TABLES`` maps a table's name to its fields, in slot order: (slot, kind, type, default). Kinds:
``scalar`` and ``vector`` (of scalars), ``string`` and ``strings``, ``table`` and ``tables`` (type:
the table's name), ``union`` (type: the union's name; the field ``<name>_type`` is its tag).
"""

from enum import IntEnum

Field = tuple[int, str, str, int | float | bool | None]
'''


def render(source: str) -> str:
    """The text of the generated module."""
    tables, enums, unions = read_schema(source)
    lines = [HEADER]
    for name in INT_ENUMS:
        lines += ["", f"class {name}(IntEnum):"]
        lines += [f"    {key} = {value}" for key, value in enums[name].items()]
        lines.append("")
    lines += ["", "BUILTIN_OPERATOR: dict[str, int] = {"]
    lines += [f'    "{key}": {value},' for key, value in enums["BuiltinOperator"].items()]
    lines += ["}", "", "OPTIONS: dict[str, str] = {"]
    options = options_by_operator(enums["BuiltinOperator"], tables)
    lines += [f'    "{key}": "{value}",' for key, value in options.items()]
    lines += ["}", "", "ENUMS: dict[str, dict[str, int]] = {"]
    for name in sorted(set(enums) - unions - {*INT_ENUMS, "BuiltinOperator"}):
        lines.append(f'    "{name}": {{')
        lines += [f'        "{key}": {value},' for key, value in enums[name].items()]
        lines.append("    },")
    lines += ["}", "", "UNIONS: dict[str, dict[int, str]] = {"]
    for name in sorted(unions):
        members = {value: key for key, value in enums[name].items() if key != "NONE"}
        lines.append(f'    "{name}": {{')
        lines += [f'        {value}: "{key}",' for value, key in members.items()]
        lines.append("    },")
    lines += ["}", "", "TABLES: dict[str, dict[str, Field]] = {"]
    for name, fields in tables.items():
        if not fields:
            lines.append(f'    "{name}": {{}},')
            continue
        lines.append(f'    "{name}": {{')
        for key, (slot, kind, type_name, default) in fields.items():
            lines.append(f'        "{key}": ({slot}, "{kind}", "{type_name}", {default!r}),')
        lines.append("    },")
    return "\n".join([*lines, "}", ""])


def installed_source() -> str:
    """The source of LiteRT's generated schema classes."""
    package = importlib.util.find_spec("ai_edge_litert")
    if package is None or not package.submodule_search_locations:
        sys.exit("ai-edge-litert isn't installed, so there is no schema to read")
    folder = Path(package.submodule_search_locations[0])
    return (folder / "schema_py_generated.py").read_text(encoding="utf-8")


def main() -> int:
    """Write the module, or compare with ``--check``. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 if stale")
    text = render(installed_source())
    if parser.parse_args().check:
        stale = not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text
        if stale:
            print(f"{TARGET} is stale: run python {Path(__file__).name}", file=sys.stderr)
        return int(stale)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
