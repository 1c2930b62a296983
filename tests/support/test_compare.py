"""The comparison that other tests rely on: what passes, what fails, what a failure says."""

import numpy as np
import pytest

from support.compare import assert_close, assert_match, assert_same, assert_within_steps

F = np.float32


def test_floats_are_judged_by_the_largest_reference_value():
    expected = np.array([100.0, 0.0], F)
    assert_close(np.array([100.0, 0.0009], F), expected)
    with pytest.raises(AssertionError, match=r"1 of 2 elements.*\n  \[1\]: 0.0011, expected 0.0 "):
        assert_close(np.array([100.0, 0.0011], F), expected)


def test_an_all_zero_reference_makes_the_tolerance_absolute():
    zeros = np.zeros(3, F)
    assert_close(zeros + F(9e-6), zeros)
    with pytest.raises(AssertionError):
        assert_close(zeros + F(2e-5), zeros)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_isnt_finite_equals_itself_alone(value):
    expected = np.array([value, 1.0], F)
    assert_close(expected.copy(), expected)
    for other in {np.nan, np.inf, -np.inf, 1.0} - {value}:
        with pytest.raises(AssertionError):
            assert_close(np.array([other, 1.0], F), expected)
        with pytest.raises(AssertionError):
            assert_close(expected, np.array([other, 1.0], F))


def test_an_infinite_reference_doesnt_loosen_the_bound():
    with pytest.raises(AssertionError, match="1 of 2"):
        assert_close(np.array([np.inf, 1.1], F), np.array([np.inf, 1.0], F))


@pytest.mark.parametrize("compare", [assert_close, assert_same, assert_match])
def test_dtype_and_shape_come_before_values(compare):
    expected = np.ones((2, 3), F)
    with pytest.raises(AssertionError, match="dtype float64, expected float32"):
        compare(np.ones((2, 3)), expected)
    with pytest.raises(AssertionError, match=r"y: shape \(3, 2\), expected \(2, 3\)"):
        compare(np.ones((3, 2), F), expected, label="y")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64])
def test_steps_count_across_the_whole_range(dtype):
    info = np.iinfo(dtype)
    assert_within_steps(np.array([info.max - 1], dtype), np.array([info.max], dtype))
    with pytest.raises(AssertionError, match="1 of 1"):
        assert_within_steps(np.array([info.min], dtype), np.array([info.max], dtype))


def test_integers_and_bools_are_exact():
    assert_match(np.array([1, 2]), np.array([1, 2]))
    with pytest.raises(AssertionError, match="1 of 2"):
        assert_match(np.array([1, 2]), np.array([1, 3]))
    with pytest.raises(AssertionError, match="1 of 1"):
        assert_match(np.array([True]), np.array([False]))


def test_quantized_integers_may_be_one_step_off():
    expected = np.array([-128, 127], np.int8)
    assert_match(np.array([-127, 126], np.int8), expected, quantized=True)
    with pytest.raises(AssertionError, match="1 of 2"):
        assert_match(np.array([-126, 126], np.int8), expected, quantized=True)


def test_a_kind_that_a_comparison_doesnt_serve_is_refused():
    with pytest.raises(TypeError):
        assert_close(np.array([1]), np.array([1]))
    with pytest.raises(TypeError):
        assert_within_steps(np.array([1.0]), np.array([1.0]))


def test_zero_size_arrays_match():
    assert_match(np.zeros((0, 3), F), np.zeros((0, 3), F))


def test_complex_values_are_compared_by_distance():
    expected = np.array([3 + 4j], np.complex64)
    assert_match(np.array([3 + 4.00001j], np.complex64), expected)
    with pytest.raises(AssertionError):
        assert_match(np.array([3 - 4j], np.complex64), expected)
