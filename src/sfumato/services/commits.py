"""Group commit: while one transaction is being written, the requests that come meanwhile wait for the next.

A disk takes some milliseconds to make a transaction durable, whatever its size, and checking many reports at once costs
little more than checking one. Alone, each request would pay for both; together they pay once. There is no timer: an
idle server commits at once, a busy one in groups as large as the disk is slow. What waits is bounded, in bytes: beyond
that a request is told to come again later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from sfumato.services.wire import Fate, Problem

MOST_WAITING = 1 << 26  # bytes
MOST_FRAMES = 1 << 16  # in one transaction, so that the first of them does not wait long
_OVERHEAD = 200  # bytes that Python needs for a frame

Settle = Callable[[Sequence[bytes]], list[Fate]]
Waiting = tuple[Sequence[bytes], "asyncio.Future[list[Fate]]"]


class Commits:
    """Settles the frames of many requests together, in a thread.

    Parameters
    ----------
    settle : callable
        Keeps frames, durably when it returns, and says what became of each.
    most_waiting : int
        Bytes that may wait.
    """

    def __init__(self, settle: Settle, most_waiting: int = MOST_WAITING) -> None:
        self._settle = settle
        self._most = most_waiting
        self._bytes = 0
        self._waiting: list[Waiting] = []
        self._thread = ThreadPoolExecutor(1, "commits")
        self._writer: asyncio.Task[None] | None = None
        self.transactions = 0

    @property
    def waiting(self) -> int:
        """Bytes that wait."""
        return self._bytes

    async def add(self, contents: Sequence[bytes]) -> list[Fate]:
        """Keep frames; they are on disk when this returns."""
        size = sum(map(len, contents)) + _OVERHEAD * (len(contents) + 1)
        if self._bytes and self._bytes + size > self._most:
            raise Problem("busy", retry_after=1)
        self._bytes += size
        try:
            future: asyncio.Future[list[Fate]] = asyncio.get_running_loop().create_future()
            self._waiting.append((contents, future))
            if self._writer is None or self._writer.done():
                self._writer = asyncio.create_task(self._write())
            return await future
        finally:
            self._bytes -= size

    async def _write(self) -> None:
        while self._waiting:
            group = self._next_group()
            contents = [content for part, _ in group for content in part]
            loop = asyncio.get_running_loop()
            try:
                fates = await loop.run_in_executor(self._thread, self._settle, contents)
            except Exception as error:
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
                continue
            self.transactions += 1
            at = 0
            for part, future in group:
                if not future.done():  # its client may have gone
                    future.set_result(fates[at : at + len(part)])
                at += len(part)

    def _next_group(self) -> list[Waiting]:
        total, size = 0, 0
        for contents, _ in self._waiting:
            total += len(contents)
            if size and total > MOST_FRAMES:
                break
            size += 1
        group, self._waiting = self._waiting[:size], self._waiting[size:]
        return group

    async def close(self) -> None:
        """Write what waits, and end."""
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()
