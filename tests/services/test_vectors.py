"""The test vectors of docs/wire.md: they are what the code makes, and servers answer as they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sfumato.public.canonical_json import canonical
from sfumato.services.admission import IssuerPublicKey
from sfumato.services.collector import CollectorRole
from sfumato.services.log import read_log
from sfumato.services.sending import RefusedError, Route
from sfumato.services.server import Server
from sfumato.services.signing import SignedProtocol, Ticket, verified
from sfumato.services.wire import CODES, FRAMES, Fate
from sfumato.shuffled.messages import Submission
from tests.services.conftest import running
from tests.services.make_vectors import FOLDER, all_vectors

WIRE = Path(__file__).parents[2] / "docs" / "wire.md"


def _read(name: str) -> dict:  # type: ignore[type-arg]
    return dict(json.loads((FOLDER / f"{name}.json").read_text()))


@pytest.mark.exact
def test_they_are_what_the_code_makes(tmp_path: Path) -> None:
    made = all_vectors(tmp_path)
    assert sorted(made) == sorted(path.stem for path in FOLDER.glob("*.json"))
    for name, content in made.items():
        assert json.loads(json.dumps(content)) == _read(name), f"run python -m tests.services.make_vectors ({name})"


def test_a_server_answers_as_they_say(tmp_path: Path) -> None:
    signed = SignedProtocol.read(json.dumps(_read("signatures")["signed protocol"]).encode())
    found = _read("requests")
    with running(Server(CollectorRole(tmp_path / "collector", [signed]))) as address:
        route, headers = Route(address, tries=1), {"content-type": FRAMES}
        for case in found["cases"]:
            answer = route.ask("POST", found["path"], bytes.fromhex(case["body"]), headers)
            assert answer.hex() == case["receipt"], case["name"]
        for body in found["not frames"]:
            with pytest.raises(RefusedError, match="frames:"):
                route.ask("POST", found["path"], bytes.fromhex(body), headers)


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
    assert [path.name for path in FOLDER.glob("*.json") if path.name not in text] == []
