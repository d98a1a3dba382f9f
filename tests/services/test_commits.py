"""Group commit: requests that come together share a transaction, each gets its own fates, and room ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from sfumato.services.commits import Commits
from sfumato.services.wire import Fate, Problem


def test_what_waits_is_written_together_and_answered_apart() -> None:
    hold = threading.Event()

    def settle(contents: Sequence[bytes]) -> list[Fate]:
        hold.wait(10)
        return [Fate.LENGTH if content == b"odd" else Fate.RANGE for content in contents]

    async def run() -> tuple[list[list[Fate]], int]:
        commits = Commits(settle)
        tasks = [asyncio.create_task(commits.add([b"first"]))]
        await asyncio.sleep(0.05)  # the first is being written
        tasks += [asyncio.create_task(commits.add(frames)) for frames in ([b"a", b"odd"], [b"b"])]
        await asyncio.sleep(0)
        hold.set()
        fates = await asyncio.gather(*tasks)
        await commits.close()
        assert commits.waiting == 0
        return list(fates), commits.transactions

    fates, transactions = asyncio.run(run())
    assert fates == [[Fate.RANGE], [Fate.RANGE, Fate.LENGTH], [Fate.RANGE]]
    assert transactions == 2


def test_beyond_its_room_a_request_is_told_to_come_again() -> None:
    hold = threading.Event()

    def settle(contents: Sequence[bytes]) -> list[Fate]:
        hold.wait(10)
        return [Fate.RANGE] * len(contents)

    async def run() -> None:
        commits = Commits(settle, most_waiting=1000)
        first = asyncio.create_task(commits.add([bytes(500)]))
        await asyncio.sleep(0.05)
        with pytest.raises(Problem):
            await commits.add([bytes(500)])
        hold.set()
        assert await first == [Fate.RANGE]
        assert await commits.add([bytes(500)]) == [Fate.RANGE]
        await commits.close()

    asyncio.run(run())


def test_a_failure_reaches_whoever_waits_and_the_next_is_written() -> None:
    fails = iter([True, False])

    def settle(contents: Sequence[bytes]) -> list[Fate]:
        if next(fails):
            raise OSError("disk")
        return [Fate.RANGE] * len(contents)

    async def run() -> None:
        commits = Commits(settle)
        with pytest.raises(OSError, match="disk"):
            await commits.add([b"a"])
        assert await commits.add([b"a"]) == [Fate.RANGE]
        await commits.close()

    asyncio.run(run())
