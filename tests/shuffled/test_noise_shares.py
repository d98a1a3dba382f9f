"""Shares of one noise: they add up to its law, other laws are refused, and the release says who is trusted."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from sfumato import BudgetError, InputError, Ledger, Part, PrivateKDE, merge_parts
from sfumato.kernels import L2LSH
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.laws import NoiseLaw
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace
from sfumato.shuffled.noise_shares import NoiseShares, aggregate_parts

SAMPLES, REACH = 40_000, 12
LAWS: list[NoiseLaw] = [DiscreteLaplace(Fraction(1, 5)), DiscreteGaussian(10)]
POINTS = np.random.default_rng(0).normal(size=(3000, 2))


def fits(numbers: np.ndarray, law: Any) -> bool:
    """Chi-square of small values one by one and of the two tails; false alarms one in a million."""
    inside = np.arange(-REACH, REACH + 1)
    chances = np.array([law.probability(int(z)) for z in inside])
    expected = SAMPLES * np.array([*chances, 1 - chances.sum()])
    found = np.array([*((numbers == z).sum() for z in inside), (np.abs(numbers) > REACH).sum()])
    return bool(chi2.sf(((found - expected) ** 2 / expected).sum(), len(expected) - 1) > 1e-6)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("sites", [1, 3, 6])
def test_shares_add_up_to_the_law(law: Any, sites: int) -> None:
    shares, bits = NoiseShares(law, sites), SecureBits.seeded(sites)
    total = sum(shares.sample(bits, SAMPLES) for _ in range(sites))
    whole = law if isinstance(law, DiscreteLaplace) else DiscreteGaussian(10)
    exact = isinstance(law, DiscreteLaplace) or sites == 1
    if exact:
        assert shares.total.variance == pytest.approx(whole.variance)
        assert fits(total, whole)
    assert shares.total.variance >= whole.variance * (1 - 1e-9)
    # Fourth moments of these laws are at most 6 variances squared: five deviations.
    assert abs(total.var() / shares.total.variance - 1) < 5 * math.sqrt(6 / SAMPLES)


@pytest.mark.parametrize("sites", [3, 6])
def test_a_share_that_is_missing_is_found(sites: int) -> None:
    """The broken twin: one site adds nothing, or each believes that there is one site more."""
    law = DiscreteLaplace(Fraction(1, 5))
    for shares, added in ((NoiseShares(law, sites), sites - 1), (NoiseShares(law, sites + 1), sites)):
        bits = SecureBits.seeded(1)
        assert not fits(sum(shares.sample(bits, SAMPLES) for _ in range(added)), law)


def test_the_sum_of_gaussian_shares_is_no_narrower_for_any_number_of_sites() -> None:
    for sigma in (1, 4, 17, 1000, 2**30):
        for sites in (1, 2, 3, 7, 100, 2**16):
            assert sites * NoiseShares(DiscreteGaussian(sigma), sites).deviation ** 2 >= sigma**2
            assert NoiseShares(DiscreteGaussian(sigma), sites).deviation >= 4


def model(method: str, **settings: Any) -> PrivateKDE:
    race = {"kernel": L2LSH(1.0), "options": {"rows": 20, "width": 16}}
    kernel = race if method == "race" else {"bandwidth": 1.0}
    asked = {"epsilon": 1, "n_hint": 3000, "feature_seed": 1, **kernel, **settings}
    return PrivateKDE(method=method, **asked)


def parts_of(made: PrivateKDE) -> list[Part]:
    return [Part.of(made, rows) for rows in np.array_split(POINTS, 3)]


@pytest.mark.parametrize(("method", "delta"), [("fourier-gaussian", 1e-6), ("race", 0.0)])
def test_a_release_has_central_accuracy_and_says_on_what_it_rests(method: str, delta: float, tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger").account("sites")
    account.set_budget(1, delta)
    parts = parts_of(model(method, delta=delta))
    release = aggregate_parts(parts, ledger=account)
    central = merge_parts(parts_of(model(method, delta=delta)))
    assert release.noise.variance == pytest.approx(central.noise.variance, rel=0.3)
    exact = sum(part.sums for part in parts)
    spread = np.mean((release.values - exact) ** 2.0) / release.noise.variance
    assert abs(spread - 1) < 6 * math.sqrt(6 / len(exact))
    assert "reveals the total of all 3 sites and nothing else (it was simulated)" in release.guarantee.conditions[-1]
    assert abs(release.count.value - 3000) < 40 * math.sqrt(release.count.variance)
    assert len(account.charges) == 1
    with pytest.raises(BudgetError):
        aggregate_parts(parts, ledger=account)


def test_laws_that_do_not_divide_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger").account("sites")
    with pytest.raises(InputError, match="does not divide into shares"):
        aggregate_parts(parts_of(model("fourier")), ledger=account)
    with pytest.raises(InputError, match="too long"):
        aggregate_parts(parts_of(model("lsq-rff")), ledger=account)
    with pytest.raises(InputError, match="1 to 65536 sites"):
        NoiseShares(DiscreteGaussian(5), 0)
    assert not account.charges
