"""Submissions go through shuffler and analyzer to a release, by HTTP, and are forgotten."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from sfumato.errors import InputError
from sfumato.services.admission import NONCE_BYTES, blind, token_text
from sfumato.services.analyzer import AnalyzerRole
from sfumato.services.sending import RefusedError, Route, UnreachableError, send
from sfumato.services.server import Server
from sfumato.services.shuffler import Policy, ShufflerRole
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.services.store import CLOSED, FORGOTTEN, OPEN
from sfumato.services.wire import Fate
from sfumato.shuffled import AnalyzerKey, Protocol
from tests.services.conftest import running, until
from tests.services.make_vectors import issuer_key

PEOPLE = 12


@pytest.fixture
def protocol(shuffled_protocol: Protocol) -> Protocol:
    return shuffled_protocol


def test_from_devices_to_a_release(
    protocol: Protocol, analyzer_key: AnalyzerKey, organiser: SigningKey, tmp_path: Path
) -> None:
    analyzer_key.save(tmp_path / "analyzer.key")
    shuffler_key = SigningKey.generate()
    (tmp_path / "shuffler").mkdir()
    shuffler_key.save(tmp_path / "shuffler" / "server.key")
    signed = SignedProtocol.sign(protocol.document, organiser, shuffler=shuffler_key.public.hex())
    analyzer = AnalyzerRole(tmp_path / "analyzer", [signed], [tmp_path / "analyzer.key"])
    name = protocol.fingerprint
    with running(Server(analyzer, every=0.05)) as address:
        shuffler = ShufflerRole(tmp_path / "shuffler", [signed], address, Policy(participants=PEOPLE))
        store = shuffler.intakes[name, 0].store
        with running(Server(shuffler, every=0.05)) as entrance:
            route = Route(entrance, tries=1)
            for number in range(PEOPLE):
                content = protocol.client(max_delta=1e-2).messages([float(number)]).to_bytes()
                send(route, name, 0, content)
                send(route, name, 0, content)
            until(lambda: store.fact("deleted") == "yes")
            assert not (tmp_path / "shuffler" / f"{name}-0" / "batch").exists()
            assert store.count() == 0
            with pytest.raises(InputError, match="closed"):
                send(route, name, 0, protocol.client(max_delta=1e-2).messages([0.0]).to_bytes())
            entries = [json.loads(line)["event"] for line in route.ask("GET", "/v1/log").splitlines()]
            assert entries == ["opened", "closed", "messages-deleted"]
        release = Route(address).ask("GET", "/release.sfm")
        until(lambda: not (tmp_path / "analyzer.key").exists())
        assert analyzer.log.knows("key-deleted", name)
    (tmp_path / "got.sfm").write_bytes(release)
    import sfumato

    assert sfumato.load(tmp_path / "got.sfm").count.value == PEOPLE


def test_only_the_named_shuffler_hands_over(
    protocol: Protocol, analyzer_key: AnalyzerKey, organiser: SigningKey, tmp_path: Path
) -> None:
    from sfumato.services.sending import send_batch
    from sfumato.shuffled import Shuffler

    analyzer_key.save(tmp_path / "analyzer.key")
    signed = SignedProtocol.sign(protocol.document, organiser, shuffler=SigningKey.generate().public.hex())
    with Shuffler(tmp_path / "inbox", protocol) as mixer:
        mixer.receive(*(protocol.client(max_delta=1e-2).messages([0.0]) for _ in range(PEOPLE)))
        mixer.shuffle(tmp_path / "batch")
    analyzer = AnalyzerRole(tmp_path / "analyzer", [signed], [tmp_path / "analyzer.key"])
    with running(Server(analyzer, every=0.05)) as address:
        with pytest.raises(RefusedError, match="not signed by the collection's shuffler"):
            send_batch(address, protocol.fingerprint, 0, tmp_path / "batch", SigningKey.generate())
        assert analyzer.status(protocol.fingerprint, 0)["stage"] == "waiting"


@pytest.fixture(scope="module")
def with_classes(analyzer_key: AnalyzerKey) -> Protocol:
    return Protocol(
        "gaussian",
        bandwidth=1.0,
        dimension=1,
        epsilon=1,
        delta=1e-2,
        participants=10,
        instances=2,
        key=analyzer_key,
        classes=["yes", "no"],
    )


def test_an_invitation_admits_to_one_class(with_classes: Protocol, organiser: SigningKey, tmp_path: Path) -> None:
    """Whoever sends under one token to both classes at the same moment is in one of them, also over HTTP."""
    key, name, tokens = issuer_key(), with_classes.fingerprint, list[bytes]()
    for _ in range(5):
        asked = blind(token_text(name), key.public)
        tokens.append(asked.prepared[:NONCE_BYTES] + asked.finished(key.sign_blindly(asked.blinded), key.public))
    signed = SignedProtocol.sign(with_classes.document, organiser, key.public.text, "00" * 32)
    shuffler = ShufflerRole(tmp_path / "shuffler", [signed], "http://127.0.0.1:9", Policy(participants=100))
    contents = [
        [token + with_classes.client(label, max_delta=1e-2).messages([0.0]).to_bytes() for token in tokens]
        for label in ("yes", "no")
    ]
    fates: list[list[Fate]] = [[], []]
    start = threading.Barrier(2)

    def take(group: int) -> None:
        for content in contents[group]:
            start.wait()
            fates[group] += shuffler.intakes[name, group].settle([content])

    threads = [threading.Thread(target=take, args=(group,)) for group in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sorted(pair) for pair in zip(*fates, strict=True)] == [[Fate.HELD, Fate.SPENT]] * len(tokens)
    held = fates[0][0] is Fate.SPENT
    with running(Server(shuffler, every=3600)) as address:
        send(Route(address), name, int(held), contents[held][0])  # again, and acknowledged again
        with pytest.raises(RefusedError, match="spent"):
            send(Route(address), name, 1 - held, contents[not held][0])


def test_the_log_tells_of_the_last_class(with_classes: Protocol, organiser: SigningKey, tmp_path: Path) -> None:
    """Nobody reads that a collection is closed, or its messages deleted, as long as one class is not."""
    signed = SignedProtocol.sign(with_classes.document, organiser, None, "00" * 32)
    name = signed.fingerprint
    shuffler = ShufflerRole(tmp_path / "shuffler", [signed], "http://127.0.0.1:9", Policy(participants=100))
    first, second = (shuffler.intakes[name, group].store for group in range(2))

    def told() -> list[str]:
        for group in range(2):
            try:
                shuffler.step(name, group)
            except UnreachableError:
                shuffler._waits.clear()
        return [json.loads(line)["event"] for line in shuffler.log.content().splitlines()]

    assert first.advance(OPEN, CLOSED) and told() == ["opened"]
    assert first.advance(CLOSED, FORGOTTEN) and told() == ["opened"]
    assert second.advance(OPEN, CLOSED) and told() == ["opened", "closed"]
    assert second.advance(CLOSED, FORGOTTEN) and told() == ["opened", "closed", "messages-deleted"]
    assert first.fact("deleted") is None and told() and first.fact("deleted") == second.fact("deleted") == "yes"
    first.close()
