"""Servers under attack: kills, garbage, slow and greedy senders. What is acknowledged is kept, once."""

from __future__ import annotations

import http.client
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sfumato.local import Protocol
from sfumato.services.admission import IssuerKey, blind, token_text
from sfumato.services.collector import CollectorRole
from sfumato.services.issuer import IssuerRole, code_hash, new_codes
from sfumato.services.limits import Limits
from sfumato.services.sending import RefusedError, Route, fetch_token, token_request
from sfumato.services.server import Server
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.services.wire import CODES, FRAMES, Fate, framed, path
from tests.services.conftest import SECONDS, running
from tests.services.killed import kill_collector, kill_issuer, kill_shuffler
from tests.services.test_collector import post


@pytest.mark.parametrize("kill", [kill_collector, kill_shuffler, kill_issuer])
def test_killed_while_devices_send(kill: Callable[[Path, int], int], tmp_path: Path) -> None:
    """Nothing that was acknowledged is lost, nothing counts twice: the storage holds exactly what was sent."""
    assert kill(tmp_path, 3) == 3


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, local_signed: SignedProtocol) -> Iterator[str]:
    folder, limits = tmp_path_factory.mktemp("patient"), Limits(body=20_000, rate=1e6, burst=1e6)
    with running(Server(CollectorRole(folder / "collector", [local_signed], limits))) as made:
        yield made


def _connected(address: str) -> socket.socket:
    parts = urlsplit(address)
    assert parts.hostname is not None and parts.port is not None
    return socket.create_connection((parts.hostname, parts.port), timeout=SECONDS)


def test_garbage_gets_an_answer_and_changes_nothing(address: str, local_protocol: Protocol) -> None:
    """Requests made of pieces of real ones: every answer has a known form, and the server lives."""
    coins = random.Random(int(os.environ.get("SFUMATO_TEST_SALT") or 5))
    parts = urlsplit(address)
    report = local_protocol.client().report([0.5, 0.5])
    names = [local_protocol.fingerprint, "0" * 64, "..", "%00", "a" * 3000, ""]
    statuses = {status for status, _ in CODES.values()} | {200, 404, 405, 400}
    for _ in range(300):
        body = bytearray(framed([report] * coins.randint(1, 3)))
        for _ in range(coins.randint(0, 4)):
            body[coins.randrange(len(body))] = coins.randrange(256)
        where = coins.choice(
            [
                path(
                    coins.choice(names), coins.choice([0, 1, 10**30]), coins.choice(["frames", "batch", "status", "x"])
                ),
                "/",
            ]
        )
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
        try:
            headers = {"content-type": coins.choice([FRAMES, "text/plain", "a" * 100])}
            connection.request(coins.choice(["POST", "GET", "PUT", "DELETE", "HEAD"]), where, bytes(body), headers)
            answer = connection.getresponse()
            assert answer.status in statuses, (answer.status, where)
            assert b"Traceback" not in answer.read()
        finally:
            connection.close()
    assert post(Route(address), local_protocol.fingerprint, [report]) == [Fate.HELD]


def test_a_large_body_is_refused(address: str, local_protocol: Protocol) -> None:
    with pytest.raises(RefusedError, match="too-large"):
        Route(address).ask(
            "POST", path(local_protocol.fingerprint, 0, "frames"), bytes(30_000), {"content-type": FRAMES}
        )


def test_a_body_that_lies_about_its_size_is_refused(address: str, local_protocol: Protocol) -> None:
    with _connected(address) as connection:
        head = f"POST {path(local_protocol.fingerprint, 0, 'frames')} HTTP/1.1\r\nhost: x\r\ncontent-type: {FRAMES}\r\n"
        connection.sendall(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        with suppress(ConnectionError):
            for _ in range(10):
                connection.sendall(b"1000\r\n" + bytes(0x1000) + b"\r\n")
        assert b" 413 " in connection.recv(100)


@pytest.mark.parametrize("head", [b"", b"POST /v1/col"])
def test_a_slow_head_is_let_go(head: bytes, tmp_path: Path, local_signed: SignedProtocol) -> None:
    role = CollectorRole(tmp_path / "collector", [local_signed], Limits(head_seconds=0.2))
    with running(Server(role)) as address, _connected(address) as slow, suppress(ConnectionError):
        slow.sendall(head)
        assert slow.recv(10) == b""  # closed


def test_a_slow_body_is_let_go(tmp_path: Path, local_signed: SignedProtocol, local_protocol: Protocol) -> None:
    role = CollectorRole(tmp_path / "collector", [local_signed], Limits(body_seconds=0.2))
    with running(Server(role)) as address, _connected(address) as slow:
        head = f"POST {path(local_protocol.fingerprint, 0, 'frames')} HTTP/1.1\r\nhost: x\r\ncontent-type: {FRAMES}\r\n"
        slow.sendall(f"{head}content-length: 100\r\n\r\n".encode() + bytes(10))
        assert b" 408 " in slow.recv(100)


def test_an_address_that_asks_too_often_waits(tmp_path: Path, local_signed: SignedProtocol) -> None:
    role = CollectorRole(tmp_path / "collector", [local_signed], Limits(rate=0.001, burst=3))
    with running(Server(role)) as made:
        parts, seen = urlsplit(made), []
        for _ in range(4):
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            seen.append((answer.status, answer.headers.get("retry-after") is not None))
            connection.close()
        assert seen == [(200, False)] * 3 + [(429, True)]


def test_the_same_report_from_many_at_once(address: str, local_protocol: Protocol) -> None:
    report = local_protocol.client().report([0.5, 0.5])
    fates: list[list[Fate]] = []

    def send() -> None:
        fates.append(post(Route(address), local_protocol.fingerprint, [report]))

    threads = [threading.Thread(target=send) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fates == [[Fate.HELD]] * 20


def test_tokens_over_the_network(tmp_path: Path, local_protocol: Protocol, organiser: SigningKey) -> None:
    """One invitation, one token, one report; a lost answer costs nothing; forged and foreign tokens are refused."""
    key, codes = IssuerKey.generate(), new_codes(2)
    signed = SignedProtocol.sign(local_protocol.document, organiser, issuer=key.public.text)
    (tmp_path / "invitations").write_text("".join(f"{code_hash(code)}\n" for code in codes))
    issuer = IssuerRole(tmp_path / "issuer", [signed], [key], tmp_path / "invitations")
    collector = CollectorRole(tmp_path / "collector", [signed])
    reports = [local_protocol.client().report([0.5, 0.5]) for _ in range(3)]
    name = local_protocol.fingerprint
    with running(Server(issuer)) as first, running(Server(collector)) as second:
        way, request = Route(first, tries=1), token_request(signed)
        token = fetch_token(way, signed, codes[0], request)
        assert fetch_token(way, signed, codes[0], request) == token  # the answer may have been lost
        with pytest.raises(RefusedError, match="used before"):
            fetch_token(way, signed, codes[0], token_request(signed))
        with pytest.raises(RefusedError, match="no such invitation"):
            fetch_token(way, signed, "0" * 32, token_request(signed))
        route = Route(second, tries=1)
        assert post(route, name, [reports[0], token + reports[0], token + reports[1]]) == [
            Fate.TOKEN,
            Fate.HELD,
            Fate.SPENT,
        ]
        other = blind(token_text("0" * 64), key.public)
        foreign = other.prepared[:32] + other.finished(key.sign_blindly(other.blinded), key.public)
        assert post(route, name, [foreign + reports[2], bytes(288) + reports[2], token + reports[0]]) == [
            Fate.TOKEN,
            Fate.TOKEN,
            Fate.HELD,
        ]


def test_shutdown_answers_what_is_under_way(
    tmp_path: Path, local_signed: SignedProtocol, local_protocol: Protocol
) -> None:
    role = CollectorRole(tmp_path / "collector", [local_signed])
    add, report = role.intakes[local_protocol.fingerprint, 0].store.add, local_protocol.client().report([0.5, 0.5])

    under_way = threading.Event()

    def slowly(*arguments: object) -> list[Fate]:
        under_way.set()
        time.sleep(0.5)
        return add(*arguments)  # type: ignore[arg-type]

    role.intakes[local_protocol.fingerprint, 0].store.add = slowly  # type: ignore[method-assign]
    fates: list[list[Fate]] = []
    with running(Server(role)) as made:
        thread = threading.Thread(
            target=lambda: fates.append(post(Route(made, tries=1), local_protocol.fingerprint, [report]))
        )
        thread.start()
        under_way.wait()
    thread.join()
    assert fates == [[Fate.HELD]]
