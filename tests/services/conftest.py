"""Small collections, signed, and servers of them on this machine."""

from __future__ import annotations

import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra 'server' is not installed")

import uvicorn

from sfumato.local import Protocol
from sfumato.services import sending
from sfumato.services.running import make_config
from sfumato.services.server import Server
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.shuffled import AnalyzerKey
from sfumato.shuffled import Protocol as Shuffled
from tests.services.postgres_for_tests import Postgres, postgres, programs

SECONDS = 300.0  # how long a loaded machine may take for what must happen
sending.SECONDS = SECONDS


@contextmanager
def running(
    server: Server, certificate: Path | None = None, key: Path | None = None, proxy: str | None = None
) -> Iterator[str]:
    """Run a server in a thread, and give its address."""
    runner = uvicorn.Server(make_config(server, "127.0.0.1", 0, certificate, key, proxy))
    thread = threading.Thread(target=runner.run, daemon=True)
    thread.start()
    while not runner.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    port = runner.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"{'http' if certificate is None else 'https'}://127.0.0.1:{port}"
    finally:
        runner.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def organiser() -> SigningKey:
    return SigningKey.generate()


@pytest.fixture(scope="session")
def local_protocol() -> Protocol:
    return Protocol("l2-lsh", bandwidth=0.5, dimension=2, epsilon=2, participants=1000, bounds=(0, 1), seed=7)


@pytest.fixture(scope="session")
def local_signed(organiser: SigningKey, local_protocol: Protocol) -> SignedProtocol:
    return SignedProtocol.sign(local_protocol.document, organiser)


@pytest.fixture(scope="session")
def database() -> Iterator[Postgres | None]:
    """A real PostgreSQL, where it is installed."""
    if programs() is None:
        warnings.warn("PostgreSQL is not installed: its tests are skipped (apt-get install postgresql)", stacklevel=1)
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="sfumato-pg-", dir="/tmp") as folder, postgres(Path(folder)) as made:
        yield made


@pytest.fixture(scope="session")
def analyzer_key() -> AnalyzerKey:
    return AnalyzerKey.generate()


@pytest.fixture(scope="session")
def shuffled_protocol(analyzer_key: AnalyzerKey) -> Shuffled:
    return Shuffled(
        "gaussian", bandwidth=1.0, dimension=1, epsilon=1, delta=1e-2, participants=10, instances=2, key=analyzer_key
    )


def until(condition: Callable[[], object]) -> None:
    """Wait for something that must happen."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
