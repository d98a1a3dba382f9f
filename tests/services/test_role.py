"""What all servers are: a folder of their own, keys that stay, the operator told apart, one at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sfumato import InputError
from sfumato.services.collector import CollectorRole
from sfumato.services.role import Role
from sfumato.services.signing import SignedProtocol


def test_a_folder_is_one_servers_and_its_keys_stay(tmp_path: Path, local_signed: SignedProtocol) -> None:
    first = CollectorRole(tmp_path / "own", [local_signed])
    assert isinstance(first, Role)
    with pytest.raises(InputError, match="another server's that is running"):
        CollectorRole(tmp_path / "own", [local_signed])
    key = (tmp_path / "own" / "operator.key").read_text().strip()
    assert (
        first.is_operator(f"Bearer {key}") and not first.is_operator(f"Bearer {key[:-1]}") and not first.is_operator("")
    )
    public = first.key.public
    asyncio.run(first.close())
    second = CollectorRole(tmp_path / "own", [local_signed])
    assert second.key.public == public
    asyncio.run(second.close())


def test_foreign_files_and_no_protocols_are_refused(tmp_path: Path, local_signed: SignedProtocol) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match="not a server's"):
        CollectorRole(tmp_path / "taken", [local_signed])
    with pytest.raises(InputError, match="at least one"):
        CollectorRole(tmp_path / "none", [])
