"""The search: its sums, its guarantee, its choice, its price; and how well bought bandwidths know their own error."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.spatial.distance import pdist
from sklearn.model_selection import GridSearchCV

from sfumato import InputError, Ledger, PrivateKDE, bandwidth
from sfumato.audit import ATTACKS, audit
from sfumato.audit.cases import searches
from sfumato.bandwidth.search import UNIT, PairScores, convolved, height, judged, law
from sfumato.engines import Threads
from sfumato.errors import UnpaidWarning
from sfumato.kernels import Cauchy, Gaussian, Laplacian
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.quantizers.box import Box
from sfumato.sources import open_source

N = 6000
POINTS = np.random.default_rng(0).normal(size=(N, 2))
TERMS: dict[str, Any] = {"epsilon": 1, "bounds": (-8, 8), "n_hint": N}
BOX = Box.from_bounds((-8, 8), 2)


@pytest.mark.once
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplacian(1.0)], ids=repr)
def test_the_convolution_is_the_integral(kernel: Any) -> None:
    grid = np.linspace(-12, 12, 4001)[:, None]
    for at in (0.0, 0.4, 2.0):
        values = height(kernel, np.abs(grid)) * height(kernel, np.abs(grid - at))
        integral = values.sum() * (grid[1, 0] - grid[0, 0]) / math.exp(kernel.log_integral(1))
        assert convolved(kernel, np.array([[at]]))[0] == pytest.approx(integral, rel=1e-4)


@pytest.mark.once
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("length", [1e-50, 1e-4])
@pytest.mark.parametrize("kernel", [Gaussian, Laplacian])
def test_pairs_far_apart_add_nothing_in_any_number_of_columns(kernel: Any, length: float) -> None:
    """They would count as the closest ones if a product over the columns left the range of numbers on its way."""
    rows = np.repeat([[0.0], [1.0]], 100, axis=1)
    scores = PairScores(Box.from_bounds((0, 1), 100), (kernel(length),), 1)  # one group, in which both meet
    assert scores.count(Threads(), open_source(rows), SecureBits.seeded(1)).tolist() == [0, UNIT]


def test_the_sums_are_unbiased_for_cross_validation() -> None:
    kernels = (Gaussian(0.5), Laplacian(0.5))
    scores = PairScores(BOX, kernels, N)
    sums = scores.count(Threads(), open_source(POINTS), SecureBits.seeded(3))
    pairs = sums[-1] / UNIT
    assert pairs == pytest.approx(scores.pairs, abs=5 * math.sqrt(0.15 * N))
    differences = np.abs(POINTS[:3000] - POINTS[3000:])
    for kernel, total in zip(kernels, sums, strict=False):
        values = convolved(kernel, differences / 0.5) - 2 * height(kernel, differences / 0.5)
        # Two samples of pairs: five deviations of their difference.
        spread = values.std() * math.sqrt(1 / pairs + 1 / 3000)
        assert total / UNIT / pairs == pytest.approx(values.mean(), abs=5 * spread + 1 / UNIT)


def test_noise_has_the_stated_variance() -> None:
    scores = PairScores(BOX, (Gaussian(0.5), Gaussian(2.0)), N)
    noise = law(scores, Fraction(1), "add-remove")
    exact = scores.count(Threads(), open_source(POINTS), SecureBits.seeded(3))
    found = []
    for seed in range(1600):
        noisy = exact + noise.sample(SecureBits.seeded(seed), exact.size)
        found.append({each.kernel.bandwidth: each for each in judged(scores, noisy, math.sqrt(noise.variance), None)})
    stated, sampled = (
        {each.kernel.bandwidth: each.error for each in judged(scores, exact, deviation, None)}
        for deviation in (math.sqrt(noise.variance), 0.0)
    )
    for length in (0.5, 2.0):
        measured = np.std([each[length].score for each in found])
        # The fourth moment of Laplace noise makes the deviation of a variance of 1,600 draws 6 %: five of them.
        assert measured**2 == pytest.approx(stated[length] ** 2 - sampled[length] ** 2, rel=0.3)


LENGTHS = [0.01, 0.1, 0.4, 1.0, 6.0]
GENEROUS: dict[str, Any] = {**TERMS, "epsilon": 40}


@pytest.fixture(scope="module")
def searches_of_new_points() -> list[Any]:
    """Of 60 other sets of points each."""
    random = np.random.default_rng(1)
    return [bandwidth.search(random.normal(size=(N, 2)), LENGTHS, random_state=k, **GENEROUS) for k in range(60)]


def test_the_choice_is_near_the_best(searches_of_new_points: list[Any]) -> None:
    """A narrower one wins by chance, in pairs and in noise, once in 100 at most: eight of 60 once in 6 million."""
    assert sum(found.bandwidth not in (0.4, 1.0) for found in searches_of_new_points) < 8


@pytest.mark.once
def test_the_noise_of_a_release_widens_the_choice() -> None:
    """The same noise, and a term that grows the narrower a candidate is."""
    for seed in range(2):
        found, noisy = (
            bandwidth.search(POINTS, LENGTHS, random_state=seed, **GENEROUS, **released)
            for released in ({}, {"release_epsilon": "1/50"})
        )
        assert noisy.bandwidth >= found.bandwidth


def test_scores_scatter_as_stated_whatever_the_budget(searches_of_new_points: list[Any]) -> None:
    """Noise and the sampling of pairs: a variance of 60 draws of near pairs has a deviation of about 25 %."""
    scores = []
    for found in searches_of_new_points:
        by_length = {each.kernel.bandwidth: each for each in found.candidates}
        scores.append([(by_length[length].score, by_length[length].error) for length in (0.4, 1.0)])
    measured, stated = np.std(scores, axis=0)[:, 0], np.mean(scores, axis=0)[:, 1]
    assert (measured < 1.5 * stated).all() and (measured > 0.25 * stated).all()


def test_kernels_and_rules_are_candidates_too() -> None:
    """Of 3,700 pairs 67 are near for Scott's bandwidth, and noise is a sixth of one: it wins but for 1 of 1e7 rounds.

    With 1,100 pairs, of which 30 are near, and noise of eight, 14 % of 2,000 searches chose the widest candidate, 2 %
    the narrowest: a narrower one has to be better by two deviations.
    """
    points = np.random.default_rng(4).normal(size=(20_000, 2))
    terms: dict[str, Any] = {**TERMS, "epsilon": 100, "n_hint": len(points)}
    found = bandwidth.search(points, [Laplacian(1e-4), "scott", [8.0, 8.0]], random_state=1, **terms)
    scott = bandwidth.from_public(points, rule="scott")
    assert np.asarray(found.bandwidth) == pytest.approx(scott, rel=0.3)
    assert PrivateKDE(found.kernel, epsilon=1, n_hint=N, bounds=(-8, 8), random_state=1).fit(POINTS).release_


@pytest.mark.once
@pytest.mark.parametrize("candidates", [[0.5, 1.0], [0.5, "scott"]])
def test_one_charge_covers_all_and_a_budget_is_asked_first(candidates: list[Any]) -> None:
    account = Ledger().account("people")
    account.set_budget("3/2")
    found = bandwidth.search(POINTS, candidates, ledger=account, **TERMS)
    assert account.charges == (found.charge,)
    assert (found.charge.mechanism, found.charge.epsilon) == ("bandwidth-search", 1)
    assert found.guarantee.epsilon == 1 and found.guarantee.private
    with pytest.raises(Exception, match="remains"):
        bandwidth.search(POINTS, candidates, ledger=account, **TERMS)


@pytest.mark.once
def test_a_path_is_a_ledger_as_in_estimators(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    np.save(tmp_path / "points.npy", POINTS)
    bandwidth.search(tmp_path / "points.npy", [0.5, 1.0], ledger=str(path), **TERMS)
    bandwidth.private(tmp_path / "points.npy", ledger=path, **TERMS)
    PrivateKDE(bandwidth=1.0, ledger=str(path), **TERMS).fit(tmp_path / "points.npy")
    (name,) = Ledger(path).datasets
    assert Ledger(path).account(name).spent[0] == 3
    bandwidth.private(POINTS, ledger=Ledger(path), **TERMS)
    assert Ledger(path).account("data in memory").spent[0] == 1


@pytest.mark.once
@pytest.mark.parametrize(
    ("candidates", "arguments", "message"),
    [
        ([], {}, "no candidates"),
        (["rough"], {}, "'scott' or 'silverman'"),
        ([Cauchy(1.0)], {}, "gaussian and laplacian"),
        ([[1.0, 2.0, 3.0]], {}, "bandwidth"),
        ([0.5, 1.0], {"epsilon": "1/1000"}, "epsilon is too small"),
        ([0.5], {"neighbours": "near"}, "neighbours"),
    ],
    ids=str,
)
def test_bad_input_is_named_and_costs_nothing(candidates: Any, arguments: dict[str, Any], message: str) -> None:
    account = Ledger().account("people")
    with pytest.raises(InputError, match=message):
        bandwidth.search(POINTS, candidates, ledger=account, **{**TERMS, **arguments})
    assert account.charges == ()


@pytest.mark.once
@pytest.mark.parametrize("values", [np.full((300, 2), np.nan), np.full((300, 2), 1e300), np.zeros((300, 2))])
def test_no_data_stop_a_search(values: Any) -> None:
    assert bandwidth.search(values, [0.5, 1.0, "scott"], random_state=1, **{**TERMS, "epsilon": 5}).bandwidth


def test_the_audit_holds_and_catches_too_little_noise() -> None:
    (case,) = ATTACKS["bandwidth-search"]()
    assert audit(case, 40_000, bits=SecureBits.seeded(1)).holds
    here = searches.PLACES[[0, 0]]
    counts = searches.differing_counts(searches.scores(), here, here[:1])
    weak = DiscreteLaplace(law(searches.scores(), Fraction(1), "add-remove").rate * 2)
    assert not audit(searches.sampled_case("weak", counts, weak), 40_000, bits=SecureBits.seeded(2)).holds


@pytest.mark.once
def test_cross_validation_and_scores_warn_and_the_ledger_counts_every_fit() -> None:
    account = Ledger().account("people")
    model = PrivateKDE(epsilon=1, n_hint=N, bounds=(-8, 8), ledger=account)
    with pytest.warns(UnpaidWarning, match="each fit spends epsilon") as caught:
        GridSearchCV(model, {"bandwidth": [0.5, 1.0, 2.0]}, cv=3).fit(POINTS)
    assert account.spent[0] == 10
    assert any("a score is computed from the points" in str(each.message) for each in caught)


SETS = {
    "normal": lambda random: (random.normal(size=(N, 2)), (-8, 8)),
    "ten columns": lambda random: (random.normal(size=(N, 10)), (-8, 8)),
    "clusters": lambda random: (
        np.where(random.random((N, 1)) < 0.5, random.normal(size=(N, 3)), random.normal(size=(N, 3)) * 0.2 + 2),
        (-8, 8),
    ),
    "digits": lambda random: ((random.random((N, 300)) < 0.2) * random.random((N, 300)), (0, 1)),
}


@pytest.mark.parametrize("name", SETS)
def test_a_bought_bandwidth_is_within_its_stated_error(name: str) -> None:
    """It is stated at three deviations; they are 0.8 from seed to seed and 0.4 from data to data, rounding included.

    Four of ten runs are beyond it in one of 5 million rounds, and none is twice as far (seven deviations).
    """
    points, bounds = SETS[name](np.random.default_rng(1))
    # Distances in steps of 0.1 % and less: a root then costs no look at three million pairs.
    pairs, edges = np.histogram(np.log(pdist(points[:2500])), bins=np.arange(-14, 8, 1e-3))
    squares = np.exp(2 * edges[:-1] + 1e-3)
    exact = math.exp(brentq(lambda log: np.exp(-squares / math.exp(2 * log)) @ pairs / pairs.sum() - 0.02, -6, 8))
    shares = []
    for seed in range(10):
        bought = bandwidth.private(points, epsilon=1, bounds=bounds, n_hint=N, random_state=seed)
        shares.append(abs(math.log(bought.bandwidth / exact)) / math.log1p(bought.predicted_error))
    assert (np.array(shares) > 1).sum() < 4 and max(shares) < 2


def test_a_bought_rule_is_within_its_stated_error() -> None:
    points = np.random.default_rng(2).normal(size=(N, 3)) * [1.0, 3.0, 0.2]
    quartiles = np.subtract(*np.quantile(points, [0.75, 0.25], axis=0)) / 1.349
    exact = quartiles * math.sqrt(2) * N ** (-1 / 7)
    bounds = [(-8, 8), (-24, 24), (-1.6, 1.6)]
    for seed in range(10):
        bought = bandwidth.private(points, epsilon=1, bounds=bounds, n_hint=N, rule="scott", random_state=seed)
        assert (np.abs(np.array(bought.bandwidth) / exact - 1) <= bought.predicted_error).all()


@pytest.mark.once
def test_a_release_that_cannot_be_is_refused_unpaid() -> None:
    account = Ledger().account("people")
    rows = np.random.default_rng(0).normal(size=(20_000, 2))
    with pytest.raises(InputError, match="epsilon"):
        bandwidth.search(rows, [0.5, 1.0], epsilon=1, bounds=(-8, 8), n_hint=20_000, release_epsilon=-1, ledger=account)
    assert account.charges == ()


@pytest.mark.once
def test_a_search_runs_where_its_rows_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the source no engine could tell that a frame lives on a cluster."""
    asked: list[Any] = []

    def engine_of(engine: Any, *, source: Any) -> Threads:
        asked.append(source)
        return Threads(1)

    monkeypatch.setattr(sys.modules["sfumato.bandwidth.search"], "engine_of", engine_of)
    source = open_source(np.random.default_rng(0).normal(size=(3000, 1)))
    bandwidth.search(source, [0.3, 3.0], epsilon=1, bounds=(-5, 5), n_hint=3000, random_state=1)
    assert asked == [source]
