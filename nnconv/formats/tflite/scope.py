"""Which TFLite ops nnconv leaves out on purpose, and why."""

from __future__ import annotations

from typing import TypedDict

from nnconv.errors import Reason
from nnconv.formats.tflite import wire


class Refusal(TypedDict, total=False):
    """The words of a refusal, as ``Source.unsupported`` takes them."""

    why: str
    reason: Reason
    hint: str


_TABLES = "it works on hash tables"
_STRINGS = "it works on strings"

_REASONS = {
    **dict.fromkeys(
        (
            "HASHTABLE",
            "HASHTABLE_FIND",
            "HASHTABLE_IMPORT",
            "HASHTABLE_SIZE",
            "HASHTABLE_LOOKUP",
        ),
        (_TABLES, "Look the keys up outside the model."),
    ),
    "SKIP_GRAM": (_STRINGS, "Prepare the text outside the model."),
    "CONCAT_EMBEDDINGS": ("its meaning was never defined: no runtime has a kernel for it", ""),
    "DELEGATE": (
        "it stands for ops that a delegate took over, and only that delegate knows them",
        "Use the model as it was before a delegate was applied.",
    ),
    "PLACEHOLDER_FOR_GREATER_OP_CODES": (
        "it is no op, but the mark of ops whose number stands in a newer field of the file",
        "",
    ),
}

_STABLEHLO = (
    "StableHLO ops other than STABLEHLO_COMPOSITE aren't translated",
    "Legalize the StableHLO ops to TFLite's own before saving the model.",
)


def out_of_scope(op: str) -> Refusal | None:
    """Why a builtin op is left out on purpose; None for the others."""
    found = _REASONS.get(op)
    if found is None and op.startswith("STABLEHLO_") and op != "STABLEHLO_COMPOSITE":
        found = _STABLEHLO
    if found is None:
        return None
    why, hint = found
    return {"why": why, "reason": Reason.OUT_OF_SCOPE, "hint": hint}


def reason_for(op: wire.Operator) -> Refusal:
    """Why an operator without an importer can't be converted."""
    if op.name == "CUSTOM":
        if op.custom_code.startswith("Flex"):
            return {
                "why": f"it is the TensorFlow op {op.custom_code.removeprefix('Flex')}",
                "reason": Reason.OUT_OF_SCOPE,
                "hint": "Convert the model to TFLite again without SELECT_TF_OPS.",
            }
        return {
            "why": f"the meaning of custom op `{op.custom_code}` isn't known",
            "reason": Reason.UNKNOWN_OP,
            "hint": "Only the program that registers it knows it: spell it in TFLite's own ops.",
        }
    return out_of_scope(op.name) or {
        "why": "no translation is known",
        "reason": Reason.NOT_IMPLEMENTED,
    }
