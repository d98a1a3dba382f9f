"""Shuffler and analyzer that are killed, restarted, shared and past their time: counts are exact, and keys go once."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

import sfumato
from sfumato.errors import InputError, StorageError
from sfumato.services.analyzer import AnalyzerRole
from sfumato.services.issuer import IssuerRole, code_hash, new_codes
from sfumato.services.sending import RefusedError, Route, fetch_token, send, token_request
from sfumato.services.server import Server
from sfumato.services.shuffler import Policy, ShufflerRole
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.services.store import FORGOTTEN
from sfumato.shuffled import AnalyzerKey, Protocol
from tests.services.conftest import running, until
from tests.services.killed import kill_shuffler_and_analyzer
from tests.services.make_vectors import issuer_key
from tests.services.outages import jumping_clock, race
from tests.services.postgres_for_tests import Postgres
from tests.services.targets import NOWHERE, PEOPLE, submissions


@pytest.fixture
def signed(
    shuffled_protocol: Protocol, analyzer_key: AnalyzerKey, organiser: SigningKey, tmp_path: Path
) -> SignedProtocol:
    analyzer_key.save(tmp_path / "analyzer.key")
    (tmp_path / "shuffler").mkdir()
    key = SigningKey.generate()
    key.save(tmp_path / "shuffler" / "server.key")
    return SignedProtocol.sign(shuffled_protocol.document, organiser, shuffler=key.public.hex())


def test_both_are_killed_again_and_again(tmp_path: Path) -> None:
    kill_shuffler_and_analyzer(tmp_path, kills=10, seed=3)


def test_two_shufflers_on_one_database(tmp_path: Path, database: Postgres | None) -> None:
    if database is None:
        pytest.skip("PostgreSQL is not installed")
    race(tmp_path, database)


def test_a_shuffler_with_another_key_or_folder_is_refused(
    signed: SignedProtocol, tmp_path: Path, database: Postgres | None
) -> None:
    if database is None:
        pytest.skip("PostgreSQL is not installed")
    make = partial(ShufflerRole, signed=[signed], analyzer=NOWHERE, policy=Policy(10), database=database.address)
    first = make(tmp_path / "shuffler")
    with pytest.raises(StorageError, match="is not the key under which"):
        make(tmp_path / "wrong")
    with pytest.raises(InputError, match="another server's that is running"):
        make(tmp_path / "shuffler")
    first.log.store.close()


def test_jumps_of_the_clock(tmp_path: Path) -> None:
    jumping_clock(tmp_path, 5, seed=1)


def test_expiry_deletes(
    shuffled_protocol: Protocol, analyzer_key: AnalyzerKey, organiser: SigningKey, tmp_path: Path
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


def test_a_kill_while_a_key_is_deleted(
    shuffled_protocol: Protocol, analyzer_key: AnalyzerKey, organiser: SigningKey, tmp_path: Path
) -> None:
    """A key is overwritten and then removed; a start in between finishes that and goes on serving."""
    file = tmp_path / "analyzer.key"
    signed = SignedProtocol.sign(shuffled_protocol.document, organiser, shuffler="00" * 32)
    analyzer_key.save(file)
    role = AnalyzerRole(tmp_path / "analyzer", [signed], [file])
    release = role.place(signed.fingerprint, 0) / "release.sfm"
    release.write_bytes(b"published")
    role._lock.close()
    file.write_bytes(bytes(file.stat().st_size))
    again = AnalyzerRole(tmp_path / "analyzer", [signed], [file])
    assert not file.exists() and again.log.knows("key-deleted", signed.fingerprint)


def test_a_key_of_two_collections_stays_until_both_are_published(
    shuffled_protocol: Protocol, analyzer_key: AnalyzerKey, organiser: SigningKey, tmp_path: Path
) -> None:
    file, epochs = (
        tmp_path / "analyzer.key",
        [shuffled_protocol.with_key(analyzer_key, f"209{i}-01-31") for i in (8, 9)],
    )
    analyzer_key.save(file)
    signed = [SignedProtocol.sign(epoch.document, organiser, shuffler="00" * 32) for epoch in epochs]
    role = AnalyzerRole(tmp_path / "analyzer", signed, [file])
    for number, epoch in enumerate(epochs):
        (role.place(epoch.fingerprint, 0) / "release.sfm").write_bytes(b"published")
        for each in epochs:
            role.step(each.fingerprint, 0)
        assert file.exists() == (number == 0)
    assert all(role.log.knows("key-deleted", epoch.fingerprint) for epoch in epochs)
