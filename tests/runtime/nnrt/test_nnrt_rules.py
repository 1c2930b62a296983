"""Every rule of schemas/nnrt/api.json gives its return code."""

import pytest

import support.nnrt_build_cases
import support.nnrt_run_cases  # noqa: F401 - they register their cases
from nnconv.runtime import nnrt
from nnconv.runtime.nnrt import ReturnCode
from support.nnrt_calls import FUNCTIONS, VALID, valid_call
from support.nnrt_cases import SCENARIOS

POINTERS = {"null", "result in use"}

NEVER = {
    "a data pointer and its size disagree": "a list knows its length",
    "dimensions pointer and dimensionCount disagree (one empty, one not)": "as above",
    "copy fails": "Python's copies don't fail",
    "copy to the user buffer fails": "as above",
    "node or subgraph allocation fails": "a model has no parts that are allocated on their own",
    "scheduling service refuses": "there is no such service",
    "device query fails": "whether a device takes an operation is told by trying",
}
"""The cases that can't come about here, and why."""

RULES = [
    pytest.param(method, api, rule, id=f"{method}-v{api}-{number}-{rule['case'][:40]}")
    for method, function in FUNCTIONS.items()
    for api, rules in ((2, function["rules"]), (1, function.get("v1_rules", ())))
    for number, rule in enumerate(rules)
    if rule["case"] not in POINTERS and rule["case"] not in NEVER
]

NULLS = [
    pytest.param(method, rule, name, id=f"{method}-{name}")
    for method, function in FUNCTIONS.items()
    for rule in function["rules"]
    if rule["case"] in POINTERS
    for name in rule["of"]
]

ALWAYS_REFUSED = {
    "Compilation.export_cache_to_buffer",
    "Executor.run_async",
    "Executor.set_on_run_done",
    "Executor.set_on_service_died",
}
"""What no device here does."""

IN_V1 = sorted(method for method, function in FUNCTIONS.items() if function["api"] == 1)

OWNERS_OF_V1 = ("Model.", "Compilation.", "Executor.")


def code_of(action):
    with pytest.raises(nnrt.Error) as caught:
        action()
    assert str(caught.value).startswith(f"{caught.value.code.name}: ")
    return caught.value.code


def codes(rule):
    """The codes of a rule; NULL_PTR stands for a null pointer."""
    return {ReturnCode["NULL_PTR" if code == "NULL" else code] for code in rule["codes"]}


def test_every_function_has_a_call_and_every_rule_a_scenario():
    assert len(FUNCTIONS) == 75
    assert VALID.keys() == FUNCTIONS.keys()
    cases = {
        (method, rule["case"])
        for method, function in FUNCTIONS.items()
        for rule in (*function["rules"], *function.get("v1_rules", ()))
        if rule["case"] not in POINTERS
    }
    assert {text for _, text in cases} >= NEVER.keys()
    cases = {(method, text) for method, text in cases if text not in NEVER}
    assert [key for key in sorted(cases) if SCENARIOS.of(*key) is None] == []
    assert SCENARIOS.unused(cases) == set(), "no rule has these cases"


@pytest.mark.parametrize("method", sorted(FUNCTIONS.keys() - ALWAYS_REFUSED))
def test_the_calls_succeed_as_they_are(method):
    valid_call(method)()


@pytest.mark.parametrize("method", IN_V1)
def test_the_calls_of_v1_succeed_as_they_are(method):
    valid_call(method, 1)()


@pytest.mark.parametrize(
    "method",
    [m for m in sorted(FUNCTIONS.keys() - {*IN_V1}) if m.startswith(OWNERS_OF_V1)
     and "construct" not in m and not m.startswith("Executor.create")],
)  # fmt: skip
def test_objects_of_v1_have_no_functions_of_v2(method):
    assert code_of(valid_call(method, 1)) is ReturnCode.OPERATION_FORBIDDEN


@pytest.mark.parametrize(("method", "api", "rule"), RULES)
def test_rule_gives_its_code(method, api, rule, monkeypatch):
    call = valid_call(method, api)
    call.patch = monkeypatch
    SCENARIOS.of(method, rule["case"])(call)
    wanted = codes(rule)
    if wanted and wanted != {ReturnCode.SUCCESS}:
        assert code_of(call) in wanted
        return
    result = call()
    if rule["case"].endswith("is written as 0"):
        assert result == 0
    if not wanted and call.target is not None:
        assert not call.target.destroyed


@pytest.mark.parametrize(("method", "rule", "name"), NULLS)
def test_null_gives_its_code(method, rule, name):
    call = valid_call(method)
    argument = call.python_name(name)
    if rule["case"] == "result in use" or not argument:
        assert call.has_no_pointer(name)
        return
    if argument == "self":
        call.target = None
    else:
        call.args[argument] = None
    if rule["codes"]:
        assert code_of(call) in codes(rule)
    else:
        call()


def test_the_first_rule_that_applies_decides():
    call = valid_call("Model.set_tensor_data")
    dynamic = call.target.add_tensor(nnrt.Tensor(nnrt.DataType.FLOAT32, (-1,)))
    call.args.update(index=dynamic, length=5)
    assert code_of(call) is ReturnCode.OPERATION_FORBIDDEN
    call.args["index"] = 7
    assert code_of(call) is ReturnCode.INVALID_PARAMETER
    call.target = valid_call("Model.get_available_operations").target
    assert code_of(call) is ReturnCode.OPERATION_FORBIDDEN
    call.args["length"] = 0
    assert code_of(call) is ReturnCode.INVALID_PARAMETER


@pytest.mark.parametrize("method", sorted(FUNCTIONS))
def test_what_is_destroyed_is_no_object_any_more(method):
    call = valid_call(method)
    if call.target is None or method.endswith("destroy"):
        return
    call.target.destroy()
    function = FUNCTIONS[method]
    if function["returns"] == "void":
        call()
        return
    nulls = [rule for rule in function["rules"] if "null" in rule["case"]]
    assert code_of(call) in codes(nulls[0])
