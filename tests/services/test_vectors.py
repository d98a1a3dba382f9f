"""The test vectors of docs/wire.md: they are what the code makes, and servers answer as they say."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sfumato.public.canonical_json import canonical
from sfumato.services.admission import IssuerPublicKey
from sfumato.services.collector import CollectorRole
from sfumato.services.issuer import IssuerRole
from sfumato.services.log import read_log
from sfumato.services.sending import RefusedError, Route
from sfumato.services.server import Server
from sfumato.services.signing import SignedProtocol, SigningKey, Ticket, verified
from sfumato.services.store import CLOSED, OPEN
from sfumato.services.wire import CODES, FRAMES, Fate, path
from sfumato.shuffled.messages import Submission
from tests.services.conftest import SECONDS, running
from tests.services.make_vectors import FOLDER, all_vectors, issuer_key, protocol

WIRE = Path(__file__).parents[2] / "docs" / "wire.md"


def _read(name: str) -> dict:  # type: ignore[type-arg]
    return dict(json.loads((FOLDER / f"{name}.json").read_text()))


@pytest.mark.exact
def test_they_are_what_the_code_makes(tmp_path: Path) -> None:
    made = all_vectors(tmp_path)
    assert sorted(made) == sorted(file.stem for file in FOLDER.glob("*.json"))
    for name, content in made.items():
        assert json.loads(json.dumps(content)) == _read(name), f"run python -m tests.services.make_vectors ({name})"


def test_a_server_gives_their_receipts(tmp_path: Path) -> None:
    found = _read("requests")
    signed = [SignedProtocol.read(json.dumps(one).encode()) for one in found["signed protocols"]]
    role, headers = CollectorRole(tmp_path / "collector", signed), {"content-type": found["content-type"]}
    with running(Server(role)) as address:
        closed, where = role.intakes[signed[2].fingerprint, 0].store, found["cases"][0]["path"]
        route = Route(address, tries=1)
        route.ask("POST", path(signed[2].fingerprint, 0, "frames"), bytes.fromhex(found["before the end"]), headers)
        closed.advance(OPEN, CLOSED)
        for case in found["cases"]:
            answer = route.ask("POST", case["path"], bytes.fromhex(case["body"]), headers)
            assert answer.hex() == case["receipt"], case["name"]
        for body in found["not frames"]:
            with pytest.raises(RefusedError, match="frames:"):
                route.ask("POST", where, bytes.fromhex(body), headers)
    assert {byte for case in found["cases"] for byte in bytes.fromhex(case["receipt"])} == set(Fate)


def test_a_server_says_what_they_say(tmp_path: Path) -> None:
    found, signed = _read("answers"), _read("signatures")["signed protocol"]
    (tmp_path / "collector").mkdir()
    SigningKey(bytes.fromhex(found["server private"])).save(tmp_path / "collector" / "server.key")
    with running(
        Server(CollectorRole(tmp_path / "collector", [SignedProtocol.read(json.dumps(signed).encode())]))
    ) as at:
        parts = urlsplit(at)
        for case in found["cases"]:
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
            connection.request(case["method"], case["path"])
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())) == (case["status"], case["answer"]), case["path"]
            connection.close()


def test_an_issuer_answers_as_they_say(tmp_path: Path) -> None:
    found = _read("token")
    (tmp_path / "hashes").write_text(found["invitation hash"] + "\n")
    signed = SignedProtocol.sign(protocol().document, SigningKey.generate(), found["issuer"])
    role = IssuerRole(tmp_path / "issuer", [signed], [issuer_key()], tmp_path / "hashes")
    with running(Server(role)) as address:
        route, where = Route(address, tries=1), f"/v1/collections/{found['fingerprint']}/token"
        for _ in range(2):
            answer = route.ask("POST", where, bytes.fromhex(found["request"]), {"content-type": FRAMES})
            assert answer.hex() == found["answer"]
        for case in found["refused"]:
            with pytest.raises(RefusedError) as refused:
                route.ask("POST", where, bytes.fromhex(case["request"]), {"content-type": FRAMES})
            assert f"{case['problem']['code']}: {case['problem']['title']} {case['problem']['detail']}" in str(refused)


def test_they_hold_by_themselves() -> None:
    """Without the code that made them: signatures, tokens, the log, the batch."""
    signatures, token, batch = _read("signatures"), _read("token"), _read("batch")
    signed = signatures["signed protocol"]
    text = canonical({name: value for name, value in signed.items() if name != "signature"})
    assert text.hex() == signatures["signed text"]
    assert verified(bytes.fromhex(signatures["organiser"]), bytes.fromhex(signed["signature"]), text)
    lines = b"".join(json.dumps(entry).encode() + b"\n" for entry in signatures["log"])
    assert len(read_log(lines, signatures["server"])) == 2
    issuer = IssuerPublicKey(token["issuer"])
    assert issuer.admits(bytes.fromhex(token["token"]), token["fingerprint"])
    headers = batch["headers"]
    ticket = Ticket(headers["sfumato-checksum"], int(headers["content-length"]), headers["sfumato-signature"])
    assert ticket.signed_by(bytes.fromhex(batch["shuffler"]))
    assert len(bytes.fromhex(batch["batch"])) == ticket.size
    assert len(Submission.from_bytes(bytes.fromhex(batch["submission"]))) == 3


def test_the_page_names_every_code_and_fate() -> None:
    text = WIRE.read_text()
    assert [code for code in CODES if f"`{code}`" not in text] == []
    assert [fate.name for fate in Fate if f"| {fate.value} | `{fate.name.lower()}`" not in text] == []
    assert [file.name for file in FOLDER.glob("*.json") if file.name not in text] == []
