"""What was paid for is on the disk, and no other file is lost for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.release.saving import saved


def test_a_file_that_is_there_stays_and_the_paid_one_lies_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.sfm"
    assert saved(path, b"first", overwrite=False) == path
    with pytest.warns(UserWarning, match="exists already and stays as it is") as told:
        beside = saved(path, b"second", overwrite=False)
    assert str(beside) in str(told[0].message)
    assert path.read_bytes() == b"first" and beside.read_bytes() == b"second"
    assert saved(path, b"third", overwrite=True) == path and path.read_bytes() == b"third"
