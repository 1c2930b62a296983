"""NNRt's enumerations and what its types are elsewhere."""

from nnconv.formats.nnrt.types import (
    DTYPES,
    FROM_DTYPE,
    LAST_V1_TENSOR_TYPE,
    NUMPY,
    DataType,
    FuseType,
    OperationType,
    Priority,
    ReturnCode,
    TensorType,
)
from nnconv.ir.dtype import DType


def test_members_have_the_short_names_and_the_c_names_as_aliases():
    assert OperationType.ADD is OperationType.OPS_ADD
    assert FuseType.RELU6 is FuseType.FUSED_RELU6
    assert Priority.HIGH is Priority.PRIORITY_HIGH
    assert OperationType.GATHER_ND.name == "GATHER_ND"


def test_counts_are_those_of_the_api():
    assert [int(code) for code in OperationType] == list(range(1, 109))
    assert [int(code) for code in TensorType] == list(range(163))
    assert len(DataType) == 13
    assert ReturnCode.UNAVAILABLE_DEVICE == 14


def test_version_1_knows_the_first_of_them():
    assert int(LAST_V1_TENSOR_TYPE) == 77


def test_every_type_but_unknown_has_elements():
    assert set(NUMPY) == set(DataType) - {DataType.UNKNOWN}
    assert DTYPES[DataType.BOOL] is DType.BOOL
    assert all(FROM_DTYPE[dtype] is kind for kind, dtype in DTYPES.items())
    assert {kind.name.lower(): NUMPY[kind].name for kind in NUMPY if kind is not DataType.BOOL} == {
        kind.name.lower(): kind.name.lower() for kind in NUMPY if kind is not DataType.BOOL
    }
