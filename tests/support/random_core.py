"""What random graphs of all formats have in common: choices, and how their results are compared.

How far two right answers may lie apart in a graph of many quantized ops depends on the graph: one
step behind a rounding grows in what follows, or flips a comparison. So the bounds are measured: the
reference runs several times with one in six of its quantized numbers off by a step and every float
off in its last bits; results may differ by a step more, floats by twice what that does. Elements of
integer and boolean results that it changes aren't compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from nnconv.backends.reference.executor import run_node

from nnconv.ir import Model, Value
from nnconv.ir.op import QuantRule

HALVES = 1000
"""How many times coarser float16 is, where some runtimes compute in it and some around it."""

Choice = TypeVar("Choice")


class UnfitError(Exception):
    """The net has nothing that an op could take, or the op nothing to give."""


class Example:
    """Something of a net that has an example of its content."""

    data: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def rank(self) -> int:
        return self.data.ndim


class RandomNet(ABC):
    """A random graph under construction.

    Attributes:
        seed: what it follows from.
        rng: where all choices come from.
        log: a line a node.
    """

    def __init__(self, seed: int, *more: int) -> None:
        self.seed = seed
        self.rng = np.random.default_rng([seed, *more] if more else seed)
        self.log: list[str] = []

    @property
    @abstractmethod
    def traits(self) -> str:
        """What messages say of it."""

    def one(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def late(self, fit: Sequence[Choice]) -> Choice:
        """One of those that fit; late ones more often.

        Raises:
            UnfitError: none does.
        """
        if not fit:
            raise UnfitError
        weights = 1.5 ** np.minimum(np.arange(len(fit)), 20)
        return fit[int(self.rng.choice(len(fit), p=weights / weights.sum()))]

    def grow(self, add_random: Callable[[Any], None], most: int, *, tries: int = 200) -> None:
        """Add 2 to ``most`` random nodes, as far as so many tries give them."""
        wanted = self.number(2, most)
        for _ in range(tries):
            if len(self.log) >= wanted:
                return
            try:
                add_random(self)
            except UnfitError:
                continue


Net = TypeVar("Net", bound=RandomNet)
Drawn = TypeVar("Drawn")


def held(
    seed: int,
    draw: Callable[[int], tuple[Net, Drawn]],
    check: Callable[[Net, Drawn], None],
) -> Net:
    """The net of a seed, which was drawn and checked.

    Raises:
        AssertionError: that failed; the text has the net.
    """
    try:
        net, drawn = draw(seed)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error
    try:
        check(net, drawn)
    except Exception as error:
        text = str(error) if isinstance(error, AssertionError) else repr(error)
        lines = "\n  ".join(net.log)
        raise AssertionError(f"seed {seed} ({net.traits}): {text}\n  {lines}") from error
    return net


# ----------------------------------------------------------------------------------- comparing


def run_shaken(
    model: Model, feeds: Sequence[np.ndarray], seed: int, *, share: float
) -> list[np.ndarray]:
    """The reference's results when a share of all roundings is off by a step."""
    rng = np.random.default_rng(seed)
    graph = model.graph
    memory: dict[Value, np.ndarray] = dict(zip(graph.inputs, feeds, strict=True))

    def content(value: Value) -> np.ndarray:
        return value.data if value.data is not None else memory[value]

    for node in graph.nodes:
        results = run_node(node, [None if v is None else content(v) for v in node.inputs])
        if node.op.quant_rule is QuantRule.REAL or results[0].dtype.kind == "f":
            results = [
                _shake(array, value, rng, share)
                for array, value in zip(results, node.outputs, strict=True)
            ]
        memory.update(zip(node.outputs, results, strict=True))
    return [content(v) for v in graph.outputs]


def _shake(array: np.ndarray, value: Value, rng: np.random.Generator, share: float) -> np.ndarray:
    if value.quant is not None and value.dtype.is_integer:
        low, high = value.dtype.int_range
        step = 2 if value.dtype.bits == 16 else 1  # LiteRT's tables of 16 bits are as wrong as that
        moved = array.astype(np.int64) + step * rng.choice(
            [-1, 0, 1], array.shape, p=[share / 2, 1 - share, share / 2]
        )
        return np.clip(moved, low, high).astype(array.dtype)
    if array.dtype.kind != "f":
        return array
    size = np.abs(array[np.isfinite(array)]).max(initial=0)
    noise = rng.uniform(-1, 1, array.shape) * (1e-6 * np.abs(array) + 3e-7 * size)
    if array.dtype == np.float16:
        noise *= HALVES
    return (array + noise).astype(array.dtype)


def compare(
    label: str,
    value: Value,
    actual: np.ndarray,
    wanted: np.ndarray,
    shaken: Sequence[np.ndarray],
) -> None:
    """Assert that two results are as near as shaken ones are.

    Raises:
        AssertionError: they aren't.
    """
    assert actual.dtype == wanted.dtype, f"{label}: {actual.dtype}, not {wanted.dtype}"
    assert actual.shape == wanted.shape, f"{label}: {actual.shape}, not {wanted.shape}"
    quantized = value.quant is not None and value.dtype.is_integer
    if quantized or actual.dtype.kind == "f":
        a, w = actual.astype(np.float64), wanted.astype(np.float64)
        spread = [np.abs(s.astype(np.float64) - w) for s in shaken]
        moved = np.nan_to_num(np.max(spread, axis=0), nan=np.inf) if spread else np.zeros(w.shape)
        least = (
            (2.0 if value.dtype.bits == 16 else 1.0)
            if quantized
            else 3e-6 * max(np.abs(w[np.isfinite(w)]).max(initial=0), 0.05)
        )
        least *= HALVES if actual.dtype == np.float16 else 1
        bound = (1 if quantized else 2) * moved[np.isfinite(moved)].max(initial=0) + least
        both = np.isfinite(a) & np.isfinite(w) & np.isfinite(moved)
        same = (a == w) | (np.isnan(a) & np.isnan(w)) | ~np.isfinite(moved)
        with np.errstate(invalid="ignore"):
            bad = np.where(both, np.abs(a - w) > bound, ~same)
    else:
        loose = np.any([s != wanted for s in shaken], axis=0)
        bad = (actual != wanted) & ~loose
        bound = 0
        if loose.any() and bad.sum() <= 2 + loose.sum():
            bad = np.zeros_like(bad)
    if bad.any():
        at = tuple(np.argwhere(bad)[0])
        raise AssertionError(
            f"{label}: {bad.sum()} of {bad.size} differ by more than {bound:g}; at "
            f"{[int(i) for i in at]} {actual[at]!s}, wanted {wanted[at]!s}"
        )


def compare_ways(
    model: Model,
    feeds: Sequence[np.ndarray],
    reference: Sequence[np.ndarray],
    ways: Mapping[str, Sequence[np.ndarray]],
    *,
    label: str = "",
    shakes: int,
    twins: Mapping[str, Sequence[np.ndarray]] | None = None,
) -> None:
    """Compare each way's results with the reference's; before it fails, with many more shaken runs.

    ``twins`` are other results of some ways: nothing is asked of a way that its twin fails too.

    Raises:
        AssertionError: some differ.
    """
    twins = twins or {}
    for count in (shakes, 8 * shakes):
        # the more runs, the more of them are shaken hard
        shaken = [
            run_shaken(model, feeds, i, share=0.16 if i < 2 * shakes else 0.6) for i in range(count)
        ]
        failures = []
        for way, found in ways.items():
            for i, value in enumerate(model.outputs):
                runs = [run[i] for run in shaken]
                name = f"{way} against reference, {value.name} {label}"
                fault = _fault(name, value, found[i], reference[i], runs)
                twin = twins.get(way)
                if fault and twin is not None:
                    excused = bool(_fault(name, value, twin[i], reference[i], runs))
                    fault = "" if excused else fault
                if fault:
                    failures.append(fault)
        if not failures:
            return
    raise AssertionError("\n".join(failures[:5]))


def _fault(
    label: str,
    value: Value,
    actual: np.ndarray,
    wanted: np.ndarray,
    shaken: Sequence[np.ndarray],
) -> str:
    try:
        compare(label, value, actual, wanted, shaken)
    except AssertionError as error:
        return str(error)
    return ""
