"""The long audit: `python -m benchmarks.audit [--trials N] [--examples N]` (or `make audit`).

Every registered mechanism must keep its claim under attack and in the calibration of every variant, every broken twin
must be caught, and hostile files and command lines must be refused. It ends with 1 if any of that fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import calibration_table
from sfumato.audit import ATTACKS, AuditResult, Case, audit, load_library
from sfumato.audit.cases.twins import TWINS
from sfumato.cli.audit import results_table

FUZZ_TESTS = Path(__file__).parents[1] / "tests" / "test_fuzz.py"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything and say what failed."""
    options = _parse(arguments)
    console = Console(width=None if sys.stdout.isatty() else 150)
    load_library()
    console.print("Calibrations: what the noise laws give away must not exceed what is claimed, in any variant.")
    with console.status("calibrations"):
        calibrated = list(calibration_table.rows())
    console.print(calibration_table.table(calibrated))
    console.print("Attacks: what mechanisms leak at least must not exceed what they claim.")
    attacks = ((name, case) for name in sorted(ATTACKS) for case in ATTACKS[name]())
    kept = _run(attacks, options.trials, wanted=True, console=console)
    console.print("Broken twins: the same audits must catch every one.")
    twins = ((f"{twin.mechanism}, {twin.mistake}", twin.case()) for twin in TWINS)
    caught = _run(twins, options.trials, wanted=False, console=console)
    console.print(f"Fuzzing: {options.examples} examples for each test.")
    refused = _fuzz(options.examples)
    failures = {
        "a calibration is broken, or its twin was missed": all(row.fine for row in calibrated),
        "a claim is broken": kept,
        "a twin was missed": caught,
        "fuzzing found something": refused,
    }
    for failure, fine in failures.items():
        if not fine:
            console.print(f"FAILED: {failure}", style="bold red")
    return 0 if all(failures.values()) else 1


def _run(cases: Iterable[tuple[str, Case]], trials: int, *, wanted: bool, console: Console) -> bool:
    """Audit cases, print their table, and tell whether all hold (or, for twins, none)."""
    results: list[tuple[str, AuditResult]] = []
    with console.status("") as status:
        for name, case in cases:
            status.update(f"{name}: {case.name}")
            results.append((name, audit(case, trials)))
    console.print(results_table(results, wanted))
    return all(result.holds == wanted for _, result in results)


def _fuzz(examples: int) -> bool:
    """Run the fuzzing tests for longer than the test suite does."""
    command = [sys.executable, "-m", "pytest", "-q", "--timeout=7200", str(FUZZ_TESTS)]
    return (
        subprocess.run(command, env={**os.environ, "SFUMATO_FUZZ_EXAMPLES": str(examples)}, check=False).returncode == 0
    )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("--trials", type=int, default=1_000_000, help="runs on either of two neighbours, for each case")
    parser.add_argument("--examples", type=int, default=2000, help="examples for each fuzzing test")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
