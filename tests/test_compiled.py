"""Compiled functions on odd machines: no home, nothing writable, a cache that someone else prepared, a full disk."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest

import sfumato
from sfumato import compiled
from sfumato.errors import LedgerError
from sfumato.owner import user_folder
from sfumato.privacy.ledger import default_ledger_path

VARIABLES = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "TMPDIR")
NOWHERE = "/dev/null/nowhere"


def chosen(monkeypatch: pytest.MonkeyPatch, **environment: str) -> str | None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return compiled.cache_folder.__wrapped__()


def test_the_users_own_choice_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = chosen(monkeypatch, NUMBA_CACHE_DIR=f"{tmp_path}/mine", XDG_CACHE_HOME=f"{tmp_path}/cache")
    assert folder == f"{tmp_path}/mine"
    assert chosen(monkeypatch, NUMBA_CACHE_DIR=NOWHERE, XDG_CACHE_HOME=f"{tmp_path}/cache") is None


def test_our_folder_is_the_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for environment in ({"XDG_CACHE_HOME": f"{tmp_path}/cache"}, {"HOME": f"{tmp_path}/home"}):
        folder = chosen(monkeypatch, **environment)
        assert folder is not None and folder.startswith(str(tmp_path)) and folder.endswith("sfumato/compiled")
        assert Path(folder).stat().st_mode & 0o777 == 0o700


def test_without_a_home_it_is_a_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = f"{tmp_path}/sfumato-compiled-{os.getuid()}"
    assert chosen(monkeypatch, HOME=NOWHERE, TMPDIR=str(tmp_path)) == expected
    assert Path(expected).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("prepared", ["wide", "link", "another's", "file"])
def test_a_folder_that_others_may_have_filled_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: str
) -> None:
    folder = tmp_path / f"sfumato-compiled-{os.getuid()}"
    if prepared == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    elif prepared == "file":
        folder.touch()
    else:
        folder.mkdir()
        folder.chmod(0o777 if prepared == "wide" else 0o700)
    if prepared == "another's":
        owner = os.getuid()
        folder = folder.rename(tmp_path / f"sfumato-compiled-{owner + 1}")
        monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert chosen(monkeypatch, HOME=NOWHERE, TMPDIR=str(tmp_path)) is None


@pytest.mark.parametrize("around", ["wide", "group", "another's", "link"])
def test_a_folder_in_whose_place_others_may_put_another_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, around: str
) -> None:
    """It may be ours and closed when it is looked at, and theirs when a file is unpickled from it."""
    shared = tmp_path / "shared"
    shared.mkdir()
    if around == "another's":
        if os.getuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(shared, 12345, 12345)  # as with sudo, which may leave HOME as it was
    else:
        shared.chmod(0o775 if around == "group" else 0o777)
    place = shared / "below"
    if around == "link":
        place = tmp_path / "link"
        place.symlink_to(shared)
    for environment in ({"XDG_CACHE_HOME": str(place), "TMPDIR": NOWHERE}, {"HOME": NOWHERE, "TMPDIR": str(place)}):
        assert chosen(monkeypatch, **environment) is None
    assert not list(shared.iterdir())


def test_a_place_where_everybody_keeps_their_own_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, link = tmp_path / "shared", tmp_path / "link"
    shared.mkdir()
    shared.chmod(0o1777)
    link.symlink_to(shared)
    assert chosen(monkeypatch, XDG_CACHE_HOME=str(link), TMPDIR=NOWHERE) == f"{shared}/sfumato/compiled"


def test_relative_places_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert chosen(monkeypatch, HOME="home", XDG_CACHE_HOME="cache", TMPDIR="temporary") is None
    assert not list(tmp_path.iterdir())


def test_the_folder_is_ours_alone_and_the_users_functions_keep_theirs() -> None:
    before = numba.config.CACHE_DIR
    folder = compiled.cache_folder()
    from sfumato.privacy import bits

    place = bits.next_below.dispatcher()._cache.cache_path
    assert folder is None or place.startswith(folder)
    assert before == numba.config.CACHE_DIR


def test_a_full_disk_costs_the_cache_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", full)

    @compiled.njit(cache=True)
    def increased(number: int) -> int:
        return number + 1

    assert increased(1) == 2


CHILD = """
import os, sys
from sfumato.compiled import cache_folder
from sfumato.privacy.bits import SecureBits
from sfumato.shuffled.bitsum import calibrate
assert cache_folder() is None, cache_folder()
assert len(SecureBits().below(6, 5)) == 5
assert calibrate("rr", n=1000, instances=4, epsilon=1, delta=1e-5).rmse > 0
assert os.listdir() == [], os.listdir()
"""


def test_a_machine_on_which_nothing_can_be_written(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG", "NUMBA"))}
    source = str(Path(sfumato.__file__).parents[1])
    environment = {**kept, "HOME": NOWHERE, "TMPDIR": NOWHERE, "PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_no_home_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("XDG_STATE_HOME", "SFUMATO_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert user_folder("XDG_STATE_HOME", ".local/state") is None
    with pytest.raises(LedgerError, match=r"~/\.local/state/sfumato/ledger\.jsonl, .* set SFUMATO_LEDGER"):
        default_ledger_path()


def test_every_compiled_function_goes_through_this_door() -> None:
    package = Path(sfumato.__file__).parent
    doors = {path.name for path in package.rglob("*.py") if re.search(r"(from|import) numba\b", path.read_text())}
    assert doors == {"compiled.py"}
