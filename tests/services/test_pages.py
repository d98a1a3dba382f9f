"""The OpenAPI document says what servers answer; the status page shows no private facts without the key."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sfumato.local import Protocol
from sfumato.services.collector import CollectorRole
from sfumato.services.limits import Limits
from sfumato.services.page import status_page
from sfumato.services.sending import Route
from sfumato.services.server import Server
from sfumato.services.signing import SignedProtocol
from sfumato.services.wire import FRAMES, framed, path
from tests.maps.browser import browser, chromium
from tests.services.conftest import SECONDS, running

needs_chromium = pytest.mark.skipif(chromium() is None, reason="Chromium is not installed (apt-get install chromium)")
REPORTS = 37


@pytest.fixture
def address(tmp_path: Path, local_signed: SignedProtocol, local_protocol: Protocol) -> Iterator[str]:
    role = CollectorRole(tmp_path / "collector", [local_signed], Limits(rate=1e6, burst=1e6))
    with running(Server(role, every=0.05)) as made:
        reports = [local_protocol.client().report([0.5, 0.5]) for _ in range(REPORTS)]
        where = path(local_protocol.fingerprint, 0, "frames")
        Route(made).ask("POST", where, framed(reports), {"content-type": FRAMES})
        yield made


def _asked(address: str, method: str, where: str, headers: dict[str, str]) -> tuple[int, str, bytes]:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
    try:
        connection.request(method, where, b"x" if method in ("POST", "PUT") else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("content-type", "").partition(";")[0], answer.read()
    finally:
        connection.close()


def test_the_document_says_what_the_server_answers(address: str, local_protocol: Protocol) -> None:
    document = json.loads(Route(address).ask("GET", "/openapi.json"))
    assert document["openapi"] == "3.1.0" and document["info"]["title"] == "sfumato collector"
    names = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]
    assert len(names) == len(set(names))
    for where, item in document["paths"].items():
        for method, operation in item.items():
            for fingerprint in (local_protocol.fingerprint, "0" * 64):
                filled = where.replace("{fingerprint}", fingerprint).replace("{group}", "0")
                for headers in ({}, {"content-type": FRAMES}):
                    status, kind, _ = _asked(address, method.upper(), filled, headers)
                    assert str(status) in operation["responses"], (method, filled, status)
                    assert kind in operation["responses"][str(status)]["content"] or status == 503
            required = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert required == {name for name in ("fingerprint", "group") if f"{{{name}}}" in where}


def test_head_is_get_without_a_body(address: str) -> None:
    for where in ("/", "/healthz", "/openapi.json", "/v1/collections"):
        status, kind, body = _asked(address, "HEAD", where, {})
        assert (status, body) == (200, b"") and kind


def test_a_group_with_many_digits_is_unknown(address: str, local_protocol: Protocol) -> None:
    for group in ("9" * 6000, "-1", "1.0", "٣".encode().hex(), "%D9%A3"):
        where = f"/v1/collections/{local_protocol.fingerprint}/{group}/status"
        assert _asked(address, "GET", where, {})[0] == 404


def test_the_page_shows_nothing_private(address: str, local_protocol: Protocol) -> None:
    text = Route(address).ask("GET", "/").decode()
    for name in (local_protocol.fingerprint, local_protocol.fingerprint[:8]):  # digits of any kind
        text = text.replace(name, "")
    assert str(REPORTS) not in text.partition("<h2>Collections")[2]
    assert "src=" not in text and "http:" not in text and "https:" not in text
    assert "<td>anybody, any number of times<td>" in text  # there is no issuer
    evil = {"fingerprint": "<script>alert(1)</script>", "group": 0, "released": False, "issuer": "<script>alert(2)"}
    told = status_page("collector", "<b>", [evil])
    assert b"<script>alert" not in told and b"<td>each invitation once<td>" in told


@needs_chromium
def test_the_page_in_a_browser(address: str, tmp_path: Path, local_protocol: Protocol) -> None:
    key = (tmp_path / "collector" / "operator.key").read_text().strip()
    with browser(tmp_path / "profile") as tab:
        tab.visit(f"{address}/")
        assert tab.run("document.querySelectorAll('#collections tr').length") == 2
        submit = "document.querySelector('#ask button').click()"
        done = "new Promise((done) => setTimeout(done, 50))"
        tab.run(submit)
        for _ in range(200):
            tab.run(done)
            if tab.run("document.getElementById('said').textContent"):
                break
        assert "organiser" in tab.run("document.getElementById('said').textContent")
        assert tab.run("document.getElementById('counts').textContent") == ""
        tab.run(f"document.getElementById('key').value = '{key}'; {submit}")
        for _ in range(200):
            tab.run(done)
            if tab.run("document.querySelectorAll('#counts tr').length"):
                break
        assert f"held{REPORTS}" in tab.run("document.getElementById('counts').textContent")
        assert {"/".join(asked.split("/")[:3]) for asked in tab.requests} == {address}
        assert not any(key in asked for asked in tab.requests)
        assert [problem for problem in tab.problems if "401" not in problem] == []
        tab.screenshot(tmp_path / "page.png")
