"""One file, one account, whatever it is called; parts of a data set are no other data set."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sfumato.errors import InputError
from sfumato.privacy.datasets import account_among, folder_of, holds, identity_of, is_pattern, same_file


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "trips.npz"
    path.parent.mkdir()
    path.write_bytes(b"")
    return path


def test_every_spelling_is_one_identity(trips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = trips.parent / "link.npz"
    link.symlink_to(trips)
    monkeypatch.chdir(trips.parent)
    spellings = (trips, f"{trips}:a", "trips.npz", "./trips.npz:b", "../data/trips.npz", link, f"{link}:a")
    assert {identity_of(one) for one in spellings} == {os.path.realpath(trips)}


def test_a_pattern_belongs_to_its_folder(trips: Path) -> None:
    odd = trips.parent / "a[1].csv"
    assert is_pattern(odd) and identity_of(odd) == os.path.realpath(trips.parent)
    odd.write_text("")
    assert not is_pattern(odd) and identity_of(odd) == os.path.realpath(odd)
    assert folder_of("20*/x.csv") == Path()


def test_a_hard_link_has_the_account_of_the_file(trips: Path) -> None:
    other = trips.parent / "other.npz"
    os.link(trips, other)
    known = (os.path.realpath(trips),)
    assert account_among(known, other) == known[0]
    assert same_file(trips, other) and not same_file(trips, trips.parent / "none")


def test_a_file_of_a_known_folder_has_the_folders_account(trips: Path) -> None:
    folder = os.path.realpath(trips.parent)
    assert account_among((folder, "a name"), trips) == folder and holds(folder, os.path.realpath(trips))
    assert account_among(("a name",), trips) == os.path.realpath(trips)


def test_data_in_several_accounts_or_around_one_is_refused(trips: Path) -> None:
    file, folder = os.path.realpath(trips), os.path.realpath(trips.parent)
    for known, data in (((file,), trips.parent), ((folder, file), trips)):
        with pytest.raises(InputError, match="a second account would be a second budget"):
            account_among(known, data)
