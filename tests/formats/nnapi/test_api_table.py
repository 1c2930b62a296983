"""The functions of NNAPI as data."""

import pytest
from nnconv.schemas import read_schema

from nnconv.formats.nnapi.types import LEVELS, ResultCode

FUNCTIONS = read_schema("nnapi/api.json")["functions"]


def test_there_are_all_functions_and_each_has_a_method_of_its_own():
    assert len(FUNCTIONS) == 69
    assert len({function["method"] for function in FUNCTIONS}) == 69
    methods = {function["name"]: function["method"] for function in FUNCTIONS}
    assert methods["ANeuralNetworksModel_addOperand"] == "Model.add_operand"
    assert methods["ANeuralNetworks_getDeviceCount"] == "get_device_count"
    assert (
        methods["ANeuralNetworksModel_relaxComputationFloat32toFloat16"]
        == "Model.relax_computation_float32_to_float16"
    )


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function["method"])
def test_rules_give_known_codes_and_name_parameters(function):
    assert function["level"] in LEVELS
    names = {name for name, _ in function["parameters"]}
    for rule in function["rules"]:
        assert rule["code"] is None or rule["code"] in ResultCode.__members__
        assert rule["case"]
        assert {*rule.get("of", ()), *rule.get("counted", ())} <= names | {"device"}
