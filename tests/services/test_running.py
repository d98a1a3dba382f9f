"""A server as it is deployed: with a certificate of its own, and behind a proxy that says who asks."""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sfumato.errors import SfumatoError, StorageError
from sfumato.local import Protocol
from sfumato.services.collector import CollectorRole
from sfumato.services.limits import Limits
from sfumato.services.running import make_config
from sfumato.services.sending import Route, UnreachableError, fetch_protocol, send
from sfumato.services.server import Server
from sfumato.services.signing import SignedProtocol, SigningKey
from tests.services.conftest import SECONDS, running, until
from tests.services.outages import is_ready
from tests.services.relay import relay


def _certified(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for this machine, signed by itself, and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=True)
        .sign(key, hashes.SHA256())
    )
    form, nothing = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    chain, private = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, nothing))
    return chain, private


def test_tls_through_a_relay(
    tmp_path: Path,
    local_signed: SignedProtocol,
    local_protocol: Protocol,
    organiser: SigningKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Devices that know the certificate send, also through a relay; others do not begin."""
    chain, key = _certified(tmp_path)
    role, report = CollectorRole(tmp_path / "collector", [local_signed]), local_protocol.client().report([0.5, 0.5])
    with running(Server(role), chain, key) as address, relay() as between:
        with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
            Route(address, tries=1).ask("GET", "/healthz")
        monkeypatch.setenv("SSL_CERT_FILE", str(chain))
        route = Route(address, between.address, tries=1)
        signed = fetch_protocol(route, organiser.public.hex())
        send(route, signed.fingerprint, 0, report)
        assert between.tunnels == 4 and role.intakes[signed.fingerprint, 0].store.count() == 1


def _statuses(address: str, claimed: list[str]) -> list[int]:
    """Ask once from each address that is claimed."""
    parts, found = urlsplit(address), []
    for one in claimed:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
        connection.request("GET", "/healthz", headers={"x-forwarded-for": one})
        found.append(connection.getresponse().status)
        connection.close()
    return found


@pytest.mark.parametrize(("proxy", "expected"), [("127.0.0.1", [200, 200, 429]), (None, [200, 429, 429])])
def test_a_proxy_says_who_asks_and_nobody_else(
    proxy: str | None, expected: list[int], tmp_path: Path, local_signed: SignedProtocol
) -> None:
    role = CollectorRole(tmp_path / "collector", [local_signed], Limits(rate=0.001, burst=1))
    with running(Server(role), proxy=proxy) as address:
        assert _statuses(address, ["192.0.2.1", "192.0.2.2", "192.0.2.1"]) == expected


def test_a_server_is_ready_while_its_own_storage_works(tmp_path: Path, local_signed: SignedProtocol) -> None:
    """A balancer goes on sending devices here when it is another server that is away."""
    role, due, problems = CollectorRole(tmp_path / "collector", [local_signed]), list[bool](), list[SfumatoError]()

    def step(fingerprint: str, group: int) -> None:
        due.append(True)
        raise problems[-1]

    role.step = step  # type: ignore[method-assign]
    problems.append(UnreachableError("the analyzer is away"))
    with running(Server(role, every=0.001)) as address:
        route = Route(address, tries=1)
        until(lambda: len(due) > 10)
        assert route.ask("GET", "/readyz") == b'{"ready":true}'
        problems.append(StorageError("the disk is gone"))
        until(lambda: not is_ready(route))


def test_the_process_keeps_no_addresses_and_the_roles_limits(tmp_path: Path, local_signed: SignedProtocol) -> None:
    role = CollectorRole(tmp_path / "own", [local_signed])
    plain, proxied = (make_config(Server(role), "127.0.0.1", 0, proxy=proxy) for proxy in (None, "10.0.0.1"))
    assert not plain.access_log and not plain.server_header and plain.limit_concurrency == role.limits.connections
    assert not plain.proxy_headers and proxied.proxy_headers
    asyncio.run(role.close())
