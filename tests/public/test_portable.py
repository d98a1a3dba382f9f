"""The portable functions against NumPy (accuracy) and against plain Python arithmetic (every bit)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.public import portable

RNG = np.random.default_rng(20240601)


def scalar_polynomial(coefficients: list[float], x: float) -> float:
    result = 0.0
    for coefficient in reversed(coefficients):
        result = result * x + coefficient
    return result


def scalar_log(x: float) -> float:
    """A second implementation, as another language would write it from the docstring."""
    mantissa, exponent = math.frexp(x)
    if mantissa < math.sqrt(0.5):
        mantissa, exponent = 2.0 * mantissa, exponent - 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    series = scalar_polynomial([1.0 / (2 * k + 1) for k in range(11)], s * s)
    return series * (s * 2.0) + exponent * 0.6931471805599453


def scalar_exp(x: float) -> float:
    power = float(round(x / 0.6931471805599453))
    remainder = (x - power * 0.6931471803691238) - power * 1.9082149292705877e-10
    return math.ldexp(scalar_polynomial([1.0 / math.factorial(k) for k in range(14)], remainder), int(power))


def scalar_cos_sin(turns: float) -> tuple[float, float]:
    quarters = round(turns * 4.0)
    angle = (turns - quarters * 0.25) * 6.283185307179586
    square = angle * angle
    sine = angle * scalar_polynomial([(-1) ** k / math.factorial(2 * k + 1) for k in range(8)], square)
    cosine = scalar_polynomial([(-1) ** k / math.factorial(2 * k) for k in range(9)], square)
    return ((cosine, sine), (-sine, cosine), (-cosine, -sine), (sine, -cosine))[quarters % 4]


def test_log_is_accurate() -> None:
    x = np.concatenate(
        [RNG.uniform(0, 1, 100_000), np.exp(RNG.uniform(-700, 700, 100_000)), 1 + RNG.normal(size=100) / 1e9]
    )
    np.testing.assert_allclose(portable.log(x), np.log(x), rtol=2e-15)


def test_log_near_one_keeps_relative_accuracy() -> None:
    x = np.array([1 - 2.0**-53, 1.0, 1 + 2.0**-52, math.sqrt(0.5), math.nextafter(math.sqrt(0.5), 0), 2.0])
    np.testing.assert_allclose(portable.log(x), np.log(x), rtol=1e-15)
    assert portable.log(x)[1] == 0.0


def test_exp_is_accurate() -> None:
    x = np.concatenate([RNG.uniform(-700, 700, 100_000), RNG.normal(size=100_000), [0.0]])
    np.testing.assert_allclose(portable.exp(x), np.exp(x), rtol=2e-15)


@pytest.mark.filterwarnings("ignore:overflow")
def test_exp_saturates() -> None:
    assert portable.exp(np.array([-1e6, 1e6])).tolist() == [0.0, math.inf]


def test_cosine_and_sine_are_accurate() -> None:
    turns = RNG.uniform(-2, 2, 200_000)
    # NumPy's own argument in radians is off by a rounding of up to 4 pi, hence the absolute tolerance.
    cosine, sine = portable.cos_sin_turns(turns)
    np.testing.assert_allclose(cosine, np.cos(2 * np.pi * turns), atol=4e-15)
    np.testing.assert_allclose(sine, np.sin(2 * np.pi * turns), atol=4e-15)
    np.testing.assert_allclose(cosine**2 + sine**2, 1.0, atol=1e-15)


def test_cosine_and_sine_keep_relative_accuracy_at_their_zeros() -> None:
    tiny = 2.0 ** -np.arange(10.0, 54.0)
    expected = np.sin(2 * np.pi * tiny)
    np.testing.assert_allclose(portable.cos_sin_turns(tiny)[1], expected, rtol=1e-15)
    np.testing.assert_allclose(portable.cos_sin_turns(0.25 - tiny)[0], expected, rtol=1e-15)
    np.testing.assert_allclose(portable.cos_sin_turns(0.5 - tiny)[1], expected, rtol=1e-15)


@pytest.mark.parametrize("turns", [0.0, 0.25, 0.5, 0.75, 1.0, -0.25, 1e6 + 0.5])
def test_quarter_turns_are_exact(turns: float) -> None:
    cosine, sine = portable.cos_sin_turns(np.array([turns]))
    assert (cosine[0], sine[0]) == ((1, 0), (0, 1), (-1, 0), (0, -1))[round(turns * 4) % 4]


@given(st.floats(1e-300, 1e300), st.floats(-700, 700), st.floats(-1e6, 1e6))
@settings(max_examples=300, deadline=None)
def test_every_bit_equals_plain_scalar_arithmetic(positive: float, exponent: float, turns: float) -> None:
    # Arrays long enough for NumPy's vector loops, whose lanes must agree with the scalar rounding.
    assert set(portable.log(np.full(37, positive)).tolist()) == {scalar_log(positive)}
    assert set(portable.exp(np.full(37, exponent)).tolist()) == {scalar_exp(exponent)}
    cosine, sine = portable.cos_sin_turns(np.full(37, turns))
    assert (set(cosine.tolist()), set(sine.tolist())) == ({scalar_cos_sin(turns)[0]}, {scalar_cos_sin(turns)[1]})


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_inverse_and_product(size: int) -> None:
    matrix = RNG.normal(size=(size, size))
    columns = RNG.normal(size=(size, 1000))
    np.testing.assert_allclose(portable.inverse(matrix), np.linalg.inv(matrix), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(portable.product(matrix, columns), matrix @ columns, rtol=1e-12, atol=1e-12)


def test_product_adds_from_the_first_term_to_the_last() -> None:
    left, right = RNG.normal(size=(3, 50)), RNG.normal(size=(50, 2))
    for i in range(3):
        for j in range(2):
            total = 0.0
            for term in range(50):
                total += float(left[i, term]) * float(right[term, j])
            assert portable.product(left, right)[i, j] == total


def test_inverse_swaps_rows_when_a_pivot_is_zero() -> None:
    np.testing.assert_array_equal(portable.inverse(np.array([[0.0, 2.0], [4.0, 0.0]])), [[0.0, 0.25], [0.5, 0.0]])


def test_inverse_of_a_singular_matrix_is_not_finite() -> None:
    assert not np.isfinite(portable.inverse(np.ones((2, 2)))).all()
