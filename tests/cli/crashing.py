"""Run `sfumato release` in forked children that are killed, or short of disk, at chosen moments; print what was left.

Usage: ``python crashing.py FOLDER``, with ``FOLDER/points.npy`` in place. One process loads the library and its
compiled functions once, and forks while no thread is running, so that each of the many runs costs a tenth of a second.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import sfumato
from sfumato.cli import main
from sfumato.errors import SfumatoError
from sfumato.privacy.ledger import Ledger

CALLS = ("write", "fsync", "ftruncate", "replace", "link", "rename", "unlink", "posix_fallocate")
KILLED = 9


def kill_at(number: int, after: bool) -> None:
    """Make the `number`-th storing call of this process its last, before it happens or right after it."""
    made = 0

    def deadly(name: str) -> Callable[..., object]:
        genuine = getattr(os, name)

        def call(*arguments: object, **keywords: object) -> object:
            nonlocal made
            made += 1
            if made == number and not after:
                os._exit(KILLED)
            result = genuine(*arguments, **keywords)
            if made == number:
                os._exit(KILLED)
            return result

        return call

    for name in CALLS:
        setattr(os, name, deadly(name))


def limit_files() -> None:
    """Let this process write no file as long as a release."""
    sys.dont_write_bytecode = True  # what is cut off could be imported nowhere afterwards
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


def arguments(folder: Path, *flags: str) -> list[str]:
    files = [str(folder / "points.npy"), "-o", str(folder / "out" / "out.sfm")]
    needed = ["--bandwidth", "1", "--epsilon", "1", "--n-hint", "300", "--option", "n_features=500"]
    account = ["--dataset", "survey", "--ledger", str(folder / "ledger" / "ledger.jsonl")]
    return ["sfumato", "release", *files, *needed, *account, *flags]


def run_child(folder: Path, prepare: Callable[[], None], *flags: str) -> tuple[int, str]:
    """Run a release in a child; return its exit code and what it said on standard error."""
    said = folder / "stderr"
    child = os.fork()
    if child == 0:
        descriptor = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = arguments(folder, *flags)
        try:
            prepare()
            main()
        except SystemExit as end:
            sys.stderr.flush()
            os._exit(int(end.code or 0))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said.read_text()


def left_behind(folder: Path) -> dict[str, object]:
    """What a reader finds after a run, with the release and the ledger both checked."""
    target, ledger = folder / "out" / "out.sfm", folder / "ledger" / "ledger.jsonl"
    found: dict[str, object] = {"release": target.exists(), "problem": None, "ledger_file": ledger.exists()}
    try:
        found["spent"] = str(Ledger(ledger).account("survey").spent[0])
        if target.exists():
            sfumato.load(target)
    except SfumatoError as error:
        found["problem"] = str(error)
    found["files"] = sorted(path.name for path in (folder / "out").iterdir())
    return found


def clear(folder: Path) -> None:
    for part in ("out", "ledger"):
        (folder / part).mkdir(exist_ok=True)
        for path in (folder / part).iterdir():
            path.unlink()


def kills(folder: Path, after: bool, *flags: str) -> list[dict[str, object]]:
    """One run for each storing call that a release makes, killed there; the last run is not killed."""
    runs = []
    for number in range(1, 100):
        clear(folder)
        code, said = run_child(folder, lambda number=number: kill_at(number, after), *flags)  # type: ignore[misc]
        runs.append({"code": code, "said": said, **left_behind(folder)})
        if code != KILLED:
            break
    return runs


if __name__ == "__main__":
    here = Path(sys.argv[1])
    (here / "out").mkdir()
    sys.argv = arguments(here, "--seed-noise-not-private", "1", "--quiet")
    with contextlib.suppress(SystemExit):
        main()  # loads everything
    report: dict[str, object] = {
        "killed before": kills(here, False),
        "killed after": kills(here, True, "--force"),
    }
    clear(here)
    code, said = run_child(here, limit_files)
    report["short of disk"] = {"code": code, "said": said, **left_behind(here)}
    print(json.dumps(report))
