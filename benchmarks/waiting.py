"""Processor time of the commands that people wait for: ``python -m benchmarks.waiting``.

Each command is a new process, as people start it, and is run in turn with the others; user and system time of the
process are added up, of which the least and the median are shown.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import sfumato

QUESTIONS = {
    "query": ("query", "points.sfm", "--at", "1,2"),
    "inspect": ("inspect", "points.sfm"),
    "verify": ("verify", "points.sfm"),
    "plan": ("plan", "--dimension", "2", "--epsilon", "1", "--n-hint", "1000", "--bandwidth", "1", "--bounds", "0,10"),
    "plan-784": (
        *("plan", "--dimension", "784", "--epsilon", "1", "--n-hint", "60000"),
        *("--bandwidth", "5", "--bounds", "0,1"),
    ),
    "ledger": ("ledger", "show"),
}


def processor_seconds(arguments: tuple[str, ...], folder: Path) -> float:
    """Run one command of the command line to its end; return what the process took."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"XDG_STATE_HOME": str(folder), "PYTHONPATH": str(Path(sfumato.__file__).parents[1])}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")  # which an installed package has
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(
            [sys.executable, "-m", "sfumato", *arguments], cwd=folder, env=environment, stdout=nowhere, stderr=nowhere
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"sfumato {' '.join(arguments)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="of each command, after one that is not counted")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        points = np.random.default_rng(0).uniform(0, 10, (1000, 2))
        model = sfumato.PrivateKDE(bandwidth=1.0, epsilon=1, bounds=(0, 10), n_hint=1000).fit(points)
        model.release_.save(folder / "points.sfm")
        seconds = [
            {command: processor_seconds(arguments, folder) for command, arguments in QUESTIONS.items()}
            for _ in range(runs + 1)
        ][1:]
    for command in QUESTIONS:
        taken = [each[command] for each in seconds]
        print(f"{command:8} least {min(taken):.2f} s, median {statistics.median(taken):.2f} s of {runs} runs")


if __name__ == "__main__":
    main()
