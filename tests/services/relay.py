"""Tiny relays for tests: an HTTP proxy that knows CONNECT alone, and can lose answers; and one for browsers, which
forwards whatever is asked of it to one server.
"""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Relay:
    """Counts tunnels in `tunnels`; the answers of the next `lose` of them are taken from the server and thrown away."""

    def __init__(self) -> None:
        self.tunnels = 0
        self.lose = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._tunnel, args=(client,), daemon=True).start()

    def _tunnel(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            method, target, _ = head.decode("ascii").split(" ", 2)
            assert method == "CONNECT"
            host, _, port = target.rpartition(":")
            self.tunnels += 1
            lost, self.lose = self.lose > 0, max(self.lose - 1, 0)
            with socket.create_connection((host, int(port))) as server:
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                threading.Thread(target=_copy, args=(client, server), daemon=True).start()
                if lost:
                    server.recv(1 << 16)  # the server has answered, and nobody learns it
                    client.shutdown(socket.SHUT_RDWR)
                else:
                    _copy(server, client)

    def close(self) -> None:
        """End."""
        self._listening.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(1 << 16):
            target.sendall(part)


@contextmanager
def relay() -> Iterator[Relay]:
    """Run a relay."""
    made = Relay()
    try:
        yield made
    finally:
        made.close()


class Forwarding(ThreadingHTTPServer):
    """Forwards to the server at `target`, and keeps methods and paths in `forwarded`."""

    daemon_threads = True

    def __init__(self) -> None:
        self.target = ""
        self.forwarded: list[str] = []
        super().__init__(("127.0.0.1", 0), _Forwarded)
        self.address = f"http://127.0.0.1:{self.server_port}"


class _Forwarded(BaseHTTPRequestHandler):
    server: Forwarding

    def _forward(self) -> None:
        target = urlsplit(self.server.target)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        kept = {name: value for name, value in self.headers.items() if name.lower() in ("content-type", "accept")}
        connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=60)
        connection.request(self.command, self.path, body, kept)  # neither address nor cookies nor the browser's name
        answer = connection.getresponse()
        content = answer.read()
        self.server.forwarded.append(f"{self.command} {self.path}")
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("content-length", "connection", "date"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        connection.close()

    do_GET = do_POST = _forward  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        """Write nothing down."""


@contextmanager
def forwarding() -> Iterator[Forwarding]:
    """Run a relay for browsers."""
    made = Forwarding()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()
        thread.join()
