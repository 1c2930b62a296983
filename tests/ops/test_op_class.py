"""What all op classes have in common: attributes by name that never change."""

import copy
import pickle

import pytest

from nnconv.formats.support import ir_ops
from nnconv.ir.op import Op, op_class
from nnconv.ops.elementwise import Exp
from nnconv.ops.shape import Transpose


@op_class
class Shifted(Op):
    shift: int
    scale: float = 1.0


@op_class
class ShiftedTwice(Shifted):
    again: int
    scale: float


def test_attributes_are_given_by_name():
    op = Shifted(shift=3)
    assert (op.shift, op.scale) == (3, 1.0)
    assert op.attributes() == {"shift": 3, "scale": 1.0}
    assert repr(op) == "Shifted(shift=3, scale=1.0)"


@pytest.mark.parametrize(
    ("cls", "given", "said"),
    [
        (Shifted, {}, "Shifted lacks shift"),
        (Shifted, {"shift": 1, "axis": 2}, "Shifted has no attribute axis"),
        (Exp, {"axis": 2}, "Exp has no attribute axis"),
    ],
)
def test_wrong_attributes_are_refused(cls, given, said):
    with pytest.raises(TypeError, match=said):
        cls(**given)


def test_attributes_of_a_base_come_first():
    assert ShiftedTwice.field_names() == ("shift", "scale", "again")
    assert ShiftedTwice(shift=1, again=2).scale == 1.0, "an inherited default stays"


def test_attributes_never_change():
    op = Transpose(perm=(1, 0))
    with pytest.raises(AttributeError, match=r"Transpose\.perm can't change"):
        op.perm = (0, 1)
    with pytest.raises(AttributeError, match=r"Transpose\.perm can't go"):
        del op.perm
    assert op.replace(perm=(0, 1)) == Transpose(perm=(0, 1))
    assert op == Transpose(perm=(1, 0))


def test_equal_ops_are_one_key():
    assert len({Shifted(shift=1), Shifted(shift=1, scale=1.0), Shifted(shift=2)}) == 2
    assert Shifted(shift=1) != ShiftedTwice(shift=1, again=0)


def test_ops_can_be_copied_and_sent():
    op = Transpose(perm=(1, 0))
    assert copy.deepcopy(op) == op
    assert pickle.loads(pickle.dumps(op)) == op


def test_annotations_of_all_ops_are_attributes():
    for op in ir_ops():
        if op.__name__.startswith("_"):
            continue  # a base, whose classes declare what it speaks of
        own = vars(op).get("__annotations__", {})
        wanted = [name for name, kind in own.items() if "ClassVar" not in str(kind)]
        assert set(wanted) <= set(op.field_names()), f"{op.__name__} isn't declared by op_class"
