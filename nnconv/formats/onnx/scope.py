"""Which ONNX ops nnconv leaves out on purpose, and why."""

from __future__ import annotations

from typing import TypedDict

from nnconv.errors import InvalidModelError, Reason, UnsupportedError, UnsupportedItem
from nnconv.formats.onnx import wire


class Refusal(TypedDict, total=False):
    """The words of a refusal, as ``Source.unsupported`` takes them."""

    why: str
    reason: Reason
    hint: str


SEQUENCE_HINT = "Give and take tensors instead."

_SEQUENCE = ("it works on sequences, optionals or maps", SEQUENCE_HINT)
_STRINGS = ("it works on strings", "Prepare the text outside the model.")
_TRAINING = ("it is for training", "Export the model for inference.")

_REASONS = {
    **dict.fromkeys(
        (
            "SequenceMap",
            "Optional",
            "OptionalGetElement",
            "OptionalHasElement",
        ),
        _SEQUENCE,
    ),
    **dict.fromkeys(
        (
            "StringConcat",
            "StringNormalizer",
            "StringSplit",
            "RegexFullMatch",
            "TfIdfVectorizer",
        ),
        _STRINGS,
    ),
    "ImageDecoder": ("it decodes image files", "Decode the image outside the model."),
}

_DOMAINS = {
    "ai.onnx.preview.training": _TRAINING,
    "ai.onnx.training": _TRAINING,
    "ai.onnx.ml": (
        "operator set ai.onnx.ml, of classical machine learning, isn't translated",
        "Keep that part outside of the model.",
    ),
}


_HINTS = {
    "com.microsoft": "Give the model as it was before onnxruntime optimized it.",
    "org.pytorch.aten": "Export without fallbacks to operators of PyTorch.",
}


def reason_for(domain: str, op_type: str) -> Refusal:
    """Why an op without an importer can't be converted."""
    found = _REASONS.get(op_type) if not domain else _DOMAINS.get(domain)
    if found is not None:
        why, hint = found
        return {"why": why, "reason": Reason.OUT_OF_SCOPE, "hint": hint}
    if domain:
        return {
            "why": f"the meaning of `{op_type}` of operator set `{domain}` isn't known",
            "reason": Reason.UNKNOWN_OP,
            "hint": _HINTS.get(domain, ""),
        }
    return {"why": "no translation is known", "reason": Reason.NOT_IMPLEMENTED}


def refused_value(info: wire.ValueInfo, path: str) -> InvalidModelError | UnsupportedError:
    """What to raise for an input that is no tensor of a type that nnconv holds."""
    if info.dtype is None:
        item = UnsupportedItem(
            op="graph",
            where=f"`{info.name}`",
            why="it is no tensor",
            reason=Reason.OUT_OF_SCOPE,
            hint=SEQUENCE_HINT,
        )
        return UnsupportedError([item], path=path)
    item = UnsupportedItem(
        op="graph",
        where=f"`{info.name}`",
        why=f"its elements are {info.dtype.name}",
        reason=Reason.OUT_OF_SCOPE,
    )
    return UnsupportedError([item], path=path)


def refused_tensor(tensor: wire.Tensor, path: str) -> UnsupportedError:
    """What to raise for a constant of a type that nnconv doesn't hold."""
    item = UnsupportedItem(
        op="initializer",
        where=f"`{tensor.name}`",
        why=f"its elements are {tensor.dtype.name}",
        reason=Reason.OUT_OF_SCOPE,
    )
    return UnsupportedError([item], path=path)
