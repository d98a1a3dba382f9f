"""The order of things: nothing is charged for what fails, and everything is charged before noise is drawn."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato import BudgetError, InputError, Ledger, PrivateKDE
from sfumato.privacy import noise
from sfumato.privacy.ledger import Account

POINTS = np.random.default_rng(0).normal(size=(300, 2))


def _model(account: Account, **arguments: Any) -> PrivateKDE:
    return PrivateKDE(**{"bandwidth": 1.0, "epsilon": "1/2", "n_hint": 300, "ledger": account, **arguments})


def _account() -> Account:
    return Ledger().account("people")


def test_a_release_is_charged_once_for_all_of_epsilon() -> None:
    account = _account()
    _model(account).fit(POINTS)
    assert [(charge.mechanism, charge.epsilon) for charge in account.charges] == [("fourier", Fraction(1, 2))]


def test_a_paid_count_is_charged_first_and_the_total_is_epsilon() -> None:
    account = _account()
    model = _model(account, n_hint="paid").fit(POINTS)
    assert [charge.mechanism for charge in account.charges] == ["count", "fourier"]
    assert account.spent[0] == Fraction(1, 2) == model.release_.guarantee.epsilon


def test_the_paid_count_sets_the_sizes() -> None:
    model = PrivateKDE(bandwidth=1.0, epsilon=50, n_hint="paid").fit(np.repeat(POINTS, 30, axis=0))
    assert abs(model.release_.parameters["n_hint"] - 9000) < 50
    assert model.release_.count.value == model.release_.parameters["n_hint"]


def test_the_charge_is_made_before_any_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    account = _account()
    seen = []

    def sample(self: Any, bits: Any, count: int) -> Any:
        seen.append(account.spent[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(noise.DiscreteLaplace, "sample", sample)
    with pytest.raises(KeyboardInterrupt):
        _model(account).fit(POINTS)
    assert seen == [Fraction(1, 2)]


def test_an_interrupted_sum_costs_nothing() -> None:
    account = _account()

    def batches() -> Any:
        yield POINTS
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _model(account).fit(batches())
    assert account.spent[0] == 0


def test_a_batch_of_another_dimension_is_an_error_that_costs_nothing() -> None:
    account = _account()
    with pytest.raises(InputError, match="3"):
        _model(account).fit(iter([POINTS, np.zeros((2, 3))]))
    assert account.spent[0] == 0


def test_an_overdrawn_account_refuses_before_reading() -> None:
    account = _account()
    account.set_budget("3/4")
    _model(account).fit(POINTS)

    def unread() -> Any:
        yield POINTS
        raise AssertionError("the data was read although the budget was short")

    with pytest.raises(BudgetError, match=r"0\.5.*0\.25"):
        _model(account).fit(unread())
    assert account.spent[0] == Fraction(1, 2)


def test_a_one_pass_source_cannot_buy_its_count() -> None:
    account = _account()
    with pytest.raises(InputError, match="n_hint"):
        _model(account, n_hint="paid").fit(iter([POINTS]))
    assert account.spent[0] == 0


def test_odd_rows_change_only_their_own_part() -> None:
    odd = POINTS.copy()
    odd[7] = np.nan
    without = np.delete(POINTS, 7, axis=0)
    for options in ({}, {"outside": "drop"}):
        settings: dict[str, Any] = {
            "bounds": (-9, 9),
            "options": options,
            "method": "lsq-rff",
            "random_state": 1,
            "feature_seed": 1,
        }
        first = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=300, **settings).fit(odd).release_
        second = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=300, **settings).fit(without).release_
        assert np.array_equal(first.values, second.values)
        assert first.count == second.count


def test_no_rows_at_all_still_release() -> None:
    account = _account()
    release = _model(account).fit(np.empty((0, 2))).release_
    assert account.spent[0] == Fraction(1, 2)
    assert np.isfinite(release.query(np.zeros((1, 2)))).all()
