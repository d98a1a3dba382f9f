"""What a device, and a shuffler, sends with: the standard library's HTTP, patience, and no second answer.

An answer is kept in the device's account before it leaves (`sfumato.local.account`), and what is sent again is always
that answer. A server that is busy or away is asked again, each time after twice the wait and a random part of it; what
a server refuses for good is not sent again.

A relay is an HTTP proxy that somebody else runs. With TLS to the server the relay sees the address and no content, the
server the content and no address.
"""

from __future__ import annotations

import http.client
import io
import random
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from sfumato.errors import InputError, SfumatoError
from sfumato.public.canonical_json import parse
from sfumato.services.admission import NONCE_BYTES, BlindRequest, IssuerPublicKey, blind, token_text
from sfumato.services.log import read_log
from sfumato.services.signing import LARGEST, SignedProtocol, SigningKey, Ticket
from sfumato.services.wire import (
    BATCH,
    CHECKSUM,
    FRAMES,
    ROOT,
    SIGNATURE,
    Fate,
    framed,
    path,
    read_receipt,
)
from sfumato.shuffled.messages import written_batch
from sfumato.shuffled.sealing import Hexadecimal

SECONDS = 30.0  # of one step
LEAST_RATE = 1 << 17  # bytes a second of a whole exchange, so that a server that drips holds nobody for ever
MOST_TRIES = 8
_PIECE = 1 << 20
_RECORD = 1 << 14  # what TLS sends in one step
_AGAIN = {408, 425, 429, 500, 502, 503, 504, 507}
Body = bytes | Callable[[], Iterator[bytes]]


class UnreachableError(SfumatoError):
    """A server did not answer, or did not take something; what was to be sent is kept and can be sent again."""

    exit_code = 8


class RefusedError(InputError):
    """A server refused for good; sending the same again does not help."""


@dataclass(frozen=True)
class Route:
    """The way to a server.

    Attributes
    ----------
    address : str
        Of the server, ``https://host:port`` and perhaps the beginning of its paths.
    relay : str, optional
        Address of an HTTP proxy, ``http://host:port``.
    tries : int
        How often to ask at most.
    """

    address: str
    relay: str | None = None
    tries: int = MOST_TRIES

    def ask(self, method: str, where: str, body: Body = b"", headers: Mapping[str, str] | None = None) -> bytes:
        """Ask until there is an answer; raise `RefusedError` if it is no, `UnreachableError` after the last try."""
        wait, said = 0.5, ""
        for number in range(self.tries):
            try:
                status, again, answer = self._once(method, where, body, headers or {})
            except (OSError, http.client.HTTPException) as problem:
                status, again, said = 0, "", f"{type(problem).__name__}: {problem}"
            else:
                if status < 300:
                    return answer
                said = _said(status, answer)
                if status not in _AGAIN:
                    raise RefusedError(f"{self.address} refused: {said:.300}")
            if number + 1 < self.tries:
                time.sleep(max(wait * random.uniform(0.5, 1.0), _seconds(again)))
                wait = min(2 * wait, 60.0)
        raise UnreachableError(f"{self.address} did not take it ({said:.300}); nothing is lost: send it again later")

    def _once(self, method: str, where: str, body: Body, headers: Mapping[str, str]) -> tuple[int, str, bytes]:
        connection, prefix = self._connection()
        sent = len(body) if isinstance(body, bytes) else int(headers["content-length"])
        connection.until = monotonic() + SECONDS + (sent + LARGEST) / LEAST_RATE
        try:
            content = body if isinstance(body, bytes) else body()
            connection.request(method, prefix + where, content, dict(headers))
            answer = connection.getresponse()
            read = answer.read(LARGEST + 1)
            if answer.length and len(read) <= LARGEST:  # a read with a bound does not say that the answer was cut off
                raise http.client.IncompleteRead(read, answer.length)
            return answer.status, answer.headers.get("retry-after", ""), read
        finally:
            connection.close()

    def _connection(self) -> tuple[_Connection, str]:
        scheme, host, port, prefix = _parts(self.address, ("http", "https"), "https://collector.example:8443")
        kind = _SealedConnection if scheme == "https" else _Connection
        if self.relay is None:
            return kind(host, port, timeout=SECONDS), prefix
        _, between, door, _ = _parts(self.relay, ("http",), "http://relay.example:8080")
        made = kind(between, door, timeout=SECONDS)
        made.set_tunnel(host, port)
        return made, prefix


class _Connection(http.client.HTTPConnection):
    """A connection with one deadline, `until`, for all that is sent and read."""

    until = 0.0

    def __init__(self, *where: Any, **options: Any) -> None:
        super().__init__(*where, **options)
        self.response_class = partial(_Response, self)  # type: ignore[assignment]

    def send(self, data: Any) -> None:
        """Send in steps that each look at the clock."""
        view = memoryview(data)
        for start in range(0, len(view), _RECORD):
            if self.sock is not None:  # it is made by the first step
                self.sock.settimeout(self.left())
            super().send(view[start : start + _RECORD])

    def left(self) -> float:
        """Return the seconds that the next step may take."""
        left = self.until - monotonic()
        if left <= 0:
            raise TimeoutError("the whole exchange took too long")
        return min(left, SECONDS)


class _SealedConnection(_Connection, http.client.HTTPSConnection):
    """The same with TLS."""


class _Response(http.client.HTTPResponse):
    """An answer, also that of a relay, of which every read looks at the clock."""

    def __init__(self, connection: _Connection, sock: socket.socket, *rest: Any, **options: Any) -> None:
        super().__init__(sock, *rest, **options)
        self.fp = io.BufferedReader(_Reading(connection, sock, self.fp.detach()))


class _Reading(io.RawIOBase):
    def __init__(self, connection: _Connection, sock: socket.socket, raw: io.RawIOBase) -> None:
        self._connection, self._sock, self._raw = connection, sock, raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._connection.left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _parts(address: str, schemes: tuple[str, ...], example: str) -> tuple[str, str, int | None, str]:
    """Return scheme, host, port and the beginning of paths."""
    try:
        parts = urlsplit(address)
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port
        if parts.scheme in schemes and host and parts.path.isascii():
            return parts.scheme, host, port, parts.path.rstrip("/")
    except ValueError:  # of brackets, ports and hosts
        pass
    raise InputError(f"{address!r} is no address such as {example}")


def _said(status: int, answer: bytes) -> str:
    try:
        problem = parse(answer, "the answer", 10_000)
        return f"{problem['code']}: {problem['title']} {problem.get('detail', '')}".strip()
    except (SfumatoError, KeyError, TypeError, AttributeError):
        return f"status {status}"


def _seconds(again: str) -> float:
    return min(float(again), 60.0) if again.isdecimal() else 0.0


def fetch_protocol(route: Route, organiser: str | None, log: Route | None = None) -> SignedProtocol:
    """Fetch the newest protocol of a server, and refuse it unless it is signed and stands in the server's log.

    Parameters
    ----------
    route : Route
        To the server.
    organiser : str, optional
        The organiser's public key, in hexadecimal.
    log : Route, optional
        Another way to the log, so that a document for one victim would have to be in a log that others see.
    """
    newest, key = _listed(route)
    signed = SignedProtocol.read(route.ask("GET", f"{ROOT}/collections/{newest}/protocol"), organiser)
    entries = read_log((log or route).ask("GET", f"{ROOT}/log"), key)
    if not any(entry["fingerprint"] == signed.fingerprint and entry["event"] == "opened" for entry in entries):
        raise InputError(
            "the protocol is not in the server's public log: it may be made for you alone; do not take part"
        )
    return signed


def _listed(route: Route) -> tuple[str, str]:
    """Return the newest collection of a server, and the server's key."""
    listed = parse(route.ask("GET", f"{ROOT}/collections"), "the server's collections", LARGEST)
    try:
        newest = Hexadecimal(64).read(listed["collections"][-1]["fingerprint"], "the newest collection")
        return newest, Hexadecimal(64).read(listed["key"], "the server's key")
    except (LookupError, TypeError):
        raise InputError("the server lists no collections; update sfumato, or tell the organiser") from None


def fetch_log(route: Route) -> tuple[str, bytes]:
    """Return a server's key and its public log, as it came; `log.read_log` checks it."""
    return _listed(route)[1], route.ask("GET", f"{ROOT}/log")


def send(route: Route, fingerprint: str, group: int, content: bytes, token: bytes = b"") -> None:
    """Send one report or submission until it is acknowledged; raise `InputError` if it is refused for good."""
    answer = route.ask("POST", path(fingerprint, group, "frames"), framed([token + content]), {"content-type": FRAMES})
    fate = read_receipt(answer, 1)[0]
    if fate is not Fate.HELD:
        raise RefusedError(f"the server refused what was sent: {fate.name.lower()} (see docs/wire.md)")


def token_request(signed: SignedProtocol) -> BlindRequest:
    """Draw a token; keep it before `fetch_token` is called, so that an answer that is lost costs no invitation."""
    return blind(token_text(signed.fingerprint), _issuer(signed))


def _issuer(signed: SignedProtocol) -> IssuerPublicKey:
    if signed.issuer is None:
        raise InputError("the collection admits everybody: no token is needed")
    return IssuerPublicKey(signed.issuer)


def fetch_token(route: Route, signed: SignedProtocol, code: str, request: BlindRequest) -> bytes:
    """Have an issuer sign a token for an invitation."""
    key = _issuer(signed)
    where = f"{ROOT}/collections/{signed.fingerprint}/token"
    answer = route.ask("POST", where, framed([code.encode(), request.blinded]), {"content-type": FRAMES})
    return request.prepared[:NONCE_BYTES] + request.finished(answer, key)


def batch_stage(analyzer: str, fingerprint: str, group: int) -> str:
    """Ask an analyzer where a batch stands; a batch that it refused is an error."""
    found = parse(Route(analyzer, tries=1).ask("GET", path(fingerprint, group, "status")), "the analyzer's status")
    return _stage(found)


def send_batch(analyzer: str, fingerprint: str, group: int, batch: Path, key: SigningKey) -> str:
    """Hand a batch to an analyzer, and return where it stands then."""
    checksum = written_batch(batch)
    if checksum is None:
        raise InputError(f"{str(batch)!r} is no whole batch")
    size = batch.stat().st_size
    headers = {
        "content-type": BATCH,
        "content-length": str(size),
        CHECKSUM: checksum,
        SIGNATURE: Ticket.sign(checksum, size, key).signature,
    }

    def pieces() -> Iterator[bytes]:
        with open(batch, "rb") as file:
            while piece := file.read(_PIECE):
                yield piece

    answer = Route(analyzer, tries=1).ask("PUT", path(fingerprint, group, "batch"), pieces, headers)
    return _stage(parse(answer, "the analyzer's status"))


def _stage(found: object) -> str:
    if not isinstance(found, dict) or not isinstance(found.get("stage"), str):
        raise UnreachableError("the analyzer's status is not one; update sfumato")
    if found["stage"] == "refused":
        raise UnreachableError("the analyzer refused the batch; its operator can see why")
    return str(found["stage"])
