"""Products of matrices and tensors in the forms that only some formats have, and determinants."""

from __future__ import annotations

from collections.abc import Sequence

from nnconv.errors import plural
from nnconv.ir.dtype import FLOATS, NUMBERS, DType
from nnconv.ir.op import (
    Op,
    Operand,
    QuantRule,
    Types,
    op_class,
    operand_type,
    require_one_kind,
)
from nnconv.ir.types import Dim, Shape, TensorType, broadcast_dims, broadcast_shapes
from nnconv.ops.matmul import MatMul


@op_class
class Gemm(Op):
    """alpha * a times b + beta * c, of matrices; ``c`` broadcasts to the result.

    a is [M, K], or [K, M] with ``transpose_a``; b is [K, N], or [N, K] with ``transpose_b``.
    ONNX Gemm.
    """

    operands = (Operand("a", NUMBERS), Operand("b", NUMBERS), Operand("c", NUMBERS, optional=True))

    alpha: float = 1.0
    beta: float = 1.0
    transpose_a: bool = False
    transpose_b: bool = False

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        a, b = operand_type(types, 0), operand_type(types, 1)
        for name, kind in (("a", a), ("b", b)):
            if kind.rank not in (None, 2):
                raise ValueError(f"{name} has rank {kind.rank}, must have 2")
        product = MatMul(transpose_a=self.transpose_a, transpose_b=self.transpose_b)
        (result,) = product.infer((a, b))
        shape: Shape = result.shape if result.shape is not None else (None, None)
        offset = types[2] if len(types) > 2 else None
        if offset is not None and offset.shape is not None:
            whole = broadcast_shapes((shape, offset.shape))
            if whole is not None and len(whole) != 2:
                raise ValueError(f"c is {offset}, which doesn't broadcast to {shape}")
        return (TensorType(a.dtype, shape),)


class MatMulInteger(Op):
    """(a - a_zero_point) times (b - b_zero_point) in int32, of [..., M, K] and [..., K, N].

    A zero point is a scalar, or there is one for each row of a [M], or column of b [N].
    ONNX MatMulInteger.
    """

    operands = (
        Operand("a", frozenset({DType.INT8, DType.UINT8})),
        Operand("b", frozenset({DType.INT8, DType.UINT8})),
        Operand("a_zero_point", frozenset({DType.INT8, DType.UINT8}), optional=True),
        Operand("b_zero_point", frozenset({DType.INT8, DType.UINT8}), optional=True),
    )
    quant_rule = QuantRule.EXACT

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        (result,) = MatMul().infer(types[:2])
        return (TensorType(DType.INT32, result.shape),)


@op_class
class Einsum(Op):
    """Products of elements, summed over all indices that the result lacks.

    ``equation`` names the indices of each operand's dimensions and of the result's, as in
    "bij,bjk->bik"; "..." stands for dimensions that broadcast. It has no spaces and tells the
    result. ONNX Einsum (see ``explicit``).
    """

    operands = (Operand("terms", NUMBERS, variadic=True),)

    equation: str

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        first = operand_type(types, 0)
        require_one_kind(types)
        terms, result = self.labels([None if t is None else t.rank for t in types])
        if terms is None or result is None:
            return (TensorType(first.dtype, None),)
        extents: dict[str, Dim] = {}
        for kind, labels in zip(types, terms, strict=True):
            assert kind is not None
            assert kind.shape is not None
            for label, dim in zip(labels, kind.shape, strict=True):
                extents[label] = broadcast_dims(extents.get(label, 1), dim)
        return (TensorType(first.dtype, tuple(extents[label] for label in result)),)

    def labels(
        self, ranks: Sequence[int | None]
    ) -> tuple[list[list[str]] | None, list[str] | None]:
        """The labels of each operand's dimensions and of the result's; None: ranks aren't known.

        The dimensions of "..." are labelled "0", "1" ... from behind.

        Raises:
            ValueError: the equation is wrong, or not of operands of these ranks.
        """
        left, arrow, right = self.equation.partition("->")
        if not arrow:
            raise ValueError(f"equation {self.equation!r} tells no result")
        terms = left.split(",")
        if len(terms) != len(ranks):
            raise ValueError(f"equation {self.equation!r} is of {plural(len(terms), 'operand')}")
        if any(rank is None for rank in ranks):
            return None, None
        labels = [_labels(term, rank or 0) for term, rank in zip(terms, ranks, strict=True)]
        known = {label for operand in labels for label in operand}
        widest = max((int(label) + 1 for label in known if label.isdigit()), default=0)
        result = _labels(right, len(right.replace("...", "")) + widest)
        strange = [label for label in result if label not in known]
        if strange or len(set(result)) != len(result):
            raise ValueError(f"equation {self.equation!r}: the result repeats or invents indices")
        return labels, result


def _labels(term: str, rank: int) -> list[str]:
    head, dots, tail = term.partition("...")
    if not all(c.isascii() and c.isalpha() for c in head + tail):
        raise ValueError(f"an equation can't have the term {term!r}")
    open_dims = rank - len(head) - len(tail)
    if open_dims < 0 or (open_dims and not dots):
        raise ValueError(f"term {term!r} is of an operand of rank {rank}")
    return [*head, *(str(i) for i in reversed(range(open_dims))), *tail]


def explicit(equation: str) -> str:
    """An equation without spaces that tells its result.

    Where it doesn't, that has the indices that occur once, in the order of the alphabet, behind
    those of "...".
    """
    plain = equation.replace(" ", "")
    if "->" in plain:
        return plain
    letters = plain.replace("...", "").replace(",", "")
    once = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return f"{plain}->{'...' if '...' in plain else ''}{once}"


class Det(Op):
    """Determinants of the matrices x [..., n, n]. ONNX Det."""

    operands = (Operand("x", FLOATS),)

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        x = operand_type(types, 0)
        if x.shape is None:
            return (TensorType(x.dtype, None),)
        if len(x.shape) < 2:
            raise ValueError(f"x has rank {len(x.shape)}, must have at least 2")
        rows, columns = x.shape[-2:]
        if isinstance(rows, int) and isinstance(columns, int) and rows != columns:
            raise ValueError(f"a matrix has {plural(rows, 'row')} and {plural(columns, 'column')}")
        return (TensorType(x.dtype, x.shape[:-2]),)
