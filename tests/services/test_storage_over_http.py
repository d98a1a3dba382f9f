"""Storage that fails under a running server: nothing is acknowledged that is not kept, and it goes on afterwards."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from sfumato.local import Protocol
from sfumato.services.collector import CollectorRole
from sfumato.services.limits import Limits
from sfumato.services.role import Role
from sfumato.services.sending import Route, UnreachableError
from sfumato.services.server import Server
from sfumato.services.signing import SignedProtocol
from sfumato.services.wire import Fate
from tests.services.conftest import running, until
from tests.services.killing import _wait_for, forked, free_port, serve
from tests.services.postgres_for_tests import Postgres
from tests.services.test_collector import post


def test_a_full_disk(tmp_path: Path, local_signed: SignedProtocol, local_protocol: Protocol) -> None:
    port, client = free_port(), local_protocol.client()

    def make() -> Role:
        made = CollectorRole(tmp_path / "collector", [local_signed], Limits(rate=1e6, burst=1e6))
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
        return made

    child = forked(lambda: serve(make, port))
    try:
        _wait_for(port)
        route = Route(f"http://127.0.0.1:{port}", tries=1)
        kept: list[bytes] = []

        def fill() -> None:
            for _ in range(1000):
                body = [client.report([0.5, 0.5]) for _ in range(50)]
                assert post(route, local_protocol.fingerprint, body) == [Fate.HELD] * 50
                kept.extend(body)

        with pytest.raises(UnreachableError, match="full|storage"):
            fill()
        assert route.ask("GET", "/healthz")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert kept
    store = CollectorRole(tmp_path / "collector", [local_signed]).intakes[local_protocol.fingerprint, 0].store
    found = {bytes(row[0]) + bytes(row[1]) for rows in store.blocks(1000) for row in rows}
    assert found == {report[4:] for report in kept} and store.count() == len(found)
    store.close()


def test_a_database_that_goes_and_comes_back(
    tmp_path: Path, local_signed: SignedProtocol, local_protocol: Protocol, database: Postgres | None
) -> None:
    if database is None:
        pytest.skip("PostgreSQL is not installed")
    role = CollectorRole(tmp_path / "collector", [local_signed], Limits(rate=1e6, burst=1e6), database.address)
    reports = [local_protocol.client().report([0.5, 0.5]) for _ in range(3)]
    name = local_protocol.fingerprint
    with running(Server(role, every=0.05)) as address:
        route = Route(address, tries=1)
        assert post(route, name, reports[:1]) == [Fate.HELD]
        database.stop()
        try:
            with pytest.raises(UnreachableError, match="storage"):
                post(route, name, reports[1:2])
            until(lambda: not _ready(route))
        finally:
            database.start()
        assert post(route, name, reports) == [Fate.HELD] * 3
        until(lambda: _ready(route))
        assert role.intakes[name, 0].store.count() == 3


def _ready(route: Route) -> bool:
    try:
        return bool(route.ask("GET", "/readyz"))
    except UnreachableError:
        return False
