"""The table of operations, and how operations are matched with it."""

import pytest

from nnconv.formats.nnapi.rules import BUILD_RULES
from nnconv.formats.nnapi.table import MismatchError, match, rule_kinds, spec_of, type_levels
from nnconv.formats.nnapi.types import LEVELS, OperandCode, OperationCode
from support.nnapi_models import FLOAT, INT, NnapiBuilder, conv_model

COMPUTE_RULES = {"activation_none", "bias_scale", "keeps_quant"}


@pytest.mark.parametrize("code", OperationCode, ids=lambda code: code.name)
def test_entry_is_whole(code):
    spec = spec_of(code)
    assert spec.name == code.name
    assert spec.level in LEVELS
    assert spec.outputs
    variables = {formal.var for v in spec.variants for formal in (*v.inputs, *spec.outputs)} - {""}
    assert spec.signatures
    for signature in spec.signatures:
        assert set(signature.types) == variables
        assert signature.level >= max(
            spec.level, *(type_levels()[kind] for kind in signature.types.values()), 1
        )
    for variant in spec.variants:
        counts = variant.counts or (variant.least,)
        assert all(len(variant.specs(count)) == count for count in counts)
        assert variant.layout is None or variant.inputs[variant.layout].name == "nchw"
        trailing = variant.inputs[variant.default_start :] if variant.defaults else ()
        assert len(trailing) == len(variant.defaults)


@pytest.mark.parametrize("code", OperationCode, ids=lambda code: code.name)
def test_rules_are_of_known_kinds_and_name_operands_that_are_there(code):
    spec = spec_of(code)
    names = {formal.name for v in spec.variants for formal in (*v.inputs, *spec.outputs)}
    for rule in spec.rules:
        known = BUILD_RULES if rule["stage"] == "build" else COMPUTE_RULES
        assert rule["rule"] in known
        given = [rule[key] for key in ("operand", "as", "without") if key in rule]
        given += rule.get("operands", [])
        given += [rule["of"]] if isinstance(rule.get("of"), str) else rule.get("of", [])
        assert set(given) <= names


def test_every_kind_of_rule_is_described_and_used():
    used = {rule["rule"] for code in OperationCode for rule in spec_of(code).rules}
    assert used == set(rule_kinds()) == set(BUILD_RULES) | COMPUTE_RULES


def test_types_tell_padding_forms_of_one_count_apart():
    graph = conv_model(nchw=False).main
    found = match(graph.operations[0], graph)
    assert found.variant.name == "implicit_padding"
    assert found.position("nchw") == 7
    assert found.position("dilation_width") is None
    explicit = NnapiBuilder()
    x, w, bias = (explicit.input(FLOAT, dims) for dims in ((1, 4, 4, 1), (1, 2, 2, 1), (1,)))
    numbers = [explicit.const(INT, 1) for _ in range(6)]
    numbers.append(explicit.const(INT, 0))
    out = explicit.output(FLOAT, (1, 5, 5, 1))
    explicit.run(OperationCode.CONV_2D, [x, w, bias, *numbers], [out])
    found = match(explicit.graph.operations[0], explicit.graph)
    assert found.variant.name == "explicit_padding"
    assert [found.position(n) for n in ("pad_left", "stride_width", "activation")] == [3, 7, 9]


def test_level_comes_from_types_and_forms():
    graph = conv_model().main
    assert match(graph.operations[0], graph).level == 1
    graph = conv_model(nchw=True).main
    assert match(graph.operations[0], graph).level == 3
    graph = conv_model(per_channel=True).main
    found = match(graph.operations[0], graph)
    assert found.level == 3
    assert "TENSOR_QUANT8_SYMM_PER_CHANNEL" in found.reason


def test_a_run_of_operands_has_one_name():
    b = NnapiBuilder()
    parts = [b.input(FLOAT, (1, 2)) for _ in range(3)]
    b.run(OperationCode.CONCATENATION, [*parts, b.const(INT, 0)], [b.output(FLOAT, (3, 2))])
    found = match(b.graph.operations[0], b.graph)
    assert [formal.name for formal in found.inputs] == ["inputs"] * 3 + ["axis"]


def test_an_operation_that_merges_its_outputs_has_fewer():
    spec = spec_of(OperationCode.BIDIRECTIONAL_SEQUENCE_LSTM)
    names = {n: [o.name for o in spec.output_specs(n) or ()] for n in (1, 2, 5, 6)}
    assert names[1] == ["fw_output"]
    assert names[2] == ["fw_output", "bw_output"]
    assert names[5] == ["fw_output", *names[6][2:]]
    assert spec.output_specs(3) is None


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["x"], "1 input, allowed are 3"),
        (["x", "i", "a"], "input 1 (input1, operand 1) is TENSOR_INT32, allowed is TENSOR_FLOAT32"),
        (["x", "x", "x"], "input 2 (activation, operand 0) is TENSOR_FLOAT32, allowed is INT32"),
    ],
)
def test_refusal_names_operand_seen_and_allowed(inputs, message):
    b = NnapiBuilder()
    operands = {
        "x": b.input(FLOAT, (2,)),
        "i": b.input(OperandCode.TENSOR_INT32, (2,)),
        "a": b.const(INT, 0),
    }
    b.run(OperationCode.ADD, [operands[name] for name in inputs], [b.output(FLOAT, (2,))])
    with pytest.raises(MismatchError) as caught:
        match(b.graph.operations[0], b.graph)
    assert str(caught.value) == message
