"""NumPy's files: rows in either order, one array of several, and headers that lie."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sfumato import InputError
from sfumato.sources.numpy_files import open_npy, open_npz
from sfumato.sources.selection import Selection

ROWS = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_the_same_in_either_order(tmp_path: Path, order: str) -> None:
    np.save(tmp_path / "a.npy", np.array(ROWS, order=order))  # type: ignore[call-overload]
    np.savez(tmp_path / "a.npz", rows=np.array(ROWS, order=order))  # type: ignore[call-overload]
    picked = Selection(columns=[2, 0])
    for source in (open_npy(tmp_path / "a.npy", picked), open_npz(tmp_path / "a.npz", None, picked)):
        assert np.concatenate(list(source.batches(3))).tolist() == ROWS[:, [2, 0]].tolist()


def test_one_array_of_several_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", a=ROWS, b=ROWS + 1)
    assert open_npz(tmp_path / "two.npz", "b", Selection()).whole()[0, 0] == 1
    for member in (None, "c"):
        with pytest.raises(InputError, match="its arrays are 'a', 'b'"):
            open_npz(tmp_path / "two.npz", member, Selection())


def test_a_file_that_ends_too_soon_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-8])
    with pytest.raises(InputError, match="damaged, truncated"):
        open_npy(tmp_path / "a.npy", Selection())


def saved(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_the_array_that_was_checked_is_the_one_that_is_read(tmp_path: Path) -> None:
    """NumPy itself prefers a member that is named without the ending."""
    for order in "CF":
        with zipfile.ZipFile(tmp_path / "twins.npz", "w") as archive:
            archive.writestr("x.npy", saved(np.array(ROWS, order=order)))  # type: ignore[call-overload]
            archive.writestr("x", saved(np.asfortranarray(ROWS + 100)))
        for member in (None, "x"):
            assert open_npz(tmp_path / "twins.npz", member, Selection()).whole().tolist() == ROWS.tolist()


def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "twins.npz", "w") as archive:
        archive.writestr("x.npy", saved(ROWS))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("x.npy", saved(ROWS + 100))
    with pytest.raises(InputError, match="holds 2 arrays of the name 'x'"):
        open_npz(tmp_path / "twins.npz", "x", Selection())
    with pytest.raises(InputError, match="its arrays are 'x', 'x'"):
        open_npz(tmp_path / "twins.npz", None, Selection())


@pytest.mark.parametrize(("module", "method"), [("lzma", zipfile.ZIP_LZMA), ("bz2", zipfile.ZIP_BZIP2)])
def test_methods_that_numpy_does_not_write_are_refused(tmp_path: Path, module: str, method: int) -> None:
    pytest.importorskip(module)  # not in every build of Python
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("x.npy", saved(ROWS))
    sound = path.read_bytes()
    for damaged in (sound, sound[:45] + bytes([sound[45] ^ 0xFF]) + sound[46:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"'x' is compressed by a method.*np\.savez"):
            open_npz(path, None, Selection())
