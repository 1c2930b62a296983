"""Write schemas/nnapi/api.json, NNAPI's functions and result codes, from reference data.

A folder's api.json says for each C function which misuse gives which result code, in words and in
the order in which the runtime looks. This script keeps the order and the codes, and names each case
by an entry of CASES; words that fit none are an error.

    python tools/gen_nnapi_api.py FOLDER            # rewrites the file
    python tools/gen_nnapi_api.py FOLDER --check    # exits 1 if it is stale
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from gen_nnapi_schema import TARGET, short
from schema_files import dump, write_or_compare

CASES = (
    # What tells a case, and what we call it.
    ("compilation unfinished", "compilation not finished"),
    ("no memory", "no memory"),
    ("waits for the computation", "null is fine, else it waits"),
    ("ignored while", "null is fine, in flight it does nothing"),
    ("null is accepted", "null is fine"),
    ("model unfinished", "model not finished"),
    ("numDevices is 0", "no devices"),
    ("listed twice", "device twice"),
    ("no known device", "unknown device"),
    ("compilation already finished", "compilation finished"),
    ("no listed device supports", "no device does an operation"),
    ("the deadline passed", "deadline passed"),
    ("a driver failed", "device failed"),
    ("below the input count", "index beyond the inputs"),
    ("below the output count", "index beyond the outputs"),
    ("preference >=", "unknown preference"),
    ("priority is not", "unknown priority"),
    ("duration > 0 without", "duration without a single chosen device"),
    ("createForDevices with exactly one", "not for a single chosen device"),
    ("device level has no code", "level without a code"),
    ("negative type", "device of a negative type"),
    ("driver answers", "device failed"),
    ("descriptor <= 0", "no descriptor"),
    ("has no fence", "event without a fence"),
    ("computation failed", "computation failed"),
    ("different compilations", "burst of another compilation"),
    ("burst is running", "burst in use"),
    ("completed and not reusable", "execution used up or in flight"),
    ("never set", "input or output not set"),
    ("input memory holds", "memory without the wanted content"),
    ("that output buffer was too small", "its buffer was too small"),
    ("output buffer is too small", "output buffer too small"),
    ("a kernel refuses", "operation failed"),
    ("execution timeout", "timeout"),
    ("memory cannot be mapped", "memory can't be mapped"),
    ("already started or completed", "execution started"),
    ("input or output was already set", "input or output set"),
    ("durationCode", "unknown duration"),
    ("timing was not requested", "no timing"),
    ("computation not completed", "execution not completed"),
    ("error other than", "execution failed"),
    ("rank 0", "output of rank 0"),
    ("type given but", "type that doesn't fit"),
    ("dimensions not fully known", "dimensions not known"),
    ("length above 2", "length above 32 bits"),
    ("buffer null with length", "buffer and length disagree"),
    ("given with length 0", "buffer of length 0"),
    ("length below", "length too small"),
    ("length above that size", "length too large"),
    ("both 0", "range beyond the memory"),
    ("descriptor memory with offset", "memory of another role"),
    ("comes from a descriptor", "memory from a descriptor"),
    ("unspecified dimensions", "output dimensions not known"),
    ("waiting for a fence", "fence failed"),
    ("descriptor already finished", "descriptor finished"),
    ("role added twice", "role twice"),
    ("differ from the earlier roles", "role of another type"),
    ("incompatible with the earlier", "role of other dimensions"),
    ("frequency", "frequency out of range"),
    ("no role was added", "no roles"),
    ("dimensions for a scalar role", "dimensions that don't fit the roles"),
    ("src is descriptor", "source without content"),
    ("sizes, types", "memories that don't fit"),
    ("cannot be wrapped", "buffer can't be wrapped"),
    ("descriptor not finished", "descriptor not finished"),
    ("cannot allocate", "device can't allocate"),
    ("not duplicable", "bad file descriptor"),
    ("model already finished", "model finished"),
    ("extension type", "unknown extension"),
    ("dimensions is null with", "dimensions and their count disagree"),
    ("type code unknown", "unknown type"),
    ("MODEL with dimensions", "scalar with dimensions"),
    ("with scale or zeroPoint not 0", "quantization where there is none"),
    ("zeroPoint outside", "zero point out of range"),
    ("with scale <= 0", "scale not above 0"),
    ("byte size", "tensor too large"),
    ("too many operands", "too many operands"),
    ("unknown operation code", "unknown operation"),
    ("count 0 with", "list and its count disagree"),
    ("operand index out of range", "index beyond the operands"),
    ("static shape rules", "rules of the operation broken"),
    ("too many operations", "too many operations"),
    ("earlier finish failed", "earlier finish failed"),
    ("form a cycle", "operations in a circle"),
    ("no operands or no operations", "empty model"),
    ("neither constant", "operand not written once"),
    ("that no operation writes", "operation writes what it mustn't"),
    ("operand rules", "rules of an operand broken"),
    ("circular model", "models in a circle"),
    ("higher feature level", "feature level too high"),
    ("that has a value", "operand has another use"),
    ("below the operand count", "index beyond the operands"),
    ("scales null with", "scales and their count disagree"),
    ("is not TENSOR_QUANT8_SYMM_PER_CHANNEL", "type without scales per channel"),
    ("channelDim not below", "channel dimension beyond the rank"),
    ("their count is not", "scales for other channels"),
    ("a scale <= 0", "scale not above 0"),
    ("unspecified dimension or rank", "dimensions not known"),
    ("length differs", "length of another size"),
    ("value is not finished", "value not finished"),
    ("never fails", "always fine"),
    ("devIndex", "index beyond the devices"),
    ("already finished", "finished already"),
    ("already set", "set already"),
    ("an index out of range", "index beyond the operands"),
    ("index out of range", "index out of range"),
)  # fmt: skip


def rule(source: dict[str, str]) -> dict[str, Any]:
    """A rule: its code (None where there is none to give or several are possible) and its case.

    ``of`` are the parameters that mustn't be null, ``counted`` those that may be if their length
    is 0 too.
    """
    text, code = source["when"], short(source["code"])
    result: dict[str, Any] = {"code": None if code in ("-", "any") else code}
    if code == "UNEXPECTED_NULL":
        names = re.split(r" is null", text)[0].split(", or ")[0]
        listed = [name for name in re.split(r", | or ", names) if name]
        result |= {"case": "null", "of": ["device"] if "entry" in names else listed}
        counted = re.findall(r"(\w+) is null with", text)
        return result | ({"counted": counted} if counted else {})
    for part, case in CASES:
        if part in text:
            return result | {"case": case}
    raise SystemExit(f"no case for {text!r}")


def parameters(signature: str) -> tuple[str, list[list[str]]]:
    """The type that a C function gives, and [name, type] of its parameters."""
    before, _, inside = signature.rstrip(")").partition("(")
    listed = []
    for entry in filter(None, inside.split(", ")):
        kind, name = re.fullmatch(r"(.*[ *])(\w+)", entry).groups()
        listed.append([name, kind.strip()])
    return before.rpartition(" ")[0], listed


def method(name: str) -> str:
    """The Python name: ``Model.add_operand`` for ANeuralNetworksModel_addOperand."""
    owner, _, call = name.removeprefix("ANeuralNetworks").partition("_")
    call = call.replace("32to", "32_to_") if "relax" in call else call
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=A)(?=[A-Z][a-z])", "_", call).lower()
    return f"{owner}.{snake}" if owner else snake


def function(source: dict[str, Any]) -> dict[str, Any]:
    """The entry of a C function."""
    returns, listed = parameters(source["c_signature"])
    return {
        "name": source["name"],
        "method": method(source["name"]),
        "level": source["since_feature_level"],
        "api": source["since_api"],
        "returns": returns,
        "parameters": listed,
        "rules": [rule(entry) for entry in source["rules"]],
    }


def files(folder: Path) -> dict[str, str]:
    """The text of the file."""
    source = json.loads((folder / "api.json").read_text(encoding="utf-8"))
    return {"api.json": dump({"functions": [function(entry) for entry in source]}) + "\n"}


if __name__ == "__main__":
    sys.exit(write_or_compare(TARGET, files, __doc__))
