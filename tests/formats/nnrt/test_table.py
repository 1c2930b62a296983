"""NNRt's operations as data, and what the tensors of an operation are to it."""

import sys

import numpy as np
import pytest
from nnconv.schemas import read_schema

from nnconv.formats.nnrt.table import match, owner_of, spec_of
from nnconv.formats.nnrt.types import DataType, OperationType, TensorType
from support.nnrt_models import GraphBuilder, conv_model
from support.places import ROOT

OPERATIONS = read_schema("nnrt/ops.json")["operations"]


def test_the_data_are_what_the_reference_says(shared_dir):
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import gen_nnrt_schema
    finally:
        sys.path.remove(str(ROOT / "tools"))
    for name, text in gen_nnrt_schema.files(shared_dir / "nnrt").items():
        assert (ROOT / "schemas/nnrt" / name).read_text(encoding="utf-8") == text


def test_every_operation_has_an_entry_and_every_parameter_one_owner():
    assert [entry["name"] for entry in OPERATIONS] == [code.name for code in OperationType]
    types = [param["type"] for entry in OPERATIONS for param in entry["params"]]
    assert sorted(types) == sorted(kind.name for kind in TensorType if kind)
    assert owner_of(TensorType.ADD_ACTIVATIONTYPE) is OperationType.ADD
    assert owner_of(TensorType.TENSOR) is None


def test_version_1_has_56_operations_and_their_older_parameters():
    assert sum(entry["since"] == 1 for entry in OPERATIONS) == 56
    axis = spec_of(OperationType.LAYER_NORM).params["beginAxis"]
    assert (axis.dtype(1), axis.dtype(2)) == (DataType.INT32, DataType.INT64)
    epsilon = spec_of(OperationType.BATCH_NORM).params["epsilon"]
    assert (epsilon.default(1), epsilon.default(2)) == (1e-7, 1e-4)
    bias = spec_of(OperationType.FULL_CONNECTION).params["hasBias"]
    assert (bias.default(1), bias.default(2)) == (True, False)


@pytest.mark.parametrize("entry", OPERATIONS, ids=lambda entry: entry["name"])
def test_entries_speak_of_what_there_is(entry):
    spec = spec_of(OperationType[entry["name"]])
    names = {formal.name for formal in spec.inputs}
    for formal in (*spec.inputs, *spec.outputs):
        assert formal.types
        assert {formal.same, formal.broadcast, formal.type_as} <= names | {""}
    for rule in spec.rules:
        assert rule.get("operand", spec.inputs[0].name) in names
        assert rule.get("param", "") in {"", *spec.params}
    least, most = spec.input_counts
    assert least <= len([f for f in spec.inputs if not f.optional]) <= most or spec.inputs[0].repeat


def test_parameters_go_by_type_in_any_order():
    graph = conv_model()
    found = match(graph.operations[0], graph)
    wanted = {"stride", "dilation", "padMode", "activationType"}
    assert set(found.params) == wanted
    graph.operations[0].params = graph.operations[0].params[::-1]
    assert match(graph.operations[0], graph).params == found.params
    assert [found.position(name) for name in ("weight", "bias", "other")] == [1, 2, None]


@pytest.mark.parametrize(("kind", "name"), [("padMode", "padList"), ("padList", "padMode")])
def test_a_paddings_mode_and_list_are_told_by_their_counts(kind, name):
    b = GraphBuilder()
    x, y = b.input((1, 4, 4, 1)), b.output((1, 4, 4, 1))
    value = np.zeros(4 if name == "padList" else 1)
    b.op("AVG_POOL", [x], [y], [b.param("AVG_POOL", kind, value)])
    assert set(match(b.graph.operations[0], b.graph).params) == {name}


def test_a_run_of_inputs_has_one_formal_input():
    b = GraphBuilder()
    parts = [b.input((1, 2)) for _ in range(5)]
    b.op("CONCAT", parts, [b.output((5, 2))])
    found = match(b.graph.operations[0], b.graph)
    assert [formal.name for formal in found.inputs] == ["input"] * 5
