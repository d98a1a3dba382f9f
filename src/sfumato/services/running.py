"""A server as a process: uvicorn with our limits, TLS, and an end that loses nothing.

uvicorn limits neither how long a connection takes to send the head of a request nor how large that is, nor how long it
reads the answer; `PatientProtocol` does. On SIGTERM no new connection is taken, requests that are under way are
answered, what waits is written, and the process ends.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sfumato.services.limits import Limits
from sfumato.services.server import Server

GRACE_SECONDS = 30
MOST_HEAD = 1 << 16


def patient_protocol(limits: Limits, proxied: bool) -> type[HttpToolsProtocol]:
    """Return uvicorn's protocol with limits on connections of an address, and on heads and requests in time and size.

    Parameters
    ----------
    limits : Limits
        The numbers.
    proxied : bool
        Whether all connections come from a proxy, which then limits them by address.
    """
    connections: Counter[str] = Counter()

    class PatientProtocol(HttpToolsProtocol):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._host, self._head_bytes, self._in_head = self.client[0] if self.client else "", 0, True
            self._due = self.loop.time() + limits.head_seconds
            self._watcher = self.loop.call_later(limits.head_seconds, self._watch)
            connections[self._host] += 1
            if not proxied and connections[self._host] > limits.connections_each:
                transport.abort()

        def _watch(self) -> None:
            """One timer for a connection looks now and then: setting several for each request costs too much."""
            left = self._due - self.loop.time()
            if left <= 0:
                self.transport.abort()
            else:
                self._watcher = self.loop.call_later(min(left, limits.head_seconds), self._watch)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._in_head:
                self._head_bytes += len(data)
                if self._head_bytes > MOST_HEAD:
                    self.transport.abort()

        def on_message_begin(self) -> None:
            self._in_head, self._head_bytes = True, 0
            if self.cycle is None or self.cycle.response_complete:
                self._due = self.loop.time() + limits.head_seconds
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._due = self.loop.time() + limits.request_seconds
            super().on_headers_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.cycle.response_complete:  # no other request is under way: the next one's head must come in time
                self._due = self.loop.time() + limits.head_seconds

        def connection_lost(self, exc: Exception | None) -> None:
            self._watcher.cancel()
            connections[self._host] -= 1
            if not connections[self._host]:
                del connections[self._host]
            super().connection_lost(exc)

    return PatientProtocol


def make_config(
    server: Server,
    host: str,
    port: int,
    certificate: Path | None = None,
    key: Path | None = None,
    proxy: str | None = None,
) -> uvicorn.Config:
    """Return what uvicorn is to do; the headers of a `proxy` at this address say who asks."""
    limits = server.role.limits
    return uvicorn.Config(
        server.app,
        host=host,
        port=port,
        http=patient_protocol(limits, proxy is not None),
        ws="none",
        limit_concurrency=limits.connections,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=GRACE_SECONDS,
        access_log=False,  # it would hold addresses
        server_header=False,
        proxy_headers=proxy is not None,
        forwarded_allow_ips=proxy,
        log_config=None,
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if key is None else str(key),
    )


def run(
    server: Server,
    host: str,
    port: int,
    certificate: Path | None = None,
    key: Path | None = None,
    proxy: str | None = None,
) -> None:
    """Serve until the process is told to end."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # it warns of every request that is no HTTP
    uvicorn.Server(make_config(server, host, port, certificate, key, proxy)).run()
