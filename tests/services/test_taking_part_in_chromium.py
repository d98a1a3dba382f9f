"""A person takes part in Chromium: the page, the device in it, and every server behind it, up to the release."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sfumato.local import Protocol
from sfumato.release import load
from sfumato.services.admission import IssuerKey
from sfumato.services.analyzer import AnalyzerRole
from sfumato.services.collector import CollectorRole
from sfumato.services.issuer import IssuerRole, code_hash, new_codes
from sfumato.services.limits import Limits
from sfumato.services.notice import SignedNotice
from sfumato.services.sending import Route, fetch_token, send, token_request
from sfumato.services.server import Server
from sfumato.services.shuffler import Policy, ShufflerRole
from sfumato.services.signing import SignedProtocol, SigningKey
from sfumato.services.taking_part import TakingPart
from sfumato.shuffled import AnalyzerKey
from sfumato.shuffled import Protocol as Shuffled
from tests.maps.browser import Page, browser, chromium
from tests.services.conftest import running, until
from tests.services.relay import forwarding

CLIENT = Path(__file__).parents[2] / "clients" / "js"
PEOPLE = 10
FREELY = Limits(rate=1e6, burst=1e6)
ASKED = {
    "en": {"title": "Places", "question": "Where do you live?", "organiser": "The town", "columns": ["East", "North"]},
    "de": {"title": "Orte", "question": "Wo wohnen Sie?", "organiser": "Die Stadt", "columns": ["Ost", "Nord"]},
}
OUTLINE = [[[0.1, 0.2], [0.5, 0.05], [0.9, 0.3], [0.8, 0.9], [0.3, 0.95]]]
missing = [
    name
    for name, found in (
        ("Chromium (apt-get install chromium)", chromium()),
        ("Node 20 (apt-get install nodejs)", shutil.which("node")),
        ("the packages of clients/js (make page)", (CLIENT / "node_modules" / "esbuild").exists()),
    )
    if not found
]
pytestmark = pytest.mark.skipif(
    bool(missing), reason=f"nobody takes part in a browser, for want of {', '.join(missing)}"
)


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    subprocess.run(["node", str(CLIENT / "page" / "build.mjs")], check=True)


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Page]:
    with browser(tmp_path / "profile") as made:
        yield made


def _resize(tab: Page, width: int, height: int) -> None:
    tab.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)


def _picture(tab: Page, path: Path, width: int) -> None:
    """Photograph the whole page."""
    _resize(tab, width, tab.run("document.documentElement.scrollHeight"))
    tab.settle()
    tab.screenshot(path)
    _resize(tab, width, 800)


def _shown(tab: Page, name: str) -> bool:
    return bool(tab.run(f"!document.getElementById('{name}').hidden"))


def _said(tab: Page, name: str) -> str:
    return str(tab.run(f"document.getElementById('{name}').textContent"))


def _wait(tab: Page, name: str) -> None:
    """Wait for a part of the page; whatever trouble it has is what the test says."""
    until(lambda: _shown(tab, name) or _shown(tab, "trouble"))
    assert _shown(tab, name), _said(tab, "trouble") + str(tab.problems)


def _tap(tab: Page, across: float, up: float) -> None:
    tab.run("document.getElementById('sheet').scrollIntoView({block: 'center'})")
    tab.settle()
    box = tab.run("(() => { const b = document.getElementById('sheet').getBoundingClientRect();"
                  " return [b.left, b.top, b.width, b.height]; })()")  # fmt: skip
    x, y = box[0] + across * box[2], box[1] + (1 - up) * box[3]
    for kind in ("mousePressed", "mouseReleased"):
        tab.mouse(kind, x, y, button="left", buttons=1, clickCount=1)


def _numbers(tab: Page) -> list[float]:
    return [float(tab.run(f"document.getElementById('column-{column}').value")) for column in range(2)]


def _small_contrast(tab: Page) -> list[str]:
    """Texts whose colour has less than 4.5 times the luminance of the page behind them, or the other way round."""
    return list(tab.run(_CONTRAST))


_CONTRAST = """(() => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const bad = [];
  for (const one of document.querySelectorAll("body *:not(script):not(noscript)")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !one.getClientRects().length) continue;
    const style = getComputedStyle(one);
    const [ink, paper] = one.ownerSVGElement ? [style.fill, one.ownerSVGElement] : [style.color, one];
    const [dark, bright] = [light(ink), light(behind(paper))].sort((a, b) => a - b);
    if ((bright + 0.05) / (dark + 0.05) < 4.5) bad.push(one.textContent.slice(0, 40));
  }
  return bad;
})()"""

# Every control has a name for screen readers, and every drawing one or is hidden from them.
_NAMELESS = """(() => [...document.querySelectorAll("button, input, svg, section, form")].filter((one) => {
  if (!one.getClientRects().length || one.getAttribute("aria-hidden") === "true") return false;
  const named = one.getAttribute("aria-labelledby");
  const text = named ? document.getElementById(named)?.textContent : one.getAttribute("aria-label");
  return !(text || one.textContent.trim() || (one.labels && one.labels.length));
}).map((one) => one.outerHTML.slice(0, 80)))()"""


def test_a_person_reports_to_a_collector(
    tmp_path: Path, tab: Page, local_protocol: Protocol, local_signed: SignedProtocol, organiser: SigningKey
) -> None:
    notice = SignedNotice.sign({"texts": ASKED, "outline": OUTLINE}, local_signed, organiser)
    role = CollectorRole(tmp_path / "collector", [local_signed], FREELY)
    page = TakingPart("collector", notice=notice)
    with running(Server(role, every=0.1, taking_part=page)) as address:
        _resize(tab, 375, 800)
        tab.visit(f"{address}/take-part#lang=en&organiser={'0' * 64}")
        until(lambda: _shown(tab, "trouble"))
        assert "Do not take part" in _said(tab, "trouble") and "not with the organiser's" in _said(tab, "trouble")
        assert not _shown(tab, "answer")
        tab.visit("about:blank")
        tab.visit(f"{address}/take-part#lang=en&organiser={local_signed.key}")
        _wait(tab, "answer")
        assert _said(tab, "title") == "Places" and "Where do you live?" in _said(tab, "question")
        assert "The town" in _said(tab, "parties") and "key in the link" in _said(tab, "parties")
        factor = "7.39"  # e^2, rounded upwards
        assert factor in _said(tab, "promises") and "epsilon = 2" in _said(tab, "statement")

        tab.run("document.getElementById('send').click()")  # before there is an answer
        assert "Choose your place" in _said(tab, "missing")

        _tap(tab, 0.25, 0.75)
        assert _numbers(tab) == pytest.approx([0.25, 0.75], abs=0.01)
        until(lambda: _shown(tab, "picture"))
        _picture(tab, tmp_path / "phone-local.png", 375)
        assert tab.run("document.documentElement.scrollWidth") <= 375  # nothing sticks out
        drawings = {
            tab.run("document.getElementById('again').click(); document.querySelector('.sent').outerHTML")
            for _ in range(8)
        }
        assert len(drawings) > 1  # chance, anew each time; equal with probability below 1e-6 among 10^4 patterns

        tab.run("document.getElementById('sheet').focus()")
        before = _numbers(tab)
        tab.press("ArrowRight")
        tab.press("ArrowUp", shift=True)
        assert _numbers(tab) == pytest.approx([before[0] + 0.01, before[1] + 0.1], abs=1e-3)
        assert str(_numbers(tab)[0]) in _said(tab, "map-said")

        tab.run("document.querySelector('#languages [lang=de]').click()")
        until(lambda: _said(tab, "title") == "Orte")
        assert tab.run("document.documentElement.lang") == "de"
        until(lambda: "Ihr Ort: Ost" in _said(tab, "map-said"))  # what was chosen stays
        until(lambda: _shown(tab, "picture"))
        assert (_small_contrast(tab), tab.run(_NAMELESS)) == ([], [])
        tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        assert _small_contrast(tab) == []
        _picture(tab, tmp_path / "phone-local-dark.png", 375)

        tab.run("document.getElementById('send').click()")
        _wait(tab, "done")
        assert tab.run("document.activeElement.id") == "done-title"
        where, group = local_protocol.fingerprint, 0
        release = role.release_path(where, group)
        until(lambda: release.exists() and int(load(release).count.value) == 1)
        tab.call("Page.reload")
        until(lambda: tab.run("document.readyState") == "complete" and _shown(tab, "done"))
        until(lambda: tab.run("document.querySelector('#results a')?.getAttribute('href')"))
        _picture(tab, tmp_path / "phone-done.png", 375)
        assert "haben mitgemacht" in _said(tab, "done-title") or "have taken part" in _said(tab, "done-title")

        assert role.counts(where, group)["held"] == 1  # taking part is once
        assert {"/".join(asked.split("/")[:3]) for asked in tab.requests} == {address}
        assert tab.problems == []


def test_a_person_sends_through_a_relay_to_a_shuffler(tmp_path: Path, tab: Page, organiser: SigningKey) -> None:
    with ExitStack() as stack:
        found = _shuffled(tmp_path, stack, organiser)
        signed, codes, release = found["signed"], found["codes"], found["release"]
        protocol = Shuffled.from_document(signed.document)
        for number in range(1, PEOPLE):
            token = fetch_token(Route(found["issuer"]), signed, codes[number], token_request(signed))
            submission = protocol.client(max_delta=1e-4).messages([0.5, number / PEOPLE])
            send(Route(found["shuffler"]), signed.fingerprint, 0, submission.to_bytes(), token)
        assert not release.exists()

        relay = found["relay"]
        _resize(tab, 1000, 800)
        tab.visit(f"{relay.address}/take-part#lang=en&invitation={codes[0]}")
        _wait(tab, "answer")
        assert f"at least {PEOPLE} people" in _said(tab, "promises")
        _tap(tab, 0.5, 0.5)
        until(lambda: _shown(tab, "picture"))
        _picture(tab, tmp_path / "desktop-shuffled.png", 1000)
        assert (_small_contrast(tab), tab.run(_NAMELESS)) == ([], [])
        tab.run("document.getElementById('send').click()")
        _wait(tab, "done")
        assert codes[0] not in tab.run("location.href")
        _picture(tab, tmp_path / "desktop-done.png", 1000)

        until(release.exists)
        assert int(load(release).count.value) == PEOPLE
        sent = [one for one in relay.forwarded if one.startswith("POST")]
        assert sent == [f"POST /v1/collections/{signed.fingerprint}/0/frames"]
        assert {"/".join(asked.split("/")[:3]) for asked in tab.requests} == {relay.address, found["issuer"]}
        assert not any(codes[0] in asked for asked in tab.requests)
        assert tab.problems == []


def _shuffled(folder: Path, stack: ExitStack, organiser: SigningKey) -> dict[str, Any]:
    """Run issuer, analyzer, shuffler and a relay before it, for a collection of `PEOPLE` with invitations."""
    key, tokens, mixing = AnalyzerKey.generate(), IssuerKey.generate(), SigningKey.generate()
    protocol = Shuffled(
        "gaussian", bandwidth=0.5, dimension=2, epsilon=4, delta=1e-4, participants=PEOPLE, instances=64,
        bounds=(0, 1), key=key, expires=time.strftime("%Y-%m-%d", time.gmtime(time.time() + 10**7)),
    )  # fmt: skip
    signed = SignedProtocol.sign(protocol.document, organiser, tokens.public.text, mixing.public.hex())
    codes = new_codes(PEOPLE)
    (folder / "invitations.txt").write_text("".join(f"{code_hash(code)}\n" for code in codes))
    key.save(folder / "analyzer.key")
    (folder / "shuffler").mkdir(mode=0o700)
    mixing.save(folder / "shuffler" / "server.key")
    analyzing = AnalyzerRole(folder / "analyzer", [signed], [folder / "analyzer.key"], FREELY)
    analyzer = stack.enter_context(running(Server(analyzing, every=0.1)))
    shuffling = ShufflerRole(folder / "shuffler", [signed], analyzer, Policy(participants=PEOPLE), FREELY)
    admitting = IssuerRole(folder / "issuer", [signed], [tokens], folder / "invitations.txt", FREELY)
    relay = stack.enter_context(forwarding())
    issuer = stack.enter_context(running(Server(admitting, every=60.0, origin=relay.address)))
    page = TakingPart("shuffler", issuer)
    shuffler = stack.enter_context(running(Server(shuffling, every=0.1, taking_part=page)))
    relay.target = shuffler
    release = analyzing.release_path(signed.fingerprint, 0)
    return {
        "signed": signed, "codes": codes, "release": release, "relay": relay, "issuer": issuer, "shuffler": shuffler,
    }  # fmt: skip
