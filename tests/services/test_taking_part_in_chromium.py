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
from tests.services.person import Person
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


def test_types_and_style_of_the_page() -> None:
    for words in (["tsc", "-p", "."], ["eslint", "."]):
        done = subprocess.run(["npx", "--no-install", *words], cwd=CLIENT / "page", capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def chromium_tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def tab(chromium_tab: Page) -> Page:
    chromium_tab.problems.clear()
    chromium_tab.requests.clear()
    chromium_tab.call("Emulation.setEmulatedMedia", features=[])
    return chromium_tab


def test_a_person_reports_to_a_collector(
    tmp_path: Path, tab: Page, local_signed: SignedProtocol, organiser: SigningKey
) -> None:
    notice = SignedNotice.sign({"texts": ASKED, "outline": OUTLINE}, local_signed, organiser)
    role = CollectorRole(tmp_path / "collector", [local_signed], FREELY)
    person = Person(tab, tmp_path, 375)
    with running(Server(role, every=0.1, taking_part=TakingPart("collector", notice=notice))) as address:
        page = f"{address}/take-part#lang=en&organiser="
        person.visit(page + "0" * 64)
        until(lambda: person.sees("trouble"))
        assert "Do not take part" in person.says("trouble") and "not with the organiser's" in person.says("trouble")
        assert not person.sees("answer")
        person.visit(page + local_signed.key)
        person.waits_for("answer")
        _reads(person)
        _chooses(person)
        _changes_language(person)
        person.clicks("#send")
        person.waits_for("done")
        assert tab.run("document.activeElement.id") == "done-title"
        _comes_back(person, role.release_path(local_signed.fingerprint, 0))
        assert role.counts(local_signed.fingerprint, 0)["held"] == 1  # taking part is once
        person.asked_only(address)


def _reads(person: Person) -> None:
    assert person.says("title") == "Places" and "Where do you live?" in person.says("question")
    assert "The town" in person.says("parties") and "key in the link" in person.says("parties")
    assert "7.39" in person.says("promises")  # e^2, rounded upwards
    assert "epsilon = 2" in person.says("statement")
    person.clicks("#send")  # before there is an answer
    assert "Choose your place" in person.says("missing")


def _chooses(person: Person) -> None:
    person.taps(0.25, 0.75)
    assert person.numbers() == pytest.approx([0.25, 0.75], abs=0.01)
    until(lambda: person.sees("picture"))
    person.photographs("phone-local")
    person.can_use_it()
    again = "document.getElementById('again').click(); document.querySelector('.truth').outerHTML"
    drawings = {person.tab.run(again) for _ in range(12)}
    assert len(drawings) > 1  # another pattern each time: all alike with probability below 1e-6 among a thousand
    person.tab.run("document.getElementById('sheet').focus()")
    before = person.numbers()
    person.tab.press("ArrowRight")
    person.tab.press("ArrowUp", shift=True)
    assert person.numbers() == pytest.approx([before[0] + 0.01, before[1] + 0.1], abs=1e-3)
    assert str(person.numbers()[0]) in person.says("map-said")


def _changes_language(person: Person) -> None:
    person.clicks("#languages [lang=de]")
    until(lambda: person.says("title") == "Orte")
    assert person.tab.run("document.documentElement.lang") == "de"
    until(lambda: "Ihr Ort: Ost" in person.says("map-said"))  # what was chosen stays
    until(lambda: person.sees("picture"))
    person.can_use_it()
    person.tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    person.can_use_it()
    person.photographs("phone-local-dark")


def _comes_back(person: Person, release: Path) -> None:
    """Come back after the release, and once more without a receipt, as if its answer had been lost."""
    until(lambda: release.exists() and int(load(release).count.value) == 1)
    digest = person.tab.run("document.querySelector('#receipt code').textContent")
    address = person.tab.run("location.href")
    person.visit(address)
    person.waits_for("done")
    assert "haben mitgemacht" in person.says("done-title")  # in the language that was chosen
    until(lambda: person.tab.run("document.querySelector('#results a')?.getAttribute('href')"))
    person.photographs("phone-done")
    person.tab.run("localStorage.clear()")
    person.visit(address)
    until(lambda: "wartet" in person.says("trouble"))
    person.clicks("#trouble-help button")
    until(lambda: person.sees("done"))
    assert person.tab.run("document.querySelector('#receipt code').textContent") == digest


def test_by_the_keyboard_alone(tmp_path: Path, tab: Page, local_signed: SignedProtocol) -> None:
    role = CollectorRole(tmp_path / "collector", [local_signed], FREELY)
    person = Person(tab, tmp_path, 1000)
    with running(Server(role, every=60.0)) as address:
        person.visit(f"{address}/take-part#lang=en")
        person.waits_for("answer")
        person.tabs_to("#languages [lang=de]")
        tab.press("Enter")
        until(lambda: tab.run("document.activeElement.matches('[lang=de][aria-pressed=true]')"))
        until(lambda: person.says("progress") == "")
        person.tabs_to("#sheet")
        tab.press("ArrowLeft", shift=True)
        tab.press("ArrowDown")
        assert "0,49" in person.says("map-said")
        until(lambda: person.sees("picture"))
        person.tabs_to("#again")
        drawings = set()
        while len(drawings) < 2:  # another pattern sooner or later
            drawings.add(tab.run("document.querySelector('.truth').outerHTML"))
            tab.press("Enter")
        person.tabs_to("#send")
        person.photographs("desktop-focus")
        tab.press(" ")
        person.waits_for("done")
        assert tab.run("document.activeElement.id") == "done-title"
        assert role.counts(local_signed.fingerprint, 0)["held"] == 1


def test_numbers_where_there_is_no_map(tmp_path: Path, tab: Page, organiser: SigningKey) -> None:
    protocol = Protocol("laplacian", bandwidth=5.0, dimension=1, epsilon=1, participants=100, bounds=(0, 99))
    signed = SignedProtocol.sign(protocol.document, organiser)
    role = CollectorRole(tmp_path / "collector", [signed], FREELY)
    person = Person(tab, tmp_path, 375)
    with running(Server(role, every=60.0)) as address:
        person.visit(f"{address}/take-part#lang=en")
        person.waits_for("answer")
        assert not person.sees("map") and person.says("question") == ""
        for wrong in ("", "x", "100", "-1"):
            person.enters(0, wrong)
            person.clicks("#send")
            assert "from 0 to 99" in person.says("missing") and not person.sees("done")
        person.enters(0, "41,5")
        assert person.says("missing") == ""
        until(lambda: person.sees("picture"))
        person.photographs("phone-number")
        person.can_use_it()
        person.clicks("#send")
        person.waits_for("done")
        assert role.counts(signed.fingerprint, 0)["held"] == 1
        person.asked_only(address)


def test_a_person_sends_through_a_relay_to_a_shuffler(tmp_path: Path, tab: Page, organiser: SigningKey) -> None:
    with ExitStack() as stack:
        found = _shuffled(tmp_path, stack, organiser)
        signed, codes, release, relay = (found[name] for name in ("signed", "codes", "release", "relay"))
        protocol = Shuffled.from_document(signed.document)
        for number in range(1, PEOPLE):
            token = fetch_token(Route(found["issuer"]), signed, codes[number], token_request(signed))
            submission = protocol.client(max_delta=1e-4).messages([0.5, number / PEOPLE])
            send(Route(found["shuffler"]), signed.fingerprint, 0, submission.to_bytes(), token)
        assert not release.exists()

        person = Person(tab, tmp_path, 1000)
        person.visit(f"{relay.address}/take-part#lang=en&invitation={codes[0]}")
        person.waits_for("answer")
        assert f"at least {PEOPLE} people" in person.says("promises")
        person.taps(0.5, 0.5)
        until(lambda: person.sees("picture"))
        person.photographs("desktop-shuffled")
        person.can_use_it()
        person.clicks("#send")
        person.waits_for("done")
        assert codes[0] not in tab.run("location.href")
        person.photographs("desktop-done")

        until(release.exists)
        assert int(load(release).count.value) == PEOPLE
        sent = [one for one in relay.forwarded if one.startswith("POST")]
        assert sent == [f"POST /v1/collections/{signed.fingerprint}/0/frames"]
        assert not any(codes[0] in asked for asked in tab.requests if "#" not in asked)
        person.asked_only(relay.address, found["issuer"])


def test_a_class_and_bits_among_others(tmp_path: Path, tab: Page, organiser: SigningKey) -> None:
    protocol = Shuffled(
        "gaussian", bandwidth=3.0, dimension=1, epsilon=2, delta=1e-4, participants=20, classes=["north", "south"],
        label_epsilon=1, bitsum="poisson", instances=2, bounds=(0, 10), key=AnalyzerKey.generate(),
    )  # fmt: skip
    signed = SignedProtocol.sign(protocol.document, organiser, None, "0" * 64)
    role = ShufflerRole(tmp_path / "shuffler", [signed], "http://127.0.0.1:1", Policy(participants=20), FREELY)
    person = Person(tab, tmp_path, 375)
    with running(Server(role, every=60.0)) as address:
        person.visit(f"{address}/take-part#lang=en")
        person.waits_for("answer")
        assert "change your group by chance" in person.says("promises")
        person.enters(0, "4")
        until(lambda: person.sees("picture"))
        assert "everybody adds others by chance" in person.says("picture-before") and not person.sees("hundred-people")
        person.clicks("#send")
        assert "Choose your group" in person.says("missing")
        person.clicks('#labels input[value="1"]')
        assert person.says("missing") == ""
        person.photographs("phone-class")
        person.can_use_it()
        person.clicks("#send")
        person.waits_for("done")
        assert sum(role.counts(signed.fingerprint, group)["held"] for group in range(2)) == 1
        person.asked_only(address)


def test_an_answer_that_is_sent_again_goes_to_its_own_class(tmp_path: Path, tab: Page, organiser: SigningKey) -> None:
    protocol = Shuffled(
        "gaussian", bandwidth=3.0, dimension=1, epsilon=2, delta=1e-4, participants=20, classes=["north", "south"],
        instances=2, bounds=(0, 10), key=AnalyzerKey.generate(),
    )  # fmt: skip
    signed = SignedProtocol.sign(protocol.document, organiser, None, "0" * 64)
    role = ShufflerRole(tmp_path / "shuffler", [signed], "http://127.0.0.1:1", Policy(participants=20), FREELY)
    person = Person(tab, tmp_path, 375)
    with running(Server(role, every=60.0)) as address:
        for again in (False, True):
            person.visit(f"{address}/take-part#lang=en")
            if again:
                until(lambda: "waiting" in person.says("trouble"))
                person.clicks("#trouble-help button")
            else:
                person.waits_for("answer")
                person.enters(0, "4")
                person.clicks('#labels input[value="1"]')
                person.clicks("#send")
            until(lambda: person.sees("done"))
            tab.run("localStorage.clear()")  # as if the receipt had been lost
        assert [role.counts(signed.fingerprint, group)["held"] for group in range(2)] == [0, 1]
        assert all("/1/frames" in asked for asked in tab.requests if "/frames" in asked)


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
