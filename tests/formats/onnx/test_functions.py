"""Functions that call each other: without end, very deep, or so often that it comes to the same."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import onnx
import pytest
from onnx import helper

import nnconv
from nnconv.errors import InvalidModelError
from support.onnx_whole import info, onnx_model


def calling(bodies: dict[str, list[str]]) -> onnx.ModelProto:
    """A model of functions, each a chain of calls; `Relu` is the op."""
    versions = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    functions = []
    for name, called in bodies.items():
        places = ["x", *(f"t{i}" for i in range(1, len(called))), "y"]
        nodes = [
            helper.make_node(op, [a], [b], domain="" if op == "Relu" else "own")
            for op, (a, b) in zip(called, pairwise(places), strict=True)
        ]
        functions.append(helper.make_function("own", name, ["x"], ["y"], nodes, versions))
    first = helper.make_node(next(iter(bodies)), ["x"], ["y"], domain="own")
    return onnx_model(
        [first],
        [info("x", "float32", [2])],
        [info("y", "float32", [2])],
        {},
        domains={"own": 1},
        functions=functions,
    )


def load(model: onnx.ModelProto, folder: Path) -> nnconv.Model:
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return nnconv.load(path)


@pytest.mark.parametrize("bodies", [{"f": ["f"]}, {"f": ["g"], "g": ["f"]}])
def test_functions_that_call_each_other_without_end_are_refused(
    bodies: dict[str, list[str]], tmp_path: Path
) -> None:
    with pytest.raises(InvalidModelError, match="deep inside each other") as refusal:
        load(calling(bodies), tmp_path)
    assert len(str(refusal.value)) < 4000


def test_functions_deep_inside_each_other_are_inlined(tmp_path: Path) -> None:
    bodies = {f"f{i}": [f"f{i + 1}"] for i in range(30)} | {"f30": ["Relu"]}
    assert len(list(load(calling(bodies), tmp_path).graph.nodes)) == 1


def test_functions_that_come_to_millions_of_nodes_are_refused(tmp_path: Path) -> None:
    bodies = {f"f{i}": [f"f{i + 1}"] * 2 for i in range(30)} | {"f30": ["Relu"]}
    with pytest.raises(InvalidModelError, match="come to more than"):
        load(calling(bodies), tmp_path)
