"""An operation's inputs in order, from inputs by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from nnconv.formats.nnapi.table import OperandSpec, OperationSpec, Variant, spec_of
from nnconv.formats.nnapi.types import SCALARS, OperandCode, OperationCode
from nnconv.formats.nnapi.wire import Operand

Given: TypeAlias = "int | float | bool | Sequence[int] | None"
"""The index of an operand (of a class of its own), a number, a run of indices, or no value."""


class Form(NamedTuple):
    """How an operation lists its inputs: what each is, its type, and what was given."""

    formals: list[OperandSpec]
    entries: list[tuple[OperandCode, Given]]


def form_of(
    code: OperationCode,
    given: Mapping[str, Given],
    operands: Sequence[Operand],
    outputs: Sequence[int],
) -> Form:
    """The inputs of an operation in order, without trailing ones that say the default.

    ``given`` are inputs by name: what isn't there is left off, or has no value. Operands are
    indices of their own class among ``operands``, anything else is a number for a scalar, whose
    type may follow from that of the ``outputs``.
    """
    spec = spec_of(code)
    variant = _variant(spec, given)
    listed = _trimmed(variant, given)
    bound = _bound(spec, variant, given, operands, outputs)
    entries: list[tuple[OperandCode, Given]] = []
    formals: list[OperandSpec] = []
    for formal in listed:
        kind = _type_of(formal, bound)
        if formal.repeat:
            run = given.get(formal.name) or ()
            assert isinstance(run, Sequence)
            entries += ((kind, index) for index in run)
            formals += [formal] * len(run)
            continue
        formals.append(formal)
        if formal.name in given:
            entries.append((kind, given[formal.name]))
        else:
            entries.append((kind, formal.default))
    return Form(formals, entries)


def _variant(spec: OperationSpec, given: Mapping[str, Given]) -> Variant:
    """The way of listing inputs that knows all the names given and lacks none that it needs."""
    for variant in spec.variants:
        names = {formal.name for formal in variant.inputs}
        needed = {formal.name for formal in variant.inputs if not formal.omit}
        if needed <= set(given) <= names:
            return variant
    raise AssertionError(f"{spec.name} isn't given by {sorted(given)}")


def _trimmed(variant: Variant, given: Mapping[str, Given]) -> list[OperandSpec]:
    """The formal inputs that are listed: as few as there may be."""
    inputs = variant.inputs
    if any(formal.repeat for formal in inputs):
        return list(inputs)
    last = max(
        i + 1
        for i, formal in enumerate(inputs)
        if formal.omit != "trailing"
        or (formal.name in given and not _is_default(given[formal.name], formal))
    )
    count = min(n for n in variant.counts if n >= last)
    return list(inputs[:count])


def _is_default(given: Given, formal: OperandSpec) -> bool:
    return type(given) in (int, float, bool) and given == formal.default


def _bound(
    spec: OperationSpec,
    variant: Variant,
    given: Mapping[str, Given],
    operands: Sequence[Operand],
    outputs: Sequence[int],
) -> dict[str, OperandCode]:
    """The type of each variable of the signatures, as far as the operands tell it."""
    bound: dict[str, OperandCode] = {}
    for formal in variant.inputs:
        entry = given.get(formal.name)
        if formal.repeat and isinstance(entry, Sequence) and entry:
            entry = entry[0]
        if formal.var and type(entry) not in (int, float, bool, type(None)):
            assert isinstance(entry, int)
            bound.setdefault(formal.var, operands[entry].type)
    for formal, index in zip(spec.output_specs(len(outputs)) or (), outputs, strict=False):
        if formal.var:
            bound.setdefault(formal.var, operands[index].type)
    fits = [s for s in spec.signatures if all(s.types.get(v) is kind for v, kind in bound.items())]
    found = fits or [s for s in spec.signatures if s.types.get("T") is bound.get("T")]
    floats = [f.var for f in variant.inputs if type(given.get(f.name)) is float]
    # A float is a factor where a whole number is an extent.
    found.sort(key=lambda s: any(s.types.get(var) is OperandCode.INT32 for var in floats))
    for signature in (*found, *spec.signatures):
        for var, kind in signature.types.items():
            bound.setdefault(var, kind)
    return bound


def _type_of(formal: OperandSpec, bound: Mapping[str, OperandCode]) -> OperandCode:
    if formal.var:
        return bound[formal.var]
    types = formal.types or {OperandCode.TENSOR_FLOAT32: 1}
    scalars = [kind for kind in types if kind in SCALARS]
    return scalars[0] if scalars else next(iter(types))
