"""Long runs: `python -m benchmarks.long bench|audit [--hours 8] [--here]` (`make bench-full`, `make audit-full`).

Everything in full mode, in the background and within a time budget. The work is cut into pieces, each a process of its
own that saves what it measured as it goes. A run that is stopped, or whose time is over, goes on where it stopped when
it is started again: pieces whose results are as new as the code are left out, those measured longest ago come first.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import audit_full, case, results
from benchmarks.kinds import load_kind
from benchmarks.results import ResultFile

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".long"
HOUR = 3600.0


@dataclass(frozen=True)
class Piece:
    """One command, and when its oldest result was measured ("" for never, so that it comes first)."""

    name: str
    command: tuple[str, ...]
    since: str


def benchmark_pieces(case_folder: Path = case.FOLDER, result_folder: Path = results.FOLDER) -> list[Piece]:
    """Cases of which any unit is unmeasured or stale in full mode."""
    found = []
    for one in case.load_cases(case_folder, full=True):
        file = ResultFile.of(result_folder, one)
        if all(file.fresh(one, unit) for unit in load_kind(one.kind).units(one.settings)):
            continue
        command = ("-m", "benchmarks", "--full", "--only", one.name)
        found.append(Piece(one.name, command, min((row["date"] for row in file.current(one)), default="")))
    return sorted(found, key=lambda piece: (piece.since, piece.name))


def audit_pieces(path: Path = audit_full.RESULTS, trials: int = audit_full.TRIALS) -> list[Piece]:
    """Audits that are unmeasured, stale, or of fewer trials."""
    rows = audit_full.read(path)
    found = []
    for name in audit_full.names():
        row = rows.get(name)
        if row is None or audit_full.stale(row) or 0 < row["trials"] < trials:
            command = ("-m", "benchmarks.audit_full", "--only", name)
            found.append(Piece(name, command, "" if row is None else row["date"]))
    return sorted(found, key=lambda piece: (piece.since, piece.name))


PIECES = {"bench": benchmark_pieces, "audit": audit_pieces}


def work(pieces: Sequence[Piece], hours: float, cut: Path) -> int:
    """Run pieces until the time is over; 0 if none failed.

    A piece that is cut off keeps what it has saved. Its name is left in the file `cut`: the next run takes it last,
    lest one that is longer than the budget keep all others waiting for ever.
    """
    late = cut.read_text(encoding="utf-8") if cut.exists() else ""
    pieces = sorted(pieces, key=lambda piece: piece.name == late)
    end, failed = time.monotonic() + hours * HOUR, []
    for place, piece in enumerate(pieces, start=1):
        left = end - time.monotonic()
        if left <= 0:
            print(f"time is over; {len(pieces) - place + 1} pieces are left", flush=True)
            break
        print(f"[{place} of {len(pieces)}] {piece.name}", flush=True)
        try:
            done = subprocess.run([sys.executable, *piece.command], cwd=ROOT, timeout=left, check=False)
        except subprocess.TimeoutExpired:
            cut.write_text(piece.name, encoding="utf-8")
            print(f"time is over in {piece.name}; {len(pieces) - place + 1} pieces are left", flush=True)
            break
        if done.returncode:
            failed.append(piece.name)
    print(f"failed: {', '.join(failed)}" if failed else "nothing failed", flush=True)
    return 1 if failed else 0


def start(run: str, hours: float, folder: Path = FOLDER) -> int:
    """Start the worker in the background, unless one is there."""
    folder.mkdir(exist_ok=True)
    log = folder / f"{run}.log"
    with (folder / f"{run}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"a run is under way; {log} says how far it is", file=sys.stderr)
            return 2
        # The worker inherits the lock, which is free again when it and its pieces have ended, however they end.
        with log.open("w") as output:
            worker = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.long", run, "--hours", str(hours), "--here"],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[lock.fileno()],
            )
    print(
        f"started, {hours:g} hours at most; {os.path.relpath(log)} says how far it is; kill -- -{worker.pid} stops it"
    )
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Start a run, or do its work here."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long", description=__doc__)
    parser.add_argument("run", choices=sorted(PIECES))
    parser.add_argument("--hours", type=float, default=8.0, help="time budget")
    parser.add_argument("--here", action="store_true", help="work in this process, and wait")
    options = parser.parse_args(arguments)
    if not options.hours > 0:
        parser.error("--hours must be positive")
    if not options.here:
        return start(options.run, options.hours)
    FOLDER.mkdir(exist_ok=True)
    return work(PIECES[options.run](), options.hours, FOLDER / f"{options.run}.cut")


if __name__ == "__main__":
    sys.exit(main())
