"""NNAPI's operations as schemas/nnapi has them, and which of their forms an operation takes.

An operation lists its operands by position; what a position means depends on how many there are and
on their types. ``match`` finds it out once: the rest of the package then asks for operands by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from nnconv.errors import plural
from nnconv.formats.nnapi.types import OperandCode, OperationCode
from nnconv.formats.nnapi.wire import Graph, Operation
from nnconv.schemas import read_schema

NO_VALUE = "no_value"
"""How an input may be left out without those behind it."""

SCALAR_RANKS = (0, 0)
"""The ranks of a scalar."""


class OperandSpec:
    """A formal operand.

    Attributes:
        name: what the tables call it.
        var: the variable of the signatures that is its type; empty where ``types`` says it.
        types: the feature level that each type needs here; None where any type will do.
        rank: least and greatest rank, None for no bound; None where nothing is said.
        dims: extents as numbers or names; None where they depend on more.
        image: whether ``dims`` are in another order where the flag for NCHW is set.
        values: the numbers that a scalar may be; None for any.
        omit: ``trailing``: it and all behind it may be left off; ``no_value``: it may have no
            value; empty: it is needed.
        default: what one left out means.
        level: the feature level that giving it needs.
        repeat: whether it stands for a run of operands.
        unmerged: whether an operation that merges its outputs lacks it.
        quant: scale and zero point that an output must have, by type or ``any``.
    """

    __slots__ = (
        "default", "dims", "image", "level", "name", "omit", "quant", "rank", "repeat", "types",
        "unmerged", "values", "var",
    )  # fmt: skip

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.name: str = source["name"]
        self.var: str = source.get("var", "")
        types: Mapping[str, int] = source.get("types", {})
        self.types: dict[OperandCode, int] | None = (
            None if "any" in types else {OperandCode[name]: n for name, n in types.items()}
        )
        rank = source.get("rank")
        self.rank: tuple[int, int | None] | None = (
            SCALAR_RANKS if rank == "scalar" else None if rank is None else (rank[0], rank[1])
        )
        dims = source.get("dims")
        self.dims: tuple[int | str, ...] | None = None if dims is None else tuple(dims)
        self.image: bool = source.get("image", False)
        values = source.get("values")
        self.values: tuple[int, ...] | None = None if values is None else tuple(values)
        self.omit: str = source.get("omit", "")
        self.default: Any = source.get("default")
        self.level: int = source.get("level", 1)
        self.repeat: bool = source.get("repeat", False)
        self.unmerged: bool = source.get("unmerged", False)
        self.quant: dict[str, tuple[float, int]] = {
            kind: (scale, int(point)) for kind, (scale, point) in source.get("quant", {}).items()
        }

    def __repr__(self) -> str:
        return f"<OperandSpec {self.name}>"


class Variant:
    """One way of listing an operation's inputs.

    Attributes:
        name: ``default``, ``implicit_padding``, ...
        counts: how many inputs there may be; empty where ``least`` says it.
        least: the least number of inputs where any greater one will do.
        level: the feature level that it needs.
        layout: the position of the flag for NCHW; None without one.
        inputs: the formal inputs.
        by_name: these by their names.
        defaults: the trailing inputs that may be dropped where they are constants equal to these.
        default_start: position of the first of them.
        pair: positions of two of them that only go together.
    """

    __slots__ = (
        "by_name", "counts", "default_start", "defaults", "inputs", "layout", "least", "level",
        "name", "pair",
    )  # fmt: skip

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.name: str = source["name"]
        self.counts: tuple[int, ...] = tuple(source.get("counts", ()))
        self.least: int | None = source.get("least")
        self.level: int = source.get("level", 1)
        self.layout: int | None = source.get("layout")
        self.inputs = tuple(OperandSpec(entry) for entry in source["inputs"])
        self.by_name = {formal.name: formal for formal in self.inputs}
        dropped = source.get("defaults", {})
        self.defaults: tuple[Any, ...] = tuple(dropped.get("values", ()))
        self.default_start: int = dropped.get("from", 0)
        self.pair: tuple[int, ...] = tuple(dropped.get("keep_pair", ()))

    def takes(self, count: int) -> bool:
        """Whether it can have so many inputs."""
        return count in self.counts if self.least is None else count >= self.least

    def specs(self, count: int) -> list[OperandSpec]:
        """The formal input at each of ``count`` positions."""
        return _spread(self.inputs, count)

    def __repr__(self) -> str:
        return f"<Variant {self.name}>"


class Signature:
    """A combination of types that an operation takes.

    Attributes:
        level: the feature level that it needs.
        types: the type of each variable.
    """

    __slots__ = ("level", "types")

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.level: int = source["level"]
        self.types = {var: OperandCode[t] for var, t in source.items() if var != "level"}


class OperationSpec:
    """An operation of NNAPI.

    Attributes:
        name: its name.
        code: its number.
        level: the feature level that introduced it.
        variants: the ways of listing its inputs.
        outputs: the formal outputs.
        output_counts: how many outputs there may be; empty: as many as are listed.
        signatures: the combinations of types that it takes; each names all variables.
        rules: what else must hold; schemas/nnapi/ops.json explains the kinds under ``rules``.
        broadcast: whether its tensors are broadcast together.
        zero_sized: whether it takes tensors without elements.
        no_value: whether it takes operands that are left out.
    """

    __slots__ = (
        "broadcast", "code", "level", "name", "no_value", "output_counts", "outputs", "rules",
        "signatures", "variants", "zero_sized",
    )  # fmt: skip

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.name: str = source["name"]
        self.code = OperationCode(source["code"])
        self.level: int = source["level"]
        self.variants = tuple(Variant(entry) for entry in source["variants"])
        self.outputs = tuple(OperandSpec(entry) for entry in source["outputs"])
        self.output_counts: tuple[int, ...] = tuple(source.get("output_counts", ()))
        self.signatures = tuple(Signature(entry) for entry in source["signatures"])
        self.rules: tuple[dict[str, Any], ...] = tuple(source["rules"])
        self.broadcast: bool = source.get("broadcast", False)
        self.zero_sized: bool = source.get("zero_sized", False)
        self.no_value: bool = source.get("no_value", False)

    def output_specs(self, count: int) -> list[OperandSpec] | None:
        """The formal output at each of ``count`` positions; None if there can't be so many."""
        if any(spec.repeat for spec in self.outputs):
            return _spread(self.outputs, count) if count else None
        counts = self.output_counts or (len(self.outputs),)
        if count not in counts:
            return None
        specs = list(self.outputs)
        if any(spec.unmerged for spec in specs) and count % 2:  # states come in pairs
            specs = [spec for spec in specs if not spec.unmerged]
        return specs[:count]

    def allowed_counts(self) -> str:
        """The numbers of inputs that its variants take, for messages."""
        least = [v.least for v in self.variants if v.least is not None]
        counts = sorted({n for v in self.variants for n in v.counts})
        return ", ".join([*map(str, counts), *(f"{n} and more" for n in least)])

    def __repr__(self) -> str:
        return f"<OperationSpec {self.name}>"


class Match:
    """What an operation's operands are.

    Attributes:
        spec: the operation.
        variant: how it lists its inputs.
        signature: its combination of types.
        inputs, outputs: the formal operand at each position.
        positions: where each input stands, by name; a run's is that of its first.
        tensors: the positions of the inputs that are no scalars, and those.
        level: the feature level that its form and types need; rules may ask for more.
        reason: what asks for that level.
    """

    __slots__ = (
        "inputs", "level", "outputs", "positions", "reason", "signature", "spec", "tensors",
        "variant",
    )  # fmt: skip

    def __init__(
        self,
        spec: OperationSpec,
        variant: Variant,
        signature: Signature,
        inputs: Sequence[OperandSpec],
        outputs: Sequence[OperandSpec],
    ) -> None:
        self.spec = spec
        self.variant = variant
        self.signature = signature
        self.inputs = inputs
        self.outputs = outputs
        self.positions = {inputs[place].name: place for place in reversed(range(len(inputs)))}
        self.tensors = [
            (place, formal) for place, formal in enumerate(inputs) if formal.rank != SCALAR_RANKS
        ]
        self.level = spec.level
        self.reason = spec.name
        self._need(variant.level, f"its form {variant.name}")
        types = ", ".join(t.name for t in signature.types.values())
        self._need(signature.level, f"{spec.name} of {types}")
        for operand in (*inputs, *outputs):
            self._need(operand.level, f"operand {operand.name}")

    def _need(self, level: int, reason: str) -> None:
        if level > self.level:
            self.level, self.reason = level, reason

    def need_type(self, operand: OperandSpec, kind: OperandCode) -> None:
        """Count the level that a type needs at an operand that no signature speaks of."""
        if operand.types is not None and not operand.var:
            self._need(operand.types[kind], f"operand {operand.name} of {kind.name}")

    def position(self, name: str) -> int | None:
        """Where an input stands; None if it is left off."""
        return self.positions.get(name)


class MismatchError(Exception):
    """An operation has a form that NNAPI doesn't know; the text says what and what is allowed."""


@cache
def _source() -> dict[str, Any]:
    table: dict[str, Any] = read_schema("nnapi/ops.json")
    table["by_code"] = {entry["code"]: entry for entry in table["operations"]}
    return table


@cache
def spec_of(code: OperationCode) -> OperationSpec:
    """The entry of an operation."""
    return OperationSpec(_source()["by_code"][int(code)])


@cache
def type_levels() -> dict[OperandCode, int]:
    """The feature level that each operand type needs by itself."""
    return {OperandCode[name]: level for name, level in _source()["type_levels"].items()}


def rule_kinds() -> dict[str, str]:
    """Each kind of rule with what it says."""
    kinds: dict[str, str] = _source()["rules"]
    return kinds


def match(operation: Operation, graph: Graph) -> Match:
    """Find the variant and the signature of an operation.

    Raises:
        MismatchError: there is none.
    """
    operands = graph.operands
    key = (
        operation.code,
        tuple([operands[i].type for i in operation.inputs]),
        tuple([operands[i].type for i in operation.outputs]),
    )
    found = _matches.get(key)
    if found is None:
        found = _match(operation, graph)
        if len(_matches) < _MOST_MATCHES:
            _matches[key] = found
    return found


_MOST_MATCHES = 2000
"""So many forms are kept in mind; a model has a few dozen."""

_matches: dict[tuple[OperationCode, tuple[OperandCode, ...], tuple[OperandCode, ...]], Match] = {}


def _match(operation: Operation, graph: Graph) -> Match:
    spec = spec_of(operation.code)
    count = len(operation.inputs)
    variants = [variant for variant in spec.variants if variant.takes(count)]
    if not variants:
        raise MismatchError(f"{plural(count, 'input')}, allowed are {spec.allowed_counts()}")
    outputs = spec.output_specs(len(operation.outputs))
    if outputs is None:
        allowed = spec.output_counts or (len(spec.outputs),)
        raise MismatchError(
            f"{plural(len(operation.outputs), 'output')}, allowed are "
            f"{', '.join(map(str, allowed))}"
        )
    refusals = []
    for variant in variants:
        inputs = variant.specs(count)
        try:
            return _typed(spec, variant, operation, graph, inputs=inputs, outputs=outputs)
        except MismatchError as error:
            refusals.append(error)
    raise refusals[0]


def _typed(
    spec: OperationSpec,
    variant: Variant,
    operation: Operation,
    graph: Graph,
    *,
    inputs: list[OperandSpec],
    outputs: list[OperandSpec],
) -> Match:
    """The match with a variant, if the operands' types allow it."""
    bound: dict[str, OperandCode] = {}
    sides = (("input", inputs, operation.inputs), ("output", outputs, operation.outputs))
    for side, specs, indices in sides:
        for position, (formal, index) in enumerate(zip(specs, indices, strict=True)):
            kind = graph.operands[index].type
            allowed = _allowed(spec, formal, bound)
            if allowed is not None and kind not in allowed:
                names = ", ".join(sorted(t.name for t in allowed))
                raise MismatchError(
                    f"{side} {position} ({formal.name}, operand {index}) is {kind.name}, "
                    f"allowed {'is' if len(allowed) == 1 else 'are'} {names}"
                )
            if formal.var:
                bound[formal.var] = kind
    signature = next(s for s in spec.signatures if bound.items() <= s.types.items())
    found = Match(spec, variant, signature, inputs, outputs)
    for _, specs, indices in sides:
        for formal, index in zip(specs, indices, strict=True):
            found.need_type(formal, graph.operands[index].type)
    return found


def _allowed(
    spec: OperationSpec, formal: OperandSpec, bound: Mapping[str, OperandCode]
) -> set[OperandCode] | None:
    """The types that an operand may have beside those of the operands before it; None for any."""
    if not formal.var:
        return None if formal.types is None else set(formal.types)
    return {
        signature.types[formal.var]
        for signature in spec.signatures
        if all(signature.types[var] is kind for var, kind in bound.items())
    }


def _spread(specs: Sequence[OperandSpec], count: int) -> list[OperandSpec]:
    """Formal operands by position, where one of them may stand for a run."""
    run = next((i for i, spec in enumerate(specs) if spec.repeat), None)
    if run is None:
        return list(specs[:count])
    behind = len(specs) - run - 1
    return [
        *specs[:run],
        *[specs[run]] * (count - run - behind),
        *specs[len(specs) - behind :],
    ]
