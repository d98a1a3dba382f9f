"""What servers and organisers publish, as a device reads it: listings, signed protocols, logs, notices, answers.

Documents are signed again after they were altered, by the key that the device pins: only checks of what they say can
refuse them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.case import Format
from tests.fuzz.formats.protocols import documents
from tests.fuzz.grammar import Grammar, altered_bytes
from tests.fuzz.library import (
    BlindRequest,
    IssuerKey,
    LocalProtocol,
    Route,
    SfumatoError,
    SignedNotice,
    SignedProtocol,
    SigningKey,
    canonical,
    fetch_protocol,
    fetch_token,
    frames,
    head,
    send,
    token_request,
)

KEY = SigningKey(bytes(range(32)))
NOTICE_TEXT = b"sfumato-notice-1\0"


class Conversation(Route):
    """A way to a server that answers what a case says, in turn."""

    def __init__(self, answers: Iterable[tuple[int, bytes]]) -> None:
        super().__init__("http://server.example", tries=1)
        object.__setattr__(self, "answers", iter(answers))

    def _once(self, method: str, where: str, body: Any, headers: Any) -> tuple[int, str, bytes]:
        connection, prefix = self._connection()  # made and not opened: it checks the path as a real one does
        connection.putrequest(method, prefix + where)
        status, answer = next(self.answers)  # type: ignore[attr-defined]
        return status, "", answer


class Answers(Format[Any]):
    """All that a server answers to a device that takes part."""

    name = "answers"
    share = 60.0

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """Honest conversations, with tokens and without."""
        self.issuer = IssuerKey.generate()
        found: list[tuple[str, Any]] = []
        for name, document in documents("local")[::4]:
            for issuer in (None, self.issuer.public.text):
                signed = SignedProtocol.sign(document, KEY, issuer)
                entry = {"number": 0, "time": "2027-01-31T00:00:00Z", "event": "opened", "previous": head([])}
                found.append(
                    (
                        f"{name} {'open' if issuer is None else 'by invitation'}",
                        {
                            "listed": {"collections": [{"fingerprint": signed.fingerprint}], "key": KEY.public.hex()},
                            "protocol": json.loads(signed.to_bytes()),
                            "log": [{**entry, "fingerprint": signed.fingerprint}],
                            "receipt": [0],
                            "problem": {"status": 409, "code": "closed", "title": "The collection is over."},
                        },
                    )
                )
        for _, document in found:
            self._mend(document)
        self.grammar = Grammar(document for _, document in found)
        return [(name, json.dumps(document)) for name, document in found]

    def copy(self, seed: Any) -> Any:
        """Parse it anew."""
        return json.loads(seed)

    def alter(self, content: Any, random: Random) -> Any:
        """Change one of the answers."""
        return self.grammar.alter(content, random)

    def encode(self, content: Any, random: Random) -> bytes:
        """Sign protocol and log, and let listing and log name the protocol."""
        if isinstance(content, dict) and random.random() < 0.8:
            with suppress(SfumatoError, ValueError, TypeError, KeyError, AttributeError, RecursionError, LookupError):
                self._mend(content)
        return json.dumps(content).encode()

    def _mend(self, content: dict[str, Any]) -> None:
        protocol = content["protocol"]
        protocol["signature"] = KEY.sign(
            canonical({name: protocol[name] for name in protocol if name != "signature"})
        ).hex()
        fingerprint = SignedProtocol.read(json.dumps(protocol).encode()).fingerprint
        content["listed"]["collections"][-1]["fingerprint"] = content["log"][0]["fingerprint"] = fingerprint
        entries: list[dict[str, Any]] = []
        for entry in content["log"]:
            unsigned = {name: entry[name] for name in entry if name != "signature"} | {"previous": head(entries)}
            entries.append({**unsigned, "signature": KEY.sign(canonical(unsigned)).hex()})
        content["log"] = entries

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Take part, as far as the answers allow."""
        try:
            said = json.loads(content)
        except (ValueError, RecursionError):
            said = {}
        said = said if isinstance(said, dict) else {}
        log = said.get("log")
        lines = [json.dumps(entry).encode() for entry in (log if isinstance(log, list) else [log])]
        answers = [json.dumps(said.get("listed")).encode(), json.dumps(said.get("protocol")).encode()]
        way = Conversation((200, answer) for answer in [*answers, b"\n".join(lines)])
        signed = fetch_protocol(way, KEY.public.hex())
        token = self._token(signed, random) if signed.issuer is not None else b""
        LocalProtocol.from_document(signed.document)
        problem = said.get("problem")
        status = problem.get("status") if isinstance(problem, dict) else None
        with suppress(SfumatoError):
            bad = max(status, 300) if isinstance(status, int) else 400
            send(Conversation([(bad, json.dumps(problem).encode())]), signed.fingerprint, 0, b"report", token)
        given = said.get("receipt")
        receipt = bytes(one % 256 for one in given if isinstance(one, int)) if isinstance(given, list) else b""
        send(Conversation([(200, receipt)]), signed.fingerprint, 0, b"report", token)

    def _token(self, signed: SignedProtocol, random: Random) -> bytes:
        drawn = token_request(signed).to_bytes()
        with suppress(SfumatoError):  # what the device kept was damaged, and the issuer answers anything
            odd = Conversation([(200, random.randbytes(random.choice([0, 1, 256])))])
            fetch_token(odd, signed, "code", BlindRequest.from_bytes(altered_bytes(drawn, random)))
        asked = BlindRequest.from_bytes(drawn)
        return fetch_token(Conversation([(200, self.issuer.sign_blindly(asked.blinded))]), signed, "code", asked)


class Notices(Format[Any]):
    """What is asked in people's words, signed for one protocol."""

    name = "notices"
    share = 60.0

    def make_seeds(self) -> Iterable[tuple[str, Any]]:
        """A notice with an outline, and one without."""
        made = {"bandwidth": 0.5, "epsilon": 1, "participants": 100, "bounds": (0, 9), "seed": 7}
        self.protocols = {
            f"{size} columns": SignedProtocol.sign(LocalProtocol("l2-lsh", dimension=size, **made).document, KEY)
            for size in (1, 2)
        }
        found = []
        for size, (name, signed) in enumerate(self.protocols.items(), 1):
            text = {"title": "Ages", "question": "How old?", "organiser": "A town", "columns": ["Years"] * size}
            ring = [[0, 0], [9.0, 0], [9, 9], [0, 0]]
            notice = {"texts": {"en": text, "de": text}, "outline": [ring] * (size - 1)}
            found.append((name, {**notice, "fingerprint": signed.fingerprint}))
        self.grammar = Grammar(document for _, document in found)
        return [(name, json.dumps(document)) for name, document in found]

    def copy(self, seed: Any) -> Any:
        """Parse it anew."""
        return json.loads(seed)

    def alter(self, content: Any, random: Random) -> Any:
        """Change the notice."""
        return self.grammar.alter(content, random)

    def encode(self, content: Any, random: Random) -> bytes:
        """Sign it."""
        text = json.dumps(content, ensure_ascii=random.random() < 0.5)
        signature = KEY.sign(NOTICE_TEXT + text.encode(errors="replace")).hex()
        fields = {"format": "sfumato-signed-notice", "version": 1, "content": text, "signature": signature}
        return json.dumps({**fields, "key": KEY.public.hex()}).encode()

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Read it as a server does, from a file."""
        (folder / "notice.json").write_bytes(content)
        notice = SignedNotice.load(folder / "notice.json", self.protocols[seed])
        assert SignedNotice.read(notice.to_bytes(), self.protocols[seed]) == notice


class Frames(Format[bytes]):
    """Bodies of frames, which anyone may send to a server."""

    name = "frames"
    share = 20.0

    def make_seeds(self) -> Iterable[tuple[str, bytes]]:
        """A few frames."""
        return [("frames", b"".join(len(one).to_bytes(4, "little") + one for one in (b"", b"ab", bytes(300))))]

    def copy(self, seed: bytes) -> bytes:
        """Bytes are not altered in place."""
        return seed

    def alter(self, content: bytes, random: Random) -> bytes:
        """Change any bytes."""
        return altered_bytes(content, random)

    def encode(self, content: bytes, random: Random) -> bytes:
        """There is no checksum."""
        return content

    def use(self, content: bytes, seed: str, folder: Path, random: Random) -> None:
        """Take them apart."""
        assert sum(map(len, found := frames(content))) + 4 * len(found) == len(content)
