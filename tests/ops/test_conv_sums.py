"""How the reference sums up what filters meet: some places at once, or each alone."""

from __future__ import annotations

import numpy as np
import pytest
from nnconv.backends.reference import conv

from nnconv.ops.conv import Conv2D
from nnconv.ops.spatial import Padding


def by_definition(x: np.ndarray, weights: np.ndarray, groups: int) -> np.ndarray:
    """Each filter against each window of its group's channels, strides of 1, no padding."""
    windows = np.lib.stride_tricks.sliding_window_view(x, weights.shape[1:3], (1, 2))
    parts = np.split(windows, groups, axis=3)
    filters = np.split(weights, groups)
    pairs = zip(parts, filters, strict=True)
    return np.concatenate([np.einsum("nhwcij,oijc->nhwo", p, f) for p, f in pairs], axis=-1)


@pytest.mark.parametrize("most", [1, 400, 1 << 22])
@pytest.mark.parametrize(
    ("channels", "filters", "groups"),
    [(1, 4, 1), (3, 5, 1), (70, 2, 1), (3, 3, 3), (3, 6, 3), (4, 6, 2)],
)
def test_sums_are_the_same_for_any_number_of_places_at_once(
    channels: int, filters: int, groups: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conv, "_MOST_GATHERED", most)
    rng = np.random.default_rng(channels)
    x = rng.integers(-9, 10, (2, 7, 6, channels)).astype(np.float32)
    weights = rng.integers(-9, 10, (filters, 3, 2, channels // groups)).astype(np.float32)
    op = Conv2D(stride=(1, 1), dilation=(1, 1), padding=Padding.none(2), groups=groups)
    (found,) = conv.convolve(op, x, weights)
    np.testing.assert_array_equal(found, by_definition(x, weights, groups))
