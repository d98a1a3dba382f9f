"""The rational kernels: values, frequencies, integrals, and short sums of exponentials with a proven error."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.spatial.distance import cdist

from sfumato.errors import InputError
from sfumato.kernels import Exponential, Gaussian, Laplacian, Rational, get_kernel, kernel_from_document
from sfumato.kernels.rational import aliasing, exponential_sum, gammas
from sfumato.public.portable import PublicStream

DISTANCES = {
    "l2": lambda U, V: cdist(U, V),
    "sqeuclidean": lambda U, V: cdist(U, V) ** 2,
    "l1": lambda U, V: cdist(U, V, "cityblock"),
}
POINTS = np.random.default_rng(0).normal(size=(30, 3)) * 3
ANY_DISTANCE = np.concatenate([[0.0], np.logspace(-4, 14, 3000)])


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("power", [0.5, 1, 3])
def test_value_is_the_formula(distance: str, power: float) -> None:
    kernel = Rational(2.0, distance, power)
    expected = 1 / (1 + DISTANCES[distance](POINTS / 2, POINTS / 2)) ** power
    np.testing.assert_allclose(kernel.value(POINTS, POINTS), expected, rtol=1e-9)
    assert kernel_from_document(json.loads(json.dumps(kernel.to_document()))) == kernel
    assert kernel == eval(repr(kernel), {"Rational": Rational})


def test_the_name_stands_for_the_euclidean_one() -> None:
    assert get_kernel("rational", 0.5) == Rational(0.5, "l2", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("l3",), "distance"), (("l2", 0.1), "power"), (("l2", 100), "power"), (("l2", True), "power")],
)
def test_refusals(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Rational(1.0, *arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("power", [0.4, 1, 2.5])
def test_mean_cosine_over_frequencies_is_the_kernel(distance: str, power: float) -> None:
    kernel, count = Rational(1.6, distance, power), 50_000
    frequencies = kernel.frequencies(PublicStream(1, "mean cosine"), count, 3)
    differences = np.array([[0.1, -0.2, 0.1], [0.5, 0.5, -0.2], [1.5, 0.0, 0.0], [2.0, -1.0, 4.0]])
    cosines, values = np.cos(differences @ frequencies), kernel.value(differences, np.zeros((1, 3)))[:, 0]
    variances = (1 + kernel.value(2 * differences, np.zeros((1, 3)))[:, 0]) / 2 - values**2
    # 36 comparisons at six standard errors: a false alarm below 1e-7
    assert (np.abs(cosines.mean(axis=1) - values) < 6 * np.sqrt(variances / count)).all()


def test_fewer_frequencies_are_the_first_of_many() -> None:
    kernel = Rational([1.0, 2.0, 0.5], "sqeuclidean", 0.7)
    few, many = (kernel.frequencies(PublicStream(5, "prefix"), count, 3) for count in (7, 3000))
    np.testing.assert_array_equal(few, many[:, :7])


@pytest.mark.parametrize("shape", [0.125, 0.7, 1.0, 4.2, 64.0])
def test_gammas_have_their_law(shape: float) -> None:
    # The least shape hardly shows its scale: of 40,000 draws the wrong one passed in one run of two hundred.
    drawn = gammas(PublicStream(3, "law"), 160_000, shape)
    assert stats.kstest(drawn, stats.gamma(shape).cdf).pvalue > 1e-6
    assert stats.kstest(drawn * 1.2, stats.gamma(shape).cdf).pvalue < 1e-6


@pytest.mark.parametrize(("distance", "power"), [("l2", 1.5), ("sqeuclidean", 0.8), ("l1", 3.0)])
def test_integral_in_one_dimension(distance: str, power: float) -> None:
    kernel = Rational(1.3, distance, power)
    half, _ = integrate.quad(lambda t: kernel.value([[0.0]], [[t]])[0, 0], 0, np.inf, limit=200)
    assert kernel.log_integral(1) == pytest.approx(math.log(2 * half), rel=1e-5)


def test_tails_that_are_too_heavy_have_no_integral() -> None:
    with pytest.raises(InputError, match="power above 3"):
        Rational(1.0, "l1", 3.0).log_integral(3)
    assert math.isfinite(Rational(1.0, "sqeuclidean", 1.6).log_integral(3))


@pytest.mark.parametrize(
    ("distance", "expected"), [("l2", Exponential(0.5)), ("sqeuclidean", Gaussian(1.0)), ("l1", Laplacian(0.5))]
)
def test_terms_are_exponentials_of_the_same_distance(distance: str, expected: object) -> None:
    assert Rational(2.0, distance).term(4.0) == expected


@pytest.mark.parametrize("power", [0.125, 0.5, 1, 2, 7.3, 64])
@pytest.mark.parametrize("error", [0.1, 1e-3, 1e-5, 1e-8])
def test_sums_of_exponentials_keep_their_proven_error(power: float, error: float) -> None:
    made = exponential_sum(power, error)
    worst = np.abs(made.value(ANY_DISTANCE) - (1 + ANY_DISTANCE) ** -power).max()
    assert worst <= made.error <= error * (1 + 1e-9) + 1e-12
    assert min(made.weights) > 0
    assert worst > made.error / 10  # the bound is not idle


@pytest.mark.parametrize("power", [0.5, 1, 3])
def test_aliasing_is_the_error_of_the_whole_rule(power: float) -> None:
    step = 1.1
    s = step * np.arange(-400, 12)
    whole = step * np.exp(power * s - np.exp(s)).sum() / math.gamma(power)  # h = 0, where the bound is nearest
    assert abs(whole - 1) <= aliasing(power, step) * (1 + 1e-6)
    offsets = np.linspace(0, 1, 50)
    errors = [
        abs(step * np.exp(power * (s + u * step) - np.exp(s + u * step)).sum() / math.gamma(power) - 1) for u in offsets
    ]
    assert max(errors) > 0.9 * aliasing(power, step)


def test_short_sums_are_short() -> None:
    assert [len(exponential_sum(1.0, error).rates) for error in (1e-2, 1e-3, 1e-4)] == [7, 11, 17]
    with pytest.raises(InputError, match="between"):
        exponential_sum(1.0, 0.5)
