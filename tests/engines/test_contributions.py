"""Users as the unit, and weights: who is kept, by which coins, and what it does to sums, noise, errors and charges."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy.stats import chi2

from sfumato import InputError, Ledger, PrivateKDE
from sfumato.audit import audit
from sfumato.audit.cases.central import RECORDS, run_limited, user_cases
from sfumato.central import fourier
from sfumato.engines.contributions import Choice, bounded, keeps, thinned
from sfumato.kernels import Gaussian
from sfumato.methods.registry import METHODS
from sfumato.methods.request import Request
from sfumato.privacy.bits import SecureBits
from sfumato.privacy.body import DiscNoise
from sfumato.privacy.gaussian import gaussian_multiplier
from sfumato.privacy.noise import DiscreteGaussian, DiscreteLaplace
from sfumato.quantizers import ShardedFourier
from sfumato.sources import Source, attach, open_source
from sfumato.sources.base import BATCH_ROWS
from sfumato.sources.keys import keys_of
from tests.central.expected import coin_variance, pair_variance, phase_variance


class Given:
    """Bits that hand out words of the test's choice."""

    def __init__(self, words: np.ndarray) -> None:
        self.left = words.astype(np.uint64)

    def words(self, count: int) -> np.ndarray:
        taken, self.left = self.left[:count], self.left[count:]
        return taken


def given(words: np.ndarray) -> SecureBits:
    return cast(SecureBits, Given(words))


class Batches:
    """Rows in batches of a chosen height, which can be read again."""

    def __init__(self, rows: np.ndarray, height: int) -> None:
        self.rows, self.height = rows, height

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter([self.rows[start : start + self.height] for start in range(0, len(self.rows), self.height)])


def kept_rows(source: Source, rows: int = 65536) -> list[float]:
    """First coordinates of the rows, which name them in these tests."""
    return np.concatenate([np.empty((0, source.dimension)), *source.batches(rows)])[:, 0].tolist()


def crowd(users: Any, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Numbered rows of users."""
    users = np.asarray(users)
    return np.arange(first, first + len(users), dtype=float)[:, None], users


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_every_user_keeps_as_many_as_they_may(limit: int) -> None:
    rows, users = crowd(np.random.default_rng(0).integers(0, 50, 2000))
    kept = kept_rows(bounded(attach(open_source(rows), users), limit, SecureBits()))
    assert kept == sorted(set(kept))
    have, keep = Counter(users.tolist()), Counter(users[np.array(kept, dtype=int)].tolist())
    assert keep == {user: min(limit, records) for user, records in have.items()}


def test_every_subset_of_a_users_records_is_equally_likely() -> None:
    people, records, limit = 30_000, 5, 2
    rows, users = crowd(np.tile(np.arange(people), records))
    kept = np.array(kept_rows(bounded(attach(open_source(rows), users), limit, SecureBits.seeded(1))), dtype=int)
    mine: dict[int, list[int]] = {}
    for row in kept.tolist():
        mine.setdefault(row % people, []).append(row // people)
    counts = Counter(tuple(sorted(chosen)) for chosen in mine.values())
    subsets = list(combinations(range(records), limit))
    expected = people / len(subsets)
    statistic = sum((counts[subset] - expected) ** 2 / expected for subset in subsets)
    assert sum(counts.values()) == people
    assert chi2.sf(statistic, len(subsets) - 1) > 1e-6


@pytest.mark.parametrize("height", [1, 7, 100, 1000])
def test_batches_do_not_change_the_choice(height: int) -> None:
    rows, users = crowd(np.random.default_rng(1).integers(0, 30, 1000))
    expected = kept_rows(bounded(attach(open_source(rows), users), 4, SecureBits.seeded(5)))
    source = attach(open_source(Batches(rows, height)), users)
    assert kept_rows(bounded(source, 4, SecureBits.seeded(5)), height) == expected


def test_each_users_choice_follows_their_own_words_alone() -> None:
    random = np.random.default_rng(2)
    rows, users = crowd(random.integers(0, 30, 1000))
    words = random.integers(0, 2**63, 1000)
    before = kept_rows(bounded(attach(open_source(rows), users), 3, given(words)))
    order = random.permutation(1000)
    shuffled = kept_rows(bounded(attach(open_source(rows[order]), users[order]), 3, given(words[order])))
    assert sorted(shuffled) == before
    # One more user, whose ten records stand between the others', and one less.
    places = np.sort(random.integers(0, 1000, 10))
    more_rows, more_users = np.insert(rows, places, -1.0, axis=0), np.insert(users, places, 99)
    more_words = np.insert(words, places, random.integers(0, 2**63, 10))
    more = kept_rows(bounded(attach(open_source(more_rows), more_users), 3, given(more_words)))
    assert [row for row in more if row >= 0] == before
    assert more.count(-1.0) == 3
    others = users != 7
    less = kept_rows(bounded(attach(open_source(rows[others]), users[others]), 3, given(words[others])))
    assert less == [row for row in before if users[int(row)] != 7]


def test_every_reading_gives_the_same_rows() -> None:
    rows, users = crowd(np.random.default_rng(1).integers(0, 30, 1000))
    weights = np.linspace(0, 1, 1000)
    for source in (
        bounded(attach(open_source(rows), users), 2, SecureBits()),
        thinned(attach(open_source(rows), weights=weights), SecureBits()),
        bounded(thinned(attach(open_source(rows), users, weights), SecureBits()), 2, SecureBits()),
    ):
        assert source.repeatable
        assert kept_rows(source) == kept_rows(source, 10)


def test_rows_of_nobody_and_rows_without_values_take_no_place() -> None:
    rows = np.array([[0.0], [np.nan], [2.0], [np.inf], [4.0], [5.0], [np.nan]])
    users = ["a", "a", None, "a", "a", "b", "c"]
    for _ in range(20):
        kept = kept_rows(bounded(attach(open_source(rows), users), 2, SecureBits()))
        assert kept == [0.0, 4.0, 5.0]


def test_nobody_at_all_is_no_error() -> None:
    assert kept_rows(bounded(attach(open_source(np.eye(3)), [None] * 3), 2, SecureBits())) == []
    assert kept_rows(bounded(attach(open_source(np.empty((0, 2))), []), 2, SecureBits())) == []


def test_what_a_limit_needs() -> None:
    with pytest.raises(InputError, match="needs rows with users"):
        bounded(open_source(np.eye(3)), 1, SecureBits())
    with pytest.raises(InputError, match="reads the data twice.*only once.*Pass an array"):
        bounded(attach(open_source(iter([np.eye(3)])), [1, 2, 3]), 1, SecureBits())
    with pytest.raises(InputError, match="need rows with weights"):
        thinned(open_source(np.eye(3)), SecureBits())


class Changing:
    """A loader that gives its rows in another order each time, or fewer of them."""

    def __init__(self, rows: np.ndarray, orders: list[np.ndarray]) -> None:
        self.rows, self.orders = rows, orders

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter([self.rows[self.orders.pop(0)]])


@pytest.mark.parametrize("second", [np.arange(40)[::-1], np.arange(20)], ids=["another order", "fewer"])
def test_a_source_that_does_not_repeat_itself_is_refused(second: np.ndarray) -> None:
    rows = np.column_stack([np.arange(40.0), np.arange(40) // 10])
    first = np.arange(40)
    source = open_source(Changing(rows, [first, first, second]), key=1)
    with pytest.raises(InputError, match="gave other rows when it was read again"):
        kept_rows(bounded(source, 10, SecureBits()))


def test_memory_follows_the_users_and_not_the_rows() -> None:
    choice, random, most = Choice(limit=3), np.random.default_rng(3), 0
    keys = keys_of(np.arange(10))
    for start in range(0, 40 * BATCH_ROWS, BATCH_ROWS):
        users = random.integers(0, 10, BATCH_ROWS)
        words = random.integers(0, 2**63, BATCH_ROWS).astype(np.uint64)
        choice.add(keys[users], words, np.arange(start, start + BATCH_ROWS))
        most = max(most, choice.gathered)
    choice.cut()
    assert most <= 2 * BATCH_ROWS
    assert choice.gathered == len(choice.words) == 30


WORDS = [0, 1, 2**63 - 1, 2**63, 2**64 - 2**11 - 1, 2**64 - 2**11, 2**64 - 1]


@pytest.mark.parametrize(
    ("weight", "below"),
    [
        (0.0, 0),
        (-1.0, 0),
        (-np.inf, 0),
        (np.nan, 0),
        (5e-324, 0),
        (2.0**-64, 1),
        (0.5, 2**63),
        (1 - 2.0**-53, 2**64 - 2**11),
        (1.0, 2**64),
        (7.0, 2**64),
        (np.inf, 2**64),
    ],
)
def test_a_weight_keeps_exactly_its_share_of_the_words(weight: float, below: int) -> None:
    kept = keeps(np.full(len(WORDS), weight), np.array(WORDS, dtype=np.uint64))
    assert kept.tolist() == [word < below for word in WORDS]


def test_weights_are_probabilities() -> None:
    weights = np.repeat([0.1, 0.5, 0.9], 20_000)
    rows = np.repeat([0.0, 1.0, 2.0], 20_000)[:, None]
    counts = Counter(kept_rows(thinned(attach(open_source(rows), weights=weights), SecureBits.seeded(1))))
    for number, weight in enumerate([0.1, 0.5, 0.9]):
        # five standard deviations: false alarms below 1e-6 each
        assert abs(counts[number] - 20_000 * weight) < 5 * math.sqrt(20_000 * weight * (1 - weight))


def test_batches_do_not_change_the_weights_coins() -> None:
    rows, weights = np.arange(1000.0)[:, None], np.linspace(0, 1, 1000)
    expected = kept_rows(thinned(attach(open_source(rows), weights=weights), SecureBits.seeded(2)))
    for height in (1, 7, 300):
        source = thinned(attach(open_source(Batches(rows, height)), weights=weights), SecureBits.seeded(2))
        assert kept_rows(source, height) == expected
    assert kept_rows(thinned(attach(open_source(iter([rows])), weights=weights), SecureBits.seeded(2))) == expected


def test_coins_add_the_stated_variance_to_weighted_means() -> None:
    random = np.random.default_rng(4)
    weights, values = random.uniform(0.05, 0.95, 800), random.uniform(0, 1, 800)
    truth = (weights * values).sum() / weights.sum()
    source = attach(open_source(values[:, None]), weights=weights)
    bits = SecureBits.seeded(3)
    answers = np.array([np.mean(kept_rows(thinned(source, bits))) for _ in range(3000)])
    coins = weights * (1 - weights) / weights.sum() ** 2
    variance, bias = (coins * (values - truth) ** 2).sum(), -(coins * (values - truth)).sum()
    # five standard deviations of a mean, and of a variance of 3000 normal values: sqrt(2 / 3000)
    assert abs(answers.mean() - truth - bias) < 5 * math.sqrt(variance / 3000)
    assert abs(bias) < 0.1 * math.sqrt(variance)
    assert abs(answers.var() / variance - 1) < 5 * math.sqrt(2 / 3000)
    assert variance < truth * (1 - truth) / weights.sum()


def test_the_limit_adds_the_stated_variance_to_means() -> None:
    random = np.random.default_rng(5)
    records = np.array([1, 2, 3, 5, 10] * 40)
    users, values = np.repeat(np.arange(200), records), random.uniform(0, 1, records.sum())
    source, bits, limit = attach(open_source(values[:, None]), users), SecureBits.seeded(4), 3
    answers = np.array([np.mean(kept_rows(bounded(source, limit, bits))) for _ in range(2000)])
    each = [values[users == user] for user in range(200)]
    kept = np.minimum(records, limit)
    truth = sum(k * own.mean() for k, own in zip(kept, each, strict=True)) / kept.sum()
    spread = np.array([own.var(ddof=1) if len(own) > 1 else 0.0 for own in each])
    variance = (kept * (1 - kept / records) * spread).sum() / kept.sum() ** 2
    assert abs(answers.mean() - truth) < 5 * math.sqrt(variance / 2000)
    assert abs(answers.var() / variance - 1) < 5 * math.sqrt(2 / 2000)
    assert variance < 1 / (4 * kept.sum())


def _request(method: str = "fourier", **arguments: Any) -> Request:
    settings: dict[str, Any] = {
        "kernel": Gaussian(1.0),
        "dimension": 2,
        "epsilon": Fraction(1),
        "n": 5000,
        "feature_seed": 1,
        "unit": "user",
        "options": {"max_records_per_user": 3, "n_features": 40},
        "delta": 1e-6 if method == "fourier-gaussian" else 0.0,
    }
    return Request(**{**settings, **arguments})


@pytest.mark.parametrize("method", ["lsq-rff", "fourier", "fourier-gaussian"])
def test_noise_is_made_for_all_records_of_a_user(method: str) -> None:
    mechanism = METHODS.build(method, _request(method))
    bound, budget = mechanism.encoder.bound, Fraction(19, 20)
    if isinstance(mechanism.noise, DiscreteLaplace):
        assert mechanism.noise.rate == budget / (3 * bound.l1)
    elif isinstance(mechanism.noise, DiscNoise):
        assert mechanism.noise.rate == budget / (3 * fourier.RADIUS)
    else:
        assert isinstance(mechanism.noise, DiscreteGaussian)
        needed = gaussian_multiplier(0.95, 1e-6) * 3 * math.sqrt(bound.l2_squared)
        assert needed <= mechanism.noise.sigma < 1.01 * needed
    assert mechanism.count_law is not None
    assert (mechanism.count_law.rate, mechanism.count_law.epsilon) == (Fraction(1, 60), Fraction(1, 20))


@pytest.mark.parametrize("method", ["lsq-rff", "fourier", "fourier-gaussian"])
def test_one_user_changes_the_sums_by_at_most_their_limit(method: str) -> None:
    mechanism = METHODS.build(method, _request(method))
    quantizer, random = mechanism.encoder, np.random.default_rng(6)
    crowd_rows, crowd_users = random.normal(size=(50, 2)), random.integers(0, 20, 50)
    words, groups = random.integers(0, 2**63, 60), random.integers(0, 2**30, 60)
    for point in random.normal(size=(10, 2)):
        rows = np.concatenate([crowd_rows, np.tile(point, (10, 1))])
        users = np.concatenate([crowd_users, np.full(10, 99)])
        sums = [
            _sums(quantizer, bounded(attach(open_source(rows[:n]), users[:n]), 3, given(words[:n])), groups)
            for n in (60, 50)
        ]
        change = sums[0] - sums[1]
        assert change.any()
        assert np.abs(change).sum() <= 3 * quantizer.bound.l1
        assert np.square(change).sum() <= 9 * quantizer.bound.l2_squared
        if isinstance(quantizer, ShardedFourier):
            pairs = change.reshape(quantizer.groups, quantizer.per_group, 2)
            norms = np.sqrt(np.square(pairs).sum(axis=2)).max(axis=1)
            assert norms.sum() <= 3 * quantizer.radius
            assert norms.sum() > 2.9 * quantizer.radius


def _sums(quantizer: Any, source: Source, groups: np.ndarray) -> np.ndarray:
    """Sums with coins of the test's choice: the first rows have the same coins whatever follows them."""

    class Coins:
        def below(self, bound: int, count: int) -> np.ndarray:
            return groups[:count] % bound

    sums = np.zeros(quantizer.size, dtype=np.int64)
    for batch in source.batches():
        quantizer.accumulate(batch, sums, Coins())
    return sums


@pytest.mark.parametrize("name", ["one more", "second", "groups", "gaussian"])
def test_the_audit_holds_with_the_limit_and_fails_without(name: str) -> None:
    case = user_cases()[name]
    assert audit(case.case(), 20_000, bits=SecureBits.seeded(1)).holds
    unlimited = replace(case, run=partial(run_limited, limit=RECORDS))
    assert not audit(unlimited.case(), 20_000, bits=SecureBits.seeded(1)).holds


@pytest.mark.parametrize("name", ["one more", "second"])
def test_the_audit_catches_one_record_too_many(name: str) -> None:
    case = user_cases()[name]
    assert case.mechanism.count_law is not None
    generous = replace(case, run=partial(run_limited, limit=case.mechanism.count_law.records + 1))
    assert not audit(generous.case(), 20_000, bits=SecureBits.seeded(1)).holds


POINTS = np.random.default_rng(0).normal(size=(600, 2))
USERS = np.random.default_rng(1).integers(0, 150, 600)
SEEDED: dict[str, Any] = {"bandwidth": 0.7, "epsilon": 1, "n_hint": 400, "random_state": 3, "feature_seed": 4}
LIMITED: dict[str, Any] = {**SEEDED, "unit": "user", "options": {"max_records_per_user": 3}}


def test_the_promise_is_made_to_users() -> None:
    release = PrivateKDE(**LIMITED).fit(POINTS, users=USERS).release_
    assert release.guarantee.unit == "user"
    assert "at most 3 records per user, chosen at random; records without a user are dropped" in release.statement()
    weighted = PrivateKDE(**SEEDED).fit(POINTS, sample_weight=np.ones(600)).release_
    assert weighted.guarantee.unit == "record"
    assert "weights outside [0, 1] are clipped to it" in str(weighted.guarantee)


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        (LIMITED, {}, "needs to know whose each record is: pass users="),
        (SEEDED, {"users": USERS}, "pass unit='user', or no users"),
        ({**LIMITED, "options": {}}, {"users": USERS}, r"needs options=\{'max_records_per_user': k\}"),
        ({**LIMITED, "options": {"max_records_per_user": 0}}, {"users": USERS}, "positive whole number"),
        ({**LIMITED, "options": {"max_records_per_user": 2.0}}, {"users": USERS}, "positive whole number"),
        ({**LIMITED, "unit": "record"}, {}, "max_records_per_user is for users: pass unit='user'"),
        ({**LIMITED, "unit": "household"}, {"users": USERS}, "unit must be one of 'record', 'user'"),
        ({**LIMITED, "neighbours": "replace"}, {"users": USERS}, "changes the number of records"),
        ({**SEEDED, "neighbours": "replace"}, {"sample_weight": np.ones(600)}, "how many records their coins keep"),
        (LIMITED, {"users": USERS[:-1]}, "one value for each row"),
        (LIMITED, {"users": "id"}, "no column names, so 'id' selects nothing"),
        (SEEDED, {"sample_weight": np.ones(599)}, "one value for each row"),
        ({**LIMITED, "options": {"max_records_per_user": 3, "colour": 1}}, {"users": USERS}, "unknown option 'colour'"),
    ],
)
def test_refusals_name_the_problem_and_cost_nothing(
    settings: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    account = Ledger().account("people")
    with pytest.raises(InputError, match=message):
        PrivateKDE(**settings, ledger=account).fit(POINTS, **arguments)
    assert account.charges == ()


def test_a_one_pass_source_of_users_is_refused_before_reading() -> None:
    def unread() -> Iterator[np.ndarray]:
        yield POINTS
        raise AssertionError("the data was read")

    with pytest.raises(InputError, match="only once"):
        PrivateKDE(**LIMITED).fit(unread(), users=USERS)


@pytest.mark.parametrize("method", ["lsq-rff", "fourier", "fourier-gaussian"])
def test_charges_are_for_users_and_add_up(method: str) -> None:
    account = Ledger().account("people")
    settings = {**LIMITED, "n_hint": "paid", "method": method, "delta": 1e-6 if "gaussian" in method else 0.0}
    model = PrivateKDE(**settings, ledger=account).fit(POINTS, users=USERS)
    assert [(charge.mechanism, charge.unit) for charge in account.charges] == [("count", "user"), (method, "user")]
    assert [charge.epsilon for charge in account.charges] == [Fraction(1, 20), Fraction(19, 20)]
    assert account.spent == (Fraction(1), settings["delta"])
    assert model.release_.guarantee.epsilon == 1


def test_a_paid_count_counts_the_records_kept() -> None:
    settings = {**LIMITED, "n_hint": "paid", "epsilon": 500}
    model = PrivateKDE(**settings).fit(POINTS, users=USERS)
    kept = sum(min(3, records) for records in Counter(USERS.tolist()).values())
    assert abs(model.release_.count.value - kept) <= 3
    weights = np.tile([1.0, 0.0], 300)
    model = PrivateKDE(**{**SEEDED, "n_hint": "paid", "epsilon": 500}).fit(POINTS, sample_weight=weights)
    assert abs(model.release_.count.value - 300) <= 3


def test_every_way_to_name_users_and_weights_gives_the_same_release(tmp_path: Path) -> None:
    weights = np.linspace(-0.1, 1.2, 600)
    frame = pd.DataFrame({"id": [f"u{user}" for user in USERS], "x": POINTS[:, 0], "w": weights, "y": POINTS[:, 1]})
    frame.to_csv(tmp_path / "p.csv", index=False)
    pa.parquet.write_table(pa.Table.from_pandas(frame), tmp_path / "p.parquet", row_group_size=97)
    # Each record of its own batch draws its own group, so that only a mechanism without groups repeats exactly.
    settings = {**LIMITED, "method": "lsq-rff"}
    columns: dict[str, Any] = {"users": "id", "sample_weight": "w"}
    releases = [
        PrivateKDE(**settings).fit(POINTS, users=USERS, sample_weight=weights).release_,
        PrivateKDE(**settings).fit(frame, **columns).release_,
        PrivateKDE(**settings).fit(str(tmp_path / "p.csv"), **columns).release_,
        PrivateKDE(**settings).fit(tmp_path / "p.parquet", **columns).release_,
        PrivateKDE(**settings).fit(open_source(tmp_path / "p.csv", ["x", "y"], key="id", weight="w")).release_,
        PrivateKDE(**settings).fit(frame[["x", "y"]], users=frame["id"], sample_weight=frame["w"]).release_,
    ]
    assert [release.columns for release in releases] == [None, *[("x", "y")] * 5]
    for release in releases[1:]:
        assert np.array_equal(release.values, releases[0].values)
        assert release.count == releases[0].count


def test_records_of_weight_one_are_all_there_and_of_weight_zero_are_not() -> None:
    settings = {**SEEDED, "method": "lsq-rff", "epsilon": 1000, "options": {"n_features": 20}}
    weights = np.tile([1.0, 0.0], 300)
    half = PrivateKDE(**settings).fit(POINTS, sample_weight=weights).release_
    alone = PrivateKDE(**settings).fit(POINTS[::2], sample_weight=np.ones(300)).release_
    assert np.array_equal(half.values, alone.values)
    assert half.count == alone.count


def test_choices_are_fresh_without_a_seed() -> None:
    # 150 users with a record each: as many as expected, for a run that is not seeded stops far below.
    chosen = {"random_state": None, "n_hint": 150, "options": {"max_records_per_user": 1, "n_features": 10}}
    loud = {**LIMITED, **chosen, "epsilon": 1000}
    first, second = (PrivateKDE(**loud, method="lsq-rff").fit(POINTS, users=USERS).release_ for _ in range(2))
    # Noise of width 350 does not reach so far: what differs is which records were chosen.
    assert np.abs(first.values - second.values).max() > 20_000


N, LIMIT, RECORDS_EACH, RUNS = 1200, 3, 5, 400
KERNEL = Gaussian(1.0)
PEOPLE = N // LIMIT
THEIRS = np.random.default_rng(7).normal(size=(PEOPLE * RECORDS_EACH, 3)) * 0.6
WHOSE = np.arange(len(THEIRS)) % PEOPLE
QUERIES = np.random.default_rng(8).normal(size=(12, 3)) * 0.8
EXACT = KERNEL.exact_density(THEIRS, QUERIES)


def _choice_variance() -> float:
    values = KERNEL.value(THEIRS, QUERIES).reshape(RECORDS_EACH, PEOPLE, len(QUERIES))
    return float(LIMIT * (1 - LIMIT / RECORDS_EACH) * values.var(axis=0, ddof=1).sum(axis=0).mean() / N**2)


@pytest.mark.parametrize(("method", "features"), [("lsq-rff", 50), ("fourier", 200), ("fourier-gaussian", 300)])
def test_error_is_the_formula(method: str, features: int) -> None:
    delta = 1e-6 if method == "fourier-gaussian" else 0.0
    options = {"max_records_per_user": LIMIT, "n_features": features, "count_share": "1/2"}
    errors, squares, scores, widths = [], [], [], []
    for seed in range(RUNS):
        model = PrivateKDE(
            KERNEL,
            epsilon=2,
            delta=delta,
            method=method,
            n_hint=N,
            unit="user",
            options=options,
            random_state=seed,
            feature_seed=seed,
        ).fit(THEIRS, users=WHOSE)
        answers, bars = model.query(QUERIES, return_std=True)
        errors.append((answers - EXACT).mean())
        squares.append(((answers - EXACT) ** 2).mean())
        scores.append((((answers - EXACT) / bars) ** 2).mean())
        widths.append((bars**2).mean())
    noise = LIMIT / N
    expected = _choice_variance() + 2 * (LIMIT / N) ** 2 * float((EXACT**2).mean())
    if method == "lsq-rff":
        expected += phase_variance(KERNEL, THEIRS, QUERIES) / features + 4 * features * noise**2
    elif method == "fourier":
        coins = coin_variance(KERNEL, THEIRS[:N], QUERIES, features // fourier.PER_GROUP, fourier.PER_GROUP)
        pairs = pair_variance(KERNEL, THEIRS, QUERIES) / features
        expected += pairs + fourier.kappa(fourier.PER_GROUP) * features * noise**2 + coins
    else:
        expected += pair_variance(KERNEL, THEIRS, QUERIES) / features + (gaussian_multiplier(1, delta) * noise) ** 2
    # A t statistic of 5 over independent runs: false alarms below 1e-6. Squares deviate by 0.8 of their mean and are as
    # skewed as a gamma law, 1.6: exp(1.6 t^3 / (3 sqrt(400))) makes a t of -5 as frequent as 1e-5, and of -6 as 3e-7.
    assert abs(np.mean(errors)) < 5 * np.std(errors) / math.sqrt(RUNS)
    tolerance = 6 * np.std(squares) / math.sqrt(RUNS)
    assert tolerance < 0.35 * np.mean(squares)
    assert abs(np.mean(squares) - expected) < tolerance
    # Bars hold the largest variance that the choice of records can add, A (1 - A) / n, and not its own. The rest is
    # estimated from m terms, so that scores are squares of t numbers. Over 1,000 runs the bars were within 1 % of
    # that, and over 1,800 the scores within 0.02; t statistics of 6 beyond twice as much: false alarms below 1e-6.
    stated = expected - _choice_variance() + float((EXACT * (1 - EXACT)).mean()) / N
    assert abs(np.mean(widths) - stated) < 0.02 * stated + 6 * np.std(widths) / math.sqrt(RUNS)
    score = expected / stated * (features - 1) / (features - 3)
    assert abs(np.mean(scores) - score) < 0.04 + 6 * np.std(scores) / math.sqrt(RUNS)
    request = _request(method, dimension=3, epsilon=Fraction(2), n=N, options={**options})
    predicted = METHODS[method].predict(request, float(KERNEL.value(THEIRS, THEIRS).mean())).rmse
    # Predictions know one density and not where queries are. Over 40 data sets they were 1.06, 1.07 and 1.22 of the
    # formula, 0.015, 0.009 and 0.025 more or less: limits are seven deviations away. The error is held to it above.
    assert 0.9 < predicted / math.sqrt(expected) < 1.4
