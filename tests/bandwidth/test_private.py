"""Bandwidths from public points against SciPy, from private points against the public ones, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato import BudgetError, InputError, Ledger, bandwidth
from sfumato.audit import AUDITS, audit
from sfumato.audit.cases import purchases as audits
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.noise import DiscreteLaplace
from sfumato.sources import open_source

N = 10_000
SCALES = np.array([1.0, 3.0, 0.2])
NORMAL = np.random.default_rng(0).normal(size=(N, 3))
SEEDS = range(4)


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


@pytest.mark.once
def test_a_seed_repeats_and_secret_noise_does_not() -> None:
    arguments: dict[str, Any] = {"epsilon": 0.5, "bounds": (-8, 8), "n_hint": N, "rule": "scott"}
    first, second = (bandwidth.private(NORMAL, random_state=7, **arguments) for _ in range(2))
    assert first == second
    secret = [bandwidth.private(NORMAL, **arguments) for _ in range(2)]
    assert secret[0].bandwidth != secret[1].bandwidth
    assert secret[0].guarantee.private


@pytest.mark.once
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


@pytest.mark.once
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
        ({"outside": "wrap"}, "one of 'clip', 'drop'"),
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


@pytest.mark.once
def test_the_epsilon_that_a_refusal_names_is_enough() -> None:
    with pytest.raises(InputError) as refusal:
        bandwidth.private(NORMAL, epsilon=0.01, bounds=(-8, 8), n_hint=N)
    named = str(refusal.value).split("Pass an epsilon of ")[1].split()[0]
    bought = bandwidth.private(NORMAL, epsilon=float(named) * 1.05, bounds=(-8, 8), n_hint=N)  # is not refused
    assert np.isfinite(bought.bandwidth).all() and np.min(bought.bandwidth) > 0
    with pytest.raises(InputError):
        bandwidth.private(NORMAL, epsilon=float(named) / 1.3, bounds=(-8, 8), n_hint=N)


@pytest.mark.once
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
