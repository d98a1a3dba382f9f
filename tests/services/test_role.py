"""What all servers are: a folder of their own, keys that stay, the operator told apart, one at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from starlette.requests import Request

from sfumato import InputError
from sfumato.errors import EngineError, SfumatoError, StorageError
from sfumato.local import Protocol
from sfumato.services.collector import CollectorRole
from sfumato.services.role import Role
from sfumato.services.sending import UnreachableError
from sfumato.services.server import Server
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


def test_folders_of_others_stay_as_they_are(tmp_path: Path, local_signed: SignedProtocol) -> None:
    """Names alone make no server's folder: what has them was swept."""
    for name in ("arriving", "log/arriving/thesis.tex", f"{'0' * 64}-0/arriving"):
        file = tmp_path / name.replace("/", "-") / name
        file.parent.mkdir(parents=True)
        file.write_text("mine")
        folder = tmp_path / name.replace("/", "-")
        before = sorted(folder.rglob("*"))
        with pytest.raises(InputError, match="none of them was touched"):
            CollectorRole(folder, [local_signed])
        assert sorted(folder.rglob("*")) == before and file.read_text() == "mine"
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls" / "server.key").write_text("-----BEGIN PRIVATE KEY-----")
    with pytest.raises(InputError, match="holds no signing key"):
        CollectorRole(tmp_path / "tls", [local_signed])
    assert [path.name for path in (tmp_path / "tls").iterdir()] == ["server.key"]


def test_a_kill_before_there_is_a_key_leaves_a_folder_that_goes_on(
    tmp_path: Path, local_signed: SignedProtocol
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "lock").touch()
    (tmp_path / "own" / f".sfumato-{'0' * 16}.tmp").write_text("ours")
    asyncio.run(CollectorRole(tmp_path / "own", [local_signed]).close())
    assert not list((tmp_path / "own").glob(".sfumato*"))


@pytest.mark.parametrize(
    ("failure", "failures"),
    [
        (StorageError("full"), 4),
        (EngineError("one of several processes was ended from outside"), 4),
        (UnreachableError("the other server is away"), 0),
    ],
)
def test_a_server_that_fails_again_and_again_says_that_it_is_not_ready(
    failure: SfumatoError, failures: int, tmp_path: Path, local_signed: SignedProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And waits, each time twice as long; another server that is away is no failure of this one."""
    role, ticks = CollectorRole(tmp_path / "own", [local_signed]), 0

    async def ticked() -> None:
        server, stopping = Server(role, every=1e-6), asyncio.Event()

        def step(*_: object) -> None:
            nonlocal ticks
            ticks += 1
            if ticks == 4:
                stopping.set()
            raise failure

        monkeypatch.setattr(role, "step", step)
        await server._ticking(stopping)
        assert server._failures == failures
        assert (await server._ready(Request({"type": "http"}))).status_code == (503 if failures else 200)
        await role.close()

    asyncio.run(ticked())


def test_an_operators_key_that_was_cut_off_is_refused(tmp_path: Path, local_signed: SignedProtocol) -> None:
    """An empty one would be everybody's."""
    asyncio.run(CollectorRole(tmp_path / "own", [local_signed]).close())
    (tmp_path / "own" / "operator.key").write_text("\n")
    with pytest.raises(StorageError, match="delete it"):
        CollectorRole(tmp_path / "own", [local_signed])


def test_a_server_starts_while_another_of_its_role_begins(
    tmp_path: Path, local_signed: SignedProtocol, local_protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one writes the log and takes a report after this one looked at the log."""
    begin = CollectorRole.begin

    def late(role: CollectorRole) -> None:
        role.note("opened", local_signed.fingerprint)
        role.intakes[local_signed.fingerprint, 0].settle([local_protocol.client().report([0.5, 0.5])])
        begin(role)

    monkeypatch.setattr(CollectorRole, "begin", late)
    role = CollectorRole(tmp_path / "own", [local_signed])
    assert role.intakes[local_signed.fingerprint, 0].store.count() == 1
    asyncio.run(role.close())
