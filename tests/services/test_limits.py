"""What one connection may do: heads, bodies that nobody reads, many at a time; what an address is."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request

from sfumato.errors import InputError
from sfumato.local import Protocol
from sfumato.services.collector import CollectorRole
from sfumato.services.limits import Limits, sender
from sfumato.services.server import Server
from sfumato.services.signing import SignedProtocol
from tests.services.conftest import SECONDS, running

LIMITS = Limits(head_seconds=2.0, rate=1e6, burst=1e6, connections_each=3)


@pytest.fixture
def where(tmp_path: Path, local_signed: SignedProtocol) -> Iterator[tuple[str, int]]:
    with running(Server(CollectorRole(tmp_path / "collector", [local_signed], LIMITS))) as address:
        parts = urlsplit(address)
        yield parts.hostname or "", parts.port or 0


def _rest(connection: socket.socket) -> bytes:
    content = b""
    try:
        while part := connection.recv(1 << 16):
            content += part
    except ConnectionError:
        pass
    return content


def test_a_head_without_end_is_cut_off(where: tuple[str, int]) -> None:
    with socket.create_connection(where, timeout=SECONDS) as connection:
        try:
            for _ in range(100):
                connection.sendall(b"GET / HTTP/1.1\r\n" if not _ else b"x: " + b"a" * 5000 + b"\r\n")
        except ConnectionError:
            pass
        assert _rest(connection) == b""


def test_the_second_head_must_come_in_time_too(where: tuple[str, int]) -> None:
    with socket.create_connection(where, timeout=SECONDS) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b" 200 " in connection.recv(1 << 16)
        connection.sendall(b"GET /healthz HTT")
        assert _rest(connection) == b""


def test_a_body_that_nobody_reads_ends_the_connection(where: tuple[str, int]) -> None:
    for head in (b"GET /healthz", b"POST /nowhere", b"GET /"):
        with socket.create_connection(where, timeout=SECONDS) as connection:
            connection.sendall(head + b" HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\nabc")
            assert b"connection: close" in _rest(connection).lower()


def test_one_address_has_so_many_connections(where: tuple[str, int]) -> None:
    opened = [socket.create_connection(where, timeout=SECONDS) for _ in range(4)]
    try:
        assert _rest(opened[3]) == b""
        opened[0].sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert b" 200 " in _rest(opened[0])
    finally:
        for connection in opened:
            connection.close()


def test_addresses_of_one_network_are_one() -> None:
    def key(host: str) -> str:
        return sender(Request({"type": "http", "client": (host, 1), "headers": []}))

    assert key("2001:db8:1:2::1") == key("2001:db8:1:2:ffff::9") != key("2001:db8:1:3::1")
    assert key("::ffff:192.0.2.1") == "192.0.2.1" == key("192.0.2.1") and key("fe80::1%eth0") == key("fe80::2")


def test_a_report_larger_than_a_body_is_refused_at_the_start(
    tmp_path: Path, local_signed: SignedProtocol, local_protocol: Protocol
) -> None:
    with pytest.raises(InputError, match="more than a body may have"):
        CollectorRole(tmp_path / "collector", [local_signed], Limits(body=15))
