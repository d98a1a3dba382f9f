"""A real PostgreSQL for tests, started from the system's package in a folder of its own, on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER = "postgres"


def programs() -> Path | None:
    """Return where PostgreSQL's programs are; None where it is not installed."""
    for found in [shutil.which("initdb"), *map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb"))]:
        if found:
            return Path(found).resolve().parent
    return None


class Postgres:
    """A server that can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        found = programs()
        assert found is not None
        self._programs, self._folder = found, folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "-D", str(folder / "data"), "-A", "trust", "-U", USER)

    def _run(self, program: str, *arguments: str) -> None:
        # PostgreSQL refuses to run as root.
        user = {"user": USER, "group": USER} if os.geteuid() == 0 else {}
        subprocess.run([self._programs / program, *arguments], check=True, capture_output=True, cwd="/", **user)  # type: ignore[call-overload]

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._folder}"
        self._run(
            "pg_ctl", "-D", str(self._folder / "data"), "-w", "-l", str(self._folder / "log"), "-o", options, "start"
        )

    def stop(self, how: str = "immediate") -> None:
        """Stop it, as a crash by default."""
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", how, "-w", "stop")


@contextmanager
def postgres(folder: Path) -> Iterator[Postgres]:
    """Run a server."""
    if os.geteuid() == 0:
        shutil.chown(folder, USER, USER)
        for parent in folder.parents:
            if parent != Path("/") and parent.stat().st_uid == os.geteuid():
                parent.chmod(parent.stat().st_mode | 0o011)
    made = Postgres(folder)
    made.start()
    try:
        yield made
    finally:
        made.stop()
