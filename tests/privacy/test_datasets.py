"""One file, one account, whatever it is called; parts of a data set are no other data set."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.privacy import datasets
from sfumato.privacy.datasets import account_among, folder_of, holds, identity_of, is_pattern
from sfumato.privacy.ledger import Ledger
from sfumato.privacy.loss import visible_form
from sfumato.sources import open_source


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


def test_a_path_that_no_account_can_have_is_told_with_what_to_do() -> None:
    with pytest.raises(InputError, match=r"'/data/a\\nb.csv' has characters .*--dataset NAME"):
        account_among((), "/data/a\nb.csv")


def test_a_file_of_a_known_folder_has_the_folders_account(trips: Path) -> None:
    folder = os.path.realpath(trips.parent)
    assert account_among((folder, "a name"), trips) == folder and holds(folder, os.path.realpath(trips))
    assert account_among(("a name",), trips) == os.path.realpath(trips)


def test_data_in_several_accounts_or_around_one_is_refused(trips: Path) -> None:
    file, folder = os.path.realpath(trips), os.path.realpath(trips.parent)
    gone = os.path.join(folder, "gone")  # of a folder that went, names are all that is known
    for known, data in (((file,), trips.parent), ((folder, file), trips), ((os.path.join(gone, "x.csv"),), gone)):
        with pytest.raises(InputError, match="a second account would be a second budget"):
            account_among(known, data)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_folder_of_links_is_no_second_account(trips: Path, link: Callable[[Path, Path], None]) -> None:
    folder = trips.parent.parent / "links"
    (folder / "deep").mkdir(parents=True)
    (folder / "back").symlink_to(folder)  # which must not be followed for ever
    assert account_among((str(trips),), folder) == os.path.realpath(folder)
    link(trips, folder / "deep" / "other.npz")
    for known in (trips, trips.parent):
        for spelling in (folder, folder / "*" / "*.npz"):
            with pytest.raises(InputError, match="shares records"):
                account_among((str(known),), spelling)
    assert account_among((str(folder),), trips) == str(folder)


def test_a_link_to_a_folder_is_no_second_account(trips: Path) -> None:
    folder = trips.parent.parent / "links"
    folder.mkdir()
    (folder / "data").symlink_to(trips.parent)
    with pytest.raises(InputError, match="shares records"):
        account_among((str(trips),), folder / "*" / "*.npz")


def test_a_pattern_does_not_leave_its_folder(trips: Path) -> None:
    """Its account is that of the folder, which would not be the one of what it names."""
    (trips.parent.parent / "other" / "inner").mkdir(parents=True)
    pattern = trips.parent.parent / "other" / "*" / ".." / ".." / "data" / "*.npz"
    assert glob.glob(str(pattern))
    with pytest.raises(InputError, match="leaves its folder"):
        account_among((str(trips),), pattern)
    before = trips.parent / ".." / "data" / "*.npz"
    assert identity_of(before) == os.path.realpath(trips.parent)


def test_what_no_source_reads_is_no_shared_record(trips: Path) -> None:
    """Two projects whose environments link to one interpreter and to one package, and to one page of notes."""
    outside, folders = trips.parent.parent, []
    (outside / "interpreter").write_text("")
    np.save(outside / "package.npy", np.eye(2))
    for name in ("one", "other"):
        folders.append(outside / name)
        (folders[-1] / ".venv").mkdir(parents=True)
        (folders[-1] / ".venv" / "python").symlink_to(outside / "interpreter")
        os.link(outside / "package.npy", folders[-1] / ".venv" / "package.npy")
        (folders[-1] / "README").symlink_to(outside / "interpreter")
        (folders[-1] / "points.csv").write_text("x\n1\n")
    one, other = map(str, folders)
    assert account_among((one,), f"{other}/*.csv") == other
    (folders[1] / "more.csv").symlink_to(folders[0] / "points.csv")
    with pytest.raises(InputError, match="shares records"):
        account_among((one,), f"{other}/*.csv")


def test_entries_of_a_large_folder_are_not_held_in_memory(trips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of them than are looked at, and a data set that has its account is not searched again."""
    monkeypatch.setattr(datasets, "_MOST_ENTRIES", 3)
    folder, asked = trips.parent, []
    for number in range(20):
        (folder / f"{number}.csv").write_text("")
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda place: asked.append(place) or stat(place))
    assert len(datasets.files_under(str(folder))) <= 3 and len(asked) <= 4
    asked.clear()
    account_among((str(folder), str(trips.parent.parent / "other")), folder)
    assert not asked


@pytest.mark.parametrize("name", ["cafe\u0301.csv", "my  trips.csv", "\uff12\uff10\uff12\uff14.csv"])
def test_a_path_is_its_letters_and_an_older_ledgers_form_of_it_counts(name: str, tmp_path: Path) -> None:
    """A name is known by how it looks, and no file has the name that a path looks like."""
    path, other = os.path.realpath(tmp_path / name), tmp_path / "hard.csv"
    Path(path).write_text("")
    os.link(path, other)
    ledger = Ledger()
    ledger.account_of(path).set_budget(1)
    assert ledger.datasets == (path,)
    assert ledger.account_of(other).dataset == path
    older = visible_form(path)
    assert older != path and account_among((older,), path) == older
    ledger.account_of(tmp_path / "my  folder").charge("count", 1)
    inside = ledger.account_of(tmp_path / "my  folder" / "x.csv")
    inside.charge("count", 1)
    assert inside.dataset == str(tmp_path / "my  folder")


def test_a_path_that_looks_like_a_known_one_is_that_one_unless_there_is_such_a_file(tmp_path: Path) -> None:
    ledger, name = Ledger(), str(tmp_path / "my trips.csv")
    ledger.account(name).set_budget(1)
    for alike in (f"{name} ", str(tmp_path / "my  trips.csv"), f"{name}\u2800"):
        assert ledger.account(alike).dataset == name
    Path(f"{name} ").write_text("")
    assert ledger.account(f"{name} ").dataset == f"{name} "


def test_an_array_belongs_to_its_file_whatever_it_is_called(trips: Path) -> None:
    """A name with wildcards is no pattern: a hidden link to the file would have had the folder's budget."""
    hidden = trips.parent.parent / "other" / ".trips.npz"
    hidden.parent.mkdir()
    hidden.symlink_to(trips)
    for spelling in (f"{trips}:a[0]", f"{hidden}:a", f"{hidden}:a*"):
        assert account_among((str(trips),), spelling) == os.path.realpath(trips)


def test_a_file_that_is_called_like_an_array_is_itself(trips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = trips.with_name("other.npz:a.csv")
    odd.write_text("x,y\n1,2\n")
    monkeypatch.chdir(trips.parent)
    source = open_source(odd.name)
    assert source.column_names == ("x", "y") and source.paths == (str(odd),)
    assert {identity_of(odd), identity_of(odd.name), identity_of(source.paths[0])} == {os.path.realpath(odd)}


def test_accounts_of_arrays_of_earlier_versions_go_on(trips: Path) -> None:
    first, second = (f"{os.path.realpath(trips)}:{name}" for name in "ab")
    assert account_among((first,), trips) == account_among((first,), f"{trips}:b") == first
    with pytest.raises(InputError, match="shares records"):
        account_among((first, second), trips)
