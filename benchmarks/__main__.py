"""The command: `python -m benchmarks [--full] [--only NAME ...] [--page] [--list]`.

The quick mode (minutes) measures again each time. The full mode is resumable: it skips what its result file already
holds for the same case and the same code, so an interrupted run goes on where it stopped. Real data sets are read from
the folder named by SFUMATO_DATA; without it their rows are skipped, and the page says so.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from benchmarks import case as cases
from benchmarks import page, reproduction, results
from benchmarks.case import Case
from benchmarks.kinds import Skipped, Unit, load_kind
from benchmarks.results import ResultFile
from sfumato.errors import NotPrivateWarning

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def main(
    arguments: Sequence[str] | None = None,
    case_folder: Path = cases.FOLDER,
    result_folder: Path = results.FOLDER,
    page_path: Path = PAGE,
) -> int:
    """Run the cases asked for and write the page."""
    options = _parse(arguments)
    warnings.simplefilter("ignore", NotPrivateWarning)  # measurements are repeatable, and publish errors alone
    chosen = cases.load_cases(case_folder, options.full)
    if options.list:
        print("\n".join(f"{case.name:24} {case.kind:12} {case.title}" for case in chosen))
        return 0
    if unknown := sorted(set(options.only or ()) - {case.name for case in chosen}):
        print(f"no case is named {unknown[0]!r}; --list names them all", file=sys.stderr)
        return 2
    for case in chosen:
        if not options.page and (not options.only or case.name in options.only):
            run(case, ResultFile.of(result_folder, case))
    page_path.write_text(page.render(case_folder, result_folder, page_path.parent), encoding="utf-8")
    print(f"wrote {page_path.name}")
    if case_folder == cases.FOLDER:
        beside = page_path.with_name("reproduction.md")
        beside.write_text(reproduction.render(case_folder, result_folder), encoding="utf-8")
    return 0


def run(case: Case, file: ResultFile) -> None:
    """Measure a case, unit by unit; each is saved before the next begins."""
    for unit in load_kind(case.kind).units(case.settings):
        name = f"{case.name} {_text(unit)}".strip()
        if case.full and file.fresh(case, unit):
            print(f"{name}: measured before", flush=True)
            continue
        print(f"{name}: {_measure(case, unit, file)}", flush=True)


def _measure(case: Case, unit: Unit, file: ResultFile) -> str:
    start = time.perf_counter()
    try:
        rows = list(load_kind(case.kind).measure(case.settings, unit))
    except Skipped as reason:
        file.store_skip(case, unit, str(reason))
        return f"skipped, {reason}"
    seconds = time.perf_counter() - start
    file.store(case, unit, rows, seconds)
    return f"{len(rows)} rows in {seconds:.1f} s"


def _text(unit: Unit) -> str:
    return " ".join(f"{name}={value}" for name, value in unit.items())


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and write docs/benchmarks.md.")
    parser.add_argument("--full", action="store_true", help="full sizes and seeds (about half an hour; resumable)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these cases")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the pages anew")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
