"""What a plan of `reference` assumes: a spread of the density that it is told, and ranks that see more for more."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.central.reference_plan import UNLIKE, assumed_variances, designs, normal_points
from sfumato.errors import InputError
from sfumato.kernels import Gaussian
from sfumato.methods.request import Limits, Request
from sfumato.public.portable import PublicStream

COLUMNS, DENSITY, REACH = 8, 0.05, 4.0
ASKED = Request(
    kernel=Gaussian(1.0), dimension=COLUMNS, epsilon=Fraction(1), n=50_000, bounds=(-REACH, REACH),
    options={"density": DENSITY},
)  # fmt: skip


def test_the_assumed_spread_has_the_density() -> None:
    """200 groups of 400 records, all pairs of each: false alarms below 1e-6."""
    spread, groups = np.diag(assumed_variances(ASKED)), 200
    points = REACH * normal_points(np.zeros(COLUMNS), spread, 0.0, 400 * groups, PublicStream(1, "test"))
    means = [(Gaussian(1.0).value(part, part).sum() - 400) / (400 * 399) for part in np.split(points, groups)]
    tolerance = 5 * np.std(means) / math.sqrt(groups)
    assert abs(np.mean(means) - DENSITY) < tolerance < 0.06 * DENSITY


def test_in_cells_the_spread_is_that_of_all_records() -> None:
    inner = replace(ASKED, options={"density": DENSITY * 0.1}, seen=0.1, copies=20)
    np.testing.assert_allclose(assumed_variances(inner), assumed_variances(ASKED))
    assert (assumed_variances(replace(inner, seen=1e-3)) == 0).all(), "a density of 1 at most"


def test_directions_have_the_least_variance_at_least() -> None:
    drawn = normal_points(np.zeros(2), np.diag([0.0, -1.0]), 0.01, 4000, PublicStream(1, "test"))
    np.testing.assert_allclose(drawn.var(axis=0), 0.01, rtol=0.15)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_more_directions_see_more(delta: float) -> None:
    made = list(designs(replace(ASKED, delta=delta), 1e-3))
    assert [each.rank for each in made] == sorted(each.rank for each in made)
    assert all(np.diff([each.strength for each in made]) >= 0) and made[-1].strength > 0.6 * (1 - UNLIKE)
    assert made[-1].missed < made[0].missed <= 1
    if delta:
        assert made[-1].mean_square_error(DENSITY) < made[0].mean_square_error(DENSITY)


def test_limits_are_kept_and_landmarks_are_stored_once_for_all_copies() -> None:
    tight = replace(ASKED, limits=Limits(file_size=300_000))
    ranks = [each.rank for each in designs(tight, 1e-3)]
    assert ranks and max(ranks) < max(each.rank for each in designs(ASKED, 1e-3))
    assert max(each.rank for each in designs(replace(tight, copies=10), 1e-3)) > max(ranks)
    with pytest.raises(InputError, match="check"):
        list(designs(ASKED.with_options(check_share=0), 1e-3))
