"""Losses add up part by part, and what they state of delta is never below what was drawn."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from sfumato import InputError
from sfumato.privacy.loss import Loss, gaussian_delta

COUNT = Loss(pure=(Fraction(1, 20),))
NOISY = Loss(mu_squared=Fraction(1, 16), distance=1e-13, failure=1e-5)


def test_parts_add_up_exactly() -> None:
    both = COUNT + NOISY + NOISY + NOISY
    assert (both.pure, both.mu_squared) == (COUNT.pure, Fraction(3, 16))
    assert (both.distance, both.failure) == (3e-13, 3e-5)


def test_delta_is_that_of_the_gaussian_part_with_the_slack_on_top() -> None:
    delta = (COUNT + NOISY).delta_at(Fraction(21, 20))
    assert delta == pytest.approx(gaussian_delta(4.0, 1.0) + NOISY.slack_at(1.0), rel=1e-12)
    assert COUNT.delta_at(Fraction(1, 20)) == 0 and COUNT.delta_at(Fraction(1, 21)) == 1


@pytest.mark.parametrize(
    ("multiplier", "epsilon", "exact"),
    [
        (458412062.75237465, 1e-8, 1.0000066274711641e-15),
        (68115274.694324, 1e-7, 1.0000028107443122e-20),
        (937368246.5548545, 1e-9, 1.0000000076072509e-10),
        (1e7, 5.30450792689079e-07, 1.0000001994551044e-15),
        (1e200, 1.0, 0.0),
        (1e-3, 0.0, 1.0),
    ],
)
def test_a_delta_is_not_below_the_exact_one(multiplier: float, epsilon: float, exact: float) -> None:
    """Exact values have sixty digits; where epsilon is small, doubles lose half of theirs on the way."""
    assert exact <= gaussian_delta(multiplier, epsilon) <= min(exact * (1 + 1e-3), 1.0)


def test_gaussian_noise_is_never_pure() -> None:
    assert Loss(mu_squared=Fraction(1, 10**6)).delta_at(Fraction(100)) > 0


def test_documents_travel() -> None:
    assert Loss.from_document((COUNT + NOISY).to_document()) == COUNT + NOISY


@pytest.mark.parametrize("wrong", [{"pure": (0,)}, {"mu_squared": -1}, {"distance": 2.0}, {"failure": True}])
def test_what_is_no_loss_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Loss(**wrong)
