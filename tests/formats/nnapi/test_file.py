"""The .nnapi file and its twin: what they hold, and that broken ones are refused."""

import json
import random

import numpy as np
import pytest
from nnconv.schemas import read_schema
from safetensors import safe_open

from nnconv.errors import InvalidModelError, NnconvError
from nnconv.formats.nnapi import file
from nnconv.formats.nnapi.types import OperandCode, OperationCode
from nnconv.formats.nnapi.wire import Lifetime
from support.nnapi_models import FLOAT, NnapiBuilder, add_model, assert_same, conv_model, if_model


def big_model():
    """ADD of constants large enough to lie outside the JSON, one of them twice, and a bool."""
    b = NnapiBuilder()
    x = b.input(FLOAT, (8, 8), name="x")
    weights = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    constants = [b.const(FLOAT, weights), b.const(OperandCode.TENSOR_BOOL8, [3, 0] * 16)]
    b.graph.operands[b.const(FLOAT, [0])].name = "é\n"
    twice = b.operand(FLOAT, (8, 8), lifetime=Lifetime.CONSTANT)
    b.graph.operands[twice].value = b.graph.operands[constants[0]].value
    zero = b.const(OperandCode.INT32, 0)
    b.run(OperationCode.ADD, [x, constants[0], zero], [b.output(FLOAT, (8, 8), name="y")])
    return b.model(relaxed=True)


MODELS = {"add": add_model, "conv": conv_model, "if": if_model, "big": big_model}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("suffix", [".nnapi", ".json"])
def test_a_file_gives_the_model_back(make, suffix, tmp_path):
    path = tmp_path / f"model{suffix}"
    file.write(make(), path)
    assert_same(file.read(path), make())
    assert_same(file.read(path.read_bytes()), make())
    again = tmp_path / f"again{suffix}"
    file.write(file.read(path), again)
    assert again.read_bytes() == path.read_bytes()


def test_the_safetensors_package_reads_the_constants(tmp_path):
    path = tmp_path / "model.nnapi"
    model = big_model()
    file.write(model, path)
    with safe_open(path, framework="numpy") as opened:
        assert sorted(opened.keys()) == ["constant0", "constant1"]
        assert np.array_equal(opened.get_tensor("constant0"), model.main.operands[1].value)
        plain = json.loads(opened.metadata()["nnconv.nnapi"])
    assert plain["main"]["operands"][1]["tensor"] == "constant0"
    assert plain["main"]["operands"][4]["tensor"] == "constant0"
    assert plain["main"]["operands"][5] == {"type": "INT32", "lifetime": "constant", "value": 0}


def test_constants_are_views_of_the_file_and_aligned(tmp_path):
    path = tmp_path / "model.nnapi"
    file.write(big_model(), path)
    operands = file.read(path).main.operands
    assert not operands[1].value.flags.owndata
    assert operands[1].value.ctypes.data % 64 == 0
    assert operands[4].value is operands[1].value


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (FLOAT, [0.1, -0.0, 1e-45, 3.4028235e38, 16777217]),
        (OperandCode.TENSOR_FLOAT16, [0.1, -0.0, 6e-8, 65504]),
        (FLOAT, [np.nan, np.inf, -np.inf]),
        (OperandCode.TENSOR_BOOL8, [0, 1, 2, 255]),
        (OperandCode.TENSOR_QUANT16_ASYMM, [0, 65535]),
        (OperandCode.UINT32, 4294967295),
        (OperandCode.BOOL, 1),
    ],
)
def test_small_constants_keep_every_bit(kind, values):
    model = add_model()
    b = NnapiBuilder()
    b.graph = model.main
    b.const(kind, values)
    assert_same(file.read(file.to_bytes(model)), model)
    assert_same(file.from_json(file.to_json(model)), model)


def test_the_schema_lists_the_types_and_operations_that_there_are():
    schema = read_schema("nnapi/model.schema.json")["$defs"]
    assert schema["operation"]["properties"]["type"]["enum"] == [c.name for c in OperationCode]
    assert schema["operand"]["properties"]["type"]["enum"] == [c.name for c in OperandCode]
    assert schema["operand"]["properties"]["lifetime"]["enum"] == [life.value for life in Lifetime]


def changed(**changes):
    """The twin of a small model with entries of its second operand, a constant, changed."""
    plain = json.loads(file.to_json(add_model()))
    for key, value in changes.items():
        if value is None:
            del plain["main"]["operands"][1][key]
        else:
            plain["main"]["operands"][1][key] = value
    return json.dumps(plain)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "a list, must be object"),
        ('{"a": 1, "a": 2}', "two entries of one name"),
        ("{}", "format is missing"),
        (changed(type="TENSOR_STRING"), 'main.operands[1].type: "TENSOR_STRING", must be one of'),
        (changed(extra=1), 'main.operands[1]: "extra" isn\'t known'),
        (changed(dimensions=[-1]), "main.operands[1].dimensions[0]: -1, must be at least 0"),
        (changed(dimensions=[1 << 99]), "a number of more than 64 bits, must be at most"),
        (changed(dimensions=[4]), "main.operands[1]: 3 elements for TENSOR_FLOAT32 [4]"),
        (
            changed(dimensions=[0]),
            "main.operands[1]: a constant of TENSOR_FLOAT32 [0], all extents must be known",
        ),
        (changed(value=None), "no value beside the lifetime constant, must be one of value,"),
        (changed(value=[1, 1e99, 1]), "an element is no float32"),
        (changed(value=[1, 1 << 5000, 1]), "an element is no float32"),
        (changed(value=[1, True, 1]), "an element is no float32"),
        (changed(type="TENSOR_INT32", value=[1, 0.5, 1]), "an element is no int32"),
        (changed(value=None, base64="A"), "its base64 is broken"),
        (changed(value=None, base64="AAAA"), "3 bytes can't be a whole number of elements"),
        (changed(value=None, tensor="w"), "there is no tensor 'w'"),
        (changed(lifetime="temporary"), "value beside the lifetime temporary"),
        (changed(lifetime="model", model=0), "value, model beside the lifetime model"),
        (changed(type="MODEL"), "a model can't be a constant"),
        (changed(scale=1e60), "a scale is no float32 number"),
        (changed(scale=1 << 5000), "a scale is no float32 number"),
        (
            changed(channel_quant={"dim": 0, "scales": [0.5, 1e60, 1]}),
            "main.operands[1]: a scale is no float32 number",
        ),
        (changed(scale=float("inf")), "Infinity is no number in JSON"),
    ],
)
def test_a_broken_twin_is_refused(text, message):
    with pytest.raises(InvalidModelError) as caught:
        file.from_json(text, path="twin.json")
    assert message in str(caught.value)
    assert str(caught.value).startswith("twin.json: ")


def test_operands_that_are_not_there_are_refused():
    plain = json.loads(file.to_json(add_model()))
    plain["main"]["operations"][0]["inputs"][1] = 4
    with pytest.raises(InvalidModelError, match=r"main.operations\[0\]: an operand beyond the 4"):
        file.from_json(json.dumps(plain))
    plain["main"]["operations"][0]["inputs"][1] = 1
    plain["main"]["outputs"] = [9]
    with pytest.raises(InvalidModelError, match="an input or output, an operand beyond the 4"):
        file.from_json(json.dumps(plain))


def test_tensors_must_be_what_the_operands_say():
    data = file.to_bytes(big_model())
    for old, new, message in (
        (b'[8,8],"data', b'[4,16],"data', "must have"),
        (b'"dtype":"F32"', b'"dtype":"I32"', "must be TENSOR_FLOAT32"),
        (b'"nnconv.nnapi"', b'"nnconv.nnrt"', "no key nnconv.nnapi"),
    ):
        assert old in data
        size = int.from_bytes(data[:8], "little") + len(new) - len(old)
        broken = size.to_bytes(8, "little") + data[8:].replace(old, new)
        with pytest.raises(InvalidModelError, match=message):
            file.read(broken)


def test_a_constant_without_a_value_is_not_written(tmp_path):
    model = add_model()
    model.main.operands[1].value = None
    with pytest.raises(InvalidModelError, match="a constant without a value"):
        file.write(model, tmp_path / "model.nnapi")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidModelError, match="can't be read"):
        file.read(tmp_path / "none.nnapi")


@pytest.mark.parametrize("form", ["nnapi", "json"])
def test_changed_bytes_end_in_clean_errors_alone(form):
    """Whatever is read must also come out of the check, and of a file again, without a crash."""
    from nnconv.formats.nnapi.check import problems

    chance = random.Random(20)
    sources = [
        file.to_bytes(make()) if form == "nnapi" else file.to_json(make()).encode()
        for make in MODELS.values()
    ]
    read = 0
    for _ in range(1500):
        data = bytearray(chance.choice(sources))
        for _ in range(chance.choice((1, 1, 2, 5))):
            place = chance.randrange(len(data))
            if chance.random() < 0.5:
                data[place] = chance.choice(b'0123456789-",:[]{}eE')
            else:
                data[place : place + chance.randrange(4)] = chance.randbytes(chance.randrange(4))
        try:
            model = file.read(bytes(data))
        except NnconvError:
            continue
        read += 1
        problems(model)
        assert_same(file.read(file.to_bytes(model)), model)
    assert read > 20
