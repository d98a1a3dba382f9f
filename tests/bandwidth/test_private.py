"""Bandwidths from public points against SciPy, from private points against the public ones, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import gaussian_kde

from sfumato import BudgetError, InputError, Ledger, bandwidth
from sfumato.audit import AUDITS, audit
from sfumato.audit.cases import purchases as audits
from sfumato.bandwidth.statistics import PAIR_CELLS, PairDistances, _pair_up, placed
from sfumato.engines import Threads
from sfumato.kernels import get_kernel
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.quantizers.box import Box
from sfumato.sources import open_source

N = 10_000
SCALES = np.array([1.0, 3.0, 0.2])
NORMAL = np.random.default_rng(0).normal(size=(N, 3))
SEEDS = range(8)


@pytest.mark.parametrize("rule", ["scott", "silverman"])
@pytest.mark.parametrize("dimension", [1, 3])
def test_rules_of_thumb_are_scipys(rule: str, dimension: int) -> None:
    sample = (NORMAL * SCALES)[:500, :dimension]
    covariance = gaussian_kde(sample.T, bw_method=rule).covariance
    # SciPy's kernel is exp(-u C^-1 u / 2), and this library's exp(-|u|^2 / length^2) in each column.
    assert bandwidth.from_public(sample, rule=rule) == pytest.approx(np.sqrt(2 * np.diag(covariance)), rel=1e-12)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "cauchy"])
@pytest.mark.parametrize("target", [0.005, 0.02, 0.3])
def test_a_target_density_is_hit(kernel: str, target: float) -> None:
    sample = NORMAL[:900]
    found = get_kernel(kernel, bandwidth.from_public(sample, target_density=target, kernel=kernel))
    values = found.value(sample, sample)[~np.eye(len(sample), dtype=bool)]
    assert values.mean() == pytest.approx(target, rel=1e-3)


def test_a_rule_with_a_target_keeps_the_ratios_and_hits_the_target() -> None:
    sample = (NORMAL * SCALES)[:900]
    lengths = bandwidth.from_public(sample, rule="scott", target_density=0.1)
    rule = bandwidth.from_public(sample, rule="scott")
    assert lengths / lengths[0] == pytest.approx(rule / rule[0])
    assert get_kernel("gaussian", lengths).value(sample, sample).mean() == pytest.approx(0.1, rel=0.02)


def test_the_default_is_the_typical_density_and_rows_that_are_not_finite_are_left_out() -> None:
    sample = NORMAL[:900].copy()
    plain = bandwidth.from_public(sample)
    assert plain == bandwidth.from_public(sample, target_density=0.02)
    assert bandwidth.from_public(np.concatenate([sample, [[np.nan, 0, 0], [np.inf, 0, 0]]])) == plain
    assert bandwidth.from_public(NORMAL) == bandwidth.from_public(NORMAL)


@pytest.mark.parametrize(
    ("sample", "arguments", "message"),
    [
        (NORMAL, {"rule": "rough"}, "'scott' or 'silverman'"),
        (NORMAL, {"rule": "scott", "kernel": "laplacian"}, "for the Gaussian kernel"),
        (NORMAL, {"target_density": 1.0}, "between 0 and 1"),
        (NORMAL, {"kernel": "boxcar"}, "unknown kernel"),
        (NORMAL[:1], {}, "fewer than two rows"),
        (np.zeros((50, 2)), {}, "pairs are equal"),
        (np.zeros((50, 2)), {"rule": "scott"}, "column 0 .* one value only"),
    ],
    ids=str,
)
def test_bad_public_input_is_named(sample: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bandwidth.from_public(sample, **arguments)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("dimension", "choice"),
    [
        (1, {"rule": "silverman"}),
        (3, {"rule": "scott"}),
        (2, {"target_density": 0.05}),
        (3, {"target_density": 0.02}),
        (2, {"target_density": 0.05, "kernel": "laplacian"}),
        (3, {"rule": "scott", "target_density": 0.05}),
    ],
    ids=str,
)
def test_a_private_bandwidth_is_near_the_public_one(dimension: int, choice: dict[str, Any], neighbours: str) -> None:
    scales = SCALES if "rule" in choice else np.ones(3)
    points = (NORMAL * scales)[:, :dimension]
    bounds = [(-8 * scale, 8 * scale) for scale in scales[:dimension]]
    epsilon = Fraction(1 if neighbours == "add-remove" else 2, 2)
    exact = bandwidth.from_public(points, **choice)
    for seed in SEEDS:
        bought = bandwidth.private(
            points, epsilon=epsilon, bounds=bounds, n_hint=N, neighbours=neighbours, random_state=seed, **choice
        )
        ratio = np.asarray(bought.bandwidth) / exact
        assert ((ratio > 1 / 1.5) & (ratio < 1.5)).all()
        assert bought.guarantee.epsilon == epsilon
        assert bought.guarantee.neighbours == neighbours
        assert not bought.guarantee.private


def test_many_columns_cost_a_target_density_nothing() -> None:
    points = np.random.default_rng(1).normal(size=(N, 60))
    exact = bandwidth.from_public(points)
    bought = [bandwidth.private(points, epsilon="1/5", bounds=(-8, 8), n_hint=N, random_state=seed) for seed in SEEDS]
    assert [made.bandwidth for made in bought] == pytest.approx([exact] * len(bought), rel=0.1)


def test_a_seed_repeats_and_secret_noise_does_not() -> None:
    arguments: dict[str, Any] = {"epsilon": 0.5, "bounds": (-8, 8), "n_hint": N, "rule": "scott"}
    first, second = (bandwidth.private(NORMAL, random_state=7, **arguments) for _ in range(2))
    assert first == second
    secret = [bandwidth.private(NORMAL, **arguments) for _ in range(2)]
    assert secret[0].bandwidth != secret[1].bandwidth
    assert secret[0].guarantee.private


def test_the_data_are_read_once_then_charged_then_noised(monkeypatch: pytest.MonkeyPatch) -> None:
    account, order = Ledger().account("people"), []
    account.set_budget("3/5")
    source, sample = open_source(NORMAL), DiscreteLaplace.sample

    def watched_batches() -> Iterator[Any]:
        order.append(("read", len(account.charges)))
        yield NORMAL

    def watched_sample(law: DiscreteLaplace, bits: SecureBits, count: int) -> Any:
        order.append(("noise", len(account.charges)))
        return sample(law, bits, count)

    monkeypatch.setattr(source, "batches", watched_batches)
    monkeypatch.setattr(DiscreteLaplace, "sample", watched_sample)
    arguments: dict[str, Any] = {"epsilon": "1/2", "bounds": (-8, 8), "n_hint": N, "ledger": account}
    bought = bandwidth.private(source, **arguments)
    assert order == [("read", 0), ("noise", 1)]
    assert account.charges == (bought.charge,)
    assert (bought.charge.mechanism, bought.charge.epsilon) == ("bandwidth", Fraction(1, 2))
    with pytest.raises(BudgetError):
        bandwidth.private(source, **arguments)
    assert len(order) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.01}, r"too small .* Pass an epsilon of 0\.\d+ or more"),
        ({"epsilon": 0.001, "rule": "scott"}, "too small"),
        ({"epsilon": 0}, "epsilon must be"),
        ({"n_hint": 1}, "at least 2"),
        ({"n_hint": "paid"}, "at least 2"),
        ({"bounds": (1, 0)}, "lower < upper"),
        ({"kernel": "cauchy"}, "gaussian or laplacian"),
        ({"neighbours": "near"}, "neighbours must be"),
        ({"outside": "wrap"}, "'clip' or 'drop'"),
        ({"X": iter([NORMAL]), "rule": "scott", "target_density": 0.02}, "reads the data twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_bad_private_input_is_named_and_costs_nothing(arguments: dict[str, Any], message: str) -> None:
    account = Ledger().account("people")
    settings: dict[str, Any] = {"X": NORMAL, "epsilon": 0.5, "bounds": (-8, 8), "n_hint": N, "ledger": account}
    with pytest.raises(InputError, match=message):
        bandwidth.private(**settings | arguments)
    assert account.charges == ()


def test_the_epsilon_that_a_refusal_names_is_enough() -> None:
    with pytest.raises(InputError) as refusal:
        bandwidth.private(NORMAL, epsilon=0.01, bounds=(-8, 8), n_hint=N)
    named = str(refusal.value).split("Pass an epsilon of ")[1].split()[0]
    bought = bandwidth.private(NORMAL, epsilon=float(named) * 1.05, bounds=(-8, 8), n_hint=N)  # is not refused
    assert np.isfinite(bought.bandwidth).all() and np.min(bought.bandwidth) > 0
    with pytest.raises(InputError):
        bandwidth.private(NORMAL, epsilon=float(named) / 1.3, bounds=(-8, 8), n_hint=N)


@pytest.mark.parametrize(
    "values", [np.full((300, 2), np.nan), np.full((300, 2), 1e300), np.zeros((300, 2)), NORMAL[:0, :2]]
)
@pytest.mark.parametrize(
    "choice", [{"rule": "scott"}, {"target_density": 0.02}, {"rule": "scott", "target_density": 0.02}]
)
def test_no_data_stop_a_bandwidth(values: np.ndarray, choice: dict[str, Any]) -> None:
    bought = bandwidth.private(values, epsilon=5, bounds=(-8, 8), n_hint=N, random_state=1, **choice)
    lengths = np.asarray(bought.bandwidth)
    assert (np.isfinite(lengths) & (lengths > 0)).all()


@pytest.mark.parametrize("outside", ["clip", "drop"])
def test_rows_outside_are_placed_as_declared(outside: str) -> None:
    box = Box.from_bounds((0, 1), 1, outside)
    rows = placed(np.array([[0.5], [2.0], [np.nan], [-1.0]], dtype=np.float32), box)
    assert rows.ravel().tolist() == ([0.5, 1.0, 0.0] if outside == "clip" else [0.5])


def test_one_record_changes_the_pairs_by_one_at_most_whatever_the_coins() -> None:
    statistic = PairDistances(Box.from_bounds((-1, 1), 1), "gaussian", 0.02, 3, (1.0,))
    rows = np.array([[-1.0], [1.0], [0.3], [0.31], [0.9]])

    def counts(kept: list[int], groups: tuple[int, ...]) -> np.ndarray:
        sizes, cells, first = np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64), np.zeros((3, 1))
        _pair_up(rows[kept], np.array(groups)[kept], sizes, first, cells, statistic._edges, 2)
        return np.bincount(cells[sizes == 2], minlength=PAIR_CELLS)

    changes = set()
    for groups in product(range(3), repeat=5):
        full = counts(list(range(5)), groups)
        assert (full == counts([4, 2, 0, 3, 1], groups)).all()
        for left_out in range(5):
            changes.add(int(np.abs(full - counts([i for i in range(5) if i != left_out], groups)).sum()))
    assert changes == {0, 1}


def test_about_as_many_pairs_are_found_as_predicted() -> None:
    statistic = PairDistances(Box.from_bounds((-8, 8), 3), "gaussian", 0.02, N, (1.0,) * 3)
    found = statistic.count(Threads(), open_source(NORMAL), SecureBits.seeded(3)).sum()
    # About 0.15 n of variance: five standard deviations.
    assert found == pytest.approx(statistic.pairs, abs=5 * np.sqrt(0.15 * N))


def test_the_audit_holds_and_catches_too_little_noise() -> None:
    assert "bandwidth" in AUDITS
    for name, (counts, law) in audits.purchases().items():
        assert audit(audits.sampled_case(name, counts, law), 40_000, bits=SecureBits.seeded(1)).holds
        weak = DiscreteLaplace(law.rate * Fraction(10, 7))
        assert not audit(audits.sampled_case(name, counts, weak), 40_000, bits=SecureBits.seeded(2)).holds
        if counts[0].size <= 2:
            exact = audit(audits.exact_case(name, counts, law))
            assert exact.lower_bound == pytest.approx(1.0)
            off_by_one = replace(law, rate=law.rate * Fraction(21, 20))
            assert not audit(audits.exact_case(name, counts, off_by_one)).holds
