"""The base of all ops: frozen, typed, self-describing.

An op class says everything about itself: its attributes (fields), its operands with the element
types that each takes, how quantization acts on it, how it behaves when its data is transposed, and
``infer``. The ops themselves live in ``nnconv.ops``, one file a family.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, dataclass_transform

from nnconv.ir.dtype import ANY, DType
from nnconv.ir.types import Shape, TensorType

Types: TypeAlias = Sequence[TensorType | None]
"""The types of a node's inputs, None where an optional operand is absent."""

Perm: TypeAlias = tuple[int, ...]
"""A transpose: new dimension i is old dimension perm[i]."""


class Layout(enum.Enum):
    """Where a spatial op has its channels.

    The names are those of 2-D; any spatial rank is meant.
    """

    NHWC = "NHWC"
    NCHW = "NCHW"


class Activation(enum.Enum):
    """An activation fused into an op; it acts on the op's real-valued result."""

    NONE = "none"
    RELU = "relu"
    RELU6 = "relu6"
    RELU_N1_TO_1 = "relu_n1_to_1"
    RELU_0_TO_1 = "relu_0_to_1"
    TANH = "tanh"
    SIGMOID = "sigmoid"

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lower and upper bound of a clamping activation; None for the others."""
        return _BOUNDS.get(self)


_BOUNDS = {
    Activation.RELU: (0.0, float("inf")),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
    Activation.RELU_0_TO_1: (0.0, 1.0),
}


class LayoutKind(enum.Enum):
    """How an op meets a change of layout."""

    IMPLICIT = "implicit"
    """It fixes a layout, given by its ``layout`` field."""

    TRANSPARENT = "transparent"
    """Elementwise with broadcasting: any order of dimensions will do."""

    ATTRIBUTE = "attribute"
    """It can follow a transpose once its axes are remapped (``permute``)."""

    TERMINATE = "terminate"
    """Its meaning is tied to the order of dimensions."""


class QuantRule(enum.Enum):
    """What an op does when its operands or results are quantized."""

    REAL = "real"
    """The real-valued op on the dequantized operands, quantized to the result's parameters."""

    CODES = "codes"
    """It moves or compares codes; operand and result have the same parameters."""

    EXACT = "exact"
    """It works on the stored numbers themselves, as its docstring says."""


class Role(enum.Enum):
    """What an operand is to its op."""

    DATA = "data"
    WEIGHT = "weight"
    BIAS = "bias"
    INDEX = "index"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Operand:
    """One formal operand.

    Attributes:
        name: as the docstring calls it.
        types: the element types that it may have.
        role: what it is to the op.
        optional: whether it may be absent (None in its place).
        variadic: whether it stands for any number of operands; only the last one may.
    """

    name: str
    types: frozenset[DType] = ANY
    role: Role = Role.DATA
    optional: bool = False
    variadic: bool = False


_INDEX_TYPES = frozenset({DType.INT32, DType.INT64, DType.INT16, DType.INT8, DType.UINT8})


def index_operand(name: str) -> Operand:
    """An optional operand that gives at run time what an attribute would give beforehand."""
    return Operand(name, _INDEX_TYPES, Role.INDEX, optional=True)


@dataclass(frozen=True, slots=True)
class Permuted:
    """An op rewritten for transposed data.

    Attributes:
        op: the op to use.
        operands: for each input, the transpose that it must have had, or None to leave it as it is.
            An input of lower rank than its transpose is first given leading extents of 1.
        results: for each result, the transpose that it comes out with, or None when it is
            unchanged.
        order: which input each operand of the new op is; None: they stay in order. ``operands``
            goes by the inputs as they were.
    """

    op: Op
    operands: tuple[Perm | None, ...]
    results: tuple[Perm | None, ...]
    order: tuple[int, ...] | None = None


class Op:
    """Base of all ops. Subclasses with attributes are declared with ``@op_class``."""

    operands: ClassVar[tuple[Operand, ...]] = ()
    layout_kind: ClassVar[LayoutKind] = LayoutKind.TERMINATE
    quant_rule: ClassVar[QuantRule] = QuantRule.REAL
    draws: ClassVar[bool] = False
    """Whether it draws random numbers: its results differ from run to run."""
    _defaults: ClassVar[dict[str, Any]] = {}
    """The attributes in order of declaration, each with its default, or ``_REQUIRED``."""
    _required: ClassVar[frozenset[str]] = frozenset()
    """Those without a default."""

    def __init__(self, **attributes: Any) -> None:
        """Take the attributes by name.

        Raises:
            TypeError: one is missing, or isn't the op's.
        """
        values = {**self._defaults, **attributes}
        if len(values) > len(self._defaults):
            wrong = [name for name in attributes if name not in self._defaults]
            raise TypeError(f"{self.name} has no attribute {', '.join(wrong)}")
        if not self._required <= attributes.keys():
            missing = [name for name in values if name in self._required - attributes.keys()]
            raise TypeError(f"{self.name} lacks {', '.join(missing)}")
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self.name}.{name} can't change: `replace` makes another op")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self.name}.{name} can't go")

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        """Result types from the operand types.

        Dtypes and shapes; quantization only where it must equal an operand's.

        Raises:
            ValueError: when the operands don't fit the op; the text says what was seen and allowed.
        """
        raise TypeError(f"{self.name} declares no infer")

    def infer_node(self, types: Types, bodies: Sequence[Any]) -> tuple[TensorType, ...]:
        """Result types of a node; ops with bodies (graphs) tell them from these.

        Raises:
            ValueError: when operands or bodies don't fit the op.
        """
        return self.infer(types)

    def permute(self, perm: Perm, types: Types) -> Permuted | None:
        """The op for data transposed by ``perm``, or None if it can't follow.

        ``perm`` has the main operand's rank; ``types`` are the operand types before the transpose.
        """
        if self.layout_kind is not LayoutKind.TRANSPARENT:
            return None
        ranks = [t.rank for t in types if t is not None]
        if any(rank is None or rank > len(perm) for rank in ranks):
            return None
        operands = tuple(perm if t is not None else None for t in types)
        count = _RESULT_COUNTS.get(type(self))
        if count is None:
            count = _RESULT_COUNTS[type(self)] = len(self.infer(types))
        return Permuted(self, operands, (perm,) * count)

    def permute_back(self, perm: Perm, types: Types) -> Permuted | None:
        """The op whose results all come out transposed by ``perm``, or None if there is none.

        ``types`` are the operand types before any transpose.
        """
        permuted = self.permute(perm, types)
        if permuted is None or any(result != perm for result in permuted.results):
            return None
        return permuted

    def absorb(self, index: int, perm: Perm, types: Types) -> Op | None:
        """The op of the same results that takes operand ``index`` transposed by ``perm``.

        None if there is none. ``types`` are the operand types before any transpose.
        """
        return None

    def specialize(
        self, known: Sequence[tuple[int, ...] | None], types: Types
    ) -> tuple[Op, frozenset[int]]:
        """The op with index operands turned into the attributes that they stand in for.

        ``known`` has the elements of each operand, None where they aren't known. Gives the op, and
        which operands it no longer reads.
        """
        changes: dict[str, Any] = {}
        taken = set()
        for index in self.setting_places():
            operand, values = self.operands[index], known[index] if index < len(known) else None
            if values is None or getattr(self, operand.name, 0) is not None:
                continue
            if operand.name in _SINGLE and len(values) != 1:
                continue
            if operand.name in _AXES:
                rank = operand_type(types, 0).rank
                if rank is None or any(not -rank <= v < rank for v in values):
                    continue
                numbers = tuple(v % rank for v in values)
            else:
                numbers = values
            changes[operand.name] = numbers[0] if operand.name in _SINGLE else numbers
            taken.add(index)
        return (self.replace(**changes) if changes else self), frozenset(taken)

    def role(self, index: int) -> Role:
        """What operand number ``index`` is for; the last declared one may stand many times."""
        return self.operands[min(index, len(self.operands) - 1)].role

    @classmethod
    def places_of(cls, role: Role) -> tuple[int, ...]:
        """Which of the formal operands have a role."""
        return tuple(i for i, operand in enumerate(cls.operands) if operand.role is role)

    @classmethod
    @cache
    def setting_places(cls) -> tuple[int, ...]:
        """Which of the formal operands may be attributes instead."""
        return tuple(i for i in cls.places_of(Role.INDEX) if cls.operands[i].optional)

    @property
    def name(self) -> str:
        """The op's name: its class name."""
        return type(self).__name__

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Names of the attributes, in order of declaration."""
        return tuple(cls._defaults)

    def attributes(self) -> dict[str, Any]:
        """Attribute values by name."""
        return dict(self.__dict__)

    def replace(self, **changes: Any) -> Self:
        """The same op with some attributes changed."""
        return type(self)(**{**self.attributes(), **changes})

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, n) == getattr(other, n) for n in self.field_names())

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, n) for n in self.field_names())))

    def __repr__(self) -> str:
        values = ", ".join(f"{n}={_show(getattr(self, n))}" for n in self.field_names())
        return f"{self.name}({values})"


_AXES = frozenset({"axes", "axis", "perm"})
"""Index operands that may count from the end, where their attributes don't."""

_SINGLE = frozenset({"axis", "depth", "k", "length", "num_segments", "step"})
"""Index operands whose attribute is one number."""


_RESULT_COUNTS: dict[type[Op], int] = {}
"""How many results the transparent ops have that were asked already."""


_REQUIRED = object()
"""In the place of a default: there is none."""


OpType = TypeVar("OpType", bound=Op)


def _show(value: object) -> str:
    return str(value.name) if isinstance(value, enum.Enum) else repr(value)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def op_class(cls: type[OpType]) -> type[OpType]:
    """Declare an op class with attributes, as by a frozen, keyword-only dataclass.

    All its methods are ``Op``'s own: generated ones cost ten times the class itself, and most runs
    make few ops of most classes they load.
    """
    defaults: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        defaults.update(vars(base).get("_defaults", {}))
    for name, kind in vars(cls).get("__annotations__", {}).items():
        if "ClassVar" not in str(kind):
            defaults[name] = getattr(cls, name, _REQUIRED)
    cls._defaults = defaults
    cls._required = frozenset(name for name in defaults if defaults[name] is _REQUIRED)
    return cls


def require_rank(shape: Shape, rank: int, what: str) -> tuple[Any, ...] | None:
    """The shape if its rank is ``rank``; None if the rank is unknown.

    Raises:
        ValueError: naming ``what`` when the rank is another.
    """
    if shape is not None and len(shape) != rank:
        raise ValueError(f"{what} has rank {len(shape)}, must have {rank}")
    return shape


def require_one_type(types: Types) -> None:
    """Refuse operands that are numbers of several types; codes are what their parameters say.

    Raises:
        ValueError: when there are several types, not all of codes.
    """
    there = [t for t in types if t is not None]
    for other in there[1:]:
        if other.dtype is not there[0].dtype and not (there[0].quant and other.quant):
            raise ValueError(
                f"operands are {there[0].dtype} and {other.dtype}, must be of one type"
            )


def require_one_kind(types: Types) -> None:
    """Refuse floats beside integers that are no codes.

    Raises:
        ValueError: when there are both.
    """
    there = [t for t in types if t is not None]
    for other in there[1:]:
        first = there[0]
        if other.dtype.is_float is not first.dtype.is_float and not (first.quant or other.quant):
            raise ValueError(f"operands are {first.dtype} and {other.dtype}, must be of one kind")


def operand_type(types: Types, index: int) -> TensorType:
    """The type of a required operand.

    Raises:
        ValueError: when it is absent.
    """
    if index >= len(types) or types[index] is None:
        raise ValueError(f"operand {index} is missing")
    found = types[index]
    assert found is not None
    return found
