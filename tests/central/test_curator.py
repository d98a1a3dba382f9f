"""The order of things: nothing is charged for what fails, and everything is charged before noise is drawn."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from sfumato import BudgetError, InputError, Ledger, PrivateDistance, PrivateKDE, TooFewError
from sfumato.central.curator import IN_MEMORY, Curator, account_of, check_expected, warn_of_score, warn_of_validation
from sfumato.engines import Threads
from sfumato.errors import OddDataWarning, StorageError, UnpaidWarning
from sfumato.privacy import body, noise
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.ledger import Account
from sfumato.sources import attach, open_source
from tests.central.repeated import repeated

POINTS = np.random.default_rng(0).normal(size=(300, 2))


def _model(account: Account, **arguments: Any) -> PrivateKDE:
    # Three deviations of the count's noise are 170: where 100 are expected, noise never stops a run.
    return PrivateKDE(**{"bandwidth": 1.0, "epsilon": "1/2", "n_hint": 100, "ledger": account, **arguments})


def _account() -> Account:
    return Ledger().account("people")


def test_a_release_is_charged_for_its_count_and_then_for_the_rest_of_epsilon() -> None:
    account = _account()
    _model(account).fit(POINTS)
    charges = [(charge.mechanism, charge.epsilon) for charge in account.charges]
    assert charges == [("count", Fraction(1, 40)), ("fourier", Fraction(19, 40))]


@pytest.mark.parametrize(
    "arguments", [{"method": "lsq-rff"}, {"neighbours": "replace", "method": "grid", "bounds": (-4, 4)}]
)
def test_a_run_publishes_what_repeated_runs_do(arguments: dict[str, Any]) -> None:
    source, mechanism = open_source(POINTS), _model(_account(), **arguments).mechanism(open_source(POINTS))
    first, *others = repeated(mechanism, POINTS, 4, seed=1)
    made = Curator(source, None, SecureBits.seeded(1)).run(mechanism)
    assert np.array_equal(made.values, first.values) and made.count == first.count
    assert not np.array_equal(first.values, others[0].values)
    # Two noisy counts are equal once in 160 runs, four once in two million.
    assert all(each.count == first.count for each in others) == ("neighbours" in arguments)


def test_a_paid_count_is_charged_first_and_the_total_is_epsilon() -> None:
    account = _account()
    model = _model(account, n_hint="paid").fit(np.repeat(POINTS, 10, axis=0))
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
    assert seen == [Fraction(1, 40)]


def test_all_is_charged_before_the_noise_of_the_features(monkeypatch: pytest.MonkeyPatch) -> None:
    account, seen = _account(), []

    def sample(self: Any, bits: Any, count: int) -> Any:
        seen.append(account.spent[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(body.DiscNoise, "sample", sample)
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


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"n_hint": "paid"},
        {"bandwidth": 2, "epsilon": 2, "method": "reference", "bounds": (-9, 9), "n_hint": 30_000},
    ],
    ids=["run", "count", "bought"],
)
def test_a_ledger_that_cannot_be_written_refuses_before_reading(
    arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was found at the charge, after hours of summing."""
    account = Ledger(tmp_path / "ledger.jsonl").account("people")
    (tmp_path / "ledger.jsonl.lock").mkdir()  # opening it fails, for every user

    def read(*_: object, **__: object) -> None:
        raise AssertionError("the data was read although nothing can be charged")

    for name in ("sum", "count"):
        monkeypatch.setattr(Threads, name, read)
    with pytest.raises(StorageError, match=r"cannot lock the ledger .*SFUMATO_LEDGER, --ledger"):
        _model(account, **arguments).fit(np.zeros((100, 5)))
    assert not (tmp_path / "ledger.jsonl").exists()


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


def test_no_rows_at_all_release_where_none_could_be_expected() -> None:
    account = _account()
    release = _model(account, n_hint=1).fit(np.empty((0, 2))).release_
    assert account.spent[0] == Fraction(1, 2)
    assert np.isfinite(release.query(np.zeros((1, 2)))).all()


class TestTheCountStopsARun:
    """A paid count far below n_hint ends the run; noise of 28 is 50 deviations away from half of n_hint here."""

    SETTINGS: ClassVar[dict[str, Any]] = {"epsilon": 1, "n_hint": 3000}

    @pytest.mark.parametrize("points", [np.full((3000, 2), np.nan), np.empty((0, 2)), POINTS])
    def test_only_the_count_is_charged_and_nothing_is_released(self, points: Any) -> None:
        account = _account()
        model = _model(account, **self.SETTINGS)
        with pytest.raises(TooFewError, match=r"Only the count was charged \(epsilon = 0.05\).*sfumato check"):
            model.fit(points)
        assert [(charge.mechanism, charge.epsilon) for charge in account.charges] == [("count", Fraction(1, 20))]
        assert not hasattr(model, "release_")

    def test_a_count_above_half_goes_on(self) -> None:
        _model(_account(), **self.SETTINGS).fit(np.repeat(POINTS, 7, axis=0))

    def test_noise_alone_seldom_stops_a_run(self) -> None:
        # 100 records and noise of deviation 283: three deviations are no count at all.
        for _ in range(5):
            _model(_account(), epsilon="1/10", n_hint=100).fit(POINTS[:100])

    @pytest.mark.parametrize(("noisy", "stops"), [(1, True), (84, True), (86, False), (3000, False)])
    def test_a_count_that_was_bought_to_plan_with_is_three_deviations_from_nothing(
        self, noisy: int, stops: bool
    ) -> None:
        with pytest.raises(TooFewError, match="noise alone") if stops else nullcontext():
            check_expected(noisy, (85 / 3) ** 2, None, Fraction(1, 20), SecureBits())

    def test_what_reads_its_count_off_the_sums_cannot_stop(self) -> None:
        account = _account()
        settings = {**self.SETTINGS, "method": "lattice", "bounds": (-5, 5), "delta": 1e-6}
        _model(account, **settings).fit(POINTS)
        assert [(charge.mechanism, charge.epsilon) for charge in account.charges] == [("lattice", Fraction(1))]

    def test_seeded_noise_is_warned_and_goes_on(self) -> None:
        with pytest.warns(OddDataWarning, match="would stop here"):
            PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=3000, random_state=1).fit(POINTS)

    def test_distances_stop_too_where_their_count_is_bought(self) -> None:
        account = _account()
        settings: dict[str, Any] = {"epsilon": 1, "bounds": (-5, 5), "n_hint": 3000, "ledger": account}
        with pytest.raises(TooFewError):
            PrivateDistance("l1", options={"count_share": "1/20"}, **settings).fit(POINTS)
        assert account.spent[0] == Fraction(1, 20)


def test_a_ledger_has_one_account_for_each_file_and_one_for_all_that_is_in_memory(tmp_path: Path) -> None:
    ledger, file = Ledger(tmp_path / "ledger.jsonl"), tmp_path / "trips.csv"
    file.write_text("x\n1\n")
    accounts = [account_of(ledger, data) for data in (file, str(file), [[1.0]], np.zeros((2, 2)))]
    names = [account.dataset for account in accounts if account is not None]
    assert names == [str(file.resolve())] * 2 + [IN_MEMORY] * 2
    own = ledger.account("trips")
    assert account_of(own, file) is own and account_of(None, file) is None
    assert account_of(tmp_path / "ledger.jsonl", file) is not None


def test_files_in_a_list_or_a_source_have_their_account(tmp_path: Path) -> None:
    file, ledger = tmp_path / "points.csv", Ledger()

    def named(data: Any) -> str:
        account = account_of(ledger, data)
        assert account is not None
        return account.dataset

    for name in ("points.csv", "more.csv"):
        (tmp_path / name).write_text("x\n1\n")
    for data in ([file], (str(file),), open_source(file), open_source([file]), open_source([file, file])):
        assert named(data) == str(file.resolve())
    assert named(open_source(f"{tmp_path}/*.csv")) == str(tmp_path.resolve())
    assert named(attach(open_source(file), users=["ada"])) == str(file.resolve())
    both = [file, tmp_path / "more.csv"]
    for data in (both, open_source(both)):
        with pytest.raises(InputError, match="of several accounts"):
            named(data)
    ledger.account_of(tmp_path).charge("count", 1)
    assert named(both) == named([file]) == str(tmp_path.resolve())


@pytest.mark.parametrize("payer", [7, ["ledger"], object()])
def test_what_is_no_account_does_not_pay(payer: Any) -> None:
    with pytest.raises(InputError, match="an account, a ledger or its path"):
        account_of(payer, [[1.0]])


def test_cross_validation_is_warned_of_and_a_plain_fit_is_not() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_validation()
    points = np.random.default_rng(0).uniform(size=(60, 1))
    model = PrivateKDE(bandwidth=1.0, epsilon=1, bounds=(0, 1), n_hint=60, method="grid")
    with pytest.warns(UnpaidWarning, match="epsilon times the number of fits"):
        cross_val_score(model, points, cv=2, scoring=lambda fitted, X, y=None: 0.0)


def test_a_score_is_warned_of() -> None:
    with pytest.warns(UnpaidWarning, match="Pass public points only"):
        warn_of_score()
