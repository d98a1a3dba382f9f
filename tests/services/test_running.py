"""A server as a process: no addresses in logs, no header that tells, limits of the role, a proxy only if named."""

from __future__ import annotations

from pathlib import Path

from sfumato.services.collector import CollectorRole
from sfumato.services.running import make_config
from sfumato.services.server import Server
from sfumato.services.signing import SignedProtocol


def test_the_process_keeps_no_addresses_and_the_roles_limits(tmp_path: Path, local_signed: SignedProtocol) -> None:
    role = CollectorRole(tmp_path / "own", [local_signed])
    plain, proxied = (make_config(Server(role), "127.0.0.1", 0, proxy=proxy) for proxy in (None, "10.0.0.1"))
    assert not plain.access_log and not plain.server_header and plain.limit_concurrency == role.limits.connections
    assert not plain.proxy_headers and proxied.proxy_headers
    role.close()
