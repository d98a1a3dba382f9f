"""Write what this version makes, or compare it with what is kept.

``python -m tests.corpus.make`` writes the folder `golden` anew: releases from seeds, reports from seeded coins,
protocol documents and answers. They are the same on every machine. Run it when a change of what is made is meant, and
say why.

``python -m tests.corpus.make --check FOLDER`` writes the same to another folder and names every file that differs from
`golden`.

``python -m tests.corpus.make --version FOLDER`` writes what is kept of a version for ever: the same, with the version's
own name in it, releases whose noise nobody knows, a raw sketch and a ledger.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato import Ledger, Release, load
from sfumato.learn import DensityClassifier
from sfumato.local.client import Client
from sfumato.local.coins import Coins
from sfumato.public.document import canonical
from tests.corpus import cases

GOLDEN = Path(__file__).with_name("golden")
VALUES = "values.json"
SKETCH, LEDGER = "sketch/raw.sfm", "ledger.jsonl"
MADE = {**cases.RELEASES, **cases.CLASSIFIERS}
SEED = 1
REPORTS = 3

Content = Callable[[], bytes]


def golden_files() -> dict[str, Content]:
    """What is the same on every machine, by the names of its files."""
    exact = {name for name in (*MADE, *cases.PROTOCOLS) if name not in cases.INEXACT}
    return {
        **{_file(name, "seeded.sfm"): _release(MADE[name], SEED, "golden") for name in MADE if name in exact},
        **{_file(name, "json"): _document(make) for name, make in cases.PROTOCOLS.items() if name in exact},
        **{_file(f"local/{name}", "reports"): _reports(make) for name, make in cases.LOCAL.items()},
    }


def version_files() -> dict[str, Content]:
    """What is kept of a version for ever."""
    return {
        **{_file(name, "seeded.sfm"): _release(make, SEED) for name, make in MADE.items()},
        **{_file(name, "sfm"): _release(make, None) for name, make in MADE.items()},
        **{_file(name, "json"): _document(make) for name, make in cases.PROTOCOLS.items()},
        **{_file(f"local/{name}", "reports"): _reports(make) for name, make in cases.LOCAL.items()},
    }


def _file(name: str, suffix: str) -> str:
    return f"{name.replace(' ', '_')}.{suffix}"


def _release(make: cases.Making, seed: int | None, version: str | None = None) -> Content:
    def content() -> bytes:
        made = make(seed)
        if version is None:
            return bytes(made.to_bytes())
        if isinstance(made, DensityClassifier):
            made.releases_ = {name: replace(part, version=version) for name, part in made.releases_.items()}
            if made.linear_ is not None:
                made.linear_ = replace(made.linear_, written_by=f"sfumato {version}")
            return made.to_bytes()
        return bytes(replace(made, version=version).to_bytes())

    return content


def _document(make: Callable[[], Any]) -> Content:
    return lambda: canonical(make().document)


def _reports(make: Callable[[], Any]) -> Content:
    def content() -> bytes:
        limits = {"max_epsilon": 1000, "max_delta": 0.5, "unchecked": True}  # every promise is taken here
        client = Client(make().document, coins=Coins.seeded(SEED), not_private=True, **limits)
        return b"".join(client.report(point) for point in cases.points(2, REPORTS).tolist())

    return content


def opened(path: Path) -> Release | DensityClassifier:
    """Read a release or a classifier."""
    return DensityClassifier.load(path) if "classifier" in path.parts else load(path)


def answers(made: Release | DensityClassifier) -> list[float]:
    """What a file says to a few queries."""
    if isinstance(made, DensityClassifier):
        asked = cases.queries(made.n_features_in_) / 2
        densities = made.densities(asked).ravel() if made.releases_ else made.score_errors(asked)
        return [float(number) for number in (*densities, *made.decision_function(asked))]
    asked = cases.queries(made.dimension)
    return [
        float(number) for part in (made.query, made.total) for row in part(asked, return_std=True) for number in row
    ]


def recorded(folder: Path) -> dict[str, list[float]]:
    """Answers of all files of a folder but the raw sketch, which has none."""
    paths = (path for path in sorted(folder.rglob("*.sfm")) if path != folder / SKETCH)
    return {path.relative_to(folder).as_posix(): answers(opened(path)) for path in paths}


def write(folder: Path, version: bool = False) -> None:
    """Write the golden files, or those of a version."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in (version_files() if version else golden_files()).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content())
    if version:
        _write_private(folder)
    numbers = {name: make(SEED) for name, make in cases.NUMBERS.items()}
    (folder / VALUES).write_text(json.dumps({**recorded(folder), **numbers}, indent=1) + "\n")


def _write_private(folder: Path) -> None:
    """Write what is the owner's alone: a sketch and a ledger."""
    cases.sketch().save(folder / SKETCH)
    account = Ledger(folder / LEDGER).account("survey")
    account.set_budget(2, 1e-6, rule="gdp")
    account.charge("fourier", "1/2")
    (folder / f"{LEDGER}.lock").unlink(missing_ok=True)


def differences(folder: Path, kept: Path = GOLDEN) -> Iterator[str]:
    """Name the files that are not the same, byte for byte, in both folders; answers are compared by the tests."""
    both = [{path.relative_to(root).as_posix(): path.read_bytes() for path in _files(root)} for root in (folder, kept)]
    for name in sorted(both[0].keys() | both[1].keys()):
        if both[0].get(name) != both[1].get(name):
            where = "differs" if name in both[0] and name in both[1] else "is new" if name in both[0] else "is missing"
            yield f"{name} {where}"


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and path.name != VALUES)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=Path, metavar="FOLDER")
    parser.add_argument("--version", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    if (folder := asked.version or asked.check) and folder.exists():
        parser.error(f"{folder} exists: name a new folder, since what is in it would be deleted")
    os.environ["SFUMATO_CACHE"] = ""  # what was calibrated before must not hide what is calibrated now
    warnings.simplefilter("ignore")  # all of it is seeded
    if asked.version:
        write(asked.version, version=True)
    elif not asked.check:
        write(GOLDEN)
    else:
        write(asked.check)
        found = list(differences(asked.check))
        print("\n".join(found) or "all files are those of golden")
        return int(bool(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
