"""Hostile requests at a collector's server: ``python -m tests.services.fuzz --requests 100000 --messages 1000000``.

Requests are pieces of real ones, cut, repeated, changed and mixed with bytes that are no HTTP at all. Every answer must
be a known problem, a receipt, or the end of the connection; the server must live; and in the end it must hold exactly
the good reports that it acknowledged. Messages are frames of garbage, in bodies of a thousand.
"""

from __future__ import annotations

import argparse
import http.client
import io
import random
import socket
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

from sfumato.local import Protocol
from sfumato.services.collector import CollectorRole
from sfumato.services.limits import Limits
from sfumato.services.sending import Route
from sfumato.services.server import Server
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.services.wire import CODES, FRAMES, RECEIPT, Fate, framed, path, read_receipt

STATUSES = {status for status, _ in CODES.values()} | {200}
LIMITS = Limits(body=100_000, body_seconds=0.3, head_seconds=0.3, rate=1e9, burst=1e9)


class Fuzzer:
    """Sends hostile requests and remembers which good reports were acknowledged."""

    def __init__(self, address: str, protocol: Protocol, seed: int) -> None:
        parts = urlsplit(address)
        self._where = parts.hostname or "", parts.port or 0
        self._coins = random.Random(seed)
        self._client, self._name = protocol.client(), protocol.fingerprint
        self._socket: socket.socket | None = None
        self.good: set[bytes] = set()
        self.seen: Counter[str] = Counter()

    def request(self) -> None:
        """Send one and look at the answer."""
        coins = self._coins
        reports = [self._client.report([0.5, 0.5]) for _ in range(coins.randint(1, 2))]
        raw = bytearray(self._written(reports))
        intact = coins.random() < 0.3
        if not intact:
            for _ in range(coins.choice([0, 1, 1, 3, 20])):
                self._spoil(raw)
        answer = self._answer(bytes(raw))
        if answer is None:
            self.seen["closed"] += 1
            return
        status, kind, body = answer
        assert status in STATUSES, (status, bytes(raw)[:300])
        assert b"Traceback" not in body and b'File "' not in body
        self.seen[str(status)] += 1
        if status == 200 and kind == RECEIPT and intact and len(body) == len(reports):
            fates = read_receipt(body, len(reports))
            self.good |= {report for report, fate in zip(reports, fates, strict=True) if fate is Fate.HELD}

    def _pick(self, usual: str, *odd: str) -> str:
        """Choose what is usual mostly."""
        return usual if self._coins.random() < 0.85 else self._coins.choice(odd)

    def _written(self, reports: list[bytes]) -> bytes:
        body, pick = framed(reports), self._pick
        name = pick(self._name, "0" * 64, "..", "%00", "a" * 3000, "", "%ff%fe", "'; DROP TABLE items")
        group = pick("0", "1", "9" * 40, "-1", "0x0", " 0")
        end = pick("frames", "batch", "status", "release.sfm", "map.html", "x", "../frames")
        usual = f"/v1/collections/{name}/{group}/{end}"
        where = pick(usual, "/", "/v1/log", "/v1/counts", "/metrics", "/openapi.json", "//", "*")
        method = pick("POST", "GET", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "PATCH", "X")
        kind = pick(FRAMES, "text/plain", "", FRAMES + "; x=1", "a" * 5000)
        size = pick(str(len(body)), "0", "-1", "99999999999999999999", "1e3", str(len(body) - 1), str(len(body) + 1))
        head = f"{method} {where} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {kind}\r\n"
        if self._coins.random() < 0.1:
            return f"{head}transfer-encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        return f"{head}content-length: {size}\r\n\r\n".encode() + body

    def _spoil(self, raw: bytearray) -> None:
        coins, at = self._coins, self._coins.randrange(len(raw))
        kind = coins.randrange(4)
        if kind == 0:
            raw[at] = coins.randrange(256)
        elif kind == 1:
            del raw[at : at + coins.randint(1, 20)]
        elif kind == 2:
            raw[at:at] = coins.randbytes(coins.randint(1, 20))
        else:
            raw[at:at] = raw[: coins.randint(1, 200)]
        if not raw:
            raw += b"x"

    def _answer(self, raw: bytes) -> tuple[int, str, bytes] | None:
        """Send bytes; None if the connection was closed without an answer."""
        with socket.create_connection(self._where, timeout=300) as connection:
            try:
                connection.sendall(raw)
                content = b""
                while part := connection.recv(1 << 16):
                    content += part
            except ConnectionError:
                return None
        if not content:
            return None
        answer = http.client.HTTPResponse(_Content(content))  # type: ignore[arg-type]
        answer.begin()
        kind = answer.headers.get("content-type", "").partition(";")[0]
        try:
            return answer.status, kind, answer.read()
        except http.client.IncompleteRead:
            if b"HEAD" not in raw:
                raise
            return answer.status, "", b""


class _Content:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._content)


def garbage(address: str, protocol: Protocol, messages: int, seed: int) -> None:
    """Send frames of garbage, a thousand to a body; each is refused."""
    coins, route = random.Random(seed), Route(address, tries=1)
    good = protocol.client().report([0.5, 0.5])
    for _ in range(messages // 1000):
        name = coins.choice([bytes(4), good[:4]])
        body = [
            coins.choice([coins.randbytes(coins.randint(0, 40)), name + coins.randbytes(6) + b"\xff" * 6])
            for _ in range(1000)
        ]
        answer = route.ask("POST", path(protocol.fingerprint, 0, "frames"), framed(body), {"content-type": FRAMES})
        assert Fate.HELD not in read_receipt(answer, 1000)


def run(requests: int, messages: int, folder: Path, seed: int) -> Counter[str]:
    """Fuzz a server, and compare what it holds with what it acknowledged."""
    from tests.services.conftest import running

    protocol = Protocol("l2-lsh", bandwidth=0.5, dimension=2, epsilon=2, participants=1000, bounds=(0, 1), seed=7)
    signed = SignedProtocol.sign(protocol.document, SigningKey.generate())
    role = CollectorRole(folder / "collector", [signed], LIMITS)
    with running(Server(role, every=3600)) as address:
        fuzzer = Fuzzer(address, protocol, seed)
        for _ in range(requests):
            fuzzer.request()
        garbage(address, protocol, messages, seed)
        store = role.intakes[protocol.fingerprint, 0].store
        kept = {bytes(row[0]) + bytes(row[1]) for rows in store.blocks(1000) for row in rows}
        assert {report[4:] for report in fuzzer.good} <= kept, "something that was acknowledged is lost"
        assert store.count() == len(kept)
        assert Route(address, tries=1).ask("GET", "/healthz")
    return fuzzer.seen


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        seen = run(given.requests, given.messages, Path(folder), given.seed)
    print(f"{given.requests} requests, {given.messages} messages, {time.monotonic() - began:.0f} s: {dict(seen)}")


if __name__ == "__main__":
    main()
