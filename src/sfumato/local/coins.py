"""Secret coins of a device: exactly uniform integers from the operating system, with the standard library only."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

from sfumato.errors import InputError

BLOCK_BYTES = 512


class Coins:
    """A stream of secret random integers, each used once.

    Examples
    --------
    >>> 0 <= Coins().below(10) < 10
    True
    >>> Coins.seeded(7).below(100), Coins.seeded(7).below(100)
    (97, 97)
    """

    def __init__(self) -> None:
        self._source: Callable[[int], bytes] = os.urandom
        self._unread = b""
        self._process = os.getpid()
        self.private = True

    @classmethod
    def seeded(cls, seed: int | str) -> Coins:
        """Return reproducible coins for tests; what is drawn from them is NOT PRIVATE."""
        coins = cls()
        coins.private = False
        state = hashlib.sha256(f"sfumato-coins:{seed}".encode()).digest()
        blocks = iter(range(2**63))
        coins._source = lambda count: hashlib.shake_256(state + next(blocks).to_bytes(8, "big")).digest(count)
        return coins

    def take(self, count: int) -> bytes:
        """Return the next `count` random bytes."""
        if self._process != os.getpid():  # a forked process must not repeat its parent's coins
            self._unread, self._process = b"", os.getpid()
        if len(self._unread) < count:
            self._unread += self._source(max(BLOCK_BYTES, count))
        taken, self._unread = self._unread[:count], self._unread[count:]
        return taken

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
