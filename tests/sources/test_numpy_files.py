"""NumPy's files: rows in either order, one array of several, and headers that lie."""

from __future__ import annotations

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
