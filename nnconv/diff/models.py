"""Compares two models, or one model on two devices: both run on the same inputs."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nnconv.checks import Given, by_own_names, check_arguments
from nnconv.diff.compare import Tolerance, tolerances_of
from nnconv.diff.inputs import check_seed
from nnconv.diff.layouts import layout_between, relaid, relaid_shape, was_moved
from nnconv.diff.outcome import OutputCheck, Verification, check_output, worse
from nnconv.diff.sway import Sways, nudges_for, sways_of
from nnconv.diff.verify import (
    DEVICES,
    SUBSTITUTE,
    TIMEOUT_SECONDS,
    Jobs,
    fitted,
    one_thread,
    rounds_of,
)
from nnconv.diff.worker import Outcome
from nnconv.errors import BackendError, UsageError, plural
from nnconv.formats import detect, read_model
from nnconv.ir.graph import Model, State
from nnconv.ir.types import Shape
from nnconv.lowering import check_options, choose_signature

FilePath: TypeAlias = "str | os.PathLike[str]"


class _Side(NamedTuple):
    """One of the two models.

    Attributes:
        path: its file.
        model: what is in it, with the entry point that is compared alone.
        device: what runs it.
        options: of ``nnconv.compile``.
        states: what inputs begin with that are states of the other model; they are the last ones.
    """

    path: str
    model: Model
    device: str
    options: dict[str, Any]
    states: tuple[np.ndarray, ...] = ()


def inputs_of(path: FilePath, *, signature: str | None = None) -> list[str]:
    """The names of an entry point's inputs, and what its signature calls them."""
    model = _with_entry(read_model(path), signature)
    return [*(value.name for value in model.inputs), *model.main.input_names]


def diff_models(
    a: FilePath,
    b: FilePath,
    *,
    device_a: str | None = None,
    device_b: str | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
    input_shapes: Mapping[str, Shape] | None = None,
    signature: str | None = None,
    io_layout: str = "keep",
    seed: int = 0,
    timeout: float = TIMEOUT_SECONDS,
) -> Verification:
    """Run two models on the same inputs and compare what they give.

    Inputs and outputs belong together by name, or by place where the names differ. Where the last
    inputs of one are called as the other's states, it is run as if they were states.

    Args:
        a: a file.
        b: another, or the same again.
        device_a: what runs ``a``; the runtime of its format when None.
        device_b: likewise.
        inputs: arrays by ``a``'s names; inputs not given are random.
        input_shapes: shapes to give to inputs, by ``a``'s names.
        signature: key of the entry points to compare; the first of each when None. A file with one
            alone is taken as it is.
        io_layout: ``nhwc`` or ``nchw`` where ``b``'s image-like inputs and outputs have that layout
            and ``a``'s the other, as ``nnconv.convert`` makes them; ``keep`` where both have the
            same.
        seed: of the random inputs.
        timeout: seconds that all of it may take.

    Returns:
        The comparison, with ``a`` as the source.

    Raises:
        BackendError: a runtime crashed, hung, or can't run its model.
        InvalidModelError: a file is broken.
        UnsupportedError: a file has nodes that nnconv can't read.
        UsageError: the models' inputs or outputs don't match, a wrong option or no such device.
    """
    check_seed(seed)
    check_arguments("text or None", signature=signature, device_a=device_a, device_b=device_b)
    check_arguments("text", io_layout=io_layout)
    check_options(io_layout=io_layout)
    shapes = dict(input_shapes or {})
    first = _side(a, device_a, shapes, signature)
    places = _by_place(first, b, shapes, signature, io_layout)
    first, second = _with_states(first, _side(b, device_b, places, signature))
    _check_key(first, second, signature)
    order = _pairs(first, second, "inputs")
    results = _pairs(first, second, "outputs")
    hint = _layout_hint(first, second, order, results, io_layout)
    rounds = rounds_of(first.model, seed, _by_value(first.model, inputs or {}))
    moved = _fed_to(second, first, order, rounds, io_layout)
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryDirectory(prefix="nnconv-") as name:
        jobs = Jobs(Path(name), deadline)
        try:
            started = [
                jobs.start(side.path, side.device, fed, **_options(side))
                for side, fed in ((first, rounds), (second, moved))
            ]
            outcomes = [jobs.wait(job) for job in started]
            for side, outcome in zip((first, second), outcomes, strict=True):
                if not outcome.ran:
                    kind = UsageError if outcome.misused else BackendError
                    text = f"{side.path} can't be run: {outcome.error}"
                    raise kind(text, hint=outcome.hint or (hint if outcome.misused else ""))
            found = _compare(first, second, outcomes, results, seed, layout=io_layout)
            if nudges := nudges_for(found.outputs):
                run = partial(jobs.run, first.path, first.device, **_options(first))
                sways = sways_of(rounds, outcomes[0].results, run, nudges=nudges, seed=seed)
                found = _compare(first, second, outcomes, results, seed, sways, layout=io_layout)
        finally:
            jobs.end()
    if hint and any(check.wrong_form for check in found.outputs):
        found.notes.append(hint)
    return found


def _options(side: _Side) -> dict[str, Any]:
    return {"states": side.states, **one_thread(side.device), **side.options}


def _side(
    path: FilePath, device: str | None, shapes: Mapping[str, Shape], signature: str | None
) -> _Side:
    from nnconv.backends import device_names

    kind = detect(path)
    whole = read_model(path, input_shapes=shapes or None)
    model = _with_entry(whole, signature)
    options: dict[str, Any] = {"input_shapes": dict(shapes)} if shapes else {}
    if len(whole.signatures) > 1:
        options["signature"] = model.main.key
    runs_it = DEVICES[kind] if device is None else ",".join(device_names(device))
    return _Side(os.fspath(path), model, runs_it, options)


def _with_entry(model: Model, signature: str | None) -> Model:
    """A model with the entry point of that key alone; where it has but one, that."""
    several = len(model.signatures) > 1
    entry = choose_signature(model, signature) if several else model.main
    return replace(model, signatures=[entry])


def _check_key(first: _Side, second: _Side, signature: str | None) -> None:
    """See that an entry point of one of the models has the key.

    Raises:
        UsageError: none has.
    """
    keys = [side.model.main.key for side in (first, second)]
    if signature is not None and signature not in keys:
        choose_signature((first if keys[0] else second).model, signature)


def _by_place(
    first: _Side, b: FilePath, shapes: Mapping[str, Shape], signature: str | None, layout: str
) -> dict[str, Shape]:
    """The shapes by the other model's names, and in its layout."""
    if not shapes:
        return {}
    given = _by_value(first.model, shapes)
    first, other = _with_states(first, _side(b, None, {}, signature))
    found: dict[str, Shape] = {}
    for place, value in zip(_pairs(first, other, "inputs"), other.model.inputs, strict=True):
        ours = first.model.inputs[place]
        shape = given.get(ours.name)
        if shape is None:
            continue
        moved = was_moved(layout, (ours.shape, value.shape))
        found[value.name] = relaid_shape(shape, layout) if moved else shape
    return found


def _fed_to(
    second: _Side,
    first: _Side,
    order: Sequence[int],
    rounds: Sequence[Sequence[Sequence[np.ndarray]]],
    layout: str,
) -> list[list[list[np.ndarray]]]:
    """The first model's inputs as the second has them: their order, layout and types."""
    ends = [(first.model.inputs[i], v) for i, v in zip(order, second.model.inputs, strict=True)]
    moves = [was_moved(layout, (ours.shape, v.shape)) for ours, v in ends]
    return [
        [
            [
                fitted(relaid(arrays[i], layout) if moved else arrays[i], v.dtype, v.shape)
                for i, moved, (_, v) in zip(order, moves, ends, strict=True)
            ]
            for arrays in steps
        ]
        for steps in rounds
    ]


def _layout_hint(
    first: _Side, second: _Side, inputs: Sequence[int], outputs: Sequence[int], asked: str
) -> str:
    """What to say where an input's or output's shapes would fit if the layout were another."""
    a, b = first.model, second.model
    ends = [(a.inputs[i], v) for i, v in zip(inputs, b.inputs, strict=True)]
    ends += [(a.outputs[i], v) for i, v in zip(outputs, b.outputs, strict=True)]
    found = {layout_between(ours.shape, value.shape) for ours, value in ends} - {"", asked}
    if len(found) != 1:
        return ""
    return (
        "The second model seems to have images in the other layout: they are compared with "
        f"io-layout {found.pop()}."
    )


def _with_states(first: _Side, second: _Side) -> tuple[_Side, _Side]:
    """Both, where last inputs and outputs of one that are the other's states are states as well.

    Formats without states have them so.
    """
    return _with_states_of(first, second.model), _with_states_of(second, first.model)


def _with_states_of(side: _Side, other: Model) -> _Side:
    """A side, with its last inputs and outputs as states where they are called as the other's."""
    model, count = side.model, len(other.states)
    inputs, outputs = model.graph.inputs[-count:], model.graph.outputs[-count:]
    if not _may_have_states(model, other):
        return side
    pairs = zip(inputs, other.states, strict=True)
    if not all(value.name in (state.name, state.input.name) for value, state in pairs):
        return side
    states = tuple(
        State(value, result, fitted(state.initial, value.dtype, value.shape), state.name)
        for value, result, state in zip(inputs, outputs, other.states, strict=True)
    )
    model = replace(model, signatures=[replace(model.main, states=states)])
    return side._replace(model=model, states=tuple(state.initial for state in states))


def _may_have_states(model: Model, other: Model) -> bool:
    """Whether a model has as many more inputs and outputs as another has states."""
    count = len(other.states)
    return (
        count > 0
        and not model.states
        and len(model.inputs) == len(other.inputs) + count
        and len(model.outputs) == len(other.outputs) + count
    )


def _pairs(first: _Side, second: _Side, what: str) -> list[int]:
    """For each of the second model's inputs or outputs (``what``) the place of the first one's."""
    a, b = (getattr(side.model, what) for side in (first, second))
    if len(a) != len(b):
        message = f"the first model has {plural(len(a), what[:-1])}, the second {len(b)}"
        raise UsageError(message, hint=_states_hint(first, second))
    names = [value.name for value in a]
    if len(set(names)) == len(names) and set(names) == {value.name for value in b}:
        return [names.index(value.name) for value in b]
    return list(range(len(a)))


def _states_hint(first: _Side, second: _Side) -> str:
    """What to say of two models of which one has states, the other inputs in their place."""
    for plain, which, stateful in ((first, "first", second), (second, "second", first)):
        if _may_have_states(plain.model, stateful.model):
            names = ", ".join(state.name for state in stateful.model.states)
            return (
                f"The last inputs of the {which} one may be what the other has as states: they are "
                f"taken for these if they have their names, {names}."
            )
    return ""


def _by_value(model: Model, inputs: Mapping[str, Given]) -> dict[str, Given]:
    """What is given, by the inputs' own names where it goes by those of the signature.

    Raises:
        UsageError: there is no such input, or it is given by both of its names.
    """
    names = [value.name for value in model.inputs]
    pairs = zip(model.main.input_names, names, strict=False)
    found = by_own_names(inputs, {other: name for other, name in pairs if other not in names})
    if wrong := [name for name in found if name not in names]:
        raise UsageError(f"there is no input {', '.join(wrong)}; inputs are {', '.join(names)}")
    return found


def _compare(
    first: _Side,
    second: _Side,
    outcomes: list[Outcome],
    order: list[int],
    seed: int,
    sways: Sways | None = None,
    *,
    layout: str,
) -> Verification:
    apart = SUBSTITUTE in (first.device, second.device) and first.device != second.device

    tolerances, others = (
        tolerances_of(side.model.outputs, side.model.graph, rounds_apart=apart, curves=True)
        for side in (first, second)
    )
    for place, other in zip(order, others, strict=True):
        tolerances[place] = _wider(tolerances[place], other)
    checks: list[OutputCheck | None] = [None] * len(order)
    seeds, runs = [], 0
    notes = [
        f"{side.path} has states of the other model as its last "
        f"{plural(len(side.states), 'input')}: they begin as those do, and get in the next run "
        "what the last outputs gave"
        for side in (first, second)
        if side.states
    ]
    keys = [side.model.main.key for side in (first, second)]
    if "" not in keys and keys[0] != keys[1]:
        notes.append(f"the entry point {keys[0]!r} of the first is compared with {keys[1]!r}")
    for number, (wanted, got) in enumerate(zip(*(o.results for o in outcomes), strict=True)):
        if wanted is None or got is None:
            failed = next(o.error for o in outcomes if o.results[number] is None)
            notes.append(f"with other extents one of them fails: {failed}")
            continue
        seeds.append(seed + number)
        for step, (expected, seen) in enumerate(zip(wanted, got, strict=True)):
            runs += 1
            for place, value, array in zip(order, second.model.outputs, seen, strict=False):
                ours, wanted_one = first.model.outputs[place], expected[place]
                shapes = (wanted_one.shape, array.shape), (ours.shape, value.shape)
                if was_moved(layout, *shapes):
                    wanted_one = relaid(wanted_one, layout)
                wanted_one = fitted(wanted_one, value.dtype, value.shape)
                sway = sways[number][step][place] if sways else None
                found = check_output(ours.name, array, [wanted_one], tolerances[place], sway=sway)
                checks[place] = worse(checks[place], found)
    found_checks = [check for check in checks if check is not None]
    return Verification(
        all(check.passed for check in found_checks),
        found_checks,
        first.device,
        second.device,
        seeds,
        runs,
        notes,
        (second.path, first.path),
    )


def _wider(a: Tolerance, b: Tolerance) -> Tolerance:
    """Of two models' tolerances the one that asks less, or that knows codes where they are."""
    knows = (a.kind, b.kind) in (("exact", b.kind), ("absolute", "steps"))
    return b if knows or (a.kind == b.kind and b.bound > a.bound) else a
