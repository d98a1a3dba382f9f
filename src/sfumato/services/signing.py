"""Signed documents: a protocol as its organiser published it.

Source: Ed25519 (RFC 8032), from `cryptography`, over the canonical form of the document (`public.canonical_json`).

A device that is handed a document of its own, made for it alone, is marked by it: its report can be told from all
others. Two things stand against that. Devices pin the organiser's key, so that only the organiser can do it; and what
is published stands in a log that anyone can read and compare (`log`).

Fields of a signed protocol
---------------------------
format, version
    ``"sfumato-signed-protocol"``, 1.
document
    The protocol, see `public.document`.
issuer
    The public key that tokens are signed with (hexadecimal, see `admission`), or null: then anybody may report, any
    number of times.
shuffler
    The key (hexadecimal) under which the shuffler signs its batches, or null.
key, signature
    The organiser's public key, and its signature of all other fields.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sfumato.errors import InputError
from sfumato.public.canonical_json import canonical, parse
from sfumato.public.codec import Optional, Schema, Text
from sfumato.public.document import check_document, fingerprint
from sfumato.services.wire import BATCH_TEXT
from sfumato.shuffled.sealing import Hexadecimal
from sfumato.storage import AtomicFile, read_at_most

FORMAT, VERSION = "sfumato-signed-protocol", 1
LARGEST = 1 << 24
_LARGEST_KEY = 1000


class SigningKey:
    """A private key that signs documents, batches and log entries.

    Examples
    --------
    >>> key = SigningKey.generate()
    >>> verified(key.public, key.sign(b"text"), b"text"), verified(key.public, key.sign(b"text"), b"other")
    (True, False)
    """

    def __init__(self, private: bytes) -> None:
        try:
            self._key = Ed25519PrivateKey.from_private_bytes(private)
        except ValueError:
            raise InputError("a signing key is 32 bytes") from None
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> SigningKey:
        """Draw a new key."""
        return cls(os.urandom(32))

    @classmethod
    def load(cls, path: str | Path) -> SigningKey:
        """Read a key's file, which holds it in hexadecimal."""
        text = read_at_most(path, _LARGEST_KEY)
        try:
            return cls(bytes.fromhex(text.decode("ascii").strip()))
        except ValueError:
            raise InputError(f"{str(path)!r} holds no signing key: pass another path, or restore it") from None

    def save(self, path: str | Path) -> None:
        """Write the key to a new file that only its owner can read."""
        with AtomicFile(path, private=True) as file:
            file.write(self._key.private_bytes_raw().hex().encode() + b"\n")

    def sign(self, content: bytes) -> bytes:
        """Return the signature, 64 bytes."""
        return self._key.sign(content)


def verified(public: bytes, signature: bytes, content: bytes) -> bool:
    """Whether a signature is this key's, of this content."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True)
class Ticket:
    """What a shuffler signs of a batch, and sends before it.

    Attributes
    ----------
    checksum : str
        The batch's last 32 bytes, in hexadecimal: SHA-256 of all before.
    size : int
        Bytes of the batch.
    signature : str
        Of `BATCH_TEXT`, the checksum and the size (8 bytes, little-endian), in hexadecimal.

    Examples
    --------
    >>> key = SigningKey.generate()
    >>> ticket = Ticket.sign("ab" * 32, 1000, key)
    >>> ticket.signed_by(key.public), Ticket("ab" * 32, 1001, ticket.signature).signed_by(key.public)
    (True, False)
    """

    checksum: str
    size: int
    signature: str

    @classmethod
    def sign(cls, checksum: str, size: int, key: SigningKey) -> Ticket:
        """Sign for a batch."""
        return cls(checksum, size, key.sign(_ticket_text(checksum, size)).hex())

    def signed_by(self, public: bytes) -> bool:
        """Whether this key signed it; False for whatever is no ticket at all."""
        try:
            return verified(public, bytes.fromhex(self.signature), _ticket_text(self.checksum, self.size))
        except (ValueError, OverflowError):
            return False


def _ticket_text(checksum: str, size: int) -> bytes:
    return BATCH_TEXT + bytes.fromhex(checksum) + size.to_bytes(8, "little")


@dataclass(frozen=True)
class SignedProtocol:
    """A protocol that its organiser signed.

    Attributes
    ----------
    document : mapping
        The protocol.
    issuer, shuffler : str or None
        Public keys of who admits devices, and of who shuffles.
    key : str
        The organiser's, in hexadecimal.
    signature : str
        In hexadecimal.

    Examples
    --------
    >>> from sfumato.local import Protocol
    >>> protocol = Protocol("l2-lsh", bandwidth=0.5, dimension=2, epsilon=1, participants=100, bounds=(0, 1), seed=7)
    >>> signed = SignedProtocol.sign(protocol.document, SigningKey.generate())
    >>> SignedProtocol.read(signed.to_bytes()).fingerprint == protocol.fingerprint
    True
    """

    document: Mapping[str, Any]
    issuer: str | None
    shuffler: str | None
    key: str
    signature: str

    @classmethod
    def sign(
        cls, document: Mapping[str, Any], key: SigningKey, issuer: str | None = None, shuffler: str | None = None
    ) -> SignedProtocol:
        """Sign a protocol."""
        check_document(document)
        unsigned = cls(document, issuer, shuffler, key.public.hex(), "")
        return cls(document, issuer, shuffler, unsigned.key, key.sign(unsigned._content()).hex())

    def _content(self) -> bytes:
        return canonical(self._fields())

    def _fields(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "document": self.document,
            "issuer": self.issuer,
            "shuffler": self.shuffler,
            "key": self.key,
        }

    def to_bytes(self) -> bytes:
        """Return the canonical form."""
        return canonical({**self._fields(), "signature": self.signature})

    @classmethod
    def read(cls, content: bytes, key: str | None = None) -> SignedProtocol:
        """Read a signed protocol, and refuse it unless the signature is right.

        Parameters
        ----------
        content : bytes
            JSON, from anywhere.
        key : str, optional
            The organiser's public key as the device knows it; without one, any key that signed will do.
        """
        fields = parse(content, "the signed protocol", LARGEST)
        if not isinstance(fields, dict) or fields.get("format") != FORMAT or fields.get("version") != VERSION:
            raise InputError("this is not a signed protocol that this version of sfumato reads")
        made = cls(**_SCHEMA.read({name: fields.get(name) for name in fields if name not in ("format", "version")}))
        check_document(made.document)
        if key is not None and made.key != key:
            raise InputError(
                f"the protocol is signed with the key {made.key[:16]}..., not with the organiser's {key[:16]}...: do "
                "not take part, and tell the organiser"
            )
        if not verified(bytes.fromhex(made.key), bytes.fromhex(made.signature), made._content()):
            raise InputError("the protocol's signature is wrong: somebody changed it; do not take part")
        return made

    @classmethod
    def load(cls, path: str | Path, key: str | None = None) -> SignedProtocol:
        """Read a file."""
        return cls.read(read_at_most(path, LARGEST), key)

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write a file."""
        with AtomicFile(path, overwrite=overwrite) as file:
            file.write(self.to_bytes() + b"\n")

    @property
    def fingerprint(self) -> str:
        """The protocol's fingerprint."""
        return fingerprint(self.document)


class _Document(Text):
    def read(self, value: Any, path: str) -> Any:
        return value  # checked as a protocol


_SCHEMA = Schema(
    document=_Document(),
    issuer=Optional(Text(longest=2000)),
    shuffler=Optional(Hexadecimal(64)),
    key=Hexadecimal(64),
    signature=Hexadecimal(128),
)
