"""Secret coins of a device: exactly uniform integers from the operating system, with the standard library only.

Nothing is kept between two draws: every byte comes from the operating system when it is asked for. So neither a copy
nor a pickle of a client, nor a fork of its process, nor two threads that share it can ever see the same coin twice.
"""

from __future__ import annotations

import hashlib
import os

from sfumato.errors import InputError

BLOCK_BYTES = 512


class Coins:
    """Secret random integers, each used once.

    Examples
    --------
    >>> 0 <= Coins().below(10) < 10
    True
    >>> Coins.seeded(7).below(100), Coins.seeded(7).below(100)
    (97, 97)
    """

    private = True

    @staticmethod
    def seeded(seed: int | str) -> Coins:
        """Return reproducible coins for tests; what is drawn from them is NOT PRIVATE."""
        return _SeededCoins(seed)

    def take(self, count: int) -> bytes:
        """Return `count` random bytes."""
        return os.urandom(count)

    def below(self, bound: int) -> int:
        """Return an integer, exactly uniform in [0, bound)."""
        if bound < 1:
            raise InputError(f"the bound of a uniform integer must be at least 1, got {bound}")
        bits = (bound - 1).bit_length()
        size, surplus = -(-bits // 8), -bits % 8
        while True:
            value = int.from_bytes(self.take(size), "little") >> surplus
            if value < bound:
                return value


class _SeededCoins(Coins):
    private = False

    def __init__(self, seed: int | str) -> None:
        self._state = hashlib.sha256(f"sfumato-coins:{seed}".encode()).digest()
        self._block = 0
        self._unread = b""

    def take(self, count: int) -> bytes:
        if len(self._unread) < count:
            block = self._state + self._block.to_bytes(8, "big")
            self._unread += hashlib.shake_256(block).digest(max(BLOCK_BYTES, count))
            self._block += 1
        taken, self._unread = self._unread[:count], self._unread[count:]
        return taken
