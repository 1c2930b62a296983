"""Write schemas/nnrt/api.json, NNRt's functions and return codes, from reference data.

A folder's api.json says for each C function which misuse gives which return code, in words and in
the order in which the runtime looks. This script keeps the order, the words and the codes; what
concerns null pointers alone becomes a case of its own, with the parameters that it is of.

    python tools/gen_nnrt_api.py FOLDER            # rewrites the file
    python tools/gen_nnrt_api.py FOLDER --check    # exits 1 if it is stale
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

NULLS = (
    # What says that a pointer is null, and the case that this is.
    (re.compile(r"(\w+) is null"), "null"),
    (re.compile(r"(\w+)(?:, (\w+))? or \*(\w+) is null"), "null"),
    (re.compile(r"\*(\w+) is null"), "destroyed"),
    (re.compile(r"\*(\w+) is not null"), "result in use"),
)

CREATES = "OH_NNTensor_Create"
"""What the functions that make a tensor in a device's memory begin with."""


def rule(source: dict[str, str]) -> dict[str, Any]:
    """A rule: its codes (none for a void function that does nothing) and its case.

    ``of`` are the parameters whose pointers it is about.
    """
    text, result = source["if"], source["result"]
    codes = re.findall(rf"{PREFIX}(\w+)", result) or ([result] if result == "NULL" else [])
    if not codes and not result.startswith("no-op"):
        raise SystemExit(f"no code in {result!r}")
    for pattern, case in NULLS:
        if found := pattern.fullmatch(text):
            names = list(dict.fromkeys(filter(None, found.groups())))
            return {"codes": codes, "case": case, "of": names}
    return {"codes": codes, "case": text}


def parameters(signature: str) -> tuple[str, list[list[str]]]:
    """The type that a C function gives, and [name, type] of its parameters."""
    found = re.fullmatch(r"(.*?) ?\w+\((.*)\);", signature)
    if found is None:
        raise SystemExit(f"no signature: {signature!r}")
    listed = []
    for entry in filter(None, found[2].removesuffix("void").split(", ")):
        match = re.fullmatch(r"(.*[ *])(\w+)(\[\])?", entry)
        if match is None:
            raise SystemExit(f"no parameter: {entry!r}")
        listed.append([match[2], match[1].strip() + (match[3] or "")])
    return found[1], listed


def method(name: str) -> str:
    """The Python name: ``Model.add_tensor`` for OH_NNModel_AddTensor."""
    owner, _, call = name.removeprefix("OH_NN").partition("_")
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", call).lower()
    if owner == "Device":
        return snake
    if owner == "Tensor" and not name.startswith(CREATES):
        owner = "DeviceTensor"
    return f"{owner}.{snake}"


def function(source: dict[str, Any]) -> dict[str, Any]:
    """The entry of a C function."""
    returns, listed = parameters(source["c_signature"])
    made = {
        "name": source["name"],
        "method": method(source["name"]),
        "api": source["since"],
        "level": source["api_level"],
        "returns": returns,
        "parameters": listed,
        "rules": [rule(entry) for entry in source["rules"]],
    }
    if source["deprecated_since"]:
        made |= {"deprecated": source["deprecated_since"], "instead": method(source["replaced_by"])}
    if "v1_rules" in source:
        made["v1_rules"] = [rule(entry) for entry in source["v1_rules"]]
    return made


def files(folder: Path) -> dict[str, str]:
    """The text of the file."""
    source = json.loads((folder / "api.json").read_text(encoding="utf-8"))
    return {"api.json": dump({"functions": [function(entry) for entry in source]}) + "\n"}


if __name__ == "__main__":
    sys.exit(write_or_compare(TARGET, files, __doc__))
