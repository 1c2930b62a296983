"""Write schemas/nnapi/ from a folder of reference data on Android's NNAPI.

The folder holds ops.json (operations with operands, variants, signatures and constraints in words)
and enums.json (the constants). This script keeps the facts in nnconv's own form: constraints become
rules that a program can check, of the kinds that RULES lists, and what it can't read is an error.
The project doesn't need the folder afterwards.

    python tools/gen_nnapi_schema.py FOLDER            # rewrites schemas/nnapi
    python tools/gen_nnapi_schema.py FOLDER --check    # exits 1 if a file there is stale
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schema_files import dump, write_or_compare

TARGET = Path(__file__).resolve().parent.parent / "schemas/nnapi"

PREFIX = "ANEURALNETWORKS_"

OWN_PREFIXES = {
    "FuseCode": "FUSED_",
    "PaddingCode": "PADDING_",
    "PreferenceCode": "PREFER_",
    "DeviceTypeCode": "DEVICE_",
    "DurationCode": "DURATION_",
    "PriorityCode": "PRIORITY_",
    "LSHProjectionType": "LSHProjectionType_",
}
"""What the members of an enumeration share besides the prefix of all."""

RULES = {
    "max_rank": "the known ranks of `operands` are at most `max`",
    "rank": "the known ranks of `operands` are one of `is`; `without`: if that input is left out",
    "dimensions": "the known dimensions of `operand` are `is`",
    "same_rank": "the known ranks of `operands` are that of `as`, plus `plus`",
    "same_dimensions": "the dimensions of `operands` are those of `as` where both are known",
    "same_quant": "scale and zero point of `operands` are those of `as`",
    "zero_point": "the zero point of `operand` is `is`",
    "channel_dim": "`operand`, if it has a scale per channel, has them along dimension `is`",
    "scale_above_product": "the scale of `of` is above the product of those of `operands`",
    "fully_connected": "the sizes of data, weights and bias fit where they are known",
    "paddings": "the known dimensions of `operand` are [rank of `as`, 2]",
    "if_models": "both models take the data inputs and give the outputs",
    "while_models": "the models take the data inputs; the condition gives one bool, the body the"
    " outputs and the states",
    "keeps_quant": "scale and zero point of the output are those of `as`",
    "activation_none": "data of the type `type` takes no fused activation",
    "bias_scale": "the scale of `operand` is the product of those of `of`, its zero point 0",
}
"""The kinds of rules. `type` restricts a rule to data of that type, `types` to one of several;
`level`: the rule only holds below that feature level."""

COVERED = (
    "have the same type", "input count is", "at least 2 inputs", "one dilation factor",
    "input count 23 or 27", "the layout input", "width and height are either",
    "types equal", "inputs of one type", "exactly", "always 2 inputs", "only cast to themselves",
    "inputs; 1", "takes a filter of the same type", "at least 3 inputs", "split in order",
    "the axis input needs", "operand i of body", "inputs need", "may always differ",
    "counts 8 and 11", "bias is TENSOR_INT32", "output TENSOR_BOOL8", "state outputs need",
    "27 needs feature level", "1 output or", "share one type", ") outputs",
)  # fmt: skip
"""Parts of constraints that variants, counts, levels and signatures say already."""


def short(name: str) -> str:
    """A constant's name without the prefix that all have."""
    return name.removeprefix(PREFIX)


# ------------------------------------------------------------------------ enumerations


def enums(source: dict[str, dict[str, int]]) -> dict[str, Any]:
    """Each enumeration as {member: value}, and the aliases that the full C names give."""
    result: dict[str, Any] = {}
    for enum, members in source.items():
        own = OWN_PREFIXES.get(enum, "")
        names = {short(name).replace(own, "", 1): value for name, value in members.items()}
        aliases = {short(name): value for name, value in members.items()}
        result[enum] = names | {k: v for k, v in aliases.items() if k not in names}
    result["FeatureLevelCode"] |= {
        f"LEVEL_{name.rpartition('_')[2]}": value
        for name, value in source["FeatureLevelCode"].items()
    }
    return result


# ------------------------------------------------------------------------ operands


def rank_of(text: str) -> Any:
    """[least, most] with None for no bound; "scalar"; None where nothing is said."""
    if text == "scalar":
        return "scalar"
    if found := re.fullmatch(r"(\d)\.\.(\d)", text):
        return [int(found[1]), int(found[2])]
    if found := re.fullmatch(r"(<=|>=|)(\d)", text):
        bound = int(found[2])
        return {"": [bound, bound], "<=": [1, bound], ">=": [bound, None]}[found[1]]
    return None


def dims_of(text: str) -> list[Any] | None:
    """The extents of a shape in brackets, as numbers or formulas; None if they depend."""
    found = re.match(r"\[([^\]]*)\]( as .*| \(or NCHW\)|)$", text)
    if not found:
        return None
    parts = [part.strip() for part in found[1].split(",")]
    return [int(part) if part.isdigit() else part for part in parts]


def values_of(text: str) -> list[int]:
    """The numbers that a list or range in words names."""
    if found := re.search(r"(\d)\.\.(\d)", text):
        return list(range(int(found[1]), int(found[2]) + 1))
    return [int(number) for number in re.findall(r"(?:^|[ ,])(\d)", text)]


DEFAULTS = {
    "all dimensions of size 1": "unit dimensions",
    "reversed order (only for rank 2)": "reversed",
}


def output_quant(text: str) -> dict[str, list[float]]:
    """{type: [scale, zero point]} of an output whose parameters are fixed."""
    result = {}
    for part in text.split(";"):
        found = re.fullmatch(r"\s*(?:(QUANT\w+)|scale|)\s*(.*)", part)
        assert found, part
        name, numbers = found.groups()
        scale, _, point = numbers.replace("zero point", "").partition(",")
        above, _, below = scale.partition("/")
        kind = f"TENSOR_{name}" if name else "any"
        result[kind] = [float(above) / float(below or 1), int(point)]
    return result


def operand(source: dict[str, Any]) -> dict[str, Any]:
    """One formal operand."""
    result: dict[str, Any] = {"name": source["name"]}
    if "type_var" in source:
        result["var"] = source["type_var"]
    else:
        result["types"] = source["types"]
    if (rank := rank_of(source["rank"])) is not None:
        result["rank"] = rank
    if (dims := dims_of(source.get("shape", ""))) is not None:
        result["dims"] = dims
    if "values" in source:
        result["values"] = values_of(source["values"])
    if source.get("optional"):
        result["omit"] = source["omit"]
    if "default" in source:
        default = source["default"]
        result["default"] = DEFAULTS[default] if isinstance(default, str) else default
    if "since" in source:
        result["level"] = source["since"]
    if source.get("repeat") or source["index"] == "0..n-2":
        result["repeat"] = True
    if source.get("when"):
        result["unmerged"] = True
    if "quant" in source:
        result["quant"] = output_quant(source["quant"])
    return result


# ------------------------------------------------------------------------ rules


def rules_of(op: dict[str, Any]) -> list[dict[str, Any]]:
    """The rules that an operation's constraints state; each part of a build rule is understood."""
    result: list[dict[str, Any]] = []
    for text in op["constraints"]:
        stage, _, body = text.partition(": ")
        if stage == "V":
            for part in re.split(r"; (?!min)", body):
                found = build_rules(op, part)
                if found is None:
                    raise SystemExit(f"{op['name']}: can't read the constraint {part!r}")
                result += ({"stage": "build", **rule} for rule in found)
        elif stage == "X":
            result += ({"stage": "compute", **rule} for rule in compute_rules(op, body))
    return result


def tensors_of(op: dict[str, Any]) -> list[str]:
    """The names of all operands that are no scalars."""
    return [o["name"] for o in (*op["inputs"], *op["outputs"]) if o["rank"] != "scalar"]


def first(op: dict[str, Any]) -> str:
    """The name of the first input."""
    name: str = op["inputs"][0]["name"]
    return name


UNSIGNED = "TENSOR_QUANT8_ASYMM"
QUANTS = [UNSIGNED, "TENSOR_QUANT8_ASYMM_SIGNED"]
PRODUCT = r"output scale (?:<=|strictly greater than) (\w+) scale \* (\w+) scale"

BUILD_RULES: list[tuple[str, Callable[[dict[str, Any], re.Match[str]], list[dict[str, Any]]]]] = [
    (r"rank of each at most (\d)|known ranks at most (\d)",
     lambda op, m: [{"rule": "max_rank", "operands": tensors_of(op), "max": int(m[1] or m[2])}]),
    (r"rank at most (\d)$",
     lambda op, m: [{"rule": "max_rank", "operands": [first(op)], "max": int(m[1])}]),
    (r"known ranks of input and filter must be (\d)",
     lambda _, m: [{"rule": "rank", "operands": ["input", "filter"], "is": [int(m[1])]}]),
    (r"without (?:the )?axis(?: input)? a (?:known )?rank other than ([\d or]+) needs .*(\d)",
     lambda op, m: [{"rule": "rank", "operands": [first(op)], "without": "axis", "level": int(m[2]),
                 "is": [int(n) for n in m[1].split(" or ")]}]),
    (r"channelDim (\d)",
     lambda _, m: [{"rule": "channel_dim", "operand": "filter", "is": int(m[1])}]),
    (f"QUANT8_ASYMM with {PRODUCT} needs feature level (\\d)",
     lambda _, m: [{"rule": "scale_above_product", "of": "output", "operands": [m[1], m[2]],
                 "type": UNSIGNED, "level": int(m[3])}]),
    (f"quant8 {PRODUCT}",
     lambda _, m: [{"rule": "scale_above_product", "of": "output", "operands": [m[1], m[2]],
                 "types": QUANTS}]),
    (r"QUANT8_ASYMM inputs whose scale or zero point differ from the output need \w+ \w+ (\d)",
     lambda _, m: [{"rule": "same_quant", "operands": ["inputs"], "as": "output",
                 "type": UNSIGNED, "level": int(m[1])}]),
    (r"QUANT8_ASYMM with a non-zero zero point needs feature level (\d)",
     lambda op, m: [{"rule": "zero_point", "operand": first(op), "is": 0, "type": UNSIGNED,
                 "level": int(m[1])}]),
    (r"so does the layout input", lambda *_: []),
    (r"when all ranks are known", lambda *_: [{"rule": "fully_connected"}]),
    (r"dimensions of input and output equal",
     lambda op, _: [{"rule": "same_dimensions", "operands": ["output"], "as": first(op)}]),
    (r"condition TENSOR_BOOL8 of shape exactly \[1\]",
     lambda *_: [{"rule": "dimensions", "operand": "condition", "is": [1]}]),
    (r"both models take", lambda *_: [{"rule": "if_models"}]),
    (r"each inner operand matches", lambda *_: []),
    (r"condition model takes all", lambda *_: [{"rule": "while_models"}]),
    (r"body takes all", lambda *_: []),
    (r"unknown sizes make", lambda *_: []),
    (r"known ranks equal output rank - 1",
     lambda *_: [{"rule": "same_rank", "operands": ["inputs"], "as": "output", "plus": -1}]),
    (r"quant8 inputs have exactly the scale and zero point",
     lambda *_: [{"rule": "same_quant", "operands": ["inputs"], "as": "output",
                 "types": QUANTS}]),
    (r"paddings \[rank, 2\]",
     lambda op, _: [{"rule": "paddings", "operand": "paddings", "as": first(op)}]),
    (r"quant8 (?:output )?scale and zero point equal",
     lambda op, _: [{"rule": "same_quant", "operands": ["output"], "as": first(op),
                     "types": QUANTS}]),
    (r"output rank equals input rank",
     lambda op, _: [{"rule": "same_rank", "operands": ["output"], "as": first(op), "plus": 0}]),
    (r"axis tensor has one element",
     lambda *_: [{"rule": "dimensions", "operand": "axis", "is": [1]}]),
]  # fmt: skip
"""What tells a constraint, and the rules that it states."""


def build_rules(op: dict[str, Any], text: str) -> list[dict[str, Any]] | None:
    """The rules of one part of a constraint; [] where the tables say it already."""
    for pattern, make in BUILD_RULES:
        if found := re.search(pattern, text):
            return make(op, found)
    said = any(part in text for part in COVERED) or re.fullmatch(r"\d+ inputs", text)
    return [] if said else None


def compute_rules(op: dict[str, Any], text: str) -> list[dict[str, Any]]:
    """The rules on what is only seen when a model runs; most others are the ops' own affair."""
    if found := re.match(r"output scale and zero point equal those of (?:the )?(\w+)", text):
        return [{"rule": "keeps_quant", "as": found[1]}]
    if text == "INT32 data requires activation NONE":
        return [{"rule": "activation_none", "type": "TENSOR_INT32"}]
    if text.startswith("bias scale =="):
        names = [o["name"] for o in op["inputs"][:2]]
        return [{"rule": "bias_scale", "operand": "bias", "of": names}]
    return []


# ------------------------------------------------------------------------ operations


def variant(op: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    """One way of listing an operation's inputs."""
    counts = source["input_counts"]
    result: dict[str, Any] = {"name": source["name"]}
    result |= {"least": counts["min"]} if isinstance(counts, dict) else {"counts": counts}
    if "since" in source:
        result["level"] = source["since"]
    flag = source.get("layout_flag_index", op["layout_flag_index"])
    if flag is not None:
        result["layout"] = flag
    if "dropped_defaults" in source:
        result["defaults"] = source["dropped_defaults"]
    inputs = source.get("inputs", op["inputs"])
    needed = max(counts) if isinstance(counts, list) else len(inputs)
    result["inputs"] = [operand(entry) for entry in inputs[:needed]]
    return result


def own_backward_sizes(variants: list[dict[str, Any]]) -> None:
    """Give the cells that run backward sizes of their own: the kernel compares only those."""
    for source in variants:
        for entry in source["inputs"]:
            if entry["name"].startswith("bw_") and "dims" in entry:
                entry["dims"] = [f"bw_{name}" for name in entry["dims"]]


def operation(op: dict[str, Any]) -> dict[str, Any]:
    """The entry of one operation."""
    result: dict[str, Any] = {
        "name": op["name"],
        "code": op["code"],
        "level": op["since_feature_level"],
        "variants": [variant(op, source) for source in op["variants"]],
        "outputs": [operand(entry) for entry in op["outputs"]],
    }
    if "output_counts" in op:
        result["output_counts"] = op["output_counts"]
    result["signatures"] = [
        {"level": s["since"]} | {k: v for k, v in s.items() if k not in ("since", "op_rule_level")}
        for s in op["signatures"]
    ]
    for source in result["variants"]:
        for entry in source["inputs"]:
            if "layout" in source and len(entry.get("dims", ())) == 4 and entry["name"] != "filter":
                entry["image"] = True
    if op["name"] == "BIDIRECTIONAL_SEQUENCE_LSTM":
        own_backward_sizes(result["variants"])
    result["rules"] = rules_of(op)
    for key, name in (
        ("broadcast", "broadcast"),
        ("zero_sized_input", "zero_sized"),
        ("allow_no_value", "no_value"),
    ):
        if op[key]:
            result[name] = True
    return result


def type_levels(ops: list[dict[str, Any]], codes: dict[str, int]) -> dict[str, int]:
    """The feature level that each operand type needs by itself: the least that any use has."""
    levels = dict.fromkeys(codes, 99)
    for op in ops:
        for entry in (*op["inputs"], *op["outputs"]):
            for kind, level in entry["types"].items():
                if kind in levels:
                    levels[kind] = min(levels[kind], level)
    return {kind: 1 if level == 99 else level for kind, level in levels.items()}


# ------------------------------------------------------------------------ writing


def files(folder: Path) -> dict[str, str]:
    """The text of each file of schemas/nnapi that is derived."""
    source = json.loads((folder / "ops.json").read_text(encoding="utf-8"))
    constants = json.loads((folder / "enums.json").read_text(encoding="utf-8"))
    known = enums(constants)
    table = {
        "rules": RULES,
        "type_levels": type_levels(source, known["OperandCode"]),
        "operations": [operation(op) for op in source],
    }
    return {"enums.json": dump(known) + "\n", "ops.json": dump(table) + "\n"}


if __name__ == "__main__":
    sys.exit(write_or_compare(TARGET, files, __doc__))
