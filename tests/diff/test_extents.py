"""Open extents of inputs that belong together get numbers that do."""

import pytest

from nnconv.diff.extents import known_shapes

CASES = {
    "nothing open": ([(2, 3)], [(2, 3)]),
    "open": ([(None, 3, None)], [(2, 3, 9)]),
    "one name in several places": (
        [("b", "t"), (1, "b", 4), ("b", 3)],
        [(2, 9), (1, 2, 4), (2, 3)],
    ),
    "time in front": ([("t", "b", 4), (1, "b", 4)], [(2, 9, 4), (1, 9, 4)]),
    "a past": (
        [("b", "now"), ("b", "past + now"), ("b", 4, "past", 8)],
        [(2, 9), (2, 18), (2, 4, 9, 8)],
    ),
    "one more than a past": ([("b", 1), ("b", "past+1"), ("b", "past")], [(2, 1), (2, 10), (2, 9)]),
    "a sum of what stands nowhere": ([("b", "a + c + 3")], [(2, 5)]),
    "a name that is no sum": ([("floor(t/2)", "t")], [(2, 9)]),
}


@pytest.mark.parametrize("name", CASES)
def test_extents_are_chosen(name):
    shapes, wanted = CASES[name]
    assert known_shapes(shapes, batch=2, others=9) == wanted
