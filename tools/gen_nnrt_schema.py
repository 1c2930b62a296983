"""Write schemas/nnrt/ from a folder of reference data on OpenHarmony's Neural Network Runtime.

The folder holds ops.json (operations with inputs, parameters, outputs and checks, some in words)
and enums.json (the constants). This script keeps the facts in nnconv's own form: words become
entries that a program can check, and those that it can't read are an error. The project doesn't
need the folder afterwards.

    python tools/gen_nnrt_schema.py FOLDER            # rewrites schemas/nnrt
    python tools/gen_nnrt_schema.py FOLDER --check    # exits 1 if a file there is stale
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from schema_files import dump, write_or_compare

TARGET = Path(__file__).resolve().parent.parent / "schemas/nnrt"

PREFIX = "OH_NN_"

OWN_PREFIXES = {
    "OperationType": "OPS_",
    "FuseType": "FUSED_",
    "Format": "FORMAT_",
    "PerformanceMode": "PERFORMANCE_",
    "Priority": "PRIORITY_",
}
"""What the members of an enumeration share besides the prefix of all."""

NOTES = {
    "counts": "least and greatest number of inputs, and of outputs, that AddOperation takes",
    "max_params": "the greatest number of parameters that AddOperation takes",
    "quantized": "whether the operation computes with real numbers where its first output has "
    "quantization parameters; others take codes as integers",
    "since": "the API version that brought it: 1 or 2",
    "inputs": "by position; `types` are the element types, `rank` is [least, most], `dims` are "
    "extents by number or name, `last` names the extent of the last dimension, `count` "
    "is the number of elements, `as` has the same dimensions and `broadcast` dimensions"
    " that go with it, `type_as` the same type, `constant`: it must have data",
    "params": "by tensor type; `count`, `values` and `rank` are what AddOperation checks, "
    "`padding`: one INT8 element is a mode and four INT64 ones are a list, under either"
    " of two tensor types; `shape` is what a device wants; `absent` is `default` where "
    "one is sent, `empty` where an empty list is, `finish` where Finish fails; "
    "`needed`: the operation means nothing without it; `refused`: no operation takes "
    "it; `v1` holds what API version 1 has else",
    "rules": "what AddOperation checks besides: `rank`: the operand's rank is `is`; `type_code`:"
    " the operand has data that begin with the code of an element type; `unused_axis`: "
    "useAxis isn't false where axis is given; `layer_norm`: the axis lies within 1 and "
    "the input's rank, gamma and beta have the dimensions behind it; `param_count`: the"
    " number of parameters is one of `is`; and what goes wrong behind it: "
    "`lost_tensors`: the runtime loses the operation's tensors; `same_rows`: the "
    "runtime gives the device the first row of the parameter for both. `api`: the rule "
    "holds for that version alone",
}
"""What the entries of ops.json say."""


def short(name: str) -> str:
    """A constant's name without the prefix that all have."""
    return name.removeprefix(PREFIX)


# ------------------------------------------------------------------------ enumerations


def enums(source: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Each enumeration as {member: value}, and the aliases that the full C names give."""
    result = {}
    for c_name, members in source.items():
        enum = short(c_name)
        own = OWN_PREFIXES.get(enum, "")
        names = {short(name).removeprefix(own): value for name, value in members.items()}
        aliases = {short(name): value for name, value in members.items()}
        result[enum] = names | {k: v for k, v in aliases.items() if k not in names}
    return result


# ------------------------------------------------------------------------ inputs and outputs

SHAPES: dict[str, dict[str, Any]] = {
    "any rank": {},
    "any rank or scalar": {},
    "any; its data is not used by the builder": {},
    "any rank; broadcastable with input1": {"broadcast": "input1"},
    "any rank; broadcastable with input2": {},
    "broadcastable": {},
    "broadcastable with input": {"broadcast": "input"},
    "same dtype as input1": {"broadcast": "input1"},
    "same as input1": {"as": "input1", "type_as": "input1"},
    "same shape as input1": {"as": "input1"},
    "same as scale": {"as": "scale"},
    "same as gamma": {"as": "gamma"},
    "rank n": {},
    "rank r": {},
    "rank n < 8": {"rank": [0, 7]},
    "4-D": {"rank": [4, 4]},
    "4-D NHWC": {"dims": ["N", "H", "W", "C"]},
    "4-D NHWC (rank checked)": {"dims": ["N", "H", "W", "C"]},
    "4-D NHWC, values >= 0 documented": {"rank": [4, 4]},
    "4-D [n,h,w,c]": {"rank": [4, 4]},
    "4-D, depth divisible by block^2": {"rank": [4, 4]},
    "4-D, height and width divisible by block": {"rank": [4, 4]},
    "2..5-D, channel last": {"rank": [2, 5], "last": "C"},
    "[N,...,C], channel last": {"rank": [2, None], "last": "C"},
    "[N,...,C]": {"rank": [1, None], "last": "C"},
    "[C]": {"dims": ["C"]},
    "[C] or [1]": {"rank": [1, 1]},
    "[N,C,H,W] or [N,C,D1..Dn]": {"rank": [2, None]},
    "[outC,kH,kW,inC/group]": {"dims": ["outC", "kH", "kW", "inC/group"]},
    "[outC,kH,kW,1], outC = inC*multiplier": {"dims": ["outC", "kH", "kW", 1]},
    "[outC]": {"dims": ["outC"]},
    "2-D, or n-D flattened from axis": {"rank": [2, None]},
    "[units,features]": {"dims": ["units", "features"]},
    "[units]": {"dims": ["units"]},
    "rank >= 2, [...,M,K]": {"rank": [2, None]},
    "rank >= 2, [...,K,N]": {"rank": [2, None]},
    "one element": {"count": 1},
    "one element holding an OH_NN_DataType code": {"count": 1},
    "one element, in [-n-1,n]; constant": {"count": 1, "constant": True},
    "scalar or one element": {"count": 1},
    "scalar": {"count": 1},
    "scalar > 0": {"count": 1},
    "scalar or 1-D": {"rank": [0, 1]},
    "two values": {"dims": [2]},
    "1-D": {"rank": [1, 1]},
    "1-D constant": {"rank": [1, 1], "constant": True},
    "1-D, values >= 0": {"rank": [1, 1]},
    "1-D shape, values >= 0": {"rank": [1, 1]},
    "1-D, values in [-n,n)": {"rank": [0, 1]},
    "1-D, 1 <= size[i] <= shape[i]-begin[i]": {"rank": [1, 1]},
    "1-D, length m >= n": {"rank": [1, 1]},
    "1-D, same dtype as indices": {"rank": [1, 1], "type_as": "indices"},
    "[n]": {"rank": [1, 1]},
    "[n,2]: before and after per dim": {"dims": ["n", 2]},
    "any rank, values in [0,input.shape[axis])": {},
    "input.shape[axis:axis+k]": {},
    "input.shape[beginNormAxis:]": {},
    "same shape, or 1-D matching the first dim": {},
    "tensors to print": {},
    "reference for the output size": {},
    "[seqLen,batch,inputSize]": {"dims": ["seqLen", "batch", "inputSize"]},
    "[dirs*layers,4*hidden,inputSize]": {"dims": ["dirs*layers", "4*hidden", "inputSize"]},
    "[dirs*layers,4*hidden,hidden]": {"dims": ["dirs*layers", "4*hidden", "hidden"]},
    "[dirs*layers,8*hidden]": {"dims": ["dirs*layers", "8*hidden"]},
    "[dirs*layers,batch,hidden]": {"dims": ["dirs*layers", "batch", "hidden"]},
    "[N]": {"dims": ["N"]},
    "[N,2]": {"dims": ["N", 2]},
    "[1,boxes,4] by SSD convention; undocumented": {"dims": [1, "boxes", 4]},
    "[1,boxes,classes] by SSD convention": {"dims": [1, "boxes", "classes"]},
    "[boxes,4] by SSD convention": {"dims": ["boxes", 4]},
    "rank >= 2, last dim <= len(shape)": {"rank": [2, None]},
    "indices.shape[:-1]+shape[k:]": {},
    "[...,k], k <= n": {"rank": [1, None]},
}
"""What is said of an input's shape, and what of it a program can check."""

RUNS = (
    "2 or more tensors equal in all dims but axis",
    "2 or more tensors of one shape and dtype, rank n",
)
"""What is said of inputs of which there may be many."""

MANY = ("outputNum tensors", "one tensor per position, rank n-1")
"""What is said of outputs of which there may be many."""

FIRST_DATA = {
    "FILL": "value",
    "ONE_HOT": "onValue",
    "SCATTER_ND": "updates",
    "SELECT": "input1",
    "SPARSE_TO_DENSE": "values",
    "WHERE": "input1",
}
"""The input whose type the output has, where that isn't the first."""


def types_of(source: dict[str, Any]) -> list[str]:
    """The element types that an input or output may have."""
    return [short(name) for name in source["dtypes"]]


def input_of(source: dict[str, Any]) -> dict[str, Any]:
    """One formal input."""
    result: dict[str, Any] = {"name": source["name"], "types": types_of(source)}
    if source["optional"]:
        result["optional"] = True
    said = source["rank_or_shape"]
    if said in RUNS:
        return result | {"repeat": True}
    return result | SHAPES[said]


def output_of(source: dict[str, Any], op: dict[str, Any]) -> dict[str, Any]:
    """One formal output."""
    result: dict[str, Any] = {"name": source["name"], "types": types_of(source)}
    if source["rank_or_shape"] in MANY:
        result["repeat"] = True
    name = short(op["name"]).removeprefix("OPS_")
    first = FIRST_DATA.get(name, op["inputs"][0]["name"])
    kinds = next(i["dtypes"] for i in op["inputs"] if i["name"] == first)
    if source is op["outputs"][0] and kinds == source["dtypes"] and name not in FREE_RESULT:
        result["type_as"] = first
    return result


FREE_RESULT = ("ADD", "SQUARED_DIFFERENCE", "CAST", "QUANT_DTYPE_CAST", "ASSERT", "POW",
               "DIV", "MUL", "SUB", "MAXIMUM", "MINIMUM", "MOD")  # fmt: skip
"""Operations of two element types, of which the wider is the result's, and those that change it."""


# ------------------------------------------------------------------------ parameters

CHECKS: dict[str, dict[str, Any]] = {
    "element count not checked": {},
    "missing data dereferences null": {},  # none is taken without data
    "count==1": {"count": 1},
    "count==2": {"count": 2},
    "count==4": {"count": 4},
    "rank==0": {"rank": 0},
    "rank==1": {"rank": 1},
    "rank==2": {"rank": 2},
    "value in 0..2": {"values": [0, 2]},
    "value in 0..3": {"values": [0, 3]},
    "value in {0,1}": {"values": [0, 1]},
    "value == 0": {"values": [0, 0]},
    "count in {1 (INT8 mode), 4 (INT64 list)}": {"padding": True},
    "mode in 0..2": {"values": [0, 2]},
}
"""What AddOperation checks of a parameter."""

PARAM_SHAPES: dict[str, list[Any]] = {
    "scalar": [],
    "[n]": ["n"],
    "[2]": [2],
    "[4]": [4],
    "[2,2]": [2, 2],
}

ABSENT = {
    "default sent to the device": "default",
    "empty list sent to the device": "empty",
    "Finish returns OH_NN_FAILED": "finish",
    "crash in Finish": "finish",
    "normal": "default",
}

DEFAULTS = {("DEPTH_TO_SPACE", "mode"): 0, ("TILE", "dims"): []}
"""What an operation does where the default that is sent says nothing: an empty text, [0]."""


def param_of(source: dict[str, Any], op: dict[str, Any]) -> dict[str, Any]:
    """One parameter."""
    result: dict[str, Any] = {
        "name": source["name"],
        "type": short(source["tensor_type"]),
        "since": source["since"],
        "dtype": short(source["dtype"]),
        "shape": PARAM_SHAPES[source["shape"]],
    }
    for check in source["checks"]:
        result |= CHECKS[check]
    result["absent"] = ABSENT[source["if_absent"]]
    key = short(op["name"]).removeprefix("OPS_"), source["name"]
    result["default"] = DEFAULTS.get(key, source["default"])
    if not source["optional"]:
        result["needed"] = True
    if not source["accepted_by_builder"]:
        result["refused"] = True
    older = {}
    if "v1_dtype" in source:
        older["dtype"] = short(source["v1_dtype"])
    if "v1_default" in source:
        older["default"] = source["v1_default"]
    return result | ({"v1": older} if older else {})


# ------------------------------------------------------------------------ rules

RULES: list[tuple[str, list[dict[str, Any]]]] = [
    (r"weight rank == 4", [{"rule": "rank", "operand": "weight", "is": 4}]),
    (r"input rank == 4", [{"rule": "rank", "operand": "input", "is": 4}]),
    (r"type input has data", [{"rule": "type_code", "operand": "type"}]),
    (r"its first four bytes are a data type code", []),
    (r"useAxis=false and axis not given together", [{"rule": "unused_axis"}]),
    (r"1 <= beginAxis < input rank", [{"rule": "layer_norm"}]),
    (r"gamma rank == beta rank", []),
    (r"gamma and beta dims equal", []),
]
"""What tells a check of AddOperation, and the rules that it states."""

OLDER: list[tuple[str, list[dict[str, Any]]]] = [
    # Covered by the versions of parameters, their defaults and element types.
    (r"No .*params", []),
    (r"Default epsilon was", []),
    (r"No paddingMode|Only keepDims|Only axis and keepDims|No axis", []),
    (r"Axes had to be INT32", []),
    # The runtime's own affair: what it gave a driver.
    (r"overwrote the type buffer", []),
    (r"forgets to store the op input and output", [{"rule": "lost_tensors", "api": 1}]),
    (r"exactly 1 param .* or 2 params", [{"rule": "param_count", "is": [1, 2], "api": 1}]),
]  # fmt: skip
"""What tells a difference of API version 1, and the rules that it states."""

NOTED: list[tuple[str, list[dict[str, Any]]]] = [
    (r"the width row is never read", [{"rule": "same_rows", "param": "paddings"}]),
]
"""Faults of the runtime that the notes on an operation tell."""

V1_DEFAULTS = {("FULL_CONNECTION", "hasBias"): True}
"""What version 1 did where it had no such parameter yet."""


def rules_of(op: dict[str, Any]) -> list[dict[str, Any]]:
    """The rules that the checks of an operation and its differences in version 1 state."""
    result = []
    texts = [(text, RULES) for text in op["builder"]["extra_checks"]]
    if op["v1_difference"] is not None:
        texts.append((op["v1_difference"], OLDER))
    for text, known in texts:
        found = [rule for pattern, rule in known if re.search(pattern, text)]
        if not found:
            raise SystemExit(f"{op['name']}: can't read {text!r}")
        result += found[-1]
    for pattern, noted in NOTED:
        if re.search(pattern, op["notes"]):
            result += noted
    return result


# ------------------------------------------------------------------------ operations


def operation(op: dict[str, Any]) -> dict[str, Any]:
    """The entry of one operation."""
    name = short(op["name"]).removeprefix("OPS_")
    builder = op["builder"]
    params = [param_of(entry, op) for entry in op["params"]]
    for param in params:
        if (name, param["name"]) in V1_DEFAULTS:
            param["v1"] = {"default": V1_DEFAULTS[name, param["name"]]}
    return {
        "name": name,
        "code": op["code"],
        "since": op["since"],
        "counts": [builder["input_count"], builder["output_count"]],
        "max_params": builder["max_params"],
        "quantized": builder["sets_quant_type"],
        "primitive": builder["primitive"],
        "driver": builder["min_driver_hdi"],
        "inputs": [input_of(entry) for entry in op["inputs"]],
        "params": params,
        "outputs": [output_of(entry, op) for entry in op["outputs"]],
        "rules": rules_of(op),
    }


def read_all(source: Any, known: dict[str, set[str]], place: str) -> None:
    """See that every entry of the reference data is read, or left on purpose."""
    for entry in source:
        if unread := entry.keys() - known[place]:
            raise SystemExit(f"{place}: entries {sorted(unread)} aren't known")
        for name in known.keys() & entry.keys():
            inner = entry[name]
            read_all(inner if isinstance(inner, list) else [inner], known, name)


KNOWN = {
    "operations": {"name", "code", "since", "inputs", "params", "outputs", "builder", "notes",
                   "v1_difference", "semantics"},
    "inputs": {"name", "dtypes", "rank_or_shape", "optional"},
    "outputs": {"name", "dtypes", "rank_or_shape"},
    "params": {"name", "tensor_type", "tensor_type_code", "since", "dtype", "shape", "optional",
               "default", "checks", "if_absent", "accepted_by_builder", "v1_dtype", "v1_default",
               "meaning", "default_note", "marked_as_param"},
    "builder": {"input_count", "output_count", "max_params", "sets_quant_type", "primitive",
                "min_driver_hdi", "extra_checks"},
}  # fmt: skip
"""The entries of the reference data by place; meanings, notes and numbering are for readers."""


def files(folder: Path) -> dict[str, str]:
    """The text of each file of schemas/nnrt that is derived."""
    source = json.loads((folder / "ops.json").read_text(encoding="utf-8"))
    constants = json.loads((folder / "enums.json").read_text(encoding="utf-8"))
    read_all(source, KNOWN, "operations")
    known = enums(constants)
    table = {"entries": NOTES, "operations": [operation(op) for op in source]}
    for entry, op in zip(table["operations"], source, strict=True):
        codes = [p["tensor_type_code"] for p in op["params"]]
        if codes != [known["TensorType"][p["type"]] for p in entry["params"]]:
            raise SystemExit(f"{op['name']}: codes of tensor types disagree")
    return {"enums.json": dump(known) + "\n", "ops.json": dump(table) + "\n"}


if __name__ == "__main__":
    sys.exit(write_or_compare(TARGET, files, __doc__))
