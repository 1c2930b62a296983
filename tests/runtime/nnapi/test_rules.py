"""Every rule of schemas/nnapi/api.json gives its result code."""

import pytest

import support.nnapi_run_cases  # noqa: F401 - it registers its cases
from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import ResultCode
from support.nnapi_calls import FUNCTIONS, VALID
from support.nnapi_cases import SCENARIOS

RULES = [
    pytest.param(method, rule, id=f"{method}-{number}-{rule['case']}")
    for method, function in FUNCTIONS.items()
    for number, rule in enumerate(function["rules"])
    if rule["case"] != "null"
]

NULLS = [
    pytest.param(method, name, id=f"{method}-{name}")
    for method, function in FUNCTIONS.items()
    for rule in function["rules"]
    for name in (*rule.get("of", ()), *rule.get("counted", ()))
]

ALWAYS_REFUSED = {
    "Memory.create_from_a_hardware_buffer",
    "Event.create_from_sync_fence_fd",
    "Event.get_sync_fence_fd",
}
"""What only Android has."""

FINE = {"null is fine", "always fine", "null is fine, else it waits"} | {
    "null is fine, in flight it does nothing"
}
"""The cases that are no failures."""

NULL_IS_NO_VALUE = {"buffer"}
"""Arguments that may be None, unless a length is given."""


def code_of(action):
    with pytest.raises(nnapi.Error) as caught:
        action()
    assert str(caught.value).startswith(f"{caught.value.code.name}: ")
    return caught.value.code


def test_every_function_has_a_call_and_every_rule_a_scenario():
    assert VALID.keys() == FUNCTIONS.keys()
    cases = {(m, r["case"]) for m, f in FUNCTIONS.items() for r in f["rules"]} - {
        (m, "null") for m in FUNCTIONS
    }
    assert [(m, text) for m, text in sorted(cases) if SCENARIOS.of(m, text) is None] == []
    assert SCENARIOS.unused(cases) == set(), "no rule has these cases"


@pytest.mark.parametrize("method", sorted(FUNCTIONS.keys() - ALWAYS_REFUSED))
def test_the_calls_succeed_as_they_are(method):
    VALID[method]()()


@pytest.mark.parametrize(("method", "rule"), RULES)
def test_rule_gives_its_code(method, rule, monkeypatch):
    call = VALID[method]()
    call.patch = monkeypatch
    SCENARIOS.of(method, rule["case"])(call)
    if rule["case"] in FINE:
        call()
    elif rule["code"] is None:
        assert code_of(call) is not ResultCode.NO_ERROR
    else:
        assert code_of(call) is ResultCode[rule["code"]]


@pytest.mark.parametrize(("method", "name"), NULLS)
def test_null_gives_its_code(method, name):
    call = VALID[method]()
    argument = call.python_name(name)
    if name == "device" and "devices" in call.args:
        call.args["devices"] = [None]
    elif argument == "self":
        call.target = None
    elif argument:
        call.args[argument] = None
        if name in NULL_IS_NO_VALUE:
            call.args["length"] = 4
    else:
        assert call.has_no_pointer(name)
        return
    assert code_of(call) is ResultCode.UNEXPECTED_NULL


def test_the_first_rule_that_applies_decides():
    call = VALID["Execution.set_input"]()
    call.args.update(index=9, length=1 << 32)
    assert code_of(call) is ResultCode.BAD_DATA
    call.target = VALID["Execution.get_duration"]().target
    assert code_of(call) is ResultCode.BAD_STATE
    call.args["buffer"] = None
    assert code_of(call) is ResultCode.UNEXPECTED_NULL
