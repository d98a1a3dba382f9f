"""Reports come in over HTTP, are kept once, and are published."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato.errors import InputError
from sfumato.local import Protocol
from sfumato.services.collector import CollectorRole
from sfumato.services.sending import RefusedError, Route, fetch_protocol, send
from sfumato.services.server import Server
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.services.wire import FRAMES, Fate, framed, path, read_receipt
from tests.services.conftest import SECONDS, running


@pytest.fixture
def route(tmp_path: Path, local_signed: SignedProtocol) -> Iterator[Route]:
    with running(Server(CollectorRole(tmp_path / "collector", [local_signed]), every=0.05)) as address:
        yield Route(address, tries=1)


def post(route: Route, name: str, contents: list[bytes]) -> list[Fate]:
    answer = route.ask("POST", path(name, 0, "frames"), framed(contents), {"content-type": FRAMES})
    return read_receipt(answer, len(contents))


def fetched(route: Route, count: int, folder: Path) -> sfumato.Release:
    """Return the first release of so many."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            (folder / "got.sfm").write_bytes(route.ask("GET", "/release.sfm"))
            release = sfumato.load(folder / "got.sfm")
            if release.count.value == count:
                return release
        except RefusedError as problem:
            if "not-ready" not in str(problem):
                raise
        time.sleep(0.05)
    raise AssertionError("no release came")


def test_what_is_sent_is_published(route: Route, local_protocol: Protocol, tmp_path: Path) -> None:
    points = np.random.default_rng(1).uniform(size=(300, 2))
    reports = [local_protocol.client().report(point) for point in points]
    assert post(route, local_protocol.fingerprint, reports) == [Fate.HELD] * 300
    assert post(route, local_protocol.fingerprint, reports[:5]) == [Fate.HELD] * 5  # the same receipt again
    release = fetched(route, 300, tmp_path)
    with local_protocol.collector() as collector:
        collector.add(reports)
        expected = collector.release()
    assert np.array_equal(release.values, expected.values)


def test_one_bad_frame_refuses_nobody_else(route: Route, local_protocol: Protocol) -> None:
    good = [local_protocol.client().report([0.1, 0.2]) for _ in range(3)]
    first = next(
        one for one in iter(lambda: local_protocol.client().report([0.9, 0.9]), None) if one[10:] != good[0][10:]
    )
    other = good[0][:10] + first[10:]
    foreign = bytes([good[1][0] ^ 1]) + good[1][1:]
    fates = post(route, local_protocol.fingerprint, [good[0], b"", other, good[1][:-1], foreign, good[2]])
    assert fates == [Fate.HELD, Fate.LENGTH, Fate.CONFLICT, Fate.LENGTH, Fate.FOREIGN, Fate.HELD]


def test_a_device_sends(route: Route, local_protocol: Protocol, organiser: SigningKey, tmp_path: Path) -> None:
    signed = fetch_protocol(route, organiser.public.hex())
    assert signed.fingerprint == local_protocol.fingerprint
    report = Protocol.from_document(signed.document).client().report([0.5, 0.5])
    for _ in range(2):
        send(route, signed.fingerprint, 0, report)
    assert fetched(route, 1, tmp_path).count.value == 1


def test_another_organiser_is_refused(route: Route) -> None:
    with pytest.raises(InputError, match="not with the organiser's"):
        fetch_protocol(route, SigningKey.generate().public.hex())


@pytest.mark.parametrize(
    ("method", "where", "body", "headers", "code"),
    [
        ("POST", "frames", b"\1", {"content-type": FRAMES}, "frames"),
        ("POST", "frames", b"", {"content-type": FRAMES}, "frames"),
        ("POST", "frames", b"\xff\xff\xff\xff", {"content-type": FRAMES}, "frames"),
        ("POST", "frames", framed([b"1"]), {"content-type": "text/plain"}, "media-type"),
        ("GET", "frames", b"", {}, "method"),
        ("PUT", "batch", b"", {}, "unknown-path"),
        ("GET", "nothing", b"", {}, "unknown-path"),
    ],
)
def test_problems(
    method: str, where: str, body: bytes, headers: dict[str, str], code: str, route: Route, local_protocol: Protocol
) -> None:
    with pytest.raises(RefusedError, match=f"{code}:"):
        route.ask(method, path(local_protocol.fingerprint, 0, where), body, headers)


def test_pages_and_health(route: Route, local_protocol: Protocol, tmp_path: Path) -> None:
    reports = [local_protocol.client().report([0.5, 0.5]) for _ in range(50)]
    post(route, local_protocol.fingerprint, reports)
    fetched(route, 50, tmp_path)
    assert route.ask("GET", "/map.html").startswith(b"<!doctype html>")
    assert route.ask("GET", "/readyz") == b'{"ready":true}'
    status = route.ask("GET", path(local_protocol.fingerprint, 0, "status")).decode()
    assert "50" not in status.replace(local_protocol.fingerprint, "")
    key = (tmp_path / "collector" / "operator.key").read_text().strip()
    for where in ("/metrics", "/v1/counts"):
        for headers in ({}, {"authorization": "Bearer "}, {"authorization": f"Bearer {key[:-1]}"}):
            with pytest.raises(RefusedError, match="not-allowed"):
                route.ask("GET", where, headers=headers)
    own = {"authorization": f"Bearer {key}"}
    assert 'sfumato_frames_total{role="collector",fate="held"} 50' in route.ask("GET", "/metrics", headers=own).decode()
    assert json.loads(route.ask("GET", "/v1/counts", headers=own))["groups"][0]["held"] == 50
