"""A notice: what an organiser asks, in people's words, for the page on which they take part.

A protocol says what is done with numbers. What the numbers are (a question, names of columns, the outline of a city)
stands in a notice beside it, signed with the same key, so that neither a server nor a relay can ask something else in
the organiser's name.

A notice, as its organiser writes it
------------------------------------
texts
    By language (``"en"``), the fields ``title``, ``question``, ``organiser`` (who asks) and ``columns`` (a name each).
outline
    Rings of a shape in the protocol's coordinates, ``[[[x, y], ...], ...]``, drawn on the map; empty for none, and
    where points have other than two columns.

Fields of a signed notice
-------------------------
format, version
    ``"sfumato-signed-notice"``, 1.
content
    JSON text: the notice, with the field ``fingerprint`` of its protocol.
key, signature
    The organiser's public key, and its signature of ``sfumato-notice-1``, a zero byte and the content in UTF-8.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import InputError
from sfumato.public.canonical_json import parse
from sfumato.public.codec import Many, Object, Real, Schema, Text, refuse
from sfumato.services.signing import SignedProtocol, SigningKey, verified
from sfumato.shuffled.sealing import Hexadecimal
from sfumato.storage import AtomicFile, read_at_most

LARGEST = 1 << 20
SIGNED_TEXT = b"sfumato-notice-1\0"
_MOST_RINGS, _MOST_POINTS, _LONGEST, _FARTHEST = 1000, 20_000, 2000, 1e15
_LANGUAGE = re.compile("[a-z]{2}")


@dataclass(frozen=True)
class SignedNotice:
    """A notice that the organiser of a protocol signed.

    Attributes
    ----------
    content : str
        JSON text.
    key, signature : str
        In hexadecimal.

    Examples
    --------
    >>> from sfumato.local import Protocol
    >>> protocol = Protocol("l2-lsh", bandwidth=0.5, dimension=1, epsilon=1, participants=100, bounds=(0, 99), seed=7)
    >>> organiser = SigningKey.generate()
    >>> asked = {"title": "Ages", "question": "How old are you?", "organiser": "A town", "columns": ["Years"]}
    >>> signed = SignedProtocol.sign(protocol.document, organiser)
    >>> notice = SignedNotice.sign({"texts": {"en": asked}, "outline": []}, signed, organiser)
    >>> SignedNotice.read(notice.to_bytes(), signed) == notice
    True
    """

    content: str
    key: str
    signature: str

    @classmethod
    def sign(cls, notice: Any, protocol: SignedProtocol, key: SigningKey) -> SignedNotice:
        """Sign a notice for a protocol, which must have been signed with the same key."""
        _check(notice, protocol.document["dimension"])
        if key.public.hex() != protocol.key:
            raise InputError("the protocol was signed with another key: sign the notice with the organiser's")
        content = json.dumps({**notice, "fingerprint": protocol.fingerprint}, sort_keys=True, ensure_ascii=False)
        return cls(content, protocol.key, key.sign(SIGNED_TEXT + content.encode()).hex())

    def to_bytes(self) -> bytes:
        """Return the JSON form."""
        fields = {"content": self.content, "key": self.key, "signature": self.signature}
        return json.dumps({**_SCHEMA.fixed, **fields}, sort_keys=True).encode()

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write a file."""
        with AtomicFile(path, overwrite=overwrite) as file:
            file.write(self.to_bytes() + b"\n")

    @classmethod
    def read(cls, content: bytes, protocol: SignedProtocol) -> SignedNotice:
        """Read a notice, and refuse it unless it is its protocol's and its organiser's."""
        made = cls(**_SCHEMA.read(parse(content, "the notice", LARGEST)))
        signature = bytes.fromhex(made.signature)
        if made.key != protocol.key or not verified(
            bytes.fromhex(made.key), signature, SIGNED_TEXT + made.content.encode()
        ):
            raise InputError("the notice is not signed by the organiser of the protocol")
        notice = parse(made.content, "the notice", LARGEST)
        if not isinstance(notice, dict) or notice.pop("fingerprint", None) != protocol.fingerprint:
            raise InputError("the notice is another protocol's")
        _check(notice, protocol.document["dimension"])
        return made

    @classmethod
    def load(cls, path: str | Path, protocol: SignedProtocol) -> SignedNotice:
        """Read a file."""
        return cls.read(read_at_most(path, LARGEST), protocol)


class _Content(Text):
    def read(self, value: Any, path: str) -> str:
        if not isinstance(value, str):
            raise refuse(path, "text", value)
        return value  # checked as a notice


_SCHEMA = Schema(
    {"format": "sfumato-signed-notice", "version": 1},
    content=_Content(),
    key=Hexadecimal(64),
    signature=Hexadecimal(128),
)


def _check(notice: Any, dimension: int) -> None:
    """Raise `InputError` unless a notice is one for points of so many columns."""
    ring = Many(Many(Real(-_FARTHEST, _FARTHEST), 2, 2), _MOST_POINTS, 3)
    rings = Many(ring, _MOST_RINGS if dimension == 2 else 0)
    fields = Schema(texts=Object(), outline=rings).read(notice, "notice")
    if sum(map(len, fields["outline"])) > _MOST_POINTS:
        raise InputError(f"notice.outline may have {_MOST_POINTS} points; simplify it")
    if not fields["texts"]:
        raise InputError("notice.texts has no language, such as 'en'")
    text = Text(longest=_LONGEST)
    asked = Schema(title=text, question=text, organiser=text, columns=Many(text, dimension, dimension))
    for language, texts in fields["texts"].items():
        if not _LANGUAGE.fullmatch(language):
            raise refuse("notice.texts", "by language, such as 'en'", language)
        asked.read(texts, f"notice.texts.{language}")
