"""NNAPI's enumerations and what its types are elsewhere."""

from nnconv.formats.nnapi.types import (
    DTYPES,
    LEVELS,
    NUMPY,
    SCALARS,
    FuseCode,
    OperandCode,
    OperationCode,
    PreferenceCode,
    ResultCode,
    level_code,
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


def test_levels_have_the_codes_of_the_api():
    assert [int(level_code(level)) for level in LEVELS[:6]] == [27, 28, 29, 30, 31, 1000006]


def test_every_type_but_model_has_elements():
    assert set(NUMPY) == set(OperandCode) - {OperandCode.MODEL}
    assert DTYPES[OperandCode.TENSOR_BOOL8] is DType.BOOL
    assert DTYPES[OperandCode.TENSOR_QUANT16_ASYMM] is DType.UINT16
    assert {code.name for code in SCALARS} == {
        "FLOAT32", "INT32", "UINT32", "BOOL", "FLOAT16", "MODEL",
    }  # fmt: skip
