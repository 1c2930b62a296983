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


_STRINGS = "it works on strings or hash tables of strings"
_RANDOM = "it draws random numbers, so no two runtimes agree on its result"

OUT_OF_SCOPE = {
    **dict.fromkeys(
        (
            "HASHTABLE",
            "HASHTABLE_FIND",
            "HASHTABLE_IMPORT",
            "HASHTABLE_SIZE",
            "HASHTABLE_LOOKUP",
            "LSH_PROJECTION",
            "SKIP_GRAM",
        ),
        _STRINGS,
    ),
    **dict.fromkeys(
        ("RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "MULTINOMIAL", "STABLEHLO_RNG_BIT_GENERATOR"),
        _RANDOM,
    ),
}


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
        }
    if op.name in OUT_OF_SCOPE:
        return {"why": OUT_OF_SCOPE[op.name], "reason": Reason.OUT_OF_SCOPE}
    if op.name.startswith("STABLEHLO_"):
        return {
            "why": "LiteRT's interpreter has no kernel for it",
            "reason": Reason.OUT_OF_SCOPE,
            "hint": "Legalize the StableHLO ops to TFLite's own before saving the model.",
        }
    return {"why": "no translation is known", "reason": Reason.NOT_IMPLEMENTED}
