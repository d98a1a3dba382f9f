"""`fourier-gaussian`: delta is needed, groups where records are many, noise by its exact loss."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.central import fourier_gaussian
from sfumato.kernels import Gaussian
from sfumato.methods.request import Request


def _request(n: int = 10_000, delta: float = 1e-6) -> Request:
    return Request(Gaussian(1.0), dimension=3, epsilon=Fraction(1), n=n, delta=delta)


def test_a_pure_guarantee_is_refused() -> None:
    assert "delta" in str(fourier_gaussian.refuse(_request(delta=0.0)))
    assert fourier_gaussian.refuse(_request()) is None


def test_many_records_are_dealt_to_groups_and_few_are_not() -> None:
    few, many = (fourier_gaussian.predict(_request(n), 0.02) for n in (1000, 10_000_000))
    assert many.rmse < few.rmse
    assert few.parameters["per_group"] / few.parameters["n_features"] > (
        many.parameters["per_group"] / many.parameters["n_features"]
    )
    assert many.work_per_record < 3 * fourier_gaussian.MOST_WORK


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(4)])
def test_the_loss_of_the_sums_fits_the_promise(epsilon: Fraction) -> None:
    request = Request(Gaussian(1.0), dimension=3, epsilon=epsilon, n=10_000, delta=1e-6)
    made = fourier_gaussian.build(request)
    assert made.feature_loss is not None
    assert made.feature_loss.delta_at(request.feature_epsilon) <= request.delta
    assert made.feature_loss.delta_at(request.feature_epsilon * Fraction(9, 10)) > request.delta
