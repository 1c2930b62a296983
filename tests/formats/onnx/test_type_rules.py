"""Nodes that get numbers of other types than ONNX has for them are refused, with the type named."""

from __future__ import annotations

import pytest
from onnx import defs

from nnconv.errors import InvalidModelError
from nnconv.formats.onnx.importer import importers
from nnconv.formats.onnx.reader import read
from nnconv.formats.onnx.type_rules import FLOATS_ALONE
from support.onnx_routes import node
from support.onnx_whole import info, onnx_model

FLOATS = {f"tensor({kind})" for kind in ("float", "double", "float16", "bfloat16")}
LEAST = 7
"""The least opset whose ops are read as they are."""


def floats_of(op: str) -> tuple[int, ...]:
    """The operands of an op that onnx's schemas let be floats alone, from opset 7 on."""
    found = [s for s in defs.get_all_schemas_with_history() if (s.domain, s.name) == ("", op)]
    found = sorted((s for s in found if not s.deprecated), key=lambda s: s.since_version)
    old = [s for s in found if s.since_version <= LEAST][-1:]
    schemas = [*old, *(s for s in found if s.since_version > LEAST)]
    most = max((len(s.inputs) for s in schemas), default=0)
    return tuple(
        place
        for place in range(most)
        if all(place >= len(s.inputs) or set(s.inputs[place].types) <= FLOATS for s in schemas)
    )


def test_the_table_is_that_of_the_schemas():
    ops = [op for op in importers() if ":" not in op]
    wanted = {op: places for op in ops if (places := floats_of(op))}
    assert {op: places or (0,) for op, places in FLOATS_ALONE.items()} == wanted


@pytest.mark.parametrize("kind", ["int32", "int64", "bool", "uint8"])
@pytest.mark.parametrize("op", ["Softmax", "Sigmoid", "GlobalAveragePool", "Floor"])
def test_other_numbers_are_refused(op, kind):
    model = onnx_model(
        [node(op, ["x"], ["y"], name="first")],
        [info("x", kind, [1, 2, 3])],
        [info("y", kind, [1, 2, 3])],
    )
    with pytest.raises(
        InvalidModelError, match=f"{op} at .*`x` is {kind}, {op} takes floats alone"
    ):
        read(model.SerializeToString())


def test_every_operand_counts():
    shape = [1, 2, 3]
    for op, kinds in (("Sum", ["float32", "float32", "int32"]), ("LayerNormalization", [*"fi"])):
        names = {"f": "float32", "i": "int32"}
        inputs = [info(f"x{i}", names.get(k, k), shape) for i, k in enumerate(kinds)]
        model = onnx_model([node(op, [v.name for v in inputs], ["y"])], inputs, [])
        with pytest.raises(InvalidModelError, match=r"is int32, \w+ takes floats alone"):
            read(model.SerializeToString())
