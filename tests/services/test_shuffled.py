"""Submissions go through shuffler and analyzer to a release, by HTTP, and are forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sfumato.errors import InputError
from sfumato.services.analyzer import AnalyzerRole
from sfumato.services.sending import RefusedError, Route, send
from sfumato.services.server import Server
from sfumato.services.shuffler import Policy, ShufflerRole
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.shuffled import AnalyzerKey, Protocol
from tests.services.conftest import running, until

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
