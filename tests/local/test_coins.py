"""The coins of a device: no copy, pickle, fork or thread of it repeats one."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sfumato.local import Protocol
from sfumato.local.coins import Coins
from tests.forks import told_by_a_child

# 1000 draws of 6 bytes repeat one by chance with a probability below 2e-9.
DRAWS, BYTES = 50, 6
PROTOCOL = Protocol("l2-lsh", bandwidth=0.5, dimension=2, epsilon=1, participants=100, bounds=(0, 1), seed=3)


class BufferedCoins(Coins):
    """The broken twin: reads ahead, and what it has read is in every copy and every child."""

    def __init__(self) -> None:
        self._unread = b""

    def take(self, count: int) -> bytes:
        if len(self._unread) < count:
            self._unread += os.urandom(1 << 16)
        taken, self._unread = self._unread[:count], self._unread[count:]
        return taken


def draws(coins: Coins) -> list[bytes]:
    return [coins.take(BYTES) for _ in range(DRAWS)]


def forked_unseen(coins: Coins) -> list[bytes]:
    """Return what the child of a fork that the library does not notice draws."""
    received = told_by_a_child(lambda: b"".join(draws(coins)))
    return [received[start : start + BYTES] for start in range(0, len(received), BYTES)]


WAYS: dict[str, Callable[[Any], list[bytes]]] = {
    "copy": lambda coins: draws(copy.copy(coins)),
    "deepcopy": lambda coins: draws(copy.deepcopy(coins)),
    "pickle": lambda coins: draws(pickle.loads(pickle.dumps(coins))),
    "fork": forked_unseen,
}


def repeated(coins: Coins, way: str) -> int:
    """How many draws of two duplicates and the original occur more than once."""
    first = draws(coins)
    everything = [*first, *WAYS[way](coins), *WAYS[way](coins), *draws(coins)]
    assert len(everything) == 4 * DRAWS
    return len(everything) - len(set(everything))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("way", WAYS)
def test_duplicates_never_repeat_a_coin(way: str) -> None:
    assert repeated(Coins(), way) == 0
    assert repeated(BufferedCoins(), way) >= 2 * DRAWS  # the check can fail


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda client: pickle.loads(pickle.dumps(client))])
def test_duplicated_clients_share_no_identity(duplicate: Callable[[Any], Any]) -> None:
    client = PROTOCOL.client()
    client.report([0.5, 0.5])
    twins = [client, duplicate(client), duplicate(client)]
    identities = [twin.report([0.5, 0.5])[4:10] for twin in twins for _ in range(20)]
    assert len(set(identities)) == len(identities)


def test_threads_never_share_a_coin() -> None:
    coins, received = Coins(), []
    threads = [threading.Thread(target=lambda: received.extend(draws(coins))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(received)) == len(received) == 8 * DRAWS


@pytest.mark.exact  # a salt tells numbers and their digits apart
def test_seeded_coins_say_that_they_are_not_private() -> None:
    assert Coins().private and not Coins.seeded(1).private
    assert Coins.seeded(1).take(700) == Coins.seeded("1").take(700) != Coins.seeded(2).take(700)
