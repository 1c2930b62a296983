"""What is refused on purpose says why, for every such op of a model at once."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnconv
from nnconv.errors import Reason, UnsupportedError
from nnconv.formats.tflite.scope import out_of_scope
from support.tflite_builder import TfliteBuilder

REFUSED = {
    "HASHTABLE_SIZE": "hash tables",
    "SKIP_GRAM": "strings",
    "CONCAT_EMBEDDINGS": "never defined",
    "DELEGATE": "delegate",
    "STABLEHLO_ADD": "StableHLO",
    "STABLEHLO_RNG_BIT_GENERATOR": "StableHLO",
}


@pytest.mark.parametrize("op", REFUSED)
def test_reason_names_what_the_op_is(op: str) -> None:
    refusal = out_of_scope(op)
    assert refusal is not None
    assert REFUSED[op] in refusal["why"]


@pytest.mark.parametrize("op", ["ADD", "STABLEHLO_COMPOSITE", "CUSTOM"])
def test_other_ops_are_in_scope(op: str) -> None:
    assert out_of_scope(op) is None


def test_all_refused_ops_of_a_model_are_listed(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x = b.input("x", "float32", (2, 3))
    first = b.op("STABLEHLO_ADD", [x, x], [("float32", (2, 3))])
    second = b.op("FlexErf", [first], [("float32", (2, 3))])
    third = b.op("Mystery", [second], [("float32", (2, 3))])
    b.output(b.op("CONCAT_EMBEDDINGS", [third], [("float32", (2, 3))]))
    source, target = tmp_path / "m.tflite", tmp_path / "m.onnx"
    source.write_bytes(b.build())
    with pytest.raises(UnsupportedError) as caught:
        nnconv.convert(source, target)
    assert [(item.op, item.reason) for item in caught.value.items] == [
        ("STABLEHLO_ADD", Reason.OUT_OF_SCOPE),
        ("FlexErf", Reason.OUT_OF_SCOPE),
        ("Mystery", Reason.UNKNOWN_OP),
        ("CONCAT_EMBEDDINGS", Reason.OUT_OF_SCOPE),
    ]
    assert not target.exists()
