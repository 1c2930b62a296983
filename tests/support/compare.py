"""Array comparison for tests: one rule for each kind of value, and failures that can be read.

Every comparison asserts dtype and shape before values. NaN equals NaN, and an infinity equals only
the infinity of the same sign.
"""

from __future__ import annotations

import numpy as np

_SHOWN = 5
"""How many of the worst elements a failure lists."""


def assert_close(
    actual: np.ndarray, expected: np.ndarray, *, tol: float = 1e-5, label: str = ""
) -> None:
    """Assert that floats differ by at most ``tol`` times the largest finite ``abs(expected)``.

    Where that largest value is 0 (or nothing is finite), ``tol`` itself is the bound.
    """
    _assert_same_form(actual, expected, label)
    if expected.dtype.kind not in "fcV":
        raise TypeError(f"assert_close is for floats; {expected.dtype} wants another comparison")
    seen, wanted = _wide(actual), _wide(expected)
    finite = np.isfinite(wanted)
    largest = float(np.abs(wanted[finite]).max(initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        distance = np.abs(seen - wanted)
    # Where either value isn't finite, only the very same one will do.
    equal = (seen == wanted) | (np.isnan(seen) & np.isnan(wanted))
    distance = np.where(finite & np.isfinite(seen), distance, np.where(equal, 0.0, np.inf))
    bound = tol * largest
    _assert_within(distance, bound, actual, expected, f"{tol:g} of {largest:g}", label)


def assert_within_steps(
    actual: np.ndarray, expected: np.ndarray, *, steps: int = 1, label: str = ""
) -> None:
    """Assert that quantized integers differ by at most ``steps``."""
    _assert_same_form(actual, expected, label)
    if expected.dtype.kind not in "iu":
        raise TypeError(f"steps are for integers; {expected.dtype} wants another comparison")
    low, high = np.minimum(actual, expected), np.maximum(actual, expected)
    # The difference of two integers fits the unsigned type of their width, whatever wraps.
    distance = high.astype(np.uint64) - low.astype(np.uint64)
    _assert_within(distance, steps, actual, expected, f"{steps} steps", label)


def assert_same(actual: np.ndarray, expected: np.ndarray, *, label: str = "") -> None:
    """Assert that all elements are equal (0.0 equals -0.0)."""
    _assert_same_form(actual, expected, label)
    different = actual != expected
    if expected.dtype.kind in "fc":
        different &= ~(np.isnan(actual) & np.isnan(expected))
    _assert_within(different.astype(np.uint8), 0, actual, expected, "nothing", label)


def assert_match(
    actual: np.ndarray,
    expected: np.ndarray,
    *,
    quantized: bool = False,
    tol: float = 1e-5,
    steps: int = 1,
    label: str = "",
) -> None:
    """Compare by the kind of value: floats by `assert_close`, quantized integers by
    `assert_within_steps`, other integers, bools and strings by `assert_same`.
    """
    if quantized:
        assert_within_steps(actual, expected, steps=steps, label=label)
    elif expected.dtype.kind in "fcV":
        assert_close(actual, expected, tol=tol, label=label)
    else:
        assert_same(actual, expected, label=label)


def _assert_same_form(actual: np.ndarray, expected: np.ndarray, label: str) -> None:
    where = f"{label}: " if label else ""
    assert isinstance(actual, np.ndarray), f"{where}got a {type(actual).__name__}, not an array"
    assert actual.dtype == expected.dtype, f"{where}dtype {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"{where}shape {actual.shape}, expected {expected.shape}"


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _assert_within(
    distance: np.ndarray,
    bound: float,
    actual: np.ndarray,
    expected: np.ndarray,
    allowed: str,
    label: str,
) -> None:
    bad = distance > bound
    count = int(bad.sum())
    if not count:
        return
    worst = np.argsort(-distance.astype(np.float64), axis=None, kind="stable")[: min(_SHOWN, count)]
    where = f"{label}: " if label else ""
    head = f"{where}{count} of {distance.size} elements differ by more than allowed ({allowed}):"
    lines = [head]
    for flat in worst:
        place = tuple(int(i) for i in np.unravel_index(flat, distance.shape))
        lines.append(
            f"  {list(place)}: {actual[place]!s}, expected {expected[place]!s} "
            f"(distance {float(distance[place]):g})"
        )
    raise AssertionError("\n".join(lines))
