"""Control flow: nodes whose bodies are graphs.

Bodies are closed: what they read comes in through their inputs. Numbers cross the border as they
are stored; where a body's value has other quantization parameters, the codes are reread with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from nnconv.errors import plural
from nnconv.ir.dtype import ANY, BOOLS, DType
from nnconv.ir.op import Op, Operand, QuantRule, Types, operand_type
from nnconv.ir.types import TensorType, join_shapes


class Control(Op):
    """Base of ops with bodies."""

    operands: ClassVar[tuple[Operand, ...]] = (Operand("operands", ANY, variadic=True),)
    quant_rule: ClassVar[QuantRule] = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        raise ValueError(f"{self.name} needs bodies")


class If(Control):
    """The outputs of body ``then`` if ``condition`` (one element) is true, else of ``otherwise``.

    Both bodies take ``operands``. Their outputs agree in number and dtype; where extents differ,
    the result's are open. TFLite IF, ONNX If, NNAPI IF.
    """

    operands = (Operand("condition", BOOLS), Operand("operands", ANY, variadic=True))

    def infer_node(self, types: Types, bodies: Sequence[Any]) -> tuple[TensorType, ...]:
        check_one(operand_type(types, 0))
        then, otherwise = bodies
        for body in bodies:
            check_given(types[1:], [v.type for v in body.inputs])
        return tuple(
            joined(v.type, w.type) for v, w in zip(then.outputs, otherwise.outputs, strict=True)
        )


class While(Control):
    """Runs body ``turn`` as long as body ``condition`` is true, which is asked before each turn.

    The first turn gets ``operands``, each next one the results of the one before; those of the last
    one are the node's. ``condition`` takes the same values. Extents that change from turn to turn
    are open in the bodies. A value that ``turn`` hands on as it got it is the same in all turns.
    TFLite WHILE, ONNX Loop, NNAPI WHILE.
    """

    def infer_node(self, types: Types, bodies: Sequence[Any]) -> tuple[TensorType, ...]:
        condition, turn = bodies
        carried = [v.type for v in turn.inputs]
        check_given(types, carried)
        check_given(carried, [v.type for v in condition.inputs])
        check_given([v.type for v in turn.outputs], carried)
        if len(condition.outputs) != 1 or condition.outputs[0].dtype is not DType.BOOL:
            raise ValueError("the condition must give one bool")
        check_one(condition.outputs[0].type)
        return tuple(
            joined(given, result.type) for given, result in zip(carried, turn.outputs, strict=True)
        )


def joined(a: TensorType, b: TensorType) -> TensorType:
    """The type of what has now one, now the other.

    Raises:
        ValueError: when the dtypes differ.
    """
    if a.dtype is not b.dtype:
        raise ValueError(f"a result is now {a.dtype}, now {b.dtype}")
    return TensorType(a.dtype, join_shapes(a.shape, b.shape), a.quant)


def check_one(kind: TensorType) -> None:
    """Check that a condition has one element, as far as that is known.

    Raises:
        ValueError: when it has another number.
    """
    if kind.shape is not None and any(isinstance(d, int) and d != 1 for d in kind.shape):
        raise ValueError(f"a condition has shape {list(kind.shape)}, must have one element")


def check_given(given: Types, wanted: Sequence[TensorType]) -> None:
    """Check that values fit the inputs of a body: number, dtypes, known extents.

    Raises:
        ValueError: when they don't.
    """
    if len(given) != len(wanted):
        raise ValueError(
            f"a body of {plural(len(wanted), 'input')} is given {plural(len(given), 'value')}"
        )
    for index, (a, b) in enumerate(zip(given, wanted, strict=True)):
        if a is None or a.dtype is not b.dtype:
            raise ValueError(f"input {index} of a body is {b.dtype}, but is given {a}")
        if b.shape is not None and a.shape is not None:
            fits = len(a.shape) == len(b.shape) and all(
                not isinstance(y, int) or not isinstance(x, int) or x == y
                for x, y in zip(a.shape, b.shape, strict=True)
            )
            if not fits:
                raise ValueError(f"input {index} of a body is {b}, but is given {a}")
