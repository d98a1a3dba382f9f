"""Shuffler and analyzer that are killed, restarted, shared and past their time: counts are exact, and keys go once."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import sfumato
from sfumato.errors import InputError, StorageError
from sfumato.services import role as role_module
from sfumato.services.analyzer import AnalyzerRole
from sfumato.services.issuer import IssuerRole, code_hash, new_codes
from sfumato.services.sending import RefusedError, Route, UnreachableError, fetch_token, send, token_request
from sfumato.services.server import Server
from sfumato.services.shuffler import Policy, ShufflerRole
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.services.store import FORGOTTEN
from sfumato.shuffled import AnalyzerKey, Protocol
from tests.services.conftest import SECONDS, running, until
from tests.services.killing import forked, free_port, serve
from tests.services.make_vectors import issuer_key
from tests.services.postgres_for_tests import Postgres

PEOPLE = 12


@pytest.fixture
def signed(
    shuffled_protocol: Protocol, analyzer_key: AnalyzerKey, organiser: SigningKey, tmp_path: Path
) -> SignedProtocol:
    analyzer_key.save(tmp_path / "analyzer.key")
    (tmp_path / "shuffler").mkdir()
    key = SigningKey.generate()
    key.save(tmp_path / "shuffler" / "server.key")
    return SignedProtocol.sign(shuffled_protocol.document, organiser, shuffler=key.public.hex())


def submissions(protocol: Protocol, count: int = PEOPLE) -> list[bytes]:
    return [protocol.client(max_delta=1e-2).messages([0.0]).to_bytes() for _ in range(count)]


def test_both_are_killed_again_and_again(signed: SignedProtocol, shuffled_protocol: Protocol, tmp_path: Path) -> None:
    """Kills at random moments of receiving, mixing, handing over and opening: everybody counts once."""
    coins, name = random.Random(3), shuffled_protocol.fingerprint
    ports = {"shuffler": free_port(), "analyzer": free_port()}
    makes = {
        "shuffler": lambda: ShufflerRole(
            tmp_path / "shuffler", [signed], f"http://127.0.0.1:{ports['analyzer']}", Policy(participants=PEOPLE)
        ),
        "analyzer": lambda: AnalyzerRole(tmp_path / "analyzer", [signed], [tmp_path / "analyzer.key"]),
    }
    waiting, living, kills = submissions(shuffled_protocol), {}, 0
    end = time.monotonic() + 2 * SECONDS
    released = tmp_path / "analyzer" / f"{name}-0" / "release.sfm"
    inbox = tmp_path / "shuffler" / f"{name}-0" / "inbox.key"
    while waiting or not released.exists() or inbox.exists() or (tmp_path / "analyzer.key").exists():
        assert time.monotonic() < end, "it did not come to an end"
        for role in makes:
            if role not in living:
                living[role] = forked(lambda role=role: serve(makes[role], ports[role]))  # type: ignore[misc]
        pause = time.monotonic() + (coins.uniform(0.02, 0.5) if kills < 14 else 1.0)
        while time.monotonic() < pause:
            try:
                if waiting:
                    send(Route(f"http://127.0.0.1:{ports['shuffler']}", tries=1), name, 0, waiting[0])
                    waiting.pop(0)
            except UnreachableError:
                time.sleep(0.02)
            time.sleep(0.01)
        if kills < 14:
            victim = coins.choice(sorted(living))
            os.kill(living[victim], signal.SIGKILL)
            os.waitpid(living.pop(victim), 0)
            kills += 1
    for child in living.values():
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert sfumato.load(released).count.value == PEOPLE
    after = makes["shuffler"](), makes["analyzer"]()
    events = [[json.loads(line)["event"] for line in one.log.content().splitlines()] for one in after]
    assert events[0] == ["opened", "closed", "messages-deleted"]
    assert events[1] == ["opened", "published", "key-deleted"]
    left = [path.name for one in after for path in one.folder.glob("*-0/*")]
    assert sorted(name for name in left if not name.startswith("items.db")) == ["release.sfm"]


def test_two_shufflers_on_one_database(
    signed: SignedProtocol, shuffled_protocol: Protocol, tmp_path: Path, database: Postgres | None
) -> None:
    """Submissions come in at both, retries at the other; both close and hand over; everybody counts once."""
    if database is None:
        pytest.skip("PostgreSQL is not installed")
    name = shuffled_protocol.fingerprint
    analyzer = AnalyzerRole(tmp_path / "analyzer", [signed], [tmp_path / "analyzer.key"])
    with running(Server(analyzer, every=0.05)) as address:
        policy = Policy(participants=PEOPLE)
        first = ShufflerRole(tmp_path / "shuffler", [signed], address, policy, database=database.address)
        other = tmp_path / "other"
        (other / f"{name}-0").mkdir(parents=True)
        shutil.copy(tmp_path / "shuffler" / "server.key", other / "server.key")
        with pytest.raises(StorageError, match="is not the key under which"):
            ShufflerRole(tmp_path / "wrong", [signed], address, policy, database=database.address)
        shutil.rmtree(tmp_path / "wrong")
        shutil.copy(tmp_path / "shuffler" / f"{name}-0" / "inbox.key", other / f"{name}-0" / "inbox.key")
        with pytest.raises(InputError, match="another server's that is running"):
            ShufflerRole(tmp_path / "shuffler", [signed], address, policy, database=database.address)
        second = ShufflerRole(other, [signed], address, policy, database=database.address)
        with running(Server(first, every=0.02)) as one, running(Server(second, every=0.02)) as two:
            for number, content in enumerate(submissions(shuffled_protocol)):
                ways = [Route(one), Route(two)]
                send(ways[number % 2], name, 0, content)
                if number < PEOPLE - 1:
                    send(ways[1 - number % 2], name, 0, content)
            until(lambda: all(shuffler.intakes[name, 0].store.fact("deleted") for shuffler in (first, second)))
            until(lambda: not list(tmp_path.glob("*/*-0/inbox.key")) and not list(tmp_path.glob("*/*-0/batch")))
            assert Route(one).ask("GET", "/v1/log") == Route(two).ask("GET", "/v1/log")
    assert sfumato.load(analyzer.release_path(name, 0)).count.value == PEOPLE


def test_a_jump_of_the_clock_deletes_nothing_and_expiry_does(
    shuffled_protocol: Protocol,
    analyzer_key: AnalyzerKey,
    organiser: SigningKey,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = shuffled_protocol.with_key(analyzer_key, "2099-01-31").document
    shuffler_key = SigningKey.generate()
    (tmp_path / "shuffler").mkdir()
    shuffler_key.save(tmp_path / "shuffler" / "server.key")
    analyzer_key.save(tmp_path / "analyzer.key")
    signed = SignedProtocol.sign(document, organiser, shuffler=shuffler_key.public.hex())
    roles = [
        ShufflerRole(tmp_path / "shuffler", [signed], "http://127.0.0.1:9", Policy(seconds=1e9)),
        AnalyzerRole(tmp_path / "analyzer", [signed], [tmp_path / "analyzer.key"]),
    ]
    content = Protocol.from_document(document).client(max_delta=1e-2).messages([0.0]).to_bytes()
    intake = roles[0].intakes[signed.fingerprint, 0]
    assert intake.settle([content]) == [0]

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime(2100, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(role_module, "datetime", Later)  # somebody sets the clock
    for role in roles:
        role.step(signed.fingerprint, 0)
    assert intake.store.count() == 1 and (tmp_path / "analyzer.key").exists()
    for role in roles:
        role._began += timedelta(days=100 * 365)  # time passes
        role.step(signed.fingerprint, 0)
    assert intake.store.stage == FORGOTTEN and intake.store.count() == 0
    assert not (tmp_path / "analyzer.key").exists() and roles[1].log.knows("key-deleted", signed.fingerprint)
    assert intake.settle([content]) == [7]


def test_epochs_overlap(shuffled_protocol: Protocol, organiser: SigningKey, tmp_path: Path) -> None:
    """Two documents at once, with keys of their own; a restart without the first key's file goes on once it is gone."""
    keys = [AnalyzerKey.generate(), AnalyzerKey.generate()]
    (tmp_path / "shuffler").mkdir()
    shuffler_key = SigningKey.generate()
    shuffler_key.save(tmp_path / "shuffler" / "server.key")
    epochs = [shuffled_protocol.with_key(key) for key in keys]
    signed = [SignedProtocol.sign(epoch.document, organiser, shuffler=shuffler_key.public.hex()) for epoch in epochs]
    files = [tmp_path / f"key-{number}" for number in range(2)]
    for key, file in zip(keys, files, strict=True):
        key.save(file)
    analyzer = AnalyzerRole(tmp_path / "analyzer", signed, files)
    with running(Server(analyzer, every=0.05)) as address:
        shuffler = ShufflerRole(tmp_path / "shuffler", signed, address, Policy(participants=PEOPLE))
        with running(Server(shuffler, every=0.05)) as entrance:
            for content in submissions(epochs[0]):
                send(Route(entrance), epochs[0].fingerprint, 0, content)
            send(Route(entrance), epochs[1].fingerprint, 0, submissions(epochs[1], 1)[0])
            with pytest.raises(RefusedError, match="length"):
                send(Route(entrance), epochs[1].fingerprint, 0, b"spoilt")
            until(lambda: not files[0].exists())
    again = AnalyzerRole(tmp_path / "analyzer", signed, files)
    assert files[1].exists() and again.status(epochs[1].fingerprint, 0)["stage"] == "waiting"
    assert sfumato.load(again.release_path(epochs[0].fingerprint, 0)).count.value == PEOPLE


def test_a_missing_key_is_refused(signed: SignedProtocol, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="private key of the collection"):
        AnalyzerRole(tmp_path / "analyzer", [signed], [tmp_path / "elsewhere.key"])


def test_one_invitation_is_one_token_of_a_key(
    shuffled_protocol: Protocol, analyzer_key: AnalyzerKey, organiser: SigningKey, tmp_path: Path
) -> None:
    """Two collections under one issuer's key: it cannot see which one a token is for, so it signs once for both."""
    key, codes = issuer_key(), new_codes(1)
    signed = [
        SignedProtocol.sign(one.document, organiser, key.public.text, "00" * 32)
        for one in (shuffled_protocol, shuffled_protocol.with_key(AnalyzerKey.generate()))
    ]
    (tmp_path / "hashes").write_text(code_hash(codes[0]) + "\n")
    with running(Server(IssuerRole(tmp_path / "issuer", signed, [key], tmp_path / "hashes"))) as address:
        way = Route(address, tries=1)
        spoilt = token_request(signed[0])
        object.__setattr__(spoilt, "blinded", b"\xff" * len(spoilt.blinded))
        with pytest.raises(RefusedError, match="no number"):
            fetch_token(way, signed[0], codes[0], spoilt)  # does not use the invitation up
        fetch_token(way, signed[0], codes[0], token_request(signed[0]))
        with pytest.raises(RefusedError, match="used before"):
            fetch_token(way, signed[1], codes[0], token_request(signed[1]))
