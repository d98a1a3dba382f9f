"""Hostile requests at a server of any role; `tests.services.attack` runs many, the tests a few.

Requests are pieces of real ones, cut, repeated, changed and mixed with bytes that are no HTTP at all. Every answer must
be a known problem, a success, or the end of the connection; the server must live; and in the end it must hold what it
acknowledged, once. Messages are frames of garbage, in bodies of a thousand.
"""

from __future__ import annotations

import http.client
import io
import random
import socket
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

from sfumato.services.sending import Route
from sfumato.services.server import Server
from sfumato.services.wire import CODES, FRAMES, Fate, framed, read_receipt
from tests.services.conftest import SECONDS, running
from tests.services.targets import TARGETS, CollectorTarget, Request, Target

_LAST = 20  # good ones after the attack
STATUSES = {status for status, _ in CODES.values()} | {200, 202}


class Fuzzer:
    """Sends hostile requests, and tells the target which good ones were acknowledged."""

    def __init__(self, address: str, target: Target, seed: int) -> None:
        parts = urlsplit(address)
        self._server = parts.hostname or "", parts.port or 0
        self._target, self._coins = target, random.Random(seed)
        self.seen: Counter[str] = Counter()

    def request(self, share: float) -> None:
        """Send one, which is as it should be with this probability, and look at the answer."""
        coins = self._coins
        good = self._target.request(coins)
        intact = coins.random() < share
        raw = bytearray(self._plain(good) if intact else self._written(good))
        if not intact:
            for _ in range(coins.choice([0, 1, 1, 3, 20])):
                self._spoil(raw)
        answer = self._answer(bytes(raw))
        if answer is None:
            self.seen["closed"] += 1
            return
        status, body = answer
        assert status in STATUSES, (status, bytes(raw)[:300])
        assert b"Traceback" not in body and b'File "' not in body
        self.seen[str(status)] += 1
        if status < 300 and intact:
            self._target.acknowledge(good, body)

    def _pick(self, usual: str, *odd: str) -> str:
        """Choose what is usual mostly."""
        return usual if self._coins.random() < 0.85 else self._coins.choice(odd)

    def _plain(self, good: Request) -> bytes:
        return _message(self._target.method, self._target.where, self._target.kind, good, str(len(good.body)))

    def _written(self, good: Request) -> bytes:
        """Return a request of which some parts may be odd."""
        pick, size = self._pick, len(good.body)
        before, _, end = self._target.where.rpartition("/")
        root, _, last = before.rpartition("/")
        last = pick(last, "0" * 64, "..", "%00", "a" * 3000, "", "%ff%fe", "'; DROP TABLE items", "1", "9" * 40, "-1")
        end = pick(end, "batch", "frames", "token", "status", "release.sfm", "map.html", "x", "../frames")
        where = pick(f"{root}/{last}/{end}", "/", "/v1/log", "/v1/counts", "/metrics", "/openapi.json", "//", "*")
        method = pick(self._target.method, "POST", "GET", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "PATCH", "X")
        kind = pick(self._target.kind, "text/plain", "", FRAMES + "; x=1", "a" * 5000)
        length = pick(str(size), "0", "-1", "99999999999999999999", "1e3", str(size - 1), str(size + 1))
        return _message(method, where, kind, good, "" if self._coins.random() < 0.1 else length)

    def _spoil(self, raw: bytearray) -> None:
        coins, kind = self._coins, self._coins.randrange(8)
        body = raw.find(b"\r\n\r\n") + 4 if kind > 3 else 0  # half of them get past the head
        at = coins.randrange(min(body, len(raw) - 1), len(raw))
        if kind in (0, 4, 5, 6, 7):
            raw[at] = coins.randrange(256)
        elif kind == 1:
            del raw[at : at + coins.randint(1, 20)]
        elif kind == 2:
            raw[at:at] = coins.randbytes(coins.randint(1, 20))
        else:
            raw[at:at] = raw[: coins.randint(1, 200)]
        if not raw:
            raw += b"x"

    def _answer(self, raw: bytes) -> tuple[int, bytes] | None:
        """Send bytes; None if the connection was closed without an answer."""
        with socket.create_connection(self._server, timeout=SECONDS) as connection:
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
        try:
            return answer.status, answer.read()
        except http.client.IncompleteRead:
            if b"HEAD" not in raw:
                raise
            return answer.status, b""


def _message(method: str, where: str, kind: str, good: Request, length: str) -> bytes:
    """Return a request; without a length it is sent in chunks."""
    head = f"{method} {where} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {kind}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in good.headers.items())
    if length:
        return f"{head}content-length: {length}\r\n\r\n".encode() + good.body
    size = f"{len(good.body):x}"
    return f"{head}transfer-encoding: chunked\r\n\r\n{size}\r\n".encode() + good.body + b"\r\n0\r\n\r\n"


class _Content:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._content)


def fuzz(role: str, requests: int, folder: Path, seed: int) -> tuple[Counter[str], int]:
    """Fuzz a server of a role; return how often each status came, and how much was acknowledged and is kept."""
    target = TARGETS[role](folder)
    with running(Server(target.role, every=3600)) as address:
        fuzzer = Fuzzer(address, target, seed)
        for _ in range(requests):
            fuzzer.request(target.good)
        for _ in range(_LAST):
            fuzzer.request(1.0)
        assert Route(address, tries=1).ask("GET", "/healthz")
        kept = target.check()
        assert kept, "after the attack no good request is acknowledged"
        return fuzzer.seen, kept


def garbage(messages: int, folder: Path, seed: int) -> None:
    """Send frames of garbage to a collector, a thousand to a body; each is refused, and nothing is kept."""
    coins, target = random.Random(seed), CollectorTarget(folder)
    with running(Server(target.role, every=3600)) as address:
        route, name = Route(address, tries=1), target.request(coins).parts[0][:4]
        for _ in range(messages // 1000):
            first = coins.choice([bytes(4), name])
            body = [
                coins.choice([coins.randbytes(coins.randint(0, 40)), first + coins.randbytes(6) + b"\xff" * 6])
                for _ in range(1000)
            ]
            answer = route.ask(target.method, target.where, framed(body), {"content-type": FRAMES})
            assert Fate.HELD not in read_receipt(answer, 1000)
        assert target.check() == 0 and not target.kept()
