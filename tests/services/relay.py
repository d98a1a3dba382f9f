"""A tiny relay for tests: an HTTP proxy that knows CONNECT alone, and can lose answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


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
