"""The long attack on the services, in pieces that are bounded, on loopback: ``python -m tests.services.attack``.

``make attack`` runs all pieces; ``python -m tests.services.attack fuzz-issuer race --share 0.1`` some of them, smaller.
Each piece ends with a count of what is kept, which must be exact, and prints a line. The tests run the same functions
with small numbers.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.services import killed, outages
from tests.services.fuzz import fuzz, garbage
from tests.services.postgres_for_tests import Postgres, postgres, programs
from tests.services.targets import TARGETS

Piece = Callable[[Path, float, int], str]
ROUND = 12  # kills of shuffler and analyzer in the life of one collection, which is short


def _times(whole: int, share: float) -> int:
    return max(1, round(whole * share))


def _fuzz(role: str, folder: Path, share: float, seed: int) -> str:
    requests = _times(25_000, share)
    seen, kept = fuzz(role, requests, folder, seed)
    return f"{requests} requests, {dict(sorted(seen.items()))}, {kept} acknowledged and kept"


def _garbage(folder: Path, share: float, seed: int) -> str:
    messages = 1000 * _times(1000, share)
    garbage(messages, folder, seed)
    return f"{messages} messages, none kept"


def _kill(kill: Callable[[Path, int], int], folder: Path, share: float, seed: int) -> str:
    return f"{kill(folder, _times(100, share))} kills, none lost, none doubled"


def _kill_both(folder: Path, share: float, seed: int) -> str:
    kills, rounds, wanted = 0, 0, _times(200, share)
    while kills < wanted:
        (place := folder / str(rounds)).mkdir()
        kills += killed.kill_shuffler_and_analyzer(place, min(ROUND, wanted - kills), seed + rounds)
        rounds += 1
    return f"{kills} kills of shuffler and analyzer in {rounds} collections, everybody counted once"


def _disk(folder: Path, share: float, seed: int) -> str:
    coins, kept, times = random.Random(seed), 0, _times(20, share)
    for number in range(times):
        (place := folder / str(number)).mkdir()
        kept += outages.full_disk(place, coins.randrange(200_000, 500_000))
    return f"{times} full disks, {kept} reports acknowledged and kept"


def _with_database(job: Callable[[Path, Postgres, float], str], folder: Path, share: float, seed: int) -> str:
    if programs() is None:
        raise SystemExit("PostgreSQL is not installed (apt-get install postgresql)")
    with tempfile.TemporaryDirectory(prefix="sfumato-pg-", dir="/tmp") as place, postgres(Path(place)) as database:
        return job(folder, database, share)


def _database(folder: Path, database: Postgres, share: float) -> str:
    times = _times(10, share)
    return f"{times} crashes of the database, {outages.database_away(folder, database, times)} reports kept, each once"


def _race(folder: Path, database: Postgres, share: float) -> str:
    times = _times(20, share)
    for number in range(times):
        (place := folder / str(number)).mkdir()
        outages.race(place, database)
    return f"{times} races of two shufflers for one batch, everybody counted once"


def _clock(folder: Path, share: float, seed: int) -> str:
    times = _times(1000, share)
    outages.jumping_clock(folder, times, seed)
    return f"{times} jumps of the clock, nothing closed or deleted"


PIECES: dict[str, Piece] = {
    **{f"fuzz-{role}": partial(_fuzz, role) for role in TARGETS},
    "garbage": _garbage,
    "kill-collector": partial(_kill, killed.kill_collector),
    "kill-shuffler": partial(_kill, killed.kill_shuffler),
    "kill-issuer": partial(_kill, killed.kill_issuer),
    "kill-both": _kill_both,
    "disk": _disk,
    "database": partial(_with_database, _database),
    "race": partial(_with_database, _race),
    "clock": _clock,
}


def main() -> None:
    """Run pieces from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pieces", nargs="*", default=list(PIECES), help=", ".join(PIECES))
    parser.add_argument("--share", type=float, default=1.0, help="of the counts")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for name in given.pieces:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            told = PIECES[name](Path(folder), given.share, given.seed)
        print(f"{name}: {told}; {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
