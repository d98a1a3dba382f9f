"""What fails around a server: the disk, the database, the clock; and two shufflers that race for one batch."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import sfumato
from sfumato.services import role as role_module
from sfumato.services.analyzer import AnalyzerRole
from sfumato.services.collector import CollectorRole
from sfumato.services.role import Role
from sfumato.services.sending import Route, UnreachableError, send
from sfumato.services.server import Server
from sfumato.services.shuffler import Policy, ShufflerRole
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.services.store import OPEN
from sfumato.shuffled import AnalyzerKey, Protocol
from tests.services.conftest import running, until
from tests.services.killing import forked, free_port, send_frames, serve, wait_for
from tests.services.postgres_for_tests import Postgres
from tests.services.targets import (
    NOWHERE,
    OPEN_HANDED,
    PEOPLE,
    local_protocol,
    shuffled_collection,
    shuffled_protocol,
    submissions,
)


def full_disk(folder: Path, size: int) -> int:
    """Fill a collector until a file may not grow beyond `size`: nothing is acknowledged that is not kept."""
    protocol, port = local_protocol(), free_port()
    signed = SignedProtocol.sign(protocol.document, SigningKey.generate())
    client, name, kept = protocol.client(), protocol.fingerprint, list[bytes]()

    def make() -> Role:
        made = CollectorRole(folder / "collector", [signed], OPEN_HANDED)
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        return made

    child = forked(lambda: serve(make, port))
    try:
        wait_for(port)
        route, said = Route(f"http://127.0.0.1:{port}", tries=1), ""
        while not said:
            assert 16 * len(kept) < size, "the disk is never full"
            body = [client.report([0.5, 0.5]) for _ in range(50)]
            try:
                send_frames(name)(route, body)
                kept += body
            except UnreachableError as problem:
                said = str(problem)
        assert "full:" in said or "storage:" in said, said
        assert route.ask("GET", "/healthz")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    store = CollectorRole(folder / "collector", [signed]).intakes[name, 0].store
    found = [bytes(row[0]) + bytes(row[1]) for rows in store.blocks(1000) for row in rows]
    assert sorted(found) == sorted(report[4:] for report in kept) and store.count() == len(found) > 0
    store.close()
    return len(kept)


def database_away(folder: Path, database: Postgres, outages: int) -> int:
    """Crash a collector's database under load, and start it again: what is acknowledged is kept, once."""
    protocol = local_protocol(random.SystemRandom().randrange(10**9))  # a schema of its own
    signed = SignedProtocol.sign(protocol.document, SigningKey.generate())
    role = CollectorRole(folder / "collector", [signed], OPEN_HANDED, database.address)
    client, name, sent = protocol.client(), protocol.fingerprint, list[bytes]()
    refused, stop, said = threading.Event(), threading.Event(), set[str]()

    def device(route: Route) -> None:
        while not stop.is_set():
            report = client.report([0.5, 0.5])
            while True:
                try:
                    send_frames(name)(route, [report])
                    break
                except UnreachableError as problem:
                    said.add(str(problem))
                    refused.set()
            sent.append(report)

    with running(Server(role, every=0.05)) as address:
        route = Route(address, tries=1)
        threads = [threading.Thread(target=device, args=(route,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(outages):
            before = len(sent)
            until(lambda before=before: len(sent) > before + 5)  # type: ignore[misc]
            refused.clear()
            database.stop()
            try:
                until(refused.is_set)
                until(lambda: not is_ready(route))
            finally:
                database.start()
            until(lambda: is_ready(route))
        stop.set()
        for thread in threads:
            thread.join()
        store = role.intakes[name, 0].store
        kept = [bytes(row[0]) + bytes(row[1]) for rows in store.blocks(1000) for row in rows]
        assert sorted(kept) == sorted(report[4:] for report in sent) and store.count() == len(kept)
    assert said and all("storage:" in text for text in said), said
    return len(kept)


def is_ready(route: Route) -> bool:
    """Whether a server says so."""
    try:
        return bool(route.ask("GET", "/readyz"))
    except UnreachableError:
        return False


def jumping_clock(folder: Path, jumps: int, seed: int) -> None:
    """Set the clock anywhere between 1970 and 2200 while devices send: nothing closes, nothing is deleted."""
    key, coins = AnalyzerKey.generate(), random.Random(seed)
    document = shuffled_protocol(key).with_key(key, "2099-01-31").document
    protocol, shuffler = Protocol.from_document(document), SigningKey.generate()
    (folder / "shuffler").mkdir()
    shuffler.save(folder / "shuffler" / "server.key")
    key.save(folder / "analyzer.key")
    signed = SignedProtocol.sign(document, SigningKey.generate(), shuffler=shuffler.public.hex())
    mixer = ShufflerRole(folder / "shuffler", [signed], NOWHERE, Policy(seconds=1e9), OPEN_HANDED)
    analyzer = AnalyzerRole(folder / "analyzer", [signed], [folder / "analyzer.key"])
    intake = mixer.intakes[protocol.fingerprint, 0]
    for number, content in enumerate(submissions(protocol, jumps)):
        moment = datetime(coins.randrange(1970, 2200), 1, 1, tzinfo=UTC)
        with mock.patch.object(role_module, "datetime", wraps=datetime) as clock:
            clock.now.return_value = moment
            assert intake.settle([content]) == [0]
            for role in (mixer, analyzer):
                role.step(protocol.fingerprint, 0)
        assert intake.store.count() == number + 1 and intake.store.stage == OPEN
    assert (folder / "analyzer.key").exists() and not analyzer.log.knows("key-deleted", protocol.fingerprint)
    intake.store.close()


def race(folder: Path, database: Postgres) -> None:
    """Two shufflers on one database take submissions and retries, close, and hand over: everybody counts once."""
    signed, protocol = shuffled_collection(folder)
    name, policy, other = protocol.fingerprint, Policy(participants=PEOPLE), folder / "other"
    analyzer = AnalyzerRole(folder / "analyzer", [signed], [folder / "analyzer.key"])
    with running(Server(analyzer, every=0.05)) as address:
        first = ShufflerRole(folder / "shuffler", [signed], address, policy, OPEN_HANDED, database.address)
        (other / f"{name}-0").mkdir(parents=True)
        shutil.copy(folder / "shuffler" / "server.key", other / "server.key")
        shutil.copy(folder / "shuffler" / f"{name}-0" / "inbox.key", other / f"{name}-0" / "inbox.key")
        second = ShufflerRole(other, [signed], address, policy, OPEN_HANDED, database.address)
        with running(Server(first, every=0.02)) as one, running(Server(second, every=0.02)) as two:
            ways = [Route(one), Route(two)]
            for number, content in enumerate(submissions(protocol)):
                send(ways[number % 2], name, 0, content)
                if number < PEOPLE - 1:
                    send(ways[1 - number % 2], name, 0, content)
            until(lambda: all(shuffler.intakes[name, 0].store.fact("deleted") for shuffler in (first, second)))
            until(lambda: not list(folder.glob("*/*-0/inbox.key")) and not list(folder.glob("*/*-0/batch")))
            assert Route(one).ask("GET", "/v1/log") == Route(two).ask("GET", "/v1/log")
    assert sfumato.load(analyzer.release_path(name, 0)).count.value == PEOPLE
