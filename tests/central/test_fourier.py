"""Sizes of `fourier`: the best number of pairs by its own formula, limits, and integer discs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato import InputError
from sfumato.central import fourier
from sfumato.kernels import Gaussian, InnerProduct
from sfumato.methods.request import Limits, Request


def _request(**facts: object) -> Request:
    settings: dict[str, object] = {"kernel": Gaussian(1.0), "dimension": 3, "epsilon": Fraction(1), "n": 10_000}
    return Request(**{**settings, **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [1000, 100_000])
def test_the_best_number_of_pairs_has_the_least_predicted_error(n: int) -> None:
    best = fourier.best_pairs(1.0, n)
    errors = [fourier.predicted_rmse(pairs, fourier.PER_GROUP, 1.0, n, 0.02) for pairs in (best // 2, best, 2 * best)]
    assert np.argmin(errors) == 1


def test_a_record_pays_for_one_group() -> None:
    made = fourier.build(_request(options={"n_features": 100, "per_group": 10}))
    radius = made.encoder.radius  # type: ignore[attr-defined]
    assert made.encoder.size == 200 and made.encoder.bound.l2_squared == 10 * radius**2
    assert made.noise.rate == Fraction(19, 20) / radius  # type: ignore[attr-defined]


def test_limits_on_work_and_files_shrink_what_they_limit() -> None:
    usual, small = fourier.METHOD.predict(_request(), 0.02), Limits(file_size=10_000.0)
    assert fourier.METHOD.predict(_request(limits=small), 0.02).file_size <= 10_000 < usual.file_size
    tight = _request(limits=Limits(work_per_record=9.0))
    assert fourier.METHOD.predict(tight, 0.02).parameters["per_group"] == 3


def test_what_does_not_apply_is_refused() -> None:
    assert "shift-invariant" in str(fourier.refuse(_request(kernel=InnerProduct())))
    with pytest.raises(InputError, match="does not fit 64-bit noise"):
        fourier.disc_radius(Fraction(1, 10**18), 64, 1)
