"""What is sent to workers: every encoder is the same there, and so are rows that were packed on the way."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from sfumato.engines import shipping
from sfumato.engines.base import Presence
from sfumato.engines.packing import packed, unpacked
from sfumato.engines.shipping import Work, dealt
from sfumato.sources.base import Rows
from sfumato.sources.keys import keys_of, share_secret
from tests.engines.workers import Subsets
from tests.quantizers.families import QUANTIZERS, AssignedCoins

POINTS = (np.random.default_rng(0).normal(size=(300, 5)) * 1.5).astype(np.float32)


@pytest.mark.parametrize("name", QUANTIZERS)
def test_encoders_are_sent_unchanged_and_do_not_mind_the_width_of_numbers(name: str) -> None:
    encoder, coins = QUANTIZERS[name](), np.arange(300) * 7
    rows = np.abs(POINTS).round() if "min-hash" in name else POINTS
    sent = pickle.loads(pickle.dumps(Work(encoder, (), 5))).encoder
    here = encoder.encode(rows, AssignedCoins(coins))
    assert np.array_equal(sent.encode(rows, AssignedCoins(coins)), here)
    # Rows that are brought together by user travel in double precision.
    assert np.array_equal(encoder.encode(rows.astype(np.float64), AssignedCoins(coins)), here)


def test_packed_rows_come_back_without_those_that_cannot_count() -> None:
    block = POINTS[:9].copy()
    block[3, 1], block[4, 0] = np.nan, np.inf
    keys = keys_of(["ada", "bob", None, "cy", "di", "ada", " ada ", "", "7"])
    rows = Rows(block, keys, np.linspace(0, 1, 9))
    [batch] = packed(iter([rows]))
    for batches in ([batch], [batch.slice(0, 2), batch.slice(2)], [batch.slice(0, 0), batch]):
        back = Rows.joined(list(unpacked(batches, 5)))
        expected = rows[[0, 1, 5, 6, 8]]
        assert back.block.dtype == np.float64 and np.array_equal(back.block, expected.block.astype(np.float64))
        assert np.array_equal(back.users, expected.users) and np.array_equal(back.weights, expected.weights)
    [plain] = unpacked(packed(iter([Rows(block[:2], keys[:2])])), 5)
    assert np.array_equal(plain.weights, np.ones(2))
    assert list(packed(iter([rows[2:3]]))) == []


@pytest.fixture
def restored() -> Iterator[None]:
    from sfumato.sources import keys

    before = keys._KEYED_HASH
    yield
    keys._KEYED_HASH = before


@pytest.mark.usefixtures("restored")
def test_processes_with_one_secret_agree_on_keys() -> None:
    own = keys_of(["ada", 7])
    share_secret(b"s" * 32)
    first = keys_of(["ada", 7])
    share_secret(b"t" * 32)
    other = keys_of(["ada", 7])
    share_secret(b"s" * 32)
    assert np.array_equal(keys_of(["ada", 7]), first)
    assert not (first == own).any() and not (first == other).any()


@dataclass(frozen=True)
class Part:
    """A shard whose number of rows is known, or is not."""

    rows: int | None

    def pieces(self, rows: int) -> Iterator[Rows]:
        raise NotImplementedError


@pytest.mark.parametrize("name", QUANTIZERS)
def test_small_shards_are_put_together_until_a_task_pays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = QUANTIZERS[name]()
    touched = encoder.bound.l1 // encoder.bound.largest
    assert 1 <= touched <= encoder.size
    monkeypatch.setattr(shipping, "TASK_NUMBERS", 1000 * (5 + touched))
    shards = [Part(rows) for rows in (400, 500, 99, 1, 5000, 600, None, 300, 300, 500, 900, 50)]
    hands = Work(encoder, (), 5).hands(shards)
    assert [shard for hand in hands for shard in hand] == shards
    heights = [[shard.rows for shard in hand] for hand in hands]
    assert heights == [[400, 500, 99, 1], [5000], [600, None], [300, 300, 500], [900, 50]]


def test_tasks_without_a_bound_are_as_small_as_if_all_features_were_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "TASK_NUMBERS", 1000)
    for encoder, least in ((Presence(), 500), (Subsets(98), 10)):
        hands = Work(encoder, (), 2).hands([Part(1)] * 1000)
        assert {len(hand) for hand in hands} == {least}
    assert Work(Presence(), (), 2).hands([]) == []


def test_hands_hold_every_item_once() -> None:
    for items in (0, 1, 5, 100):
        for hands in (1, 3, 7, 1000):
            given = dealt(range(items), hands)
            assert [item for hand in given for item in hand] == list(range(items)) and len(given) <= hands
            assert all(given)
