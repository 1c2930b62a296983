"""NNAPI's enumerations and what its types are elsewhere."""

import pytest

from nnconv.formats.nnapi.types import (
    DTYPES,
    LEVELS,
    NUMPY,
    SCALARS,
    FeatureLevelCode,
    FuseCode,
    OperandCode,
    OperationCode,
    PreferenceCode,
    ResultCode,
    level_code,
    level_of_code,
)
from nnconv.ir.dtype import DType


def test_members_have_the_short_names_and_the_c_names_as_aliases():
    assert FuseCode.RELU6 is FuseCode.FUSED_RELU6
    assert PreferenceCode.FAST_SINGLE_ANSWER is PreferenceCode.PREFER_FAST_SINGLE_ANSWER
    assert FuseCode.RELU.name == "RELU"


def test_counts_are_those_of_the_api():
    assert len(OperationCode) == 106
    assert [int(code) for code in OperationCode] == list(range(106))
    assert len(OperandCode) == 16
    assert ResultCode.DEAD_OBJECT == 14


def test_levels_and_their_codes_lead_to_one_another():
    assert [int(level_code(level)) for level in LEVELS[:6]] == [27, 28, 29, 30, 31, 1000006]
    assert [level_of_code(level_code(level)) for level in LEVELS] == list(LEVELS)
    assert level_of_code(FeatureLevelCode.FEATURE_LEVEL_8 + 5) == 8
    with pytest.raises(ValueError, match="26 is no feature level"):
        level_of_code(26)


def test_every_type_but_model_has_elements():
    assert set(NUMPY) == set(OperandCode) - {OperandCode.MODEL}
    assert DTYPES[OperandCode.TENSOR_BOOL8] is DType.BOOL
    assert DTYPES[OperandCode.TENSOR_QUANT16_ASYMM] is DType.UINT16
    assert {code.name for code in SCALARS} == {
        "FLOAT32", "INT32", "UINT32", "BOOL", "FLOAT16", "MODEL",
    }  # fmt: skip
